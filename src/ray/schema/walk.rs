//! Walks through a value and its schema together, and finds where they differ.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::{Format, Kind, List, Rule, Schema, Test};
use crate::ray::fault::MOST;
use crate::ray::quantity::Quantity;

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
    /// A number that its Go type can't hold.
    Range(&'a Number),
    /// A number below the minimum.
    BelowMinimum(&'a Number, i64),
    /// None of the values that are listed.
    NotAllowed(&'a str),
    /// A text that doesn't match the pattern.
    Pattern(&'a str),
    /// A text with the pattern of a quantity that is none all the same.
    NoQuantity(&'a str),
    /// A text that is no time (RFC 3339).
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

/// How a value breaks the schema; `old` is the value that it replaces.
pub(super) fn breaches<'a>(schema: &'a Schema, value: &'a Value, old: Option<&'a Value>) -> Vec<Breach<'a>> {
    let mut walk = Walk { place: Vec::new(), found: Vec::new() };
    walk.value(schema, value, old);
    walk.found
}

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
        } else if schema.is_quantity() && Quantity::parse(text).is_err() {
            self.add(schema, What::NoQuantity(text));
        }
        if schema.format == Some(Format::DateTime) && !is_time(text) {
            self.add(schema, What::NoTime(text));
        }
    }

    fn number(&mut self, schema: &'a Schema, number: &'a Number) {
        let Some(value) = number.as_i64().filter(|value| schema.range().contains(value)) else {
            return self.add(schema, What::Range(number));
        };
        if let Some(minimum) = schema.minimum.filter(|minimum| value < *minimum) {
            self.add(schema, What::BelowMinimum(number, minimum));
        }
    }
}

/// Whether Go reads it as RFC 3339: `T` and `Z` are capital letters there, and no second is the 61st.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00T00:00:00") else { return false };
    let zone = rest.strip_prefix('.').map_or(rest, |fraction| fraction.trim_start_matches('0'));
    let zoned = matches!(zone, "Z" | "+00:00" | "-00:00");
    zoned && text.get(17..19).is_some_and(|second| second < "60") && text.parse::<Timestamp>().is_ok()
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
