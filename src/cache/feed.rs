//! What feeds the cache: for each scope one task, with the watch of its clusters and the watch of their pods.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use tokio::sync::watch;

use super::entry::number;
use super::picture::Picture;
use super::{Cache, Entry};
use crate::manager::{Change, ManagerError, Observed, ResourceManager, Scope, Watch};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeFact;
use crate::ray::name::ClusterKey;

/// Most news applied at once.
const BATCH: usize = 256;

/// News of a scope.
enum News {
    Cluster(Box<Change<Observed<RayCluster>>>),
    Node(Box<Change<NodeFact>>),
}

impl News {
    fn is_reset(&self) -> bool {
        match self {
            Self::Cluster(change) => matches!(**change, Change::Reset),
            Self::Node(change) => matches!(**change, Change::Reset),
        }
    }
}

/// What is going on in the watches of a scope.
pub(super) struct Feeder {
    pub(super) scope: Scope,
    pub(super) clusters_synced: watch::Sender<bool>,
    pub(super) nodes_synced: watch::Sender<bool>,
    /// Everything of the clusters up to this version has been applied.
    seen: watch::Sender<u128>,
    /// The newest version that the watch of clusters has brought.
    newest: u128,
    /// The names seen, and the number at which the list began, while a list of clusters is under way.
    clusters: Option<(HashSet<ClusterKey>, u64)>,
    /// The uids seen, while a list of pods is under way.
    nodes: Option<HashSet<String>>,
}

impl Feeder {
    pub(super) fn new(
        scope: Scope,
        clusters_synced: watch::Sender<bool>,
        nodes_synced: watch::Sender<bool>,
        seen: watch::Sender<u128>,
    ) -> Self {
        Self { scope, clusters_synced, nodes_synced, seen, newest: 0, clusters: None, nodes: None }
    }

    /// Feeds the cache for ever.
    ///
    /// All that has come on both watches is applied at once: a pod and its cluster change together, and a reader who saw
    /// one of the changes alone would be told of a state that never was.
    pub(super) async fn run(
        mut self,
        cache: Arc<Cache>,
        manager: Arc<dyn ResourceManager<RayCluster>>,
        clusters: Watch<Observed<RayCluster>>,
        nodes: Watch<NodeFact>,
    ) {
        let mut news = stream::select(
            nodes.changes.map(|change| News::Node(Box::new(change))),
            clusters.changes.map(|change| News::Cluster(Box::new(change))),
        );
        while let Some(first) = news.next().await {
            let mut batch = vec![first];
            // A list begins when its watch is polled after the reset: not before the reset has been applied.
            while batch.len() < BATCH
                && !batch.last().is_some_and(News::is_reset)
                && let Some(Some(next)) = news.next().now_or_never()
            {
                batch.push(next);
            }
            let mut unsure = Vec::new();
            cache.update(|picture| {
                batch.into_iter().fold(false, |changed, news| self.take(picture, news, &mut unsure) | changed)
            });
            for entry in unsure {
                let Entry { key, uid, .. } = entry.as_ref();
                if matches!(manager.get(&key.namespace, &key.name).await, Err(ManagerError::NotFound)) {
                    cache.gone(key, uid);
                }
            }
            self.tell();
        }
    }

    /// Tells how far the clusters are known. Of a list under way nothing can be said: it comes by name.
    fn tell(&self) {
        if self.clusters.is_none() {
            self.seen.send_if_modified(|seen| std::mem::replace(seen, self.newest) != self.newest);
        }
    }

    /// Applies one piece of news; says whether a reader would see a difference.
    fn take(&mut self, picture: &mut Picture, news: News, unsure: &mut Vec<Arc<Entry>>) -> bool {
        match news {
            News::Cluster(change) => self.take_cluster(picture, *change, unsure),
            News::Node(change) => self.take_node(picture, *change),
        }
    }

