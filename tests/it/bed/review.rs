//! What a review found, on a real control plane.

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
async fn an_edit_that_drops_a_group_recreates_once() -> Outcome {
    let bed = Bed::new("recreate").await?;
    let raygate = bed.raygate(&[]).await?;
    made(&raygate, "demo", json!({"upgradeStrategy": {"type": "Recreate"}})).await?;
    let body = json!({"head": {"env": {"A": "b"}}, "workerGroups": {"w": null}});
    assert_eq!(raygate.send(Method::PATCH, "/clusters/demo", &[MERGE], body.to_string()).await?.status, 200);
    let heads = heads(&bed, &raygate, "demo").await?;
    assert_eq!(heads.len(), 2, "the old and the new: {heads:?}");
    Ok(())
}

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

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_that_kubectl_wants_back_is_seen_again() -> Outcome {
    let bed = Bed::new("back").await?;
    let raygate = bed.raygate(&[]).await?;
    made(&raygate, "demo", json!({})).await?;
    let answer = raygate.send(Method::DELETE, "/clusters/demo/workerGroups/w", &[("if-match", "*")], "").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    let back = json!([
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/maxReplicas", "value": 5},
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1},
    ]);
    bed.kubectl(&["patch", "raycluster", "demo", "--type=json", "-p", &back.to_string()], "").await?;
    for _ in 0..200 {
        if raygate.get("/clusters/demo").await?.json()["workerGroups"].get("w").is_some() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cluster = raygate.get("/clusters/demo").await?.json();
    panic!("it runs and is hidden: {cluster} {}", raygate.get("/clusters/demo/manifest").await?.json()["metadata"])
}

/// The operator makes the pods of one spec in one go, however long that takes: those of a group that was dropped meanwhile
/// come when its entry may be gone. (Here 2 s stand for 10, and 800 pods for as many as take that long.)
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_that_is_dropped_while_the_operator_is_busy_leaves_no_pods() -> Outcome {
    let bed = Bed::new("busy").await?;
    let raygate = bed.raygate(&["--settle-seconds", "2"]).await?;
    made(&raygate, "demo", json!({})).await?;
    let group = |replicas: u32| json!({"replicas": replicas, "maxReplicas": 500, "cpu": "1m", "memory": "1Mi"});
    let body = json!({"workerGroups": {"w": {"replicas": 800, "maxReplicas": 900}, "z": group(3)}});
    assert_eq!(raygate.send(Method::PATCH, "/clusters/demo", &[MERGE], body.to_string()).await?.status, 200);
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
    println!("gone with {} pods of w", count("w").await?);
    eventually("all pods are there", async || Ok((count("w").await? >= 800).then_some(()))).await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(count("z").await?, 0, "orphans: {}", raygate.get("/clusters/demo").await?.json()["status"]);
    Ok(())
}
