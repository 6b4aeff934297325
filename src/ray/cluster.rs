//! `RayCluster` (`ray.io/v1`): what raygate reads or decides on is typed, the rest rides in `extra` at every level.
//!
//! The root is written by hand because upstream's `spec` is optional in the CRD. Field names and defaults are those of
//! KubeRay's `ray-operator/apis/ray/v1/raycluster_types.go`.

use std::borrow::Cow;

use indexmap::IndexMap;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The group and version of Ray's custom resources.
pub const API_VERSION: &str = "ray.io/v1";
/// The kind of a Ray cluster.
pub const KIND: &str = "RayCluster";
/// Upper bound of a group's replicas where none is given: the CRD's own default.
pub const DEFAULT_MAX_REPLICAS: i32 = i32::MAX;

/// A Ray cluster as Kubernetes holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayCluster {
    /// Always `ray.io/v1`; absent in the items of a list.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always `RayCluster`; absent in the items of a list.
    #[serde(default = "kind")]
    pub kind: String,
    /// Kubernetes' own metadata.
    #[schemars(default, schema_with = "metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted. The CRD doesn't require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<RayClusterSpec>,
    /// What the operator last saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RayClusterStatus>,
}

/// What a CRD says of metadata.
fn metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn any_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": any_object(generator)})
}

fn api_version() -> String {
    API_VERSION.to_owned()
}

fn kind() -> String {
    KIND.to_owned()
}

/// `spec` of a [`RayCluster`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayClusterSpec {
    /// Ray's version, e.g. `2.52.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_version: Option<String>,
    /// `true` deletes all pods and keeps the object; only an explicit `false` resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Whether Ray's autoscaler owns the groups' `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_in_tree_autoscaling: Option<bool>,
    /// The head. Required by the CRD, but an object stored by an older one may lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_group_spec: Option<HeadGroupSpec>,
    /// The worker groups, in order: Ray's autoscaler patches them by index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_group_specs: Option<Vec<WorkerGroupSpec>>,
    /// Everything else, untouched.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `spec.headGroupSpec` of a [`RayCluster`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeadGroupSpec {
    /// Options of `ray start` on the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_start_params: Option<IndexMap<String, String>>,
    /// The head's pod template, kept raw.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub template: Value,
    /// Everything else, untouched.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One entry of `spec.workerGroupSpecs` of a [`RayCluster`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerGroupSpec {
    /// The group's name; unique by our rules and the webhook's, not by the CRD's.
    #[serde(default)]
    pub group_name: String,
    /// Wanted number of replicas; the CRD's default is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Lower bound; the CRD's default is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Upper bound; the CRD's default is 2147483647.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Pods per replica; the CRD's default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_of_hosts: Option<i32>,
    /// `true` takes the group's pods away; meant for KubeRay's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Options of `ray start` on the group's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_start_params: Option<IndexMap<String, String>>,
    /// The group's pod template, kept raw.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub template: Value,
    /// Everything else, untouched.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `status` of a [`RayCluster`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RayClusterStatus {
    /// Conditions as Kubernetes has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_objects")]
    pub conditions: Option<Vec<Value>>,
    /// Name of a port of the head service → its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<IndexMap<String, String>>,
    /// Names and addresses of the head pod and its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub head: Option<Value>,
    /// Everything else, untouched.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl RayCluster {
    /// A cluster of this name with an empty spec.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(RayClusterSpec::default()),
            status: None,
        }
    }

    /// Whether the condition of this type is `True` (`Some(true)`), says anything else (`Some(false)`) or is absent.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<bool> {
        Some(self.find_condition(kind)?["status"] == "True")
    }

    /// When the condition of this type last changed, to the second.
    #[must_use]
    pub fn condition_since(&self, kind: &str) -> Option<Timestamp> {
        self.find_condition(kind)?["lastTransitionTime"].as_str()?.parse().ok()
    }

    fn find_condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition["type"] == kind)
    }

    /// The worker groups, in the spec's order.
    pub fn worker_groups(&self) -> impl Iterator<Item = &WorkerGroupSpec> {
        self.spec.iter().flat_map(|spec| spec.worker_group_specs.iter().flatten())
    }

    /// Whether Ray's autoscaler owns the groups' `replicas`.
    #[must_use]
    pub fn autoscaling(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.enable_in_tree_autoscaling).unwrap_or(false)
    }
}

impl WorkerGroupSpec {
    /// How many pods the operator keeps for this group: none while it is suspended, else `replicas` clamped into its
    /// bounds (as the operator does, in silence: `GetWorkerGroupDesiredReplicas` in `controllers/ray/utils/util.go`),
    /// times `numOfHosts`.
    #[must_use]
    pub fn desired_pods(&self) -> i64 {
        if self.suspend == Some(true) {
            return 0;
        }
        let min = self.min_replicas.unwrap_or(0);
        let max = self.max_replicas.unwrap_or(DEFAULT_MAX_REPLICAS);
        let replicas = self.replicas.unwrap_or(0).min(max).max(min);
        i64::from(replicas) * self.hosts()
    }

    /// How many pods this group never falls below: `minReplicas × numOfHosts`.
    #[must_use]
    pub fn least_pods(&self) -> i64 {
        if self.suspend == Some(true) { 0 } else { i64::from(self.min_replicas.unwrap_or(0)) * self.hosts() }
    }

    fn hosts(&self) -> i64 {
        i64::from(self.num_of_hosts.unwrap_or(1))
    }
}

impl kube::Resource for RayCluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "ray.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "rayclusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
