//! How far what is known of the clusters goes, for those who wait for something that was written elsewhere.

use tokio::sync::watch;

use super::entry::number;
use super::{Cache, Entry};
use crate::manager::Scope;
use crate::ray::name::ClusterKey;

/// How far one watch of clusters has come.
pub(super) struct Reach {
    scope: Scope,
    /// Everything of the scope up to this version is known. Only what the watch brought counts: an answer to a write says
    /// nothing of other clusters.
    seen: watch::Receiver<u128>,
}

impl Reach {
    pub(super) fn new(scope: Scope, seen: watch::Receiver<u128>) -> Self {
        Self { scope, seen }
    }
}

impl Cache {
    /// The scopes that make up a namespace; of all namespaces, each that is watched.
    #[must_use]
    pub fn scopes(&self, namespace: Option<&str>) -> Vec<Scope> {
        match namespace {
            Some(namespace) => vec![Scope::Namespace(namespace.to_owned())],
            None => self.reach.iter().map(|reach| reach.scope.clone()).collect(),
        }
    }

    /// Waits until every cluster of a namespace, or of all, is known as it was at this version, or later; says `false`
    /// where that can't come to be.
    pub async fn reached(&self, namespace: Option<&str>, version: u128) -> bool {
        let mut touched = false;
        for Reach { scope, seen } in &self.reach {
            if namespace.is_none_or(|namespace| scope.covers(namespace)) {
                touched = true;
                if seen.clone().wait_for(|seen| *seen >= version).await.is_err() {
                    return false;
                }
            }
        }
        touched
    }

    /// Waits until a cluster is known as it was at this version, or later, be it that there is none; says `false` where that
    /// can't come to be. What is held under the name counts only where whoever waits sees it: the time that one waits tells
    /// nothing of the others.
    pub async fn reached_by(&self, key: &ClusterKey, version: u128, sees: impl Fn(&Entry) -> bool) -> bool {
        let Some(reach) = self.reach.iter().find(|reach| reach.scope.covers(&key.namespace)) else { return false };
        let (mut changed, mut upto) = (self.changed(), reach.seen.clone());
        let is_there = |entry: &Entry| number(&entry.version).is_some_and(|held| held >= version) && sees(entry);
        loop {
            changed.mark_unchanged();
            if *upto.borrow_and_update() >= version || self.get(key).is_some_and(|entry| is_there(&entry)) {
                return true;
            }
            let told = tokio::select! {
                told = changed.changed() => told,
                told = upto.changed() => told,
            };
            if told.is_err() {
                return false;
            }
        }
    }
}
