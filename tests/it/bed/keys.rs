//! Requests with an `Idempotency-Key`, through several raygates.

use futures::future::try_join_all;
use http::Method;
use kube::api::{Patch, PatchParams};

use super::*;
use crate::support::{Answer, Api as Asked, Files, Guarded};

/// Creates with a key, as one of the people.
async fn create(to: &Asked, bearer: &str, key: &str, body: &Value) -> Outcome<Answer> {
    to.send(Method::POST, "/clusters", &[("authorization", bearer), ("idempotency-key", key)], body.to_string()).await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn one_key_makes_one_cluster_however_often_and_wherever_it_is_sent() -> Outcome {
    let bed = Bed::new("keys").await?;
    let elsewhere = fresh(&bed.client, "keys-elsewhere").await?;
    let policy = json!({
        "version": 1,
        "grants": [{"users": ["alice", "bob"], "namespaces": [bed.namespace, elsewhere], "role": "user"}],
    });
    let files = Files::new(&[("alice", &[]), ("bob", &[])], &policy.to_string())?;
    let (tokens, policy) = (files.token_path().display().to_string(), files.policy_path().display().to_string());
    let kubeconfig = kubeconfig()?.display().to_string();
    let place = ["--backend", "kubernetes", "--kubeconfig", &kubeconfig, "--default-namespace", &bed.namespace];
    let one = Guarded::start(files, &place).await?;
    let other = Raygate::start(&[&place[..], &["--token-file", &tokens, "--policy-file", &policy]].concat()).await?;
    other.ready().await?;
    let (alice, bob) = (one.bearer("alice"), one.bearer("bob"));
    let body = |name: &str| json!({"name": name, "head": {"cpu": "10m", "memory": "1Gi"}});

    let raygates: [&Asked; 2] = [&one, &other];
    let demo = body("demo");
    let answers = try_join_all((0..16).map(|index| create(raygates[index % 2], &alice, "key", &demo))).await?;
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    let again = answers.iter().filter(|answer| answer.status == 200 && is_replayed(answer)).count();
    assert_eq!((made.len(), again), (1, 15), "{answers:?}");
    assert!(!is_replayed(made[0]));
    let uid = made[0].json()["uid"].clone();
    assert!(uid.is_string() && answers.iter().all(|answer| answer.json()["uid"] == uid), "{answers:?}");
    assert_eq!(bed.clusters().list(&ListParams::default()).await?.items.len(), 1);

    for changed in [body("other"), json!({"name": "demo", "head": {"cpu": "20m", "memory": "1Gi"}})] {
        for raygate in raygates {
            create(raygate, &alice, "key", &changed).await?.problem(422, "IDEMPOTENCY_KEY_REUSED");
        }
    }
    let mut there = demo.clone();
    there["namespace"] = elsewhere.as_str().into();
    let answer = create(&other, &alice, "key", &there).await?;
    assert_eq!(
        (answer.status.as_u16(), is_replayed(&answer)),
        (201, false),
        "another namespace, another key: {answer:?}"
    );
    let answer = create(&other, &bob, "key", &body("bobs")).await?;
    assert_eq!((answer.status.as_u16(), is_replayed(&answer)), (201, false), "another caller, another key: {answer:?}");
    create(&other, &bob, "key-2", &demo).await?.problem(409, "ALREADY_EXISTS");

    // While it is on its way out, and once it is gone.
    let finalizers = |names: Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    let held = finalizers(json!(["test.example/held"]));
    bed.clusters().patch("demo", &PatchParams::default(), &held).await?;
    let headers = [("authorization", alice.as_str())];
    let answer = one.send(Method::DELETE, "/clusters/demo", &headers, "").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    for raygate in raygates {
        let answer = create(raygate, &alice, "key", &demo).await?;
        answer.problem(409, "DELETING");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    bed.clusters().patch("demo", &PatchParams::default(), &finalizers(Value::Null)).await?;
    let answer = eventually("the name is free", async || {
        let answer = create(&other, &alice, "key", &demo).await?;
        if answer.status == 201 {
            return Ok(Some(answer));
        }
        answer.problem(409, "DELETING");
        Ok(None)
    })
    .await?;
    assert!(!is_replayed(&answer) && answer.json()["uid"] != uid, "{answer:?}");
    let again = create(&one, &alice, "key", &demo).await?;
    assert!(again.status == 200 && is_replayed(&again) && again.json()["uid"] == answer.json()["uid"], "{again:?}");
    Ok(())
}
