//! What the RayCluster CRD and the apiserver's rules for metadata say of an object, as far as raygate reads it: defaults,
//! required members, types. The CRD knows no minimum for replicas: a negative number can be stored, and the operator then
//! leaves the cluster alone.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::store::{finalizers, is_deleting, text};
use crate::manager::{Cause, ManagerError};
use crate::ray::cluster::{DEFAULT_MAX_REPLICAS, RayCluster};
use crate::ray::name::{is_dns1123_subdomain, is_label_value, is_metadata_key};

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

/// What any write makes of an object before it is judged.
pub(super) fn normalize(object: &mut Value) {
    tidy_metadata(object);
    apply_defaults(object);
}

/// Metadata has no empty members and none that Kubernetes doesn't know.
fn tidy_metadata(object: &mut Value) {
    let known = ObjectMeta::deserialize(&object["metadata"]).and_then(serde_json::to_value).unwrap_or_default();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let is_empty = |value: &Value| value == &json!({}) || value == &json!([]);
    metadata.retain(|name, value| known.is_null() || (known.get(name).is_some() && !is_empty(value)));
}

/// Fills in the CRD's defaults: the same as [`RayCluster::apply_crd_defaults`], on the raw object, of which nothing is
/// lost. An explicit null counts as left out.
fn apply_defaults(object: &mut Value) {
    let groups = object.pointer_mut("/spec/workerGroupSpecs").and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten().filter_map(Value::as_object_mut) {
        let defaults = [("replicas", 0), ("minReplicas", 0), ("maxReplicas", DEFAULT_MAX_REPLICAS), ("numOfHosts", 1)];
        for (member, default) in defaults {
            let value = group.entry(member).or_insert(Value::Null);
            if value.is_null() {
                *value = json!(default);
            }
        }
    }
}

/// Refuses what the apiserver would: `old` is what the object replaces.
pub(super) fn check(object: &Value, old: Option<&Value>) -> Result<(), ManagerError> {
    let mut faults = Faults::default();
    metadata(&mut faults, &object["metadata"]);
    if let Some(root) = object.as_object()
        && let Some(spec) = faults.member(root, "", "spec", Kind::Object).and_then(Value::as_object)
    {
        check_spec(&mut faults, spec, old.map_or(&Value::Null, |old| &old["spec"]));
    }
    if faults.0.is_empty()
        && let Err(error) = RayCluster::deserialize(object)
    {
        faults.add("", &error.to_string());
    }
    faults.verdict(text(object, "name"))
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
    if let Err(error) = ObjectMeta::deserialize(metadata) {
        return faults.add("metadata", &error.to_string());
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

fn check_spec(faults: &mut Faults, spec: &Map<String, Value>, old: &Value) {
    faults.member(spec, "spec", "rayVersion", Kind::String);
    faults.member(spec, "spec", "suspend", Kind::Boolean);
    faults.member(spec, "spec", "enableInTreeAutoscaling", Kind::Boolean);
    if let Some(manager) = faults.member(spec, "spec", "managedBy", Kind::String) {
        if !old["managedBy"].is_null() && old["managedBy"] != *manager {
            faults.add("spec.managedBy", "Invalid value: the managedBy field is immutable");
        }
        if manager != "ray.io/kuberay-operator" && manager != "kueue.x-k8s.io/multikueue" {
            let message = "Invalid value: the managedBy field value must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'";
            faults.add("spec.managedBy", message);
        }
    }
    if let Some(head) = faults.required(spec, "spec", "headGroupSpec", Kind::Object).and_then(Value::as_object) {
        check_group(faults, head, "spec.headGroupSpec");
    }
    let groups = faults.member(spec, "spec", "workerGroupSpecs", Kind::Array).and_then(Value::as_array);
    for (index, group) in groups.into_iter().flatten().enumerate() {
        let path = format!("spec.workerGroupSpecs[{index}]");
        let Some(group) = faults.typed(group, &path, Kind::Object).and_then(Value::as_object) else {
            continue;
        };
        faults.required(group, &path, "groupName", Kind::String);
        for member in ["replicas", "minReplicas", "maxReplicas", "numOfHosts"] {
            faults.member(group, &path, member, Kind::Integer);
        }
        faults.member(group, &path, "suspend", Kind::Boolean);
        check_group(faults, group, &path);
    }
}

fn check_group(faults: &mut Faults, group: &Map<String, Value>, path: &str) {
    let parameters = faults.member(group, path, "rayStartParams", Kind::Object).and_then(Value::as_object);
    for (name, value) in parameters.into_iter().flatten() {
        faults.typed(value, &format!("{path}.rayStartParams.{name}"), Kind::String);
    }
    let template = faults.required(group, path, "template", Kind::Object).and_then(Value::as_object);
    let path = format!("{path}.template");
    let spec = template.and_then(|template| faults.member(template, &path, "spec", Kind::Object));
    let Some(spec) = spec.and_then(Value::as_object) else {
        return;
    };
    let path = format!("{path}.spec");
    let containers = faults.required(spec, &path, "containers", Kind::Array).and_then(Value::as_array);
    for (index, container) in containers.into_iter().flatten().enumerate() {
        let path = format!("{path}.containers[{index}]");
        if let Some(container) = faults.typed(container, &path, Kind::Object).and_then(Value::as_object) {
            faults.required(container, &path, "name", Kind::String);
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Boolean,
    Integer,
    String,
    Array,
    Object,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

/// What is wrong with an object, in the apiserver's words.
#[derive(Default)]
struct Faults(Vec<Cause>);

impl Faults {
    fn add(&mut self, field: &str, message: &str) {
        self.0.push(Cause { field: field.to_owned(), message: message.to_owned() });
    }

    fn required<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        name: &str,
        kind: Kind,
    ) -> Option<&'a Value> {
        if !object.contains_key(name) {
            self.add(&format!("{path}.{name}"), "Required value");
        }
        self.member(object, path, name, kind)
    }

    /// The member, if it is there and of this kind.
    fn member<'a>(&mut self, object: &'a Map<String, Value>, path: &str, name: &str, kind: Kind) -> Option<&'a Value> {
        let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        self.typed(object.get(name)?, &field, kind)
    }

    fn typed<'a>(&mut self, value: &'a Value, field: &str, kind: Kind) -> Option<&'a Value> {
        if kind.is_of(value) {
            return Some(value);
        }
        let number = matches!(kind, Kind::Integer) && (value.is_i64() || value.is_u64());
        let wanted = if number { "int32" } else { kind.name() };
        let found = if number { value.to_string() } else { type_name(value).to_owned() };
        let message = format!("Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\"");
        self.add(field, &message);
        None
    }

    fn verdict(self, name: &str) -> Result<(), ManagerError> {
        let words: Vec<String> = self.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let words = match words.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(ManagerError::Invalid {
            message: format!("RayCluster.ray.io \"{name}\" is invalid: {words}"),
            causes: self.0,
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
