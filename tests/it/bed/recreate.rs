//! Restarts where the operator replaces all nodes after a change, on a real control plane.

use http::Method;

use super::*;

async fn made(raygate: &Raygate, name: &str, more: Value) -> Outcome {
    let group = json!({"replicas": 1, "maxReplicas": 5, "cpu": "1"});
    let mut document = json!({"name": name, "workerGroups": {"w": group, "v": group}});
    for (member, value) in more.as_object().ok_or("no object")? {
        document[member] = value.clone();
    }
    let answer = raygate.post("/clusters", &document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    eventually("READY", async || {
        let cluster = raygate.get(&format!("/clusters/{name}")).await?.json();
        Ok((cluster["status"]["state"] == "READY").then_some(()))
    })
    .await
}

/// The heads that there have been until all is finished and nothing has changed for some seconds.
async fn heads(bed: &Bed, raygate: &Raygate, name: &str) -> Outcome<Vec<String>> {
    let pods: Api<Pod> = Api::namespaced(bed.client.clone(), &bed.namespace);
    let selected = ListParams::default().labels("ray.io/node-type=head");
    let mut heads: Vec<String> = Vec::new();
    let mut still = 0;
    while still < 100 {
        for pod in pods.list(&selected).await?.items {
            let name = pod.metadata.name.unwrap_or_default();
            if !heads.contains(&name) {
                heads.push(name);
                still = 0;
            }
        }
        let annotations =
            raygate.get(&format!("/clusters/{name}/manifest")).await?.json()["metadata"]["annotations"].clone();
        let begun =
            ["raygate.dev/restart", "raygate.dev/dropped-groups"].iter().any(|key| annotations.get(key).is_some());
        still = if begun { 0 } else { still + 1 };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(heads)
}

const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_that_drops_a_group_recreates_once() -> Outcome {
    let bed = Bed::new("recreate").await?;
    let raygate = bed.raygate(&[]).await?;
    made(&raygate, "demo", json!({"upgradeStrategy": {"type": "Recreate"}})).await?;
    let body = json!({"head": {"env": {"A": "b"}}, "workerGroups": {"w": null}});
    assert_eq!(
        raygate.send(Method::PATCH, "/clusters/demo?restart=true", &[MERGE], body.to_string()).await?.status,
        200
    );
    let heads = heads(&bed, &raygate, "demo").await?;
    assert_eq!(heads.len(), 2, "the old and the new: {heads:?}");
    Ok(())
}
