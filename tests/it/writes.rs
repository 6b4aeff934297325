//! Changing a cluster: what is asked for is done, what isn't stays, and nobody's change is lost.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Outcome, Raygate, eventually, faults};

async fn put(raygate: &Api, path: &str, guard: &[(&str, &str)], body: &Value) -> Outcome<Answer> {
    raygate.send(Method::PUT, path, guard, body.to_string()).await
}

async fn patch(raygate: &Api, path: &str, body: &Value) -> Outcome<Answer> {
    raygate.send(Method::PATCH, path, &[("content-type", "application/merge-patch+json")], body.to_string()).await
}

fn document() -> Value {
    json!({
        "name": "demo", "labels": {"team": "a"}, "head": {"cpu": "1", "memory": "2Gi"},
        "workerGroups": {"w": {"replicas": 1, "maxReplicas": 5, "cpu": "1", "memory": "1Gi", "env": {"A": "raygate-test-secret-1"}}},
    })
}

async fn created(raygate: &Api) -> Outcome<Value> {
    let answer = raygate.post("/clusters", &document()).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!answer.header("etag").is_empty(), "{answer:?}");
    Ok(answer.json())
}

#[tokio::test]
async fn what_was_read_can_be_put_back_and_changes_nothing() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    let read = raygate.get("/clusters/demo").await?;
    let etag = read.header("etag").to_owned();
    let answer = put(&raygate, "/clusters/demo", &[("if-match", &etag)], &read.json()).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let manifest = raygate.get("/clusters/demo/manifest").await?.json();
    assert_eq!(manifest["metadata"]["generation"], 1, "{manifest}");

    let answer = put(&raygate, "/clusters/demo", &[("if-match", "*")], &manifest).await?;
    assert_eq!(answer.status, 200, "a whole RayCluster too: {answer:?}");
    assert_eq!(raygate.get("/clusters/demo/manifest").await?.json()["metadata"]["generation"], 1);
    Ok(())
}

#[tokio::test]
async fn replacing_takes_away_what_is_left_out() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let before = created(&raygate).await?;
    let wanted =
        json!({"rayVersion": before["rayVersion"], "head": {"cpu": "2"}, "workerGroups": {"w": {"replicas": 2}}});
    let answer = put(&raygate, "/clusters/demo", &[("if-match", "*")], &wanted).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let after = answer.json();
    assert_eq!((&after["head"], after.get("labels")), (&json!({"cpu": "2"}), None));
    assert_eq!(
        after["workerGroups"],
        json!({"w": {"replicas": 2, "minReplicas": 0, "maxReplicas": 2_147_483_647, "numOfHosts": 1}})
    );
    assert_eq!(raygate.get("/clusters/demo").await?.json()["head"], json!({"cpu": "2"}), "read at once");
    Ok(())
}

