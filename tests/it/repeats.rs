//! Creates that are sent again: the same key and body make one cluster, and a taken name says how what is there differs.

use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::support::bench::DEMO;
use crate::support::{Answer, Api, Bench, Guarded, Outcome, eventually, faults};

const KEY: &str = "raygate.dev/idempotency-key";
const YAML: (&str, &str) = ("content-type", "application/yaml");

/// Creates with a key, as JSON.
async fn create(api: &Api, key: &str, body: &Value) -> Outcome<Answer> {
    api.send(Method::POST, "/clusters", &[("idempotency-key", key)], body.to_string()).await
}

/// Checks that the answer is that of a create before.
fn replayed(answer: &Answer, uid: &Value) {
    assert_eq!((answer.status.as_u16(), answer.header("idempotency-replayed")), (200, "true"), "{answer:?}");
    assert_eq!((&answer.json()["uid"], answer.header("location")), (uid, "clusters/demo.default"), "{answer:?}");
    assert!(!answer.header("etag").is_empty(), "{answer:?}");
}

#[tokio::test]
async fn the_same_create_makes_one_cluster_however_it_is_spelt() -> Outcome {
    let bench = Bench::new().await?;
    let first = bench
        .send(
            Method::POST,
            "/clusters",
            &[("idempotency-key", "k")],
            r#"{"name": "demo", "head": {"cpu": "1", "memory": "1Gi"}}"#,
        )
        .await?;
    assert_eq!((first.status.as_u16(), first.header("idempotency-replayed")), (201, ""), "{first:?}");
    let uid = first.json()["uid"].clone();
    let json = ("content-type", "application/json");
    for (media_type, body) in [
        (json, r#"{"name": "demo", "head": {"cpu": "1", "memory": "1Gi"}}"#),
        (json, r#" { "head":{"memory":"1Gi","cpu":"1"},"name" : "demo" } "#),
        (json, r#"{"n\u0061me": "demo", "head": {"cpu": "1", "memory": "1Gi"}}"#),
        (YAML, "name: demo\nhead: {cpu: '1', memory: 1Gi}\n"),
        (YAML, "# again\nhead:\n  memory: \"1Gi\"\n  cpu: \"1\"\nname: demo\n"),
    ] {
        let again = bench.send(Method::POST, "/clusters", &[media_type, ("idempotency-key", "k")], body).await?;
        replayed(&again, &uid);
    }
    // It answers what the cluster is now, also once it has been changed; dry too.
    assert_eq!(bench.patch(json!({"labels": {"x": "y"}})).await?.status, 200);
    for path in ["/clusters", "/clusters?dryRun=All"] {
        let body = r#"{"name": "demo", "head": {"cpu": "1", "memory": "1Gi"}}"#;
        let again = bench.send(Method::POST, path, &[("idempotency-key", "k")], body).await?;
        replayed(&again, &uid);
        assert_eq!(again.json()["labels"]["x"], "y");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_is_for_one_body() -> Outcome {
    let bench = Bench::new().await?;
    let body = json!({"name": "demo", "head": {"cpu": "1", "env": {"A": "raygate-test-secret-1"}}});
    assert_eq!(create(&bench, "k", &body).await?.status, 201);
    for other in [
        json!({"name": "other"}),
        json!({"name": "demo"}),
        json!({"name": "demo", "head": {"cpu": "2", "env": {"A": "raygate-test-secret-1"}}}),
        json!({"name": "demo", "head": {"cpu": "1", "env": {"A": "raygate-test-secret-2"}}}),
    ] {
        let problem = create(&bench, "k", &other).await?.problem(422, "IDEMPOTENCY_KEY_REUSED");
        assert!(!problem.to_string().contains("raygate-test-secret"), "{problem}");
    }
    bench.get("/clusters/other").await?.problem(404, "NOT_FOUND");
    create(&bench, "l", &body).await?.problem(409, "ALREADY_EXISTS");
    // What is wrong is wrong with any key, and uses none up.
    create(&bench, "m", &json!({"name": "x", "bogus": 1})).await?.problem(400, "MALFORMED");
    assert_eq!(create(&bench, "m", &json!({"name": "x"})).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn a_key_whose_cluster_is_gone_creates_anew() -> Outcome {
    let bench = Bench::new().await?;
    let body = json!({"name": "demo"});
    let first = create(&bench, "k", &body).await?;
    bench.becomes("READY").await?;
    bench.hold();
    assert_eq!(bench.delete(DEMO).await?.status, 202);
    let meanwhile = create(&bench, "k", &body).await?;
    meanwhile.problem(409, "DELETING");
    assert_eq!(meanwhile.header("retry-after"), "2", "{meanwhile:?}");
    bench.release();
    let anew = eventually("the name is free", async || {
        let answer = create(&bench, "k", &body).await?;
        Ok((answer.status == 201).then_some(answer))
    })
    .await?;
    assert_ne!(anew.json()["uid"], first.json()["uid"]);
    assert_eq!(anew.header("idempotency-replayed"), "");
    replayed(&create(&bench, "k", &body).await?, &anew.json()["uid"]);
    Ok(())
}

#[tokio::test]
async fn a_key_is_one_text_of_visible_ascii() -> Outcome {
    let bench = Bench::new().await?;
    let longest = "k".repeat(255);
    let too_long = "k".repeat(256);
    let send = async |headers: &[(&str, &str)]| {
        bench.send(Method::POST, "/clusters", headers, json!({"name": "demo"}).to_string()).await
    };
    let name = "idempotency-key";
    for headers in [
        &[(name, "")][..],
        &[(name, &*too_long)],
        &[(name, "a"), (name, "b")],
        &[(name, "a"), (name, "a")],
        &[(name, "schl\u{fc}ssel")],
    ] {
        send(headers).await?.problem(400, "MALFORMED");
        let restart = bench.run("restart", headers).await?;
        restart.problem(400, "MALFORMED");
    }
    bench.get(DEMO).await?.problem(404, "NOT_FOUND");
    assert_eq!(send(&[(name, &longest)]).await?.status, 201);
    assert_eq!(send(&[("Idempotency-Key", &longest)]).await?.status, 200);
    Ok(())
}

const POLICY: &str = r"
version: 1
grants: [{users: [alice, bob], namespaces: [default, closed], role: user}]
privateNamespaces: [closed]
";

async fn guarded() -> Outcome<Guarded> {
    let namespaces = ["--namespace", "default", "--namespace", "closed"];
    Guarded::memory(&[("alice", &[]), ("bob", &[])], POLICY, &namespaces).await
}

#[tokio::test]
async fn a_key_is_one_callers_in_one_namespace() -> Outcome {
    let guarded = guarded().await?;
    let create = async |user: &str, body: Value| {
        let headers = [("authorization", &*guarded.bearer(user)), ("idempotency-key", "k")];
        guarded.send(Method::POST, "/clusters", &headers, body.to_string()).await
    };
    let alices = create("alice", json!({"name": "one"})).await?;
    assert_eq!(alices.status, 201, "{alices:?}");
    // Bob's key is another, whatever it says.
    create("bob", json!({"name": "one"})).await?.problem(409, "ALREADY_EXISTS");
    let bobs = create("bob", json!({"name": "two"})).await?;
    assert_eq!(bobs.status, 201, "{bobs:?}");
    let elsewhere = create("alice", json!({"name": "one", "namespace": "closed"})).await?;
    assert_eq!(elsewhere.status, 201, "{elsewhere:?}");
    for (user, body, uid) in [
        ("alice", json!({"name": "one"}), &alices.json()["uid"]),
        ("bob", json!({"name": "two"}), &bobs.json()["uid"]),
        ("alice", json!({"name": "one", "namespace": "closed"}), &elsewhere.json()["uid"]),
    ] {
        let again = create(user, body).await?;
        assert_eq!((again.status.as_u16(), &again.json()["uid"]), (200, uid), "{again:?}");
    }
    // A key of a cluster that isn't the caller's any longer tells no more of it than its name being taken.
    let handed = guarded.bearer("alice");
    let path = "/clusters/one.closed/owner";
    let answer = guarded.send(Method::POST, path, &[("authorization", &handed)], r#"{"owner": "bob"}"#).await?;
    if answer.status == 200 {
        create("alice", json!({"name": "one", "namespace": "closed"})).await?.problem(409, "ALREADY_EXISTS");
    } else {
        answer.problem(403, "FORBIDDEN");
    }
    Ok(())
}

#[tokio::test]
async fn many_at_once_make_one_cluster() -> Outcome {
    let bench = Bench::new().await?;
    let other = bench.replica().await?;
    let body = json!({"name": "demo"});
    let answers =
        try_join_all((0..16).map(|at| if at < 12 { create(&bench, "k", &body) } else { create(&other, "k", &body) }))
            .await?;
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(made.len(), 1, "{answers:?}");
    let uid = &made[0].json()["uid"];
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        replayed(answer, uid);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_stored_tells_nothing_of_key_and_body() -> Outcome {
    let bench = Bench::new().await?;
    let body = |name: &str| json!({"name": name, "head": {"env": {"A": "raygate-test-secret-1"}}});
    let mut marks = Vec::new();
    for (key, name) in [("a-telling-key", "demo"), ("another-key", "demo"), ("a-telling-key", "demo")] {
        let answer = create(&bench, key, &body(name)).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(!answer.json().to_string().contains("idempotency"), "views don't show it: {answer:?}");
        let metadata = bench.held().await?["metadata"].clone();
        assert!(!metadata.to_string().contains("telling"), "{metadata}");
        marks.push((metadata["labels"][KEY].clone(), metadata["annotations"][KEY].clone()));
        bench.delete(DEMO).await?;
        eventually("it is gone", async || Ok((bench.get(DEMO).await?.status == 404).then_some(()))).await?;
    }
    let (first, second, third) = (&marks[0], &marks[1], &marks[2]);
    assert_eq!(first, third, "any replica knows it again");
    assert!(
        first.0 != second.0 && first.1 != second.1,
        "the same body under another key looks like another: {marks:?}"
    );
    assert!(first.0.as_str().is_some_and(|label| label.len() <= 63), "{marks:?}");
    Ok(())
}

#[tokio::test]
async fn a_taken_name_says_how_what_is_there_differs() -> Outcome {
    let bench = Bench::new().await?;
    let body = json!({"name": "demo", "labels": {"team": "a"}, "workerGroups": {"w": {"replicas": 1, "cpu": "1"}}});
    assert_eq!(bench.post("/clusters", &body).await?.status, 201);
    let taken = async |body: &Value| -> Outcome<Value> {
        let answer = bench.post("/clusters", body).await?;
        assert_eq!(answer.header("location"), "clusters/demo.default", "{answer:?}");
        Ok(answer.problem(409, "ALREADY_EXISTS"))
    };
    for same in [
        body.clone(),
        json!({"name": "demo", "namespace": "default", "labels": {"team": "a"},
        "workerGroups": {"w": {"replicas": 1, "cpu": "1000m", "minReplicas": 0}}}),
    ] {
        assert_eq!(faults(&taken(&same).await?), [], "{same}");
    }
    let mut other = body.clone();
    other["labels"]["team"] = json!("b");
    other["workerGroups"]["w"]["cpu"] = json!("2");
    let wanted = ["/labels/team", "/workerGroups/w/cpu"].map(|pointer| (pointer.to_owned(), "DIFFERENT".to_owned()));
    assert_eq!(faults(&taken(&other).await?), wanted);
    // In a manifest where they stand there.
    let mut manifest = bench.get(&format!("{DEMO}/manifest")).await?.json();
    assert_eq!(faults(&taken(&manifest).await?), []);
    manifest["spec"]["workerGroupSpecs"][0]["replicas"] = json!(2);
    let problem = taken(&manifest).await?;
    assert_eq!(
        faults(&problem),
        [("/spec/workerGroupSpecs/0/replicas".to_owned(), "DIFFERENT".to_owned())],
        "{problem}"
    );
    Ok(())
}

#[tokio::test]
async fn a_taken_name_tells_no_more_than_may_be_read() -> Outcome {
    let guarded = guarded().await?;
    for (namespace, location) in [("default", "clusters/demo.default"), ("closed", "")] {
        let body = |value: &str| json!({"name": "demo", "namespace": namespace, "head": {"env": {"A": value}}});
        let made = guarded.create("alice", &body("raygate-test-secret-1")).await?;
        assert_eq!(made.status, 201, "{made:?}");
        for value in ["raygate-test-secret-1", "raygate-test-secret-2"] {
            let answer = guarded.create("bob", &body(value)).await?;
            let problem = answer.problem(409, "ALREADY_EXISTS");
            assert_eq!(
                (faults(&problem), answer.header("location")),
                (vec![], location),
                "{namespace} {value}: {problem}"
            );
        }
        let own = guarded.create("alice", &body("raygate-test-secret-2")).await?.problem(409, "ALREADY_EXISTS");
        assert_eq!(faults(&own), [("/head/env/A".to_owned(), "DIFFERENT".to_owned())], "{own}");
        assert!(!own.to_string().contains("raygate-test-secret"), "{own}");
    }
    Ok(())
}
