//! Edits and the nodes that run: what goes on as it was made is named, and an edit and a restart can be one write.

use http::Method;
use serde_json::{Value, json};

use crate::support::bench::{DEMO, all_new, revision, two_groups};
use crate::support::{Answer, Bench, Outcome, eventually, faults};

const RESTART: &str = "raygate.dev/restart";

/// The warnings of an answer that have this code.
fn warnings(answer: &Answer, code: &str) -> Vec<Value> {
    let warnings = answer.json()["warnings"].as_array().cloned().unwrap_or_default();
    warnings.into_iter().filter(|warning| warning["code"] == code).collect()
}

/// The nodes that an answer says go on as they were made, in order.
fn outdated(answer: &Answer) -> Vec<String> {
    let warnings = warnings(answer, "RESTART_NEEDED");
    assert!(warnings.len() <= 1, "one warning names them all: {warnings:?}");
    let names = warnings.first().map(|warning| warning["nodes"].as_array().cloned().unwrap_or_default());
    let mut names: Vec<_> =
        names.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_edit_and_a_restart_are_one_write() -> Outcome {
    const IMAGE: &str = "rayproject/ray:2.52.0-py311";
    let mut whole = two_groups();
    whole["rayVersion"] = json!("2.52.0");
    whole["image"] = json!(IMAGE);
    let mut group = two_groups()["workerGroups"]["b"].clone();
    group["image"] = json!(IMAGE);
    for (method, path, body, all) in [
        (Method::PATCH, DEMO, json!({"image": IMAGE}), true),
        (Method::PUT, DEMO, whole, true),
        (Method::PATCH, "/clusters/demo/workerGroups/b", json!({"image": IMAGE}), false),
        (Method::PUT, "/clusters/demo/workerGroups/b", group, false),
    ] {
        let bench = Bench::ready(&two_groups()).await?;
        let before = bench.nodes().await?;
        bench.hold();
        let answer = bench.call(method.clone(), &format!("{path}?restart=true"), &[("if-match", "*")], &body).await?;
        assert_eq!((answer.status.as_u16(), outdated(&answer).len()), (200, 0), "{method} {path}: {answer:?}");
        assert_eq!(bench.read().await?.json()["suspended"], false);
        let held = bench.held().await?;
        assert!(held["metadata"]["annotations"][RESTART].is_string(), "{held}");
        // The same again while it is under way begins nothing.
        let again = bench.call(method.clone(), &format!("{path}?restart=true"), &[("if-match", "*")], &body).await?;
        assert_eq!((again.status.as_u16(), revision(&again)), (200, revision(&answer)), "{again:?}");
        assert_eq!(bench.held().await?["metadata"]["annotations"], held["metadata"]["annotations"]);
        bench.release();
        bench.finished().await?;
        bench.becomes("READY").await?;
        assert!(all_new(&before, &bench.nodes().await?), "{method} {path}");
        for node in bench.backend.workloads.list("default", "demo").await? {
            let image = if all || node.group == "b" { IMAGE } else { "rayproject/ray:2.52.0" };
            assert_eq!(node.containers[0].image, image, "{method} {path}: {}", node.name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_alone_needs_no_edit() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let before = bench.nodes().await?;
    let answer = bench.call(Method::PATCH, "/clusters/demo?restart=true", &[], &json!({})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    bench.finished().await?;
    bench.becomes("READY").await?;
    let after = bench.nodes().await?;
    assert!(all_new(&before, &after));
    for value in ["false", "true&restart=true", "maybe", "", "True"] {
        let answer = bench.call(Method::PATCH, &format!("/clusters/demo?restart={value}"), &[], &json!({})).await?;
        if value == "false" {
            assert_eq!(answer.status, 200, "{answer:?}");
        } else {
            let problem = answer.problem(400, "MALFORMED");
            assert_eq!(
                faults(&problem),
                [("?restart".to_owned(), "INVALID_PARAMETER".to_owned())],
                "{value}: {problem}"
            );
        }
    }
    for (method, path) in [(Method::POST, "/clusters"), (Method::DELETE, DEMO), (Method::POST, "/clusters/demo/stop")] {
        let body = if path == "/clusters" { r#"{"name": "other"}"# } else { "" };
        let answer = bench.send(method, &format!("{path}?restart=true"), &[], body).await?;
        let problem = answer.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), [("?restart".to_owned(), "UNKNOWN_PARAMETER".to_owned())], "{path}: {problem}");
    }
    assert_eq!(bench.nodes().await?, after, "none of it restarted anything");
    Ok(())
}

#[tokio::test]
async fn a_cluster_is_either_stopped_or_restarted() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let mut whole = two_groups();
    whole["rayVersion"] = json!("2.52.0");
    whole["suspended"] = json!(true);
    let mut manifest = bench.get("/clusters/demo/manifest").await?.json();
    manifest["spec"]["suspend"] = json!(true);
    let refuse = async |when: &str| -> Outcome {
        let held = bench.held().await?;
        for (method, body) in
            [(Method::PATCH, &json!({"suspended": true})), (Method::PUT, &whole), (Method::PUT, &manifest)]
        {
            let answer = bench.call(method.clone(), "/clusters/demo?restart=true", &[("if-match", "*")], body).await?;
            let problem = answer.problem(400, "MALFORMED");
            let wanted = [("?restart".to_owned(), "INVALID_PARAMETER".to_owned())];
            assert_eq!(faults(&problem), wanted, "{when}: {method} {problem}");
            let now = bench.held().await?;
            assert_eq!(
                (&now["spec"], &now["metadata"]["annotations"]),
                (&held["spec"], &held["metadata"]["annotations"])
            );
        }
        Ok(())
    };
    refuse("while it runs").await?;
    bench.run("stop", &[]).await?;
    bench.becomes("STOPPED").await?;
    refuse("while it is stopped").await?;
    // What says nothing of it restarts a stopped cluster: it starts.
    let answer =
        bench.call(Method::PATCH, "/clusters/demo?restart=true", &[], &json!({"labels": {"team": "b"}})).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["suspended"]), (200, &json!(false)), "{answer:?}");
    bench.becomes("READY").await?;
    Ok(())
}

#[tokio::test]
async fn nodes_that_go_on_as_they_were_made_are_named() -> Outcome {
    for (edit, groups) in [
        (json!({"image": "rayproject/ray:2.52.0-py311"}), &["a", "b", "headgroup"][..]),
        (json!({"rayVersion": "2.51.0"}), &["a", "b", "headgroup"]),
        (json!({"head": {"cpu": "2"}}), &["headgroup"]),
        (json!({"head": {"rayStartParams": {"num-cpus": "0"}}}), &["headgroup"]),
        (json!({"head": {"env": {"A": "raygate-test-secret-2"}}}), &["headgroup"]),
        (json!({"workerGroups": {"a": {"env": {"A": "raygate-test-secret-2"}}}}), &["a"]),
        (json!({"workerGroups": {"b": {"env": {"A": "raygate-test-secret-2"}}}}), &["b"]),
        (json!({"workerGroups": {"b": {"env": {"A": null}}}}), &["b"]),
        (json!({"workerGroups": {"a": {"image": "rayproject/ray:2.52.0-gpu"}}}), &["a"]),
        (json!({"workerGroups": {"a": {"cpu": "2"}, "b": {"rayStartParams": {"x": "y"}}}}), &["a", "b"]),
        (json!({"workerGroups": {"a": {"labels": {"x": "y"}}}}), &["a"]),
        (json!({"workerGroups": {"a": {"cpu": "1500m", "replicas": 3}}}), &["a"]),
        // In place only with this write: it replaces nothing yet.
        (json!({"head": {"cpu": "2"}, "upgradeStrategy": {"type": "Recreate"}}), &["headgroup"]),
        // None of these is what nodes are made of.
        (json!({"workerGroups": {"a": {"replicas": 3}}}), &[]),
        (json!({"workerGroups": {"a": {"minReplicas": 1, "maxReplicas": 9}}}), &[]),
        (json!({"labels": {"x": "y"}}), &[]),
        (json!({"annotations": {"x": "y"}}), &[]),
        (json!({"upgradeStrategy": {"type": "Recreate"}}), &[]),
        (json!({"workerGroups": {"c": {"cpu": "1"}}}), &[]),
        (json!({"workerGroups": {"a": null}}), &[]),
        (json!({"head": {"cpu": "1000m", "memory": "2048Mi"}}), &[]),
        (json!({"deletionProtection": true}), &[]),
        (json!({"head": {"cpu": "2"}, "suspended": true}), &[]),
        (json!({}), &[]),
    ] {
        let bench = Bench::ready(&two_groups()).await?;
        let nodes = bench.nodes().await?;
        let mut wanted: Vec<_> = groups.iter().flat_map(|group| nodes[*group].values().cloned()).collect();
        wanted.sort();
        for dry in ["?dryRun=All", ""] {
            let answer = bench.call(Method::PATCH, &format!("{DEMO}{dry}"), &[], &edit).await?;
            assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, wanted.clone()), "{edit}{dry}: {answer:?}");
            let warning = warnings(&answer, "RESTART_NEEDED").into_iter().next();
            assert!(
                warning.is_none_or(|warning| warning["message"].as_str().is_some_and(|text| text.contains("restart")))
            );
        }
        assert_eq!(bench.read().await?.json().get("warnings"), None, "of the write, not of the cluster");
    }
    Ok(())
}

