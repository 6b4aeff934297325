//! Ray's autoscaler, with which the head's pod has rights in the namespace.

use http::Method;
use serde_json::{Value, json};

use super::{manifest, refuses, start};
use crate::support::Outcome;

/// With the autoscaler the operator gives the head's pod rights on all pods and RayClusters of the namespace.
#[tokio::test]
async fn the_autoscaler_is_not_for_everybody() -> Outcome {
    let guarded = start().await?;
    assert_eq!(guarded.create("bob", &json!({"name": "bobs"})).await?.status, 201);
    let on = json!({"autoscaling": {"enabled": true}});
    let mut named = on.clone();
    named["name"] = json!("fresh");
    let whole = json!({"autoscaling": {"enabled": true}, "rayVersion": "2.52.0"});
    let flag = "/spec/enableInTreeAutoscaling";
    let [fresh, bobs] = [manifest("fresh", flag, &json!(true))?, manifest("bobs", flag, &json!(true))?];
    let guard = [("content-type", "application/json"), ("if-match", "*")];
    for (method, path, body, at) in [
        (Method::POST, "/clusters", &named, "/autoscaling"),
        (Method::PUT, "/clusters/fresh", &on, "/autoscaling"),
        (Method::PUT, "/clusters/bobs", &whole, "/autoscaling"),
        (Method::PATCH, "/clusters/bobs", &on, "/autoscaling"),
        (Method::POST, "/clusters", &fresh, flag),
        (Method::PUT, "/clusters/fresh", &fresh, flag),
        (Method::PUT, "/clusters/bobs", &bobs, flag),
    ] {
        let bearer = guarded.bearer("bob");
        let guard = if path.ends_with("bobs") { &guard[..] } else { &guard[..1] };
        let headers = [&[("authorization", bearer.as_str())], guard].concat();
        let answer = guarded.send(method.clone(), path, &headers, body.to_string()).await?;
        assert!(refuses(&answer, body, at, "autoscaler"), "{method} {path} {body}: {answer:?}");
    }
    let accounts = json!({"name": "fresh", "autoscaling": {"enabled": true}, "head": {"serviceAccount": "default"}});
    let answer = guarded.create("alice", &accounts).await?;
    assert!(refuses(&answer, &accounts, "/head/serviceAccount", "serviceAccounts"), "{answer:?}");
    guarded
        .create("alice", &json!({"name": "default", "autoscaling": {"enabled": true}}))
        .await?
        .problem(403, "POD_NOT_ALLOWED");
    guarded.ask("adam", Method::GET, "/clusters/fresh", "").await?.problem(404, "NOT_FOUND");
    assert_eq!(guarded.create("alice", &named).await?.status, 201);
    Ok(())
}

/// The autoscaler runs beside the head's containers and may mount the same volumes.
#[tokio::test]
async fn the_autoscaler_mounts_no_volume_that_an_admin_gave() -> Outcome {
    let guarded = start().await?;
    let volumes = json!({"v": {"hostPath": {"path": "/disks"}, "mountPath": "/v", "readOnly": true}});
    let lent = json!({"name": "lent", "head": {"volumes": volumes}});
    assert_eq!(guarded.create("adam", &lent).await?.status, 201);
    let hand = guarded.ask("olga", Method::POST, "/clusters/lent.default/owner", r#"{"owner": "alice"}"#).await?;
    assert_eq!(hand.status, 200, "{hand:?}");
    let mount = json!({"enabled": true, "volumeMounts": [{"name": "v", "mountPath": "/w"}]});
    let patch = async |autoscaling: &Value| {
        let body = json!({"autoscaling": autoscaling}).to_string();
        guarded.ask("alice", Method::PATCH, "/clusters/lent", body).await
    };
    let problem = patch(&mount).await?.problem(403, "POD_NOT_ALLOWED");
    assert!(problem["errors"][0]["message"].as_str().is_some_and(|text| text.contains("`hostPaths`")), "{problem}");
    assert_eq!(patch(&json!({"enabled": true, "idleTimeoutSeconds": 60})).await?.status, 200);
    patch(&mount).await?.problem(403, "POD_NOT_ALLOWED");
    Ok(())
}
