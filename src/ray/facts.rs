//! What a pod is reduced to, the moment it arrives: the facts that a cluster's state is made of.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a Ray node is in its cluster: the value of the label `ray.io/node-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NodeRole {
    /// The head node.
    Head,
    /// A worker node.
    Worker,
    /// Any other pod of the cluster (a clean-up job's, for one); never counted.
    #[default]
    Other,
}

/// One pod of a Ray cluster, in Kubernetes' own words. Cheap to clone: what is long is shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFact {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The pod's resourceVersion.
    pub resource_version: String,
    /// Uid of the pod's controlling owner; a pod counts only for the cluster of this uid.
    pub owner_uid: String,
    /// When the pod was created, to the second.
    pub created: Option<Timestamp>,
    /// Label `ray.io/group` (`headgroup` on the head).
    pub group: String,
    /// Label `ray.io/node-type`.
    pub role: NodeRole,
    /// `spec.nodeName`: the machine it was given to; `None` until it is scheduled.
    pub host: Option<String>,
    /// `status.phase`: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Whether condition `Ready` is `True`.
    pub ready: bool,
    /// When that last changed, to the second; `None` where Kubernetes doesn't say.
    pub ready_since: Option<Timestamp>,
    /// Whether the pod has a deletion time.
    pub deleting: bool,
    /// `status.reason` and `status.message`, of the pod as a whole: `Evicted`, for one.
    pub verdict: Option<Arc<Why>>,
    /// Condition `PodScheduled` where it isn't met: no machine can take the pod.
    pub unscheduled: Option<Arc<Why>>,
    /// Condition `DisruptionTarget` where it holds: the pod is being taken away (eviction, preemption, a lost machine).
    pub disruption: Option<Arc<Why>>,
    /// Its containers, init containers first; none until a kubelet has spoken.
    pub containers: Arc<[ContainerFact]>,
}

/// Why something is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Why {
    /// One word.
    pub reason: String,
    /// A sentence, for people; may be empty.
    pub message: String,
    /// Since when, where Kubernetes says so.
    pub since: Option<Timestamp>,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerFact {
    /// Its name, unique in the pod.
    pub name: String,
    /// Whether it is one of the init containers, which run in turn before the others.
    pub init: bool,
    /// Its image.
    pub image: String,
    /// Whether it is ready (of an init container: whether it has done its work).
    pub ready: bool,
    /// How often it was started again.
    pub restarts: i32,
    /// How it is.
    pub state: ContainerState,
    /// How its last run ended, where there was one before this.
    pub last: Option<Box<Termination>>,
}

/// How a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It doesn't run yet, or not again.
    Waiting(Why),
    /// It runs, since then.
    Running(Option<Timestamp>),
    /// It has ended.
    Terminated(Box<Termination>),
}

impl Default for ContainerState {
    fn default() -> Self {
        Self::Waiting(Why::default())
    }
}

/// How a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Termination {
    /// One word: `Error`, `OOMKilled`, `Completed`, `StartError`.
    pub reason: String,
    /// The container's last words; mostly empty, and left out where it ended well.
    pub message: String,
    /// What the process ended with.
    pub exit_code: i32,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
}

/// Longest text that is kept of a message.
pub const TEXT_LIMIT: usize = 2048;
/// Most containers that are kept of a pod.
pub const CONTAINER_LIMIT: usize = 32;

/// The text, cut to [`TEXT_LIMIT`] bytes.
#[must_use]
pub fn bounded(mut text: String) -> String {
    if text.len() > TEXT_LIMIT {
        text.truncate(text.floor_char_boundary(TEXT_LIMIT));
        text.shrink_to_fit();
    }
    text
}

impl NodeFact {
    /// Why it isn't running, in one word, where Kubernetes says so: `status.reason`, a container's waiting or terminated
    /// reason, or the unmet `PodScheduled` condition's.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let whole = self.verdict.as_deref().map(|why| why.reason.as_str());
        let unscheduled = || self.unscheduled.as_deref().map(|why| why.reason.as_str());
        whole.or_else(|| self.containers.iter().find_map(ContainerFact::reason)).or_else(unscheduled)
    }
}

/// The containers, no more than [`CONTAINER_LIMIT`]: those in trouble before the others.
#[must_use]
pub fn bounded_containers(mut containers: Vec<ContainerFact>) -> Arc<[ContainerFact]> {
    if containers.len() > CONTAINER_LIMIT {
        containers.sort_by_key(|container| !container.in_trouble());
        containers.truncate(CONTAINER_LIMIT);
        containers.sort_by_key(|container| !container.init);
    }
    containers.into()
}

impl ContainerFact {
    /// Why it doesn't run: its waiting reason, or how it ended where that was badly.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let reason = match &self.state {
            ContainerState::Waiting(why) => &why.reason,
            ContainerState::Terminated(end) if end.exit_code != 0 => &end.reason,
            ContainerState::Terminated(_) | ContainerState::Running(_) => return None,
        };
        (!reason.is_empty()).then_some(reason)
    }

    /// Whether something went wrong with it: a run ended badly, or Kubernetes has more to say than that it waits.
    #[must_use]
    pub fn in_trouble(&self) -> bool {
        let waits_in_vain = matches!(&self.state, ContainerState::Waiting(why) if !why.message.is_empty());
        let ended_badly = matches!(&self.state, ContainerState::Terminated(end) if end.exit_code != 0);
        waits_in_vain || ended_badly || self.last.as_ref().is_some_and(|last| last.exit_code != 0)
    }
}

/// The pods of one cluster, as far as they are known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Nodes {
    /// Those that there are.
    pub present: Vec<NodeFact>,
    /// How many there were besides: what has been seen to go hasn't just not been seen yet.
    pub gone: usize,
    /// Since when all pods have been known: a pod that the operator spoke of before hasn't just not been seen yet either.
    /// Whole seconds, as Kubernetes' times.
    pub known_since: Option<Timestamp>,
}
