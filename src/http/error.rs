//! Problems (RFC 9457): every error that reaches a route or a layer of ours, in one form.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

use crate::operations::{ApiError, ErrorCode};
use crate::ray::fault::Fault;

/// The rule that refuses a request without a credential.
pub(super) const NO_CREDENTIAL: &str = "noCredential";

const CHALLENGE: &str = r#"Bearer realm="raygate""#;
const CHALLENGE_INVALID: &str = r#"Bearer realm="raygate", error="invalid_token""#;

/// An error answer (RFC 9457, `application/problem+json`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Which kind of problem: a URI reference that names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What happened, in a sentence.
    pub detail: String,
    /// The path that was asked for.
    pub instance: String,
    /// Which kind of problem, for programs.
    pub code: ErrorCode,
    /// Under which this request stands in the logs.
    pub request_id: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Single faults of what was sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The error answers of a route, for its description.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is described, never made")]
pub(super) enum Problems {
    /// A problem.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Client(Problem),
    /// A problem.
    #[response(status = "5XX", content_type = "application/problem+json")]
    Server(Problem),
}

/// The status of each code, and its title.
#[must_use]
pub fn status(code: ErrorCode) -> (StatusCode, &'static str) {
    match code {
        ErrorCode::Malformed => (StatusCode::BAD_REQUEST, "What was sent can't be read"),
        ErrorCode::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "What was sent is not valid"),
        ErrorCode::Unauthenticated => (StatusCode::UNAUTHORIZED, "Who is calling?"),
        ErrorCode::PodNotAllowed => (StatusCode::FORBIDDEN, "A pod may not contain this"),
        ErrorCode::Forbidden => (StatusCode::FORBIDDEN, "Not allowed"),
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, "Not found"),
        ErrorCode::NamespaceNotFound => (StatusCode::NOT_FOUND, "No such namespace"),
        ErrorCode::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
        ErrorCode::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "No media type that is acceptable"),
        ErrorCode::AlreadyExists => (StatusCode::CONFLICT, "The name is taken"),
        ErrorCode::Deleting => (StatusCode::CONFLICT, "The cluster is being deleted"),
        ErrorCode::Conflict => (StatusCode::CONFLICT, "The cluster has changed"),
        ErrorCode::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, "Not as If-Match says"),
        ErrorCode::PreconditionRequired => (StatusCode::PRECONDITION_REQUIRED, "A guard is missing"),
        ErrorCode::DeletionProtected => (StatusCode::CONFLICT, "Protected from deletion"),
        ErrorCode::Unreadable => (StatusCode::CONFLICT, "The cluster can't be read"),
        ErrorCode::AmbiguousGroup => (StatusCode::CONFLICT, "Several groups of one name"),
        ErrorCode::AutoscalerOwnsReplicas => (StatusCode::CONFLICT, "The autoscaler owns the replicas"),
        ErrorCode::SpecOwned => (StatusCode::CONFLICT, "A controller owns the spec"),
        ErrorCode::SuspensionOwned => (StatusCode::CONFLICT, "Kueue owns the suspension"),
        ErrorCode::GroupTerminating => (StatusCode::CONFLICT, "The worker group is being dropped"),
        ErrorCode::NamespaceTerminating => (StatusCode::CONFLICT, "The namespace is being deleted"),
        ErrorCode::IdempotencyKeyReused => {
            (StatusCode::UNPROCESSABLE_ENTITY, "The Idempotency-Key was another request's")
        }
        ErrorCode::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
        ErrorCode::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The media type is not taken"),
        ErrorCode::MisdirectedRequest => (StatusCode::MISDIRECTED_REQUEST, "Not this host"),
        ErrorCode::ForeignOrigin => (StatusCode::FORBIDDEN, "A page of another origin"),
        ErrorCode::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
        ErrorCode::QuotaExceeded => (StatusCode::FORBIDDEN, "Over quota"),
        ErrorCode::AdmissionDenied => (StatusCode::UNPROCESSABLE_ENTITY, "Denied by a policy"),
        ErrorCode::FieldNotSupported => (StatusCode::UNPROCESSABLE_ENTITY, "Not supported by the installed KubeRay"),
        ErrorCode::RaygateForbidden => (StatusCode::BAD_GATEWAY, "raygate lacks a right"),
        ErrorCode::CrdMissing => (StatusCode::SERVICE_UNAVAILABLE, "KubeRay is not installed"),
        ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Kubernetes is unavailable"),
        ErrorCode::Contended => (StatusCode::SERVICE_UNAVAILABLE, "Others keep writing"),
        ErrorCode::NotSynced => (StatusCode::SERVICE_UNAVAILABLE, "Not ready yet"),
        ErrorCode::Draining => (StatusCode::SERVICE_UNAVAILABLE, "The process is ending"),
        ErrorCode::Timeout => (StatusCode::SERVICE_UNAVAILABLE, "The request took too long"),
        ErrorCode::OutcomeUnknown => (StatusCode::GATEWAY_TIMEOUT, "The outcome is unknown"),
        ErrorCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "A fault of raygate's"),
    }
}

