//! The schema of a RayCluster, compiled in: what upstream's CRD says of every place of it, the pod templates included.
//!
//! `crd/rayclusters.schema.json` is the CRD without its descriptions, each subtree said once, with Kubernetes' ObjectMeta
//! in place of its `metadata`. A test holds it to the CRD of the operator that the tests run against.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use jiff::Timestamp;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::fault::{Fault, FaultCode, escape};

mod read;
#[cfg(test)]
mod tests;

/// One place of a structural schema (Kubernetes' `structural schema`).
#[derive(Debug)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

/// One step from the root of an object towards a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// To a member.
    Member(&'a str),
    /// To an entry of a list.
    Index(usize),
}

/// One way in which a value breaks its schema.
#[derive(Debug)]
pub struct Breach<'a> {
    /// Where.
    pub place: Vec<Step<'a>>,
    /// What the schema says of that place; for an unknown member, of the object that has it.
    pub schema: &'a Schema,
    /// How.
    pub what: What<'a>,
}

/// How a value breaks its schema.
#[derive(Debug)]
pub enum What<'a> {
    /// A member that the schema doesn't have.
    Unknown(&'a str),
    /// A member that must be there and isn't.
    Required(&'a str),
    /// A value of another type.
    Type(&'a Value),
    /// A number that the format can't hold.
    Format(&'a Number),
    /// A number below the minimum.
    BelowMinimum(&'a Number, i64),
    /// None of the values that are listed.
    NotAllowed(&'a str),
    /// A text that doesn't match the pattern.
    Pattern(&'a str),
    /// A text that is no time.
    NoTime(&'a str),
    /// A text with fewer characters than this.
    TooShort(&'a str, usize),
    /// A text with more characters than this.
    TooLong(&'a str, usize),
    /// An entry of a list whose keys (of a set: which itself) an earlier one has too.
    Duplicate(Value),
    /// A rule that isn't kept.
    Rule(&'a Rule, &'a Value),
}

/// The schema of a whole RayCluster (`ray.io/v1`); its `metadata` is Kubernetes' ObjectMeta.
#[must_use]
pub fn ray_cluster() -> &'static Schema {
    #[expect(clippy::expect_used, reason = "the text is compiled in, and a test reads it")]
    static ROOT: LazyLock<Arc<Schema>> =
        LazyLock::new(|| read::compiled(include_str!("../../crd/rayclusters.schema.json")).expect("a readable schema"));
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
    /// missed where it is required; an unknown member stays unknown. A null in a list is an entry of a wrong type.
    /// Whole numbers are written as such: of `1.0`, which Kubernetes would take, it is said that it has a fraction.
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
        let mut walk = Walk { place: Vec::new(), found: Vec::new() };
        walk.value(self, value, old);
        walk.found
    }

    fn leaves_out(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

/// The most faults that are told of one value: what a person reads, and a bound on what a hostile one costs.
pub const MOST: usize = 100;

/// A walk through a value and its schema. It goes no deeper than the schema does.
struct Walk<'a> {
    place: Vec<Step<'a>>,
    found: Vec<Breach<'a>>,
}

impl<'a> Walk<'a> {
    fn add(&mut self, schema: &'a Schema, what: What<'a>) {
        if self.found.len() < MOST {
            self.found.push(Breach { place: self.place.clone(), schema, what });
        }
    }

    fn add_at(&mut self, step: Step<'a>, schema: &'a Schema, what: What<'a>) {
        self.place.push(step);
        self.add(schema, what);
        self.place.pop();
    }

    fn value(&mut self, schema: &'a Schema, value: &'a Value, old: Option<&'a Value>) {
        if self.found.len() >= MOST {
            return;
        }
        match (value, schema.kind) {
            (Value::Null, _) if schema.nullable => {}
            (Value::Object(members), Kind::Object) => self.object(schema, members, old),
            (Value::Array(entries), Kind::Array) => self.list(schema, entries),
            (Value::String(text), Kind::String | Kind::IntOrString) => self.text(schema, text),
            (Value::Number(number), Kind::Integer | Kind::IntOrString) if !number.is_f64() => {
                self.number(schema, number);
            }
            (Value::Bool(_), Kind::Boolean) => {}
            _ => self.add(schema, What::Type(value)),
        }
        for rule in &schema.rules {
            let kept = match &rule.test {
                Test::Immutable => old.is_none_or(|old| old == value),
                Test::OneOf(allowed) => value.as_str().is_none_or(|text| allowed.iter().any(|one| one == text)),
            };
            if !kept {
                self.add(schema, What::Rule(rule, value));
            }
        }
    }

    fn object(&mut self, schema: &'a Schema, members: &'a Map<String, Value>, old: Option<&'a Value>) {
        for (name, value) in members {
            let step = Step::Member(name);
            match schema.member(name) {
                None if schema.open => {}
                None => self.add_at(step, schema, What::Unknown(name)),
                Some(member) if member.leaves_out(value) => {}
                Some(member) => {
                    self.place.push(step);
                    self.value(member, value, old.and_then(|old| old.get(name)));
                    self.place.pop();
                }
            }
        }
        for name in &schema.required {
            let Some(member) = schema.member(name) else { continue };
            if member.default.is_none() && members.get(name).is_none_or(|value| member.leaves_out(value)) {
                self.add_at(Step::Member(name), member, What::Required(name));
            }
        }
    }

    fn list(&mut self, schema: &'a Schema, entries: &'a [Value]) {
        let Some(items) = schema.items() else { return };
        let mut seen = HashSet::new();
        let mut told = HashSet::new();
        for (index, entry) in entries.iter().enumerate() {
            self.place.push(Step::Index(index));
            self.value(items, entry, None);
            let key = match schema.list {
                List::Atomic => None,
                List::Set => Some(entry.clone()),
                List::Map => entry.as_object().map(|entry| keys_of(schema, items, entry)),
            };
            // Of entries without keys it is said that these are missing.
            if let Some(key) = key.filter(|key| key != &Value::Object(Map::new())) {
                let text = key.to_string();
                if seen.contains(&text) {
                    // However many have it: Kubernetes tells of the second.
                    if told.insert(text) {
                        self.add(schema, What::Duplicate(key));
                    }
                } else {
                    seen.insert(text);
                }
            }
            self.place.pop();
        }
    }

    fn text(&mut self, schema: &'a Schema, text: &'a str) {
        if !schema.allowed.is_empty() && !schema.allowed.iter().any(|allowed| allowed == text) {
            self.add(schema, What::NotAllowed(text));
        }
        if let Some(most) = schema.max_length.filter(|most| text.chars().count() > *most) {
            self.add(schema, What::TooLong(text, most));
        }
        if let Some(least) = schema.min_length.filter(|least| text.chars().count() < *least) {
            self.add(schema, What::TooShort(text, least));
        }
        if schema.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
            self.add(schema, What::Pattern(text));
        }
        if schema.format == Some(Format::DateTime) && text.parse::<Timestamp>().is_err() {
            self.add(schema, What::NoTime(text));
        }
    }

    fn number(&mut self, schema: &'a Schema, number: &'a Number) {
        let Some(value) = number.as_i64() else { return self.add(schema, What::Format(number)) };
        if schema.format == Some(Format::Int32) && i32::try_from(value).is_err() {
            self.add(schema, What::Format(number));
        }
        if let Some(minimum) = schema.minimum.filter(|minimum| value < *minimum) {
            self.add(schema, What::BelowMinimum(number, minimum));
        }
    }
}

/// What tells an entry of a list from the others, its defaults filled in.
fn keys_of(schema: &Schema, items: &Schema, entry: &Map<String, Value>) -> Value {
    let keys = schema.list_keys.iter().filter_map(|name| {
        let member = items.member(name)?;
        let given = entry.get(name).filter(|value| !member.leaves_out(value));
        Some((name.clone(), given.or(member.default.as_ref())?.clone()))
    });
    Value::Object(keys.collect())
}

impl Breach<'_> {
    /// The same for a person, at its JSON pointer under this one.
    fn fault(&self, pointer: &str) -> Fault {
        let place = self.place.iter().fold(pointer.to_owned(), |place, step| match step {
            Step::Member(name) => format!("{place}/{}", escape(name)),
            Step::Index(index) => format!("{place}/{index}"),
        });
        let fault = |code: FaultCode, message: String| Fault::new(place.clone(), code, message);
        match &self.what {
            What::Unknown(name) => {
                let known: Vec<&str> = self.schema.members().collect();
                Fault::unknown(place, FaultCode::UnknownMember, name, &known)
            }
            What::Required(name) => fault(FaultCode::Required, format!("`{name}` is required.")),
            What::Type(value) => {
                let message = format!("This takes {}, not {}.", self.schema.kind.in_words(), in_words(value));
                fault(FaultCode::WrongType, message)
            }
            What::Format(number) => {
                let (least, most) = match self.schema.format {
                    Some(Format::Int32) => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    Some(Format::Int64 | Format::DateTime) | None => (i64::MIN, i64::MAX),
                };
                fault(FaultCode::OutOfRange, format!("{number} is not between {least} and {most}."))
            }
            What::BelowMinimum(number, minimum) => {
                fault(FaultCode::OutOfRange, format!("{number} is too little; {minimum} is the least."))
            }
            What::NotAllowed(text) => {
                fault(FaultCode::InvalidValue, format!("`{text}` is not taken here.")).allowing(&self.schema.allowed)
            }
            What::Pattern(text) if self.schema.is_quantity() => fault(
                FaultCode::InvalidQuantity,
                format!("`{text}` is no quantity; write a number and perhaps a unit, like `2`, `500m`, `4Gi`."),
            ),
            What::Pattern(text) => {
                let pattern = self.schema.pattern().unwrap_or_default();
                fault(FaultCode::InvalidValue, format!("`{text}` doesn't match the pattern `{pattern}`."))
            }
            What::NoTime(text) => {
                let message = format!("`{text}` is no time; write one like `2026-01-31T12:00:00Z`.");
                fault(FaultCode::InvalidValue, message)
            }
            What::TooShort(_, least) => {
                fault(FaultCode::OutOfRange, format!("This takes at least {least} characters."))
            }
            What::TooLong(_, most) => fault(FaultCode::OutOfRange, format!("This takes at most {most} characters.")),
            What::Duplicate(key) => {
                fault(FaultCode::InvalidValue, format!("Duplicate value: an earlier entry has {key} too."))
            }
            What::Rule(rule, value) => {
                let allowed = match &rule.test {
                    Test::Immutable => &[][..],
                    Test::OneOf(allowed) => allowed,
                };
                let message = format!("{value} is not taken here: {}.", rule.message);
                fault(FaultCode::InvalidValue, message).allowing(allowed)
            }
        }
    }
}

impl Kind {
    fn in_words(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "a whole number",
            Self::String => "a string",
            Self::Array => "a list",
            Self::Object => "an object",
            Self::IntOrString => "a whole number or a string",
        }
    }
}

fn in_words(value: &Value) -> &'static str {
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
