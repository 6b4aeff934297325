//! Stop a cluster, start it again, or make all its nodes anew.

use serde_json::{Value, json};

use super::error::from_manager;
use super::{ApiError, ErrorCode, Guard, Service, Terms, Written, owned, repeat};
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
        let mark = repeat::restart_mark(caller, &key, terms.key.as_deref(), &Value::Null);
        let turn = self.turn(caller, run.action(), &key).await?;
        loop {
            if run == Run::Restart
                && let Some(replayed) = self.restarted_before(caller, &key, &mark, terms).await?
            {
                return Ok(replayed);
            }
            let held = self.held_now(caller, &key, &terms.guard).await?;
            let Some(patch) = patch(run, &held.raw, &mark, terms.key.is_some())? else {
                return Ok(self.written(caller, &held, Vec::new(), terms));
            };
            let found_one = run == Run::Restart && begun::is_restarting(&held.raw);
            let mut wanted = held.raw.clone();
            json::merge(&mut wanted, &patch);
            owned::check(&held.raw, &wanted)?;
            let attempt = self.attempt(&key, &held, &patch, terms).await.map_err(|error| from_manager(error, &key))?;
            if let Some(observed) = attempt {
                let changes = if found_one { Vec::new() } else { json::changes(&held.raw, &wanted) };
                return Ok(self.written(caller, &observed, changes, terms));
            }
            turn.lost().await?;
        }
    }

    /// The answer to a request whose `Idempotency-Key` has restarted the cluster before. It is looked for before any guard,
    /// which the same request has spoilt.
    ///
    /// # Errors
    /// `IDEMPOTENCY_KEY_REUSED` where the request was another.
    pub(super) async fn restarted_before(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        mark: &str,
        terms: &Terms,
    ) -> Result<Option<Written>, ApiError> {
        if terms.key.is_none() {
            return Ok(None);
        }
        let held = match self.held_now(caller, key, &Guard::default()).await {
            Err(error) if error.code == ErrorCode::NotFound => return Ok(None),
            other => other?,
        };
        if begun::is_marked(&held.raw, mark) {
            return Ok(Some(Written { replayed: true, ..self.written(caller, &held, Vec::new(), terms) }));
        }
        if begun::is_marked_otherwise(&held.raw, mark) {
            let detail = format!("This `Idempotency-Key` has restarted the cluster {key}, by another request.");
            return Err(ApiError::new(ErrorCode::IdempotencyKeyReused, detail).hint("Use a new key for a new request."));
        }
        Ok(None)
    }
}

/// What to change of a cluster; nothing where it is so already.
fn patch(run: Run, held: &Value, mark: &str, has_key: bool) -> Result<Option<Value>, ApiError> {
    let is_stopped = view(held).document.is_set("suspended");
    Ok(match run {
        Run::Stop if is_stopped => None,
        // Also one that is being restarted: it doesn't start again.
        Run::Stop if begun::is_restarting(held) => Some(begun::restart_end(held, false)),
        Run::Stop => Some(json!({"spec": {"suspend": true}})),
        Run::Start if !is_stopped => None,
        // The operator resumes a cluster only at an explicit `false`: where the member was taken away, it is written too.
        Run::Start => Some(json!({"spec": {"suspend": false}})),
        Run::Restart if begun::is_restarting(held) => has_key.then(|| begun::remember(held, mark)),
        Run::Restart => {
            owned::check_suspension(held)?;
            Some(begun::restart(mark))
        }
    })
}
