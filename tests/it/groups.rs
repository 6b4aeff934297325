//! One worker group at a time: its part of the document, under the cluster's ETag.

use http::Method;
use serde_json::{Value, json};

use crate::support::bench::{DEMO, revision, two_groups};
use crate::support::{Answer, Bench, Outcome, faults};

const A: &str = "/clusters/demo/workerGroups/a";
const ANY: [(&str, &str); 1] = [("if-match", "*")];

/// The one fault of a problem: where, and its code.
fn fault(problem: &Value) -> (String, String) {
    let mut all = faults(problem);
    assert_eq!(all.len(), 1, "{problem}");
    all.remove(0)
}

fn at(pointer: &str, code: &str) -> (String, String) {
    (pointer.to_owned(), code.to_owned())
}

#[tokio::test]
async fn one_group_is_scaled_by_one_number() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    bench.hold();
    let answer = bench.call(Method::PATCH, A, &[], &json!({"replicas": 4})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut group = answer.json();
    let status = group["status"].take();
    let names: Vec<_> = status.as_object().ok_or("no status")?.keys().map(String::as_str).collect();
    assert_eq!((names, &status["desired"]), (vec!["desired", "ready", "pending", "terminating"], &json!(4)));
    let cluster = bench.read().await?;
    assert_eq!(revision(&answer), revision(&cluster), "the ETag is the cluster's");
    if let Some(members) = group.as_object_mut() {
        members.shift_remove("status");
    }
    assert_eq!(group, cluster.json()["workerGroups"]["a"], "its part of the document, and nothing else");
    assert_eq!(
        group,
        json!({"replicas": 4, "minReplicas": 0, "maxReplicas": 5, "numOfHosts": 1, "cpu": "1", "memory": "1Gi"})
    );
    assert_eq!(cluster.json()["workerGroups"]["b"]["replicas"], 1);
    bench.release();
    bench.becomes("READY").await?;
    assert_eq!(bench.nodes().await?["a"].len(), 4);

    // The guard is optional here, and holds where it is given.
    let stale = [("if-match", "\"stale\"")];
    bench.call(Method::PATCH, A, &stale, &json!({"replicas": 1})).await?.problem(412, "PRECONDITION_FAILED");
    let good = [("if-match", answer.header("etag"))];
    assert_eq!(bench.call(Method::PATCH, A, &good, &json!({"replicas": 1})).await?.status, 200);
    bench.call(Method::PATCH, A, &good, &json!({"replicas": 2})).await?.problem(412, "PRECONDITION_FAILED");
    Ok(())
}

