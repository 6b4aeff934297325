//! The machines at work: which pods are where, which are due for a look of their kubelet, which wait for room, and what
//! becomes of the pods of a machine that falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::collection::Key;
use super::kubelet::{Pod, World};
use super::pace::Now;
use super::scheduler::{self, Nodes};
use super::store::Store;
use super::template::Template;
use crate::ray::facts::{NodeFact, NodeRole, Why, bounded};

/// How long a machine may be silent before it counts as lost (`--node-monitor-grace-period`).
const GRACE: Duration = Duration::from_secs(50);
/// How long pods bear with a lost machine (what the apiserver gives every pod).
const TOLERATION: Duration = Duration::from_mins(5);

pub(super) struct Machines {
    store: Arc<Store>,
    world: World,
    nodes: Nodes,
    health: Vec<Health>,
    pods: BTreeMap<Uuid, Entry>,
    due: BTreeSet<(Instant, Uuid)>,
    /// Owner and pod.
    kin: BTreeSet<(Uuid, Uuid)>,
    /// Owners whose head answers.
    answering: BTreeSet<Uuid>,
    /// Pods that no machine can take, oldest first.
    waiting: BTreeMap<u64, Uuid>,
    arrivals: u64,
    /// Whether there is more room than at the last look at those.
    freed: bool,
    /// Whether a pod has gone.
    removed: bool,
}

/// How a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Well,
    /// Its kubelet has been silent since then; nobody has noticed yet.
    Silent(Instant),
    /// Unreachable since then: its pods aren't ready.
    Lost(Instant),
    /// Its pods have been deleted, though nobody ends them.
    Evicted,
}

struct Entry {
    cluster: Key,
    name: String,
    owner: Uuid,
    role: NodeRole,
    template: Arc<Template>,
    place: Place,
    due: Option<Instant>,
    /// When it will have ended, if it is being deleted.
    gone_at: Option<Instant>,
}

enum Place {
    Waiting { arrival: u64, refusal: String },
    At { node: usize, pod: Pod },
}

impl Machines {
    pub(super) fn new(store: Arc<Store>, world: World, nodes: Nodes) -> Self {
        Self {
            store,
            world,
            health: vec![Health::Well; nodes.len()],
            nodes,
            pods: BTreeMap::new(),
            due: BTreeSet::new(),
            kin: BTreeSet::new(),
            answering: BTreeSet::new(),
            waiting: BTreeMap::new(),
            arrivals: 0,
            freed: false,
            removed: false,
        }
    }

    /// Takes in a new pod of this cluster; `false` where its name is taken.
    pub(super) fn admit(&mut self, cluster: &Key, mut fact: NodeFact, template: Arc<Template>, now: Now) -> bool {
        let uid = Uuid::parse_str(&fact.uid).unwrap_or_default();
        let owner = Uuid::parse_str(&fact.owner_uid).unwrap_or_default();
        let place = match self.nodes.place(&template.spec, &template.requests) {
            Ok(node) => Place::At { node, pod: Pod::new(Arc::clone(&template), now.timer) },
            Err(refusal) => Place::Waiting { arrival: self.arrivals, refusal },
        };
        let arrival = match &place {
            Place::Waiting { arrival, refusal } => {
                fact.unscheduled = Some(Arc::new(unschedulable(refusal, now)));
                Some(*arrival)
            }
            Place::At { node, pod } => {
                fact.host = Some(scheduler::name(*node));
                if !self.is_silent(*node) {
                    pod.tell(&mut fact, now.wall);
                }
                None
            }
        };
        let (name, role) = (fact.name.clone(), fact.role);
        if !self.store.add_pod(cluster, fact) {
            if let Place::At { node, .. } = place {
                self.nodes.release(node, &template.requests);
            }
            return false;
        }
        self.arrivals += 1;
        self.waiting.extend(arrival.map(|arrival| (arrival, uid)));
        self.kin.insert((owner, uid));
        let entry = Entry { cluster: cluster.clone(), name, owner, role, template, place, due: None, gone_at: None };
        self.pods.insert(uid, entry);
        self.set_due(uid, Some(now.timer));
        true
    }

