//! A whole RayCluster as a body: what users of kubectl have.

use serde_json::{Map, Value};

use super::cluster::{API_VERSION, KIND};
use super::document::tidy_upstream;
use super::fault::{Fault, FaultCode, Warning, WarningCode, escape};
use super::lens::{Edit, Refusal, manifest_pointer, respell_upstream, view};
use super::name::{is_dropped_key, is_reserved_key};
use super::schema::ray_cluster;

/// Members of metadata that only the server writes: taken and ignored.
const SERVERS: [&str; 8] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];
/// Members of metadata that raygate takes from nobody.
const RESERVED: [&str; 3] = ["ownerReferences", "finalizers", "generateName"];

/// A RayCluster as a client sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object, without what only the server writes.
    pub object: Value,
    /// What was left out of it.
    pub warnings: Vec<Warning>,
}

impl Manifest {
    /// Reads a RayCluster, and finds all that is wrong with it.
    #[must_use]
    pub fn read(mut object: Value) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        for (member, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if object[member] != wanted {
                let message = format!("A body with `apiVersion` or `kind` is a whole {KIND} of {API_VERSION}.");
                faults.push(Fault::new(format!("/{member}"), FaultCode::InvalidValue, message).allowing([wanted]));
            }
        }
        if !faults.is_empty() {
            // Another kind's members mean nothing here.
            return (Self { object, warnings: Vec::new() }, faults);
        }
        if let Some(members) = object.as_object_mut() {
            members.shift_remove("status");
        }
        let mut warnings = Vec::new();
        if let Some(metadata) = object.get_mut("metadata") {
            clean(metadata, &mut warnings, &mut faults);
        }
        tidy_upstream(Some(ray_cluster()), &mut object);
        ray_cluster().check(&object, "", &mut faults);
        check_templates(&object, &mut faults);
        check_members(&object, &mut faults);
        (Self { object, warnings }, faults)
    }
}

impl Manifest {
    /// The RayCluster with this one's spec, labels and annotations in place of its own, outside the reserved keys;
    /// `faults` are those of this manifest as it was read. What Ray's autoscaler owns stays as it is.
    ///
    /// # Errors
    /// Says why it can't be.
    pub fn replace(mut self, held: &Value, mut faults: Vec<Fault>) -> Result<Edit, Refusal> {
        let wanted = &mut self.object;
        for member in ["name", "namespace"] {
            let (said, there) = (&wanted["metadata"][member], &held["metadata"][member]);
            if said.is_null() {
                faults.retain(|fault| fault.pointer != format!("/metadata/{member}"));
            } else if said != there {
                let message = format!("`{member}` can't be changed; here it is {there}.");
                faults.push(Fault::new(format!("/metadata/{member}"), FaultCode::Immutable, message));
            }
        }
        // What is reserved may be sent as it is held.
        let same =
            |pointer: &str| wanted.pointer(pointer).is_some() && wanted.pointer(pointer) == held.pointer(pointer);
        faults.retain(|fault| fault.code != FaultCode::Reserved || !same(&fault.pointer));
        let standing_faults = Self::read(held.clone()).1;
        let (standing, new): (Vec<_>, Vec<_>) = faults.into_iter().partition(|fault| standing_faults.contains(fault));
        if !new.is_empty() {
            return Err(Refusal::Faults(new));
        }
        ray_cluster().apply_defaults(wanted);
        keep_autoscalers(wanted, held);
        respell_upstream(Some(ray_cluster()), wanted, held);

        let mut object = held.clone();
        match wanted.get_mut("spec").map(Value::take) {
            Some(spec) => object["spec"] = spec,
            None => drop(object.as_object_mut().map(|members| members.shift_remove("spec"))),
        }
        for member in ["labels", "annotations"] {
            let reserved = held["metadata"][member].as_object().cloned().unwrap_or_default();
            let users = wanted["metadata"][member].as_object().cloned().unwrap_or_default();
            let reserved = reserved.into_iter().filter(|(key, _)| is_reserved_key(key));
            let keys: Map<_, _> = users.into_iter().filter(|(key, _)| !is_reserved_key(key)).chain(reserved).collect();
            if !keys.is_empty() {
                object["metadata"][member] = keys.into();
            } else if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove(member);
            }
        }
        Ok(Edit { object, standing })
    }
}

