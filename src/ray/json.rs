//! JSON in: one document, no key twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
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
    let twice = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { pointer: String::new(), twice: &twice };
    let value = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    let value = value
        .map_err(|error| Faults::from(Fault::new("", FaultCode::Syntax, format!("This is not JSON: {error}."))))?;
    Ok((value, Faults(twice.into_inner())))
}

struct Seed<'a> {
    pointer: String,
    twice: &'a RefCell<Vec<Fault>>,
}

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
        let item = |index: usize| Seed { pointer: format!("{}/{index}", self.pointer), twice: self.twice };
        while let Some(value) = items.next_element_seed(item(array.len()))? {
            array.push(value);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let pointer = format!("{}/{}", self.pointer, escape(&key));
            let value = members.next_value_seed(Seed { pointer: pointer.clone(), twice: self.twice })?;
            if object.contains_key(&key) {
                let message = format!("`{key}` is here more than once.");
                self.twice.borrow_mut().push(Fault::new(pointer, FaultCode::DuplicateKey, message));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
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
    fn depth_and_syntax_are_faults_not_panics() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for text in [deep.as_str(), "", " \n", "{", "{} {}", "nan", "{\"a\":}", "\u{feff}{}", "1e999"] {
            let faults = read(text.as_bytes()).unwrap_err().0;
            assert_eq!((faults.len(), faults[0].code), (1, FaultCode::Syntax), "{text:.20}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }
}
