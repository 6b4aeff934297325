//! Proof of life: when a watch last heard of its backend.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ManagerError;
use crate::clock;

/// When a watch last heard of its backend, and what went wrong since; shared between the watch and who asks.
#[derive(Clone, Default)]
pub struct ProofOfLife(Option<Arc<Mutex<Heard>>>);

#[derive(Default)]
struct Heard {
    last: Option<Instant>,
    failure: Option<ManagerError>,
}

impl ProofOfLife {
    /// Of a backend that must be heard of from time to time.
    #[must_use]
    pub fn awaited() -> Self {
        Self(Some(Arc::default()))
    }

    /// Of a backend inside the process, which lives as long as it.
    #[must_use]
    pub fn always() -> Self {
        Self(None)
    }

    /// Something came from the backend just now. It proves nothing while the last answer made no sense.
    pub fn heard(&self) {
        self.update(|heard| {
            let senseless = heard.failure.as_ref().is_some_and(|failure| {
                !matches!(failure, ManagerError::Unavailable(_) | ManagerError::CrdMissing | ManagerError::Forbidden(_))
            });
            if !senseless {
                heard.last = Some(clock::instant());
                heard.failure = None;
            }
        });
    }

    /// The backend gave an answer that made sense just now.
    pub fn understood(&self) {
        self.update(|heard| {
            heard.last = Some(clock::instant());
            heard.failure = None;
        });
    }

    /// The backend failed to serve the watch, for this reason.
    pub fn failed(&self, error: ManagerError) {
        self.update(|heard| heard.failure = Some(error));
    }

    /// How long ago the backend was heard of; `None` if never.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let Some(heard) = &self.0 else {
            return Some(Duration::ZERO);
        };
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.last.map(|last| now.saturating_duration_since(last))
    }

    /// What went wrong since the backend was last heard of.
    #[must_use]
    pub fn failure(&self) -> Option<ManagerError> {
        let heard = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        heard.failure.clone()
    }

    fn update(&self, change: impl FnOnce(&mut Heard)) {
        if let Some(heard) = &self.0 {
            change(&mut heard.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
