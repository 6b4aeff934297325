//! What handlers take from a request, with our words for what is wrong with it.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use utoipa::IntoParams;

use super::App;
use super::middleware::Reading;
use crate::access::Caller;
use crate::operations::{ApiError, ErrorCode, Freshness, Selection};
use crate::ray::body::Format;
use crate::ray::fault::{Fault, FaultCode, Faults};

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ApiError::new(ErrorCode::Internal, "Nobody asked who is calling."))
    }
}

/// A reference to a cluster, from the path.
pub(super) struct Reference(pub(super) String);

impl FromRequestParts<Arc<App>> for Reference {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        // Not UTF-8: no cluster can have this name.
        path.map(|path| Self(path.0)).map_err(|_| ApiError::no_cluster("of this name"))
    }
}

/// A cluster's reference and the name of one of its worker groups, from the path.
pub(super) struct GroupReference(pub(super) String, pub(super) String);

impl FromRequestParts<Arc<App>> for GroupReference {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0.0, path.0.1)).map_err(|_| ApiError::no_cluster("of this name"))
    }
}

/// A body and how it is written, not longer than is allowed.
pub(super) struct Sent(pub(super) Format, pub(super) Bytes);

/// Media types of bodies; YAML's first is RFC 9512's, the others are what it was called before.
const MEDIA_TYPES: [(&str, Format); 5] = [
    ("application/json", Format::Json),
    ("application/yaml", Format::Yaml),
    ("application/x-yaml", Format::Yaml),
    ("text/yaml", Format::Yaml),
    ("text/x-yaml", Format::Yaml),
];

impl FromRequest<Arc<App>> for Sent {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let limit = app.config.max_body_bytes;
        let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        // A merge patch has a name of its own (RFC 7396, section 4).
        let patch = [("application/merge-patch+json", Format::Json)];
        let patch = patch.iter().filter(|_| request.method() == Method::PATCH);
        let known = MEDIA_TYPES.iter().chain(patch).find(|(known, _)| essence.eq_ignore_ascii_case(known));
        let Some((_, format)) = known else {
            let detail = match media_type {
                "" => "The body's media type is missing.".to_owned(),
                other => format!("A body of type {other} isn't taken here."),
            };
            let error = ApiError::new(ErrorCode::UnsupportedMediaType, detail);
            let hint = "Send JSON with the header `Content-Type: application/json` (curl: --json), or YAML with \
                        `application/yaml`.";
            return Err(error.hint(hint));
        };
        let reading = request.extensions().get::<Reading>().cloned().unwrap_or_default();
        reading.set(true);
        let body = Limited::new(request.into_body(), limit).collect().await;
        reading.set(false);
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::new(ErrorCode::TooLarge, format!("A body has at most {limit} bytes here."))
            } else {
                ApiError::new(ErrorCode::Malformed, "The body ended before it was whole.").cause(&error)
            }
        })?;
        Ok(Self(*format, body.to_bytes()))
    }
}

/// A request's query parameters: each known, each at most once.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query; every parameter that isn't known is a fault.
    pub(super) fn read(parts: &Parts, known: &[&str]) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let given: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let mut faults = Vec::new();
        for (at, (name, _)) in given.iter().enumerate() {
            let pointer = format!("?{name}");
            if !known.contains(&name.as_str()) {
                faults.push(Fault::unknown(pointer, FaultCode::UnknownParameter, name, known));
            } else if given.iter().take(at).any(|(before, _)| before == name) {
                faults.push(Fault::new(pointer, FaultCode::InvalidParameter, format!("`{name}` is given twice.")));
            }
        }
        if faults.is_empty() { Ok(Self(given)) } else { Err(Faults(faults).into()) }
    }

    /// The value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter says `true`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let fault = Fault::new(
                    format!("?{name}"),
                    FaultCode::InvalidParameter,
                    format!("`{other}` is neither `true` nor `false`."),
                );
                Err(ApiError::faulty(fault.allowing(["true", "false"]).into()))
            }
        }
    }

    /// How new the answer must be; both parameters are judged, and `consistency` decides.
    pub(super) fn freshness(&self) -> Result<Freshness, ApiError> {
        let mut freshness = Freshness::Known;
        let mut faults = Vec::new();
        let fault = |pointer, message| Fault::new(pointer, FaultCode::InvalidParameter, message);
        if let Some(version) = self.get("minResourceVersion") {
            let digits = version.bytes().all(|byte| byte.is_ascii_digit());
            if let Some(version) = version.parse().ok().filter(|_| digits) {
                freshness = Freshness::AtLeast(version);
            } else {
                let message = format!("`{version}` is no version; a write's answer has one in `resourceVersion`.");
                faults.push(fault("?minResourceVersion", message));
            }
        }
        match self.get("consistency") {
            Some("strong") => freshness = Freshness::Strong,
            Some(other) => {
                let message = format!("`{other}` is no consistency.");
                faults.push(fault("?consistency", message).allowing(["strong"]));
            }
            None => {}
        }
        if faults.is_empty() { Ok(freshness) } else { Err(Faults(faults).into()) }
    }

    /// Which clusters are meant.
    pub(super) fn selection(&self) -> Selection {
        let get = |name: &str| self.get(name).map(str::to_owned);
        Selection { namespace: get("namespace"), label_selector: get("labelSelector"), owner: get("owner") }
    }
}

/// The query parameters that say how new an answer must be.
pub(super) const FRESHNESS: [&str; 2] = ["minResourceVersion", "consistency"];

/// What every read takes.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) struct Fresh {
    /// `resourceVersion` of a write's answer, whichever replica gave it: what is read is no older.
    #[param(rename = "minResourceVersion", pattern = "^[0-9]+$")]
    min_resource_version: Option<String>,
    /// `strong`: what is read is what Kubernetes holds now; it is asked.
    #[param(pattern = "^strong$")]
    consistency: Option<String>,
}

/// No query parameter is taken.
pub(super) struct NoQuery;

impl FromRequestParts<Arc<App>> for NoQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        Query::read(parts, &[]).map(|_| Self)
    }
}

/// How much the client wants an answer of this media type (RFC 9110, section 12.5.1), 0 to 1: no `Accept` takes anything,
/// and the most specific range that names the type decides.
pub(super) fn quality(parts: &Parts, media_type: &str) -> f32 {
    let ranges: Vec<_> = parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if ranges.is_empty() {
        return 1.0;
    }
    let (main, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    let specificity = |range: &str| {
        if range.eq_ignore_ascii_case(media_type) {
            3
        } else if range.eq_ignore_ascii_case(&format!("{main}/*")) {
            2
        } else {
            u8::from(range == "*/*")
        }
    };
    let ranges = ranges.iter().flat_map(|value| value.split(','));
    let named = ranges.map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let specificity = specificity(parts.next().unwrap_or_default());
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        (specificity, weight.and_then(|weight| weight.parse::<f32>().ok()).unwrap_or(1.0))
    });
    let named = named.filter(|(specificity, _)| *specificity > 0);
    named.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map_or(0.0, |(_, quality)| quality)
}

/// Whether the client takes an answer of this media type.
pub(super) fn accepts(parts: &Parts, media_type: &str) -> bool {
    quality(parts, media_type) > 0.0
}

/// Refuses a request whose client takes no answer of this media type.
pub(super) fn must_accept(parts: &Parts, media_type: &str) -> Result<(), ApiError> {
    if accepts(parts, media_type) {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::NotAcceptable, format!("The answer can be had as {media_type} only.")))
}
