//! What a pod is reduced to, the moment it arrives: the facts that a cluster's state is made of.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a Ray node is in its cluster: the value of the label `ray.io/node-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NodeRole {
    /// The head node.
    Head,
    /// A worker node.
    Worker,
    /// Any other pod of the cluster (a clean-up job's, for one); never counted.
    Other,
}

/// One pod of a Ray cluster, in Kubernetes' own words.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Label `ray.io/group` (`headgroup` on the head).
    pub group: String,
    /// Label `ray.io/node-type`.
    pub role: NodeRole,
    /// `status.phase`: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Whether condition `Ready` is `True`.
    pub ready: bool,
    /// When that last changed, to the second; `None` where Kubernetes doesn't say.
    pub ready_since: Option<Timestamp>,
    /// Whether the pod has a deletion time.
    pub deleting: bool,
    /// Why it isn't running, where Kubernetes says so: a container's waiting or terminated reason, the unmet
    /// `PodScheduled` condition's reason, or `status.reason`.
    pub reason: Option<String>,
}
