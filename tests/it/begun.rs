//! Restarts: one mark, one suspension, new nodes, and whoever is left finishes it.

use http::Method;
use raygate::manager::memory::{Options, backend};
use serde_json::{Value, json};

use crate::support::bench::{DEMO, all_new, finished, nodes, release, revision, two_groups};
use crate::support::{Answer, Bench, InProcess, Outcome, eventually, states};

const RESTART: &str = "raygate.dev/restart";
const RESTARTED: &str = "raygate.dev/restarted";

/// What stands on the RayCluster under this key.
fn mark_of(held: &Value, key: &str) -> Option<String> {
    held["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

/// A bench whose cluster is being restarted and can't go on until nodes are released; the restart's answer and its mark.
async fn restarting() -> Outcome<(Bench, Answer, String)> {
    let bench = Bench::ready(&two_groups()).await?;
    bench.hold();
    let answer = bench.run("restart", &[]).await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    let held = bench.held().await?;
    assert_eq!(held["spec"]["suspend"], true, "{held}");
    let mark = mark_of(&held, RESTART).ok_or("no mark")?;
    assert!(mark.starts_with("v1:"), "{mark}");
    Ok((bench, answer, mark))
}

#[tokio::test]
async fn a_restart_ends_with_new_nodes_by_itself() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let before = bench.nodes().await?;
    let mut socket = bench.socket(&format!("{DEMO}/watch"), &[]).await?;
    socket.until(|event| event["type"] == "SYNCED").await?;
    bench.hold();
    let answer = bench.run("restart", &[]).await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["suspended"], false, "{answer:?}");
    bench.becomes("STOPPING").await?;
    let held = bench.held().await?;
    let mark = mark_of(&held, RESTART).ok_or("no mark")?;
    assert_eq!(held["spec"]["suspend"], true);

    // Under way already, and to run already: nothing is started twice.
    for verb in ["restart", "start"] {
        let again = bench.run(verb, &[]).await?;
        assert_eq!((again.status.as_u16(), &again.json()["suspended"]), (200, &json!(false)), "{verb}: {again:?}");
        assert_eq!(bench.held().await?["metadata"]["annotations"][RESTART], *mark, "{verb}");
    }

    bench.release();
    let events = socket.until(|event| event["cluster"]["status"]["state"] == "READY").await?;
    assert!(events.iter().all(|event| event["cluster"]["suspended"] == false), "{events:?}");
    assert!(events.iter().all(|event| !event["cluster"].to_string().contains(RESTART)), "{events:?}");
    assert_eq!(states(&events).first().map(String::as_str), Some("STOPPING"), "{:?}", states(&events));
    let after = bench.nodes().await?;
    assert!(all_new(&before, &after), "{before:?} {after:?}");
    let count = |nodes: &crate::support::bench::Nodes| {
        nodes.iter().map(|(group, nodes)| (group.clone(), nodes.len())).collect::<Vec<_>>()
    };
    assert_eq!(count(&before), count(&after));
    let held = bench.held().await?;
    assert_eq!((&held["spec"]["suspend"], mark_of(&held, RESTART)), (&json!(false), None));
    assert_eq!(mark_of(&held, RESTARTED), Some(json!([mark]).to_string()));

    // What the restart answered still names the cluster: nobody has edited it since.
    let guard = [("if-match", answer.header("etag"))];
    let edited = bench.call(Method::PATCH, DEMO, &guard, &json!({"labels": {"team": "b"}})).await?;
    assert_eq!(edited.status, 200, "{edited:?}");
    bench
        .call(Method::PATCH, DEMO, &guard, &json!({"labels": {"team": "c"}}))
        .await?
        .problem(412, "PRECONDITION_FAILED");
    Ok(())
}

#[tokio::test]
async fn what_stops_a_cluster_stops_its_restart() -> Outcome {
    for way in ["stop", "patch", "put"] {
        let (bench, answer, mark) = restarting().await?;
        let guard = [("if-match", answer.header("etag"))];
        let mut whole = bench.read().await?.json();
        whole["suspended"] = json!(true);
        let stopped = match way {
            "stop" => bench.run("stop", &guard).await?,
            "patch" => bench.call(Method::PATCH, DEMO, &guard, &json!({"suspended": true})).await?,
            _ => bench.call(Method::PUT, DEMO, &guard, &whole).await?,
        };
        assert_eq!(stopped.status.as_u16(), if way == "stop" { 202 } else { 200 }, "{way}: {stopped:?}");
        assert_eq!(stopped.json()["suspended"], true, "{way}");
        let held = bench.held().await?;
        assert_eq!((&held["spec"]["suspend"], mark_of(&held, RESTART)), (&json!(true), None), "{way}");
        bench.release();
        let cluster = bench.becomes("STOPPED").await?;
        assert_eq!(cluster["suspended"], true, "{way}");
        let newest = mark_of(&bench.held().await?, RESTARTED).unwrap_or_default();
        assert!(newest.starts_with(&format!("[\"{mark}\"")), "{way}: it is known that there was one: {newest}");
        assert_eq!(bench.run("start", &[]).await?.status, 202, "{way}");
        bench.becomes("READY").await?;
    }
    Ok(())
}

