//! JSON in: one document, no key twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::fault::{Fault, FaultCode, Faults, escape};

/// Reads one JSON document (RFC 8259), nested at most 127 deep; beside it one fault per key that an object has twice (the
/// last one is in the value, for whatever else is wrong with it to be found: which one was meant can't be known).
///
/// # Errors
/// A syntax fault with line and column.
pub fn read(bytes: &[u8]) -> Result<(Value, Faults), Faults> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new("", FaultCode::Syntax, "The body is empty; a JSON document is needed.").into());
    }
    let place = RefCell::new(Place::default());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(&place).deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    let value = value
        .map_err(|error| Faults::from(Fault::new("", FaultCode::Syntax, format!("This is not JSON: {error}."))))?;
    Ok((value, Faults(place.into_inner().twice)))
}

/// How many bytes the faults of one text may take together: enough for every honest one.
const MOST: usize = 1 << 20;

/// Where the reader is, and what it found. A pointer is made for a fault only: making one for every value would take
/// time by the square of a long key's length.
#[derive(Default)]
struct Place {
    path: Vec<Step>,
    twice: Vec<Fault>,
    taken: usize,
}

enum Step {
    Member(String),
    Item(usize),
}

impl Place {
    /// The key that was read last is in its object already.
    fn twice(&mut self) {
        let pointer = self.path.iter().fold(String::new(), |pointer, step| match step {
            Step::Member(name) => pointer + "/" + &escape(name),
            Step::Item(index) => format!("{pointer}/{index}"),
        });
        let Some(Step::Member(key)) = self.path.last() else { return };
        let message = format!("`{key}` is here more than once.");
        self.taken += pointer.len() + message.len();
        self.twice.push(Fault::new(pointer, FaultCode::DuplicateKey, message));
    }

    fn leave(&mut self) -> Option<Step> {
        self.path.pop()
    }
}

struct Seed<'a>(&'a RefCell<Place>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            self.0.borrow_mut().path.push(Step::Item(array.len()));
            let item = items.next_element_seed(Seed(self.0))?;
            self.0.borrow_mut().leave();
            match item {
                Some(value) => array.push(value),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            self.0.borrow_mut().path.push(Step::Member(key));
            let value = members.next_value_seed(Seed(self.0))?;
            let mut place = self.0.borrow_mut();
            if let Some(Step::Member(key)) = place.path.last()
                && object.contains_key(key)
            {
                if place.taken > MOST {
                    return Err(A::Error::custom("too many keys are here more than once"));
                }
                place.twice();
            }
            if let Some(Step::Member(key)) = place.leave() {
                object.insert(key, value);
            }
        }
        Ok(Value::Object(object))
    }
}

/// Applies a merge patch (RFC 7396, section 2); members keep their order, which a library's swapping removal would not.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    let Value::Object(members) = target else { return };
    // All at once: taking away one by one would move the rest each time.
    members.retain(|name, _| !patch.get(name).is_some_and(Value::is_null));
    for (name, value) in patch.iter().filter(|(_, value)| !value.is_null()) {
        merge(members.entry(name.clone()).or_insert(Value::Null), value);
    }
}

/// The merge patch (RFC 7396) from one object to another, which has no nulls where they differ.
#[must_use]
pub fn difference(from: &Value, to: &Value) -> Map<String, Value> {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else { return Map::new() };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, wanted) in to {
        match from.get(name) {
            Some(held) if held == wanted => {}
            Some(held) if held.is_object() && wanted.is_object() => {
                patch.insert(name.clone(), difference(held, wanted).into());
            }
            _ => drop(patch.insert(name.clone(), wanted.clone())),
        }
    }
    patch
}

/// Whether a merge patch (RFC 7396) has been applied: applying it would change nothing.
#[must_use]
pub fn is_merged(value: &Value, patch: &Value) -> bool {
    let Value::Object(patch) = patch else { return value == patch };
    patch.iter().all(|(name, patch)| is_merged(value.get(name).unwrap_or(&Value::Null), patch))
}

/// Most places that [`changes`] tells.
pub const MOST_CHANGES: usize = 100;

/// Where one document differs from another: JSON Pointers (RFC 6901) of the smallest parts that do, at most
/// [`MOST_CHANGES`].
#[must_use]
pub fn changes(from: &Value, to: &Value) -> Vec<String> {
    let mut found = Vec::new();
    changes_at(String::new(), from, to, &mut found);
    found
}

