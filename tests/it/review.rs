//! What a review of restarts, dropped groups, repeated requests and guards found.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Files, Guarded, Outcome, Raygate, eventually};

const SLOW: [&str; 2] = ["--memory-stop-milliseconds", "1500"];

async fn put(raygate: &Api, path: &str, guard: &[(&str, &str)], body: &Value) -> Outcome<Answer> {
    raygate.send(Method::PUT, path, guard, body.to_string()).await
}

async fn patch(raygate: &Api, path: &str, guard: &[(&str, &str)], body: &Value) -> Outcome<Answer> {
    let guard = [guard, &[("content-type", "application/merge-patch+json")]].concat();
    raygate.send(Method::PATCH, path, &guard, body.to_string()).await
}

async fn manifest(raygate: &Api) -> Outcome<Value> {
    Ok(raygate.get("/clusters/demo/manifest").await?.json())
}

async fn in_state(raygate: &Api, state: &str) -> Outcome {
    eventually(state, async || {
        Ok((raygate.get("/clusters/demo").await?.json()["status"]["state"] == state).then_some(()))
    })
    .await
}

async fn ready(raygate: &Api) -> Outcome {
    let group = json!({"replicas": 1, "maxReplicas": 5, "cpu": "1"});
    let document = json!({"name": "demo", "workerGroups": {"w": group, "v": group}});
    let answer = raygate.post("/clusters", &document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    in_state(raygate, "READY").await
}

async fn finished(raygate: &Api) -> Outcome {
    eventually("what is begun is finished", async || {
        let held = manifest(raygate).await?;
        let annotations = &held["metadata"]["annotations"];
        let begun =
            ["raygate.dev/restart", "raygate.dev/dropped-groups"].iter().any(|key| annotations.get(key).is_some());
        Ok((!begun).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_whole_cluster_read_during_a_restart_does_not_stop_it_afterwards() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    assert_eq!(raygate.post("/clusters/demo/restart", &Value::Null).await?.status.as_u16() / 100, 4, "no body");
    let answer = raygate.send(Method::POST, "/clusters/demo/restart", &[], "").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    let etag = raygate.get("/clusters/demo").await?.header("etag").to_owned();
    let mut read = manifest(&raygate).await?;
    finished(&raygate).await?;
    read["metadata"]["labels"]["team"] = json!("a");
    let answer = put(&raygate, "/clusters/demo", &[("if-match", &etag)], &read).await?;
    if answer.status == 412 {
        return Ok(());
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["suspended"], false, "{}", answer.json());
    Ok(())
}

#[tokio::test]
async fn a_whole_cluster_read_while_a_group_goes_does_not_bring_it_back_maimed() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    let answer = patch(&raygate, "/clusters/demo", &[], &json!({"workerGroups": {"w": null}})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let etag = answer.header("etag").to_owned();
    let mut read = manifest(&raygate).await?;
    finished(&raygate).await?;
    read["metadata"]["labels"]["team"] = json!("a");
    let answer = put(&raygate, "/clusters/demo", &[("if-match", &etag)], &read).await?;
    if answer.status == 412 {
        return Ok(());
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["workerGroups"].get("w"), None, "{}", answer.json());
    Ok(())
}

#[tokio::test]
async fn a_whole_cluster_that_was_not_read_here_stops_a_cluster_that_restarts() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    let mut wanted = manifest(&raygate).await?;
    assert_eq!(raygate.send(Method::POST, "/clusters/demo/restart", &[], "").await?.status, 202);
    wanted["spec"]["suspend"] = json!(true);
    let answer = put(&raygate, "/clusters/demo", &[("if-match", "*")], &wanted).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["suspended"], true, "the write said so, and is answered with 200");
    Ok(())
}

#[tokio::test]
async fn a_repeated_restart_does_not_start_a_cluster_that_was_stopped_meanwhile() -> Outcome {
    for stops in ["patch", "post"] {
        let raygate = Raygate::memory(&SLOW).await?;
        ready(&raygate).await?;
        let key = [("idempotency-key", "k")];
        assert_eq!(raygate.send(Method::POST, "/clusters/demo/restart", &key, "").await?.status, 202);
        if stops == "patch" {
            assert_eq!(patch(&raygate, "/clusters/demo", &[], &json!({"suspended": true})).await?.status, 200);
        } else {
            assert_eq!(raygate.send(Method::POST, "/clusters/demo/stop", &[], "").await?.status, 202);
        }
        let again = raygate.send(Method::POST, "/clusters/demo/restart", &key, "").await?;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"), "{stops}: {again:?}");
        assert_eq!(again.json()["suspended"], true, "{stops}");
    }
    Ok(())
}

#[tokio::test]
async fn a_repeated_restart_that_found_another_under_way_restarts_nothing_later() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    let key = [("idempotency-key", "k")];
    assert_eq!(raygate.send(Method::POST, "/clusters/demo/restart", &[], "").await?.status, 202);
    assert_eq!(raygate.send(Method::POST, "/clusters/demo/restart", &key, "").await?.status, 200);
    finished(&raygate).await?;
    in_state(&raygate, "READY").await?;
    let again = raygate.send(Method::POST, "/clusters/demo/restart", &key, "").await?;
    assert_eq!(again.status, 200, "the same request, answered before: {again:?}");
    Ok(())
}

#[tokio::test]
async fn a_repeated_edit_with_a_restart_passes_its_own_guard() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    let etag = raygate.get("/clusters/demo").await?.header("etag").to_owned();
    let terms = [("idempotency-key", "k"), ("if-match", &*etag)];
    let body = json!({"head": {"cpu": "2"}});
    assert_eq!(patch(&raygate, "/clusters/demo?restart=true", &terms, &body).await?.status, 200);
    let again = patch(&raygate, "/clusters/demo?restart=true", &terms, &body).await?;
    assert_eq!(again.status, 200, "{again:?}");
    Ok(())
}

