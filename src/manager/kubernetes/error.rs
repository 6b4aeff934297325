//! What Kubernetes answers, mapped by cause, never by number alone.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use kube::Error;
use kube::core::Status;
use kube::core::response::StatusCause;
use kube::runtime::watcher;

use crate::manager::{Cause, ManagerError};

/// What a call came to: an answer, an error, or none of both in time.
pub(super) enum Outcome<T> {
    Answered(Result<T, Error>),
    TimedOut(Duration),
}

/// Awaits a call, at most this long.
pub(super) async fn deadline<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Outcome<T> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => Outcome::Answered(result),
        Err(_) => Outcome::TimedOut(limit),
    }
}

/// A read may be called unavailable whatever went wrong on the way; a write only if it never left.
pub(super) trait ManagerResultExt<T> {
    fn read(self) -> Result<T, ManagerError>;
    fn write(self) -> Result<T, ManagerError>;
}

impl<T> ManagerResultExt<T> for Outcome<T> {
    fn read(self) -> Result<T, ManagerError> {
        match self {
            Self::Answered(result) => result.map_err(|error| from_error(&error)),
            Self::TimedOut(limit) => Err(ManagerError::Unavailable(format!("no answer within {limit:?}"))),
        }
    }

    fn write(self) -> Result<T, ManagerError> {
        match self {
            Self::Answered(Err(error)) if !(is_definite(&error) || never_left(&error)) => {
                Err(ManagerError::OutcomeUnknown(chain(&error)))
            }
            Self::Answered(result) => result.map_err(|error| from_error(&error)),
            Self::TimedOut(limit) => Err(ManagerError::OutcomeUnknown(format!("no answer within {limit:?}"))),
        }
    }
}

/// Whether the error says that nothing was done: an answer of the server's that says so, or something that was found
/// before anything was sent.
fn is_definite(error: &Error) -> bool {
    if let Error::Api(status) = error {
        // A time-out inside the server, or of its storage: what it was asked for may have been done.
        return !matches!(status.code, 408 | 500 | 504) || is_webhook_failure(status);
    }
    matches!(error, Error::BuildRequest(_) | Error::HttpError(_) | Error::Auth(_))
}

/// Whether a webhook that must be asked didn't answer: nothing was stored then, whatever the number.
fn is_webhook_failure(status: &Status) -> bool {
    status.message.starts_with("Internal error occurred: failed calling webhook ")
}

/// Whether no connection could be made.
fn never_left(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let client = inner.downcast_ref::<hyper_util::client::legacy::Error>();
        if client.is_some_and(hyper_util::client::legacy::Error::is_connect) {
            return true;
        }
        cause = inner.source();
    }
    false
}

pub(super) fn from_error(error: &Error) -> ManagerError {
    if let Error::Api(status) = error {
        return from_status(status);
    }
    let senseless =
        matches!(error, Error::SerdeError(_) | Error::FromUtf8(_) | Error::BuildRequest(_) | Error::HttpError(_));
    if senseless { ManagerError::Unexpected(chain(error)) } else { ManagerError::Unavailable(chain(error)) }
}

/// Longest text of Kubernetes' that is passed on, in bytes.
const LONGEST: usize = 2048;

