//! Restarts, and starts from strange places.

use futures::future::try_join_all;

use super::*;

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn ten_clusters_restarted_at_once_through_two_replicas_get_new_pods_once() -> Outcome {
    let scene = Scene::new("ten").await?;
    let replicas = [scene.raygate(&[]).await?, scene.raygate(&[]).await?];
    let names: Vec<_> = (0..10).map(|index| format!("c{index}")).collect();
    let documents: Vec<_> = names.iter().map(|name| document(name, &json!({"small": {"replicas": 1}}))).collect();
    let before = try_join_all(documents.iter().map(|document| scene.create(&replicas[0], document))).await?;
    for name in &names {
        becomes(&replicas[1], name, "READY").await?;
    }

    let through = |index: usize| &replicas[index % 2];
    let restart = async |(index, name): (usize, &String)| verb(through(index), name, "restart").await;
    for answer in try_join_all(names.iter().enumerate().map(restart)).await? {
        assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (202, &json!(false)), "{answer:?}");
    }
    for (index, (name, (object, pods))) in names.iter().zip(&before).enumerate() {
        scene.restarted(through(index), name, pods).await?;
        becomes(through(index + 1), name, "READY").await?;
        let generation = |object: &Value| object["metadata"]["generation"].as_i64();
        let after = scene.stored(name).await?;
        assert_eq!(generation(&after), generation(object).map(|before| before + 2), "stopped once, resumed once");
    }
    replicas.iter().try_for_each(assert_no_errors)
}

/// A cluster that an older client has stopped, by a member that isn't there any more.
async fn stopped_without_a_member(scene: &Scene, raygate: &Raygate) -> Outcome<Vec<Value>> {
    let (_, pods) = scene.create(raygate, &document("demo", &json!({"small": {"replicas": 1}}))).await?;
    scene.patch("demo", json!({"spec": {"suspend": true}})).await?;
    scene.holds("demo", "it is stopped", |stored| condition(stored, "RayClusterSuspended") == "True").await?;
    let patch = r#"[{"op": "remove", "path": "/spec/suspend"}]"#;
    scene.bed.kubectl(&["patch", "raycluster", "demo", "--type=json", "-p", patch], "").await?;
    let stored = scene.stored("demo").await?;
    assert!(stored["spec"].get("suspend").is_none(), "{stored}");
    eventually("raygate knows of it", async || {
        let known = raygate.get("/clusters/demo/manifest").await?.json();
        Ok((known["metadata"]["generation"] == stored["metadata"]["generation"]).then_some(()))
    })
    .await?;
    assert_eq!(raygate.get("/clusters/demo").await?.json()["suspended"], true);
    Ok(pods)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_cluster_that_is_stopped_without_saying_so_starts() -> Outcome {
    let scene = Scene::new("unsaid").await?;
    let raygate = scene.raygate(&[]).await?;
    let before = stopped_without_a_member(&scene, &raygate).await?;
    let answer = verb(&raygate, "demo", "start").await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (202, &json!(false)), "{answer:?}");
    becomes(&raygate, "demo", "READY").await?;
    assert_eq!(scene.pods("demo").await?.len(), before.len());
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_cluster_that_is_stopped_without_saying_so_restarts() -> Outcome {
    let scene = Scene::new("unsaid").await?;
    let raygate = scene.raygate(&[]).await?;
    let before = stopped_without_a_member(&scene, &raygate).await?;
    assert_eq!(verb(&raygate, "demo", "restart").await?.status, 202);
    scene.restarted(&raygate, "demo", &before).await?;
    assert_no_errors(&raygate)
}
