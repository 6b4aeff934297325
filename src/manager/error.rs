//! What can go wrong between raygate and the backend, by cause, knowing nothing of HTTP's face to the client.

use std::fmt;

/// One cause that the backend names for refusing an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The field, in Kubernetes' notation (`spec.workerGroupSpecs[0].replicas`).
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Why the backend didn't do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagerError {
    /// No such object.
    NotFound,
    /// No such namespace.
    NamespaceNotFound(String),
    /// The namespace is being deleted.
    NamespaceTerminating(String),
    /// The name is taken.
    AlreadyExists,
    /// The resourceVersion or uid that the call was guarded by isn't the present one.
    Conflict,
    /// A ResourceQuota refuses it; the text names limit, used and requested.
    QuotaExceeded(String),
    /// An admission webhook or policy refuses it.
    AdmissionDenied(String),
    /// The object is invalid by the backend's own rules.
    Invalid {
        /// What the backend says of the whole.
        message: String,
        /// What it says of single fields.
        causes: Vec<Cause>,
    },
    /// Kubernetes' schema doesn't know a field that was sent (an older CRD).
    FieldNotSupported(String),
    /// Kubernetes doesn't know the kind: KubeRay's CRDs aren't installed.
    CrdMissing,
    /// raygate's own account lacks a right.
    Forbidden(String),
    /// The watch's starting point is no longer kept.
    Expired,
    /// The backend can't be reached, is overloaded or didn't answer in time. The call wasn't carried out.
    Unavailable(String),
    /// The call was sent and no answer came: it may or may not have been carried out.
    OutcomeUnknown(String),
    /// An answer that makes no sense.
    Unexpected(String),
}

impl fmt::Display for ManagerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => formatter.write_str("no such object"),
            Self::NamespaceNotFound(name) => write!(formatter, "no namespace {name}"),
            Self::NamespaceTerminating(text) => write!(formatter, "the namespace is being deleted: {text}"),
            Self::AlreadyExists => formatter.write_str("the name is taken"),
            Self::Conflict => formatter.write_str("the object has changed"),
            Self::QuotaExceeded(text) => write!(formatter, "over quota: {text}"),
            Self::AdmissionDenied(text) => write!(formatter, "denied at admission: {text}"),
            Self::Invalid { message, .. } => write!(formatter, "invalid: {message}"),
            Self::FieldNotSupported(text) => write!(formatter, "field not supported: {text}"),
            Self::CrdMissing => formatter.write_str("the RayCluster CRD is not installed"),
            Self::Forbidden(text) => write!(formatter, "our account may not: {text}"),
            Self::Expired => formatter.write_str("the watch's starting point has expired"),
            Self::Unavailable(text) => write!(formatter, "unavailable: {text}"),
            Self::OutcomeUnknown(text) => write!(formatter, "no answer to a call that was sent: {text}"),
            Self::Unexpected(text) => write!(formatter, "unexpected answer: {text}"),
        }
    }
}

impl std::error::Error for ManagerError {}
