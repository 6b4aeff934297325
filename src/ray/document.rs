//! The document: a Ray cluster as people write it. Reading one finds all its faults at once.

use deserr::{Deserr, ValuePointerRef};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::fault::{Fault, FaultCode, Faults, pointer};
use super::json;
use super::values::{
    Amount, AnyKey, ClusterName, Count, EnvKey, GroupKey, Image, ImageTag, Keyed, LabelValue, MetadataKey,
    NamespaceName, WholeAmount,
};

/// Members that only the server writes: taken and ignored, so that what was read can be sent back.
pub const SERVER_MEMBERS: [&str; 8] =
    ["uid", "owner", "createTime", "resourceVersion", "status", "links", "partial", "warnings"];

/// A Ray cluster as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserr, ToSchema)]
#[serde(rename_all = "camelCase")]
#[deserr(error = Faults, rename_all = camelCase, deny_unknown_fields)]
#[schema(example = json!({
    "name": "demo",
    "head": {"cpu": "1", "memory": "2Gi"},
    "workerGroups": {"small": {"replicas": 2, "cpu": "1", "memory": "2Gi"}},
}))]
pub struct Document {
    /// The cluster's name: at most 53 lower-case letters, digits and hyphens, beginning with a letter.
    #[schema(value_type = String, max_length = 53, pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    pub name: ClusterName,
    /// The namespace; left out it is the caller's default namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub namespace: Option<NamespaceName>,
    /// Labels of the cluster.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub labels: Keyed<LabelValue, MetadataKey>,
    /// Annotations of the cluster.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub annotations: Keyed<String, MetadataKey>,
    /// Ray's version, e.g. `2.52.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub ray_version: Option<ImageTag>,
    /// The image of all nodes; left out it is `rayproject/ray:{rayVersion}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub image: Option<Image>,
    /// Whether the cluster is stopped: its name and spec stay, its nodes go.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    pub suspended: Option<bool>,
    /// The head node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    pub head: Option<Head>,
    /// The worker groups by name.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, WorkerGroup>, required = false)]
    pub worker_groups: Keyed<WorkerGroup, GroupKey>,
}

/// The head node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserr, ToSchema)]
#[serde(rename_all = "camelCase")]
#[deserr(error = Faults, rename_all = camelCase, deny_unknown_fields)]
pub struct Head {
    /// CPUs: requested and the limit. A Kubernetes quantity, e.g. `2` or `500m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub cpu: Option<Amount>,
    /// Memory: requested and the limit. A Kubernetes quantity, e.g. `4Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub memory: Option<Amount>,
    /// GPUs (`nvidia.com/gpu`), a whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub gpu: Option<WholeAmount>,
    /// Environment variables of the Ray container.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub env: Keyed<String, EnvKey>,
    /// Options of `ray start`, without the leading dashes.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub ray_start_params: Keyed<String, AnyKey>,
}

/// A group of like worker nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserr, ToSchema)]
#[serde(rename_all = "camelCase")]
#[deserr(error = Faults, rename_all = camelCase, deny_unknown_fields, validate = check_bounds -> Faults)]
pub struct WorkerGroup {
    /// How many nodes are wanted; left out it is the lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<i32>, minimum = 0)]
    pub replicas: Option<Count>,
    /// The lower bound; left out it is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<i32>, minimum = 0)]
    pub min_replicas: Option<Count>,
    /// The upper bound; left out there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<i32>, minimum = 0)]
    pub max_replicas: Option<Count>,
    /// The image of this group's nodes; left out it is the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub image: Option<Image>,
    /// CPUs: requested and the limit. A Kubernetes quantity, e.g. `2` or `500m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub cpu: Option<Amount>,
    /// Memory: requested and the limit. A Kubernetes quantity, e.g. `4Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub memory: Option<Amount>,
    /// GPUs (`nvidia.com/gpu`), a whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[deserr(default)]
    #[schema(value_type = Option<String>)]
    pub gpu: Option<WholeAmount>,
    /// Environment variables of the Ray container.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub env: Keyed<String, EnvKey>,
    /// Options of `ray start`, without the leading dashes.
    #[serde(skip_serializing_if = "Keyed::is_empty")]
    #[deserr(default)]
    #[schema(value_type = IndexMap<String, String>, required = false)]
    pub ray_start_params: Keyed<String, AnyKey>,
}

/// Reads a document from JSON.
///
/// # Errors
/// All its faults, in no order that may be relied on.
pub fn parse(bytes: &[u8]) -> Result<Document, Faults> {
    let (value, twice) = json::read(bytes)?;
    match read(value) {
        Ok(document) if twice.0.is_empty() => Ok(document),
        Ok(_) => Err(twice),
        Err(mut faults) => {
            faults.0.extend(twice.0);
            Err(faults)
        }
    }
}

/// Reads a document.
///
/// # Errors
/// All its faults, in no order that may be relied on.
pub fn read(mut value: Value) -> Result<Document, Faults> {
    if let Some(members) = value.as_object_mut() {
        for member in SERVER_MEMBERS {
            members.shift_remove(member);
        }
    }
    deserr::deserialize(value)
}

/// The operator clamps `replicas` into its bounds in silence; here it is a fault.
fn check_bounds(group: WorkerGroup, location: ValuePointerRef<'_>) -> Result<WorkerGroup, Faults> {
    let min = group.min_replicas.map_or(0, |count| count.0);
    let max = group.max_replicas.map_or(i32::MAX, |count| count.0);
    let replicas = group.replicas.map_or(min, |count| count.0);
    let mut faults = Vec::new();
    let mut out_of_range = |member: &str, message: String| {
        faults.push(Fault::new(pointer(location.push_key(member)), FaultCode::OutOfRange, message));
    };
    if min > max {
        out_of_range("maxReplicas", format!("The upper bound {max} is below the lower bound {min}."));
    } else if !(min..=max).contains(&replicas) {
        out_of_range("replicas", format!("{replicas} is outside the bounds of this group, {min} to {max}."));
    }
    if faults.is_empty() { Ok(group) } else { Err(Faults(faults)) }
}