#[tokio::test]
async fn one_key_with_another_edit_is_refused() -> Outcome {
    let raygate = Raygate::memory(&SLOW).await?;
    ready(&raygate).await?;
    let terms = [("idempotency-key", "k")];
    assert_eq!(
        patch(&raygate, "/clusters/demo?restart=true", &terms, &json!({"head": {"cpu": "2"}})).await?.status,
        200
    );
    finished(&raygate).await?;
    in_state(&raygate, "READY").await?;
    let other = patch(&raygate, "/clusters/demo?restart=true", &terms, &json!({"head": {"cpu": "3"}})).await?;
    let held = manifest(&raygate).await?;
    let restarts = held["metadata"]["annotations"].get("raygate.dev/restart").is_some();
    assert!(other.status == 422 || restarts, "edited, but not restarted: {other:?}");
    Ok(())
}

#[tokio::test]
async fn one_key_makes_one_cluster_however_fast() -> Outcome {
    for _ in 0..20 {
        let raygate = Raygate::memory(&[]).await?;
        let create = async |name: &str| {
            raygate
                .send(Method::POST, "/clusters", &[("idempotency-key", "k")], json!({"name": name}).to_string())
                .await
        };
        let (a, b) = futures::future::try_join(create("a"), create("b")).await?;
        let mut statuses = [a.status.as_u16(), b.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 422], "{a:?} {b:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_create_does_not_ignore_its_guard() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let body = json!({"name": "demo"}).to_string();
    let answer = raygate.send(Method::POST, "/clusters", &[("if-match", "\"0000000000000000.0\"")], body).await?;
    assert!(answer.status.is_client_error(), "a guard that can't hold: {answer:?}");
    Ok(())
}

const POLICY: &str = "version: 1\ngrants:\n- {users: [alice, bob], namespaces: [default], role: user}\n- {users: [vic], namespaces: [default], role: viewer}\nprivateNamespaces: [default]";

#[tokio::test]
async fn a_delete_of_somebody_elses_hidden_cluster_is_in_the_audit() -> Outcome {
    let files = Files::new(&[("alice", &[]), ("bob", &[]), ("vic", &[])], POLICY)?;
    let guarded = Guarded::start(files, &["--backend", "memory"]).await?;
    guarded.create("alice", &json!({"name": "demo"})).await?;
    let answer = guarded.ask("bob", Method::DELETE, "/clusters/demo?allowMissing=true", "").await?;
    assert_eq!(answer.status, 204, "{answer:?}");
    let answer = guarded.ask("bob", Method::DELETE, "/clusters/demo", "").await?;
    assert_eq!(answer.status, 404, "{answer:?}");
    let lines = eventually("a line for each", async || {
        let lines: Vec<_> = guarded.audit()?.into_iter().filter(|line| line["verb"] == "DELETE").collect();
        Ok((lines.len() >= 2).then_some(lines))
    })
    .await?;
    assert_eq!(lines[1]["result"], "REFUSED", "{lines:?}");
    assert_eq!(lines[0]["result"], "REFUSED", "{lines:?}");
    Ok(())
}

#[tokio::test]
async fn a_viewer_is_not_shown_what_to_test_guesses_of_hidden_values_with() -> Outcome {
    let policy = POLICY.replace("privateNamespaces: [default]", "");
    let files = Files::new(&[("alice", &[]), ("bob", &[]), ("vic", &[])], &policy)?;
    let guarded = Guarded::start(files, &["--backend", "memory"]).await?;
    let body = json!({"name": "demo", "head": {"env": {"PIN": "raygate-test-secret-7"}}}).to_string();
    let bearer = guarded.bearer("alice");
    let headers = [("authorization", &*bearer), ("idempotency-key", "1"), ("content-type", "application/json")];
    let answer = guarded.send(Method::POST, "/clusters", &headers, body).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let seen = guarded.ask("vic", Method::GET, "/clusters/demo.default/manifest", "").await?;
    assert_eq!(seen.status, 200, "{seen:?}");
    let seen = seen.json();
    assert_eq!(seen["metadata"]["annotations"].get("raygate.dev/idempotency-key"), None, "{seen}");
    Ok(())
}

#[tokio::test]
async fn strange_bodies_and_names_of_groups_are_refused_shortly() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    ready(&raygate).await?;
    let long = "x".repeat(6000);
    for (method, path, body) in [
        (Method::PATCH, "/clusters/demo/workerGroups/w".to_owned(), "null"),
        (Method::PATCH, "/clusters/demo/workerGroups/w".to_owned(), "[]"),
        (Method::PUT, "/clusters/demo/workerGroups/w".to_owned(), "null"),
        (Method::PUT, "/clusters/demo/workerGroups/w%2F~0".to_owned(), "{}"),
        (Method::PUT, format!("/clusters/demo/workerGroups/{long}"), "{}"),
        (Method::PATCH, format!("/clusters/demo/workerGroups/{long}"), "{}"),
        (Method::DELETE, format!("/clusters/demo/workerGroups/{long}"), ""),
        (Method::PUT, "/clusters/demo/workerGroups/w".to_owned(), r#"{"replicas": "x", "env": 1, "bogus": 2}"#),
    ] {
        let answer = raygate
            .send(method.clone(), &path, &[("if-match", "*"), ("content-type", "application/json")], body)
            .await?;
        assert!(answer.status.is_client_error(), "{method} {path:.60} {body}: {answer:?}");
        println!(
            "{method} {path:.60} {body}: {} {} bytes {:.400}",
            answer.status,
            answer.body.len(),
            String::from_utf8_lossy(&answer.body)
        );
    }
    let yaml = "replicas: x\nenv: {A: {valueFrom: {secretKeyRef: {nme: x}}}}\npodTemplate: {spec: {containers: [{name: ray-worker, imag: y}]}}\n";
    let answer = raygate
        .send(Method::PATCH, "/clusters/demo/workerGroups/w", &[("content-type", "application/yaml")], yaml)
        .await?;
    println!("{}", answer.json());
    assert_eq!(answer.status, 400);
    Ok(())
}
