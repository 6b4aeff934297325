//! The status that KubeRay's operator (1.6, `calculateStatus` in `controllers/ray/raycluster_controller.go`) writes, in
//! its words. Left out: the sums `desiredCPU`, `desiredMemory`, `desiredGPU` and `desiredTPU`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::operator::{desired_pods, is_suspended, wants_suspension};
use super::schema;
use crate::ray::cluster::{RayCluster, WorkerGroupSpec};
use crate::ray::facts::{ContainerState, NodeFact, NodeRole};

/// The ports of a head whose container names none.
const DEFAULT_PORTS: [(&str, u16); 5] =
    [("client", 10001), ("dashboard", 8265), ("gcs-server", 6379), ("metrics", 8080), ("serve", 8000)];

/// Why the last pods couldn't be made.
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Failure {
    /// The operator joins its own error, which is but the reason, and the apiserver's.
    pub(super) fn new(role: NodeRole, message: &str) -> Self {
        let reason = if role == NodeRole::Head { "FailedCreateHeadPod" } else { "FailedCreateWorkerPod" };
        Self { reason, message: format!("{reason}\n{message}") }
    }
}

/// The status after a look at the cluster, which held `old` until now; `None` where it has nothing new to say.
pub(super) fn status(
    cluster: &RayCluster,
    old: &Value,
    pods: &[Arc<NodeFact>],
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Value> {
    let now = schema::time(now);
    let mut status = old.as_object().cloned().unwrap_or_default();
    set_counters(&mut status, cluster, pods);
    set_state(&mut status, cluster, pods, &now);
    let mut conditions = Conditions { list: take_conditions(&mut status), now: &now };
    set_conditions(&mut conditions, cluster, pods, failure);
    status.insert("conditions".to_owned(), Value::Array(conditions.list));
    status.insert("endpoints".to_owned(), endpoints(cluster));
    status.insert("head".to_owned(), head(cluster, pods));

    // These two don't make a status new.
    if old.as_object() == Some(&status) {
        return None;
    }
    status.insert("lastUpdateTime".to_owned(), json!(now));
    status.insert("observedGeneration".to_owned(), json!(cluster.metadata.generation));
    Some(Value::Object(status))
}

fn set_counters(status: &mut Map<String, Value>, cluster: &RayCluster, pods: &[Arc<NodeFact>]) {
    let workers = || pods.iter().filter(|pod| pod.role == NodeRole::Worker);
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let sum = |of: fn(&WorkerGroupSpec) -> i64| cluster.worker_groups().map(of).fold(0, i64::saturating_add);
    let counters = [
        ("readyWorkerReplicas", count(workers().filter(|pod| pod.ready).count())),
        ("availableWorkerReplicas", count(workers().filter(|pod| pod.phase == "Running").count())),
        ("desiredWorkerReplicas", sum(desired_pods)),
        ("minWorkerReplicas", sum(least_pods)),
        ("maxWorkerReplicas", sum(most_pods)),
    ];
    for (name, number) in counters {
        // A zero is left out, and the CRD holds 32 bits.
        match number.min(i64::from(i32::MAX)) {
            0 => status.shift_remove(name),
            number => status.insert(name.to_owned(), json!(number)),
        };
    }
}

fn least_pods(group: &WorkerGroupSpec) -> i64 {
    if is_suspended(group) { 0 } else { group.least_pods() }
}

fn most_pods(group: &WorkerGroupSpec) -> i64 {
    let hosts = i64::from(group.num_of_hosts.unwrap_or(1));
    if is_suspended(group) { 0 } else { i64::from(group.max_replicas.unwrap_or(i32::MAX)) * hosts }
}

fn set_state(status: &mut Map<String, Value>, cluster: &RayCluster, pods: &[Arc<NodeFact>], now: &str) {
    let held = status.get("state").and_then(Value::as_str).unwrap_or_default();
    let state = if wants_suspension(cluster) && pods.is_empty() {
        "suspended"
    } else if all_run(pods) && pods.len() == wanted_pods(cluster) {
        "ready"
    } else {
        held
    };
    if state == held {
        return;
    }
    let state = state.to_owned();
    let times = status.entry("stateTransitionTimes").or_insert_with(|| json!({}));
    if let Some(times) = times.as_object_mut() {
        times.insert(state.clone(), json!(now));
    }
    status.insert("state".to_owned(), json!(state));
}

fn wanted_pods(cluster: &RayCluster) -> usize {
    let workers = cluster.worker_groups().map(desired_pods).fold(0, i64::saturating_add);
    usize::try_from(workers).unwrap_or(usize::MAX).saturating_add(1)
}

fn all_run(pods: &[Arc<NodeFact>]) -> bool {
    !pods.is_empty() && pods.iter().all(|pod| pod.phase == "Running" && pod.ready)
}

fn set_conditions(
    conditions: &mut Conditions<'_>,
    cluster: &RayCluster,
    pods: &[Arc<NodeFact>],
    failure: Option<&Failure>,
) {
    let (suspending, suspended) = (conditions.hold("RayClusterSuspending"), conditions.hold("RayClusterSuspended"));
    match failure {
        Some(failure) => conditions.set("ReplicaFailure", true, failure.reason, &failure.message),
        None => conditions.list.retain(|condition| condition["type"] != "ReplicaFailure"),
    }
    set_head_pod_ready(conditions, pods);
    if !conditions.hold("RayClusterProvisioned") && !suspended {
        // More pods may come with the operator's next look.
        if all_run(pods) && pods.len() >= wanted_pods(cluster) {
            let message = "All Ray Pods are ready for the first time";
            conditions.set("RayClusterProvisioned", true, "AllPodRunningAndReadyFirstTime", message);
        } else {
            let message = "RayCluster Pods are being provisioned for first time";
            conditions.set("RayClusterProvisioned", false, "RayClusterPodsProvisioning", message);
        }
    }
    let suspend = cluster.spec.as_ref().and_then(|spec| spec.suspend);
    if suspending {
        if pods.is_empty() {
            let message = "RayCluster has been suspended";
            conditions.set("RayClusterProvisioned", false, "RayClusterPodsProvisioning", message);
            conditions.set("RayClusterSuspending", false, "RayClusterSuspending", "");
            conditions.set("RayClusterSuspended", true, "RayClusterSuspended", "");
        }
    } else if suspended {
        // Only an explicit false resumes.
        if suspend == Some(false) {
            conditions.set("RayClusterSuspended", false, "RayClusterSuspended", "");
        }
    } else {
        conditions.set("RayClusterSuspended", false, "RayClusterSuspended", "");
        conditions.set("RayClusterSuspending", suspend == Some(true), "RayClusterSuspending", "");
    }
}

fn set_head_pod_ready(conditions: &mut Conditions<'_>, pods: &[Arc<NodeFact>]) {
    match head_pod(pods) {
        None => conditions.set("HeadPodReady", false, "HeadPodNotFound", "Head Pod not found"),
        Some(head) if head.ready => conditions.set("HeadPodReady", true, "HeadPodRunningAndReady", ""),
        Some(head) => {
            let (reason, message) = head_trouble(head);
            conditions.set("HeadPodReady", false, &reason, &message);
        }
    }
}

/// `FindHeadPodReadyCondition`: what the pod's condition `Ready` says, and the first container that isn't well.
fn head_trouble(head: &NodeFact) -> (String, String) {
    let of_phase = match head.phase.as_str() {
        "Failed" => Some("PodFailed"),
        "Succeeded" => Some("PodCompleted"),
        _ => None,
    };
    if let Some(reason) = of_phase {
        return (reason.to_owned(), String::new());
    }
    let containers = || head.containers.iter().filter(|container| !container.init);
    let unready: Vec<&str> =
        containers().filter(|container| !container.ready).map(|found| found.name.as_str()).collect();
    // No kubelet has spoken, or the machine is lost: the condition isn't there, or keeps the reason of a ready pod, none.
    if unready.is_empty() {
        return ("Unknown".to_owned(), String::new());
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    let mut words = containers().filter_map(|container| match &container.state {
        ContainerState::Waiting(why) => Some((&container.name, &why.reason, &why.message)),
        ContainerState::Terminated(end) => Some((&container.name, &end.reason, &end.message)),
        ContainerState::Running(_) => None,
    });
    match words.next() {
        Some((name, reason, more)) => (reason.clone(), format!("{message}; {name}: {more}")),
        None => ("ContainersNotReady".to_owned(), message),
    }
}

fn endpoints(cluster: &RayCluster) -> Value {
    let mut endpoints = Map::new();
    for port in container(cluster)["ports"].as_array().into_iter().flatten() {
        let Some(number) = port["containerPort"].as_u64() else {
            continue;
        };
        let name = port["name"].as_str().map_or_else(|| format!("{number}-port"), str::to_owned);
        endpoints.insert(name, json!(number.to_string()));
    }
    let none = endpoints.is_empty();
    for (name, number) in DEFAULT_PORTS.iter().filter(|(name, _)| none || *name == "metrics") {
        endpoints.entry(*name).or_insert_with(|| json!(number.to_string()));
    }
    Value::Object(endpoints)
}

/// The head's service has no address of its own: it shows the pod's.
fn head(cluster: &RayCluster, pods: &[Arc<NodeFact>]) -> Value {
    let mut head = Map::new();
    if let Some(pod) = head_pod(pods) {
        head.insert("podName".to_owned(), json!(pod.name));
        if let Some(address) = (pod.phase == "Running").then(|| address(&pod.uid)) {
            head.insert("podIP".to_owned(), json!(address));
            head.insert("serviceIP".to_owned(), json!(address));
        }
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    head.insert("serviceName".to_owned(), json!(format!("{name}-head-svc")));
    Value::Object(head)
}

/// An address that looks like a pod's and is always the same for one pod.
fn address(uid: &str) -> String {
    let [.., third, fourth] = Uuid::parse_str(uid).unwrap_or_default().into_bytes();
    format!("10.244.{third}.{fourth}")
}

fn head_pod(pods: &[Arc<NodeFact>]) -> Option<&Arc<NodeFact>> {
    pods.iter().find(|pod| pod.role == NodeRole::Head)
}

/// The head's Ray container.
fn container(cluster: &RayCluster) -> &Value {
    let head = cluster.spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref());
    head.and_then(|head| head.template["spec"]["containers"].get(0)).unwrap_or(&Value::Null)
}

struct Conditions<'a> {
    list: Vec<Value>,
    now: &'a str,
}

fn take_conditions(status: &mut Map<String, Value>) -> Vec<Value> {
    match status.get_mut("conditions").map(Value::take) {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    }
}

impl Conditions<'_> {
    fn hold(&self, kind: &str) -> bool {
        self.list.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    }

    /// As `meta.SetStatusCondition` does it: the time moves only with the status.
    fn set(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { "True" } else { "False" };
        let found = self.list.iter_mut().find(|condition| condition["type"] == kind);
        let since =
            found.as_ref().filter(|found| found["status"] == status).map(|found| found["lastTransitionTime"].clone());
        let new = json!({
            "lastTransitionTime": since.unwrap_or_else(|| json!(self.now)),
            "message": message,
            "reason": reason,
            "status": status,
            "type": kind,
        });
        match found {
            Some(found) => *found = new,
            None => self.list.push(new),
        }
    }
}
