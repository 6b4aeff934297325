//! Somebody else changes a cluster while something that a write has begun isn't finished.

use super::*;

/// A cluster that is being restarted, or a group of it dropped, and whose pods are kept from going.
async fn held(scene: &Scene, raygate: &Raygate, drops: bool) -> Outcome<Vec<Value>> {
    let groups = json!({"first": {"replicas": 1}, "small": {"replicas": 1}});
    let (_, pods) = scene.create(raygate, &document("demo", &groups)).await?;
    scene.hold(&pods).await?;
    if drops {
        let path = "/clusters/demo/workerGroups/small";
        assert_eq!(raygate.send(Method::DELETE, path, &[("if-match", "*")], "").await?.status, 202);
    } else {
        assert_eq!(verb(raygate, "demo", "restart").await?.status, 202);
    }
    Ok(pods)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_that_somebody_resumes_is_forgotten() -> Outcome {
    let scene = Scene::new("resumed").await?;
    let raygate = scene.raygate(&[]).await?;
    let pods = held(&scene, &raygate, false).await?;
    assert!(is_restarting(&scene.stored("demo").await?));
    scene.patch("demo", json!({"spec": {"suspend": false}})).await?;
    scene.holds("demo", "it is forgotten", |stored| !is_restarting(stored)).await?;
    scene.let_go(&pods).await?;
    becomes(&raygate, "demo", "READY").await?;
    let versions = scene.versions("demo").await?;
    let mut suspended: Vec<_> = versions.iter().map(|version| version["spec"]["suspend"] == true).collect();
    suspended.dedup();
    assert_eq!(suspended, [false, true, false]);
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn what_is_deleted_in_the_middle_does_not_come_back() -> Outcome {
    for (drops, in_foreground) in [(false, false), (false, true), (true, false), (true, true)] {
        let scene = Scene::new("deleted").await?;
        let raygate = scene.raygate(&[]).await?;
        let pods = held(&scene, &raygate, drops).await?;
        if in_foreground {
            assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
        } else {
            scene.bed.kubectl(&["delete", "raycluster", "demo", "--wait=false"], "").await?;
        }
        scene.let_go(&pods).await?;
        eventually("all of it is gone", async || {
            let is_known = raygate.get("/clusters/demo").await?.status != 404;
            let is_left = scene.bed.clusters().get_opt("demo").await?.is_some();
            let pods = scene.pods("demo").await?;
            let services: Api<Service> = Api::namespaced(scene.bed.client.clone(), &scene.bed.namespace);
            let services = services.list(&ListParams::default()).await?.items;
            Ok((!is_known && !is_left && pods.is_empty() && services.is_empty()).then_some(()))
        })
        .await?;
        assert_eq!(scene.pods_ever("demo").await?.len(), pods.len(), "none was made anew");
        assert_no_errors(&raygate)?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_dropped_group_that_somebody_wants_back_stays() -> Outcome {
    for has_pods in [true, false] {
        let scene = Scene::new("back").await?;
        let raygate = scene.raygate(&[]).await?;
        let pods = held(&scene, &raygate, true).await?;
        let seen = async || Ok(raygate.get("/clusters/demo").await?.json()["workerGroups"]["small"].clone());
        let now: Outcome<Value> = seen().await;
        assert_eq!(now?, Value::Null);
        let patch = json!([
            {"op": "replace", "path": "/spec/workerGroupSpecs/1/maxReplicas", "value": 3},
            {"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": u8::from(has_pods)},
        ]);
        scene.bed.kubectl(&["patch", "raycluster", "demo", "--type=json", "-p", &patch.to_string()], "").await?;
        scene.let_go(&pods).await?;
        scene.holds("demo", "the mark is gone", |stored| annotation(stored, DROPPED_GROUPS).is_null()).await?;
        let group = eventually("the group is there again", async || {
            let seen: Outcome<Value> = seen().await;
            Ok(Some(seen?).filter(Value::is_object))
        })
        .await?;
        assert_eq!(group["maxReplicas"], 3, "{group}");
        becomes(&raygate, "demo", "READY").await?;
        let wanted = usize::from(has_pods);
        eventually("it has the pods that it is to have", async || {
            Ok((of_groups(&scene.pods("demo").await?, &["small"]).len() == wanted).then_some(()))
        })
        .await?;
        let stored = scene.stored("demo").await?;
        assert_eq!(stored["spec"]["workerGroupSpecs"][1]["groupName"], "small", "{stored}");
        assert_no_errors(&raygate)?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_of_what_kueue_has_taken_over_is_left_to_kueue() -> Outcome {
    let scene = Scene::new("kueue").await?;
    let raygate = scene.raygate(&[]).await?;
    let pods = held(&scene, &raygate, false).await?;
    let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}});
    scene.patch("demo", label).await?;
    scene.let_go(&pods).await?;
    scene
        .holds("demo", "it is suspended, and nothing is left to finish", |stored| {
            !is_restarting(stored) && condition(stored, "RayClusterSuspended") == "True"
        })
        .await?;
    becomes(&raygate, "demo", "STOPPED").await?;
    assert_eq!(raygate.get("/clusters/demo").await?.json()["suspended"], true);
    let versions = scene.versions("demo").await?;
    let mut suspended: Vec<_> = versions.iter().map(|version| version["spec"]["suspend"] == true).collect();
    suspended.dedup();
    assert_eq!(suspended, [false, true]);
    assert_eq!(scene.pods_ever("demo").await?.len(), pods.len());
    assert_no_errors(&raygate)
}
