//! The picture of all clusters, and the order in which it changed.
//!
//! Every change gets the next number of one sequence. An entry stands in the journal once, under the number of its last
//! change, so that whoever asks for what has changed since a number gets each cluster's newest state, however far behind
//! it is, and costs the cache nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::{Entry, is_newer};
use crate::clock;
use crate::manager::{Observed, Scope};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{NodeFact, Nodes};
use crate::ray::name::ClusterKey;

/// How many deletions are remembered.
const TOMBSTONES: usize = 10_000;

/// One change: a cluster's newest state, or that it is gone.
#[derive(Clone)]
pub struct Step {
    /// Where it stands among all changes of this process.
    pub sequence: u64,
    /// The cluster as it is, or as it last was.
    pub entry: Arc<Entry>,
    /// Whether it is gone.
    pub gone: bool,
}

/// All clusters, their pods, and the journal of changes.
#[derive(Default)]
pub(super) struct Picture {
    pub(super) sequence: u64,
    clusters: BTreeMap<ClusterKey, Arc<Entry>>,
    by_uid: HashMap<String, ClusterKey>,
    /// The sequence at which this process last applied a write's answer to a cluster.
    written: HashMap<ClusterKey, u64>,
    /// Owner's uid → pod's name → pod.
    nodes: HashMap<String, BTreeMap<String, NodeFact>>,
    /// Cluster's uid → how many of its pods have gone.
    gone_nodes: HashMap<String, usize>,
    /// When all pods were first known, to the second.
    nodes_known_since: Option<Timestamp>,
    journal: BTreeMap<u64, Step>,
    /// Sequence and uid of the remembered deletions, oldest first.
    tombstones: VecDeque<(u64, String)>,
    gone: HashMap<String, u64>,
    /// The sequence of the newest deletion that isn't remembered any more.
    pub(super) forgotten: u64,
}

impl Picture {
    pub(super) fn get(&self, key: &ClusterKey) -> Option<&Arc<Entry>> {
        self.clusters.get(key)
    }

