//! A cluster's life: operator, garbage collector and kubelet in one task. It looks at every cluster that changed or
//! whose pods changed, does what is due, and sleeps until the next change or the next pod's time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use rand::Rng;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use super::collection::Key;
use super::operator;
use super::status::{Failure, status};
use super::store::{FOREGROUND, Store, Work, finalizers, is_deleting, text};
use crate::clock;
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{NodeFact, NodeRole};

/// How many pods there may be: bounds the memory that one careless number of replicas can take.
pub(super) const POD_LIMIT: usize = 10_000;
/// What the apiserver ends a generated name with.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How fast pods live.
#[derive(Clone, Copy)]
pub(super) struct Delays {
    pub(super) start: Duration,
    pub(super) stop: Duration,
}

/// Runs until it is aborted.
pub(super) async fn run(store: Arc<Store>, delays: Delays) {
    let mut newest = store.subscribe();
    let mut timers = FuturesUnordered::new();
    let mut starved = BTreeSet::new();
    loop {
        newest.borrow_and_update();
        while let Some(work) = store.next_work() {
            let mut look = Look { store: &store, key: &work.key, timers: Vec::new(), starved: false };
            look.at(&work);
            if look.starved {
                starved.insert(work.key.clone());
            }
            timers.extend(look.timers.into_iter().map(|timer| due(timer, delays)));
            tokio::task::yield_now().await;
        }
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return },
            Some(timer) = timers.next(), if !timers.is_empty() => {
                let mut next = Some(timer);
                while let Some(timer) = next {
                    if timer.goes {
                        store.mark(std::mem::take(&mut starved));
                    }
                    timer.expire(&store);
                    next = timers.next().now_or_never().flatten();
                }
            }
        }
    }
}

/// A pod that will be ready, or gone, in a while.
struct Timer {
    cluster: Key,
    pod: String,
    uid: String,
    goes: bool,
}

async fn due(timer: Timer, delays: Delays) -> Timer {
    sleep(if timer.goes { delays.stop } else { delays.start }).await;
    timer
}

impl Timer {
    fn expire(&self, store: &Store) {
        let Self { cluster, pod, uid, goes } = self;
        if *goes {
            return store.remove_pod(cluster, pod, uid);
        }
        store.change_pod(cluster, pod, uid, |fact| {
            if !fact.deleting {
                "Running".clone_into(&mut fact.phase);
                fact.ready = true;
                fact.ready_since = Some(clock::now());
                fact.reason = None;
            }
        });
    }
}

/// One look at one cluster.
struct Look<'a> {
    store: &'a Store,
    key: &'a Key,
    timers: Vec<Timer>,
    /// Whether a pod couldn't be made because there are too many.
    starved: bool,
}

impl Look<'_> {
    fn at(&mut self, work: &Work) {
        let uid = work.cluster.as_ref().map(|cluster| text(cluster, "uid"));
        let (own, orphans): (Vec<_>, Vec<_>) =
            work.pods.iter().cloned().partition(|pod| Some(pod.owner_uid.as_str()) == uid);
        self.delete_pods(&orphans);
        let Some(cluster) = &work.cluster else { return };
        if !is_deleting(cluster) {
            self.operate(cluster, &own);
        } else if finalizers(cluster).iter().any(|name| name == FOREGROUND) {
            self.delete_pods(&own);
            if own.is_empty() {
                self.store.release(self.key, text(cluster, "uid"));
            }
        }
    }

    fn operate(&mut self, object: &Value, pods: &[Arc<NodeFact>]) {
        let Ok(cluster) = RayCluster::deserialize(object) else {
            return;
        };
        if !operator::cares_for(&cluster) {
            return;
        }
        let uid = text(object, "uid");
        let plan = operator::plan(&cluster, pods);
        self.delete_pods(&plan.delete);
        let room = POD_LIMIT.saturating_sub(self.store.pod_count());
        self.starved = plan.create.len() > room;
        for (group, role) in plan.create.iter().take(room) {
            self.create_pod(uid, group, *role);
        }
        let failure = plan.create.get(room).map(|(_, role)| self.failure(*role));
        if let Some(status) = status(&cluster, &object["status"], pods, failure.as_ref(), clock::now()) {
            self.store.set_status(self.key, uid, status);
        }
    }

    fn failure(&self, role: NodeRole) -> Failure {
        let (namespace, cluster) = self.key;
        let message = format!(
            "pods of \"{cluster}\" are forbidden: exceeded quota: {namespace}, requested: pods=1, used: pods={POD_LIMIT}, limited: pods={POD_LIMIT}"
        );
        let reason = if role == NodeRole::Head { "FailedCreateHeadPod" } else { "FailedCreateWorkerPod" };
        Failure { reason, message }
    }

    fn create_pod(&mut self, owner: &str, group: &str, role: NodeRole) {
        let (namespace, cluster) = self.key;
        let prefix = operator::pod_name_prefix(cluster, group, role);
        loop {
            let fact = NodeFact {
                namespace: namespace.clone(),
                name: format!("{prefix}{}", suffix()),
                uid: Uuid::new_v4().to_string(),
                resource_version: String::new(),
                owner_uid: owner.to_owned(),
                group: group.to_owned(),
                role,
                phase: "Pending".to_owned(),
                ready: false,
                ready_since: Some(clock::now()),
                deleting: false,
                reason: Some("ContainerCreating".to_owned()),
            };
            let timer = self.timer(&fact, false);
            if self.store.add_pod(self.key, fact) {
                return self.timers.push(timer);
            }
        }
    }

    fn delete_pods(&mut self, pods: &[Arc<NodeFact>]) {
        for pod in pods.iter().filter(|pod| !pod.deleting) {
            self.store.change_pod(self.key, &pod.name, &pod.uid, |fact| fact.deleting = true);
            self.timers.push(self.timer(pod, true));
        }
    }

    fn timer(&self, pod: &NodeFact, goes: bool) -> Timer {
        Timer { cluster: self.key.clone(), pod: pod.name.clone(), uid: pod.uid.clone(), goes }
    }
}

fn suffix() -> String {
    let mut random = rand::rng();
    let letter = |_| SUFFIX.get(random.random_range(0..SUFFIX.len())).copied().map_or('x', char::from);
    (0..5).map(letter).collect()
}