#[tokio::test]
async fn other_writes_neither_break_nor_repeat_a_restart() -> Outcome {
    let (bench, answer, mark) = restarting().await?;
    let old = bench.backend.workloads.list("default", "demo").await?;
    let guard = [("if-match", answer.header("etag"))];
    let (document, manifest) = (bench.read().await?.json(), bench.get(&format!("{DEMO}/manifest")).await?.json());
    assert_eq!(manifest["spec"]["suspend"], true, "{manifest}");
    for body in [&document, &manifest] {
        let put = bench.call(Method::PUT, DEMO, &guard, body).await?;
        assert_eq!((put.status.as_u16(), revision(&put)), (200, revision(&answer)), "{put:?}");
        let held = bench.held().await?;
        assert_eq!((&held["spec"]["suspend"], mark_of(&held, RESTART)), (&json!(true), Some(mark.clone())));
    }
    for body in
        [json!({"labels": {"x": "y"}}), json!({"suspended": false}), json!({"workerGroups": {"a": {"replicas": 1}}})]
    {
        let patched = bench.patch(body.clone()).await?;
        assert_eq!((patched.status.as_u16(), &patched.json()["suspended"]), (200, &json!(false)), "{body}");
        let held = bench.held().await?;
        assert_eq!((&held["spec"]["suspend"], mark_of(&held, RESTART)), (&json!(true), Some(mark.clone())), "{body}");
    }
    bench.release();
    let ready = bench.becomes("READY").await?;
    assert_eq!((&ready["labels"]["x"], &ready["workerGroups"]["a"]["replicas"]), (&json!("y"), &json!(1)));
    let new = bench.backend.workloads.list("default", "demo").await?;
    assert!(new.iter().all(|node| old.iter().all(|old| old.uid != node.uid)), "{new:?}");

    // What was read meanwhile can be put back later, too: it neither stops nor restarts anything.
    let before = bench.nodes().await?;
    for body in [&document, &manifest] {
        let put = bench.call(Method::PUT, DEMO, &[("if-match", "*")], body).await?;
        assert_eq!((put.status.as_u16(), &put.json()["suspended"]), (200, &json!(false)), "{put:?}");
        let held = bench.held().await?;
        assert_eq!((&held["spec"]["suspend"], mark_of(&held, RESTART)), (&json!(false), None), "{body}");
        assert_eq!(mark_of(&held, RESTARTED), Some(json!([mark]).to_string()));
    }
    eventually("there are two of them again", async || {
        let nodes = bench.nodes().await?;
        Ok((nodes["a"].len() == 2).then_some(()))
    })
    .await?;
    let after = bench.nodes().await?;
    assert_eq!((&before["headgroup"], &before["b"]), (&after["headgroup"], &after["b"]));
    Ok(())
}

#[tokio::test]
async fn a_manifest_that_was_read_during_a_restart_makes_a_cluster_that_runs() -> Outcome {
    let (bench, _, _) = restarting().await?;
    let mut manifest = bench.get(&format!("{DEMO}/manifest")).await?.json();
    manifest["metadata"]["name"] = json!("copy");
    let copy = bench.post("/clusters", &manifest).await?;
    assert_eq!((copy.status.as_u16(), &copy.json()["suspended"]), (201, &json!(false)), "{copy:?}");
    Ok(())
}

#[tokio::test]
async fn a_stopped_cluster_is_started_by_a_restart() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    bench.run("stop", &[]).await?;
    bench.becomes("STOPPED").await?;
    let answer = bench.run("restart", &[]).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (202, &json!(false)), "{answer:?}");
    bench.becomes("READY").await?;
    assert_eq!(bench.finished().await?["spec"]["suspend"], false);
    Ok(())
}

