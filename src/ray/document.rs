//! The document: a Ray cluster as people write it. It is a JSON object with the members of [`members`](super::members);
//! judging one finds all its faults at once.

use serde::Serialize;
use serde_json::{Map, Value};

use super::check::{LONGEST_NAME, check, check_reserved};
use super::fault::{Fault, FaultCode, escape};
use super::lens::GPU;
use super::members::{DOCUMENT, Kind, Member};
use super::rules::{check_nodes, check_operator};
use super::schema::{Schema, ray_cluster};

/// Members that only the server writes: taken and ignored, so that what was read can be sent back.
pub const SERVER_MEMBERS: [&str; 8] =
    ["uid", "owner", "createTime", "resourceVersion", "status", "links", "partial", "warnings"];

/// A Ray cluster as people write it. Kubernetes may hold values that no client could send: a document made from them has
/// the same members, and their values have the same JSON types.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Document(pub Map<String, Value>);

/// One worker group of a [`Document`], as the API's description tells it.
#[derive(Debug, Clone, Copy)]
pub struct WorkerGroup;

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
        tidy(&DOCUMENT, &mut value);
        check(&DOCUMENT, &value, "", &mut faults);
        let document = Self(if let Value::Object(members) = value { members } else { Map::new() });
        check_nodes(&document, &mut faults);
        check_operator(&document, &mut faults);
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

/// What is wrong with a merge patch that the document it makes doesn't show: it takes away what doesn't exist or what isn't
/// the client's to take.
#[must_use]
pub fn wrong_removals(patch: &Value) -> Vec<Fault> {
    let mut faults = Document::read(nulls_alone(patch).unwrap_or_else(|| Map::new().into())).1;
    faults
        .retain(|fault| fault.code == FaultCode::UnknownMember && patch.pointer(&fault.pointer) == Some(&Value::Null));
    for member in ["name", "namespace"].into_iter().filter(|member| patch.get(*member) == Some(&Value::Null)) {
        faults.push(Fault::new(format!("/{member}"), FaultCode::Immutable, format!("`{member}` can't be taken away.")));
    }
    let groups = patch.get("workerGroups").and_then(Value::as_object).into_iter().flatten();
    let groups = groups.filter(|(name, _)| name.len() <= LONGEST_NAME);
    let groups = groups.map(|(name, group)| (format!("/workerGroups/{}", escape(name)), Some(group)));
    for (at, node) in [(String::new(), Some(patch)), ("/head".to_owned(), patch.get("head"))].into_iter().chain(groups)
    {
        for (place, holder) in
            [("", node), ("/podTemplate/metadata", node.and_then(|node| node.pointer("/podTemplate/metadata")))]
        {
            check_reserved(holder, &format!("{at}{place}"), Value::is_null, &mut faults);
        }
    }
    faults
}

/// The nulls of a patch and the objects around them; what it sets is judged in the document that it makes.
fn nulls_alone(patch: &Value) -> Option<Value> {
    let Value::Object(members) = patch else { return patch.is_null().then_some(Value::Null) };
    let nulls = members.iter().filter_map(|(name, value)| Some((name.clone(), nulls_alone(value)?)));
    let nulls: Map<_, _> = nulls.collect();
    (!nulls.is_empty()).then(|| nulls.into())
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

/// A null is as good as nothing, though not under a name that doesn't exist: that one stays, to be told of. A number is
/// taken for a quantity's text.
fn tidy(kind: &Kind, value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, value| !value.is_null() || !takes(kind, name));
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

/// Whether there is a member of this name.
fn takes(kind: &Kind, name: &str) -> bool {
    match kind {
        Kind::Object(_, lists) => member(lists, name).is_some(),
        Kind::Extended(own, place) => member(&[own], name).is_some() || takes_upstream(upstream(place), name),
        Kind::Upstream(place) | Kind::Named(place, _) | Kind::TextOr(place) => takes_upstream(upstream(place), name),
        Kind::Map(..)
        | Kind::Text(_)
        | Kind::Choice(_)
        | Kind::Flag
        | Kind::Whole(_)
        | Kind::Amount
        | Kind::WholeAmount
        | Kind::Texts(_) => true,
    }
}

/// The same of what a RayCluster takes at a place; where nothing is known of it, it may.
fn takes_upstream(schema: Option<&Schema>, name: &str) -> bool {
    schema.is_none_or(|schema| schema.is_open() || schema.member(name).is_some())
}

/// The same as [`tidy`] for what a RayCluster takes at a place.
pub(super) fn tidy_upstream(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| !value.is_null() || !takes_upstream(schema, name));
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
