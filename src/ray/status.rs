//! Facts → state. Total: unknown words never panic, they just aren't the ones that are looked for.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cluster::{RayCluster, WorkerGroupSpec};
use super::facts::{NodeFact, NodeRole, Nodes};

/// How a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum State {
    /// The head is ready, and so is every worker that is wanted.
    Ready,
    /// It was ready once, and something of what is wanted isn't now.
    Degraded,
    /// On its way.
    Pending,
    /// Being stopped: nodes are left.
    Stopping,
    /// Stopped: no node is left; its name and spec stay.
    Stopped,
    /// Being deleted: something of it is left.
    Deleting,
    /// What Kubernetes holds can't be read.
    Unknown,
}

/// How many nodes of a group are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GroupStatus {
    /// How many the spec asks for, within the group's bounds.
    pub desired: i64,
    /// How many are ready.
    pub ready: i64,
    /// How many exist and aren't ready yet.
    pub pending: i64,
    /// How many are on their way out.
    pub terminating: i64,
}

/// The head node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct HeadStatus {
    /// Whether it is ready.
    pub ready: bool,
    /// The name of its node (Kubernetes: its pod).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The name of its Kubernetes Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The port of Ray's dashboard on that service.
    #[serde(rename = "dashboardPort", skip_serializing_if = "Option::is_none")]
    pub dashboard_port: Option<u16>,
}

/// The state of a cluster with these nodes. Only nodes whose owner is the cluster (by uid) may be given.
///
/// Upstream's `status.state` and `status.observedGeneration` are never used: the one stays `ready` after the head has
/// died, the other moves only together with other members of the status.
#[must_use]
pub fn state(cluster: &RayCluster, nodes: &Nodes) -> State {
    if cluster.metadata.deletion_timestamp.is_some() {
        return State::Deleting;
    }
    if suspension_wanted(cluster) {
        return if nodes.present.is_empty() { State::Stopped } else { State::Stopping };
    }
    if is_ready(cluster, &nodes.present, is_node_ready) {
        return State::Ready;
    }
    // Sticky until suspended, and the same whoever asks.
    if cluster.condition("RayClusterProvisioned") != Some(true) {
        return State::Pending;
    }
    if is_news_older(cluster, nodes) { State::Pending } else { State::Degraded }
}

/// Whether the operator says that all is ready, and nothing but older news of pods contradicts it: pods and clusters are
/// watched apart, so the operator's word may arrive before what made it say so. Nothing has got worse yet, then.
fn is_news_older(cluster: &RayCluster, nodes: &Nodes) -> bool {
    let ready = cluster.status.as_ref().and_then(|status| status.extra.get("readyWorkerReplicas")?.as_i64());
    let workers = cluster.worker_groups().map(|group| wanted_pods(cluster, group)).fold(0, i64::saturating_add);
    let said = cluster.condition_since("RayClusterProvisioned");
    let is_older = |node: &NodeFact| {
        let news = node.ready_since.or(node.created);
        !node.deleting && news.is_some_and(|news| Some(news) <= said)
    };
    // As many as were never seen may be missing: what is gone was.
    let seen = i64::try_from(nodes.present.len() + nodes.gone).unwrap_or(i64::MAX);
    let since = nodes.known_since.is_none_or(|since| said >= Some(since));
    let unseen = if since { workers.saturating_add(1).saturating_sub(seen).max(0) } else { 0 };
    cluster.condition("HeadPodReady") == Some(true)
        && ready.unwrap_or(0) >= workers
        && missing(cluster, &nodes.present, |node| is_node_ready(node) || is_older(node)) <= unseen
}

/// `suspend: true`, or no explicit `false` while the operator holds the cluster suspended: it resumes only on one.
fn suspension_wanted(cluster: &RayCluster) -> bool {
    match cluster.spec.as_ref().and_then(|spec| spec.suspend) {
        Some(wanted) => wanted,
        None => cluster.condition("RayClusterSuspended") == Some(true),
    }
}

fn is_ready(cluster: &RayCluster, nodes: &[NodeFact], counts: impl Fn(&NodeFact) -> bool) -> bool {
    missing(cluster, nodes, counts) == 0
}

/// How many of the wanted nodes there aren't, of those that count.
fn missing(cluster: &RayCluster, nodes: &[NodeFact], counts: impl Fn(&NodeFact) -> bool) -> i64 {
    let head = nodes.iter().any(|node| node.role == NodeRole::Head && counts(node));
    let groups = cluster.worker_groups().map(|group| {
        let there = workers_of(&group.group_name, nodes).filter(|node| counts(node)).count();
        wanted_pods(cluster, group).saturating_sub(i64::try_from(there).unwrap_or(i64::MAX)).max(0)
    });
    groups.fold(i64::from(!head), i64::saturating_add)
}

/// How many ready pods a group needs: with the autoscaler its lower bound, else what the operator keeps.
fn wanted_pods(cluster: &RayCluster, group: &WorkerGroupSpec) -> i64 {
    if cluster.autoscaling() { group.least_pods() } else { group.desired_pods() }
}

fn is_node_ready(node: &NodeFact) -> bool {
    node.ready && !node.deleting
}

fn workers_of<'a>(group: &'a str, nodes: &'a [NodeFact]) -> impl Iterator<Item = &'a NodeFact> {
    nodes.iter().filter(move |node| node.role == NodeRole::Worker && node.group == group)
}

/// How many nodes of each group are where: the spec's groups in its order, then groups that only nodes name.
#[must_use]
pub fn groups(cluster: Option<&RayCluster>, nodes: &[NodeFact]) -> IndexMap<String, GroupStatus> {
    let mut groups: IndexMap<String, GroupStatus> = IndexMap::new();
    for group in cluster.into_iter().flat_map(RayCluster::worker_groups) {
        // Two groups of one name can be stored: together they ask for both.
        let status = groups.entry(group.group_name.clone()).or_default();
        status.desired = status.desired.saturating_add(group.desired_pods());
    }
    for node in nodes.iter().filter(|node| node.role == NodeRole::Worker) {
        let group = groups.entry(node.group.clone()).or_default();
        if node.deleting {
            group.terminating += 1;
        } else if node.ready {
            group.ready += 1;
        } else if !matches!(node.phase.as_str(), "Succeeded" | "Failed") {
            group.pending += 1;
        }
    }
    groups
}

/// The head node: the one that isn't on its way out, if there is one.
#[must_use]
pub fn head(cluster: Option<&RayCluster>, nodes: &[NodeFact]) -> HeadStatus {
    let heads = nodes.iter().filter(|node| node.role == NodeRole::Head);
    let node = heads.min_by_key(|node| (node.deleting, !node.ready));
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    let service = status.and_then(|status| status.head.as_ref()?.get("serviceName")?.as_str());
    let port = status.and_then(|status| status.endpoints.as_ref()?.get("dashboard")?.parse().ok());
    HeadStatus {
        ready: node.is_some_and(is_node_ready),
        node: node.map(|node| node.name.clone()),
        service: service.filter(|name| !name.is_empty()).map(str::to_owned),
        dashboard_port: port,
    }
}
