//! The ports: everything the service needs of its surroundings, as traits, and their two adapters.
//!
//! [`kubernetes`] is the real thing; [`memory`] serves one person from inside the process. Both emit the same facts in
//! the same words, and one contract suite runs over both.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::Value;

use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeFact;

mod error;
pub mod faulty;
pub mod kubernetes;
mod life;
pub mod memory;
mod observed;

pub use error::{Cause, ManagerError};
pub use life::ProofOfLife;
pub use observed::Observed;

/// Everything the service needs of its surroundings.
#[derive(Clone)]
pub struct Backend {
    /// Ray clusters.
    pub clusters: Arc<dyn ResourceManager<RayCluster>>,
    /// Their pods.
    pub workloads: Arc<dyn Workloads>,
}

/// Which namespaces a list or watch covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    All,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// Whether a namespace belongs to it.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(one) => one == namespace,
        }
    }
}

/// One step of a watch, for objects of one [`Scope`].
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// A new picture begins: what hasn't been applied by the next [`Change::Synced`] is gone.
    Reset,
    /// The object is now this.
    Applied(T),
    /// The object is gone; this was its last state.
    Deleted(T),
    /// The picture is whole: every object of the scope has been applied since the last [`Change::Reset`].
    Synced,
}

/// A watch that never ends and never errors outward: it reconnects, and says [`Change::Reset`] where it must begin anew.
pub struct Watch<T> {
    /// The steps, in order.
    pub changes: BoxStream<'static, Change<T>>,
    /// When the backend was last heard of on this watch, and what went wrong since.
    pub life: ProofOfLife,
}

/// What a delete must find to be carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's resourceVersion.
    pub resource_version: Option<String>,
}

/// What became of a delete.
#[derive(Debug, Clone)]
pub enum Deletion<K> {
    /// The object has a deletion time and goes once nothing of it is left.
    Started(Box<Observed<K>>),
    /// The object is gone.
    Done,
}

/// Objects of one kind, in namespaces. Every call has a deadline of its own.
#[async_trait]
pub trait ResourceManager<K>: Send + Sync {
    /// All objects of the scope that carry these labels (Kubernetes' selector syntax), from a quorum read.
    async fn list(&self, scope: &Scope, label_selector: Option<&str>) -> Result<Vec<Observed<K>>, ManagerError>;

    /// The object, from a quorum read.
    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<K>, ManagerError>;

    /// Stores a new object under its `metadata.namespace` and `metadata.name`; the answer is the object as stored.
    async fn create(&self, object: &K) -> Result<Observed<K>, ManagerError>;

    /// Applies a JSON merge patch (RFC 7396) if the object still has this resourceVersion, else [`ManagerError::Conflict`].
    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<K>, ManagerError>;

    /// Deletes in the foreground: the object stays, with its deletion time, until all it owns is gone. A precondition
    /// that doesn't hold is [`ManagerError::Conflict`].
    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<K>, ManagerError>;

    /// Watches the scope, beginning with its present objects.
    fn watch(&self, scope: &Scope) -> Watch<Observed<K>>;

    /// The same objects, for writes that are checked and answered as ever, and stored never.
    fn dry_run(&self) -> Arc<dyn ResourceManager<K>>;
}

/// The pods that an operator makes of a cluster, reduced to facts on arrival.
#[async_trait]
pub trait Workloads: Send + Sync {
    /// Watches the pods of all clusters of the scope, beginning with the present ones.
    fn watch(&self, scope: &Scope) -> Watch<NodeFact>;

    /// The pods of the clusters of this name, from a quorum read.
    async fn list(&self, namespace: &str, cluster: &str) -> Result<Vec<NodeFact>, ManagerError>;
}
