//! `Workloads` over pods: each is reduced to facts on arrival, its body dropped.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::Deserialize;

use super::client::Clients;
use super::error::{ManagerResultExt as _, deadline};
use super::watch::watch;
use crate::manager::{Change, ManagerError, Scope, Watch, Workloads};
use crate::ray::facts::{
    ContainerFact, ContainerState, NodeFact, NodeRole, Termination, Why, bounded, bounded_containers,
};

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

    async fn list(&self, namespace: &str, cluster: &str) -> Result<Vec<NodeFact>, ManagerError> {
        let api = Api::<PodDigest>::namespaced(self.clients.calls.clone(), namespace);
        let params = ListParams::default().labels(&format!("ray.io/cluster={cluster}"));
        let pods = deadline(self.clients.call_timeout, api.list(&params)).await.read()?;
        Ok(pods.items.into_iter().map(PodDigest::fact).collect())
    }
}

/// The parts of a pod that facts are made of; the rest isn't even decoded.
#[derive(Debug, Clone, Deserialize)]
struct PodDigest {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SpecDigest,
    #[serde(default)]
    status: StatusDigest,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecDigest {
    node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusDigest {
    phase: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

impl PodDigest {
    fn fact(self) -> NodeFact {
        let Self { metadata, spec, status } = self;
        let labels = metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let owner = metadata.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        let condition = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
        let ready = condition("Ready");
        let verdict = status.reason.filter(|reason| !reason.is_empty());
        let containers = status.container_statuses.into_iter().flatten().map(|status| container(status, false));
        let init = status.init_container_statuses.into_iter().flatten().map(|status| container(status, true));
        NodeFact {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            owner_uid: owner.map(|owner| owner.uid).unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            group: label("ray.io/group"),
            role: match label("ray.io/node-type").as_str() {
                "head" => NodeRole::Head,
                "worker" => NodeRole::Worker,
                _ => NodeRole::Other,
            },
            host: spec.node_name.filter(|name| !name.is_empty()),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_since: ready.and_then(|condition| Some(condition.last_transition_time.as_ref()?.0)),
            deleting: metadata.deletion_timestamp.is_some(),
            verdict: verdict.map(|reason| Arc::new(why(Some(reason), status.message))),
            unscheduled: condition("PodScheduled").filter(|found| found.status == "False").map(said).map(Arc::new),
            disruption: condition("DisruptionTarget").filter(|found| found.status == "True").map(said).map(Arc::new),
            containers: bounded_containers(init.chain(containers).collect()),
            phase: status.phase.unwrap_or_default(),
        }
    }
}

fn why(reason: Option<String>, message: Option<String>) -> Why {
    Why { reason: bounded(reason.unwrap_or_default()), message: bounded(message.unwrap_or_default()), since: None }
}

fn said(condition: &PodCondition) -> Why {
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    Why { since, ..why(condition.reason.clone(), condition.message.clone()) }
}

fn container(status: ContainerStatus, init: bool) -> ContainerFact {
    // None of the three means waiting (core/v1, ContainerState).
    let state = status.state.unwrap_or_default();
    let state = match (state.running, state.terminated) {
        (Some(running), _) => ContainerState::Running(running.started_at.map(|time| time.0)),
        (None, Some(terminated)) => ContainerState::Terminated(Box::new(termination(terminated))),
        (None, None) => {
            let waiting = state.waiting.unwrap_or_default();
            ContainerState::Waiting(why(waiting.reason, waiting.message))
        }
    };
    ContainerFact {
        name: status.name,
        init,
        image: bounded(status.image),
        ready: status.ready,
        restarts: status.restart_count,
        state,
        last: status.last_state.and_then(|state| state.terminated).map(|terminated| Box::new(termination(terminated))),
    }
}

fn termination(terminated: ContainerStateTerminated) -> Termination {
    let message = terminated.message.filter(|_| terminated.exit_code != 0);
    let Why { reason, message, .. } = why(terminated.reason, message);
    Termination {
        reason,
        message,
        exit_code: terminated.exit_code,
        started: terminated.started_at.map(|time| time.0),
        finished: terminated.finished_at.map(|time| time.0),
    }
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

#[cfg(test)]
mod tests;
