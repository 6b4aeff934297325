//! Probes and what the process is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::NoQuery;
use crate::operations::Readiness;

/// That the process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// What the process is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    /// The version of raygate.
    version: &'static str,
    /// The version of this API.
    api_version: &'static str,
}

/// Whether the process lives. Never asks Kubernetes.
#[utoipa::path(get, path = "/health", operation_id = "get_health", tag = "service",
    responses((status = 200, description = "It lives.", body = Health)))]
pub(super) async fn get_health(_: NoQuery) -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the process can do its work. Reports what the background found; makes no call.
#[utoipa::path(get, path = "/ready", operation_id = "get_ready", tag = "service",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It can't: the checks say why.", body = Readiness),
    ))]
pub(super) async fn get_ready(State(app): State<Arc<App>>, _: NoQuery) -> Response {
    let readiness = app.service.readiness();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

/// What the process is.
#[utoipa::path(get, path = "/version", operation_id = "get_version", tag = "service",
    responses((status = 200, description = "What it is.", body = Version)))]
pub(super) async fn get_version(_: NoQuery) -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION"), api_version: "v1" })
}
