//! What an edit does to nodes that run: nothing, unless a restart or the operator replaces them.

use super::*;

const OLD: &str = "rayproject/ray:2.52.0";
const NEW: &str = "rayproject/ray:2.52.0-py310";
const NEWER: &str = "rayproject/ray:2.52.0-py311";

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// The names of those of the pods that run this image, or of all, sorted.
fn names(pods: &[Value], wanted: Option<&str>) -> Vec<Value> {
    let chosen = pods.iter().filter(|pod| wanted.is_none_or(|wanted| image(pod) == wanted));
    let mut names: Vec<_> = chosen.map(|pod| pod["metadata"]["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    names
}

/// The nodes that the answer to a write says go on as before; nothing where it says nothing of it.
fn told(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    let told: Vec<_> = warnings.filter(|warning| warning["code"] == "RESTART_NEEDED").collect();
    assert!(told.len() <= 1, "{answer}");
    told.first().and_then(|warning| warning["nodes"].as_array()).cloned().unwrap_or_default()
}

async fn patch(raygate: &Raygate, path: &str, body: Value) -> Outcome<Answer> {
    raygate.send(Method::PATCH, path, &[], body.to_string()).await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn an_edit_names_the_nodes_that_keep_the_old_image_and_a_restart_replaces_them() -> Outcome {
    let scene = Scene::new("images").await?;
    let raygate = scene.raygate(&[]).await?;
    let groups = json!({"big": {"replicas": 1}, "small": {"replicas": 2, "maxReplicas": 5}});
    let (_, before) = scene.create(&raygate, &document("demo", &groups)).await?;
    assert_eq!(names(&before, Some(OLD)).len(), 4, "{before:?}");

    let answer = patch(&raygate, "/clusters/demo", json!({"image": NEW})).await?;
    let pods = scene.pods("demo").await?;
    assert_eq!(uids(&pods), uids(&before), "nothing that runs is touched");
    assert_eq!(told(&answer), names(&pods, Some(OLD)));

    let answer = patch(&raygate, "/clusters/demo/workerGroups/small", json!({"replicas": 3})).await?;
    assert_eq!(told(&answer), Vec::<Value>::new(), "more nodes make none outdated");
    let pods = eventually("there is one more pod", async || {
        let pods = scene.pods("demo").await?;
        Ok((pods.len() == 5 && pods.iter().all(is_ready)).then_some(pods))
    })
    .await?;
    assert_eq!(names(&pods, Some(OLD)), names(&before, None), "the old ones have the old image");
    assert_eq!(names(&of_groups(&pods, &["small"]), Some(NEW)).len(), 1, "the new one has the new image");

    // raygate knows of the new pod once it says so.
    becomes(&raygate, "demo", "READY").await?;
    let answer = patch(&raygate, "/clusters/demo/workerGroups/small", json!({"image": NEWER})).await?;
    assert_eq!(told(&answer), names(&of_groups(&pods, &["small"]), None), "of this group alone");
    assert_eq!(uids(&scene.pods("demo").await?), uids(&pods));

    let edit = json!({"image": NEWER, "workerGroups": {"small": {"image": null}}});
    let answer = patch(&raygate, "/clusters/demo?restart=true", edit).await?;
    assert_eq!(told(&answer), Vec::<Value>::new(), "all nodes are made anew");
    scene.restarted(&raygate, "demo", &pods).await?;
    let after = scene.pods("demo").await?;
    assert_eq!(names(&after, Some(NEWER)).len(), 5, "{after:?}");
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn with_recreate_the_operator_replaces_the_nodes_and_nothing_is_warned_of() -> Outcome {
    let scene = Scene::new("recreate").await?;
    let raygate = scene.raygate(&[]).await?;
    let mut demo = document("demo", &json!({"small": {"replicas": 2}}));
    demo["upgradeStrategy"] = json!({"type": "Recreate"});
    let (_, before) = scene.create(&raygate, &demo).await?;

    let answer = patch(&raygate, "/clusters/demo", json!({"image": NEW})).await?;
    assert_eq!(told(&answer), Vec::<Value>::new());
    let after = eventually("all pods have the new image", async || {
        let pods = scene.pods("demo").await?;
        Ok((names(&pods, Some(NEW)).len() == 3 && pods.iter().all(is_ready)).then_some(pods))
    })
    .await?;
    assert_eq!(after.len(), before.len());
    becomes(&raygate, "demo", "READY").await?;
    let suspended = scene.versions("demo").await?.into_iter().filter(|version| version["spec"]["suspend"] == true);
    assert_eq!(suspended.count(), 0, "it wasn't raygate");
    Ok(())
}
