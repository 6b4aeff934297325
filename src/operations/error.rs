//! What an operation can fail with, as the caller is told; the only place that matches `ManagerError`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Denied;
use crate::access::limits::{Limited, Rule};
use crate::manager::{Cause, ManagerError};
use crate::ray::fault::{Fault, FaultCode, Faults, MOST};
use crate::ray::name::ClusterKey;

/// Every code that an error answer can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// What was sent can't be read: see `errors`.
    Malformed,
    /// What was sent is well-formed and wrong: see `errors`.
    Invalid,
    /// Nobody has said who is calling, or with a credential that isn't valid.
    Unauthenticated,
    /// Not allowed.
    Forbidden,
    /// A pod may not contain this: see `errors`.
    PodNotAllowed,
    /// There is no such thing.
    NotFound,
    /// There is no such namespace.
    NamespaceNotFound,
    /// The path doesn't take this method: see the header `Allow`.
    MethodNotAllowed,
    /// None of the media types asked for can be had.
    NotAcceptable,
    /// The name is taken.
    AlreadyExists,
    /// The cluster of this name is being deleted.
    Deleting,
    /// The cluster has changed meanwhile.
    Conflict,
    /// The cluster isn't as `If-Match` says.
    PreconditionFailed,
    /// A write that replaces a cluster needs `If-Match`.
    PreconditionRequired,
    /// The cluster's owner protects it from deletion.
    DeletionProtected,
    /// What Kubernetes holds can't be read, so it can't be changed.
    Unreadable,
    /// There are several worker groups of this name.
    AmbiguousGroup,
    /// Ray's autoscaler owns the group's replicas.
    AutoscalerOwnsReplicas,
    /// A RayJob or RayService owns the cluster's spec.
    SpecOwned,
    /// Kueue decides when the cluster runs.
    SuspensionOwned,
    /// The worker group of this name is being dropped: some of its nodes are left.
    GroupTerminating,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// Another request has been made with this `Idempotency-Key`.
    IdempotencyKeyReused,
    /// The body is too large.
    TooLarge,
    /// The body's media type isn't taken.
    UnsupportedMediaType,
    /// The request is for another host.
    MisdirectedRequest,
    /// The request comes from a page of another origin.
    ForeignOrigin,
    /// The caller asks for more than one caller gets.
    TooManyRequests,
    /// A quota of the namespace refuses it.
    QuotaExceeded,
    /// A policy of the Kubernetes cluster refuses it.
    AdmissionDenied,
    /// The installed KubeRay doesn't know a field of it.
    FieldNotSupported,
    /// raygate's own account lacks a right on Kubernetes.
    RaygateForbidden,
    /// KubeRay's CRDs aren't installed.
    CrdMissing,
    /// Kubernetes can't be reached or is overloaded.
    Unavailable,
    /// Others kept writing to the same cluster for too long.
    Contended,
    /// raygate has not yet read what there is.
    NotSynced,
    /// The process is ending.
    Draining,
    /// The request took too long.
    Timeout,
    /// A write was sent and no answer came.
    OutcomeUnknown,
    /// A fault of raygate's.
    Internal,
}

/// Why a request failed, as the caller is told.
#[derive(Debug, Clone)]
pub struct ApiError {
    /// What kind.
    pub code: ErrorCode,
    /// What happened, in a sentence for the caller.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Single faults of what was sent.
    pub faults: Vec<Fault>,
    /// After how many seconds to try again.
    pub retry_after_seconds: Option<u32>,
    /// Where the thing is that stands in the way, relative to the request's URL.
    pub location: Option<String>,
    /// For the log only.
    pub cause: Option<String>,
    /// For the audit only.
    pub note: Box<Note>,
}

/// What the audit is told of an error beside what its caller is.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// The rule of access that refuses the request.
    pub rule: Option<&'static str>,
    /// The cluster that it is about.
    pub cluster: Option<ClusterKey>,
    /// The uid of that cluster.
    pub uid: Option<String>,
    /// One of a flood, whose first the audit has been told of.
    pub quiet: bool,
}

/// What is said with the answer to try again.
const RETRY_AFTER_SECONDS: u32 = 2;

