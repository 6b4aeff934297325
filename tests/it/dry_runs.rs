//! Dry runs answer as the real write would and store nothing; and deletions that may find nothing, or only the one meant.

use http::Method;
use serde_json::{Value, json};

use crate::support::bench::{DEMO, two_groups};
use crate::support::{Answer, Bench, Guarded, Outcome, Raygate, eventually, faults};

const A: &str = "/clusters/demo/workerGroups/a";
const ANY: &[(&str, &str)] = &[("if-match", "*")];

/// A write: method, path, headers, body.
type Write = (Method, &'static str, &'static [(&'static str, &'static str)], Value);

/// Sends a write, dry or not; a body of `null` is none.
async fn send(bench: &Bench, (method, path, headers, body): &Write, dry: bool) -> Outcome<Answer> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let path = if dry { format!("{path}{mark}dryRun=All") } else { (*path).to_owned() };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    bench.send(method.clone(), &path, headers, body).await
}

/// What two answers to one write have in common.
fn common(answer: &Answer, keeps_uid: bool) -> Value {
    let mut body = answer.json();
    let states = (body["status"]["state"].take(), body["status"]["desired"].take());
    if let Some(members) = body.as_object_mut() {
        members.retain(|name, _| !["status", "createTime", "resourceVersion"].contains(&name.as_str()));
        if !keeps_uid {
            members.shift_remove("uid");
        }
    }
    let etag = answer.header("etag").split('.').next().unwrap_or_default();
    let etag = if keeps_uid { etag } else { "" };
    json!([
        answer.status.as_u16(),
        body,
        states.0,
        states.1,
        etag,
        answer.header("location"),
        answer.header("content-type")
    ])
}

/// All writes that there are, each on a cluster of [`two_groups`] that is ready.
fn writes() -> Vec<Write> {
    let other = json!({"name": "other", "head": {"cpu": "1"}});
    let whole = json!({"rayVersion": "2.52.0", "head": {"cpu": "2"}, "workerGroups": {"b": {"replicas": 2}}});
    vec![
        (Method::POST, "/clusters", &[], other.clone()),
        (Method::POST, "/clusters", &[("idempotency-key", "k")], other.clone()),
        (Method::PUT, "/clusters/other", &[], other.clone()),
        (Method::PUT, "/clusters/other", &[("if-none-match", "*")], other),
        (Method::PUT, DEMO, ANY, whole.clone()),
        (Method::PUT, "/clusters/demo?restart=true", ANY, whole),
        (Method::PATCH, DEMO, &[], json!({"labels": {"x": "y"}})),
        (Method::PATCH, DEMO, &[], json!({"workerGroups": {"a": null}})),
        (Method::PATCH, DEMO, &[], json!({})),
        (Method::PATCH, "/clusters/demo?restart=true", &[], json!({"head": {"cpu": "2"}})),
        (Method::PATCH, A, &[], json!({"replicas": 4, "cpu": "2"})),
        (Method::PUT, A, ANY, json!({"replicas": 4})),
        (Method::PUT, "/clusters/demo/workerGroups/c", ANY, json!({"cpu": "1"})),
        (Method::DELETE, A, ANY, Value::Null),
        (Method::POST, "/clusters/demo/stop", &[], Value::Null),
        (Method::POST, "/clusters/demo/start", &[], Value::Null),
        (Method::POST, "/clusters/demo/restart", &[], Value::Null),
        (Method::POST, "/clusters/demo/restart", &[("idempotency-key", "k")], Value::Null),
        (Method::POST, "/clusters/demo/owner", &[], json!({"owner": "alice"})),
        (Method::DELETE, DEMO, &[], Value::Null),
        (Method::DELETE, DEMO, ANY, Value::Null),
    ]
}

