//! Whether the service can do its work: what the background found, without any call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::{ApiError, ErrorCode, Service};
use crate::cache::FeedStatus;
use crate::clock;
use crate::manager::ManagerError;

/// Whether the service is ready, and what was looked at.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Readiness {
    /// Whether every check is passed.
    pub ready: bool,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What is wrong: `DRAINING`, `NOT_SYNCED`, `STALE`, `CRD_MISSING` or `FORBIDDEN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// How long ago the backend was heard of.
    #[serde(rename = "ageSeconds", skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

impl Service {
    /// Whether the service can do its work.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let draining = self.draining.load(Ordering::Relaxed);
        let process =
            Check { name: "process".into(), ok: !draining, code: draining.then_some("DRAINING"), age_seconds: None };
        // Which namespaces there are isn't for everybody.
        let open = self.access.is_open();
        let named = |feed: FeedStatus| {
            let what = feed.what.split(' ').next().filter(|_| !open).map(str::to_owned).unwrap_or(feed.what);
            FeedStatus { what, ..feed }
        };
        let feeds = self.cache.feeds().into_iter().map(named).map(|feed| check(feed, self.settings.max_staleness));
        let checks: Vec<_> = [process].into_iter().chain(feeds).collect();
        Readiness { ready: checks.iter().all(|check| check.ok), checks }
    }

    /// Writes wait until the backend has been heard of again.
    pub(super) fn fresh(&self) -> Result<(), ApiError> {
        self.known()?;
        if self.cache.age(clock::instant()).is_some_and(|age| age <= self.settings.max_staleness) {
            return Ok(());
        }
        let detail = "Kubernetes hasn't been heard of for too long; nothing is written until it is.";
        Err(ApiError::new(ErrorCode::Unavailable, detail).retry())
    }
}

fn check(feed: FeedStatus, max_staleness: Duration) -> Check {
    let stale = feed.age.is_none_or(|age| age > max_staleness);
    let code = match &feed.failure {
        Some(ManagerError::CrdMissing) => Some("CRD_MISSING"),
        Some(ManagerError::Forbidden(_)) => Some("FORBIDDEN"),
        _ if !feed.synced => Some("NOT_SYNCED"),
        _ if stale => Some("STALE"),
        _ => None,
    };
    Check { name: feed.what, ok: code.is_none(), code, age_seconds: feed.age.map(|age| age.as_secs()) }
}
