//! Stop a cluster, and start it again.

use serde_json::json;

use super::error::from_manager;
use super::{ApiError, Guard, Service, Written, owned};
use crate::access::{Action, Caller};
use crate::ray::json;
use crate::ray::lens::view;

impl Service {
    /// Has a cluster stopped (its name, spec and owner stay) or started again. What it changed is nothing where the cluster
    /// was so already.
    ///
    /// The operator resumes a cluster only at an explicit `false`: where the member was taken away, it is written too.
    ///
    /// # Errors
    /// No such cluster; it isn't the caller's; a guard that doesn't hold; a controller owns it.
    pub async fn run(&self, caller: &Caller, reference: &str, stop: bool, guard: &Guard) -> Result<Written, ApiError> {
        let action = if stop { Action::StopCluster } else { Action::StartCluster };
        let key = self.resolve(caller, action, reference)?;
        self.fresh()?;
        loop {
            let held = self.held_now(caller, &key, guard).await?;
            let written = |observed, changed| {
                Ok(Written { cluster: self.shown_written(caller, observed), changed, warnings: Vec::new() })
            };
            if view(&held.raw).document.is_set("suspended") == stop {
                return written(&held, Vec::new());
            }
            let patch = json!({"spec": {"suspend": stop}});
            let mut wanted = held.raw.clone();
            json::merge(&mut wanted, &patch);
            owned::check(&held.raw, &wanted)?;
            let attempt = self.attempt(&key, &held, &patch).await.map_err(|error| from_manager(error, &key))?;
            if let Some(observed) = attempt {
                return written(&observed, json::changes(&held.raw, &wanted));
            }
        }
    }
}