    /// Starts to end a pod; one that is nowhere goes at once.
    pub(super) fn delete(&mut self, fact: &NodeFact, now: Now) {
        let uid = Uuid::parse_str(&fact.uid).unwrap_or_default();
        let Some(entry) = self.pods.get_mut(&uid).filter(|entry| entry.gone_at.is_none()) else { return };
        let takes = match entry.place {
            Place::Waiting { .. } => Duration::ZERO,
            Place::At { .. } => self.world.pace.stop,
        };
        let gone_at = now.timer + takes;
        entry.gone_at = Some(gone_at);
        self.store.change_pod(&entry.cluster, &entry.name, &fact.uid, |fact| fact.deleting = true);
        self.set_due(uid, Some(gone_at));
    }

    /// Whether it is over with the pod's Ray container for good.
    pub(super) fn is_over(&self, fact: &NodeFact) -> bool {
        let entry = Uuid::parse_str(&fact.uid).ok().and_then(|uid| self.pods.get(&uid));
        entry.is_some_and(|entry| match &entry.place {
            Place::At { pod, .. } => pod.is_over(),
            Place::Waiting { .. } => false,
        })
    }

    /// Whether a pod has gone since this was last asked.
    pub(super) fn take_removed(&mut self) -> bool {
        std::mem::take(&mut self.removed)
    }