/// `replicas` and `scaleStrategy` of groups whose numbers Ray's autoscaler sets stay as they are held.
fn keep_autoscalers(wanted: &mut Value, held: &Value) {
    if wanted["spec"]["enableInTreeAutoscaling"] != true || held["spec"]["enableInTreeAutoscaling"] != true {
        return;
    }
    for group in wanted["spec"]["workerGroupSpecs"].as_array_mut().into_iter().flatten() {
        let mut twins = held["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
        let Some(twin) = twins.find(|twin| twin["groupName"] == group["groupName"]) else { continue };
        let Some(group) = group.as_object_mut() else { continue };
        for member in ["replicas", "scaleStrategy"] {
            match twin.get(member) {
                Some(value) => group.insert(member.to_owned(), value.clone()),
                None => group.shift_remove(member),
            };
        }
    }
}

/// Leaves out of metadata what the server writes, and raygate's and kubectl's own annotations.
fn clean(metadata: &mut Value, warnings: &mut Vec<Warning>, faults: &mut Vec<Fault>) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.retain(|member, _| !SERVERS.contains(&member.as_str()));
    for member in RESERVED {
        let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if metadata.get(member).is_some_and(|value| !empty(value)) {
            let message = format!("`{member}` is written by Kubernetes and its controllers only.");
            faults.push(Fault::new(format!("/metadata/{member}"), FaultCode::Reserved, message));
        }
    }
    for member in ["labels", "annotations"] {
        let Some(keys) = metadata.get_mut(member).and_then(Value::as_object_mut) else { continue };
        keys.retain(|key, _| {
            if is_dropped_key(key) {
                let message = format!("`{key}` isn't taken over: it belongs to the object that it was copied from.");
                let pointer = format!("/metadata/{member}/{}", escape(key));
                warnings.push(Warning::new(pointer, WarningCode::Dropped, message));
            }
            !is_dropped_key(key)
        });
    }
}

/// The keys of pod templates that the operator writes.
fn check_templates(object: &Value, faults: &mut Vec<Fault>) {
    let groups = object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten().enumerate();
    let groups = groups.map(|(index, group)| (format!("/spec/workerGroupSpecs/{index}"), group));
    let head = [("/spec/headGroupSpec".to_owned(), &object["spec"]["headGroupSpec"])];
    for (at, group) in head.into_iter().chain(groups) {
        for member in ["labels", "annotations"] {
            let keys = group["template"]["metadata"][member].as_object().into_iter().flatten();
            for (key, _) in keys.filter(|(key, _)| is_reserved_key(key)) {
                let message = format!("`{key}` is written by raygate, kubectl or KubeRay only.");
                let pointer = format!("{at}/template/metadata/{member}/{}", escape(key));
                faults.push(Fault::new(pointer, FaultCode::Reserved, message));
            }
        }
    }
}

/// The rules of a document's members, where the RayCluster says the same.
fn check_members(object: &Value, faults: &mut Vec<Fault>) {
    if object["metadata"].get("name").is_none() {
        faults.push(Fault::new("/metadata/name", FaultCode::Required, "`metadata.name` is required."));
    }
    for (member, key) in ["labels", "annotations"].into_iter().flat_map(|member| {
        let keys = object["metadata"][member].as_object().into_iter().flatten();
        keys.map(move |(key, _)| (member, key))
    }) {
        if is_reserved_key(key) {
            let message = format!("`{key}` is written by raygate, kubectl or KubeRay only.");
            faults.push(Fault::new(format!("/metadata/{member}/{}", escape(key)), FaultCode::Reserved, message));
        }
    }
    for mut fault in view(object).document.faults() {
        if fault.pointer.contains("/podTemplate") || fault.code.is_structural() {
            continue;
        }
        fault.pointer = manifest_pointer(&fault.pointer, object);
        if !faults.iter().any(|known| known.pointer == fault.pointer && known.code == fault.code) {
            faults.push(fault);
        }
    }
}
