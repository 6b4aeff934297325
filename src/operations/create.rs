//! Create a cluster.

use std::sync::Arc;

use super::error::from_manager;
use super::{ApiError, Service};
use crate::access::{Action, Caller, Target};
use crate::cache::Entry;
use crate::manager::ManagerError;
use crate::ray::document;
use crate::ray::lens::{build, document_pointer};
use crate::ray::name::ClusterKey;

impl Service {
    /// Creates the cluster that a JSON document asks for.
    ///
    /// # Errors
    /// All faults of the document at once; a name that is taken; whatever Kubernetes refuses it for.
    pub async fn create(&self, caller: &Caller, body: &[u8]) -> Result<Arc<Entry>, ApiError> {
        let document = document::parse(body)?;
        let namespace = document.namespace.as_ref().map_or(caller.default_namespace.as_str(), |name| &name.0);
        let key = ClusterKey::new(namespace, document.name.0.as_str());
        self.access.authorize(caller, Action::CreateCluster, Target::Cluster(&key))?;
        self.fresh()?;

        let cluster = build(&document, namespace, &self.settings.defaults);
        match self.backend.clusters.create(&cluster).await {
            Ok(observed) => Ok(self.cache.wrote(&observed)),
            Err(ManagerError::AlreadyExists) if self.is_deleting(&key).await => Err(ApiError::deleting(&key)),
            Err(error) => {
                let mut error = from_manager(error, &key);
                for fault in &mut error.faults {
                    fault.message = format!("{}: {}", fault.pointer, fault.message);
                    fault.pointer = document_pointer(&fault.pointer, &document);
                }
                Err(error)
            }
        }
    }

    async fn is_deleting(&self, key: &ClusterKey) -> bool {
        let held = self.backend.clusters.get(&key.namespace, &key.name).await;
        held.is_ok_and(|observed| observed.metadata.deletion_timestamp.is_some())
    }
}
