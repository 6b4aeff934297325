//! Objects of one kind by namespace and name, and a bounded log of their newest changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::manager::{Change, Scope};

/// How many changes are kept for watchers that are behind.
pub(super) const LOG_LENGTH: usize = 1024;

/// Namespace and name.
pub(super) type Key = (String, String);

/// Objects of one kind, and the newest changes of them.
pub(super) struct Collection<T> {
    objects: BTreeMap<Key, Arc<T>>,
    log: VecDeque<Logged<T>>,
    /// The newest version that the log no longer holds.
    forgotten: u64,
}

struct Logged<T> {
    version: u64,
    namespace: String,
    change: Change<Arc<T>>,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), log: VecDeque::new(), forgotten: 0 }
    }
}

impl<T> Collection<T> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.objects.get(key).map(Arc::clone)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects of the scope, by namespace and name.
    pub(super) fn objects(&self, scope: &Scope) -> impl Iterator<Item = Arc<T>> {
        self.objects.iter().filter(|(key, _)| scope.covers(&key.0)).map(|(_, object)| Arc::clone(object))
    }

    /// The changes in the scope after this version; `None` if the log doesn't reach back so far.
    pub(super) fn since(&self, version: u64, scope: &Scope) -> Option<impl Iterator<Item = Change<Arc<T>>>> {
        if version < self.forgotten {
            return None;
        }
        let start = self.log.partition_point(|entry| entry.version <= version);
        let entries = self.log.range(start..).filter(|entry| scope.covers(&entry.namespace));
        Some(entries.map(|entry| entry.change.clone()))
    }

    /// The object is now this.
    pub(super) fn apply(&mut self, key: Key, version: u64, object: Arc<T>) {
        self.record(version, &key, Change::Applied(Arc::clone(&object)));
        self.objects.insert(key, object);
    }

    /// The object is gone; this was its last state.
    pub(super) fn remove(&mut self, key: &Key, version: u64, last: Arc<T>) {
        self.record(version, key, Change::Deleted(last));
        self.objects.remove(key);
    }

    fn record(&mut self, version: u64, key: &Key, change: Change<Arc<T>>) {
        self.log.push_back(Logged { version, namespace: key.0.clone(), change });
        if self.log.len() > LOG_LENGTH {
            self.forgotten = self.log.pop_front().map_or(self.forgotten, |entry| entry.version);
        }
    }
}
