//! `Workloads` over pods: each is reduced to facts on arrival, its body dropped.

use async_trait::async_trait;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::client::Clients;
use super::watch::watch;
use crate::manager::{Change, Scope, Watch, Workloads};
use crate::ray::facts::{NodeFact, NodeRole};

/// The pods of Ray clusters on a control plane.
pub(super) struct KubernetesWorkloads {
    clients: Clients,
}

impl KubernetesWorkloads {
    pub(super) fn new(clients: Clients) -> Self {
        Self { clients }
    }
}

#[async_trait]
impl Workloads for KubernetesWorkloads {
    fn watch(&self, scope: &Scope) -> Watch<NodeFact> {
        let Watch { changes, life } = watch::<PodDigest>(&self.clients, scope, Some("ray.io/cluster"));
        let changes = changes
            .map(|change| match change {
                Change::Reset => Change::Reset,
                Change::Applied(pod) => Change::Applied(pod.fact()),
                Change::Deleted(pod) => Change::Deleted(pod.fact()),
                Change::Synced => Change::Synced,
            })
            .boxed();
        Watch { changes, life }
    }
}

/// The parts of a pod that facts are made of; the rest isn't even decoded.
#[derive(Debug, Clone, Deserialize)]
struct PodDigest {
    metadata: ObjectMeta,
    #[serde(default)]
    status: PodStatus,
}

impl PodDigest {
    fn fact(self) -> NodeFact {
        let Self { metadata, status } = self;
        let labels = metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let owner = metadata.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        NodeFact {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            owner_uid: owner.map(|owner| owner.uid).unwrap_or_default(),
            group: label("ray.io/group"),
            role: match label("ray.io/node-type").as_str() {
                "head" => NodeRole::Head,
                "worker" => NodeRole::Worker,
                _ => NodeRole::Other,
            },
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_since: ready.and_then(|condition| Some(condition.last_transition_time.as_ref()?.0)),
            deleting: metadata.deletion_timestamp.is_some(),
            reason: reason(&status),
            phase: status.phase.unwrap_or_default(),
        }
    }
}

/// Why a pod isn't running, in Kubernetes' own word.
fn reason(status: &PodStatus) -> Option<String> {
    let containers = status.container_statuses.iter().flatten();
    let mut containers = status.init_container_statuses.iter().flatten().chain(containers);
    let unscheduled = || {
        let conditions = status.conditions.iter().flatten();
        let unmet = |kind: &str, status: &str| kind == "PodScheduled" && status == "False";
        let mut found = conditions.filter(|condition| unmet(&condition.type_, &condition.status));
        found.next().and_then(|condition| condition.reason.clone())
    };
    status.reason.clone().or_else(|| containers.find_map(container_reason)).or_else(unscheduled)
}

fn container_reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    let terminated = state.terminated.as_ref().filter(|terminated| terminated.exit_code != 0);
    waiting.or_else(|| terminated.and_then(|terminated| terminated.reason.clone()))
}

impl Resource for PodDigest {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
