//! Fields that somebody else manages, on a real control plane.

use http::Method;

use super::*;

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn who_changes_what_another_tool_manages_is_told() -> Outcome {
    let bed = Bed::new("managed").await?;
    let raygate = bed.raygate(&[]).await?;
    let document =
        json!({"name": "demo", "suspended": true, "labels": {"team": "a"}, "workerGroups": {"w": {"cpu": "1"}}});
    assert_eq!(raygate.post("/clusters", &document).await?.status, 201);
    let applied = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo, labels: {tier: gold}}\n";
    let apply = ["apply", "--server-side", "--field-manager=argocd-controller", "-f", "-"];
    bed.kubectl(&apply, applied).await?;

    let patch = async |body: Value| -> Outcome<Vec<(String, String)>> {
        let headers = [("content-type", "application/json")];
        let answer = raygate.send(Method::PATCH, "/clusters/demo", &headers, body.to_string()).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let warnings = answer.json()["warnings"].as_array().cloned().unwrap_or_default();
        let told = warnings.iter().filter(|warning| warning["code"] == "MANAGED_BY_OTHER");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(told.map(|warning| (text(&warning["pointer"]), text(&warning["message"]))).collect())
    };
    assert_eq!(
        patch(json!({"labels": {"team": "b"}, "workerGroups": {"w": {"cpu": "2"}}})).await?,
        [],
        "it is raygate's"
    );
    let told = patch(json!({"labels": {"tier": "silver"}})).await?;
    let [(pointer, message)] = told.as_slice() else { return Err(format!("{told:?}").into()) };
    assert_eq!(pointer, "/labels");
    assert!(message.contains("`argocd-controller`"), "{message}");
    Ok(())
}
