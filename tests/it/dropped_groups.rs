//! Worker groups that are dropped: their nodes go and nobody else's, then their entry, whoever is left to do it.

use http::Method;
use serde_json::{Value, json};

use crate::support::bench::{DEMO, finished, held, nodes, release, revision, two_groups};
use crate::support::{Answer, Bench, InProcess, Outcome, eventually};

const DROPPED: &str = "raygate.dev/dropped-groups";
const A: &str = "/clusters/demo/workerGroups/a";
const ANY: [(&str, &str); 1] = [("if-match", "*")];

/// The names of the groups that the RayCluster has, in order.
fn entries(held: &Value) -> Vec<&str> {
    let groups = held["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
    groups.filter_map(|group| group["groupName"].as_str()).collect()
}

/// The names of the groups that the document has, in order.
fn shown(document: &Value) -> Vec<String> {
    document["workerGroups"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// The names of the groups that are marked.
fn marked(held: &Value) -> Vec<String> {
    let mark = held["metadata"]["annotations"][DROPPED].as_str().unwrap_or("[]");
    serde_json::from_str(mark).unwrap_or_default()
}

/// Waits until so many nodes of a group are said to be on their way out.
async fn terminating(bench: &Bench, group: &str, count: u32) -> Outcome {
    eventually("its nodes are on their way out", async || {
        let status = bench.read().await?.json()["status"]["workerGroups"][group].clone();
        Ok((status["terminating"] == count && status["desired"] == 0).then_some(()))
    })
    .await
}

/// Drops group `a` in one way or another.
async fn drop_a(bench: &Bench, way: &str) -> Outcome<Answer> {
    let etag = bench.read().await?.header("etag").to_owned();
    let guard = [("if-match", &*etag)];
    match way {
        "delete" => bench.send(Method::DELETE, A, &guard, "").await,
        "patch" => bench.patch(json!({"workerGroups": {"a": null}})).await,
        "put" => {
            let mut document = bench.read().await?.json();
            document["workerGroups"].as_object_mut().ok_or("no groups")?.shift_remove("a");
            bench.call(Method::PUT, DEMO, &guard, &document).await
        }
        _ => {
            let mut manifest = bench.get(&format!("{DEMO}/manifest")).await?.json();
            let groups = manifest["spec"]["workerGroupSpecs"].as_array_mut().ok_or("no groups")?;
            groups.retain(|group| group["groupName"] != "a");
            bench.call(Method::PUT, DEMO, &guard, &manifest).await
        }
    }
}

#[tokio::test]
async fn a_dropped_group_takes_its_nodes_and_nobody_elses() -> Outcome {
    for way in ["delete", "patch", "put", "manifest"] {
        let bench = Bench::ready(&two_groups()).await?;
        let before = bench.nodes().await?;
        bench.hold();
        let answer = drop_a(&bench, way).await?;
        assert_eq!(answer.status.as_u16(), if way == "delete" { 202 } else { 200 }, "{way}: {answer:?}");
        let meanwhile = bench.held().await?;
        assert_eq!((entries(&meanwhile), marked(&meanwhile)), (vec!["a", "b"], vec!["a".to_owned()]), "{way}");
        let entry = &meanwhile["spec"]["workerGroupSpecs"][0];
        for member in ["replicas", "minReplicas", "maxReplicas"] {
            assert_eq!(entry[member], 0, "{way}: {entry}");
        }
        let read = bench.read().await?;
        assert_eq!((shown(&read.json()), revision(&read)), (vec!["b".to_owned()], revision(&answer)), "{way}");
        assert!(!read.json()["annotations"].to_string().contains(DROPPED) && !read.json().to_string().contains("/a\""));
        terminating(&bench, "a", 2).await?;

        bench.release();
        let after = bench.finished().await?;
        assert_eq!((entries(&after), after["metadata"]["annotations"].get(DROPPED)), (vec!["b"], None), "{way}");
        let nodes = bench.nodes().await?;
        assert_eq!(
            (nodes.get("a"), &nodes["b"], &nodes["headgroup"]),
            (None, &before["b"], &before["headgroup"]),
            "{way}"
        );
        eventually("raygate knows it", async || {
            let read = bench.read().await?;
            assert_eq!(revision(&read), revision(&answer), "{way}: nobody has edited it");
            Ok(read.json()["status"]["workerGroups"].get("a").is_none().then_some(()))
        })
        .await?;
        bench.becomes("READY").await?;
        let guard = [("if-match", answer.header("etag"))];
        let edited = bench.call(Method::PATCH, DEMO, &guard, &json!({"labels": {"x": "y"}})).await?;
        assert_eq!(edited.status, 200, "{way}: {edited:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_name_is_taken_until_the_nodes_are_gone() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let (document, manifest) = (bench.read().await?.json(), bench.get(&format!("{DEMO}/manifest")).await?.json());
    bench.hold();
    let dropped = drop_a(&bench, "patch").await?;
    let group = json!({"replicas": 1, "cpu": "1"});
    for (method, path, body) in [
        (Method::PATCH, DEMO, json!({"workerGroups": {"a": group}})),
        (Method::PATCH, DEMO, json!({"workerGroups": {"a": {"replicas": 0}}})),
        (Method::PUT, DEMO, document),
        (Method::PUT, DEMO, manifest),
        (Method::PUT, A, group.clone()),
        (Method::PATCH, A, json!({"replicas": 1})),
    ] {
        for dry in ["", "?dryRun=All"] {
            let answer = bench.call(method.clone(), &format!("{path}{dry}"), &ANY, &body).await?;
            answer.problem(409, "GROUP_TERMINATING");
            assert_eq!(answer.header("retry-after"), "2", "{method} {path}: {answer:?}");
        }
    }
    // What was read meanwhile can be put back, and other groups can be changed.
    for path in [DEMO.to_owned(), format!("{DEMO}/manifest")] {
        let read = bench.get(&path).await?.json();
        let answer = bench.call(Method::PUT, DEMO, &ANY, &read).await?;
        assert_eq!((answer.status.as_u16(), revision(&answer)), (200, revision(&dropped)), "{path}: {answer:?}");
        assert_eq!(marked(&bench.held().await?), ["a"]);
    }
    // Taken away twice is taken away once: a merge patch may say so (RFC 7396).
    let answer = bench.patch(json!({"workerGroups": {"a": null}})).await?;
    assert_eq!((answer.status.as_u16(), revision(&answer)), (200, revision(&dropped)), "{answer:?}");
    let answer =
        bench.patch(json!({"workerGroups": {"b": {"replicas": 2}, "c": {"cpu": "1", "memory": "1Gi"}}})).await?;
    assert_eq!(
        (answer.status.as_u16(), shown(&answer.json())),
        (200, vec!["b".to_owned(), "c".to_owned()]),
        "{answer:?}"
    );
    let meanwhile = bench.held().await?;
    assert_eq!((entries(&meanwhile), marked(&meanwhile)), (vec!["a", "b", "c"], vec!["a".to_owned()]));
    bench.release();
    assert_eq!(entries(&bench.finished().await?), ["b", "c"]);
    bench.becomes("READY").await?;
    let again = bench.call(Method::PUT, A, &ANY, &group).await?;
    assert_eq!((again.status.as_u16(), &again.json()["replicas"]), (201, &json!(1)), "{again:?}");
    bench.becomes("READY").await?;
    assert_eq!((bench.nodes().await?["a"].len(), bench.nodes().await?["b"].len()), (1, 2));
    Ok(())
}

#[tokio::test]
async fn with_the_autoscaler_on_its_nodes_are_named() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    assert_eq!(bench.patch(json!({"autoscaling": {"enabled": true}})).await?.status, 200);
    let before = bench.nodes().await?;
    bench.hold();
    let answer = drop_a(&bench, "delete").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    let named = eventually("its nodes are named", async || {
        let held = bench.held().await?;
        assert_eq!(entries(&held), ["a", "b"], "Ray's autoscaler patches groups by index");
        let strategies: Vec<_> = (0..2)
            .map(|index| held["spec"]["workerGroupSpecs"][index]["scaleStrategy"]["workersToDelete"].clone())
            .collect();
        assert!(strategies[1].as_array().is_none_or(Vec::is_empty), "{strategies:?}");
        Ok(strategies[0].as_array().filter(|names| names.len() == 2).cloned())
    })
    .await?;
    let mut named: Vec<_> = named.iter().filter_map(Value::as_str).collect();
    named.sort_unstable();
    let mut wanted: Vec<_> = before["a"].values().map(String::as_str).collect();
    wanted.sort_unstable();
    assert_eq!(named, wanted);
    assert_eq!(revision(&bench.read().await?), revision(&answer));
    bench.release();
    assert_eq!(entries(&bench.finished().await?), ["b"]);
    let nodes = bench.nodes().await?;
    assert_eq!((nodes.get("a"), &nodes["b"]), (None, &before["b"]));
    assert_eq!(revision(&bench.read().await?), revision(&answer));
    Ok(())
}

#[tokio::test]
async fn all_groups_can_be_dropped_at_once_or_one_after_the_other() -> Outcome {
    for way in ["all", "both", "one by one", "one by one with the autoscaler"] {
        let bench = Bench::ready(&two_groups()).await?;
        let head = bench.nodes().await?["headgroup"].clone();
        if way.ends_with("autoscaler") {
            assert_eq!(bench.patch(json!({"autoscaling": {"enabled": true}})).await?.status, 200);
        }
        bench.hold();
        let answer = match way {
            "all" => bench.patch(json!({"workerGroups": null})).await?,
            "both" => bench.patch(json!({"workerGroups": {"a": null, "b": null}})).await?,
            _ => {
                let first = bench.send(Method::DELETE, "/clusters/demo/workerGroups/b", &ANY, "").await?;
                assert_eq!(first.status, 202, "{way}: {first:?}");
                bench.send(Method::DELETE, A, &[("if-match", first.header("etag"))], "").await?
            }
        };
        assert!(answer.status.is_success(), "{way}: {answer:?}");
        let meanwhile = bench.held().await?;
        assert_eq!((entries(&meanwhile), marked(&meanwhile).len()), (vec!["a", "b"], 2), "{way}");
        assert_eq!(bench.read().await?.json().get("workerGroups"), None, "{way}");
        bench.release();
        let after = bench.finished().await?;
        assert_eq!(entries(&after), [""; 0], "{way}");
        bench.becomes("READY").await?;
        let nodes = bench.nodes().await?;
        assert_eq!((nodes.len(), &nodes["headgroup"]), (1, &head), "{way}");
        assert_eq!(revision(&bench.read().await?), revision(&answer), "{way}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stopped_cluster_drops_groups_as_well() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    bench.run("stop", &[]).await?;
    bench.becomes("STOPPED").await?;
    assert_eq!(drop_a(&bench, "delete").await?.status, 202);
    assert_eq!(entries(&bench.finished().await?), ["b"]);
    assert_eq!(bench.read().await?.json()["status"]["state"], "STOPPED");
    assert_eq!(bench.run("start", &[]).await?.status, 202);
    bench.becomes("READY").await?;
    assert_eq!(bench.nodes().await?.get("a"), None);
    Ok(())
}

#[tokio::test]
async fn a_group_can_be_dropped_in_a_restart() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    bench.hold();
    let drop = json!({"workerGroups": {"a": null}});
    let answer = bench.call(Method::PATCH, "/clusters/demo?restart=true", &[], &drop).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let guard = [("if-match", answer.header("etag"))];
    let second = bench.send(Method::DELETE, "/clusters/demo/workerGroups/b", &guard, "").await?;
    assert_eq!(second.status, 202, "{second:?}");
    bench.release();
    let after = bench.finished().await?;
    assert_eq!((entries(&after), &after["spec"]["suspend"]), (vec![], &json!(false)));
    bench.becomes("READY").await?;
    assert_eq!(revision(&bench.read().await?), revision(&second));
    assert_eq!(bench.nodes().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_deleted_meanwhile_goes() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    bench.hold();
    assert_eq!(drop_a(&bench, "delete").await?.status, 202);
    assert_eq!(bench.delete(DEMO).await?.status, 202);
    bench.send(Method::DELETE, A, &ANY, "").await?.problem(409, "DELETING");
    bench.release();
    eventually("it is gone", async || Ok((bench.get(DEMO).await?.status == 404).then_some(()))).await?;
    // Another cluster of the name has its own groups.
    assert_eq!(bench.post("/clusters", &two_groups()).await?.status, 201);
    bench.becomes("READY").await?;
    assert_eq!((marked(&bench.held().await?).len(), bench.nodes().await?["a"].len()), (0, 2));
    Ok(())
}

#[tokio::test]
async fn another_replica_takes_the_entry_out() -> Outcome {
    for there_before in [true, false] {
        let bench = Bench::ready(&two_groups()).await?;
        let before = bench.nodes().await?;
        let other = if there_before { Some(bench.replica().await?) } else { None };
        bench.hold();
        assert_eq!(drop_a(&bench, "delete").await?.status, 202);
        let (backend, machines) = bench.without_raygate().await?;
        let other = match other {
            Some(other) => other,
            None => InProcess::open(&backend).await?,
        };
        assert_eq!(shown(&other.get(DEMO).await?.json()), ["b"]);
        assert_eq!(entries(&held(&backend).await?), ["a", "b"]);
        release(&machines);
        assert_eq!(entries(&finished(&backend).await?), ["b"]);
        let nodes = nodes(&backend).await?;
        assert_eq!((nodes.get("a"), &nodes["b"]), (None, &before["b"]));
    }
    Ok(())
}

/// Somebody gives the group room again, past raygate: with nodes that run, or without.
#[tokio::test]
async fn a_group_that_somebody_wants_back_stays() -> Outcome {
    for replicas in [0, 2] {
        let bench = Bench::ready(&two_groups()).await?;
        bench.hold();
        assert_eq!(drop_a(&bench, "delete").await?.status, 202);
        let mut groups = bench.held().await?["spec"]["workerGroupSpecs"].clone();
        groups[0]["maxReplicas"] = json!(5);
        groups[0]["replicas"] = json!(replicas);
        bench.kubectl(json!({"spec": {"workerGroupSpecs": groups}})).await?;
        bench.release();
        let after = bench.finished().await?;
        assert_eq!(entries(&after), ["a", "b"], "{replicas}");
        let shown = bench.becomes("READY").await?;
        assert_eq!(shown["workerGroups"]["a"]["replicas"], replicas, "{shown}");
        let answer = bench.call(Method::PATCH, A, &[], &json!({"replicas": 1})).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    Ok(())
}

/// A group that is held back stands in the RayCluster, not in what was sent.
#[tokio::test]
async fn pointers_go_into_the_manifest_that_was_sent() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let mut manifest = bench.get(&format!("{DEMO}/manifest")).await?.json();
    let groups = manifest["spec"]["workerGroupSpecs"].as_array_mut().ok_or("no groups")?;
    groups.remove(0);
    groups[0]["template"]["spec"]["containers"][0]["image"] = json!("rayproject/ray:2.40.0");
    let answer = bench.call(Method::PUT, "/clusters/demo?dryRun=All", &ANY, &manifest).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let warnings = answer.json()["warnings"].as_array().cloned().unwrap_or_default();
    let mismatch = warnings.iter().find(|warning| warning["code"] == "VERSION_MISMATCH").ok_or("no warning")?;
    let pointer = mismatch["pointer"].as_str().unwrap_or_default();
    assert!(pointer.starts_with("/spec/workerGroupSpecs/0/"), "{mismatch}");
    assert!(manifest.pointer(pointer).is_some(), "{mismatch}");
    Ok(())
}
