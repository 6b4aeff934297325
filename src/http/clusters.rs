//! `/clusters`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::audit;
use super::error::Problems;
use super::extract::{FRESHNESS, Fresh, Query, Reference, Sent, must_accept, quality};
use super::terms::{ClusterPath, DryRun, Guarded, RESTART, Repeatable, Restarting, tags, terms};
use crate::access::Caller;
use crate::cache::Face;
use crate::operations::{ApiError, Deleted, ListQuery, Written};
use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode, Warning};
use crate::ray::render::Cluster;

pub(super) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Says that the answer is that of a request before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

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

/// Whose a cluster is to be.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnerChange {
    /// The new owner's name; `null` is nobody.
    #[schema(required = true)]
    owner: Option<String>,
}

/// List clusters.
///
/// By namespace and name; a page at a time. Pages neither repeat nor skip a cluster that is there throughout.
#[utoipa::path(get, path = "/clusters", operation_id = "list_clusters", tag = "clusters",
    params(Fresh,
        ("namespace" = Option<String>, Query, description = "A namespace; `*` for all that you may see; left out it is your default namespace."),
        ("labelSelector" = Option<String>, Query, description = "Labels that the clusters must carry, in Kubernetes' syntax: `team=blue`, `tier in (a,b)`, `!draft`; at most 4096 bytes."),
        ("owner" = Option<String>, Query, description = "Only the clusters of this owner; `me` is whoever asks."),
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
    let known = ["namespace", "labelSelector", "owner", "limit", "pageToken"];
    let query = Query::read(&parts, &[&known[..], &FRESHNESS].concat())?;
    must_accept(&parts, JSON)?;
    let query = ListQuery {
        selection: query.selection(),
        limit: limit(query.get("limit"))?,
        page_token: query.get("pageToken").map(str::to_owned),
        freshness: query.freshness()?,
    };
    let page = app.service.list(&caller, &query).await?;

    let size: usize = page.items.iter().map(|cluster| cluster.face().rendered.len() + 1).sum();
    let mut body = BytesMut::with_capacity(size + 256);
    body.put_slice(br#"{"items":["#);
    for (at, cluster) in page.items.iter().enumerate() {
        if at > 0 {
            body.put_u8(b',');
        }
        body.put_slice(&cluster.face().rendered);
    }
    body.put_slice(b"]");
    if let Some(token) = page.next_page_token {
        body.put_slice(br#","nextPageToken":"#);
        body.put_slice(serde_json::Value::from(token).to_string().as_bytes());
    }
    body.put_slice(br#","unreachable":[]}"#);
    Ok(answer(&app, StatusCode::OK, body.freeze(), !page.read_through))
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
    params(DryRun, Repeatable),
    request_body(content((Document = "application/json"), (Document = "application/yaml"))),
    responses(
        (status = 200, description = "The cluster that a request with the same `Idempotency-Key` and body has made.", body = Cluster,
            content_type = "application/json", headers(("idempotency-replayed" = String, description = "`true`."))),
        (status = 201, description = "The new cluster.", body = Cluster, content_type = "application/json",
            headers(("location" = String, description = "The cluster, relative to the request's URL."))),
        Problems,
    ))]
pub(super) async fn create_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[])?;
    let written = app.service.create(&caller, (format, &body), &terms).await?;
    Ok(created_answer(&app, &written, "clusters/"))
}

/// Read a cluster.
#[utoipa::path(get, path = "/clusters/{ref}", operation_id = "get_cluster", tag = "clusters",
    params(ClusterPath, Fresh),
    responses(
        (status = 200, description = "The cluster.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn get_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    let freshness = Query::read(&parts, &FRESHNESS)?.freshness()?;
    must_accept(&parts, JSON)?;
    let (cluster, read_through) = app.service.get(&caller, &reference, freshness).await?;
    let face = cluster.face();
    let tag = face.etag();
    let known =
        tags(&parts, &IF_NONE_MATCH).is_some_and(|tags| tags.iter().any(|known| known == "*" || *known == *tag));
    let (status, body) =
        if known { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, face.rendered.clone()) };
    Ok(tagged(answer(&app, status, body, !read_through), face))
}

/// Read the RayCluster behind a cluster.
///
/// As Kubernetes holds it, without `managedFields`.
#[utoipa::path(get, path = "/clusters/{ref}/manifest", operation_id = "get_cluster_manifest", tag = "clusters",
    params(ClusterPath, Fresh),
    responses(
        (status = 200, description = "The RayCluster.", content((Object = "application/json"), (String = "application/yaml"))),
        Problems,
    ))]
pub(super) async fn get_cluster_manifest(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    let freshness = Query::read(&parts, &FRESHNESS)?.freshness()?;
    let yaml = quality(&parts, YAML) > quality(&parts, JSON);
    if !yaml {
        must_accept(&parts, JSON)?;
    }
    let (cluster, read_through) = app.service.manifest(&caller, &reference, freshness).await?;
    let object = &cluster.face().object;
    let body = if yaml { app.service.manifest_yaml(object)? } else { object.clone() };
    let mut response = answer(&app, StatusCode::OK, body, !read_through);
    if yaml {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(YAML));
    }
    Ok(response)
}