#[tokio::test]
async fn faults_are_told_by_their_place_in_the_groups_own_body() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let before = bench.held().await?;
    for method in [Method::PATCH, Method::PUT] {
        for (body, status, wanted) in [
            (json!({"cpus": "1"}), 400, at("/cpus", "UNKNOWN_MEMBER")),
            (json!({"cpu": true}), 400, at("/cpu", "WRONG_TYPE")),
            (json!({"replicas": "2"}), 400, at("/replicas", "WRONG_TYPE")),
            (json!([]), 400, at("", "WRONG_TYPE")),
            (json!(3), 400, at("", "WRONG_TYPE")),
            (json!({"env": {"A": {"value": 1}}}), 400, at("/env/A/value", "UNKNOWN_MEMBER")),
            (
                json!({"podTemplate": {"spec": {"nodename": "x"}}}),
                400,
                at("/podTemplate/spec/nodename", "UNKNOWN_MEMBER"),
            ),
            (json!({"cpu": "1x"}), 422, at("/cpu", "INVALID_QUANTITY")),
            (json!({"replicas": 9, "maxReplicas": 5}), 422, at("/replicas", "OUT_OF_RANGE")),
            (json!({"replicas": -1}), 422, at("/replicas", "OUT_OF_RANGE")),
            (json!({"labels": {"ray.io/group": "x"}}), 422, at("/labels/ray.io~1group", "RESERVED")),
        ] {
            let answer = bench.call(method.clone(), A, &ANY, &body).await?;
            let problem = answer.problem(status, if status == 400 { "MALFORMED" } else { "INVALID" });
            let found = fault(&problem);
            assert!(found == wanted || (found.0 == wanted.0 && status == 422), "{method} {body}: {problem}");
        }
        // All at once, and those of other groups aren't this one's.
        let answer =
            bench.call(method.clone(), A, &ANY, &json!({"cpus": "1", "replicas": 99, "maxReplicas": 5})).await?;
        assert_eq!(faults(&answer.problem(400, "MALFORMED")).len(), 2, "{answer:?}");
        // In YAML with line and column.
        let yaml = [("content-type", "application/yaml"), ("if-match", "*")];
        let answer = bench.send(method.clone(), A, &yaml, "replicas: 1\ncpus: 2\n").await?;
        let problem = answer.problem(400, "MALFORMED");
        assert_eq!(fault(&problem), at("/cpus", "UNKNOWN_MEMBER"));
        assert!(problem["errors"][0]["message"].as_str().is_some_and(|text| text.contains("line 2")), "{problem}");
        let answer = bench.send(method.clone(), A, &yaml, "replicas: 1\nreplicas: 2\n").await?;
        let problem = answer.problem(400, "MALFORMED");
        assert_eq!(fault(&problem).0, "/replicas", "{problem}");
        let answer = bench.send(method.clone(), A, &yaml, "replicas: [\n").await?;
        answer.problem(400, "MALFORMED");
        for nothing in ["null", "~"] {
            let answer = bench.send(method.clone(), A, &yaml, nothing).await?;
            assert_eq!(
                fault(&answer.problem(400, "MALFORMED")),
                at("", "WRONG_TYPE"),
                "a group isn't dropped like this"
            );
        }
    }
    assert_eq!(bench.held().await?["spec"], before["spec"]);
    let answer = bench.send(Method::PATCH, A, &[("content-type", "application/json-patch+json")], "[]").await?;
    answer.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    assert!(answer.header("accept-patch").contains("application/merge-patch+json"), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn warnings_are_told_by_their_place_in_the_groups_own_body() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let old = json!({"image": "rayproject/ray:2.40.0", "replicas": 2});
    for method in [Method::PATCH, Method::PUT] {
        let answer = bench.call(method.clone(), A, &ANY, &old).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let warnings = answer.json()["warnings"].as_array().cloned().unwrap_or_default();
        let mismatch = warnings.iter().find(|warning| warning["code"] == "VERSION_MISMATCH");
        assert_eq!(mismatch.map(|warning| &warning["pointer"]), Some(&json!("/image")), "{method}: {warnings:?}");
    }
    // Another group's is told by its place in the document: there is none in the body.
    let answer = bench.call(Method::PATCH, "/clusters/demo/workerGroups/b", &[], &json!({"replicas": 2})).await?;
    let pointer = answer.json()["warnings"][0]["pointer"].clone();
    assert_eq!(pointer, "/workerGroups/a/image", "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_group_that_is_not_there_is_not_found() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    for (method, path) in [
        (Method::PATCH, "/clusters/demo/workerGroups/none"),
        (Method::DELETE, "/clusters/demo/workerGroups/none"),
        (Method::PATCH, "/clusters/none/workerGroups/a"),
        (Method::DELETE, "/clusters/none/workerGroups/a"),
        (Method::PATCH, "/clusters/demo.other/workerGroups/a"),
    ] {
        for headers in [&[][..], &ANY] {
            let body = if method == Method::PATCH { "{}" } else { "" };
            let answer = bench.send(method.clone(), path, headers, body).await?;
            let missing_cluster = !path.starts_with("/clusters/demo/") && !headers.is_empty();
            if missing_cluster {
                answer.problem(412, "PRECONDITION_FAILED");
            } else {
                answer.problem(404, "NOT_FOUND");
            }
        }
    }
    let answer = bench.call(Method::PUT, "/clusters/none/workerGroups/a", &[], &json!({})).await?;
    answer.problem(404, "NOT_FOUND");
    bench.get("/clusters/demo/workerGroups").await?.problem(404, "NOT_FOUND");
    let answer = bench.get(A).await?;
    answer.problem(405, "METHOD_NOT_ALLOWED");
    for method in ["PATCH", "PUT", "DELETE"] {
        assert!(answer.header("allow").contains(method), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_group_is_put_under_the_clusters_etag() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let body = json!({"replicas": 1, "cpu": "1", "memory": "1Gi"});
    let new = "/clusters/demo/workerGroups/c";
    for path in [A, new] {
        bench.call(Method::PUT, path, &[], &body).await?.problem(428, "PRECONDITION_REQUIRED");
        let stale = [("if-match", "\"stale\"")];
        bench.call(Method::PUT, path, &stale, &body).await?.problem(412, "PRECONDITION_FAILED");
    }
    let etag = bench.read().await?.header("etag").to_owned();
    let guard = [("if-match", &*etag)];
    let only_new = [("if-match", &*etag), ("if-none-match", "*")];
    bench.call(Method::PUT, A, &only_new, &body).await?.problem(412, "PRECONDITION_FAILED");
    bench.call(Method::PUT, A, &only_new[1..], &body).await?.problem(412, "PRECONDITION_FAILED");
    let answer = bench.call(Method::PUT, new, &only_new, &body).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json()["replicas"], 1);
    bench.call(Method::PUT, A, &guard, &body).await?.problem(412, "PRECONDITION_FAILED");
    let answer = bench.call(Method::PUT, A, &[("if-match", answer.header("etag"))], &body).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["maxReplicas"]), (200, &json!(2_147_483_647)), "{answer:?}");
    assert_eq!(bench.call(Method::PUT, A, &ANY, &body).await?.status, 200);
    let order: Vec<_> = bench.read().await?.json()["workerGroups"].as_object().ok_or("none")?.keys().cloned().collect();
    assert_eq!(order, ["a", "b", "c"], "each keeps its place, a new one comes last");
    Ok(())
}