#[tokio::test]
async fn guards() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    put(&raygate, "/clusters/demo", &[("if-match", "*")], &document()).await?.problem(412, "PRECONDITION_FAILED");
    let answer = put(&raygate, "/clusters/demo", &[("if-none-match", "*")], &document()).await?;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "demo.default"));
    let etag = answer.header("etag").to_owned();
    put(&raygate, "/clusters/demo", &[], &document()).await?.problem(428, "PRECONDITION_REQUIRED");
    put(&raygate, "/clusters/demo", &[("if-none-match", "*")], &document()).await?.problem(412, "PRECONDITION_FAILED");
    put(&raygate, "/clusters/demo", &[("if-none-match", "\"x\"")], &document()).await?.problem(400, "MALFORMED");
    put(&raygate, "/clusters/demo", &[("if-match", "nonsense")], &document()).await?.problem(400, "MALFORMED");

    let answer = patch(&raygate, "/clusters/demo", &json!({"labels": {"team": "b"}})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_ne!(answer.header("etag"), etag);
    put(&raygate, "/clusters/demo", &[("if-match", &etag)], &document()).await?.problem(412, "PRECONDITION_FAILED");
    let weak = format!("\"stale\", W/{}", answer.header("etag"));
    assert_eq!(put(&raygate, "/clusters/demo", &[("if-match", &weak)], &answer.json()).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_poller_is_told_that_nothing_changed() -> Outcome {
    let raygate = Raygate::memory(&["--memory-start-milliseconds", "3600000"]).await?;
    created(&raygate).await?;
    let (etag, answer) = eventually("the status is still", async || {
        let etag = raygate.get("/clusters/demo").await?.header("etag").to_owned();
        let answer = raygate.send(Method::GET, "/clusters/demo", &[("if-none-match", &etag)], "").await?;
        Ok((answer.status == 304).then_some((etag, answer)))
    })
    .await?;
    assert_eq!((answer.body.len(), answer.header("etag")), (0, &*etag));
    let answer = raygate.send(Method::GET, "/clusters/demo", &[("if-none-match", "\"other\"")], "").await?;
    assert_eq!(answer.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_patch_changes_what_it_names() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let before = created(&raygate).await?;
    let answer = patch(
        &raygate,
        "/clusters/demo",
        &json!({"workerGroups": {"w": {"replicas": 3, "env": {"B": "raygate-test-secret-2"}}}}),
    )
    .await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let after = answer.json();
    let mut wanted = before["workerGroups"].clone();
    wanted["w"]["replicas"] = json!(3);
    wanted["w"]["env"] = json!({"A": "raygate-test-secret-1", "B": "raygate-test-secret-2"});
    assert_eq!(
        (&after["workerGroups"], &after["head"], &after["labels"]),
        (&wanted, &before["head"], &before["labels"])
    );
    let answer =
        patch(&raygate, "/clusters/demo", &json!({"labels": null, "workerGroups": {"w": {"env": {"A": null}}}}))
            .await?;
    assert_eq!(
        (answer.json().get("labels"), &answer.json()["workerGroups"]["w"]["env"]),
        (None, &json!({"B": "raygate-test-secret-2"}))
    );
    for media_type in ["application/json", "application/merge-patch+json"] {
        let answer = raygate.send(Method::PATCH, "/clusters/demo", &[("content-type", media_type)], "{}").await?;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let answer =
        raygate.send(Method::PATCH, "/clusters/demo", &[("content-type", "application/json-patch+json")], "[]").await?;
    answer.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    assert!(answer.header("accept-patch").contains("application/merge-patch+json"), "{answer:?}");
    patch(&raygate, "/clusters/other", &json!({})).await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn faults_of_a_write_are_told_together() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    for (body, wanted) in [
        (json!({"nme": null}), ("/nme", "UNKNOWN_MEMBER")),
        (json!({"workerGroups": {"w": {"replica": null}}}), ("/workerGroups/w/replica", "UNKNOWN_MEMBER")),
        (json!([]), ("", "WRONG_TYPE")),
        (
            json!({"head": {"podTemplate": {"spec": {"nodename": "x"}}}}),
            ("/head/podTemplate/spec/nodename", "UNKNOWN_MEMBER"),
        ),
    ] {
        let problem = patch(&raygate, "/clusters/demo", &body).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), [(wanted.0.to_owned(), wanted.1.to_owned())], "{body}");
    }
    for (body, wanted) in [
        (json!({"name": "other"}), ("/name", "IMMUTABLE")),
        (json!({"namespace": "other"}), ("/namespace", "IMMUTABLE")),
        (json!({"rayVersion": null}), ("/rayVersion", "REQUIRED")),
        (json!({"workerGroups": {"w": {"replicas": 9}}}), ("/workerGroups/w/replicas", "OUT_OF_RANGE")),
        (json!({"labels": {"ray.io/cluster": "x"}}), ("/labels/ray.io~1cluster", "RESERVED")),
    ] {
        let problem = patch(&raygate, "/clusters/demo", &body).await?.problem(422, "INVALID");
        assert_eq!(faults(&problem), [(wanted.0.to_owned(), wanted.1.to_owned())], "{body}");
    }
    let manifest = raygate.get("/clusters/demo/manifest").await?.json();
    assert_eq!(manifest["metadata"]["generation"], 1, "nothing of it was done");
    Ok(())
}

#[tokio::test]
async fn a_dropped_group_goes_once_its_nodes_are_gone() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    let answer = patch(&raygate, "/clusters/demo", &json!({"workerGroups": {"w": null}})).await?;
    assert_eq!((&answer.status.as_u16(), answer.json().get("workerGroups")), (&200, None), "{answer:?}");
    let held = raygate.get("/clusters/demo/manifest").await?.json();
    let group = &held["spec"]["workerGroupSpecs"][0];
    assert_eq!((&group["groupName"], &group["maxReplicas"]), (&json!("w"), &json!(0)), "its nodes go first");
    let again = json!({"workerGroups": {"w": {"cpu": "1"}}});
    patch(&raygate, "/clusters/demo", &again).await?.problem(409, "GROUP_TERMINATING");
    eventually("the name is free", async || {
        Ok((patch(&raygate, "/clusters/demo", &again).await?.status == 200).then_some(()))
    })
    .await?;
    let held = raygate.get("/clusters/demo/manifest").await?.json();
    assert_eq!(held["spec"]["workerGroupSpecs"].as_array().map(Vec::len), Some(1));
    assert_eq!(held["metadata"]["annotations"].get("raygate.dev/dropped-groups"), None);
    Ok(())
}

#[tokio::test]
async fn what_the_autoscaler_owns_is_not_set() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    let on = json!({"autoscaling": {"enabled": true}, "workerGroups": {"w": {"replicas": 2}}});
    assert_eq!(patch(&raygate, "/clusters/demo", &on).await?.status, 200);
    let set = json!({"workerGroups": {"w": {"replicas": 3}}});
    patch(&raygate, "/clusters/demo", &set).await?.problem(409, "AUTOSCALER_OWNS_REPLICAS");
    Ok(())
}