fn from_status(status: &Status) -> ManagerError {
    let message = cut(&status.message);
    let details = status.details.as_ref();
    let causes = details.map(|details| details.causes.as_slice()).unwrap_or_default();
    let caused_by = |reason: &str| causes.iter().any(|cause| cause.reason == reason);
    if causes.iter().any(|cause| cause.field == "patch") || status.message.contains(": patch: Invalid value:") {
        return undecodable_patch(&status.message);
    }
    // Before the other causes, whose words a denial may use too.
    if is_denial(&status.message) {
        return ManagerError::AdmissionDenied(message);
    }
    if let Some((_, fields)) = status.message.rsplit_once("strict decoding error:") {
        return ManagerError::FieldNotSupported(cut(fields.trim()));
    }
    if caused_by("NamespaceTerminating") {
        return ManagerError::NamespaceTerminating(message);
    }
    if status.message.contains("is forbidden: exceeded quota:") {
        return ManagerError::QuotaExceeded(message);
    }
    // A quota that is being counted, or that others' creates are counted against at the same moment.
    let uncounted = status.message.contains("is forbidden: status unknown for quota:");
    if uncounted || (status.code == 409 && details.is_some_and(|details| details.kind == "resourcequotas")) {
        return ManagerError::Unavailable(message);
    }
    match (status.code, status.reason.as_str()) {
        (404, _) => match details {
            None => ManagerError::CrdMissing,
            Some(details) if details.kind == "namespaces" => ManagerError::NamespaceNotFound(details.name.clone()),
            Some(_) => ManagerError::NotFound,
        },
        (409, "AlreadyExists") => ManagerError::AlreadyExists,
        (409, _) => ManagerError::Conflict,
        (410, _) => ManagerError::Expired,
        (403, _) => ManagerError::Forbidden(message),
        (400 | 413 | 422, _) => invalid(message, causes),
        // 401: a token that has just been rotated, most likely; it is read again.
        (401 | 408 | 429 | 500.., _) => ManagerError::Unavailable(message),
        _ => ManagerError::Unexpected(message),
    }
}

/// Whether a webhook or an admission policy refuses it, in the words that the apiserver puts before theirs.
fn is_denial(message: &str) -> bool {
    let webhook = message.contains("admission webhook \"") && message.contains("\" denied the request");
    webhook || (message.contains("AdmissionPolicy '") && message.contains("' denied request: "))
}

/// The refusal of a patch whose result can't be decoded holds that whole object as a quoted string, secrets included: only
/// what surely stands behind it is passed on.
fn undecodable_patch(message: &str) -> ManagerError {
    match message.rsplit_once("\": strict decoding error:") {
        Some((_, fields)) if !fields.contains('\\') => ManagerError::FieldNotSupported(cut(fields.trim())),
        _ => ManagerError::Invalid {
            message: "what the patch makes of the object can't be decoded".to_owned(),
            causes: Vec::new(),
        },
    }
}

fn invalid(message: String, causes: &[StatusCause]) -> ManagerError {
    // `<nil>` is the apiserver's word for no field.
    let named = causes.iter().filter(|cause| cause.field != "<nil>");
    let causes = named.map(|cause| Cause { field: cause.field.clone(), message: cut(&cause.message) });
    ManagerError::Invalid { message, causes: causes.collect() }
}

/// What interrupted a watch.
pub(super) fn watch_error(error: &watcher::Error) -> ManagerError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => from_error(error),
        watcher::Error::WatchError(status) => from_status(status),
        watcher::Error::NoResourceVersion => ManagerError::Unexpected("an object without a resourceVersion".into()),
    }
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let next = inner.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = inner.source();
    }
    cut(&text)
}

