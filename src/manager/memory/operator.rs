//! What KubeRay's operator (1.6, `controllers/ray/raycluster_controller.go`) decides on a cluster's pods, as one pure
//! function of the cluster and the pods. One liberty: GCS fault tolerance has no clean-up.

use std::sync::Arc;

use serde_json::Value;

use crate::ray::cluster::{RayCluster, WorkerGroupSpec};
use crate::ray::facts::{NodeFact, NodeRole};
use crate::ray::name::check_cluster_name;

/// How many pods one look at a cluster makes; the rest follows with the next.
const BATCH: usize = 100;

/// What to do about a cluster's pods.
#[derive(Default)]
pub(super) struct Plan {
    /// Pods to make: group, role.
    pub(super) create: Vec<(String, NodeRole)>,
    /// Pods to delete.
    pub(super) delete: Vec<Arc<NodeFact>>,
}

/// Whether the operator cares for this cluster: what it finds invalid or another controller's, it leaves alone.
pub(super) fn cares_for(cluster: &RayCluster) -> bool {
    let Some(spec) = &cluster.spec else { return false };
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let managed = spec.extra.get("managedBy").is_none_or(|manager| manager == "ray.io/kuberay-operator");
    let head = spec.head_group_spec.as_ref().is_some_and(|head| has_container(&head.template));
    managed && head && check_cluster_name(name).is_ok() && cluster.worker_groups().all(is_valid)
}

/// What the operator does next. While a cluster is being suspended all its pods go, whatever the spec says by then; a
/// suspended one gets pods again once the status no longer says so. `is_over` says of a running pod that nothing starts
/// its Ray container again.
pub(super) fn plan(cluster: &RayCluster, pods: &[Arc<NodeFact>], is_over: impl Fn(&NodeFact) -> bool) -> Plan {
    let alive = || pods.iter().filter(|pod| !pod.deleting).cloned();
    if cluster.condition("RayClusterSuspending") == Some(true) {
        return Plan { delete: alive().collect(), ..Plan::default() };
    }
    if cluster.condition("RayClusterSuspended") == Some(true) || wants_suspension(cluster) {
        return Plan::default();
    }
    let is_over = |pod: &NodeFact| is_finished(pod) || is_over(pod);
    let mut plan = Plan::default();
    match pods.iter().find(|pod| pod.role == NodeRole::Head) {
        None => plan.create.push(("headgroup".to_owned(), NodeRole::Head)),
        Some(head) if is_over(head) => return Plan { delete: vec![Arc::clone(head)], ..Plan::default() },
        Some(_) => {}
    }
    for group in cluster.worker_groups() {
        if !plan_group(&mut plan, cluster, group, pods, is_over) {
            break;
        }
    }
    plan
}

fn is_finished(pod: &NodeFact) -> bool {
    matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

/// Plans one group; `false` where pods of it must go before anything else is done.
fn plan_group(
    plan: &mut Plan,
    cluster: &RayCluster,
    group: &WorkerGroupSpec,
    pods: &[Arc<NodeFact>],
    is_over: impl Fn(&NodeFact) -> bool,
) -> bool {
    let of_group = |pod: &&Arc<NodeFact>| pod.role == NodeRole::Worker && pod.group == group.group_name;
    let present = pods.iter().filter(of_group).count();
    let over = pods.iter().filter(of_group).filter(|pod| is_over(pod)).cloned();
    let before = plan.delete.len();
    plan.delete.extend(over);
    if plan.delete.len() > before {
        return false;
    }
    let mut alive: Vec<Arc<NodeFact>> = pods.iter().filter(of_group).filter(|pod| !pod.deleting).cloned().collect();

    let named = group.extra.get("scaleStrategy").and_then(|strategy| strategy["workersToDelete"].as_array());
    let named = |pod: &Arc<NodeFact>| named.is_some_and(|names| names.iter().any(|name| *name == *pod.name));
    plan.delete.extend(alive.iter().filter(|pod| named(pod)).cloned());
    alive.retain(|pod| !named(pod));

    let desired = usize::try_from(desired_pods(group)).unwrap_or(usize::MAX);
    let room = BATCH.saturating_sub(plan.create.len());
    let missing = desired.saturating_sub(present).min(room);
    plan.create.extend((0..missing).map(|_| (group.group_name.clone(), NodeRole::Worker)));

    // With the autoscaler on only it takes pods away, by name.
    if !cluster.autoscaling() || is_suspended(group) {
        // Those that aren't ready yet are missed least.
        alive.sort_by_key(|pod| !pod.ready);
        let surplus = alive.len().saturating_sub(desired);
        plan.delete.extend(alive.into_iter().take(surplus));
    }
    true
}

/// How many pods the operator keeps of this group.
pub(super) fn desired_pods(group: &WorkerGroupSpec) -> i64 {
    if is_suspended(group) { 0 } else { group.desired_pods().max(0) }
}

/// Whether the group alone is suspended (a RayJob's deletion policy does this).
pub(super) fn is_suspended(group: &WorkerGroupSpec) -> bool {
    group.suspend == Some(true)
}

/// Whether the spec asks for suspension.
pub(super) fn wants_suspension(cluster: &RayCluster) -> bool {
    cluster.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// The name of a new pod, as far as the operator gives it; the apiserver adds five characters.
pub(super) fn pod_name_prefix(cluster: &str, group: &str, role: NodeRole) -> String {
    let (prefix, kind) = match role {
        NodeRole::Head => (cluster.to_owned(), "head"),
        NodeRole::Worker | NodeRole::Other => (format!("{cluster}-{group}"), "worker"),
    };
    let prefix: String = prefix.chars().take(50).collect();
    format!("{prefix}-{kind}-").to_lowercase()
}

fn is_valid(group: &WorkerGroupSpec) -> bool {
    let (min, max) = (group.min_replicas.unwrap_or(0), group.max_replicas.unwrap_or(0));
    let bounds = group.min_replicas.is_some() && group.max_replicas.is_some() && 0 <= min && min <= max;
    bounds && has_container(&group.template)
}

fn has_container(template: &Value) -> bool {
    template["spec"]["containers"].as_array().is_some_and(|containers| !containers.is_empty())
}