#[tokio::test]
async fn a_dry_run_answers_as_the_write_would_and_stores_nothing() -> Outcome {
    for write in writes() {
        let bench = Bench::ready(&two_groups()).await?;
        bench.hold();
        let mut socket = bench.socket("/watch", &[]).await?;
        socket.until(|event| event["type"] == "SYNCED").await?;
        let paths = [DEMO, "/clusters/demo/manifest", "/clusters"];
        let mut before = Vec::new();
        for path in paths {
            before.push(bench.get(path).await?.body);
        }
        let held = bench.held().await?;

        let dry = send(&bench, &write, true).await?;
        assert!(dry.status.is_success(), "{write:?}: {dry:?}");
        let again = send(&bench, &write, true).await?;
        let keeps_uid = !write.1.ends_with("/clusters") && write.1 != "/clusters/other";
        assert_eq!(common(&again, keeps_uid), common(&dry, keeps_uid), "{write:?}: nothing is used up");

        assert_eq!(bench.held().await?, held, "{write:?}");
        for (path, before) in paths.iter().zip(before) {
            assert_eq!(bench.get(path).await?.body, before, "{write:?}: {path}");
        }
        bench.get("/clusters/other").await?.problem(404, "NOT_FOUND");
        bench.kubectl(json!({"metadata": {"labels": {"marker": "1"}}})).await?;
        let events = socket.until(|event| event["cluster"]["labels"]["marker"] == "1").await?;
        assert_eq!(events.len(), 1, "{write:?}: {events:?}");
        bench.kubectl(json!({"metadata": {"labels": {"marker": null}}})).await?;

        let real = send(&bench, &write, false).await?;
        assert_eq!(common(&real, keeps_uid), common(&dry, keeps_uid), "{write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_dry_run_is_refused_as_the_write_would_be() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    assert_eq!(bench.patch(json!({"deletionProtection": true})).await?.status, 200);
    let writes: [Write; 20] = [
        (Method::POST, "/clusters", &[], json!({"name": "demo"})),
        (Method::POST, "/clusters", &[], json!({"name": "-"})),
        (Method::POST, "/clusters", &[], json!({"nam": "x", "head": {"cpu": "y"}})),
        (Method::POST, "/clusters", &[], json!({"name": "x", "namespace": "nowhere"})),
        (Method::POST, "/clusters?restart=true", &[], json!({"name": "x"})),
        (Method::PUT, DEMO, &[], json!({"rayVersion": "2.52.0"})),
        (Method::PUT, DEMO, &[("if-match", "\"stale\"")], json!({"rayVersion": "2.52.0"})),
        (Method::PUT, DEMO, ANY, json!({"rayVersion": "2.52.0", "name": "x"})),
        (Method::PUT, "/clusters/other", ANY, json!({})),
        (Method::PATCH, DEMO, &[], json!({"rayVersion": null})),
        (Method::PATCH, "/clusters/none", &[], json!({})),
        (Method::PATCH, "/clusters/demo?restart=true", &[], json!({"suspended": true})),
        (Method::PATCH, A, &[], json!({"replicas": 99})),
        (Method::PATCH, "/clusters/demo/workerGroups/none", &[], json!({})),
        (Method::DELETE, A, &[], Value::Null),
        (Method::DELETE, DEMO, &[], Value::Null),
        (Method::DELETE, "/clusters/demo?uid=x", &[], Value::Null),
        (Method::DELETE, "/clusters/none", &[], Value::Null),
        (Method::POST, "/clusters/none/restart", &[], Value::Null),
        (Method::POST, "/clusters/demo/stop", &[("if-match", "\"stale\"")], Value::Null),
    ];
    let held = bench.held().await?;
    for write in writes {
        let told = |answer: &Answer| {
            let problem = answer.problem(answer.status.as_u16(), answer.json()["code"].as_str().unwrap_or_default());
            let members = ["status", "code", "detail", "hint", "errors"].map(|member| problem[member].clone());
            (members, answer.header("location").to_owned(), answer.header("retry-after").to_owned())
        };
        let (dry, real) = (send(&bench, &write, true).await?, send(&bench, &write, false).await?);
        assert!(dry.status.is_client_error(), "{write:?}: {dry:?}");
        assert_eq!(told(&dry), told(&real), "{write:?}");
    }
    assert_eq!(bench.held().await?, held);
    Ok(())
}

#[tokio::test]
async fn there_is_one_way_to_run_dry() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let held = bench.held().await?;
    for value in ["None", "all", "", "true", "All&dryRun=All"] {
        for (method, path, body) in [
            (Method::POST, "/clusters", r#"{"name": "x"}"#),
            (Method::PUT, DEMO, "{}"),
            (Method::PATCH, DEMO, "{}"),
            (Method::DELETE, DEMO, ""),
            (Method::PATCH, A, "{}"),
            (Method::PUT, A, "{}"),
            (Method::DELETE, A, ""),
            (Method::POST, "/clusters/demo/stop", ""),
            (Method::POST, "/clusters/demo/owner", r#"{"owner": null}"#),
        ] {
            let answer = bench.send(method.clone(), &format!("{path}?dryRun={value}"), ANY, body).await?;
            let problem = answer.problem(400, "MALFORMED");
            assert_eq!(
                faults(&problem),
                [("?dryRun".to_owned(), "INVALID_PARAMETER".to_owned())],
                "{method} {path} {value}"
            );
            if !value.contains('&') {
                assert_eq!(problem["errors"][0]["allowed"], json!(["All"]), "{problem}");
            }
        }
    }
    for path in [DEMO, "/clusters", "/clusters/demo/manifest", "/watch"] {
        let problem = bench.get(&format!("{path}?dryRun=All")).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), [("?dryRun".to_owned(), "UNKNOWN_PARAMETER".to_owned())], "{path}");
    }
    assert_eq!(bench.held().await?, held);
    Ok(())
}

#[tokio::test]
async fn the_audit_says_that_a_dry_run_changed_nothing() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "demo", "workerGroups": {"a": {}}})).await?.status, 201);
    let writes = [
        (Method::POST, "/clusters", r#"{"name": "other"}"#),
        (Method::PUT, "/clusters/other", "{}"),
        (Method::PUT, DEMO, r#"{"rayVersion": "2.52.0"}"#),
        (Method::PATCH, DEMO, r#"{"labels": {"x": "y"}}"#),
        (Method::PATCH, A, r#"{"replicas": 1}"#),
        (Method::PUT, A, r#"{"replicas": 1}"#),
        (Method::DELETE, A, ""),
        (Method::POST, "/clusters/demo/stop", ""),
        (Method::POST, "/clusters/demo/restart", ""),
        (Method::POST, "/clusters/demo/owner", r#"{"owner": "alice"}"#),
        (Method::DELETE, DEMO, ""),
    ];
    for (method, path, body) in &writes {
        let creates = *path == "/clusters/other" || *path == "/clusters";
        let headers = if creates { &[] } else { ANY };
        let answer = raygate.send(method.clone(), &format!("{path}?dryRun=All"), headers, *body).await?;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
    }
    let lines = eventually("all lines are written", async || {
        let lines = raygate.audit()?;
        Ok((lines.len() > writes.len()).then_some(lines))
    })
    .await?;
    assert_eq!(lines.len(), writes.len() + 1, "{lines:?}");
    for (line, (method, path, _)) in lines.iter().skip(1).zip(&writes) {
        assert_eq!((&line["verb"], &line["path"]), (&json!(method.as_str()), &json!(path)), "{line}");
        assert_eq!((&line["result"], line.get("changed")), (&json!("UNCHANGED"), None), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deletion_may_find_nothing() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let uid = bench.read().await?.json()["uid"].as_str().unwrap_or_default().to_owned();
    let delete = async |path: &str| bench.send(Method::DELETE, path, &[], "").await;
    delete("/clusters/none").await?.problem(404, "NOT_FOUND");
    delete("/clusters/none?allowMissing=false").await?.problem(404, "NOT_FOUND");
    for query in ["", "&dryRun=All", "&uid=x"] {
        let answer = delete(&format!("/clusters/none?allowMissing=true{query}")).await?;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0), "{query}: {answer:?}");
    }
    let problem = delete("/clusters/none?allowMissing=maybe").await?.problem(400, "MALFORMED");
    assert_eq!(faults(&problem), [("?allowMissing".to_owned(), "INVALID_PARAMETER".to_owned())], "{problem}");
    // Another cluster of the name isn't the one that is meant, missing or not.
    for query in ["?uid=x", "?uid=x&allowMissing=true", "?uid=", "?uid=x&dryRun=All"] {
        delete(&format!("{DEMO}{query}")).await?.problem(412, "PRECONDITION_FAILED");
    }
    bench.becomes("READY").await?;
    let path = format!("{DEMO}?uid={uid}&allowMissing=true");
    let dry = delete(&format!("{path}&dryRun=All")).await?;
    assert_eq!((dry.status.as_u16(), &dry.json()["status"]["state"]), (202, &json!("DELETING")), "{dry:?}");
    assert_eq!(bench.read().await?.json()["status"]["state"], "READY");
    bench.hold();
    for _ in 0..2 {
        let answer = delete(&path).await?;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["status"]["state"]),
            (202, &json!("DELETING")),
            "{answer:?}"
        );
    }
    bench.release();
    // One request, sent until it says that nothing is left.
    eventually("it is gone", async || Ok((delete(&path).await?.status == 204).then_some(()))).await?;
    bench.get(DEMO).await?.problem(404, "NOT_FOUND");
    // Without it a guard needs something to hold of.
    delete(&format!("{DEMO}?uid={uid}")).await?.problem(412, "PRECONDITION_FAILED");
    Ok(())
}

#[tokio::test]
async fn a_hidden_cluster_is_missing() -> Outcome {
    let policy =
        "version: 1\ngrants: [{users: [alice, bob], namespaces: [closed], role: user}]\nprivateNamespaces: [closed]";
    let guarded = Guarded::memory(
        &[("alice", &[]), ("bob", &[])],
        policy,
        &["--default-namespace", "closed", "--namespace", "closed"],
    )
    .await?;
    let made = guarded.create("alice", &json!({"name": "demo", "namespace": "closed"})).await?;
    assert_eq!(made.status, 201, "{made:?}");
    let uid = made.json()["uid"].as_str().unwrap_or_default().to_owned();
    for name in ["demo.closed", "none.closed"] {
        guarded.ask("bob", Method::DELETE, &format!("/clusters/{name}"), "").await?.problem(404, "NOT_FOUND");
        for query in ["allowMissing=true".to_owned(), format!("allowMissing=true&uid={uid}")] {
            let answer = guarded.ask("bob", Method::DELETE, &format!("/clusters/{name}?{query}"), "").await?;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0), "{name} {query}: {answer:?}");
        }
        let guard = format!("/clusters/{name}?uid={uid}");
        guarded.ask("bob", Method::DELETE, &guard, "").await?.problem(412, "PRECONDITION_FAILED");
    }
    let there = guarded.ask("alice", Method::GET, "/clusters/demo.closed", "").await?;
    assert_eq!((there.status.as_u16(), &there.json()["uid"]), (200, &json!(uid)), "{there:?}");
    assert_ne!(there.json()["status"]["state"], "DELETING");
    Ok(())
}