fn cut(text: &str) -> String {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    fn mapped(status: Value) -> ManagerError {
        from_status(&serde_json::from_value::<Status>(status).unwrap())
    }

    // Texts as kube-apiserver 1.35 answers them.
    #[test]
    fn answers_are_told_apart_by_cause() {
        let terminating = json!({"code": 403, "reason": "Forbidden",
            "message": "rayclusters.ray.io \"demo\" is forbidden: unable to create new content in namespace old because it is being terminated",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace old is being terminated", "field": "metadata.namespace"}]}});
        assert!(matches!(mapped(terminating), ManagerError::NamespaceTerminating(_)));

        let quota = json!({"code": 403, "reason": "Forbidden",
            "message": "rayclusters.ray.io \"demo\" is forbidden: exceeded quota: few, requested: count/rayclusters.ray.io=1, used: count/rayclusters.ray.io=1, limited: count/rayclusters.ray.io=1"});
        assert!(matches!(mapped(quota), ManagerError::QuotaExceeded(_)));

        let rbac = json!({"code": 403, "reason": "Forbidden",
            "message": "rayclusters.ray.io is forbidden: User \"carol\" cannot create resource \"rayclusters\" in API group \"ray.io\" in the namespace \"default\""});
        assert!(matches!(mapped(rbac), ManagerError::Forbidden(_)));

        let namespace = json!({"code": 404, "reason": "NotFound", "message": "namespaces \"nowhere\" not found",
            "details": {"name": "nowhere", "kind": "namespaces"}});
        assert_eq!(mapped(namespace), ManagerError::NamespaceNotFound("nowhere".into()));

        let page = json!({"code": 404, "reason": "Failed to parse error data", "message": "404 page not found"});
        assert_eq!(mapped(page), ManagerError::CrdMissing);

        let webhook = json!({"code": 400, "reason": "BadRequest",
            "message": "admission webhook \"vraycluster.kb.io\" denied the request: exceeded quota: no"});
        assert!(matches!(mapped(webhook), ManagerError::AdmissionDenied(_)));

        let policy = json!({"code": 422, "reason": "Invalid",
            "message": "rayclusters.ray.io \"demo\" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'here' denied request: no",
            "details": {"name": "demo", "causes": [{"message": "ValidatingAdmissionPolicy 'none' with binding 'here' denied request: no"}]}});
        assert!(matches!(mapped(policy), ManagerError::AdmissionDenied(_)));

        let uncounted = json!({"code": 403, "reason": "Forbidden",
            "message": "rayclusters.ray.io \"demo\" is forbidden: status unknown for quota: few, resources: count/rayclusters.ray.io"});
        assert!(matches!(mapped(uncounted), ManagerError::Unavailable(_)));

        let counted_at_once = json!({"code": 409, "reason": "Conflict", "details": {"name": "few", "kind": "resourcequotas"},
            "message": "Operation cannot be fulfilled on resourcequotas \"few\": the object has been modified"});
        assert!(matches!(mapped(counted_at_once), ManagerError::Unavailable(_)));
    }

    #[test]
    fn a_webhook_that_does_not_answer_has_stored_nothing() {
        let answer = |message: &str| {
            let status = json!({"code": 500, "reason": "InternalError", "message": message});
            let error = Error::Api(Box::new(serde_json::from_value(status).unwrap()));
            Outcome::<()>::Answered(Err(error)).write().unwrap_err()
        };
        let webhook = "Internal error occurred: failed calling webhook \"x.example.com\": failed to call webhook: Post \"https://x\": EOF";
        assert!(matches!(answer(webhook), ManagerError::Unavailable(_)));
        let storage = "Internal error occurred: etcdserver: request timed out";
        assert!(matches!(answer(storage), ManagerError::OutcomeUnknown(_)));
    }

    #[test]
    fn a_strict_decoding_error_never_shows_the_object() {
        let answer = json!({"code": 422, "reason": "Invalid",
            "message": "RayCluster.ray.io \"demo\" is invalid: patch: Invalid value: \"{\\\"env\\\":\\\"hunter2\\\"}\": strict decoding error: unknown field \"spec.foo\""});
        assert_eq!(mapped(answer), ManagerError::FieldNotSupported("unknown field \"spec.foo\"".into()));
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_not_shown() {
        let answer = json!({"code": 422, "reason": "Invalid",
            "message": "RayCluster.ray.io \"demo\" is invalid: patch: Invalid value: \"{\\\"env\\\":\\\"hunter2\\\"}\": json: cannot unmarshal",
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": "Invalid value: \"hunter2\"", "field": "patch"}]}});
        assert!(!format!("{:?}", mapped(answer)).contains("hunter2"));

        // An object that holds the very words that are looked for.
        let answer = json!({"code": 422, "reason": "Invalid",
            "message": "RayCluster.ray.io \"demo\" is invalid: patch: Invalid value: \"{\\\"a\\\":\\\"exceeded quota: \\\": strict decoding error: hunter2\\\"}\": json: cannot unmarshal"});
        assert!(!format!("{:?}", mapped(answer)).contains("hunter2"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut(&"é".repeat(2000)).len(), 2048);
        assert_eq!(cut(&format!("x{}", "é".repeat(2000))).len(), 2047);
    }
}
