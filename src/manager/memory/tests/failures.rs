//! Failures that the contract can't try on every backend: machines that are full or lost, and many pods that fail.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Seen, cluster, patch, until_quiet};
use crate::clock;
use crate::manager::memory::{NodeSwitch, Options, backend_with_switch};
use crate::manager::{Backend, ManagerError, Preconditions, Scope};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{ContainerState, NodeFact, NodeRole};
use crate::ray::quantity::Quantity;

/// Times are real ones: a back-off of ten seconds takes ten.
fn world(change: impl FnOnce(&mut Options)) -> (Backend, NodeSwitch) {
    let mut options =
        Options { namespaces: vec!["home".to_owned()], back_off: Duration::from_secs(10), ..Options::default() };
    change(&mut options);
    backend_with_switch(options)
}

/// A cluster whose head or workers are spoiled.
fn spoiled(name: &str, replicas: i32, group: &str, spoil: impl FnOnce(&mut Value)) -> RayCluster {
    let mut object = serde_json::to_value(cluster("home", name, replicas)).unwrap();
    spoil(&mut object.pointer_mut(group).unwrap()["template"]["spec"]);
    serde_json::from_value(object).unwrap()
}

const HEAD: &str = "/spec/headGroupSpec";
const WORKERS: &str = "/spec/workerGroupSpecs/0";

fn pods(backend: &Backend) -> Vec<NodeFact> {
    let mut seen = Seen::new(backend.workloads.watch(&Scope::All));
    seen.read();
    seen.objects.into_values().collect()
}

fn only(backend: &Backend, role: NodeRole) -> NodeFact {
    let mut pods = pods(backend).into_iter().filter(|pod| pod.role == role);
    let pod = pods.next().unwrap();
    assert!(pods.next().is_none());
    pod
}