    /// When something is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let pods = self.due.first().map(|(at, _)| *at);
        self.health.iter().filter_map(|health| self.turns_at(*health)).chain(pods).min()
    }

    /// Looks at one pod that is due by now; `false` where there is none.
    pub(super) fn run_next(&mut self, now: Now) -> bool {
        let Some((_, uid)) = self.due.first().copied().filter(|(at, _)| *at <= now.timer) else { return false };
        self.set_due(uid, None);
        self.look_at(uid, now);
        true
    }

    fn look_at(&mut self, uid: Uuid, now: Now) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        if let Place::At { node, .. } = &entry.place
            && self.health.get(*node).is_some_and(|health| *health != Health::Well)
        {
            return;
        }
        if let Some(gone_at) = entry.gone_at {
            return if gone_at <= now.timer { self.remove(uid) } else { self.set_due(uid, Some(gone_at)) };
        }
        let Place::At { pod, .. } = &mut entry.place else { return };
        let (world, head_answers) = (&self.world, self.answering.contains(&entry.owner));
        let mut wake = None;
        self.store.change_pod(&entry.cluster, &entry.name, &uid.to_string(), |fact| {
            wake = pod.sync(fact, world, head_answers, now);
            pod.tell(fact, now.wall);
        });
        let (owner, answers) = (entry.owner, pod.answers());
        if entry.role == NodeRole::Head && answers != head_answers {
            self.set_answering(owner, answers, now);
        }
        self.set_due(uid, wake);
    }

    /// Whether the owner's head answers: those that wait for it look again.
    fn set_answering(&mut self, owner: Uuid, answers: bool, now: Now) {
        if !answers {
            self.answering.remove(&owner);
        } else if self.answering.insert(owner) {
            let kin: Vec<Uuid> = self.kin.range((owner, Uuid::nil())..=(owner, Uuid::max())).map(|kin| kin.1).collect();
            for uid in kin {
                self.set_due_by(uid, now.timer);
            }
        }
    }

    fn remove(&mut self, uid: Uuid) {
        let Some(entry) = self.pods.remove(&uid) else { return };
        self.kin.remove(&(entry.owner, uid));
        if entry.role == NodeRole::Head {
            self.answering.remove(&entry.owner);
        }
        match entry.place {
            Place::Waiting { arrival, .. } => drop(self.waiting.remove(&arrival)),
            Place::At { node, .. } => {
                self.nodes.release(node, &entry.template.requests);
                self.freed = true;
            }
        }
        self.removed = true;
        self.store.remove_pod(&entry.cluster, &entry.name, &uid.to_string());
    }

    /// Gives the pods that wait for room another chance, if there is more of it.
    pub(super) fn schedule_waiting(&mut self, now: Now) {
        if !std::mem::take(&mut self.freed) {
            return;
        }
        // Pods of one kind are refused alike.
        let mut refused: BTreeMap<*const Template, String> = BTreeMap::new();
        for (arrival, uid) in self.waiting.clone() {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            let kind = Arc::as_ptr(&entry.template);
            let answer = match refused.get(&kind) {
                Some(refusal) => Err(refusal.clone()),
                None => self.nodes.place(&entry.template.spec, &entry.template.requests),
            };
            match answer {
                Ok(node) => {
                    self.waiting.remove(&arrival);
                    let pod = Pod::new(Arc::clone(&entry.template), now.timer);
                    self.store.change_pod(&entry.cluster, &entry.name, &uid.to_string(), |fact| {
                        fact.unscheduled = None;
                        fact.host = Some(scheduler::name(node));
                        pod.tell(fact, now.wall);
                    });
                    entry.place = Place::At { node, pod };
                    self.set_due_by(uid, now.timer);
                }
                Err(refusal) => {
                    if let Place::Waiting { refusal: old, .. } = &mut entry.place
                        && *old != refusal
                    {
                        old.clone_from(&refusal);
                        self.store.change_pod(&entry.cluster, &entry.name, &uid.to_string(), |fact| {
                            let since = fact.unscheduled.as_ref().and_then(|why| why.since);
                            fact.unscheduled = Some(Arc::new(Why { since, ..unschedulable(&refusal, now) }));
                        });
                    }
                    refused.insert(kind, refusal);
                }
            }
        }
    }

    /// Takes note of which machines are silent, and does what is due about those that have been.
    pub(super) fn watch_health(&mut self, silent: &BTreeSet<String>, now: Now) {
        for node in 0..self.health.len() {
            let is_silent = silent.contains(&scheduler::name(node));
            let health = self.health.get(node).copied().unwrap_or(Health::Well);
            let due = self.turns_at(health).is_some_and(|at| at <= now.timer);
            let next = match health {
                Health::Well if is_silent => Health::Silent(now.timer),
                Health::Well => continue,
                _ if !is_silent => Health::Well,
                Health::Silent(_) if due => Health::Lost(now.timer),
                Health::Lost(_) if due => Health::Evicted,
                Health::Silent(_) | Health::Lost(_) | Health::Evicted => continue,
            };
            if let Some(health) = self.health.get_mut(node) {
                *health = next;
            }
            self.turn(node, next, now);
        }
    }

    /// When the machine's health changes by itself.
    fn turns_at(&self, health: Health) -> Option<Instant> {
        match health {
            Health::Well | Health::Evicted => None,
            Health::Silent(since) => Some(since + self.world.pace.scaled(GRACE)),
            Health::Lost(since) => Some(since + self.world.pace.scaled(TOLERATION)),
        }
    }

    fn is_silent(&self, node: usize) -> bool {
        self.health.get(node).is_some_and(|health| *health != Health::Well)
    }

    /// What the control plane does once a machine is well again, lost, or has been lost for long. As in Kubernetes a pod
    /// that is deleted there stays until its kubelet has ended it.
    fn turn(&mut self, node: usize, health: Health, now: Now) {
        self.nodes.set_lost(node, matches!(health, Health::Lost(_) | Health::Evicted));
        self.freed |= health == Health::Well;
        let is_there = |entry: &Entry| matches!(entry.place, Place::At { node: place, .. } if place == node);
        let there: Vec<Uuid> = self.pods.iter().filter(|(_, entry)| is_there(entry)).map(|(uid, _)| *uid).collect();
        for uid in there {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            match health {
                Health::Silent(_) => {}
                Health::Well => self.set_due_by(uid, now.timer),
                Health::Lost(_) => {
                    if entry.role == NodeRole::Head {
                        self.answering.remove(&entry.owner);
                    }
                    self.store.change_pod(&entry.cluster, &entry.name, &uid.to_string(), |fact| {
                        if fact.ready {
                            (fact.ready, fact.ready_since) = (false, Some(now.wall));
                        }
                    });
                }
                Health::Evicted => {
                    entry.gone_at.get_or_insert(now.timer + self.world.pace.stop);
                    self.store.change_pod(&entry.cluster, &entry.name, &uid.to_string(), |fact| {
                        fact.deleting = true;
                        fact.disruption = Some(Arc::new(Why {
                            reason: "DeletionByTaintManager".to_owned(),
                            message: "Taint manager: deleting due to NoExecute taint".to_owned(),
                            since: Some(now.wall),
                        }));
                    });
                }
            }
        }
    }

    fn set_due(&mut self, uid: Uuid, at: Option<Instant>) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        if let Some(old) = std::mem::replace(&mut entry.due, at) {
            self.due.remove(&(old, uid));
        }
        self.due.extend(at.map(|at| (at, uid)));
    }

    /// No later than that.
    fn set_due_by(&mut self, uid: Uuid, at: Instant) {
        let due = self.pods.get(&uid).and_then(|entry| entry.due);
        self.set_due(uid, Some(due.map_or(at, |due| due.min(at))));
    }
}

fn unschedulable(message: &str, now: Now) -> Why {
    Why { reason: "Unschedulable".to_owned(), message: bounded(message.to_owned()), since: Some(now.wall) }
}
