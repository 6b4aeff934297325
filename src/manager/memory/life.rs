//! A cluster's life: operator, garbage collector, scheduler and kubelets in one task. It looks at every cluster that
//! changed or whose pods changed, does what is due, and sleeps until the next change or the next pod's time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand::Rng;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep_until;
use uuid::Uuid;

use super::collection::Key;
use super::machines::Machines;
use super::operator;
use super::pace::Now;
use super::status::{Failure, status};
use super::store::{FOREGROUND, Store, Work, finalizers, is_deleting, text};
use super::template::Template;
use crate::clock;
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{NodeFact, NodeRole};

/// How many pods there may be: bounds the memory that one careless number of replicas can take.
pub(super) const POD_LIMIT: usize = 10_000;
/// What the apiserver ends a generated name with.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Pods that fail again and again are looked at together, no more often than this.
const TICK: Duration = Duration::from_millis(5);

/// Runs until it is aborted.
pub(super) async fn run(store: Arc<Store>, mut machines: Machines) {
    let mut newest = store.subscribe();
    let mut starved = BTreeSet::new();
    loop {
        newest.borrow_and_update();
        machines.watch_health(&store.silent(), now());
        while let Some(work) = store.next_work() {
            let mut look = Look { store: &store, machines: &mut machines, key: &work.key, now: now(), starved: false };
            look.at(&work);
            if look.starved {
                starved.insert(work.key.clone());
            }
            tokio::task::yield_now().await;
        }
        let now = now();
        // Few pods and what the operator says of them go out together; many leave room for others.
        let mut looks = 0_u8;
        while machines.run_next(now) {
            looks = looks.wrapping_add(1);
            if looks == 0 {
                tokio::task::yield_now().await;
            }
        }
        machines.schedule_waiting(now);
        if machines.take_removed() {
            store.mark(std::mem::take(&mut starved));
        }
        let next = machines.next_due().map(|next| next.max(now.timer + TICK));
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return },
            () = sleep_until(next.unwrap_or(now.timer)), if next.is_some() => {}
        }
    }
}

/// The present; of the wall clock whole seconds, as Kubernetes tells time.
fn now() -> Now {
    let wall = clock::now();
    Now { timer: clock::timer(), wall: Timestamp::from_second(wall.as_second()).unwrap_or(wall) }
}

/// One look at one cluster.
struct Look<'a> {
    store: &'a Store,
    machines: &'a mut Machines,
    key: &'a Key,
    now: Now,
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
        let plan = operator::plan(&cluster, pods, |pod| self.machines.is_over(pod));
        self.delete_pods(&plan.delete);
        let room = POD_LIMIT.saturating_sub(self.store.pod_count());
        self.starved = plan.create.len() > room;
        let failure = self.create_pods(&cluster, uid, plan.create.get(..room).unwrap_or(&plan.create));
        let failure = failure.or_else(|| plan.create.get(room).map(|(_, role)| self.out_of_quota(*role)));
        if let Some(status) = status(&cluster, &object["status"], pods, failure.as_ref(), clock::now()) {
            self.store.set_status(self.key, uid, status);
        }
    }

    fn out_of_quota(&self, role: NodeRole) -> Failure {
        let (namespace, cluster) = self.key;
        Failure::new(
            role,
            &format!(
                "pods of \"{cluster}\" are forbidden: exceeded quota: {namespace}, requested: pods=1, used: pods={POD_LIMIT}, limited: pods={POD_LIMIT}"
            ),
        )
    }

    /// Makes the pods, until one can't be made.
    fn create_pods(&mut self, cluster: &RayCluster, owner: &str, pods: &[(String, NodeRole)]) -> Option<Failure> {
        let mut templates: BTreeMap<(bool, &str), Arc<Template>> = BTreeMap::new();
        for (group, role) in pods {
            let key = (*role == NodeRole::Head, group.as_str());
            let template = match templates.get(&key) {
                Some(template) => Arc::clone(template),
                None => match Template::new(cluster, *role, group) {
                    Ok(template) => Arc::clone(templates.entry(key).or_insert(Arc::new(template))),
                    Err(wrong) => {
                        let name = operator::pod_name_prefix(&self.key.1, group, *role);
                        return Some(Failure::new(*role, &format!("Pod \"{name}\" is invalid: {wrong}")));
                    }
                },
            };
            self.create_pod(owner, group, *role, &template);
        }
        None
    }

    fn create_pod(&mut self, owner: &str, group: &str, role: NodeRole, template: &Arc<Template>) {
        let (namespace, cluster) = self.key;
        let prefix = operator::pod_name_prefix(cluster, group, role);
        loop {
            let fact = NodeFact {
                namespace: namespace.clone(),
                name: format!("{prefix}{}", suffix()),
                uid: Uuid::new_v4().to_string(),
                owner_uid: owner.to_owned(),
                created: Some(self.now.wall),
                group: group.to_owned(),
                role,
                phase: "Pending".to_owned(),
                ..NodeFact::default()
            };
            if self.machines.admit(self.key, fact, Arc::clone(template), self.now) {
                return;
            }
        }
    }

    fn delete_pods(&mut self, pods: &[Arc<NodeFact>]) {
        for pod in pods.iter().filter(|pod| !pod.deleting) {
            self.machines.delete(pod, self.now);
        }
    }
}

fn suffix() -> String {
    let mut random = rand::rng();
    let letter = |_| SUFFIX.get(random.random_range(0..SUFFIX.len())).copied().map_or('x', char::from);
    (0..5).map(letter).collect()
}
