//! Read what others wrote: how new an answer must be, and what is done where what is known isn't that new.

use std::collections::HashSet;
use std::slice;

use tokio::time::timeout;

use super::error::from_manager;
use super::{ApiError, Service};
use crate::access::Caller;
use crate::manager::{ManagerError, Observed, Scope};
use crate::ray::name::ClusterKey;

/// How new an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// As new as what is known.
    #[default]
    Known,
    /// No older than this resourceVersion.
    AtLeast(u128),
    /// What Kubernetes holds now.
    Strong,
}

/// How many lists are read from the backend at once.
pub(super) const LISTS: usize = 4;

/// Clusters that are taken in at one stroke.
const BATCH: usize = 256;

impl Service {
    /// Sees to it that what is known of a cluster, in a namespace that the caller may use, is new enough; says whether the
    /// backend was asked.
    ///
    /// One that the caller may not see is waited for and asked for as one that isn't there: it may be theirs by now, and
    /// nothing tells the two apart.
    pub(super) async fn catch_up(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        freshness: Freshness,
    ) -> Result<bool, ApiError> {
        self.known()?;
        match freshness {
            Freshness::Known => return Ok(false),
            Freshness::AtLeast(version) => {
                let reached = self
                    .cache
                    .reached_by(key, version, |entry| caller.sight(&entry.key, entry.owner.as_deref()).is_some());
                if timeout(self.settings.read_wait, reached).await == Ok(true) {
                    return Ok(false);
                }
            }
            Freshness::Strong => {}
        }
        // What comes to be while the answer is on its way isn't what it speaks of.
        let held = self.cache.get(key);
        match self.backend.clusters.get(&key.namespace, &key.name).await {
            Ok(found) => self.cache.found(slice::from_ref(&found)),
            Err(ManagerError::NotFound) => {
                if let Some(held) = held {
                    self.cache.gone(key, &held.uid);
                }
            }
            Err(error) => return Err(from_manager(error, key)),
        }
        Ok(true)
    }

    /// The same of all clusters of a namespace, or of all namespaces.
    pub(super) async fn catch_up_all(&self, namespace: Option<&str>, freshness: Freshness) -> Result<bool, ApiError> {
        self.known()?;
        match freshness {
            Freshness::Known => return Ok(false),
            Freshness::AtLeast(version) => {
                let reached = self.cache.reached(namespace, version);
                if timeout(self.settings.read_wait, reached).await == Ok(true) {
                    return Ok(false);
                }
            }
            Freshness::Strong => {}
        }
        // The request's deadline ends the waiting.
        let _place = self.lists.acquire().await;
        for scope in self.cache.scopes(namespace) {
            self.list_through(&scope).await.map_err(|error| {
                // What it says of a list names no cluster.
                from_manager(error, &ClusterKey::new(namespace.unwrap_or("*"), ""))
            })?;
        }
        Ok(true)
    }

    /// Has a scope's clusters known as the backend holds them.
    async fn list_through(&self, scope: &Scope) -> Result<(), ManagerError> {
        let held = self.cache.held(scope);
        let found = self.backend.clusters.list(scope, None).await?;
        for batch in found.chunks(BATCH) {
            self.cache.found(batch);
            // Others have work to do as well.
            tokio::task::yield_now().await;
        }
        let present: HashSet<_> = found.iter().map(Observed::uid).collect();
        for lacking in held.iter().filter(|held| !present.contains(held.uid.as_str())) {
            self.cache.gone(&lacking.key, &lacking.uid);
        }
        Ok(())
    }
}
