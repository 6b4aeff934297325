//! What the process counts, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use super::App;
use super::extract::NoQuery;
use crate::metrics::MEDIA_TYPE;
use crate::operations::{ApiError, ErrorCode};

/// What the process counts, for Prometheus (OpenMetrics 1.0).
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics", tag = "service",
    responses((status = 200, description = "The counters.", body = String, content_type = "application/openmetrics-text")))]
pub(super) async fn get_metrics(State(app): State<Arc<App>>, _: NoQuery) -> Result<Response, ApiError> {
    let text = app.metrics.text().map_err(|error| {
        ApiError::new(ErrorCode::Internal, "What the process counts can't be written down.").cause(&error)
    })?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}
