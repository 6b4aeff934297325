//! Names: parse = validate.

use std::fmt;

use super::fault::{FaultCode, Wrong};

/// Longest name of a RayCluster: the operator derives names of services and pods from it (`MaxRayClusterNameLength`
/// in KubeRay's `controllers/ray/utils/constant.go`).
pub const MAX_CLUSTER_NAME: usize = 53;

/// Prefix of the labels and annotations that are raygate's own.
pub const OWN_PREFIX: &str = "raygate.dev/";

/// What `kubectl apply` remembers of the object that it sent: true of that object alone, and it holds env values.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keys that KubeRay's operators manage; the other `ray.io/` keys are the user's.
const OPERATOR_KEYS: [&str; 13] = [
    "ray.io/originated-from-cr-name",
    "ray.io/originated-from-crd",
    "ray.io/cluster",
    "ray.io/node-type",
    "ray.io/group",
    "ray.io/is-ray-node",
    "ray.io/headless-worker-svc",
    "ray.io/identifier",
    "ray.io/cronjob-name",
    "ray.io/job-submission-mode",
    "ray.io/hash-without-replicas-and-workers-to-delete",
    "ray.io/num-worker-groups",
    "ray.io/kuberay-version",
];

/// What a path calls a cluster: `name` (in the caller's default namespace) or `name.namespace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRef {
    /// The cluster's name: any name that Kubernetes can hold.
    pub name: String,
    /// The namespace, if the reference names one.
    pub namespace: Option<String>,
}

impl ClusterRef {
    /// Reads a reference; `None` where no cluster can have this name. The last dot splits, since a namespace has none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, namespace) = match text.rsplit_once('.') {
            Some((name, namespace)) => (name, Some(namespace)),
            None => (text, None),
        };
        let valid = is_dns1123_subdomain(name) && namespace.is_none_or(is_dns1123_label);
        valid.then(|| Self { name: name.to_owned(), namespace: namespace.map(str::to_owned) })
    }
}

/// A cluster, named completely.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ClusterKey {
    /// The cluster of this name in this namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ClusterKey {
    /// The full form of the reference: `name.namespace`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.name, self.namespace)
    }
}

/// Checks the name of a new cluster: at most 53 characters of DNS-1035 (RFC 1035, section 2.3.1, in lower case).
///
/// # Errors
/// Says which part of the rule the name breaks.
pub fn check_cluster_name(name: &str) -> Result<(), Wrong> {
    let wrong = |why: String| Err(Wrong::new(FaultCode::InvalidName, why));
    if name.is_empty() {
        return wrong("A name can't be empty.".into());
    }
    if name.len() > MAX_CLUSTER_NAME {
        return wrong(format!(
            "A cluster's name has at most {MAX_CLUSTER_NAME} characters, this one has {}.",
            name.chars().count()
        ));
    }
    let valid = is_dns1123_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase());
    if valid {
        return Ok(());
    }
    wrong(format!(
        "`{name}` is no name for a cluster: lower-case letters, digits and hyphens, beginning with a letter and ending \
         with a letter or digit."
    ))
}

/// Checks a name of DNS-1123's label form (a namespace, a worker group).
///
/// # Errors
/// Says what the form is.
pub fn check_label_name(what: &str, name: &str) -> Result<(), Wrong> {
    if is_dns1123_label(name) {
        return Ok(());
    }
    Err(Wrong::new(
        FaultCode::InvalidName,
        format!(
            "`{name}` is no name for {what}: at most 63 lower-case letters, digits and hyphens, beginning and ending \
             with a letter or digit."
        ),
    ))
}

/// Checks a key of a label or annotation, and that it isn't one that only raygate or the operator writes.
///
/// # Errors
/// Says which rule it breaks.
pub fn check_metadata_key(key: &str) -> Result<(), Wrong> {
    if is_reserved_key(key) {
        return Err(Wrong::new(
            FaultCode::Reserved,
            format!("`{key}` is written by raygate, kubectl or KubeRay only."),
        ));
    }
    check_label_key(key)
}

/// Checks a key of a label or annotation.
///
/// # Errors
/// Says what the form is.
pub fn check_label_key(key: &str) -> Result<(), Wrong> {
    if is_metadata_key(key) {
        return Ok(());
    }
    Err(Wrong::new(
        FaultCode::InvalidName,
        format!(
            "`{key}` is no key for a label or annotation: an optional DNS name and a slash, then at most 63 letters, \
             digits, `-`, `_` and `.`, beginning and ending with a letter or digit."
        ),
    ))
}

/// Checks the value of a label.
///
/// # Errors
/// Says what the form is.
pub fn check_label_value(value: &str) -> Result<(), Wrong> {
    if is_label_value(value) {
        return Ok(());
    }
    Err(Wrong::new(
        FaultCode::InvalidValue,
        format!(
            "`{value}` is no value for a label: at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with \
             a letter or digit."
        ),
    ))
}

/// Whether only raygate, Kubernetes or the operator may write this label or annotation.
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    is_dropped_key(key) || OPERATOR_KEYS.contains(&key)
}

/// Whether this label or annotation belongs to the object that carries it, and not to a copy.
#[must_use]
pub fn is_dropped_key(key: &str) -> bool {
    key.starts_with(OWN_PREFIX) || key == LAST_APPLIED
}

/// RFC 1123's label in lower case, as `IsDNS1123Label` in Kubernetes' apimachinery has it.
#[must_use]
pub fn is_dns1123_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// RFC 1123's subdomain in lower case, as `IsDNS1123Subdomain` in Kubernetes' apimachinery has it (labels may be
/// longer than 63 there).
#[must_use]
pub fn is_dns1123_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// `IsQualifiedName` of Kubernetes' apimachinery: what a label's key must be, and an annotation's in lower case.
#[must_use]
pub fn is_metadata_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns1123_subdomain) && !name.is_empty() && is_label_value(name)
}

/// `IsValidLabelValue` of Kubernetes' apimachinery.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(inside) && end(text.bytes().next()) && end(text.bytes().last())
}
