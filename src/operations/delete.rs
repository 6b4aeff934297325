//! Delete a cluster.

use super::error::from_manager;
use super::{ApiError, ErrorCode, Guard, Service, shown};
use crate::access::{Action, Caller};
use crate::cache::Shown;
use crate::manager::{Deletion, ManagerError, Preconditions};
use crate::ray::lens::view;
use crate::ray::owner::owner;

/// How a deletion went.
pub enum Deleted {
    /// The cluster is `DELETING` until nothing of it is left.
    Started(Shown),
    /// It was `DELETING` already.
    Already(Shown),
    /// Nothing was left at once; the uid that it had.
    Done(String),
}

impl Service {
    /// Deletes a cluster in the foreground.
    ///
    /// # Errors
    /// No such cluster; a guard that doesn't hold; one that is protected; whatever Kubernetes refuses it for.
    pub async fn delete(&self, caller: &Caller, reference: &str, guard: &Guard) -> Result<Deleted, ApiError> {
        let key = self.resolve(caller, Action::DeleteCluster, reference)?;
        self.fresh()?;
        loop {
            let held = self.cache.get(&key);
            let failed = |error| from_manager(error, &key);
            let observed = match self.backend.clusters.get(&key.namespace, &key.name).await {
                Err(ManagerError::NotFound) => {
                    if let Some(held) = held {
                        self.cache.gone(&key, &held.uid);
                    }
                    guard.check(None)?;
                    return Err(ApiError::no_cluster(&key.to_string()));
                }
                other => other.map_err(failed)?,
            };
            let owner = owner(&observed.raw);
            if caller.sight(&key, owner).is_none() {
                guard.check(None)?;
            }
            self.may(caller, Action::DeleteCluster, &key, (observed.uid(), owner))?;
            guard.check(Some(&observed.raw))?;
            let deleting = |observed| shown(caller, self.cache.wrote(observed));
            if observed.metadata.deletion_timestamp.is_some() {
                return Ok(Deleted::Already(deleting(&observed)));
            }
            if view(&observed.raw).document.is_set("deletionProtection") {
                let detail = format!("The cluster {key} is protected from deletion.");
                let hint = "Take `deletionProtection` away first.";
                return Err(ApiError::new(ErrorCode::DeletionProtected, detail).hint(hint));
            }
            let preconditions = Preconditions {
                uid: Some(observed.uid().to_owned()),
                resource_version: Some(observed.resource_version().to_owned()),
            };
            match self.backend.clusters.delete(&key.namespace, &key.name, &preconditions).await {
                Ok(Deletion::Started(observed)) => return Ok(Deleted::Started(deleting(&observed))),
                Ok(Deletion::Done) => {
                    self.cache.gone(&key, observed.uid());
                    return Ok(Deleted::Done(observed.uid().to_owned()));
                }
                // It went in between.
                Err(ManagerError::NotFound) => {
                    self.cache.gone(&key, observed.uid());
                    return Err(ApiError::no_cluster(&key.to_string()));
                }
                // Somebody else wrote in between: look again. The request's deadline ends this.
                Err(ManagerError::Conflict) => tokio::time::sleep(super::jitter()).await,
                Err(error) => return Err(failed(error)),
            }
        }
    }
}
