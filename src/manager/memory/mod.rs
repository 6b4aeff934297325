//! Kubernetes and KubeRay in a map, for one person: what `cargo run` alone serves.
//!
//! `store` has an apiserver's semantics over a `collection` of each kind, `watch` its watches, `schema` what the CRD's
//! schema says; `life` is operator, garbage collector, scheduler and kubelets in one task: `operator` what the operator
//! decides, `template` what it makes pods of and `status` what it writes; `machines` where pods are and `scheduler` where
//! they fit; `kubelet` what becomes of one, as its `image`, its `reference`s and its `command`s say. Nothing survives the
//! process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use self::kubelet::World;
use self::machines::Machines;
use self::pace::Pace;
use self::scheduler::Nodes;
use self::store::{Store, Storing};
use super::{
    Backend, Cause, Change, Deletion, ManagerError, Observed, Preconditions, ProofOfLife, ResourceManager, Scope,
    Watch, Workloads,
};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeFact;
use crate::ray::quantity::Quantity;
use crate::ray::selector::Selector;

pub use self::reference::{Object, ObjectKind};

mod collection;
mod command;
mod image;
mod kubelet;
mod life;
mod machines;
mod operator;
mod pace;
mod reference;
mod scheduler;
mod schema;
mod status;
mod store;
mod template;
#[cfg(test)]
mod tests;
mod watch;

/// What there is besides the clusters, and how fast pods live.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespaces that exist.
    pub namespaces: Vec<String>,
    /// From the creation of a pod until it is ready, if it waits for nothing.
    pub pod_start_delay: Duration,
    /// From the deletion of a pod until it is gone.
    pub pod_stop_delay: Duration,
    /// How many machines there are: `memory-node-1` and so on.
    pub nodes: usize,
    /// The CPUs of each.
    pub node_cpu: Quantity,
    /// The memory of each.
    pub node_memory: Quantity,
    /// The GPUs (`nvidia.com/gpu`) of each.
    pub node_gpus: u32,
    /// Images that exist besides the known ones; `*` stands for anything.
    pub images: Vec<String>,
    /// ConfigMaps and Secrets that exist, in every namespace.
    pub objects: Vec<Object>,
    /// How long a back-off of ten seconds takes; other times of a kubelet shrink alike, while its words tell the real ones.
    pub back_off: Duration,
}

impl Default for Options {
    /// No namespace yet, but much room, and pods that take their time.
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            pod_start_delay: Duration::from_secs(2),
            pod_stop_delay: Duration::from_secs(1),
            nodes: 3,
            node_cpu: Quantity::from(256),
            node_memory: Quantity::from(1 << 40),
            node_gpus: 8,
            images: Vec::new(),
            objects: Vec::new(),
            back_off: Duration::from_secs(1),
        }
    }
}

/// The machines of an embedded backend.
#[derive(Clone)]
pub struct NodeSwitch {
    store: Arc<Store>,
}

impl NodeSwitch {
    /// The machine's kubelet falls silent.
    pub fn down(&self, node: &str) {
        self.store.set_silent(node, true);
    }

    /// It speaks again.
    pub fn up(&self, node: &str) {
        self.store.set_silent(node, false);
    }
}

/// An empty backend inside the process. Its life runs on the present tokio runtime, until the last port of the backend
/// is dropped; a watch that outlives them stays silent.
#[must_use]
pub fn backend(options: Options) -> Backend {
    backend_with_switch(options).0
}

/// The same, and what takes its machines down.
#[must_use]
pub fn backend_with_switch(options: Options) -> (Backend, NodeSwitch) {
    let store = Arc::new(Store::new(options.namespaces));
    let pace = Pace { start: options.pod_start_delay, stop: options.pod_stop_delay, back_off: options.back_off };
    let world = World { images: options.images, objects: options.objects.into_iter().collect(), pace };
    let nodes = Nodes::new(options.nodes, &options.node_cpu, &options.node_memory, options.node_gpus);
    let machines = Machines::new(Arc::clone(&store), world, nodes);
    let life = AbortOnDropHandle::new(tokio::spawn(life::run(Arc::clone(&store), machines)));
    let memory = Arc::new(Memory { store: Arc::clone(&store), storing: Storing::Yes, life: Arc::new(life) });
    (Backend { clusters: Arc::<Memory>::clone(&memory), workloads: memory }, NodeSwitch { store })
}

struct Memory {
    store: Arc<Store>,
    storing: Storing,
    /// What keeps the backend alive.
    life: Arc<AbortOnDropHandle<()>>,
}

#[async_trait]
impl ResourceManager<RayCluster> for Memory {
    async fn list(
        &self,
        scope: &Scope,
        label_selector: Option<&str>,
    ) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        let text = label_selector.unwrap_or_default();
        let selector = Selector::parse(text).map_err(|fault| ManagerError::Invalid {
            message: format!("unable to parse requirement: {fault}"),
            causes: vec![Cause { field: "labelSelector".to_owned(), message: format!("{text}: {fault}") }],
        })?;
        let objects = self.store.clusters(scope);
        let meant = |object: &Value| selector.matches(|key| object["metadata"]["labels"].get(key)?.as_str());
        objects.iter().filter(|object| meant(object)).map(|object| observed(object)).collect()
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        observed(self.store.get(namespace, name)?.as_ref())
    }

    async fn create(&self, object: &RayCluster) -> Result<Observed<RayCluster>, ManagerError> {
        let object = serde_json::to_value(object).map_err(unexpected)?;
        observed(self.store.create(object, self.storing)?.as_ref())
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        observed(self.store.patch(namespace, name, resource_version, patch, self.storing)?.as_ref())
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<RayCluster>, ManagerError> {
        let object = self.store.delete(namespace, name, preconditions, self.storing)?;
        Ok(Deletion::Started(Box::new(observed(&object)?)))
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<RayCluster>> {
        let changes = watch::clusters(Arc::clone(&self.store), scope.clone());
        // The store holds only what this can read: its schema sees to that.
        let changes = changes.filter_map(|change| async move { read(change) });
        Watch { changes: changes.boxed(), life: ProofOfLife::always() }
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<RayCluster>> {
        let store = Arc::clone(&self.store);
        Arc::new(Self { store, storing: Storing::No, life: Arc::clone(&self.life) })
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

    async fn list(&self, namespace: &str, cluster: &str) -> Result<Vec<NodeFact>, ManagerError> {
        Ok(self.store.pods_of(namespace, cluster).iter().map(|fact| NodeFact::clone(fact)).collect())
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
