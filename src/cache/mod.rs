//! What is known of all clusters, fed by a fixed number of watches; every read is answered from here.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::clock;
use crate::manager::{Backend, ManagerError, Observed, ProofOfLife, Scope};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{NodeFact, Nodes};
use crate::ray::name::ClusterKey;

mod cursor;
mod entry;
mod feed;
mod picture;
mod reach;
#[cfg(test)]
mod tests;

pub use cursor::Cursors;
pub use entry::{Entry, Face, Shown};
use feed::Feeder;
use picture::Picture;
pub use picture::Step;
use reach::Reach;

/// All clusters of the served namespaces, as last heard of.
pub struct Cache {
    picture: RwLock<Picture>,
    changed: watch::Sender<u64>,
    feeds: Vec<Feed>,
    reach: Vec<Reach>,
    cursors: Cursors,
}

/// One watch that feeds the cache.
struct Feed {
    what: String,
    life: ProofOfLife,
    synced: watch::Receiver<bool>,
}

/// How one of the watches is.
#[derive(Debug, Clone)]
pub struct FeedStatus {
    /// What it watches, e.g. `rayclusters`.
    pub what: String,
    /// Whether it has had its first whole picture.
    pub synced: bool,
    /// How long ago the backend was heard of on it.
    pub age: Option<Duration>,
    /// What went wrong since.
    pub failure: Option<ManagerError>,
}

/// Some of the changes after a number.
pub struct Changes {
    /// The changes, oldest first.
    pub steps: Vec<Step>,
    /// The number up to which nothing is missing.
    pub upto: u64,
    /// Deletions since then have been forgotten: only a new picture is complete.
    pub lost: bool,
}

/// Most changes handed out at once.
const BATCH: usize = 256;