    /// `unsure` gets the clusters that a list lacks although this process wrote them while it was under way: they may be
    /// newer than the list.
    fn take_cluster(
        &mut self,
        picture: &mut Picture,
        change: Change<Observed<RayCluster>>,
        unsure: &mut Vec<Arc<Entry>>,
    ) -> bool {
        match change {
            Change::Reset => {
                self.clusters = Some((HashSet::new(), picture.sequence));
                false
            }
            Change::Applied(observed) => {
                self.brought(&observed);
                if let Some((seen, _)) = &mut self.clusters {
                    seen.insert(ClusterKey::new(observed.namespace(), observed.name()));
                }
                picture.apply(&observed, false)
            }
            Change::Deleted(observed) => {
                self.brought(&observed);
                picture.deleted(&observed)
            }
            Change::Synced => {
                let mut changed = false;
                if let Some((seen, begun)) = self.clusters.take() {
                    let lacking = picture.held(&self.scope, begun).into_iter();
                    for (entry, written) in lacking.filter(|(entry, _)| !seen.contains(&entry.key)) {
                        if written {
                            unsure.push(entry);
                        } else {
                            changed |= picture.absent(&entry.key, &entry.uid);
                        }
                    }
                }
                self.clusters_synced.send_replace(true);
                changed
            }
        }
    }

    fn brought(&mut self, observed: &Observed<RayCluster>) {
        self.newest = self.newest.max(number(observed.resource_version()).unwrap_or_default());
    }

    fn take_node(&mut self, picture: &mut Picture, change: Change<NodeFact>) -> bool {
        match change {
            Change::Reset => {
                self.nodes = Some(HashSet::new());
                false
            }
            Change::Applied(node) => {
                if let Some(seen) = &mut self.nodes {
                    seen.insert(node.uid.clone());
                }
                picture.node_applied(node)
            }
            Change::Deleted(node) => picture.node_deleted(&node),
            Change::Synced => {
                let changed = self.nodes.take().is_some_and(|seen| picture.nodes_synced(&self.scope, &seen));
                self.nodes_synced.send_replace(true);
                changed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u32) -> Observed<RayCluster> {
        let raw = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string()},
        });
        Observed::from_raw(raw).unwrap()
    }

    #[test]
    fn what_has_been_seen_is_what_the_watch_brought_and_of_a_list_nothing_before_its_end() {
        let (seen, told) = watch::channel(0);
        let mut feeder = Feeder::new(Scope::All, watch::Sender::new(false), watch::Sender::new(false), seen);
        let mut picture = Picture::default();
        let mut seen_after = |picture: &mut Picture, change| {
            feeder.take_cluster(picture, change, &mut Vec::new());
            feeder.tell();
            *told.borrow()
        };
        assert_eq!(seen_after(&mut picture, Change::Reset), 0);
        assert_eq!(seen_after(&mut picture, Change::Applied(object("a", 9))), 0, "others may come after it");
        assert_eq!(seen_after(&mut picture, Change::Applied(object("b", 7))), 0);
        assert_eq!(seen_after(&mut picture, Change::Synced), 9, "the newest, not the last");
        assert_eq!(seen_after(&mut picture, Change::Applied(object("b", 10))), 10);
        assert_eq!(seen_after(&mut picture, Change::Deleted(object("a", 12))), 12, "a deletion is a change");
        assert_eq!(seen_after(&mut picture, Change::Deleted(object("unknown", 13))), 13, "whoever's it is");
        picture.apply(&object("own", 20), true);
        assert_eq!(seen_after(&mut picture, Change::Applied(object("b", 14))), 14, "an answer says nothing of others");
        assert_eq!(seen_after(&mut picture, Change::Reset), 14, "what was known is known");
        assert_eq!(seen_after(&mut picture, Change::Applied(object("b", 30))), 14);
        assert_eq!(seen_after(&mut picture, Change::Synced), 30);
        assert_eq!(seen_after(&mut picture, Change::Reset), 30);
        assert_eq!(seen_after(&mut picture, Change::Synced), 30, "never back, though the list is empty");
    }
}
