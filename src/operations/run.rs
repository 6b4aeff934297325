//! Stop a cluster, start it again, or make all its nodes anew.

use serde_json::{Value, json};

use super::error::from_manager;
use super::{ApiError, Guard, Service, Terms, Written, owned, repeat};
use crate::access::{Action, Caller};
use crate::ray::begun;
use crate::ray::json;
use crate::ray::lens::view;
use crate::ray::name::ClusterKey;

/// What is to become of a cluster's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// They go; the cluster's name, spec and owner stay.
    Stop,
    /// There are nodes again.
    Start,
    /// They go, and new ones come.
    Restart,
}

impl Run {
    fn action(self) -> Action {
        match self {
            Self::Stop => Action::StopCluster,
            Self::Start => Action::StartCluster,
            Self::Restart => Action::RestartCluster,
        }
    }
}

impl Service {
    /// Has a cluster stopped, started or restarted. What it changed is nothing where that is so, or under way, already.
    ///
    /// A restart stops the cluster and leaves a mark on it: the replica that sees the suspension take hold starts it again.
    /// One that is stopped is just started.
    ///
    /// # Errors
    /// No such cluster; it isn't the caller's; a guard that doesn't hold; a controller owns it.
    pub async fn run(&self, caller: &Caller, reference: &str, run: Run, terms: &Terms) -> Result<Written, ApiError> {
        let key = self.resolve(caller, run.action(), reference)?;
        self.fresh()?;
        let mark = mark(caller, &key, terms);
        let turn = self.turn(&key).await?;
        loop {
            if run == Run::Restart && terms.key.is_some() {
                // Before the guard, which the same request has spoilt.
                let held = self.held_now(caller, &key, &Guard::default()).await?;
                if begun::is_marked(&held.raw, &mark) {
                    return Ok(Written { replayed: true, ..self.written(caller, &held, Vec::new(), terms) });
                }
            }
            let held = self.held_now(caller, &key, &terms.guard).await?;
            let Some(patch) = patch(run, &held.raw, &mark)? else {
                return Ok(self.written(caller, &held, Vec::new(), terms));
            };
            let mut wanted = held.raw.clone();
            json::merge(&mut wanted, &patch);
            owned::check(&held.raw, &wanted)?;
            let attempt = self.attempt(&key, &held, &patch, terms).await.map_err(|error| from_manager(error, &key))?;
            if let Some(observed) = attempt {
                return Ok(self.written(caller, &observed, json::changes(&held.raw, &wanted), terms));
            }
            turn.lost().await?;
        }
    }
}

/// What tells a restart from others: of the request's `Idempotency-Key`, where it has one.
pub(super) fn mark(caller: &Caller, key: &ClusterKey, terms: &Terms) -> String {
    let keyed = terms.key.as_ref().map(|said| repeat::Key::mark(caller, &format!("restart {key}"), said));
    begun::restart_mark(&keyed.unwrap_or_else(repeat::random))
}

/// What to change of a cluster; nothing where it is so already.
fn patch(run: Run, held: &Value, mark: &str) -> Result<Option<Value>, ApiError> {
    let is_stopped = view(held).document.is_set("suspended");
    Ok(match run {
        Run::Stop if is_stopped => None,
        // Also one that is being restarted: it doesn't start again.
        Run::Stop if begun::is_restarting(held) => Some(begun::restart_end(held, false)),
        Run::Stop => Some(json!({"spec": {"suspend": true}})),
        Run::Start if !is_stopped => None,
        // The operator resumes a cluster only at an explicit `false`: where the member was taken away, it is written too.
        Run::Start => Some(json!({"spec": {"suspend": false}})),
        Run::Restart if begun::is_restarting(held) => None,
        Run::Restart => {
            owned::check_suspension(held)?;
            Some(begun::restart(mark))
        }
    })
}