#[tokio::test]
async fn what_a_controller_runs_is_not_restarted() -> Outcome {
    for (owner, code) in [("RayJob", "SPEC_OWNED"), ("RayService", "SPEC_OWNED"), ("Kueue", "SUSPENSION_OWNED")] {
        for suspend in [json!(true), json!(false), Value::Null] {
            let metadata = match owner {
                "Kueue" => json!({"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}),
                kind => json!({"ownerReferences": [
                    {"apiVersion": "ray.io/v1", "kind": kind, "name": "nightly", "uid": "u", "controller": true}]}),
            };
            let mut object = json!({
                "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata,
                "spec": {"rayVersion": "2.52.0", "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {
                    "containers": [{"name": "ray-head", "image": "rayproject/ray:2.52.0"}]}}}},
            });
            object["metadata"]["name"] = json!("demo");
            object["metadata"]["namespace"] = json!("default");
            if !suspend.is_null() {
                object["spec"]["suspend"] = suspend.clone();
            }
            let backend = backend(Options { namespaces: vec!["default".into()], ..Options::default() });
            backend.clusters.create(&serde_json::from_value(object)?).await?;
            let api = InProcess::open(&backend).await?;
            for dry in ["", "?dryRun=All"] {
                let answer = api.send(Method::POST, &format!("{DEMO}/restart{dry}"), &[], "").await?;
                answer.problem(409, code);
            }
            let edit = r#"{"labels": {"x": "y"}}"#;
            let answer = api.send(Method::PATCH, &format!("{DEMO}?restart=true"), &[], edit).await?;
            answer.problem(409, code);
            let held = crate::support::bench::held(&backend).await?;
            assert_eq!(
                (mark_of(&held, RESTART), &held["metadata"]["labels"]["x"]),
                (None, &Value::Null),
                "{owner} {suspend}"
            );
            api.end().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_same_restart_is_not_done_twice() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let etag = bench.read().await?.header("etag").to_owned();
    let first = [("idempotency-key", "one"), ("if-match", &*etag)];
    bench.hold();
    let begun = bench.run("restart", &first).await?;
    assert_eq!((begun.status.as_u16(), begun.header("idempotency-replayed")), (202, ""), "{begun:?}");
    let meanwhile = bench.run("restart", &first).await?;
    assert_eq!((meanwhile.status.as_u16(), meanwhile.header("idempotency-replayed")), (200, "true"), "{meanwhile:?}");
    bench.release();
    bench.becomes("READY").await?;
    assert_ne!(bench.read().await?.header("etag"), etag);
    let before = bench.nodes().await?;
    for headers in [&first[..], &first[..1]] {
        let again = bench.run("restart", headers).await?;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"), "{again:?}");
        assert_eq!(mark_of(&bench.held().await?, RESTART), None);
    }
    assert_eq!(bench.nodes().await?, before);

    let other = [("idempotency-key", "two"), ("if-match", &*etag)];
    bench.run("restart", &other).await?.problem(412, "PRECONDITION_FAILED");
    assert_eq!(bench.run("restart", &other[..1]).await?.status, 202);
    let held = bench.held().await?.to_string();
    assert!(!held.contains("\"two\""), "the key itself isn't kept: {held}");
    bench.finished().await?;
    bench.becomes("READY").await?;
    assert!(all_new(&before, &bench.nodes().await?));
    Ok(())
}

#[tokio::test]
async fn a_restart_that_was_stopped_is_not_done_again_by_the_same_request() -> Outcome {
    for way in ["stop", "patch"] {
        let bench = Bench::ready(&two_groups()).await?;
        bench.hold();
        let key = [("idempotency-key", "one")];
        assert_eq!(bench.run("restart", &key).await?.status, 202);
        match way {
            "stop" => bench.run("stop", &[]).await?,
            _ => bench.patch(json!({"suspended": true})).await?,
        };
        let again = bench.run("restart", &key).await?;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"), "{way}: {again:?}");
        assert_eq!(again.json()["suspended"], true, "{way}");
        bench.release();
        bench.becomes("STOPPED").await?;
    }
    Ok(())
}

#[tokio::test]
async fn another_replica_finishes_a_restart() -> Outcome {
    for there_before in [true, false] {
        let bench = Bench::ready(&two_groups()).await?;
        let before = bench.nodes().await?;
        let other = if there_before { Some(bench.replica().await?) } else { None };
        bench.hold();
        assert_eq!(bench.run("restart", &[]).await?.status, 202);
        let (backend, machines) = bench.without_raygate().await?;
        let other = match other {
            Some(other) => other,
            None => InProcess::open(&backend).await?,
        };
        assert_eq!(other.get(DEMO).await?.json()["suspended"], false);
        release(&machines);
        assert_eq!(finished(&backend).await?["spec"]["suspend"], false);
        eventually("READY", async || Ok((other.get(DEMO).await?.json()["status"]["state"] == "READY").then_some(())))
            .await?;
        assert!(all_new(&before, &nodes(&backend).await?));
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_whose_suspension_somebody_took_back_is_dropped() -> Outcome {
    let (bench, _, _) = restarting().await?;
    bench.kubectl(json!({"spec": {"suspend": false}})).await?;
    let held = bench.finished().await?;
    assert_eq!(held["spec"]["suspend"], false, "{held}");
    bench.release();
    bench.becomes("READY").await?;
    assert_eq!(mark_of(&bench.held().await?, RESTART), None);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_deleted_meanwhile_goes() -> Outcome {
    let (bench, _, _) = restarting().await?;
    assert_eq!(bench.delete(DEMO).await?.status, 202);
    bench.run("restart", &[]).await?.problem(409, "DELETING");
    bench.release();
    eventually("it is gone", async || Ok((bench.get(DEMO).await?.status == 404).then_some(()))).await?;
    bench.run("restart", &[]).await?.problem(404, "NOT_FOUND");
    Ok(())
}
