//! The document: a Ray cluster as people write it. It is a JSON object with the members of [`members`](super::members);
//! judging one finds all its faults at once.

use serde::Serialize;
use serde_json::{Map, Value};

use super::check::{LONGEST_NAME, check, join};
use super::fault::{Fault, FaultCode, MOST, escape};
use super::lens::GPU;
use super::members::{DOCUMENT, Kind, Member};
use super::name::is_reserved_key;
use super::rules::check_nodes;
use super::schema::{Schema, ray_cluster};

/// Members that only the server writes: taken and ignored, so that what was read can be sent back.
pub const SERVER_MEMBERS: [&str; 8] =
    ["uid", "owner", "createTime", "resourceVersion", "status", "links", "partial", "warnings"];

/// A Ray cluster as people write it. Kubernetes may hold values that no client could send: a document made from them has
/// the same members, and their values have the same JSON types.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Document(pub Map<String, Value>);

impl Document {
    /// Reads what a client sent: without members that only the server writes, without nulls, with quantities as texts;
    /// and all that is wrong with it.
    #[must_use]
    pub fn read(mut value: Value) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let Some(members) = value.as_object_mut() else {
            return (Self::default(), vec![Fault::wrong_type("", "an object", &value)]);
        };
        members.retain(|name, _| !SERVER_MEMBERS.contains(&name.as_str()));
        faults.extend(unknown_nulls(&value));
        tidy(&DOCUMENT, &mut value);
        check(&DOCUMENT, &value, "", &mut faults);
        let document = Self(if let Value::Object(members) = value { members } else { Map::new() });
        check_nodes(&document, &mut faults);
        (document, faults)
    }

    /// What is wrong with a document that was made from what Kubernetes holds.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        Self::read(Value::Object(self.0.clone())).1
    }

    /// A member that is a text.
    #[must_use]
    pub fn text(&self, member: &str) -> Option<&str> {
        self.0.get(member)?.as_str()
    }

    /// Whether a member is there and `true`.
    #[must_use]
    pub fn is_set(&self, member: &str) -> bool {
        self.0.get(member) == Some(&Value::Bool(true))
    }

    /// Whether Ray's autoscaler is on.
    #[must_use]
    pub fn autoscaling(&self) -> bool {
        self.0.get("autoscaling").and_then(|autoscaling| autoscaling.get("enabled")) == Some(&Value::Bool(true))
    }

    /// The head, empty where the document has none.
    #[must_use]
    pub fn head(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0.get("head").and_then(Value::as_object).unwrap_or(&EMPTY)
    }

    /// The worker groups by name, in order.
    pub fn groups(&self) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
        let groups = self.0.get("workerGroups").and_then(Value::as_object);
        groups.into_iter().flatten().filter_map(|(name, group)| Some((name, group.as_object()?)))
    }

    /// A worker group.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get("workerGroups")?.get(name)?.as_object()
    }
}

/// Members without a value that don't exist: else a null is as good as nothing.
fn unknown_nulls(value: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    find_unknown_nulls(&DOCUMENT, value, "", &mut faults);
    faults
}

fn find_unknown_nulls(kind: &Kind, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if faults.len() > MOST || name.len() > LONGEST_NAME {
            continue;
        }
        let here = |value: &Value| value.is_object() || value.is_array() || value.is_null();
        if !here(value) {
            continue;
        }
        let at = join(at, name);
        match kind {
            Kind::Map(_, kind) => find_unknown_nulls(kind, value, &at, faults),
            Kind::Object(_, lists) => match member(lists, name) {
                Some(member) => find_unknown_nulls(&member.kind, value, &at, faults),
                None if value.is_null() => {
                    let known: Vec<_> = lists.iter().flat_map(|list| list.iter()).map(|member| member.name).collect();
                    faults.push(Fault::unknown(at, FaultCode::UnknownMember, name, &known));
                }
                None => {}
            },
            Kind::Extended(own, place) if member(&[own], name).is_none() => {
                unknown_nulls_upstream(upstream(place), name, value, &at, faults);
            }
            Kind::Upstream(place) | Kind::Named(place, _) | Kind::TextOr(place) => {
                unknown_nulls_upstream(upstream(place), name, value, &at, faults);
            }
            Kind::Extended(..)
            | Kind::Text(_)
            | Kind::Choice(_)
            | Kind::Flag
            | Kind::Whole(_)
            | Kind::Amount
            | Kind::WholeAmount
            | Kind::Texts(_) => {}
        }
    }
}