#[tokio::test]
async fn what_a_patch_answered_can_be_put_back() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    for group in ["a", "b"] {
        let path = format!("{DEMO}/workerGroups/{group}");
        let edit = json!({"replicas": 2, "env": {"X": "raygate-test-secret-3"}});
        let answer = bench.call(Method::PATCH, &path, &[], &edit).await?;
        assert!(!answer.json()["warnings"].is_null() && !answer.json()["status"].is_null(), "{answer:?}");
        let held = bench.held().await?;
        let back = bench.call(Method::PUT, &path, &[("if-match", answer.header("etag"))], &answer.json()).await?;
        assert_eq!((back.status.as_u16(), revision(&back)), (200, revision(&answer)), "{back:?}");
        let now = bench.held().await?;
        assert_eq!((&now["spec"], &now["metadata"]["generation"]), (&held["spec"], &held["metadata"]["generation"]));
        let patched = bench.call(Method::PATCH, &path, &[], &answer.json()).await?;
        assert_eq!((patched.status.as_u16(), revision(&patched)), (200, revision(&answer)), "{patched:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_group_is_dropped_under_the_clusters_etag() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let drop = async |headers: &[(&str, &str)]| bench.send(Method::DELETE, A, headers, "").await;
    drop(&[]).await?.problem(428, "PRECONDITION_REQUIRED");
    drop(&[("if-match", "\"stale\"")]).await?.problem(412, "PRECONDITION_FAILED");
    bench.hold();
    let etag = bench.read().await?.header("etag").to_owned();
    let answer = drop(&[("if-match", &etag)]).await?;
    assert_eq!((answer.status.as_u16(), answer.json().get("cpu")), (202, None), "{answer:?}");
    assert_eq!(
        (&answer.json()["status"]["desired"], bench.held().await?["spec"]["workerGroupSpecs"].as_array().map(Vec::len)),
        (&json!(0), Some(2))
    );
    let again = drop(&ANY).await?;
    again.problem(409, "GROUP_TERMINATING");
    assert!(!again.header("retry-after").is_empty(), "{again:?}");
    bench.release();
    bench.finished().await?;
    drop(&ANY).await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn odd_names_of_groups_are_refused() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let before = bench.held().await?;
    let long = "x".repeat(300);
    let deep = "%2F".repeat(100);
    let names = [
        "a%2Fb",
        "a%2fworkerGroups",
        "%ff",
        "%00",
        "a%00",
        "..",
        "%2E%2E",
        "a.b",
        "A",
        "-a",
        "a%20b",
        "%22",
        "~0",
        "a~1b",
        "%E2%98%83",
        "a%0D%0Aset-cookie:x",
        &long,
        &deep,
        "$ref",
        "__proto__",
        "%7Bgroup%7D",
        "a/b",
        "a/",
        "",
    ];
    for name in names {
        let path = format!("{DEMO}/workerGroups/{name}");
        for (method, body) in
            [(Method::PATCH, r#"{"replicas": 1}"#), (Method::PUT, r#"{"replicas": 1}"#), (Method::DELETE, "")]
        {
            let answer = bench.send(method.clone(), &path, &ANY, body).await?;
            let status = answer.status.as_u16();
            assert!([400, 404, 405, 422].contains(&status), "{method} {name}: {answer:?}");
            answer.problem(status, answer.json()["code"].as_str().unwrap_or_default());
            if method != Method::PUT {
                assert!([404, 405].contains(&status), "{method} {name}: {answer:?}");
            }
        }
    }
    assert_eq!(bench.held().await?["spec"], before["spec"]);
    Ok(())
}

#[tokio::test]
async fn a_name_that_two_groups_have_is_not_written_to() -> Outcome {
    let bench = Bench::new().await?;
    let mut object =
        json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "namespace": "default"}});
    let template = |name: &str| json!({"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.52.0"}]}});
    let group = |name: &str| json!({"groupName": name, "replicas": 1, "minReplicas": 0, "maxReplicas": 3, "rayStartParams": {}, "template": template("ray-worker")});
    object["spec"] = json!({"rayVersion": "2.52.0", "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [group("a"), group("b"), group("a")]});
    bench.backend.clusters.create(&serde_json::from_value(object)?).await?;
    bench.becomes("READY").await?;
    let before = bench.held().await?;
    bench.call(Method::PATCH, A, &[], &json!({"replicas": 2})).await?.problem(409, "AMBIGUOUS_GROUP");
    bench.call(Method::PUT, A, &ANY, &json!({"replicas": 2})).await?.problem(409, "AMBIGUOUS_GROUP");
    bench.send(Method::DELETE, A, &ANY, "").await?.problem(409, "AMBIGUOUS_GROUP");
    assert_eq!(bench.held().await?["spec"], before["spec"]);
    // The other group is nobody's trouble.
    assert_eq!(
        bench.call(Method::PATCH, "/clusters/demo/workerGroups/b", &[], &json!({"replicas": 2})).await?.status,
        200
    );
    Ok(())
}

#[tokio::test]
async fn replicas_are_the_autoscalers_while_it_is_on() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    assert_eq!(bench.patch(json!({"autoscaling": {"enabled": true}})).await?.status, 200);
    let group = async |method: Method, body: Value| bench.call(method, A, &ANY, &body).await;
    let refused = |answer: Answer| drop(answer.problem(409, "AUTOSCALER_OWNS_REPLICAS"));
    refused(group(Method::PATCH, json!({"replicas": 3})).await?);
    refused(group(Method::PUT, json!({"replicas": 3, "maxReplicas": 5})).await?);
    let answer = group(Method::PATCH, json!({"replicas": 2})).await?;
    assert_eq!(
        (answer.status.as_u16(), answer.json().get("replicas")),
        (200, None),
        "the number that is held: {answer:?}"
    );
    let answer = group(Method::PATCH, json!({"maxReplicas": 9})).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["maxReplicas"]), (200, &json!(9)), "{answer:?}");
    assert_eq!(bench.held().await?["spec"]["workerGroupSpecs"][0]["replicas"], 2);
    Ok(())
}
