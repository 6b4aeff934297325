//! `/clusters/{ref}/workerGroups/{group}`.
#![expect(unused_qualifications, reason = "utoipa's macros write them")]

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::clusters::{JSON, answer_with};
use super::error::Problems;
use super::extract::{GroupReference, Sent, must_accept};
use super::terms::{DryRun, Guarded, RESTART, Restarting, terms};
use crate::access::Caller;
use crate::operations::{ApiError, ErrorCode, Written};
use crate::ray::document::WorkerGroup;
use crate::ray::fault::Warning;
use crate::ray::status::GroupStatus;

/// The path of a worker group.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it is described, never made")]
struct GroupPath {
    /// The cluster: `name`, in your default namespace, or `name.namespace`.
    r#ref: String,
    /// The worker group's name.
    group: String,
}

/// A worker group: its members as a cluster's document has them, and what only the server writes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerGroupAnswer)]
struct Answer {
    #[serde(flatten)]
    #[schema(ignore)]
    members: Map<String, Value>,
    /// How many of its nodes are where.
    status: GroupStatus,
    /// What was taken and should be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<Warning>,
}

/// Change a worker group.
///
/// A merge patch (RFC 7396) of its part of the document: `{"replicas": 3}` scales it.
#[utoipa::path(patch, path = "/clusters/{ref}/workerGroups/{group}", operation_id = "patch_worker_group", tag = "clusters",
    params(GroupPath, DryRun, Restarting, Guarded),
    request_body(content((Object = "application/merge-patch+json"), (Object = "application/json"), (Object = "application/yaml"))),
    responses(
        (status = 200, description = "The worker group as it now is; the ETag is the cluster's.", body = Answer, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn patch_worker_group(
    State(app): State<Arc<App>>,
    caller: Caller,
    GroupReference(reference, group): GroupReference,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[RESTART])?;
    let written = app.service.patch_group(&caller, (&reference, &group), (format, &body), &terms).await?;
    answer(&app, StatusCode::OK, &group, &written)
}

/// Replace a worker group, or add one.
///
/// Takes `If-Match` with the cluster's ETag.
#[utoipa::path(put, path = "/clusters/{ref}/workerGroups/{group}", operation_id = "put_worker_group", tag = "clusters",
    params(GroupPath, DryRun, Restarting, Guarded),
    request_body(content((WorkerGroup = "application/json"), (WorkerGroup = "application/yaml"))),
    responses(
        (status = 200, description = "The worker group as it now is; the ETag is the cluster's.", body = Answer, content_type = "application/json"),
        (status = 201, description = "The new worker group; the ETag is the cluster's.", body = Answer, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn put_worker_group(
    State(app): State<Arc<App>>,
    caller: Caller,
    GroupReference(reference, group): GroupReference,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[RESTART])?;
    let (written, is_new) = app.service.put_group(&caller, (&reference, &group), (format, &body), &terms).await?;
    answer(&app, if is_new { StatusCode::CREATED } else { StatusCode::OK }, &group, &written)
}

/// Drop a worker group.
///
/// Its nodes go, and nobody else's; then the name is free. Takes `If-Match` with the cluster's ETag.
#[utoipa::path(delete, path = "/clusters/{ref}/workerGroups/{group}", operation_id = "delete_worker_group", tag = "clusters",
    params(GroupPath, DryRun, Guarded),
    responses(
        (status = 202, description = "The nodes that are left of it; the ETag is the cluster's.", body = Answer, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn delete_worker_group(
    State(app): State<Arc<App>>,
    caller: Caller,
    GroupReference(reference, group): GroupReference,
    parts: Parts,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[])?;
    let written = app.service.delete_group(&caller, (&reference, &group), &terms).await?;
    answer(&app, StatusCode::ACCEPTED, &group, &written)
}

/// The answer to a write to a worker group: its part of the cluster.
fn answer(app: &App, status: StatusCode, group: &str, written: &Written) -> Result<Response, ApiError> {
    #[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
    fn unreadable(error: serde_json::Error) -> ApiError {
        ApiError::new(ErrorCode::Internal, "The worker group can't be shown.").cause(&error)
    }
    let cluster: Value = serde_json::from_slice(&written.cluster.face().rendered).map_err(unreadable)?;
    let members = cluster["workerGroups"][group].as_object().cloned().unwrap_or_default();
    let status_of = cluster["status"]["workerGroups"].get(group).cloned();
    let status_of = status_of.map(serde_json::from_value).transpose().map_err(unreadable)?;
    let answer = Answer { members, status: status_of.unwrap_or_default(), warnings: written.warnings.clone() };
    let body = serde_json::to_vec(&answer).map_err(unreadable)?;
    Ok(answer_with(app, status, body.into(), written))
}
