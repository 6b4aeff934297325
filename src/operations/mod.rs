//! Use cases: the only room that combines access, manager and cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::access::{Access, Action, Caller, Denied, Target};
use crate::cache::{Cache, Entry, Shown};
use crate::clock;
use crate::manager::{Backend, ManagerError, Observed, ResourceManager};
use crate::ray::cluster::RayCluster;
use crate::ray::fault::Warning;
use crate::ray::json;
use crate::ray::lens::Defaults;
use crate::ray::name::{ClusterKey, ClusterRef};
use crate::ray::render::Form;

mod create;
mod delete;
mod error;
mod finish;
mod owned;
mod owner;
pub mod page_token;
mod pods;
mod read;
mod ready;
mod repeat;
mod run;
mod terms;
#[cfg(test)]
mod tests;
mod through;
mod turns;
mod watch;
mod write;

use turns::{Turn, Turns};

pub use delete::Deleted;
pub use error::{ApiError, ErrorCode, Note};
pub use read::{ListQuery, Page, Selection};
pub use ready::{Check, Readiness};
pub use run::Run;
pub use terms::{Guard, Terms};
pub use through::Freshness;
pub use watch::{Next, Watcher};

/// A pause before a lost race is run again, or before it is looked what became of a write.
fn jitter() -> Duration {
    Duration::from_millis(rand::random_range(5..50))
}

/// The service: everything it does, for a caller.
pub struct Service {
    backend: Backend,
    cache: Arc<Cache>,
    /// The rules of access.
    pub access: Arc<Access>,
    settings: Settings,
    draining: AtomicBool,
    /// The clusters of the backend, for dry runs.
    checks: Arc<dyn ResourceManager<RayCluster>>,
    turns: Turns,
    /// Places for lists that are read from the backend.
    lists: Semaphore,
}

/// A cluster as it is after a write, and what the writer should know.
pub struct Written {
    /// The cluster.
    pub cluster: Shown,
    /// What it changed of the RayCluster, or would have: JSON Pointers (RFC 6901); `""` is all of it.
    pub changed: Vec<String>,
    /// What was taken and should be known.
    pub warnings: Vec<Warning>,
    /// Whether nothing was stored.
    pub dry_run: bool,
    /// Whether it had been done already, by a request with the same `Idempotency-Key`.
    pub replayed: bool,
}

/// What the service is set to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a new cluster gets where its document says nothing.
    pub defaults: Defaults,
    /// Not ready once the backend hasn't been heard of for this long.
    pub max_staleness: Duration,
    /// Longest silence on a stream.
    pub heartbeat: Duration,
    /// How long a read waits for what is known to become as new as it must be.
    pub read_wait: Duration,
    /// How long a write looks again where others keep writing to the same cluster.
    pub patience: Duration,
    /// How long nothing may have been seen of a dropped worker group's nodes before its entry goes, where the operator
    /// doesn't say that it has seen that none are wanted.
    pub settle: Duration,
}

impl Service {
    /// A service over a backend and the cache that it feeds.
    #[must_use]
    pub fn new(backend: Backend, cache: Arc<Cache>, access: Arc<Access>, settings: Settings) -> Self {
        let checks = backend.clusters.dry_run();
        let draining = AtomicBool::new(false);
        let lists = Semaphore::new(through::LISTS);
        Self { backend, cache, access, settings, draining, checks, turns: Turns::default(), lists }
    }

    /// From now on not ready: the process is ending.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// How old an answer from the cache may be, in whole seconds.
    #[must_use]
    pub fn age_seconds(&self) -> Option<u64> {
        self.cache.age(clock::instant()).map(|age| age.as_secs())
    }

    /// The cluster that a reference means, if the caller may do this in its namespace.
    fn resolve(&self, caller: &Caller, action: Action, reference: &str) -> Result<ClusterKey, ApiError> {
        let ClusterRef { name, namespace } =
            ClusterRef::parse(reference).ok_or_else(|| ApiError::no_cluster(reference))?;
        let key = ClusterKey::new(namespace.unwrap_or_else(|| caller.default_namespace.clone()), name);
        self.access.authorize(caller, action, Target::Namespace(&key.namespace))?;
        Ok(key)
    }

