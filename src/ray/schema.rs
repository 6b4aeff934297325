//! The schema of a RayCluster, compiled in: what upstream's CRD says of every place of it, the pod templates included.
//!
//! `crd/rayclusters.schema.json` is the CRD without its descriptions, each subtree said once, with Kubernetes' ObjectMeta
//! in place of its `metadata`. A test holds it to the CRD of the operator that the tests run against.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

pub use self::walk::{Breach, Step, What};
use super::fault::Fault;
pub use super::fault::MOST;

mod read;
#[cfg(test)]
mod tests;
mod walk;
mod words;

/// One place of a structural schema (Kubernetes' `structural schema`).
#[derive(Debug, Default)]
pub struct Schema {
    kind: Kind,
    format: Option<Format>,
    members: IndexMap<String, Arc<Schema>>,
    values: Option<Arc<Schema>>,
    items: Option<Arc<Schema>>,
    required: Vec<String>,
    default: Option<Value>,
    nullable: bool,
    open: bool,
    allowed: Vec<String>,
    pattern: Option<Regex>,
    minimum: Option<i64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    list: List,
    list_keys: Vec<String>,
    rules: Vec<Rule>,
}

/// What values a place takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A text.
    String,
    /// A list.
    Array,
    /// Members by name.
    #[default]
    Object,
    /// A whole number or a text: `x-kubernetes-int-or-string`.
    IntOrString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Format {
    #[serde(rename = "int32")]
    Int32,
    #[serde(rename = "int64")]
    Int64,
    #[serde(rename = "date-time")]
    DateTime,
}

/// Which entries of a list may be there together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum List {
    #[default]
    Atomic,
    Set,
    Map,
}

/// One of `x-kubernetes-validations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What Kubernetes says where it is broken.
    pub message: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Immutable,
    OneOf(Vec<String>),
}

/// The schema of a whole RayCluster (`ray.io/v1`); its `metadata` is Kubernetes' ObjectMeta.
#[must_use]
pub fn ray_cluster() -> &'static Schema {
    // The tests read it; a text that can't be read would be a schema that knows no member.
    static ROOT: LazyLock<Arc<Schema>> =
        LazyLock::new(|| read::compiled(include_str!("../../crd/rayclusters.schema.json")).unwrap_or_default());
    &ROOT
}

impl Schema {
    /// The schema at a place, members separated by dots, `[]` for a list's entries, `{}` for a map's values:
    /// `spec.workerGroupSpecs[].template`. `None` where there is none.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Schema> {
        let path = path.replace("[]", ".[]").replace("{}", ".{}");
        path.split('.').filter(|step| !step.is_empty()).try_fold(self, |schema, step| match step {
            "[]" => schema.items(),
            "{}" => schema.values.as_deref(),
            name => schema.members.get(name).map(AsRef::as_ref),
        })
    }

    /// The schema of a member: of a property, else of a map's value.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Schema> {
        self.members.get(name).or(self.values.as_ref()).map(AsRef::as_ref)
    }

    /// The schema of a list's entries.
    #[must_use]
    pub fn items(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// What values it takes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether an object may have members that the schema doesn't know.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether it takes an amount, like `500m`: a whole number, or a text with the pattern of a quantity.
    #[must_use]
    pub fn is_quantity(&self) -> bool {
        self.kind == Kind::IntOrString && self.pattern.is_some()
    }

    /// Whether it is a map: an object whose members' names the user chooses.
    #[must_use]
    pub fn is_map(&self) -> bool {
        self.values.is_some()
    }

    /// The members that tell a list's entries apart (`x-kubernetes-list-map-keys`); empty where nothing does.
    #[must_use]
    pub fn list_keys(&self) -> &[String] {
        &self.list_keys
    }

    /// The names of the members that an object may have; of a map none.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// The values that a text is one of; empty where it may be any.
    #[must_use]
    pub fn allowed(&self) -> &[String] {
        &self.allowed
    }

    /// The pattern that a text matches.
    #[must_use]
    pub fn pattern(&self) -> Option<&str> {
        self.pattern.as_ref().map(Regex::as_str)
    }

    /// What is wrong with a value that a client sent, each fault at its JSON pointer under `pointer`.
    ///
    /// A member that is null counts as left out, as for Kubernetes: it gets its default or is dropped, so it is only
    /// missed where it is required; an unknown member stays unknown. A null in a list is an entry of a wrong type. (Of a
    /// null among labels or annotations Kubernetes makes an empty text.)
    ///
    /// This is stricter than the apiserver where it stores what KubeRay's operator can't decode, because one such object
    /// keeps the operator from reading any: numbers beyond int32 where Go has one, quantities like `1e1.5`, times with a
    /// small `t`. Whole numbers are written as such: of `1.0`, which would do, it is said that it has a fraction.
    ///
    /// No more than [`MOST`] faults are told.
    pub fn check(&self, value: &Value, pointer: &str, faults: &mut Vec<Fault>) {
        faults.extend(self.breaches(value, None).iter().map(|breach| breach.fault(pointer)));
    }

    /// Fills in the schema's defaults and drops nulls, as the apiserver does: only inside objects that are there.
    pub fn apply_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, schema) in &self.members {
                    let missing = members.get(name).is_none_or(|value| schema.leaves_out(value));
                    if let (true, Some(default)) = (missing, &schema.default) {
                        members.insert(name.clone(), default.clone());
                    }
                }
                members.retain(|name, value| !self.member(name).is_some_and(|schema| schema.leaves_out(value)));
                for (name, value) in members {
                    if let Some(schema) = self.member(name) {
                        schema.apply_defaults(value);
                    }
                }
            }
            Value::Array(entries) => {
                for entry in entries {
                    if let Some(items) = self.items() {
                        items.apply_defaults(entry);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// How a value breaks the schema; `old` is the value that it replaces. No more than [`MOST`] ways.
    #[must_use]
    pub fn breaches<'a>(&'a self, value: &'a Value, old: Option<&'a Value>) -> Vec<Breach<'a>> {
        walk::breaches(self, value, old)
    }

    /// The numbers that its Go type holds: of the texts that may be numbers only a quantity is no `intstr.IntOrString`.
    fn range(&self) -> RangeInclusive<i64> {
        let int32 = self.format == Some(Format::Int32) || (self.kind == Kind::IntOrString && !self.is_quantity());
        if int32 { i64::from(i32::MIN)..=i64::from(i32::MAX) } else { i64::MIN..=i64::MAX }
    }

    fn leaves_out(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}
