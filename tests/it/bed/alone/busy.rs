//! Groups that are dropped while the operator is busy.

use http::Method;

use crate::bed::*;

/// The operator makes the pods of one spec in one go, however long that takes: those of a group that was dropped meanwhile
/// come when its entry may be gone.
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_that_is_dropped_while_the_operator_is_busy_leaves_no_pods() -> Outcome {
    let bed = Bed::new("busy").await?;
    let raygate = bed.raygate(&[]).await?;
    let first = json!({"name": "demo", "workerGroups": {"w": {"replicas": 1, "maxReplicas": 260, "cpu": "1m", "memory": "1Mi"}}});
    assert_eq!(raygate.post("/clusters", &first).await?.status, 201);
    let group = |replicas: u32| json!({"replicas": replicas, "maxReplicas": 500, "cpu": "1m", "memory": "1Mi"});
    let body = json!({"workerGroups": {"w": {"replicas": 260, "maxReplicas": 260}, "z": group(3)}});
    assert_eq!(
        raygate
            .send(
                Method::PATCH,
                "/clusters/demo",
                &[("content-type", "application/merge-patch+json")],
                body.to_string()
            )
            .await?
            .status,
        200
    );
    let pods: Api<Pod> = Api::namespaced(bed.client.clone(), &bed.namespace);
    let count = async |group: &str| -> Outcome<usize> {
        Ok(pods.list(&ListParams::default().labels(&format!("ray.io/group={group}"))).await?.items.len())
    };
    eventually("the operator has begun", async || Ok((count("w").await? > 5).then_some(()))).await?;
    let answer = raygate.send(Method::DELETE, "/clusters/demo/workerGroups/z", &[("if-match", "*")], "").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    eventually("the entry is gone", async || {
        let held = raygate.get("/clusters/demo/manifest").await?.json();
        Ok(held["metadata"]["annotations"].get("raygate.dev/dropped-groups").is_none().then_some(()))
    })
    .await?;
    eventually("all pods are there", async || Ok((count("w").await? >= 260).then_some(()))).await?;
    // What the operator makes, it makes in one go: it has been through the groups behind this one when it says so.
    eventually("the operator has seen what is wanted", async || {
        let held = raygate.get("/clusters/demo/manifest").await?.json();
        let (seen, wanted) = (&held["status"]["observedGeneration"], &held["metadata"]["generation"]);
        Ok((seen == wanted).then_some(()))
    })
    .await?;
    assert_eq!(count("z").await?, 0, "orphans: {}", raygate.get("/clusters/demo").await?.json()["status"]);
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202, "its pods cost whoever comes next");
    Ok(())
}