/// Replace a cluster, or create it.
///
/// The document is taken whole: what it leaves out is taken away. A body may also be a whole RayCluster.
#[utoipa::path(put, path = "/clusters/{ref}", operation_id = "put_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Restarting, Guarded,
        ("if-none-match" = Option<String>, Header, description = "`*`: create only."),
    ),
    request_body(content((Document = "application/json"), (Document = "application/yaml"))),
    responses(
        (status = 200, description = "The cluster as it now is.", body = Cluster, content_type = "application/json"),
        (status = 201, description = "The new cluster.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn put_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[RESTART])?;
    let (written, created) = app.service.put(&caller, &reference, (format, &body), &terms).await?;
    Ok(if created { created_answer(&app, &written, "") } else { written_answer(&app, StatusCode::OK, &written) })
}

/// Change a cluster.
///
/// A merge patch (RFC 7396) of its document: members that are named are set, `null` takes one away.
#[utoipa::path(patch, path = "/clusters/{ref}", operation_id = "patch_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Restarting, Guarded),
    request_body(content((Object = "application/merge-patch+json"), (Object = "application/json"), (Object = "application/yaml"))),
    responses(
        (status = 200, description = "The cluster as it now is.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn patch_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[RESTART])?;
    let written = app.service.patch(&caller, &reference, (format, &body), &terms).await?;
    Ok(written_answer(&app, StatusCode::OK, &written))
}

/// Delete a cluster.
///
/// In the foreground: the cluster is `DELETING` until nothing of it is left, then there is none.
#[utoipa::path(delete, path = "/clusters/{ref}", operation_id = "delete_cluster", tag = "clusters",
    params(ClusterPath, DryRun, Guarded,
        ("allowMissing" = Option<bool>, Query, description = "`true`: it is no error if there is no such cluster."),
        ("uid" = Option<String>, Query, description = "The `uid` that was read: another cluster of this name isn't deleted."),
    ),
    responses(
        (status = 202, description = "The cluster, on its way out.", body = Cluster, content_type = "application/json"),
        (status = 204, description = "Nothing of it was left at once; or there was none, and that is allowed."),
        Problems,
    ))]
pub(super) async fn delete_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (mut terms, query) = terms(&parts, &["allowMissing", "uid"])?;
    terms.guard.uid = query.get("uid").map(str::to_owned);
    let gone = || StatusCode::NO_CONTENT.into_response();
    let real = !terms.dry_run;
    let (cluster, any) = match app.service.delete(&caller, &reference, query.flag("allowMissing")?, &terms).await? {
        Deleted::Started(cluster) => (cluster, real),
        Deleted::Already(cluster) => (cluster, false),
        Deleted::Done(uid) => return Ok(audit::deleted(gone(), &uid, real)),
        Deleted::Missing => return Ok(audit::deleted(gone(), "", false)),
    };
    let body = cluster.face().rendered.clone();
    Ok(audit::deleted(answer(&app, StatusCode::ACCEPTED, body, false), &cluster.entry.uid, any))
}

/// Hand a cluster over.
///
/// `{"owner": "name"}`; `null` makes it nobody's. For operators.
#[utoipa::path(post, path = "/clusters/{ref}/owner", operation_id = "set_cluster_owner", tag = "clusters",
    params(ClusterPath, DryRun, Guarded),
    request_body(content((OwnerChange = "application/json"), (OwnerChange = "application/yaml"))),
    responses(
        (status = 200, description = "The cluster as it now is.", body = Cluster, content_type = "application/json"),
        Problems,
    ))]
pub(super) async fn set_cluster_owner(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    parts: Parts,
    Sent(format, body): Sent,
) -> Result<Response, ApiError> {
    must_accept(&parts, JSON)?;
    let (terms, _) = terms(&parts, &[])?;
    let written = app.service.set_owner(&caller, &reference, (format, &body), &terms).await?;
    Ok(written_answer(&app, StatusCode::OK, &written))
}

/// The answer to a write.
pub(super) fn written_answer(app: &App, status: StatusCode, written: &Written) -> Response {
    let body = with_warnings(&written.cluster.face().rendered, &written.warnings);
    answer_with(app, status, body, written)
}

/// The answer to a write, in this form.
pub(super) fn answer_with(app: &App, status: StatusCode, body: Bytes, written: &Written) -> Response {
    let mut response = tagged(answer(app, status, body, false), written.cluster.face());
    if written.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let entry = &written.cluster.entry;
    let changed = if written.dry_run { Vec::new() } else { written.changed.clone() };
    audit::wrote(response, &entry.key, &entry.uid, changed)
}

/// The answer to a create; `way` leads from the request's folder to where clusters are (RFC 9110, section 10.2.2).
fn created_answer(app: &App, written: &Written, way: &str) -> Response {
    let status = if written.replayed { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = written_answer(app, status, written);
    if let Ok(location) = HeaderValue::try_from(format!("{way}{}", written.cluster.entry.key)) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// With the entity tag of the cluster.
fn tagged(mut response: Response, face: &Face) -> Response {
    if let Ok(tag) = HeaderValue::try_from(face.etag()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
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