impl Cache {
    /// A cache over a backend, and the tasks that feed it, one per scope; none of them ever ends.
    #[must_use]
    pub fn new(backend: &Backend, scopes: &[Scope]) -> (Arc<Self>, Vec<BoxFuture<'static, ()>>) {
        let (changed, _) = watch::channel(0);
        let (mut feeds, mut reach) = (Vec::new(), Vec::new());
        let mut opened = Vec::new();
        for scope in scopes {
            let clusters = backend.clusters.watch(scope);
            let nodes = backend.workloads.watch(scope);
            let (clusters_synced, clusters_status) = watch::channel(false);
            let (nodes_synced, nodes_status) = watch::channel(false);
            feeds.push(Feed::new("rayclusters", scope, &clusters.life, clusters_status));
            feeds.push(Feed::new("pods", scope, &nodes.life, nodes_status));
            let (seen, told) = watch::channel(0);
            reach.push(Reach::new(scope.clone(), told));
            opened.push((Feeder::new(scope.clone(), clusters_synced, nodes_synced, seen), clusters, nodes));
        }
        let cache = Arc::new(Self { picture: RwLock::default(), changed, feeds, reach, cursors: Cursors::new() });
        let feed = |(feeder, clusters, nodes): (Feeder, _, _)| -> BoxFuture<'static, ()> {
            feeder.run(Arc::clone(&cache), Arc::clone(&backend.clusters), clusters, nodes).boxed()
        };
        let tasks = opened.into_iter().map(feed).collect();
        (cache, tasks)
    }

    /// The cluster of this name.
    #[must_use]
    pub fn get(&self, key: &ClusterKey) -> Option<Arc<Entry>> {
        self.read().get(key).cloned()
    }

    /// At most `limit` clusters that fit, by namespace and name, after this one.
    pub fn page(&self, after: Option<&ClusterKey>, limit: usize, fits: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        self.read().after(after).filter(|entry| fits(entry)).take(limit).cloned().collect()
    }

    /// All clusters that fit in the order of their last change, and the number up to which this is all.
    pub fn snapshot(&self, fits: impl Fn(&Entry) -> bool) -> (Vec<Arc<Entry>>, u64) {
        let picture = self.read();
        let present = picture.since(0).filter(|step| !step.gone && fits(&step.entry));
        (present.map(|step| Arc::clone(&step.entry)).collect(), picture.sequence)
    }

    /// Some of the changes after this number.
    #[must_use]
    pub fn since(&self, sequence: u64) -> Changes {
        let picture = self.read();
        let steps: Vec<_> = picture.since(sequence).take(BATCH).cloned().collect();
        let upto = match steps.last() {
            Some(last) if steps.len() == BATCH => last.sequence,
            _ => picture.sequence,
        };
        Changes { steps, upto, lost: sequence < picture.forgotten }
    }

    /// Tells the number of the newest change, each time there is one.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Tells the cursors of this process from those of another.
    #[must_use]
    pub fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// A write's answer: nothing older is told by this process afterwards. Answers the cluster as it now is known to
    /// be.
    pub fn wrote(&self, observed: &Observed<RayCluster>) -> Arc<Entry> {
        self.update(|picture| picture.apply(observed, true));
        let key = ClusterKey::new(observed.namespace(), observed.name());
        let held = self.get(&key).filter(|held| held.uid == observed.uid());
        // Gone or replaced in the meantime: then the answer is all there is to say.
        held.unwrap_or_else(|| Self::alone(observed))
    }

    /// What a quorum read found: nothing older is told by this process afterwards.
    pub fn found(&self, objects: &[Observed<RayCluster>]) {
        self.update(|picture| objects.iter().fold(false, |changed, object| picture.apply(object, true) | changed));
    }

    /// The clusters of a scope, as last heard of.
    #[must_use]
    pub fn held(&self, scope: &Scope) -> Vec<Arc<Entry>> {
        self.read().held(scope, 0).into_iter().map(|(entry, _)| entry).collect()
    }

    /// What an object says by itself, without its pods.
    #[must_use]
    pub fn alone(observed: &Observed<RayCluster>) -> Arc<Entry> {
        Arc::new(Entry::new(observed, &Nodes::default(), 0))
    }

    /// What a cluster would be if the backend held this: nobody else is told.
    #[must_use]
    pub fn imagined(&self, observed: &Observed<RayCluster>) -> Arc<Entry> {
        let nodes = self.read().nodes_of(observed.uid());
        Arc::new(Entry::new(observed, &nodes, 0))
    }

    /// The pods whose owner has this uid, as they are known.
    #[must_use]
    pub fn nodes(&self, uid: &str) -> Vec<NodeFact> {
        self.read().nodes_of(uid).present
    }

    /// Kubernetes answered that the cluster with this uid is gone.
    pub fn gone(&self, key: &ClusterKey, uid: &str) {
        self.update(|picture| picture.absent(key, uid));
    }

    /// Whether every watch has had its first whole picture.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.feeds.iter().all(|feed| *feed.synced.borrow())
    }

    /// How long ago the backend was last heard of on the watch that has waited longest; `None` if one never was.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.feeds.iter().map(|feed| feed.life.age(now)).try_fold(Duration::ZERO, |most, age| Some(most.max(age?)))
    }

    /// How each watch is.
    #[must_use]
    pub fn feeds(&self) -> Vec<FeedStatus> {
        let now = clock::instant();
        let status = |feed: &Feed| FeedStatus {
            what: feed.what.clone(),
            synced: *feed.synced.borrow(),
            age: feed.life.age(now),
            failure: feed.life.failure(),
        };
        self.feeds.iter().map(status).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Picture> {
        self.picture.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Picture) -> bool) {
        let mut picture = self.picture.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut picture) {
            // Under the lock, so that the numbers told never go back.
            self.changed.send_replace(picture.sequence);
        }
    }
}

impl Feed {
    fn new(kind: &str, scope: &Scope, life: &ProofOfLife, synced: watch::Receiver<bool>) -> Self {
        let what = match scope {
            Scope::All => kind.to_owned(),
            Scope::Namespace(namespace) => format!("{kind} in {namespace}"),
        };
        Self { what, life: life.clone(), synced }
    }
}
