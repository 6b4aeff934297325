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

mod frame;

pub use frame::{Event, EventType};

/// Which clusters a watcher wants and may see.
pub type Filter = Box<dyn Fn(&Entry) -> bool + Send + Sync>;

/// One watcher's view of the clusters, as a sequence of frames.
pub struct Subscription {
    cache: Arc<Cache>,
    changed: watch::Receiver<u64>,
    fits: Filter,
    /// It ends after this one's deletion.
    only: Option<ClusterKey>,
    heartbeat: Duration,
    /// Name → uid of what it has been shown.
    known: HashMap<ClusterKey, String>,
    /// Frames that are due, the first one last.
    due: Vec<Bytes>,
    /// Everything up to this number is in `known` or `due`.
    position: u64,
    next_heartbeat: Instant,
    ended: bool,
}

impl Subscription {
    /// All clusters that fit, now and from now on.
    #[must_use]
    pub fn collection(cache: Arc<Cache>, fits: Filter, heartbeat: Duration) -> Self {
        Self::new(cache, fits, None, heartbeat)
    }

    /// One cluster, until it is deleted; `None` if there is none.
    #[must_use]
    pub fn single(cache: Arc<Cache>, key: ClusterKey, heartbeat: Duration) -> Option<Self> {
        let wanted = key.clone();
        let fits: Filter = Box::new(move |entry| entry.key == wanted);
        let subscription = Self::new(cache, fits, Some(key), heartbeat);
        (!subscription.ended).then_some(subscription)
    }

    fn new(cache: Arc<Cache>, fits: Filter, only: Option<ClusterKey>, heartbeat: Duration) -> Self {
        let mut subscription = Self {
            changed: cache.changed(),
            cache,
            fits,
            only,
            heartbeat,
            known: HashMap::new(),
            due: Vec::new(),
            position: 0,
            next_heartbeat: clock::timer() + heartbeat,
            ended: false,
        };
        subscription.begin(Vec::new());
        subscription
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
                    self.due.push(frame::bare(EventType::Heartbeat, self.cache.epoch(), self.position));
                }
            }
        }
    }

    /// The whole picture: one `ADDED` per cluster, then `SYNCED`, after what has to be said first.
    fn begin(&mut self, mut frames: Vec<Bytes>) {
        let (entries, position) = self.cache.snapshot(&self.fits);
        self.position = position;
        self.known = entries.iter().map(|entry| (entry.key.clone(), entry.uid.clone())).collect();
        frames
            .extend(entries.iter().map(|entry| frame::of(entry, EventType::Added, self.cache.epoch(), entry.sequence)));
        frames.push(frame::bare(EventType::Synced, self.cache.epoch(), position));
        // One whose cluster went before it began has nothing to wait for.
        self.ended = self.only.is_some() && self.known.is_empty();
        frames.reverse();
        self.due = frames;
    }

    fn catch_up(&mut self) {
        let changes = self.cache.since(self.position);
        if changes.lost {
            return self.begin(vec![frame::bare(EventType::Resync, self.cache.epoch(), self.position)]);
        }
        let mut frames = Vec::new();
        for step in changes.steps {
            let entry = &step.entry;
            let known = self.known.get(&entry.key).is_some_and(|uid| *uid == entry.uid);
            let wanted = !step.gone && (self.fits)(entry);
            let event = match (known, wanted) {
                (false, true) => EventType::Added,
                (true, true) => EventType::Modified,
                (true, false) => EventType::Deleted,
                (false, false) => continue,
            };
            if wanted {
                self.known.insert(entry.key.clone(), entry.uid.clone());
            } else {
                self.known.remove(&entry.key);
            }
            frames.push(frame::of(entry, event, self.cache.epoch(), step.sequence));
            if event == EventType::Deleted && self.only.is_some() {
                self.ended = true;
                break;
            }
        }
        self.position = changes.upto;
        frames.reverse();
        self.due = frames;
    }
}