#[tokio::test]
async fn a_protected_cluster_is_not_deleted() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    let answer = patch(&raygate, "/clusters/demo", &json!({"deletionProtection": true})).await?;
    assert_eq!(answer.json()["deletionProtection"], true);
    raygate.delete("/clusters/demo").await?.problem(409, "DELETION_PROTECTED");
    assert_eq!(patch(&raygate, "/clusters/demo", &json!({"deletionProtection": null})).await?.status, 200);
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
    Ok(())
}

#[tokio::test]
async fn unlike_versions_are_warned_of() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = raygate.post("/clusters", &json!({"name": "demo", "image": "rayproject/ray:2.40.0"})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let warnings = answer.json()["warnings"].clone();
    assert_eq!(
        (&warnings[0]["code"], &warnings[0]["pointer"]),
        (&json!("VERSION_MISMATCH"), &json!("/image")),
        "{warnings}"
    );
    assert!(warnings[0]["message"].as_str().unwrap_or_default().contains("2.40.0"), "{warnings}");
    assert_eq!(raygate.get("/clusters/demo").await?.json().get("warnings"), None, "of the write, not of the cluster");
    let answer = patch(&raygate, "/clusters/demo", &json!({"rayVersion": "2.40.0"})).await?;
    assert_eq!(answer.json().get("warnings"), None, "{answer:?}");
    Ok(())
}

/// What others put into a RayCluster: none of it is a member of any document of ours that is sent.
fn foreign() -> Value {
    let template = |name: &str| {
        json!({
            "metadata": {"annotations": {"sidecar.example/inject": "true"}},
            "spec": {
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
                "schedulerName": "default-scheduler",
                "containers": [
                    {"name": name, "image": "rayproject/ray:2.52.0", "lifecycle": {"preStop": {"exec": {"command": ["ray", "stop"]}}},
                     "env": [{"name": "THEIRS", "value": "raygate-test-secret-1"}]},
                    {"name": "proxy", "image": "busybox", "command": ["sleep", "infinity"]},
                ],
            },
        })
    };
    json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"name": "theirs", "annotations": {"unknown.example/key": "kept"}, "labels": {"unknown.example/label": "kept"}},
        "spec": {
            "rayVersion": "2.52.0", "upgradeStrategy": {"type": "None"}, "headServiceAnnotations": {"lb.example/kind": "nlb"},
            "headGroupSpec": {"rayStartParams": {}, "resources": {"CPU": "2"}, "template": template("ray-head")},
            "workerGroupSpecs": [
                {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "scaleStrategy": {"workersToDelete": []},
                 "labels": {"pool": "a"}, "template": template("ray-worker")},
                {"groupName": "v", "replicas": 0, "minReplicas": 0, "maxReplicas": 4, "template": template("ray-worker")},
            ],
        },
    })
}