/// Travels as an extension of the response; `render` gives it its body, once the request's id and path are known.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = status(self.code).0.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives an error response of ours, or a bare one of the framework's, the form of a problem. Others pass.
pub(super) fn render(mut response: Response, instance: &str, request_id: &str) -> Response {
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        None => match bare(response.status()) {
            Some(error) => error,
            None => return response,
        },
    };
    if let Some(cause) = &error.cause {
        tracing::warn!(request_id, code = ?error.code, cause, "a request failed");
    }
    let (status, title) = status(error.code);
    let problem = Problem {
        kind: format!("urn:raygate:problem:{}", name_of(error.code).to_lowercase().replace('_', "-")),
        title,
        status: status.as_u16(),
        detail: error.detail,
        instance: instance.to_owned(),
        code: error.code,
        request_id: request_id.to_owned(),
        retryable: error.retry_after_seconds.is_some(),
        errors: error.faults,
        hint: error.hint,
    };
    let headers = std::mem::take(response.headers_mut());
    let mut rendered = (status, Json(problem)).into_response();
    let body_headers = std::mem::replace(rendered.headers_mut(), headers);
    let headers = rendered.headers_mut();
    headers.remove(http::header::CONTENT_LENGTH);
    headers.extend(body_headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = error.retry_after_seconds {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if error.code == ErrorCode::Unauthenticated {
        // RFC 6750, section 3; without a credential no error is named.
        let challenge = if error.note.rule == Some(NO_CREDENTIAL) { CHALLENGE } else { CHALLENGE_INVALID };
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(location) = error.location.and_then(|location| location.try_into().ok()) {
        headers.insert(LOCATION, location);
    }
    rendered
}

/// A code as it is written.
pub(super) fn name_of(code: ErrorCode) -> String {
    let name = serde_json::to_value(code).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

/// What the framework means with an error that has no body of ours.
fn bare(status: StatusCode) -> Option<ApiError> {
    let error = match status {
        StatusCode::NOT_FOUND => ApiError::new(ErrorCode::NotFound, "There is nothing under this path.")
            .hint("docs/ shows every path there is."),
        StatusCode::METHOD_NOT_ALLOWED => ApiError::method_not_allowed(),
        StatusCode::SERVICE_UNAVAILABLE => return None,
        status if status.is_client_error() => {
            ApiError::new(ErrorCode::Malformed, "The request can't be read.").cause(&status)
        }
        status if status.is_server_error() => {
            ApiError::new(ErrorCode::Internal, "Something went wrong.").cause(&status)
        }
        _ => return None,
    };
    Some(error)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use http_body_util::BodyExt as _;

    use super::*;
    use crate::access::limits::{Limited, Rule};

    #[tokio::test]
    async fn who_is_limited_is_told_by_what_and_how_long() {
        for (rule, what) in [
            (Rule::RequestRate, "requests are limited to 77 a second"),
            (Rule::ConcurrentRequests, "requests are limited to 77 at once"),
            (Rule::Streams, "streams are limited to 77 at once"),
            (Rule::UnauthenticatedRate, "limited to 77 a second from one address"),
        ] {
            let limit = NonZeroU32::new(77).unwrap();
            let limited = Limited { rule, limit, retry_after_seconds: 3, newly: true };
            let response = render(ApiError::from(limited).into_response(), "/clusters", "mine");
            assert_eq!(
                (response.status(), &response.headers()[RETRY_AFTER]),
                (StatusCode::TOO_MANY_REQUESTS, &3.into())
            );
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&problem["code"], &problem["retryable"]), (&"TOO_MANY_REQUESTS".into(), &true.into()));
            assert!(problem["detail"].as_str().unwrap().contains(what), "{problem}");
        }
    }
}
