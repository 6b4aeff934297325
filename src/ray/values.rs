//! The values that a document's members take: parse = validate.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use deserr::{
    DeserializeError as _, Deserr, ErrorKind, IntoValue, Map as _, Value as Input, ValueKind, ValuePointerRef,
};
use indexmap::IndexMap;
use serde::{Serialize, Serializer};

use super::fault::{Fault, FaultCode, Faults, Wrong, pointer};
use super::name::{check_cluster_name, check_label_name, check_label_value, check_metadata_key};
use super::quantity::Quantity;

/// Members by name, in the order in which they were written; `null` for one is as good as leaving it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed<T, R>(pub IndexMap<String, T>, PhantomData<R>);

/// The rule for the names of a [`Keyed`].
pub trait KeyRule {
    /// Checks one name.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn check(key: &str) -> Result<(), Wrong>;
}

macro_rules! key_rules {
    ($($(#[$doc:meta])* $rule:ident = $check:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $rule;

        impl KeyRule for $rule {
            fn check(key: &str) -> Result<(), Wrong> {
                let check: fn(&str) -> Result<(), Wrong> = $check;
                check(key)
            }
        }
    )*};
}

key_rules! {
    /// Any name but the empty one.
    AnyKey = |key| non_empty("A name", key);
    /// A label's or annotation's key.
    MetadataKey = check_metadata_key;
    /// A worker group's name.
    GroupKey = check_group_name;
    /// An environment variable's name: printable ASCII without `=` (Kubernetes' `IsRelaxedEnvVarName`).
    EnvKey = check_env_name;
}

fn check_group_name(name: &str) -> Result<(), Wrong> {
    if name == "headgroup" {
        return Err(Wrong::new(FaultCode::InvalidName, "`headgroup` is what KubeRay calls the head's own group."));
    }
    check_label_name("a worker group", name)
}

fn check_env_name(name: &str) -> Result<(), Wrong> {
    if !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Ok(());
    }
    let message = format!("`{name}` is no name for an environment variable: printable ASCII characters without `=`.");
    Err(Wrong::new(FaultCode::InvalidName, message))
}

fn non_empty(what: &str, text: &str) -> Result<(), Wrong> {
    if text.is_empty() { Err(Wrong::new(FaultCode::InvalidValue, format!("{what} can't be empty."))) } else { Ok(()) }
}

impl<T, R> Keyed<T, R> {
    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T, R> Default for Keyed<T, R> {
    fn default() -> Self {
        Self(IndexMap::new(), PhantomData)
    }
}

impl<T, R> FromIterator<(String, T)> for Keyed<T, R> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(members: I) -> Self {
        Self(members.into_iter().collect(), PhantomData)
    }
}

impl<T: Serialize, R> Serialize for Keyed<T, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Deserr<Faults>, R: KeyRule> Deserr<Faults> for Keyed<T, R> {
    fn deserialize_from_value<V: IntoValue>(value: Input<V>, location: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let members = match value {
            Input::Map(members) => members,
            Input::Null => return Ok(Self::default()),
            other @ (Input::Boolean(_)
            | Input::Integer(_)
            | Input::NegativeInteger(_)
            | Input::Float(_)
            | Input::String(_)
            | Input::Sequence(_)) => return Err(wrong_type(other, ValueKind::Map, location)),
        };
        let mut read = IndexMap::new();
        let mut faults = Vec::new();
        for (key, value) in members.into_iter() {
            let place = location.push_key(&key);
            if let Err(wrong) = R::check(&key) {
                faults.push(wrong.at(place));
            }
            let value = value.into_value();
            if value.kind() == ValueKind::Null {
                continue;
            }
            match T::deserialize_from_value(value, place) {
                Ok(value) => drop(read.insert(key, value)),
                Err(found) => faults.extend(found.0),
            }
        }
        if faults.is_empty() { Ok(Self(read, PhantomData)) } else { Err(Faults(faults)) }
    }
}

fn wrong_type<V: IntoValue>(actual: Input<V>, wanted: ValueKind, location: ValuePointerRef<'_>) -> Faults {
    let error = ErrorKind::IncorrectValueKind { actual, accepted: &[wanted] };
    match Faults::error(None, error, location) {
        ControlFlow::Continue(faults) | ControlFlow::Break(faults) => faults,
    }
}