#[tokio::test]
async fn what_has_no_nodes_to_go_on_needs_no_restart() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let strategy = bench.patch(json!({"upgradeStrategy": {"type": "Recreate"}})).await?;
    assert_eq!(outdated(&strategy), [""; 0]);
    let answer = bench.patch(json!({"head": {"cpu": "2"}})).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, vec![]), "the operator makes them anew: {answer:?}");

    let bench = Bench::ready(&two_groups()).await?;
    bench.run("stop", &[]).await?;
    bench.becomes("STOPPED").await?;
    let answer = bench.patch(json!({"head": {"cpu": "2"}})).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, vec![]), "{answer:?}");
    // The head has been made by the edit then; a group without nodes has none that are old.
    let quiet = json!({"workerGroups": {"a": {"replicas": 0}}, "suspended": false});
    assert_eq!(bench.patch(quiet).await?.status, 200);
    bench.becomes("READY").await?;
    let answer = bench.patch(json!({"workerGroups": {"a": {"cpu": "2"}}})).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, vec![]), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn every_way_to_edit_names_them() -> Outcome {
    let bench = Bench::ready(&two_groups()).await?;
    let nodes = bench.nodes().await?;
    let of_b: Vec<_> = nodes["b"].values().cloned().collect();
    let group = "/clusters/demo/workerGroups/b";
    let answer = bench.call(Method::PATCH, group, &[], &json!({"cpu": "2"})).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, of_b.clone()), "{answer:?}");
    let whole = json!({"replicas": 1, "maxReplicas": 5, "cpu": "3", "memory": "1Gi"});
    let answer = bench.call(Method::PUT, group, &[("if-match", "*")], &whole).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, of_b.clone()), "{answer:?}");
    let mut manifest = bench.get("/clusters/demo/manifest").await?.json();
    let container = "/spec/workerGroupSpecs/1/template/spec/containers/0/resources";
    *manifest.pointer_mut(container).ok_or("no container")? = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let answer = bench.call(Method::PUT, DEMO, &[("if-match", "*")], &manifest).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, of_b), "{answer:?}");
    // Nodes that are on their way out don't go on.
    bench.hold();
    assert_eq!(bench.patch(json!({"workerGroups": {"b": {"replicas": 0}}})).await?.status, 200);
    eventually("its node is on its way out", async || Ok((!bench.nodes().await?.contains_key("b")).then_some(())))
        .await?;
    eventually("raygate knows of it", async || {
        let status = bench.read().await?.json()["status"]["workerGroups"]["b"]["terminating"].clone();
        Ok((status == 1).then_some(()))
    })
    .await?;
    let answer = bench.call(Method::PATCH, group, &[], &json!({"cpu": "2"})).await?;
    assert_eq!((answer.status.as_u16(), outdated(&answer)), (200, vec![]), "{answer:?}");
    Ok(())
}
