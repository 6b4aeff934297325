//! Watches over the store: a picture first, then the log of changes. Who falls out of the log is shown a new picture,
//! so a slow watcher costs bounded memory and still loses nothing that lasts.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use futures::{Stream, stream};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use super::collection::Collection;
use super::store::{State, Store};
use crate::manager::{Change, Scope};
use crate::ray::facts::NodeFact;

/// Watches the clusters of the scope.
pub(super) fn clusters(store: Arc<Store>, scope: Scope) -> impl Stream<Item = Change<Arc<Value>>> + Send + 'static {
    steps(Watcher::new(store, scope, |state| &state.clusters))
}

/// Watches the pods of the scope.
pub(super) fn pods(store: Arc<Store>, scope: Scope) -> impl Stream<Item = Change<Arc<NodeFact>>> + Send + 'static {
    steps(Watcher::new(store, scope, |state| &state.pods))
}

struct Watcher<T> {
    store: Arc<Store>,
    newest: Receiver<u64>,
    scope: Scope,
    collection: fn(&State) -> &Collection<T>,
    /// Everything up to this version has been told or is about to be; `None` before the first picture.
    told: Option<u64>,
    steps: VecDeque<Change<Arc<T>>>,
}

fn steps<T: Send + Sync + 'static>(watcher: Watcher<T>) -> impl Stream<Item = Change<Arc<T>>> + Send + 'static {
    stream::unfold(watcher, |mut watcher| async {
        let step = watcher.next().await;
        Some((step, watcher))
    })
}

impl<T> Watcher<T> {
    fn new(store: Arc<Store>, scope: Scope, collection: fn(&State) -> &Collection<T>) -> Self {
        let newest = store.subscribe();
        Self { store, newest, scope, collection, told: None, steps: VecDeque::new() }
    }

    async fn next(&mut self) -> Change<Arc<T>> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            // Marked as seen before the store is read: a change after the reading then wakes us again.
            self.newest.borrow_and_update();
            self.refill();
            if self.steps.is_empty() && self.newest.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    fn refill(&mut self) {
        let store = Arc::clone(&self.store);
        let state = store.lock();
        let collection = (self.collection)(&state);
        if let Some(changes) = self.told.and_then(|told| collection.since(told, &self.scope)) {
            self.steps.extend(changes);
        } else {
            self.steps.push_back(Change::Reset);
            self.steps.extend(collection.objects(&self.scope).map(Change::Applied));
            self.steps.push_back(Change::Synced);
        }
        self.told = Some(state.version());
    }
}