    /// The clusters after this key, by namespace and name.
    pub(super) fn after(&self, key: Option<&ClusterKey>) -> impl Iterator<Item = &Arc<Entry>> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.clusters.range((from, Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// The changes after this number, oldest first.
    pub(super) fn since(&self, sequence: u64) -> impl Iterator<Item = &Step> {
        self.journal.range((Bound::Excluded(sequence), Bound::Unbounded)).map(|(_, step)| step)
    }

    /// The scope's clusters, each with whether a write's answer was applied to it at or after this number.
    pub(super) fn held(&self, scope: &Scope, since: u64) -> Vec<(Arc<Entry>, bool)> {
        let written = |key: &ClusterKey| self.written.get(key).is_some_and(|at| *at >= since);
        let held = self.clusters.iter().filter(|(key, _)| scope.covers(&key.namespace));
        held.map(|(key, entry)| (Arc::clone(entry), written(key))).collect()
    }

    /// Applies an object unless what is held is as new, or it is known to be gone. Says whether anything changed.
    pub(super) fn apply(&mut self, observed: &Observed<RayCluster>, own_write: bool) -> bool {
        if self.gone.contains_key(observed.uid()) {
            return false;
        }
        let key = ClusterKey::new(observed.namespace(), observed.name());
        if let Some(held) = self.clusters.get(&key) {
            if !is_newer(observed.resource_version(), &held.version) {
                return false;
            }
            if held.uid != observed.uid() {
                let held = Arc::clone(held);
                self.remove(&held);
            }
        }
        // Until it is provisioned, and again once it was stopped, nothing is counted.
        if !observed.decoded.as_ref().is_ok_and(|cluster| cluster.condition("RayClusterProvisioned") == Some(true)) {
            self.gone_nodes.remove(observed.uid());
        }
        self.sequence += 1;
        if own_write {
            self.written.insert(key, self.sequence);
        }
        let nodes = self.nodes_of(observed.uid());
        self.put(Entry::new(observed, &nodes, self.sequence));
        true
    }

    /// The object is gone; this was its last state.
    pub(super) fn deleted(&mut self, observed: &Observed<RayCluster>) -> bool {
        let key = ClusterKey::new(observed.namespace(), observed.name());
        let Some(held) = self.clusters.get(&key).filter(|held| held.uid == observed.uid()).cloned() else {
            return false;
        };
        if is_newer(observed.resource_version(), &held.version) {
            self.remove(&Entry::new(observed, &self.nodes_of(observed.uid()), self.sequence));
        } else {
            self.remove(&held);
        }
        true
    }

    /// The cluster with this uid is gone.
    pub(super) fn absent(&mut self, key: &ClusterKey, uid: &str) -> bool {
        let Some(held) = self.clusters.get(key).filter(|held| held.uid == uid).cloned() else { return false };
        self.remove(&held);
        true
    }

    /// A pod is now this.
    pub(super) fn node_applied(&mut self, node: NodeFact) -> bool {
        let owner = node.owner_uid.clone();
        let held = self.nodes.entry(owner.clone()).or_default();
        if held.get(&node.name) == Some(&node) {
            return false;
        }
        held.insert(node.name.clone(), node);
        self.nodes_changed(&owner)
    }

    /// A pod is gone.
    pub(super) fn node_deleted(&mut self, node: &NodeFact) -> bool {
        self.forget(node) && self.nodes_changed(&node.owner_uid)
    }

    /// Forgets a pod, unless another one has taken its name meanwhile.
    fn forget(&mut self, node: &NodeFact) -> bool {
        let Some(held) = self.nodes.get_mut(&node.owner_uid) else { return false };
        if held.get(&node.name).is_none_or(|held| held.uid != node.uid) {
            return false;
        }
        held.remove(&node.name);
        if held.is_empty() {
            self.nodes.remove(&node.owner_uid);
        }
        if self.by_uid.contains_key(&node.owner_uid) {
            *self.gone_nodes.entry(node.owner_uid.clone()).or_default() += 1;
        }
        true
    }

    /// Only these pods of the scope are left (by uid).
    pub(super) fn nodes_synced(&mut self, scope: &Scope, present: &HashSet<String>) -> bool {
        if self.nodes_known_since.is_none() {
            self.nodes_known_since = Timestamp::from_second(clock::now().as_second()).ok();
        }
        let all = self.nodes.values().flat_map(BTreeMap::values);
        let lacking = |node: &&NodeFact| scope.covers(&node.namespace) && !present.contains(&node.uid);
        let gone: Vec<_> = all.filter(lacking).cloned().collect();
        let owners: BTreeSet<_> = gone.iter().filter(|node| self.forget(node)).map(|node| &node.owner_uid).collect();
        owners.into_iter().fold(false, |changed, owner| self.nodes_changed(owner) | changed)
    }

    pub(super) fn nodes_of(&self, uid: &str) -> Nodes {
        let present = self.nodes.get(uid).into_iter().flat_map(BTreeMap::values).cloned().collect();
        Nodes { present, gone: self.gone_nodes.get(uid).copied().unwrap_or(0), known_since: self.nodes_known_since }
    }

    fn nodes_changed(&mut self, owner: &str) -> bool {
        let Some(held) = self.by_uid.get(owner).and_then(|key| self.clusters.get(key)) else {
            return false;
        };
        let Some(entry) = held.with_nodes(&self.nodes_of(owner), self.sequence + 1) else {
            return false;
        };
        self.sequence += 1;
        self.put(entry);
        true
    }

    fn put(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        self.journal.insert(entry.sequence, Step { sequence: entry.sequence, entry: Arc::clone(&entry), gone: false });
        self.by_uid.insert(entry.uid.clone(), entry.key.clone());
        if let Some(before) = self.clusters.insert(entry.key.clone(), entry) {
            self.journal.remove(&before.sequence);
        }
    }

    fn remove(&mut self, last: &Entry) {
        if let Some(held) = self.clusters.remove(&last.key) {
            self.journal.remove(&held.sequence);
        }
        self.by_uid.remove(&last.uid);
        self.gone_nodes.remove(&last.uid);
        self.written.remove(&last.key);
        self.sequence += 1;
        let last = last.at(self.sequence);
        let uid = last.uid.clone();
        self.journal.insert(self.sequence, Step { sequence: self.sequence, entry: Arc::new(last), gone: true });
        self.gone.insert(uid.clone(), self.sequence);
        self.tombstones.push_back((self.sequence, uid));
        if self.tombstones.len() > TOMBSTONES
            && let Some((sequence, uid)) = self.tombstones.pop_front()
        {
            self.journal.remove(&sequence);
            self.gone.remove(&uid);
            self.forgotten = sequence;
        }
    }
}
