//! The API's description, and a page to read and try it; both from the binary, with relative links only.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use utoipa_swagger_ui::serve;

use super::App;
use super::extract::NoQuery;
use crate::operations::{ApiError, ErrorCode};

/// The description of this API (OpenAPI 3.1).
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "service",
    responses((status = 200, description = "The description.", body = Object, content_type = "application/json")))]
pub(super) async fn get_openapi(State(app): State<Arc<App>>, _: NoQuery) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}

/// `/` leads to the page.
pub(super) async fn get_root() -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "docs/")]).into_response()
}

/// `/docs` leads to the page: a relative link of it needs the slash.
pub(super) async fn get_docs_redirect() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]).into_response()
}

/// The page.
pub(super) async fn get_docs(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    page(&app, "")
}

/// A file of the page.
pub(super) async fn get_docs_file(State(app): State<Arc<App>>, Path(file): Path<String>) -> Result<Response, ApiError> {
    page(&app, &file)
}

fn page(app: &App, file: &str) -> Result<Response, ApiError> {
    let found = serve(file, Arc::clone(&app.swagger))
        .map_err(|error| ApiError::new(ErrorCode::Internal, "The page can't be shown.").cause(&error))?;
    let found = found.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "The page has no such file."))?;
    Ok(([(CONTENT_TYPE, found.content_type)], found.bytes.into_owned()).into_response())
}
