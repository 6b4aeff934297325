//! `/clusters/{ref}/stop`, `/start` and `/restart`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;

use super::App;
use super::clusters::{JSON, written_answer};
use super::error::Problems;
use super::extract::{Reference, must_accept};
use super::terms::{ClusterPath, DryRun, Guarded, Repeatable, terms};
use crate::access::Caller;
use crate::operations::{ApiError, ErrorCode, Run};
use crate::ray::render::Cluster;

/// Stop a cluster.
///
/// Its nodes go; its name, spec and owner stay. `STOPPED` once no node is left.
#[utoipa::path(post, path = "/clusters/{ref}/stop", operation_id = "stop_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Guarded),
    responses(
        (status = 200, description = "It is to be stopped already.", body = Cluster, content_type = "application/json"),
        (status = 202, description = "It stops.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn stop_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    run(&app, &caller, &reference, &parts, Run::Stop).await
}

/// Start a stopped cluster.
#[utoipa::path(post, path = "/clusters/{ref}/start", operation_id = "start_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Guarded),
    responses(
        (status = 200, description = "It isn't stopped.", body = Cluster, content_type = "application/json"),
        (status = 202, description = "It starts.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn start_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    run(&app, &caller, &reference, &parts, Run::Start).await
}

/// Restart a cluster.
///
/// All its nodes go, then new ones are made, by what the cluster is now. What runs on it ends.
#[utoipa::path(post, path = "/clusters/{ref}/restart", operation_id = "restart_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Guarded, Repeatable),
    responses(
        (status = 200, description = "It is being restarted already, or has been by the same request.", body = Cluster,
            content_type = "application/json"),
        (status = 202, description = "It restarts.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn restart_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    run(&app, &caller, &reference, &parts, Run::Restart).await
}

async fn run(app: &App, caller: &Caller, reference: &str, parts: &Parts, run: Run) -> Result<Response, ApiError> {
    must_accept(parts, JSON)?;
    let (terms, _) = terms(parts, &[])?;
    let length = parts.headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    if length || parts.headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::new(ErrorCode::Malformed, "This takes no body."));
    }
    let written = app.service.run(caller, reference, run, &terms).await?;
    let status = if written.changed.is_empty() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(written_answer(app, status, &written))
}
