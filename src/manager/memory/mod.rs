//! Kubernetes and KubeRay in a map, for one person: what `cargo run` alone serves.
//!
//! `store` has an apiserver's semantics over a `collection` of each kind, `watch` its watches, `schema` what the CRD's
//! schema says, `selector` its label selectors; `life` is operator, garbage collector and kubelet in one task,
//! `operator` what the operator decides and `status` what it writes. Nothing survives the process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use self::life::Delays;
use self::selector::Selector;
use self::store::Store;
use super::{
    Backend, Change, Deletion, ManagerError, Observed, Preconditions, ProofOfLife, ResourceManager, Scope, Watch,
    Workloads,
};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeFact;

mod collection;
mod life;
mod operator;
mod schema;
mod selector;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod watch;

/// What there is besides the objects, and how fast pods live.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespaces that exist.
    pub namespaces: Vec<String>,
    /// From the creation of a pod until it is ready.
    pub pod_start_delay: Duration,
    /// From the deletion of a pod until it is gone.
    pub pod_stop_delay: Duration,
}

/// An empty backend inside the process. Its life runs on the present tokio runtime, until the last port of the backend
/// is dropped; a watch that outlives them stays silent.
#[must_use]
pub fn backend(options: Options) -> Backend {
    let Options { namespaces, pod_start_delay, pod_stop_delay } = options;
    let store = Arc::new(Store::new(namespaces));
    let delays = Delays { start: pod_start_delay, stop: pod_stop_delay };
    let life = AbortOnDropHandle::new(tokio::spawn(life::run(Arc::clone(&store), delays)));
    let memory = Arc::new(Memory { store, _life: life });
    Backend { clusters: Arc::<Memory>::clone(&memory), workloads: memory }
}

struct Memory {
    store: Arc<Store>,
    _life: AbortOnDropHandle<()>,
}

#[async_trait]
impl ResourceManager<RayCluster> for Memory {
    async fn list(
        &self,
        scope: &Scope,
        label_selector: Option<&str>,
    ) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        let selector = Selector::parse(label_selector.unwrap_or_default())?;
        let objects = self.store.clusters(scope);
        objects.iter().filter(|object| selector.matches(&object["metadata"]["labels"])).map(|o| observed(o)).collect()
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        observed(self.store.get(namespace, name)?.as_ref())
    }

    async fn create(&self, object: &RayCluster) -> Result<Observed<RayCluster>, ManagerError> {
        let object = serde_json::to_value(object).map_err(unexpected)?;
        observed(self.store.create(object)?.as_ref())
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        observed(self.store.patch(namespace, name, resource_version, patch)?.as_ref())
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<RayCluster>, ManagerError> {
        let object = self.store.delete(namespace, name, preconditions)?;
        Ok(Deletion::Started(Box::new(observed(&object)?)))
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<RayCluster>> {
        let changes = watch::clusters(Arc::clone(&self.store), scope.clone());
        // The store holds only what this can read: its schema sees to that.
        let changes = changes.filter_map(|change| async move { read(change) });
        Watch { changes: changes.boxed(), life: ProofOfLife::always() }
    }
}

#[async_trait]
impl Workloads for Memory {
    fn watch(&self, scope: &Scope) -> Watch<NodeFact> {
        let changes = watch::pods(Arc::clone(&self.store), scope.clone());
        let changes = changes.map(|change| match change {
            Change::Reset => Change::Reset,
            Change::Applied(fact) => Change::Applied(NodeFact::clone(&fact)),
            Change::Deleted(fact) => Change::Deleted(NodeFact::clone(&fact)),
            Change::Synced => Change::Synced,
        });
        Watch { changes: changes.boxed(), life: ProofOfLife::always() }
    }
}

fn read(change: Change<Arc<Value>>) -> Option<Change<Observed<RayCluster>>> {
    Some(match change {
        Change::Reset => Change::Reset,
        Change::Applied(object) => Change::Applied(observed(&object).ok()?),
        Change::Deleted(object) => Change::Deleted(observed(&object).ok()?),
        Change::Synced => Change::Synced,
    })
}

fn observed(object: &Value) -> Result<Observed<RayCluster>, ManagerError> {
    Observed::from_raw(object.clone()).map_err(unexpected)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unexpected(error: serde_json::Error) -> ManagerError {
    ManagerError::Unexpected(error.to_string())
}
