//! `/clusters`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE, LOCATION, VARY};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::error::Problems;
use super::extract::{NoQuery, Query, Reference, Sent, must_accept};
use crate::access::Caller;
use crate::operations::{ApiError, ListQuery, Written};
use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode, Warning};
use crate::ray::render::Cluster;

const JSON: &str = "application/json";

/// Items of a page where the client doesn't say.
const DEFAULT_LIMIT: usize = 100;
/// Most items of a page.
const MAX_LIMIT: usize = 1000;

/// A page of clusters: the schema of an answer that is written around bytes which are there already.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterList {
    /// The clusters, by namespace and name.
    items: Vec<Cluster>,
    /// Where the next page begins: the value of `pageToken` for it. Absent on the last page.
    next_page_token: Option<String>,
    /// Parts of the selection that can't be reached at the moment; empty when the page is complete.
    unreachable: Vec<String>,
}

/// List clusters.
///
/// By namespace and name; a page at a time. Pages neither repeat nor skip a cluster that is there throughout.
#[utoipa::path(get, path = "/clusters", operation_id = "list_clusters", tag = "clusters",
    params(
        ("namespace" = Option<String>, Query, description = "A namespace; `*` for all that you may see; left out it is your default namespace."),
        ("limit" = Option<u32>, Query, description = "Most items of the page, 1 to 1000; left out it is 100."),
        ("pageToken" = Option<String>, Query, description = "`nextPageToken` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of clusters.", body = ClusterList, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn list_clusters(
    State(app): State<Arc<App>>,
    caller: Caller,
    parts: Parts,
) -> Result<Response, ApiError> {
    let query = Query::read(&parts, &["namespace", "limit", "pageToken"])?;
    must_accept(&parts, JSON)?;
    let query = ListQuery {
        selection: query.selection(),
        limit: limit(query.get("limit"))?,
        page_token: query.get("pageToken").map(str::to_owned),
    };
    let page = app.service.list(&caller, &query)?;

    let size: usize = page.items.iter().map(|entry| entry.rendered.len() + 1).sum();
    let mut body = BytesMut::with_capacity(size + 256);
    body.put_slice(br#"{"items":["#);
    for (at, entry) in page.items.iter().enumerate() {
        if at > 0 {
            body.put_u8(b',');
        }
        body.put_slice(&entry.rendered);
    }
    body.put_slice(b"]");
    if let Some(token) = page.next_page_token {
        body.put_slice(br#","nextPageToken":"#);
        body.put_slice(serde_json::Value::from(token).to_string().as_bytes());
    }
    body.put_slice(br#","unreachable":[]}"#);
    Ok(answer(&app, StatusCode::OK, body.freeze(), true))
}

fn limit(given: Option<&str>) -> Result<usize, ApiError> {
    let Some(given) = given else { return Ok(DEFAULT_LIMIT) };
    given.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
        let message = format!("`{given}` is no limit; it is a number from 1 to {MAX_LIMIT}.");
        ApiError::faulty(Fault::new("?limit", FaultCode::InvalidParameter, message).into())
    })
}

/// Create a cluster.
///
/// `{"name": "demo"}` alone is a cluster. All faults of a document are told at once.
#[utoipa::path(post, path = "/clusters", operation_id = "create_cluster", tag = "clusters",
    request_body(content = Document, content_type = "application/json"),
    responses(
        (status = 201, description = "The new cluster.", body = Cluster, content_type = "application/json",
            headers(("location" = String, description = "The cluster, relative to the request's URL."))),
        Problems,
    ))]
pub(super) async fn create_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    _: NoQuery,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let Written { entry, warnings } = app.service.create(&caller, format, &body).await?;
    let mut response = answer(&app, StatusCode::CREATED, with_warnings(&entry.rendered, &warnings), false);
    if let Ok(location) = HeaderValue::try_from(format!("clusters/{}", entry.key)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Read a cluster.
#[utoipa::path(get, path = "/clusters/{ref}", operation_id = "get_cluster", tag = "clusters",
    params(("ref" = String, Path, description = "`name`, in your default namespace, or `name.namespace`.")),
    responses(
        (status = 200, description = "The cluster.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn get_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    _: NoQuery,
    parts: Parts,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let entry = app.service.get(&caller, &reference)?;
    Ok(answer(&app, StatusCode::OK, entry.rendered.clone(), true))
}

/// Read the RayCluster behind a cluster.
///
/// As Kubernetes holds it, without `managedFields`.
#[utoipa::path(get, path = "/clusters/{ref}/manifest", operation_id = "get_cluster_manifest", tag = "clusters",
    params(("ref" = String, Path, description = "`name`, in your default namespace, or `name.namespace`.")),
    responses(
        (status = 200, description = "The RayCluster.", body = Object, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn get_cluster_manifest(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    _: NoQuery,
    parts: Parts,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let entry = app.service.manifest(&caller, &reference)?;
    Ok(answer(&app, StatusCode::OK, entry.object.clone(), true))
}

/// Delete a cluster.
///
/// In the foreground: the cluster is `DELETING` until nothing of it is left, then there is none.
#[utoipa::path(delete, path = "/clusters/{ref}", operation_id = "delete_cluster", tag = "clusters",
    params(("ref" = String, Path, description = "`name`, in your default namespace, or `name.namespace`.")),
    responses(
        (status = 202, description = "The cluster, on its way out.", body = Cluster, content_type = "application/json"),
        (status = 204, description = "Nothing of it was left at once."),
        Problems,
    ))]
pub(super) async fn delete_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    _: NoQuery,
    parts: Parts,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    Ok(match app.service.delete(&caller, &reference).await? {
        Some(entry) => answer(&app, StatusCode::ACCEPTED, entry.rendered.clone(), false),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// A rendered cluster with what its writer should know as its last member.
fn with_warnings(rendered: &Bytes, warnings: &[Warning]) -> Bytes {
    let (Ok(warnings), false) = (serde_json::to_vec(warnings), warnings.is_empty()) else { return rendered.clone() };
    let mut body = BytesMut::from(rendered.strip_suffix(b"}").unwrap_or(rendered));
    body.put_slice(br#","warnings":"#);
    body.put_slice(&warnings);
    body.put_u8(b'}');
    body.freeze()
}

/// An answer of JSON that is there already; from the cache it says how old it may be.
fn answer(app: &App, status: StatusCode, body: Bytes, cached: bool) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding, Authorization"));
    if cached && let Some(age) = app.service.age_seconds() {
        headers.insert(AGE, age.into());
    }
    response
}