fn changes_at(place: String, from: &Value, to: &Value, found: &mut Vec<String>) {
    if from == to || found.len() >= MOST_CHANGES {
        return;
    }
    match (from, to) {
        (Value::Object(before), Value::Object(after)) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let (before, after) = (before.get(name), after.get(name));
                let place = format!("{place}/{}", escape(name));
                changes_at(place, before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                changes_at(format!("{place}/{index}"), before, after, found);
            }
        }
        _ => found.push(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        let text = r#"{"b": [1, -2, 0.5, 1e3, "x\u00e9\n", null, true, {}], "a": {"c~/d": 18446744073709551615}}"#;
        let (value, faults) = read(text.as_bytes()).unwrap();
        assert_eq!(faults.0, []);
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(
            serde_json::to_string(&value).unwrap(),
            text.replace(": ", ":").replace(", ", ",").replace("1e3", "1000.0").replace("\\u00e9", "é")
        );
    }

    #[test]
    fn each_key_that_is_there_twice_is_named() {
        let faults = read(br#"{"a": 1, "l": [{"x/y": 1, "x/y": 2}], "a": 2, "a": 3}"#).unwrap().1.0;
        let found: Vec<_> = faults.iter().map(|fault| (fault.pointer.as_str(), fault.code)).collect();
        let twice = FaultCode::DuplicateKey;
        assert_eq!(found, [("/l/0/x~1y", twice), ("/a", twice), ("/a", twice)]);
    }

    #[test]
    fn a_long_key_over_many_values_costs_no_more_than_it_has_bytes() {
        // A pointer for every value would be 100 GB of text here.
        let text = format!("{{\"{}\": [{}1]}}", "k".repeat(500_000), "1,".repeat(200_000));
        assert_eq!(read(text.as_bytes()).unwrap().1.0, []);
        let text = format!("{{\"{}\": {{{}\"a\": 1}}}}", "k".repeat(500_000), "\"a\": 1,".repeat(60_000));
        assert_eq!(read(text.as_bytes()).unwrap_err().0[0].code, FaultCode::Syntax, "its faults are bounded");
    }

    #[test]
    fn a_patch_that_is_merged_is_known() {
        let value: Value = serde_json::from_str(r#"{"a": {"b": 1, "c": [1]}, "d": "e"}"#).unwrap();
        for (patch, merged) in [
            (r#"{"a": {"b": 1}}"#, true),
            (r#"{"a": {"b": 2}}"#, false),
            (r#"{"a": {"x": null}, "y": {"z": null}}"#, true),
            (r#"{"a": {"c": [1], "b": null}}"#, false),
            (r#"{"a": {"c": [1, 2]}}"#, false),
            (r#"{"n": 1}"#, false),
        ] {
            assert_eq!(is_merged(&value, &serde_json::from_str(patch).unwrap()), merged, "{patch}");
        }
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn merging_is_the_rfcs() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let mut merged = read(target);
            merge(&mut merged, &read(patch));
            assert_eq!(merged.to_string(), result, "{target} and {patch}");
        }
    }

    #[test]
    fn a_difference_leads_from_one_to_the_other() {
        let from = serde_json::json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2]});
        let to = serde_json::json!({"b": {"c": 4, "d": 3}, "e": [1], "f": {}});
        let patch = Value::Object(difference(&from, &to));
        assert_eq!(patch, serde_json::json!({"a": null, "b": {"c": 4}, "e": [1], "f": {}}));
        let mut merged = from;
        merge(&mut merged, &patch);
        assert_eq!(merged, to);
    }

    #[test]
    fn changes_are_the_smallest_parts_that_differ() {
        let from = serde_json::json!({"a": 1, "b": {"c": 2, "d/": 3}, "e": [1, {"x": 1}], "g": [1], "h": {}});
        let to = serde_json::json!({"b": {"c": 4, "d/": 5}, "e": [1, {"x": 2}], "f": {"y": 1}, "g": [1, 2], "h": {}});
        assert_eq!(changes(&from, &to), ["/a", "/b/c", "/b/d~1", "/e/1/x", "/g", "/f"]);
        assert_eq!(changes(&from, &from), Vec::<String>::new());
        let many: Value = (0..1000).map(|name| (name.to_string(), Value::from(name))).collect();
        assert_eq!(changes(&serde_json::json!({}), &many).len(), MOST_CHANGES);
    }

    #[test]
    fn depth_and_syntax_are_faults_not_panics() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for text in [deep.as_str(), "", " \n", "{", "{} {}", "nan", "{\"a\":}", "\u{feff}{}", "1e999"] {
            let faults = read(text.as_bytes()).unwrap_err().0;
            assert_eq!((faults.len(), faults[0].code), (1, FaultCode::Syntax), "{text:.20}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }
}
