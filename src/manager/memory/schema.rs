//! What the RayCluster CRD and the apiserver's rules for metadata say of an object, in the apiserver's words. The CRD knows
//! no bounds for replicas: a negative number can be stored, and the operator then leaves the cluster alone.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::store::{finalizers, is_deleting, text};
use crate::manager::{Cause, ManagerError};
use crate::ray::name::{is_dns1123_subdomain, is_label_value, is_metadata_key};
use crate::ray::schema::{Kind, Schema, Step, What, ray_cluster};

/// The members of metadata that only the server writes.
const SERVERS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];
/// The members of metadata that a patch may name but not change.
const IMMUTABLE: [&str; 4] = ["name", "namespace", "uid", "deletionTimestamp"];

/// A time as Kubernetes writes it.
pub(super) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Drops what a create can't set.
pub(super) fn prepare_create(object: &mut Value) {
    let Some(members) = object.as_object_mut() else { return };
    members.shift_remove("status");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        for member in SERVERS {
            metadata.shift_remove(member);
        }
    }
}

/// Puts back what an update can't set, and refuses what it can't change.
pub(super) fn prepare_update(new: &mut Value, old: &Value) -> Result<(), ManagerError> {
    let mut faults = Faults::default();
    for member in ["apiVersion", "kind"] {
        if new[member] != old[member] {
            faults.add(member, "Invalid value: field is immutable");
        }
    }
    for member in IMMUTABLE {
        let (wanted, held) = (&new["metadata"][member], &old["metadata"][member]);
        let left_out = wanted.is_null() && matches!(member, "uid" | "deletionTimestamp");
        if wanted != held && !left_out {
            faults.add(&format!("metadata.{member}"), "Invalid value: field is immutable");
        }
    }
    let held = finalizers(old);
    for finalizer in finalizers(new).iter().filter(|name| is_deleting(old) && !held.contains(name)) {
        let message = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {finalizer}"
        );
        faults.add("metadata.finalizers", &message);
    }
    faults.verdict(text(old, "name"))?;

    let Some(members) = new.as_object_mut() else {
        return Ok(());
    };
    members.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "spec"));
    if let Some(status) = old.get("status") {
        members.insert("status".to_owned(), status.clone());
    }
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        for member in SERVERS {
            match old["metadata"].get(member) {
                Some(held) => metadata.insert(member.to_owned(), held.clone()),
                None => metadata.shift_remove(member),
            };
        }
    }
    Ok(())
}

/// What any write makes of an object before it is judged: metadata has no empty members, and the CRD's defaults are there.
pub(super) fn normalize(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| value != &json!({}) && value != &json!([]));
    }
    ray_cluster().apply_defaults(object);
}

/// Refuses what the apiserver can't decode: other metadata than Kubernetes', and fields that the schema doesn't have.
pub(super) fn decode(object: &Value) -> Result<(), ManagerError> {
    if ObjectMeta::deserialize(&object["metadata"]).is_err() {
        let message = "what the patch makes of the object can't be decoded".to_owned();
        return Err(ManagerError::Invalid { message, causes: Vec::new() });
    }
    let mut unknown = Vec::new();
    unknown_fields(Some(ray_cluster()), object, "", &mut unknown);
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    let words: Vec<String> = unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    Err(ManagerError::FieldNotSupported(words.join(", ")))
}

