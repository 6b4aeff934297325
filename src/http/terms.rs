//! On what terms a write is asked for: its headers and query, read and described once for all routes.

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use utoipa::IntoParams;

use super::extract::Query;
use crate::operations::{ApiError, ErrorCode, Guard, Terms};
use crate::ray::fault::{Fault, FaultCode};

/// The query parameter of a write that makes all nodes anew as well.
pub(super) const RESTART: &str = "restart";

/// Longest `Idempotency-Key`, in bytes.
const LONGEST_KEY: usize = 255;

/// The path of one cluster.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct ClusterPath {
    /// `name`, in your default namespace, or `name.namespace`.
    r#ref: String,
}

/// What every write takes.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct DryRun {
    /// `All`: checked and answered as ever, stored never.
    #[param(rename = "dryRun")]
    dry_run: Option<String>,
}

/// What every write takes that may change what nodes are made of.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct Restarting {
    /// `true`: all nodes are made anew with it.
    restart: Option<bool>,
}

/// What every write takes but a create.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct Guarded {
    /// The ETag that was read: refused if the cluster has changed since. `*` means whatever is there.
    #[param(rename = "if-match")]
    if_match: Option<String>,
}

/// What a `POST` takes that does something again each time.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct Repeatable {
    /// A text of your own, new for each request, at most 255 bytes: the same request with it again does nothing again.
    #[param(rename = "idempotency-key")]
    idempotency_key: Option<String>,
}

/// The terms of a write that takes these query parameters besides `dryRun`, and the query.
pub(super) fn terms(parts: &Parts, known: &[&str]) -> Result<(Terms, Query), ApiError> {
    let query = Query::read(parts, &[known, &["dryRun"]].concat())?;
    let dry_run = match query.get("dryRun") {
        None => false,
        Some("All") => true,
        Some(other) => {
            let message = format!("`{other}` is no way to run dry.");
            let fault = Fault::new("?dryRun", FaultCode::InvalidParameter, message).allowing(["All"]);
            return Err(ApiError::faulty(fault.into()));
        }
    };
    let terms = Terms { guard: guard(parts)?, dry_run, restart: query.flag(RESTART)?, key: key(parts)? };
    Ok((terms, query))
}

/// The request's `Idempotency-Key`.
fn key(parts: &Parts) -> Result<Option<String>, ApiError> {
    const NAME: HeaderName = HeaderName::from_static("idempotency-key");
    let mut given = parts.headers.get_all(NAME).iter();
    let Some(first) = given.next() else { return Ok(None) };
    let is_key = |key: &&str| (1..=LONGEST_KEY).contains(&key.len()) && !key.contains('\t');
    match first.to_str().ok().filter(is_key) {
        Some(key) if given.next().is_none() => Ok(Some(key.to_owned())),
        _ => {
            let detail = format!("`Idempotency-Key` is one text of 1 to {LONGEST_KEY} visible ASCII characters.");
            Err(ApiError::new(ErrorCode::Malformed, detail))
        }
    }
}

/// What the request says must hold. Of an entity tag in `If-Match` only the revision counts, so that a status that ticks
/// spoils no edit, whatever a proxy did to make the tag weak.
fn guard(parts: &Parts) -> Result<Guard, ApiError> {
    let wrong = |detail: &str| Err(ApiError::new(ErrorCode::Malformed, detail));
    let absent = match tags(parts, &IF_NONE_MATCH) {
        None => false,
        Some(tags) if tags == ["*"] => true,
        Some(_) => return wrong("Of a write `If-None-Match` can only be `*`: create, never replace."),
    };
    let guard = |revisions| Ok(Guard { revisions, absent, uid: None });
    let Some(tags) = tags(parts, &IF_MATCH) else { return guard(None) };
    if tags == ["*"] {
        return guard(Some(Vec::new()));
    }
    let revision = |tag: &String| Some(tag.strip_prefix('"')?.strip_suffix('"')?.split('.').next()?.to_owned());
    match tags.iter().map(revision).collect::<Option<Vec<_>>>() {
        Some(revisions) if !revisions.is_empty() => guard(Some(revisions)),
        _ => wrong("`If-Match` takes entity tags as the header `ETag` gave them, or `*`."),
    }
}

/// The entity tags of a conditional header, without the mark of weak ones (RFC 9110, section 8.8.3).
pub(super) fn tags(parts: &Parts, name: &HeaderName) -> Option<Vec<String>> {
    let mut values = parts.headers.get_all(name).iter().peekable();
    values.peek()?;
    let tags = values.flat_map(|value: &HeaderValue| value.to_str().unwrap_or("?").split(','));
    Some(tags.map(str::trim).map(|tag| tag.strip_prefix("W/").unwrap_or(tag).to_owned()).collect())
}