/// A checked text: its rule is applied when it is read from a client, never to what Kubernetes holds.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $check:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl Deserr<Faults> for $name {
            fn deserialize_from_value<V: IntoValue>(
                value: Input<V>,
                location: ValuePointerRef<'_>,
            ) -> Result<Self, Faults> {
                let text: String = Deserr::<Faults>::deserialize_from_value(value, location)?;
                let check: fn(&str) -> Result<(), Wrong> = $check;
                check(&text).map_err(|wrong| Faults::from(wrong.at(location)))?;
                Ok(Self(text))
            }
        }
    )*};
}

texts! {
    /// A cluster's name.
    ClusterName = check_cluster_name;
    /// A namespace's name.
    NamespaceName = |name| check_label_name("a namespace", name);
    /// A label's value.
    LabelValue = check_label_value;
    /// A container image's reference.
    Image = check_image;
    /// Ray's version, which is also a tag of its image.
    ImageTag = check_image_tag;
}

fn check_image(image: &str) -> Result<(), Wrong> {
    if !image.is_empty() && !image.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(Wrong::new(FaultCode::InvalidValue, "An image's reference is neither empty nor has it spaces."))
}

fn check_image_tag(tag: &str) -> Result<(), Wrong> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if (1..=128).contains(&tag.len()) && tag.bytes().all(inside) && !tag.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(Wrong::new(FaultCode::InvalidValue, format!("`{tag}` is no version of Ray; write one like `2.52.0`.")))
}

/// A number of nodes: not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Count(pub i32);

impl Deserr<Faults> for Count {
    fn deserialize_from_value<V: IntoValue>(value: Input<V>, location: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let out_of_range =
            |message: String| Faults::from(Fault::new(pointer(location), FaultCode::OutOfRange, message));
        match value {
            Input::Integer(count) => i32::try_from(count)
                .map(Self)
                .map_err(|_| out_of_range(format!("{count} is more than Kubernetes can hold, {}.", i32::MAX))),
            Input::NegativeInteger(count) => Err(out_of_range(format!("{count} is negative; 0 is the least."))),
            other @ (Input::Null
            | Input::Boolean(_)
            | Input::Float(_)
            | Input::String(_)
            | Input::Sequence(_)
            | Input::Map(_)) => Err(wrong_type(other, ValueKind::Integer, location)),
        }
    }
}

/// An amount of a resource: a Kubernetes quantity, not negative. A JSON number is taken for its decimal string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Amount(pub String);

impl Deserr<Faults> for Amount {
    fn deserialize_from_value<V: IntoValue>(value: Input<V>, location: ValuePointerRef<'_>) -> Result<Self, Faults> {
        amount(value, location).map(|quantity| Self(quantity.as_str().to_owned()))
    }
}

/// An amount of a resource that can't be divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct WholeAmount(pub String);

impl Deserr<Faults> for WholeAmount {
    fn deserialize_from_value<V: IntoValue>(value: Input<V>, location: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let quantity = amount(value, location)?;
        if quantity.is_whole() {
            return Ok(Self(quantity.as_str().to_owned()));
        }
        let message = format!("{} is not a whole number, and this can't be divided.", quantity.as_str());
        Err(Fault::new(pointer(location), FaultCode::OutOfRange, message).into())
    }
}

fn amount<V: IntoValue>(value: Input<V>, location: ValuePointerRef<'_>) -> Result<Quantity, Faults> {
    let text = match value {
        Input::String(text) => text,
        Input::Integer(number) => number.to_string(),
        Input::NegativeInteger(number) => number.to_string(),
        // Display of a float never has an exponent.
        Input::Float(number) => number.to_string(),
        other @ (Input::Null | Input::Boolean(_) | Input::Sequence(_) | Input::Map(_)) => {
            return Err(wrong_type(other, ValueKind::String, location));
        }
    };
    let quantity = Quantity::parse(&text).map_err(|wrong| Faults::from(wrong.at(location)))?;
    if quantity.is_negative() {
        let message = format!("{text} is negative; 0 is the least.");
        return Err(Fault::new(pointer(location), FaultCode::OutOfRange, message).into());
    }
    Ok(quantity)
}