/// The same for a member of what a RayCluster takes at a place.
pub(super) fn unknown_nulls_upstream(
    schema: Option<&Schema>,
    name: &str,
    value: &Value,
    at: &str,
    faults: &mut Vec<Fault>,
) {
    let Some(schema) = schema.filter(|schema| !schema.is_open()) else { return };
    match schema.member(name) {
        None if value.is_null() => {
            let known: Vec<_> = schema.members().collect();
            faults.push(Fault::unknown(at, FaultCode::UnknownMember, name, &known));
        }
        None => {}
        Some(inner) => {
            let items = value.as_array().into_iter().flatten().enumerate();
            let items = items.map(|(index, item)| (format!("{at}/{index}"), item, inner.items()));
            for (at, value, schema) in std::iter::once((at.to_owned(), value, Some(inner))).chain(items) {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if faults.len() <= MOST && name.len() <= LONGEST_NAME && !value.is_string() && !value.is_number() {
                        unknown_nulls_upstream(schema, name, value, &join(&at, name), faults);
                    }
                }
            }
        }
    }
}

/// What is wrong with a merge patch that the document it makes doesn't show: it takes away what doesn't exist or what isn't
/// the client's to take.
#[must_use]
pub fn wrong_removals(patch: &Value) -> Vec<Fault> {
    let mut patch = patch.clone();
    if let Some(members) = patch.as_object_mut() {
        members.retain(|name, _| !SERVER_MEMBERS.contains(&name.as_str()));
    }
    let mut faults = unknown_nulls(&patch);
    for member in ["name", "namespace"].into_iter().filter(|member| patch.get(*member) == Some(&Value::Null)) {
        faults.push(Fault::new(format!("/{member}"), FaultCode::Immutable, format!("`{member}` can't be taken away.")));
    }
    let groups = patch.get("workerGroups").and_then(Value::as_object).into_iter().flatten();
    let groups = groups.filter(|(name, _)| name.len() <= LONGEST_NAME);
    let groups = groups.map(|(name, group)| (format!("/workerGroups/{}", escape(name)), Some(group)));
    for (at, node) in [(String::new(), Some(&patch)), ("/head".to_owned(), patch.get("head"))].into_iter().chain(groups)
    {
        for (place, holder) in
            [("", node), ("/podTemplate/metadata", node.and_then(|node| node.pointer("/podTemplate/metadata")))]
        {
            for member in ["labels", "annotations"] {
                let keys = holder.and_then(|holder| holder.get(member)?.as_object()).into_iter().flatten();
                for (key, _) in keys.filter(|(key, value)| value.is_null() && is_reserved_key(key)) {
                    let message = format!("`{key}` is written by raygate, kubectl or KubeRay only.");
                    faults.push(Fault::new(
                        format!("{at}{place}/{member}/{}", escape(key)),
                        FaultCode::Reserved,
                        message,
                    ));
                }
            }
        }
    }
    faults
}

/// The member of this name.
pub(super) fn member<'a>(lists: &[&'a [Member]], name: &str) -> Option<&'a Member> {
    lists.iter().flat_map(|list| list.iter()).find(|member| member.name == name)
}

/// The resources that a node's short members mean.
pub(super) fn short_resources(node: &Map<String, Value>) -> impl Iterator<Item = (&'static str, &str)> {
    let gpu = node.get("gpuResource").and_then(Value::as_str).unwrap_or(GPU);
    [("cpu", "cpu"), ("memory", "memory"), ("gpu", gpu)].into_iter().filter(|(member, _)| node.contains_key(*member))
}

/// What a RayCluster takes at a place.
pub(super) fn upstream(place: &str) -> Option<&'static Schema> {
    ray_cluster().at(place)
}

/// A null is as good as nothing; a number is taken for a quantity's text.
fn tidy(kind: &Kind, value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    match kind {
        Kind::Amount | Kind::WholeAmount => number_to_text(value),
        Kind::Map(_, kind) => value.as_object_mut().into_iter().flatten().for_each(|(_, value)| tidy(kind, value)),
        Kind::Object(_, lists) => {
            for (name, value) in value.as_object_mut().into_iter().flatten() {
                if let Some(member) = member(lists, name) {
                    tidy(&member.kind, value);
                }
            }
        }
        Kind::Extended(own, place) => {
            for (name, value) in value.as_object_mut().into_iter().flatten() {
                match member(&[own], name) {
                    Some(member) => tidy(&member.kind, value),
                    None => tidy_upstream(upstream(place).and_then(|schema| schema.member(name)), value),
                }
            }
        }
        Kind::Upstream(place) | Kind::Named(place, _) | Kind::TextOr(place) => tidy_upstream(upstream(place), value),
        Kind::Text(_) | Kind::Choice(_) | Kind::Flag | Kind::Whole(_) | Kind::Texts(_) => {}
    }
}

/// The same for what a RayCluster takes at a place.
pub(super) fn tidy_upstream(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            for (name, value) in members {
                tidy_upstream(schema.and_then(|schema| schema.member(name)), value);
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(Schema::items);
            for item in items {
                tidy_upstream(schema, item);
            }
        }
        Value::Number(_) if schema.is_some_and(Schema::is_quantity) => number_to_text(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn number_to_text(value: &mut Value) {
    if let Value::Number(number) = value {
        // Display of a float never has an exponent, serde_json's may.
        let float = number.as_f64().filter(|_| number.is_f64());
        *value = float.map_or_else(|| number.to_string(), |float| float.to_string()).into();
    }
}