impl ApiError {
    /// An error with this code and this sentence.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
            faults: Vec::new(),
            retry_after_seconds: None,
            location: None,
            cause: None,
            note: Box::default(),
        }
    }

    /// Refused by this rule of access; only the audit is told.
    #[must_use]
    pub fn rule(mut self, rule: &'static str) -> Self {
        self.note.rule = Some(rule);
        self
    }

    /// About this cluster; only the audit is told.
    #[must_use]
    pub fn about(mut self, key: &ClusterKey, uid: Option<&str>) -> Self {
        self.note.cluster = Some(key.clone());
        self.note.uid = uid.map(str::to_owned);
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the advice to try again.
    #[must_use]
    pub fn retry(mut self) -> Self {
        self.retry_after_seconds = Some(RETRY_AFTER_SECONDS);
        self
    }

    /// With what only the log is told.
    #[must_use]
    pub fn cause(mut self, cause: &impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The faults of what was sent, all at once.
    #[must_use]
    pub fn faulty(faults: Faults) -> Self {
        let mut faults = faults.0;
        faults.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        let structural = faults.iter().any(|fault| fault.code.is_structural());
        let detail = match faults.as_slice() {
            [only] => only.message.clone(),
            many if many.len() > MOST => {
                format!("What was sent has more than {MOST} faults; `errors` lists some of them.")
            }
            many => format!("What was sent has {} faults; `errors` lists them.", many.len()),
        };
        faults.truncate(MOST);
        let code = if structural { ErrorCode::Malformed } else { ErrorCode::Invalid };
        Self { faults, ..Self::new(code, detail) }
    }

    /// There is no cluster of this name.
    #[must_use]
    pub fn no_cluster(name: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("There is no cluster {name}."))
            .hint("GET /clusters lists the clusters of your namespace.")
    }

    /// The cluster of this name stands in the way.
    #[must_use]
    pub fn taken(key: &ClusterKey) -> Self {
        let error = Self::new(ErrorCode::AlreadyExists, format!("There is a cluster {key} already."))
            .hint("Choose another name, or delete that cluster first.");
        Self { location: Some(format!("clusters/{key}")), ..error }
    }

    /// The name is taken, by a cluster that the caller may not see.
    pub(super) fn taken_unseen(key: &ClusterKey) -> Self {
        Self::new(ErrorCode::AlreadyExists, format!("The name {} is taken.", key.name)).hint("Choose another name.")
    }

    /// With each fault's field, in Kubernetes' notation, in its words and its place as a pointer.
    #[must_use]
    pub(super) fn placed(mut self, place: impl Fn(&str) -> String) -> Self {
        for fault in &mut self.faults {
            fault.message = format!("{}: {}", fault.pointer, fault.message);
            fault.pointer = place(&fault.pointer);
        }
        self
    }

    /// The path doesn't take the method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let detail = "This path doesn't take this method; the header Allow lists those it takes.";
        Self::new(ErrorCode::MethodNotAllowed, detail)
    }

    /// KubeRay isn't installed.
    pub(super) fn crd_missing() -> Self {
        let detail = "KubeRay isn't installed on this Kubernetes cluster: it has no RayCluster resource.";
        Self::new(ErrorCode::CrdMissing, detail)
    }

    /// Nothing can be said yet.
    pub(super) fn not_synced() -> Self {
        Self::new(ErrorCode::NotSynced, "raygate has not yet read what there is.")
    }

    /// Others kept writing to the same cluster.
    #[must_use]
    pub(super) fn contended(key: &ClusterKey) -> Self {
        let detail = format!("Others kept writing to the cluster {key}; nothing is changed.");
        Self::new(ErrorCode::Contended, detail).retry()
    }

    /// The cluster of this name is on its way out.
    #[must_use]
    pub fn deleting(key: &ClusterKey) -> Self {
        Self::new(ErrorCode::Deleting, format!("The cluster {key} is being deleted.")).retry()
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Namespace(ref namespace) => {
                Self::new(ErrorCode::Forbidden, format!("You may not use the namespace {namespace}."))
                    .hint("GET /whoami lists the namespaces that you may use.")
            }
            Denied::Role { needed, ref namespace } => {
                let place =
                    namespace.as_ref().map_or_else(|| "any namespace".into(), |name| format!("the namespace {name}"));
                Self::new(ErrorCode::Forbidden, format!("This takes the role {} in {place}.", needed.name()))
                    .hint("GET /whoami lists your roles.")
            }
            Denied::Owner => Self::new(ErrorCode::Forbidden, "This cluster isn't yours.")
                .hint("Its owner may change it, and operators of its namespace, who can also hand it over."),
            // As if there were none.
            Denied::Hidden => Self::new(ErrorCode::NotFound, "There is no such cluster."),
        }
        .rule(denied.rule())
    }
}

