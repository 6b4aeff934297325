//! Fan-out: what one watcher sees, from the cache's journal. A watcher is a number and the names it knows: being slow
//! costs nobody anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::cache::{Cache, Entry};
use crate::clock;
use crate::ray::name::ClusterKey;
use crate::ray::render::Form;

mod frame;

pub use frame::{Event, EventType, StreamError};

/// What a watcher is to be told of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// Nothing: it may not see it.
    Nothing,
    /// Nothing, though it may see it in this form: it asked for others.
    Other(Form),
    /// All of it, in this form.
    It(Form),
}

/// What a watcher sees of each cluster.
pub type Lens = Box<dyn Fn(&Entry) -> Sees + Send + Sync>;

/// One watcher's view of the clusters, as a sequence of frames.
pub struct Subscription {
    cache: Arc<Cache>,
    changed: watch::Receiver<u64>,
    lens: Lens,
    /// It ends after this one's deletion.
    only: Option<ClusterKey>,
    heartbeat: Duration,
    /// Name → uid of what it has been shown.
    known: HashMap<ClusterKey, String>,
    /// Frames that are due, the first one last.
    due: Vec<Bytes>,
    /// Everything up to this number is in `known` or `due`.
    position: u64,
    /// The number of the last change that it has been told of: its cursors tell no more.
    told: u64,
    next_heartbeat: Instant,
    ended: bool,
}

impl Subscription {
    /// All clusters that it wants and may see, now and from now on.
    #[must_use]
    pub fn collection(cache: Arc<Cache>, lens: Lens, heartbeat: Duration) -> Self {
        Self::new(cache, lens, None, heartbeat)
    }

    /// One cluster, until it is deleted; `None` if there is none that it may see.
    #[must_use]
    pub fn single(cache: Arc<Cache>, key: ClusterKey, lens: Lens, heartbeat: Duration) -> Option<Self> {
        let subscription = Self::new(cache, only(key.clone(), lens), Some(key), heartbeat);
        (!subscription.ended).then_some(subscription)
    }

    fn new(cache: Arc<Cache>, lens: Lens, only: Option<ClusterKey>, heartbeat: Duration) -> Self {
        let mut subscription = Self {
            changed: cache.changed(),
            cache,
            lens,
            only,
            heartbeat,
            known: HashMap::new(),
            due: Vec::new(),
            position: 0,
            told: 0,
            next_heartbeat: clock::timer() + heartbeat,
            ended: false,
        };
        subscription.begin(Vec::new());
        subscription
    }

    /// From now on it sees otherwise: the picture begins anew, and what was due under the old rules is never sent.
    pub fn look_through(&mut self, lens: Lens) {
        self.lens = match &self.only {
            Some(key) => only(key.clone(), lens),
            None => lens,
        };
        let resync = frame::bare(EventType::Resync, self.cache.cursors(), self.told);
        self.begin(vec![resync]);
    }

    /// The frame that says why nothing more comes.
    #[must_use]
    pub fn farewell(&self, error: &StreamError) -> Bytes {
        frame::error(self.cache.cursors(), self.told, error)
    }

    /// The next frame; `None` once the one cluster it was for is gone. Cancelling loses nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.due.pop() {
                self.next_heartbeat = clock::timer() + self.heartbeat;
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            if *self.changed.borrow_and_update() > self.position {
                self.catch_up();
                continue;
            }
            tokio::select! {
                changed = self.changed.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = sleep_until(self.next_heartbeat) => {
                    self.due.push(frame::bare(EventType::Heartbeat, self.cache.cursors(), self.told));
                }
            }
        }
    }

    /// The whole picture: one `ADDED` per cluster, then `SYNCED`, after what has to be said first.
    fn begin(&mut self, mut frames: Vec<Bytes>) {
        let (entries, position) = self.cache.snapshot(|entry| matches!((self.lens)(entry), Sees::It(_)));
        self.position = position;
        self.known.clear();
        for entry in entries {
            if let Sees::It(form) = (self.lens)(&entry) {
                self.told = entry.sequence;
                frames.push(frame::of(&entry, form, EventType::Added, self.cache.cursors(), entry.sequence));
                self.known.insert(entry.key.clone(), entry.uid.clone());
            }
        }
        frames.push(frame::bare(EventType::Synced, self.cache.cursors(), self.told));
        // One whose cluster went before it began has nothing to wait for.
        self.ended = self.only.is_some() && self.known.is_empty();
        frames.reverse();
        self.due = frames;
    }

    fn catch_up(&mut self) {
        let changes = self.cache.since(self.position);
        let cursors = self.cache.cursors();
        if changes.lost {
            let resync = frame::bare(EventType::Resync, cursors, self.told);
            return self.begin(vec![resync]);
        }
        let mut frames = Vec::new();
        let mut unseen = Vec::new();
        let told = self.told;
        for step in changes.steps {
            let entry = &step.entry;
            let known = self.known.get(&entry.key).is_some_and(|uid| *uid == entry.uid);
            match (known, (self.lens)(entry)) {
                (known, Sees::It(form)) if !step.gone => {
                    self.known.insert(entry.key.clone(), entry.uid.clone());
                    let event = if known { EventType::Modified } else { EventType::Added };
                    frames.push(frame::of(entry, form, event, cursors, step.sequence));
                    self.told = step.sequence;
                }
                (true, Sees::It(form) | Sees::Other(form)) => {
                    self.known.remove(&entry.key);
                    frames.push(frame::of(entry, form, EventType::Deleted, cursors, step.sequence));
                    self.told = step.sequence;
                }
                (true, Sees::Nothing) => {
                    self.known.remove(&entry.key);
                    unseen.push(Arc::clone(entry));
                }
                (false, _) => continue,
            }
            if self.only.is_some() && self.known.is_empty() {
                self.ended = true;
                break;
            }
        }
        self.position = changes.upto;
        frames.reverse();
        // When one that isn't seen any more last changed tells what is going on with it: these come first, by name, and
        // their cursors tell nothing new.
        unseen.sort_by(|one, other| one.key.cmp(&other.key));
        let unseen = unseen.iter().rev().map(|entry| frame::unseen(&entry.key, &entry.uid, cursors, told));
        frames.extend(unseen);
        self.due = frames;
    }
}

/// Sees one cluster alone.
fn only(key: ClusterKey, lens: Lens) -> Lens {
    Box::new(move |entry| if entry.key == key { lens(entry) } else { Sees::Nothing })
}
