//! Pods as Kubernetes tells of them, and the facts that are left.

use serde_json::{Value, json};

use super::PodDigest;
use crate::ray::facts::{CONTAINER_LIMIT, ContainerState, NodeFact, NodeRole, TEXT_LIMIT};

fn fact(status: &Value) -> NodeFact {
    let owner =
        json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "uid": "c", "controller": true});
    let pod = json!({
        "metadata": {
            "namespace": "default", "name": "demo-head-abcde", "uid": "p", "resourceVersion": "7",
            "creationTimestamp": "2026-05-01T10:00:00Z", "ownerReferences": [owner],
            "labels": {"ray.io/node-type": "head", "ray.io/group": "headgroup"},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "ray-head"}]},
        "status": status,
    });
    serde_json::from_value::<PodDigest>(pod).unwrap().fact()
}

fn healthy() -> Value {
    let running = json!({"running": {"startedAt": "2026-05-01T10:00:05Z"}});
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T10:00:06Z"},
            {"type": "PodScheduled", "status": "True"},
        ],
        "containerStatuses": [{
            "name": "ray-head", "image": "docker.io/rayproject/ray:2.52.0", "imageID": "x", "ready": true,
            "restartCount": 0, "state": running, "lastState": {}, "started": true,
        }],
    })
}

#[test]
fn healthy_pod_says_little() {
    let fact = fact(&healthy());
    assert_eq!((fact.role, fact.host.as_deref(), fact.owner_uid.as_str()), (NodeRole::Head, Some("node-1"), "c"));
    assert_eq!(fact.created, Some("2026-05-01T10:00:00Z".parse().unwrap()));
    assert!(fact.ready && fact.reason().is_none() && !fact.containers[0].in_trouble());
    assert_eq!(fact.containers[0].state, ContainerState::Running(Some("2026-05-01T10:00:05Z".parse().unwrap())));
    assert_eq!((fact.verdict, fact.unscheduled, fact.disruption), (None, None, None));
}

#[test]
fn a_pod_of_two_containers_is_under_a_kilobyte() {
    let mut status = healthy();
    let init = json!({
        "name": "wait-gcs-ready", "image": "docker.io/rayproject/ray:2.52.0", "imageID": "x", "ready": true,
        "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    });
    status["initContainerStatuses"] = json!([init]);
    let fact = fact(&status);
    let texts = [&fact.namespace, &fact.name, &fact.uid, &fact.resource_version, &fact.owner_uid, &fact.group];
    // A uid has 36 letters, not one.
    let mut size = size_of::<NodeFact>() + texts.iter().map(|text| text.capacity()).sum::<usize>() + 2 * 36;
    for container in fact.containers.iter() {
        size += size_of_val(container) + container.name.capacity() + container.image.capacity();
        if let ContainerState::Terminated(end) = &container.state {
            size += size_of_val(&**end) + end.reason.capacity();
        }
    }
    assert!(size < 1024, "{size} bytes");
}

#[test]
fn crash_loop_tells_of_the_last_run() {
    let last = json!({
        "exitCode": 3, "reason": "Error", "message": "disk is full\n", "startedAt": "2026-05-01T10:00:05Z",
        "finishedAt": "2026-05-01T10:00:06Z",
    });
    let mut status = healthy();
    let container = &mut status["containerStatuses"][0];
    container["ready"] = json!(false);
    container["restartCount"] = json!(4);
    container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}});
    container["lastState"] = json!({"terminated": last});
    let fact = fact(&status);
    let container = &fact.containers[0];
    assert_eq!((fact.reason(), container.restarts, container.in_trouble()), (Some("CrashLoopBackOff"), 4, true));
    let ContainerState::Waiting(why) = &container.state else { panic!("{container:?}") };
    assert_eq!(why.message, "back-off 40s restarting");
    let last = container.last.as_deref().unwrap();
    assert_eq!((last.exit_code, last.reason.as_str(), last.message.as_str()), (3, "Error", "disk is full\n"));
    assert_eq!(last.finished, Some("2026-05-01T10:00:06Z".parse().unwrap()));
}

#[test]
fn the_pod_as_a_whole_is_heard() {
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let verdict = fact(&evicted).verdict.unwrap();
    assert_eq!((verdict.reason.as_str(), verdict.message.as_str()), ("Evicted", evicted["message"].as_str().unwrap()));

    let message = "0/3 nodes are available: 3 Insufficient cpu.";
    let since = "2026-05-01T10:00:00Z";
    let scheduled = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": since,
    });
    let target =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "gone"});
    let fact = fact(&json!({"phase": "Pending", "conditions": [scheduled, target]}));
    assert_eq!(fact.reason(), Some("Unschedulable"));
    let unscheduled = fact.unscheduled.unwrap();
    assert_eq!((unscheduled.message.as_str(), unscheduled.since), (message, Some(since.parse().unwrap())));
    assert_eq!(fact.disruption.unwrap().reason, "DeletionByTaintManager");
}

#[test]
fn pod_without_a_status_is_read_too() {
    for status in [json!({}), json!({"containerStatuses": null, "conditions": null, "reason": ""})] {
        let fact = fact(&status);
        assert_eq!((fact.phase.as_str(), fact.reason(), fact.containers.len()), ("", None, 0));
    }
    let bare = json!({"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0});
    let fact = fact(&json!({"containerStatuses": [bare]}));
    assert_eq!(fact.containers[0].state, ContainerState::default());
}

#[test]
fn texts_and_containers_are_bounded() {
    // Letters of three bytes: 2048 isn't a boundary.
    let long = "€".repeat(2000);
    let ended = |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error", "message": long}});
    let containers: Vec<Value> = (0..100)
        .map(|number| {
            let state = ended(i32::from(number >= 90));
            json!({"name": number.to_string(), "image": "", "ready": false, "restartCount": 0, "state": state})
        })
        .collect();
    let fact = fact(&json!({"containerStatuses": containers, "initContainerStatuses": containers}));
    assert_eq!(fact.containers.len(), CONTAINER_LIMIT);
    assert_eq!(fact.containers.iter().filter(|container| container.in_trouble()).count(), 20);
    assert!(fact.containers.is_sorted_by_key(|container| !container.init));
    for container in fact.containers.iter() {
        let ContainerState::Terminated(end) = &container.state else { panic!("{container:?}") };
        let expected = if end.exit_code == 0 { 0 } else { TEXT_LIMIT / 3 * 3 };
        assert_eq!(end.message.len(), expected, "a message is worth keeping only where something went wrong");
    }
}
