//! Delete a cluster.

use super::error::from_manager;
use super::{ApiError, ErrorCode, Service, Terms};
use crate::access::{Action, Caller};
use crate::cache::Shown;
use crate::manager::{Deletion, ManagerError, Observed, Preconditions};
use crate::ray::cluster::RayCluster;
use crate::ray::lens::view;
use crate::ray::name::ClusterKey;
use crate::ray::owner::owner;

/// How a deletion went.
pub enum Deleted {
    /// The cluster is `DELETING` until nothing of it is left.
    Started(Shown),
    /// It was `DELETING` already.
    Already(Shown),
    /// Nothing was left at once; the uid that it had.
    Done(String),
    /// There was none, which is well with who asks.
    Missing,
}

impl Service {
    /// Deletes a cluster in the foreground. Where `allow_missing`, one that there isn't is no error.
    ///
    /// # Errors
    /// No such cluster; a guard that doesn't hold; one that is protected; whatever Kubernetes refuses it for.
    pub async fn delete(
        &self,
        caller: &Caller,
        reference: &str,
        allow_missing: bool,
        terms: &Terms,
    ) -> Result<Deleted, ApiError> {
        let key = self.resolve(caller, Action::DeleteCluster, reference)?;
        self.fresh()?;
        let turn = self.turn(&key).await?;
        loop {
            match self.delete_once(caller, &key, allow_missing, terms).await {
                Err(error) if allow_missing && error.code == ErrorCode::NotFound => return Ok(Deleted::Missing),
                Err(error) => return Err(error),
                Ok(Some(deleted)) => return Ok(deleted),
                Ok(None) => turn.lost().await?,
            }
        }
    }

    /// One attempt. `None` where somebody else wrote in between.
    async fn delete_once(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        allow_missing: bool,
        terms: &Terms,
    ) -> Result<Option<Deleted>, ApiError> {
        // A guard is of what there is: it asks for nothing where nothing is allowed.
        let check_missing = || if allow_missing { Ok(()) } else { terms.guard.check(None) };
        let known = self.cache.get(key);
        let failed = |error| from_manager(error, key);
        let held = match self.backend.clusters.get(&key.namespace, &key.name).await {
            Err(ManagerError::NotFound) => {
                if let Some(known) = known {
                    self.cache.gone(key, &known.uid);
                }
                check_missing()?;
                return Err(ApiError::no_cluster(&key.to_string()));
            }
            other => other.map_err(failed)?,
        };
        let owner = owner(&held.raw);
        if caller.sight(key, owner).is_none() {
            check_missing()?;
        }
        self.may(caller, Action::DeleteCluster, key, (held.uid(), owner))?;
        terms.guard.check(Some(&held.raw))?;
        let shown = |observed: &Observed<RayCluster>| self.shown_written(caller, observed, terms.dry_run);
        if held.metadata.deletion_timestamp.is_some() {
            return Ok(Some(Deleted::Already(shown(&held))));
        }
        if view(&held.raw).document.is_set("deletionProtection") {
            let detail = format!("The cluster {key} is protected from deletion.");
            let hint = "Take `deletionProtection` away first.";
            return Err(ApiError::new(ErrorCode::DeletionProtected, detail).hint(hint));
        }
        let preconditions = Preconditions {
            uid: Some(held.uid().to_owned()),
            resource_version: Some(held.resource_version().to_owned()),
        };
        let done = || {
            if !terms.dry_run {
                self.cache.gone(key, held.uid());
            }
            Ok(Some(Deleted::Done(held.uid().to_owned())))
        };
        match self.clusters(terms).delete(&key.namespace, &key.name, &preconditions).await {
            Ok(Deletion::Started(observed)) => Ok(Some(Deleted::Started(shown(&observed)))),
            Ok(Deletion::Done) => done(),
            // It went in between.
            Err(ManagerError::NotFound) => {
                self.cache.gone(key, held.uid());
                Err(ApiError::no_cluster(&key.to_string()))
            }
            Err(ManagerError::Conflict) => Ok(None),
            Err(unknown @ ManagerError::OutcomeUnknown(_)) if !terms.dry_run => match self.look_back(key).await {
                Ok(found) if found.uid() != held.uid() => done(),
                Ok(found) if found.metadata.deletion_timestamp.is_some() => Ok(Some(Deleted::Started(shown(&found)))),
                Err(ManagerError::NotFound) => done(),
                _ => Err(failed(unknown)),
            },
            Err(error) => Err(failed(error)),
        }
    }
}
