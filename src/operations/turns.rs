//! Writers of one cluster inside this process, one after the other: they would only make each other begin again.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout_at};

use super::{ApiError, jitter};
use crate::clock;
use crate::ray::name::ClusterKey;

/// Whose turn it is, for each cluster that is being written.
#[derive(Default)]
pub(super) struct Turns(std::sync::Mutex<HashMap<ClusterKey, Weak<Mutex<()>>>>);

/// The turn of one writer; it ends when this is dropped.
pub(super) struct Turn<'a> {
    key: &'a ClusterKey,
    until: Instant,
    _held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits, so long at most, for its turn among the writers of a cluster: first come, first served.
    pub(super) async fn of<'a>(&self, key: &'a ClusterKey, patience: Duration) -> Option<Turn<'a>> {
        let until = clock::timer() + patience;
        let queue = {
            let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // No more than there are requests under way.
            queues.retain(|_, queue| queue.strong_count() > 0);
            let queue = queues.get(key).and_then(Weak::upgrade).unwrap_or_default();
            queues.insert(key.clone(), Arc::downgrade(&queue));
            queue
        };
        let turn = timeout_at(until, queue.lock_owned()).await.ok()?;
        Some(Turn { key, until, _held: Some(turn) })
    }

    /// No turn: whoever may not write gets in nobody's way, and isn't told by waiting that somebody does.
    pub(super) fn none(key: &ClusterKey, patience: Duration) -> Turn<'_> {
        Turn { key, until: clock::timer() + patience, _held: None }
    }
}

impl Turn<'_> {
    /// A race is lost: somebody else wrote in between. After a pause it may be looked again, unless patience is over.
    pub(super) async fn lost(&self) -> Result<(), ApiError> {
        sleep(jitter()).await;
        if clock::timer() < self.until { Ok(()) } else { Err(ApiError::contended(self.key)) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::operations::ErrorCode;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn one_cluster_has_one_writer_at_a_time() {
        let turns = Turns::default();
        let (a, b) = (ClusterKey::new("n", "a"), ClusterKey::new("n", "b"));
        let first = turns.of(&a, LONG).await;
        assert!(turns.of(&b, LONG).now_or_never().is_some(), "another cluster's writer doesn't wait");
        let mut second = Box::pin(turns.of(&a, LONG));
        let mut third = Box::pin(turns.of(&a, LONG));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "who came later waits longer");
        drop(second.await.unwrap());
        drop(third.await.unwrap());
        drop(turns.of(&b, LONG).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1, "nothing is kept of those that are done");
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let turns = Turns::default();
        let key = ClusterKey::new("n", "a");
        let first = turns.of(&key, LONG).await.unwrap();
        assert!(turns.of(&key, LONG).await.is_none(), "it never was its turn");
        assert_eq!(first.lost().await.unwrap_err().code, ErrorCode::Contended);
        drop(first);
        let next = turns.of(&key, LONG).await.unwrap();
        assert!(next.lost().await.is_ok(), "there is time to look again");
    }
}