    /// The cluster as it is known to be, if the caller may do this to it.
    fn held(&self, caller: &Caller, action: Action, key: &ClusterKey) -> Result<Shown, ApiError> {
        self.known()?;
        let entry = self.cache.get(key).ok_or_else(|| ApiError::no_cluster(&key.to_string()))?;
        self.may(caller, action, key, (&entry.uid, entry.owner.as_deref()))?;
        Ok(shown(caller, entry))
    }

    /// Whether the caller may do this to the cluster of this uid and owner. One that they may not see isn't there.
    fn may(
        &self,
        caller: &Caller,
        action: Action,
        key: &ClusterKey,
        (uid, owner): (&str, Option<&str>),
    ) -> Result<(), ApiError> {
        let denied = match self.access.authorize(caller, action, Target::Cluster(key, owner)) {
            Ok(()) => return Ok(()),
            Err(Denied::Hidden) => ApiError::no_cluster(&key.to_string()).rule(Denied::Hidden.rule()),
            Err(denied) => denied.into(),
        };
        Err(denied.about(key, Some(uid)))
    }

    /// A write's answer goes into the cache. What is shown is the cluster as it now is known to be; where it has become
    /// somebody else's meanwhile and is hidden, what was written. Of a dry run: what would have been.
    fn shown_written(&self, caller: &Caller, observed: &Observed<RayCluster>, dry_run: bool) -> Shown {
        let entry = if dry_run { self.cache.imagined(observed) } else { self.cache.wrote(observed) };
        let visible = caller.sight(&entry.key, entry.owner.as_deref()).is_some();
        shown(caller, if visible { entry } else { Cache::alone(observed) })
    }

    /// The answer to a write that changed this of a cluster.
    fn written(
        &self,
        caller: &Caller,
        observed: &Observed<RayCluster>,
        changed: Vec<String>,
        terms: &Terms,
    ) -> Written {
        let dry_run = terms.dry_run;
        let cluster = self.shown_written(caller, observed, dry_run);
        Written { cluster, changed, warnings: Vec::new(), dry_run, replayed: false }
    }

    /// The clusters of the backend, as a write on these terms sees them.
    fn clusters(&self, terms: &Terms) -> &dyn ResourceManager<RayCluster> {
        if terms.dry_run { self.checks.as_ref() } else { self.backend.clusters.as_ref() }
    }

    /// Waits for a write's turn among those of this process to the same cluster.
    async fn turn<'a>(&self, key: &'a ClusterKey) -> Result<Turn<'a>, ApiError> {
        self.turns.of(key, self.settings.patience).await.ok_or_else(|| ApiError::contended(key))
    }

    /// One attempt to patch what is held. `None` where somebody else wrote, or deleted it, in between. Where no answer
    /// comes, it is looked once whether the patch is there.
    async fn attempt(
        &self,
        key: &ClusterKey,
        held: &Observed<RayCluster>,
        patch: &Value,
        terms: &Terms,
    ) -> Result<Option<Observed<RayCluster>>, ManagerError> {
        let version = held.resource_version();
        match self.clusters(terms).patch(&key.namespace, &key.name, version, patch).await {
            Ok(observed) => Ok(Some(observed)),
            Err(ManagerError::Conflict | ManagerError::NotFound) => Ok(None),
            Err(unknown @ ManagerError::OutcomeUnknown(_)) if !terms.dry_run => {
                let is_done =
                    |found: &Observed<RayCluster>| found.uid() == held.uid() && json::is_merged(&found.raw, patch);
                self.look_back(key).await.ok().filter(is_done).map(Some).ok_or(unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// What there is after a write whose outcome isn't known.
    async fn look_back(&self, key: &ClusterKey) -> Result<Observed<RayCluster>, ManagerError> {
        tokio::time::sleep(jitter()).await;
        self.backend.clusters.get(&key.namespace, &key.name).await
    }

    /// Nothing can be said before everything has been read once.
    fn known(&self) -> Result<(), ApiError> {
        if self.cache.synced() {
            return Ok(());
        }
        let failure = self.cache.feeds().into_iter().find_map(|feed| feed.failure);
        let error = match failure {
            Some(ManagerError::CrdMissing) => ApiError::crd_missing(),
            Some(failure) => ApiError::not_synced().cause(&failure),
            None => ApiError::not_synced(),
        };
        Err(error.retry())
    }
}

/// A cluster in the form that the caller, who may see it, may see.
fn shown(caller: &Caller, entry: Arc<Entry>) -> Shown {
    let form = caller.sight(&entry.key, entry.owner.as_deref()).unwrap_or(Form::Masked);
    Shown { entry, form }
}