/// What the apiserver would prune; it doesn't mind there whether a value is of the right type.
fn unknown_fields(schema: Option<&Schema>, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(_) if schema.is_some_and(Schema::is_open) => {}
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match schema.and_then(|schema| schema.member(name)) {
                    Some(member) => unknown_fields(Some(member), value, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(entries) => {
            let items = schema.and_then(Schema::items);
            for (index, entry) in entries.iter().enumerate() {
                unknown_fields(items, entry, &format!("{path}[{index}]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Refuses what the apiserver would: `old` is what the object replaces.
pub(super) fn check(object: &Value, old: Option<&Value>) -> Result<(), ManagerError> {
    let mut faults = Faults::default();
    metadata(&mut faults, &object["metadata"]);
    let breaches = ray_cluster().breaches(object, old);
    // A value of another type and the like keep the rules from being looked at.
    let blocked = breaches.iter().any(|breach| {
        matches!(breach.what, What::Type(_) | What::Required(_) | What::NotAllowed(_) | What::TooLong(..))
    });
    for breach in breaches.iter().filter(|breach| !(blocked && matches!(breach.what, What::Rule(..)))) {
        let field = field(&breach.place);
        if let Some(message) = in_words(&breach.what, breach.schema, &field) {
            faults.add(&field, &message);
        }
    }
    faults.unchecked = blocked;
    faults.verdict(text(object, "name"))
}

/// A place in the apiserver's notation.
fn field(place: &[Step<'_>]) -> String {
    place.iter().fold(String::new(), |path, step| match step {
        Step::Member(name) if path.is_empty() => (*name).to_owned(),
        Step::Member(name) => format!("{path}.{name}"),
        Step::Index(index) => format!("{path}[{index}]"),
    })
}

/// A breach in the apiserver's words; `None` for what it lets pass.
fn in_words(what: &What<'_>, schema: &Schema, field: &str) -> Option<String> {
    let wrong_type = |wanted: &str, found: &str| {
        format!("Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\"")
    };
    Some(match what {
        What::Type(value) => wrong_type(kind_name(schema.kind()), type_name(value)),
        // It has no larger whole numbers than int64, and minds no smaller type.
        What::Range(number) if number.is_i64() => return None,
        What::Range(_) => wrong_type(kind_name(schema.kind()), "number"),
        What::Required(_) => "Required value".to_owned(),
        What::BelowMinimum(number, minimum) => {
            format!("Invalid value: {number}: {field} in body should be greater than or equal to {minimum}")
        }
        What::NotAllowed(text) => {
            let allowed: Vec<String> = schema.allowed().iter().map(|value| format!("\"{value}\"")).collect();
            format!("Unsupported value: \"{text}\": supported values: {}", allowed.join(", "))
        }
        What::Pattern(text) => {
            let pattern = schema.pattern().unwrap_or_default();
            format!("Invalid value: \"{text}\": {field} in body should match '{pattern}'")
        }
        What::NoTime(text) => wrong_type("date-time", text),
        What::TooShort(text, least) => {
            format!("Invalid value: \"{text}\": {field} in body should be at least {least} chars long")
        }
        What::TooLong(_, most) => format!("Too long: may not be more than {most} bytes"),
        What::Duplicate(key) => format!("Duplicate value: {key}"),
        What::Rule(rule, value) => format!("Invalid value: {value}: {}", rule.message),
        // The pattern is all it asks of a quantity; unknown fields are found while decoding.
        What::NoQuantity(_) | What::Unknown(_) => return None,
    })
}

fn metadata(faults: &mut Faults, metadata: &Value) {
    match metadata["name"].as_str() {
        None | Some("") => faults.add("metadata.name", "Required value: name or generateName is required"),
        Some(name) if !is_dns1123_subdomain(name) => faults.add(
            "metadata.name",
            &format!("Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"),
        ),
        Some(_) => {}
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_metadata_key(key) {
            faults.add("metadata.labels", &format!("Invalid value: \"{key}\": can't be a label's key"));
        }
        if !value.as_str().is_some_and(is_label_value) {
            faults.add("metadata.labels", &format!("Invalid value: {value}: can't be a label's value"));
        }
    }
    for key in metadata["annotations"].as_object().into_iter().flat_map(Map::keys) {
        if !is_metadata_key(&key.to_lowercase()) {
            faults.add("metadata.annotations", &format!("Invalid value: \"{key}\": can't be an annotation's key"));
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::Integer => "integer",
        Kind::String => "string",
        Kind::Array => "array",
        Kind::Object => "object",
        Kind::IntOrString => "integer,string",
    }
}

/// What is wrong with an object, in the apiserver's words.
#[derive(Default)]
struct Faults {
    causes: Vec<Cause>,
    /// Whether the rules weren't looked at.
    unchecked: bool,
}

impl Faults {
    fn add(&mut self, field: &str, message: &str) {
        self.causes.push(Cause { field: field.to_owned(), message: message.to_owned() });
    }

    fn verdict(self, name: &str) -> Result<(), ManagerError> {
        let mut words: Vec<String> =
            self.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        if self.unchecked {
            words.push("<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation".to_owned());
        }
        let words = match words.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(ManagerError::Invalid {
            message: format!("RayCluster.ray.io \"{name}\" is invalid: {words}"),
            causes: self.causes,
        })
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