impl From<Limited> for ApiError {
    fn from(limited: Limited) -> Self {
        let limit = limited.limit;
        let detail = match limited.rule {
            Rule::RequestRate => format!("A caller's requests are limited to {limit} a second."),
            Rule::ConcurrentRequests => format!("A caller's requests are limited to {limit} at once."),
            Rule::Streams => format!("A caller's streams are limited to {limit} at once."),
            Rule::UnauthenticatedRate => {
                format!("Requests without valid credentials are limited to {limit} a second from one address.")
            }
        };
        let retry_after_seconds = Some(limited.retry_after_seconds);
        let error = Self::new(ErrorCode::TooManyRequests, detail).rule(limited.rule.name());
        let note = Note { quiet: !limited.newly, ..*error.note };
        Self { retry_after_seconds, note: Box::new(note), ..error }
    }
}

impl From<Faults> for ApiError {
    fn from(faults: Faults) -> Self {
        Self::faulty(faults)
    }
}

/// What a call about this cluster failed with.
pub(super) fn from_manager(error: ManagerError, key: &ClusterKey) -> ApiError {
    match error {
        ManagerError::NotFound => ApiError::no_cluster(&key.to_string()),
        ManagerError::NamespaceNotFound(namespace) => {
            ApiError::new(ErrorCode::NamespaceNotFound, format!("There is no namespace {namespace}."))
                .hint("raygate never creates namespaces; ask whoever runs your Kubernetes cluster.")
        }
        ManagerError::NamespaceTerminating(text) => ApiError::new(
            ErrorCode::NamespaceTerminating,
            format!("The namespace {} is being deleted; nothing new can be made in it.", key.namespace),
        )
        .cause(&text),
        ManagerError::AlreadyExists => ApiError::taken(key),
        ManagerError::Conflict => {
            ApiError::new(ErrorCode::Conflict, format!("The cluster {key} has changed meanwhile.")).retry()
        }
        ManagerError::QuotaExceeded(text) => {
            ApiError::new(ErrorCode::QuotaExceeded, text).hint("Ask for less, or have the namespace's quota raised.")
        }
        ManagerError::AdmissionDenied(text) => ApiError::new(ErrorCode::AdmissionDenied, text),
        ManagerError::Invalid { message, causes } => {
            let faults = causes.into_iter().map(rejected);
            ApiError { faults: faults.collect(), ..ApiError::new(ErrorCode::Invalid, message) }
        }
        ManagerError::FieldNotSupported(text) => ApiError::new(
            ErrorCode::FieldNotSupported,
            format!("The KubeRay that is installed doesn't know all of this: {text}."),
        ),
        ManagerError::CrdMissing => ApiError::crd_missing().retry(),
        ManagerError::Forbidden(text) => ApiError::new(
            ErrorCode::RaygateForbidden,
            format!("raygate's own account lacks a right on Kubernetes: {text}."),
        )
        .hint("This is for whoever installed raygate: its role doesn't fit."),
        ManagerError::Expired | ManagerError::Unavailable(_) => {
            ApiError::new(ErrorCode::Unavailable, "Kubernetes can't be reached or is overloaded.").retry().cause(&error)
        }
        ManagerError::OutcomeUnknown(_) => ApiError::new(
            ErrorCode::OutcomeUnknown,
            format!("Kubernetes didn't answer; whether it was done is unknown. GET /clusters/{key} tells."),
        )
        .cause(&error),
        ManagerError::Unexpected(_) => {
            ApiError::new(ErrorCode::Internal, "Kubernetes gave an answer that raygate doesn't understand.")
                .cause(&error)
        }
    }
}

/// A cause in Kubernetes' notation; `create` puts its place into the document's.
fn rejected(cause: Cause) -> Fault {
    Fault::new(cause.field, FaultCode::Rejected, cause.message)
}
