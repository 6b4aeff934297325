//! Stop and start.

use http::Method;
use raygate::manager::memory::{Options, backend};
use serde_json::{Value, json};

use crate::support::{InProcess, Outcome, Raygate, eventually};

/// Waits for a state.
async fn becomes(raygate: &Raygate, state: &str) -> Outcome<Value> {
    eventually(state, async || {
        let cluster = raygate.get("/clusters/demo").await?.json();
        Ok((cluster["status"]["state"] == state).then_some(cluster))
    })
    .await
}

#[tokio::test]
async fn a_stopped_cluster_keeps_all_but_its_nodes() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let document = json!({"name": "demo", "labels": {"a": "b"}, "workerGroups": {"small": {"replicas": 2, "cpu": 1}}});
    raygate.post("/clusters", &document).await?;
    let before = becomes(&raygate, "READY").await?;
    let verb = async |verb: &str| raygate.send(Method::POST, &format!("/clusters/demo/{verb}"), &[], "").await;

    let answer = verb("stop").await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (202, &json!(true)), "{answer:?}");
    assert!(!answer.header("etag").is_empty(), "{answer:?}");
    let stopped = becomes(&raygate, "STOPPED").await?;
    assert_eq!(verb("stop").await?.status, 200, "it is stopped already");
    for member in ["name", "namespace", "labels", "workerGroups", "uid", "rayVersion"] {
        assert_eq!(stopped[member], before[member], "{member}");
    }
    assert_eq!(
        stopped["status"]["workerGroups"]["small"],
        json!({"desired": 2, "ready": 0, "pending": 0, "terminating": 0})
    );

    assert_eq!(verb("start").await?.status, 202);
    becomes(&raygate, "READY").await?;
    assert_eq!(verb("start").await?.status, 200);
    let manifest = raygate.get("/clusters/demo/manifest").await?.json();
    assert_eq!(manifest["spec"]["suspend"], false, "explicitly: the operator resumes at nothing else");

    let guarded = async |verb: &str, headers: &[(&str, &str)], body: &'static str| {
        raygate.send(Method::POST, &format!("/clusters/demo/{verb}"), headers, body).await
    };
    guarded("stop", &[("if-match", "\"stale\"")], "").await?.problem(412, "PRECONDITION_FAILED");
    guarded("stop", &[], r#"{"now": true}"#).await?.problem(400, "MALFORMED");
    let owner = r#"{"owner": "alice"}"#;
    guarded("owner", &[("if-match", "\"stale\"")], owner).await?.problem(412, "PRECONDITION_FAILED");
    let tag = raygate.get("/clusters/demo").await?.header("etag").to_owned();
    assert_eq!(guarded("owner", &[("if-match", &tag)], owner).await?.status, 200);
    assert_eq!(raygate.get("/clusters/demo").await?.json()["status"]["state"], "READY", "none of it stopped it");

    verb("pause").await?.problem(404, "NOT_FOUND");
    raygate.get("/clusters/demo/stop").await?.problem(405, "METHOD_NOT_ALLOWED");
    raygate.send(Method::POST, "/clusters/none/stop", &[], "").await?.problem(404, "NOT_FOUND");
    raygate.send(Method::POST, "/clusters/demo/stop?now=1", &[], "").await?.problem(400, "MALFORMED");
    Ok(())
}

#[tokio::test]
async fn kueue_decides_when_its_clusters_run() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let document = json!({"name": "demo", "suspended": true, "labels": {"kueue.x-k8s.io/queue-name": "gpus"}});
    raygate.post("/clusters", &document).await?;
    raygate.send(Method::POST, "/clusters/demo/start", &[], "").await?.problem(409, "SUSPENSION_OWNED");
    let patch = async |body: Value| raygate.send(Method::PATCH, "/clusters/demo", &[], body.to_string()).await;
    patch(json!({"suspended": false})).await?.problem(409, "SUSPENSION_OWNED");
    assert_eq!(patch(json!({"head": {"cpu": "2"}})).await?.status, 200, "all else is the owner's");
    // What says nothing of it leaves it as it is: one and the same body holds before and after Kueue lets the cluster run.
    let held = raygate.get("/clusters/demo/manifest").await?.json();
    let mut manifest = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {}, "spec": held["spec"]});
    manifest["metadata"]["labels"] = held["metadata"]["labels"].clone();
    manifest["spec"]["suspend"] = Value::Null;
    let silent = json!({"name": "demo", "rayVersion": "2.52.0", "labels": document["labels"]});
    for body in [&silent, &manifest] {
        let any = [("if-match", "*")];
        let answer = raygate.send(Method::PUT, "/clusters/demo", &any, body.to_string()).await?;
        assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (200, &json!(true)), "{answer:?}");
    }
    assert_eq!(patch(json!({"suspended": null})).await?.json()["suspended"], true);
    let explicit = json!({"name": "demo", "rayVersion": "2.52.0", "labels": document["labels"], "suspended": false});
    let answer = raygate.send(Method::PUT, "/clusters/demo", &[("if-match", "*")], explicit.to_string()).await?;
    answer.problem(409, "SUSPENSION_OWNED");
    assert_eq!(patch(json!({"labels": {"kueue.x-k8s.io/queue-name": null}})).await?.status, 200);
    assert_eq!(raygate.send(Method::POST, "/clusters/demo/start", &[], "").await?.status, 202);
    Ok(())
}

#[tokio::test]
async fn the_spec_of_a_rayjobs_cluster_is_the_rayjobs() -> Outcome {
    for (kind, controller, owned) in
        [("RayJob", true, true), ("RayService", true, true), ("RayJob", false, false), ("Team", true, false)]
    {
        let backend = backend(Options { namespaces: vec!["default".into()], ..Options::default() });
        let owner =
            json!({"apiVersion": "ray.io/v1", "kind": kind, "name": "nightly", "uid": "u", "controller": controller});
        let object = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {"name": "demo", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"rayVersion": "2.52.0", "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {
                "containers": [{"name": "ray-head", "image": "rayproject/ray:2.52.0"}]}}}},
        });
        backend.clusters.create(&serde_json::from_value(object)?).await?;
        let api = InProcess::open(&backend).await?;
        for (method, path, body) in
            [(Method::POST, "/clusters/demo/stop", ""), (Method::PATCH, "/clusters/demo", r#"{"head": {"cpu": "2"}}"#)]
        {
            let answer = api.send(method, path, &[], body).await?;
            if owned {
                let problem = answer.problem(409, "SPEC_OWNED");
                assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("nightly")), "{problem}");
            } else {
                assert!(answer.status.is_success(), "{kind} {controller}: {answer:?}");
            }
        }
        let labelled = api.send(Method::PATCH, "/clusters/demo", &[], r#"{"labels": {"a": "b"}}"#).await?;
        assert_eq!(labelled.status, 200, "labels are nobody's: {labelled:?}");
        api.end().await?;
    }
    Ok(())
}