/// Every write of ours that doesn't ask for their removal leaves what others wrote as it is; on any backend.
pub(crate) async fn foreign_fields_survive(raygate: &Api, add_finalizer: impl AsyncFn() -> Outcome) -> Outcome {
    let answer = raygate.post("/clusters", &foreign()).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    add_finalizer().await?;
    let spec = async || -> Outcome<Value> { Ok(raygate.get("/clusters/theirs/manifest").await?.json()) };
    let mut wanted = spec().await?;
    let mut step = async |body: Value, change: &dyn Fn(&mut Value)| -> Outcome {
        let answer = patch(raygate, "/clusters/theirs", &body).await?;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        change(&mut wanted);
        let held = eventually("what it has begun is finished", async || {
            let held = spec().await?;
            let begun = held["metadata"]["annotations"].get("raygate.dev/dropped-groups").is_some();
            Ok((!begun).then_some(held))
        })
        .await?;
        for member in ["labels", "annotations", "finalizers"] {
            assert_eq!(held["metadata"][member], wanted["metadata"][member], "{member} after {body}");
        }
        assert_eq!(held["spec"], wanted["spec"], "after {body}");
        Ok(())
    };
    step(json!({"workerGroups": {"w": {"replicas": 2}}}), &|object| {
        object["spec"]["workerGroupSpecs"][0]["replicas"] = json!(2);
    })
    .await?;
    step(json!({"labels": {"mine": "1"}}), &|object| object["metadata"]["labels"]["mine"] = json!("1")).await?;
    step(json!({"workerGroups": {"v": {"env": {"MINE": "raygate-test-secret-2"}}}}), &|object| {
        let env = &mut object["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["env"];
        *env = json!([{"name": "THEIRS", "value": "raygate-test-secret-1"}, {"name": "MINE", "value": "raygate-test-secret-2"}]);
    })
    .await?;
    step(json!({"head": {"cpu": "1"}}), &|object| {
        let amounts = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
        object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"] = amounts;
    })
    .await?;
    step(json!({"rayVersion": "2.53.0"}), &|object| {
        object["spec"]["rayVersion"] = json!("2.53.0");
        object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = json!("rayproject/ray:2.53.0");
        for group in 0..2 {
            let container = &mut object["spec"]["workerGroupSpecs"][group]["template"]["spec"]["containers"][0];
            container["image"] = json!("rayproject/ray:2.53.0");
        }
    })
    .await?;
    step(json!({"workerGroups": {"v": null}}), &|object| {
        object["spec"]["workerGroupSpecs"].as_array_mut().map(Vec::pop);
    })
    .await?;
    step(json!({"suspended": true}), &|object| object["spec"]["suspend"] = json!(true)).await
}

#[tokio::test]
async fn what_others_wrote_survives() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    foreign_fields_survive(&raygate, async || Ok(())).await
}

#[tokio::test]
async fn a_guarded_delete_of_a_changed_cluster_is_refused() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    created(&raygate).await?;
    let answer = raygate.send(Method::DELETE, "/clusters/demo", &[("if-match", "\"0000000000000000.0\"")], "").await?;
    answer.problem(412, "PRECONDITION_FAILED");
    assert_eq!(raygate.get("/clusters/demo").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn numbers_too_large_to_be_counted_hurt_nobody() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let group = json!({"replicas": i32::MAX, "maxReplicas": i32::MAX, "numOfHosts": i32::MAX});
    let groups = json!({"a": group, "b": group, "c": group});
    let answer = raygate.post("/clusters", &json!({"name": "huge", "workerGroups": groups})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(raygate.delete("/clusters/huge").await?.status, 202);
    assert_eq!(raygate.get("/health").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn nulls_under_unknown_names_are_told_however_many_others_there_are() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let env: serde_json::Map<_, _> =
        (0..200).map(|index| (format!("V{index}"), json!("raygate-test-secret"))).collect();
    let answer = raygate.post("/clusters", &json!({"name": "demo", "head": {"env": env}})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let nulls: serde_json::Map<_, _> = env.keys().map(|name| (name.clone(), Value::Null)).collect();
    let body = json!({"head": {"env": nulls, "labels": {"ray.io/group": null}}, "bogus": null});
    let problem = patch(&raygate, "/clusters/demo", &body).await?.problem(400, "MALFORMED");
    let wanted = [("/bogus", "UNKNOWN_MEMBER"), ("/head/labels/ray.io~1group", "RESERVED")];
    assert_eq!(faults(&problem), wanted.map(|(pointer, code)| (pointer.to_owned(), code.to_owned())), "{problem}");
    let answer = patch(&raygate, "/clusters/demo", &json!({"head": {"env": nulls}})).await?;
    assert_eq!((answer.status.as_u16(), answer.json()["head"].get("env")), (200, None));
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_not_the_paths_is_a_fault_among_others() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let body = json!({"name": "other", "bogus": 1});
    let problem = put(&raygate, "/clusters/free", &[], &body).await?.problem(400, "MALFORMED");
    let wanted = [("/bogus", "UNKNOWN_MEMBER"), ("/name", "IMMUTABLE")];
    assert_eq!(faults(&problem), wanted.map(|(pointer, code)| (pointer.to_owned(), code.to_owned())), "{problem}");
    Ok(())
}
