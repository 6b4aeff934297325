//! Reads the compiled schema: a list of places, each of which names its parts by their number in the list, all of them
//! earlier; the last one is the root.

use std::sync::Arc;

use indexmap::IndexMap;
use regex::Regex;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::{Error, Value};

use super::{Format, Kind, List, Rule, Schema, Test};

/// Every keyword that upstream uses; another one is an error, so that none is passed over in silence.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Place {
    r#type: Option<Kind>,
    format: Option<Format>,
    #[serde(default)]
    properties: IndexMap<String, usize>,
    additional_properties: Option<usize>,
    items: Option<usize>,
    #[serde(default)]
    required: Vec<String>,
    default: Option<Value>,
    #[serde(default)]
    nullable: bool,
    #[serde(default)]
    r#enum: Vec<String>,
    pattern: Option<String>,
    minimum: Option<i64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    /// Beside `x-kubernetes-int-or-string` alone, of which it says nothing more.
    any_of: Option<[Alternative; 2]>,
    #[serde(default, rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown_fields: bool,
    #[serde(default, rename = "x-kubernetes-list-type")]
    list_type: List,
    #[serde(default, rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<String>,
    /// Only what server-side apply asks for.
    #[serde(rename = "x-kubernetes-map-type")]
    _map_type: Option<IgnoredAny>,
    #[serde(default, rename = "x-kubernetes-validations")]
    validations: Vec<Validation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    r#type: Kind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Validation {
    rule: String,
    message: String,
}

/// Reads the whole.
pub(super) fn compiled(text: &str) -> Result<Arc<Schema>, Error> {
    let places: Vec<Place> = serde_json::from_str(text)?;
    let mut schemas = Vec::with_capacity(places.len());
    for place in places {
        let schema = schema(place, &schemas)?;
        schemas.push(Arc::new(schema));
    }
    schemas.pop().ok_or_else(|| Error::custom("there is no schema"))
}

fn schema(place: Place, earlier: &[Arc<Schema>]) -> Result<Schema, Error> {
    let part = |number: usize| earlier.get(number).cloned().ok_or_else(|| Error::custom("a part that comes later"));
    let kind = match (place.r#type, place.int_or_string, place.any_of) {
        (Some(kind), false, None) => kind,
        (None, true, None) => Kind::IntOrString,
        (None, true, Some([a, b])) if (a.r#type, b.r#type) == (Kind::Integer, Kind::String) => Kind::IntOrString,
        _ => return Err(Error::custom("a type that is said in an unknown way")),
    };
    let members = place.properties.into_iter().map(|(name, number)| Ok((name, part(number)?)));
    Ok(Schema {
        kind,
        format: place.format,
        members: members.collect::<Result<_, Error>>()?,
        values: place.additional_properties.map(part).transpose()?,
        items: place.items.map(part).transpose()?,
        required: place.required,
        default: place.default,
        nullable: place.nullable,
        open: place.preserve_unknown_fields,
        allowed: place.r#enum,
        pattern: place.pattern.map(|pattern| Regex::new(&pattern)).transpose().map_err(Error::custom)?,
        minimum: place.minimum,
        min_length: place.min_length,
        max_length: place.max_length,
        list: place.list_type,
        list_keys: place.list_map_keys,
        rules: place.validations.into_iter().map(rule).collect::<Result<_, _>>()?,
    })
}

/// The two forms of a CEL rule that upstream uses.
fn rule(validation: Validation) -> Result<Rule, Error> {
    let Validation { rule, message } = validation;
    let test = match rule.strip_prefix("self in ") {
        None if rule == "self == oldSelf" => Test::Immutable,
        Some(list) => Test::OneOf(serde_json::from_str(&list.replace('\'', "\""))?),
        None => return Err(Error::custom(format!("an unknown rule: {rule}"))),
    };
    Ok(Rule { message, test })
}
