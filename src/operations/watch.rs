//! Follow the changes of clusters.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::{ApiError, ErrorCode, Selection, Service};
use crate::access::{Action, Caller, Target};
use crate::cache::Entry;
use crate::clock;
use crate::ray::name::ClusterKey;
use crate::stream::{Lens, Sees, StreamError, Subscription};

/// A watcher: what it sees, for as long as its caller may see it.
pub struct Watcher {
    subscription: Subscription,
    subject: Subject,
    caller: Caller,
    rules_changed: watch::Receiver<u64>,
}

/// What is watched.
enum Subject {
    Clusters(Selection),
    Cluster(ClusterKey),
}

/// What comes next of a watch.
pub enum Next {
    /// An event.
    Frame(Bytes),
    /// Nothing more: the one cluster that was watched is gone.
    Done,
    /// Nothing more: the caller isn't known any more, or may not see this any more.
    Refused(ApiError),
}

impl Service {
    /// The clusters that the caller selects and may see, now and from now on.
    ///
    /// # Errors
    /// A namespace that the caller may not use; a selector that can't be read.
    pub fn watch(&self, caller: &Caller, selection: &Selection) -> Result<Watcher, ApiError> {
        let rules_changed = self.rules_changed();
        let lens = self.lens(caller, Action::WatchClusters, selection)?;
        self.known()?;
        let subscription = Subscription::collection(Arc::clone(&self.cache), lens, self.settings.heartbeat);
        let subject = Subject::Clusters(selection.clone());
        Ok(Watcher { subscription, subject, caller: caller.clone(), rules_changed })
    }

    /// One cluster until it is deleted.
    ///
    /// # Errors
    /// No such cluster.
    pub fn watch_one(&self, caller: &Caller, reference: &str) -> Result<Watcher, ApiError> {
        let rules_changed = self.rules_changed();
        let key = self.resolve(caller, Action::WatchCluster, reference)?;
        self.held(caller, Action::WatchCluster, &key)?;
        let (cache, heartbeat) = (Arc::clone(&self.cache), self.settings.heartbeat);
        let subscription = Subscription::single(cache, key.clone(), sight(caller), heartbeat)
            .ok_or_else(|| ApiError::no_cluster(&key.to_string()))?;
        Ok(Watcher { subscription, subject: Subject::Cluster(key), caller: caller.clone(), rules_changed })
    }

    /// Tells when the rules change; once at the beginning too, for the caller was judged before.
    fn rules_changed(&self) -> watch::Receiver<u64> {
        let mut changed = self.access.changed();
        changed.mark_changed();
        changed
    }

    /// What comes next. Cancelling loses nothing.
    pub async fn next(&self, watcher: &mut Watcher) -> Next {
        loop {
            tokio::select! {
                biased;
                error = expired(&watcher.caller) => return Next::Refused(error),
                Ok(()) = watcher.rules_changed.changed() => {
                    if let Err(error) = self.judge_again(watcher) {
                        return Next::Refused(error);
                    }
                }
                frame = watcher.subscription.next() => return frame.map_or(Next::Done, Next::Frame),
            }
        }
    }

    /// Waits until what the watcher has been given, and nobody has taken yet, must not be sent any more: its caller has
    /// other rights now, and the picture begins anew. Takes no frame. Cancelling loses nothing.
    ///
    /// # Errors
    /// The caller isn't known any more, or may not see this any more.
    pub async fn outdated(&self, watcher: &mut Watcher) -> Result<(), ApiError> {
        loop {
            tokio::select! {
                biased;
                error = expired(&watcher.caller) => return Err(error),
                Ok(()) = watcher.rules_changed.changed() => {
                    let before = watcher.caller.clone();
                    self.judge_again(watcher)?;
                    if !watcher.caller.has_rights_of(&before) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The rules have changed: who is watching, may they still, and what do they see?
    fn judge_again(&self, watcher: &mut Watcher) -> Result<(), ApiError> {
        let Some(caller) = self.access.renew(&watcher.caller) else {
            return Err(ApiError::new(ErrorCode::Unauthenticated, "Your credential isn't valid any more."));
        };
        if caller.has_rights_of(&watcher.caller) {
            watcher.caller = caller;
            return Ok(());
        }
        let lens = match &watcher.subject {
            Subject::Clusters(selection) => self.lens(&caller, Action::WatchClusters, selection)?,
            Subject::Cluster(key) => {
                // Of the cluster itself the lens judges: one that they may not see any more is gone for them.
                let target = Target::Namespace(&key.namespace);
                self.access.authorize(&caller, Action::WatchCluster, target)?;
                sight(&caller)
            }
        };
        watcher.subscription.look_through(lens);
        watcher.caller = caller;
        Ok(())
    }
}

impl Watcher {
    /// The last frame of a stream that is refused, for transports that have no other way to say why.
    #[must_use]
    pub fn farewell(&self, code: &str, error: &ApiError) -> Bytes {
        self.subscription.farewell(&StreamError { code: code.to_owned(), detail: error.detail.clone() })
    }
}

/// Waits until the caller's credential expires.
async fn expired(caller: &Caller) -> ApiError {
    loop {
        let Some(expires) = caller.identity.expires else { return std::future::pending().await };
        let left = Duration::try_from(expires.duration_since(clock::now())).unwrap_or_default();
        if left.is_zero() {
            return ApiError::new(ErrorCode::Unauthenticated, "Your credential has expired.");
        }
        // An hour at a time: timers don't follow the wall clock when it is set.
        tokio::time::sleep(left.min(Duration::from_hours(1))).await;
    }
}

/// All that the caller may see.
fn sight(caller: &Caller) -> Lens {
    let caller = caller.clone();
    Box::new(move |entry: &Entry| caller.sight(&entry.key, entry.owner.as_deref()).map_or(Sees::Nothing, Sees::It))
}
