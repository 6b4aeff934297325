//! Faults of what a client sent: each with its place, a code, a sentence, and what would have been allowed.

use std::fmt::Display;
use std::ops::ControlFlow;

use deserr::{DeserializeError, ErrorKind, IntoValue, MergeWithError, ValueKind, ValuePointerRef};
use serde::Serialize;
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
    pub fn at(self, location: ValuePointerRef<'_>) -> Fault {
        Fault::new(pointer(location), self.code, self.message)
    }
}

/// All faults found in one document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl MergeWithError<Self> for Faults {
    fn merge(so_far: Option<Self>, other: Self, _: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        let mut faults = so_far.unwrap_or_default();
        faults.0.extend(other.0);
        ControlFlow::Continue(faults)
    }
}

impl DeserializeError for Faults {
    fn error<V: IntoValue>(
        so_far: Option<Self>,
        error: ErrorKind<'_, V>,
        location: ValuePointerRef<'_>,
    ) -> ControlFlow<Self, Self> {
        let fault = match error {
            ErrorKind::IncorrectValueKind { actual, accepted } => {
                let wanted: Vec<_> = accepted.iter().map(|kind| kind_name(*kind)).collect();
                let message = format!("This takes {}, not {}.", wanted.join(" or "), kind_name(actual.kind()));
                Fault::new(pointer(location), FaultCode::WrongType, message)
            }
            ErrorKind::MissingField { field } => {
                Fault::new(pointer(location.push_key(field)), FaultCode::Required, format!("`{field}` is required."))
            }
            ErrorKind::UnknownKey { key, accepted } => {
                Fault::unknown(pointer(location.push_key(key)), FaultCode::UnknownMember, key, accepted)
            }
            ErrorKind::UnknownValue { value, accepted } => {
                Fault::new(pointer(location), FaultCode::InvalidValue, format!("`{value}` is not taken here."))
                    .allowing(accepted)
            }
            ErrorKind::BadSequenceLen { expected, .. } => {
                Fault::new(pointer(location), FaultCode::InvalidValue, format!("This takes {expected} entries."))
            }
            ErrorKind::Unexpected { msg } => Fault::new(pointer(location), FaultCode::InvalidValue, msg),
        };
        Self::merge(so_far, fault.into(), location)
    }
}

/// How a JSON type is called in a sentence.
fn kind_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Null => "null",
        ValueKind::Boolean => "true or false",
        ValueKind::Integer => "a whole number",
        ValueKind::NegativeInteger => "a negative whole number",
        ValueKind::Float => "a number with a fraction",
        ValueKind::String => "a string",
        ValueKind::Sequence => "a list",
        ValueKind::Map => "an object",
    }
}

/// A place as a JSON Pointer (RFC 6901).
#[must_use]
pub fn pointer(location: ValuePointerRef<'_>) -> String {
    match location {
        ValuePointerRef::Origin => String::new(),
        ValuePointerRef::Key { key, prev } => format!("{}/{}", pointer(*prev), escape(key)),
        ValuePointerRef::Index { index, prev } => format!("{}/{index}", pointer(*prev)),
    }
}

/// A reference token of a JSON Pointer (RFC 6901, section 3).
#[must_use]
pub fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// The known name that this one is probably a slip of.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), *candidate));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}