async fn condition(backend: &Backend, name: &str, kind: &str) -> Value {
    let object = backend.clusters.get("home", name).await.unwrap();
    let conditions = object.raw["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

// The words of the three tests about a lost machine are those of a run of the real controllers on the control plane of
// the tests: the case `node lost` of tests/control-plane/bench/behaviours.sh, with a RayCluster's head on that machine.

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_machine_are_not_ready_then_deleted() {
    let (backend, nodes) = world(|options| options.nodes = 1);
    backend.clusters.create(&cluster("home", "demo", 0)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let head = only(&backend, NodeRole::Head);
    assert_eq!((head.ready, head.host.as_deref()), (true, Some("memory-node-1")));

    nodes.down("memory-node-1");
    sleep(Duration::from_secs(45)).await;
    assert_eq!(only(&backend, NodeRole::Head), head, "nobody has noticed yet");
    sleep(Duration::from_secs(10)).await;
    let lost = only(&backend, NodeRole::Head);
    assert_eq!((lost.phase.as_str(), lost.ready, lost.deleting, lost.reason()), ("Running", false, false, None));
    assert_eq!(lost.containers, head.containers, "of its containers nothing new is known");
    let ready = condition(&backend, "demo", "HeadPodReady").await;
    assert_eq!(
        (&ready["status"], &ready["reason"], &ready["message"]),
        (&json!("False"), &json!("Unknown"), &json!(""))
    );

    sleep(Duration::from_mins(5)).await;
    let deleted = only(&backend, NodeRole::Head);
    let why = deleted.disruption.clone().unwrap();
    assert_eq!((why.reason.as_str(), deleted.deleting), ("DeletionByTaintManager", true));
    assert_eq!(why.message, "Taint manager: deleting due to NoExecute taint");
    // Nobody ends it, so nobody replaces it.
    until_quiet().await;
    assert_eq!(only(&backend, NodeRole::Head), deleted);
    // A new pod has no other machine to go to.
    backend.clusters.create(&cluster("home", "late", 0)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let late = pods(&backend).into_iter().find(|pod| pod.name.starts_with("late")).unwrap();
    let message = late.unscheduled.unwrap().message.clone();
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), "{message}");

    nodes.up("memory-node-1");
    sleep(Duration::from_secs(10)).await;
    let found = pods(&backend);
    assert!(found.len() == 2 && found.iter().all(|pod| pod.ready && pod.uid != head.uid), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn machine_that_comes_back_in_time_keeps_its_pods() {
    let (backend, nodes) = world(|options| options.nodes = 1);
    backend.clusters.create(&cluster("home", "demo", 1)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let before: Vec<_> = pods(&backend).into_iter().map(|pod| pod.uid).collect();
    nodes.down("memory-node-1");
    sleep(Duration::from_secs(100)).await;
    assert!(pods(&backend).iter().all(|pod| !pod.ready && !pod.deleting));
    nodes.up("memory-node-1");
    until_quiet().await;
    assert!(pods(&backend).iter().all(|pod| pod.ready && !pod.deleting));
    assert_eq!(pods(&backend).into_iter().map(|pod| pod.uid).collect::<Vec<_>>(), before);
}

#[tokio::test(start_paused = true)]
async fn worker_of_a_lost_machine_is_replaced_once_it_is_gone() {
    let (backend, nodes) = world(|options| options.nodes = 2);
    backend.clusters.create(&cluster("home", "demo", 1)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let worker = only(&backend, NodeRole::Worker);
    nodes.down(worker.host.as_deref().unwrap());
    until_quiet().await;
    assert!(only(&backend, NodeRole::Worker).deleting && only(&backend, NodeRole::Head).ready);
    // A delete goes on as far as it can, and ends when the machine is back.
    backend.clusters.delete("home", "demo", &Preconditions::default()).await.unwrap();
    until_quiet().await;
    assert_eq!(pods(&backend).len(), 1);
    nodes.up(worker.host.as_deref().unwrap());
    until_quiet().await;
    assert!(pods(&backend).is_empty());
    assert_eq!(backend.clusters.get("home", "demo").await.err(), Some(ManagerError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn room_that_becomes_free_is_used() {
    let (backend, _) = world(|options| (options.nodes, options.node_cpu) = (2, Quantity::from(4)));
    let cpus = |spec: &mut Value| spec["containers"][0]["resources"] = json!({"limits": {"cpu": "3"}});
    backend.clusters.create(&spoiled("first", 2, WORKERS, cpus)).await.unwrap();
    backend.clusters.create(&spoiled("second", 1, WORKERS, cpus)).await.unwrap();
    until_quiet().await;
    let waiting = || pods(&backend).into_iter().filter(|pod| pod.unscheduled.is_some()).collect::<Vec<_>>();
    let [late] = waiting().try_into().unwrap();
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    assert_eq!((late.unscheduled.unwrap().message.as_str(), late.host), (message, None));
    let group = json!({"groupName": "small", "replicas": 1, "template": spoiled("", 1, WORKERS, cpus).spec.unwrap().worker_group_specs.unwrap()[0].template});
    patch(&backend, "home", "first", json!({"spec": {"workerGroupSpecs": [group]}})).await.unwrap();
    until_quiet().await;
    assert!(waiting().is_empty());
    assert!(pods(&backend).iter().all(|pod| pod.ready));
}

#[tokio::test(start_paused = true)]
async fn waiting_pod_can_be_taken_back_at_once() {
    let (backend, _) = world(|_| {});
    let cpus = |spec: &mut Value| spec["containers"][0]["resources"] = json!({"limits": {"cpu": "3000"}});
    backend.clusters.create(&spoiled("demo", 1, HEAD, cpus)).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(only(&backend, NodeRole::Head).host, None);
    backend.clusters.delete("home", "demo", &Preconditions::default()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(pods(&backend).iter().all(|pod| pod.role == NodeRole::Worker), "it is nowhere, so nothing must end it");
    until_quiet().await;
    assert!(pods(&backend).is_empty());
}

#[tokio::test(start_paused = true)]
async fn restarts_slow_down_as_they_do_in_real_life() {
    let (backend, _) = world(|options| options.pod_start_delay = Duration::from_millis(10));
    let fails = |spec: &mut Value| spec["containers"][0]["command"] = json!(["exit 1"]);
    backend.clusters.create(&spoiled("demo", 0, HEAD, fails)).await.unwrap();
    let start = clock::timer();
    let mut restarts = Vec::new();
    while start.elapsed() < Duration::from_mins(20) {
        sleep(Duration::from_millis(500)).await;
        let container = only(&backend, NodeRole::Head).containers[0].clone();
        if container.restarts > i32::try_from(restarts.len()).unwrap() {
            restarts.push(start.elapsed().as_secs());
        }
        if let ContainerState::Waiting(why) = &container.state {
            assert!(["ContainerCreating", "CrashLoopBackOff"].contains(&why.reason.as_str()), "{why:?}");
        }
    }
    // At once, then after 10 s, 20 s and so on up to five minutes; each run takes one.
    let gaps: Vec<u64> = restarts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(restarts[0] <= 3, "{restarts:?}");
    for (gap, expected) in gaps.iter().zip([11, 21, 41, 81, 161, 301, 301]) {
        assert!(gap.abs_diff(expected) <= 1, "{gaps:?}");
    }
    assert_eq!(gaps.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn pod_that_no_apiserver_takes_is_told_in_the_status() {
    let (backend, _) = world(|_| {});
    let no_image = |spec: &mut Value| spec["containers"] = json!([{"name": "ray"}]);
    backend.clusters.create(&spoiled("demo", 1, WORKERS, no_image)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let failure = condition(&backend, "demo", "ReplicaFailure").await;
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreateWorkerPod")));
    let message = failure["message"].as_str().unwrap();
    assert!(message.ends_with("is invalid: spec.initContainers[0].image: Required value"), "{message}");
    assert!(only(&backend, NodeRole::Head).ready);
    // It is said once.
    let version = backend.clusters.get("home", "demo").await.unwrap().resource_version().to_owned();
    until_quiet().await;
    assert_eq!(backend.clusters.get("home", "demo").await.unwrap().resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn many_failing_pods_take_turns() {
    let (backend, _) = world(|options| options.back_off = Duration::from_secs(1));
    let fails = |spec: &mut Value| {
        let side = json!({"name": "side", "image": "busybox", "command": ["false"]});
        spec["containers"].as_array_mut().unwrap().push(side);
    };
    backend.clusters.create(&spoiled("demo", 1000, WORKERS, fails)).await.unwrap();
    sleep(Duration::from_mins(5)).await;
    let newest = |pods: &[NodeFact]| pods.iter().map(|pod| pod.resource_version.parse::<u64>().unwrap()).max().unwrap();
    let before = pods(&backend);
    assert_eq!(before.len(), 1001);
    sleep(Duration::from_mins(1)).await;
    let after = pods(&backend);
    // In a minute each fails twice at most, in three steps; a status follows from many at once.
    let steps = newest(&after) - newest(&before);
    assert!((1000..=1000 * 10).contains(&steps), "{steps}");
    backend.clusters.delete("home", "demo", &Preconditions::default()).await.unwrap();
    until_quiet().await;
    assert!(pods(&backend).is_empty());
}
