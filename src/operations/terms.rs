//! What a request says of a write besides what is to be written.

use serde_json::Value;

use super::{ApiError, ErrorCode};
use crate::ray::revision::revision;

/// On what terms a write is to be carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// What must hold.
    pub guard: Guard,
    /// `dryRun=All`: checked and answered as ever, stored never.
    pub dry_run: bool,
    /// `restart=true`: all nodes are made anew with it.
    pub restart: bool,
    /// `Idempotency-Key`: the same request again does nothing again.
    pub key: Option<String>,
}

/// What must hold for a write to be carried out: `If-Match`, `If-None-Match` and `uid`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// `If-Match`: the cluster must exist and have one of these revisions; an empty list is `*`, any.
    pub revisions: Option<Vec<String>>,
    /// `If-None-Match: *`: it must not exist.
    pub absent: bool,
    /// It must have this uid.
    pub uid: Option<String>,
}

impl Guard {
    /// Whether it holds of what there is.
    ///
    /// # Errors
    /// `PRECONDITION_FAILED`.
    pub(super) fn check(&self, held: Option<&Value>) -> Result<(), ApiError> {
        let failed = |detail: &str| Err(ApiError::new(ErrorCode::PreconditionFailed, detail));
        let Some(held) = held else {
            let wanted = self.revisions.is_some() || self.uid.is_some();
            return if wanted { failed("There is no cluster of this name.") } else { Ok(()) };
        };
        if self.absent {
            return Err(exists());
        }
        if self.uid.as_ref().is_some_and(|uid| held["metadata"]["uid"] != **uid) {
            return failed("The cluster of this name has another uid: it isn't the one that is meant.");
        }
        match &self.revisions {
            Some(revisions) if !revisions.is_empty() && !revisions.contains(&revision(held)) => {
                failed("The cluster has changed since it was read; read it again.")
            }
            _ => Ok(()),
        }
    }

    /// Refuses a write that replaces something without saying what.
    ///
    /// # Errors
    /// `PRECONDITION_REQUIRED`.
    pub(super) fn must_match(&self, what: &str) -> Result<(), ApiError> {
        if self.revisions.is_some() {
            return Ok(());
        }
        let hint = "Send `If-Match` with the ETag that was read (or `*` for whatever is there).";
        Err(ApiError::new(ErrorCode::PreconditionRequired, format!("{what} takes `If-Match`.")).hint(hint))
    }
}

/// What `If-None-Match: *` is refused with.
pub(super) fn exists() -> ApiError {
    ApiError::new(ErrorCode::PreconditionFailed, "There is a cluster of this name already.")
}
