//! Faults of what a client sent: each with its place, a code, a sentence, and what would have been allowed.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What is wrong with one place of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FaultCode {
    /// Not the syntax of the media type, or nested too deeply.
    Syntax,
    /// A value of another type than the member takes.
    WrongType,
    /// A member that doesn't exist.
    UnknownMember,
    /// A query parameter that doesn't exist.
    UnknownParameter,
    /// A query parameter whose value can't be read.
    InvalidParameter,
    /// The same key twice in one object.
    DuplicateKey,
    /// A member that must be there and isn't.
    Required,
    /// Not a name that Kubernetes or its operator takes.
    InvalidName,
    /// A number outside its bounds.
    OutOfRange,
    /// Not a Kubernetes quantity.
    InvalidQuantity,
    /// Any other value that isn't taken.
    InvalidValue,
    /// A key that only raygate, Kubernetes or the operator may write.
    Reserved,
    /// Two members that say the same thing.
    ConflictingMembers,
    /// A member that can't be changed once the cluster is there.
    Immutable,
    /// The rules of access don't allow it in a pod.
    NotAllowed,
    /// What there is under the name has another value there.
    Different,
    /// Refused by Kubernetes' own validation.
    Rejected,
}

impl FaultCode {
    /// Whether the document can't be read at all there (400), rather than being well-formed and wrong (422).
    #[must_use]
    pub fn is_structural(self) -> bool {
        match self {
            Self::Syntax
            | Self::WrongType
            | Self::UnknownMember
            | Self::UnknownParameter
            | Self::InvalidParameter
            | Self::DuplicateKey => true,
            Self::Required
            | Self::InvalidName
            | Self::OutOfRange
            | Self::InvalidQuantity
            | Self::InvalidValue
            | Self::Reserved
            | Self::ConflictingMembers
            | Self::Immutable
            | Self::NotAllowed
            | Self::Different
            | Self::Rejected => false,
        }
    }
}

/// One fault of what a client sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// Where: a JSON Pointer (RFC 6901) into what was sent; for a query parameter `?name`.
    pub pointer: String,
    /// What kind of fault.
    pub code: FaultCode,
    /// What is wrong, in a sentence.
    pub message: String,
    /// What would have been allowed there, where that can be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

impl Fault {
    /// A fault at this pointer.
    pub fn new(pointer: impl Into<String>, code: FaultCode, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, message: message.into(), allowed: Vec::new() }
    }

    /// A value of another type than `wanted`, which is said as in a sentence (`a string`).
    pub fn wrong_type(pointer: impl Into<String>, wanted: &str, found: &Value) -> Self {
        Self::new(pointer, FaultCode::WrongType, format!("This takes {wanted}, not {}.", kind_name(found)))
    }

    /// The same, listing what would have been allowed.
    #[must_use]
    pub fn allowing<T: Display>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.allowed = allowed.into_iter().map(|item| item.to_string()).collect();
        self
    }

    /// A name that doesn't exist, with the nearest one that does.
    pub fn unknown(pointer: impl Into<String>, code: FaultCode, name: &str, known: &[&str]) -> Self {
        let what = if code == FaultCode::UnknownParameter { "query parameter" } else { "member" };
        let message = match nearest(name, known) {
            Some(nearest) => format!("There is no {what} `{name}` here. Did you mean `{nearest}`?"),
            None => format!("There is no {what} `{name}` here."),
        };
        Self::new(pointer, code, message).allowing(known)
    }
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WarningCode {
    /// `rayVersion` and an image's tag name different versions of Ray.
    VersionMismatch,
    /// Part of a pasted RayCluster that isn't taken over.
    Dropped,
    /// A fault that was there before.
    StandingFault,
    /// Somebody else manages what is changed too (`metadata.managedFields`), and may set it back.
    ManagedByOther,
    /// Nodes that run go on as they were made: see `nodes`.
    RestartNeeded,
}

/// What was taken and should be known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Warning {
    /// Where: a JSON Pointer (RFC 6901) into what was sent.
    pub pointer: String,
    /// What it is about.
    pub code: WarningCode,
    /// What should be known, in a sentence.
    pub message: String,
    /// The nodes that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub nodes: Vec<String>,
}

impl Warning {
    /// A warning about this place.
    pub fn new(pointer: impl Into<String>, code: WarningCode, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, message: message.into(), nodes: Vec::new() }
    }
}

/// What is wrong with a value, before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What kind of fault.
    pub code: FaultCode,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl Wrong {
    /// A fault without its place.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The fault at its place.
    #[must_use]
    pub fn at(self, pointer: &str) -> Fault {
        Fault::new(pointer, self.code, self.message)
    }
}

/// The most faults that are told of one body: what a person reads, and a bound on what a hostile one costs.
pub const MOST: usize = 100;

/// All faults found in one document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

/// How a JSON value is called in a sentence.
#[must_use]
pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(number) if number.as_i64().is_some_and(i64::is_negative) => "a negative whole number",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A reference token of a JSON Pointer (RFC 6901, section 3).
#[must_use]
pub fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// What a reference token of a JSON Pointer stands for (RFC 6901, section 4).
#[must_use]
pub fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The known name that this one is probably a slip of.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // No slip of anything; and likeness costs the product of the lengths.
    if name.len() > 100 {
        return None;
    }
    let lower = name.to_lowercase();
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), *candidate));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}
