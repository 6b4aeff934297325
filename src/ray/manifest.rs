//! A whole RayCluster as a body: what users of kubectl have.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::begun;
use super::check::{check_empty, check_metadata, check_reserved, is_empty};
use super::cluster::{API_VERSION, KIND};
use super::document::tidy_upstream;
use super::fault::{Fault, FaultCode, MOST, Warning, WarningCode, escape};
use super::lens::{Edit, Refusal, manifest_pointer, respell_upstream, view};
use super::name::{is_dropped_key, is_reserved_key};
use super::rules::{check_hidden, newly_hidden, operator_faults};
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

/// What the pointers of worker groups begin with.
const GROUPS: &str = "/spec/workerGroupSpecs/";

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
        if begun::is_restarting(&object) {
            // Read while it was being restarted: it is one that runs.
            object["spec"]["suspend"] = false.into();
        }
        if let Some(metadata) = object.get_mut("metadata") {
            for member in RESERVED {
                check_empty(Some(metadata), member, "/metadata", &mut faults);
            }
            clean(metadata, &mut warnings);
        }
        tidy_upstream(Some(ray_cluster()), &mut object);
        ray_cluster().check(&object, "", &mut faults);
        check_templates(&object, &mut faults);
        check_deletions(&object, &mut faults);
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
        // What is reserved may be sent as it is held; of what the autoscaler changes an older state too.
        let autoscaled = is_autoscaled(wanted, held);
        let same = |pointer: &str| {
            let Some(at) = moved_pointer(pointer, wanted, held) else { return false };
            let moving = autoscaled && pointer.starts_with(GROUPS) && pointer.ends_with("/scaleStrategy");
            moving || (wanted.pointer(pointer).is_some() && wanted.pointer(pointer) == held.pointer(&at))
        };
        faults.retain(|fault| fault.code != FaultCode::Reserved || !same(&fault.pointer));
        let standing_faults = Self::read(held.clone()).1;
        let stands = |fault: &Fault| {
            let Some(at) = moved_pointer(&fault.pointer, wanted, held) else { return false };
            let unchanged = wanted.pointer(&fault.pointer) == held.pointer(&at);
            let before = Fault { pointer: at, ..fault.clone() };
            fault.code != FaultCode::Reserved && unchanged && standing_faults.contains(&before)
        };
        let (standing, mut new): (Vec<_>, Vec<_>) = faults.into_iter().partition(stands);
        if wanted.get("spec").is_none() && held.get("spec").is_some() {
            new.push(Fault::new("/spec", FaultCode::Required, "`spec` can be changed, not taken away."));
        }
        if !new.is_empty() {
            return Err(Refusal::Faults(new));
        }
        if let Some(name) = leave_out_dropped(wanted, held) {
            return Err(Refusal::GroupTerminating(name));
        }
        // A removed key strands a suspended cluster; only an explicit `false` resumes it.
        if view(held).document.is_set("suspended")
            && let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.entry("suspend").or_insert(Value::Bool(false));
        }
        ray_cluster().apply_defaults(wanted);
        keep_others(wanted, held);
        respell_upstream(Some(ray_cluster()), wanted, held);

        if begun::is_restarting(held) {
            // What it says of the suspension is how far the restart is.
            wanted["spec"]["suspend"] = true.into();
        }
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
        match newly_hidden(held, &object) {
            new if new.is_empty() => {
                begun::hold_back(held, &mut object);
                Ok(Edit { object, standing })
            }
            new => Err(Refusal::Faults(new)),
        }
    }
}

/// Where what stands at a pointer of the one RayCluster stands in the other: a group may have moved. `None` if it isn't there.
#[must_use]
pub fn moved_pointer(pointer: &str, wanted: &Value, held: &Value) -> Option<String> {
    let Some(rest) = pointer.strip_prefix(GROUPS) else { return Some(pointer.to_owned()) };
    let (index, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let (wanted, held) = (wanted["spec"]["workerGroupSpecs"].as_array()?, held["spec"]["workerGroupSpecs"].as_array()?);
    let index = index.parse::<usize>().ok()?;
    let name = wanted.get(index)?.get("groupName")?;
    let is_called = |group: &Value| group["groupName"] == *name;
    // Of several of one name each meets the one at its place among them.
    let nth = wanted.iter().take(index).filter(|group| is_called(group)).count();
    let (index, _) = held.iter().enumerate().filter(|(_, group)| is_called(group)).nth(nth)?;
    Some(format!("{GROUPS}{index}/{rest}"))
}

/// Whether Ray's autoscaler is on, and stays so.
fn is_autoscaled(wanted: &Value, held: &Value) -> bool {
    [wanted, held].iter().all(|object| object["spec"]["enableInTreeAutoscaling"] == true)
}

/// Leaves out the worker groups that are being dropped, as they are read: they go. The name of one that wants pods, which
/// it can't have yet.
fn leave_out_dropped(wanted: &mut Value, held: &Value) -> Option<String> {
    let dropped = begun::dropped_groups(held);
    let groups = wanted.pointer_mut("/spec/workerGroupSpecs").and_then(Value::as_array_mut)?;
    let is_dropped = |group: &Value| group["groupName"].as_str().is_some_and(|name| dropped.contains(name));
    groups.retain(|group| !(is_dropped(group) && begun::is_at_rest(group)));
    let back = groups.iter().find(|group| is_dropped(group))?;
    back["groupName"].as_str().map(str::to_owned)
}

/// What others own in the groups stays as it is held: `scaleStrategy`, `replicas` where Ray's autoscaler is on, and the
/// reserved keys of pod templates. Of several groups of one name each meets the one at its place among them.
fn keep_others(wanted: &mut Value, held: &Value) {
    let autoscaled = is_autoscaled(wanted, held);
    let mut twins: HashMap<String, VecDeque<&Value>> = HashMap::new();
    for twin in held["spec"]["workerGroupSpecs"].as_array().into_iter().flatten() {
        twins.entry(twin["groupName"].to_string()).or_default().push_back(twin);
    }
    let Some(spec) = wanted.get_mut("spec") else { return };
    if let Some(head) = spec.get_mut("headGroupSpec") {
        keep_reserved(head, &held["spec"]["headGroupSpec"]);
    }
    for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(twin) = twins.get_mut(&group["groupName"].to_string()).and_then(VecDeque::pop_front) else { continue };
        keep_reserved(group, twin);
        let Some(group) = group.as_object_mut() else { continue };
        let kept = if autoscaled { &["scaleStrategy", "replicas"][..] } else { &["scaleStrategy"] };
        for &member in kept {
            match twin.get(member) {
                Some(value) => group.insert(member.into(), value.clone()),
                None => group.shift_remove(member),
            };
        }
    }
}

/// The reserved keys that a pod template holds stay.
fn keep_reserved(entry: &mut Value, held: &Value) {
    for member in ["labels", "annotations"] {
        let keys = held["template"]["metadata"][member].as_object().into_iter().flatten();
        for (key, value) in keys.filter(|(key, _)| is_reserved_key(key)) {
            let template = entry.get_mut("template").and_then(Value::as_object_mut);
            let metadata = template.and_then(|template| member_mut(template, "metadata"));
            if let Some(keys) = metadata.and_then(|metadata| member_mut(metadata, member)) {
                keys.insert(key.clone(), value.clone());
            }
        }
    }
}

/// An object that is a member, made if there is none.
fn member_mut<'a>(object: &'a mut Map<String, Value>, member: &str) -> Option<&'a mut Map<String, Value>> {
    object.entry(member).or_insert_with(|| Map::new().into()).as_object_mut()
}

/// Leaves out of metadata what the server writes, and raygate's and kubectl's own annotations.
fn clean(metadata: &mut Value, warnings: &mut Vec<Warning>) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.retain(|member, _| !SERVERS.contains(&member.as_str()));
    for member in ["labels", "annotations"] {
        let Some(keys) = metadata.get_mut(member).and_then(Value::as_object_mut) else { continue };
        keys.retain(|key, _| {
            if is_dropped_key(key) && warnings.len() < MOST {
                let message = format!("`{key}` isn't taken over: it belongs to the object that it was copied from.");
                let pointer = format!("/metadata/{member}/{}", escape(key));
                warnings.push(Warning::new(pointer, WarningCode::Dropped, message));
            }
            !is_dropped_key(key)
        });
    }
}

/// What isn't the sender's in the metadata of pod templates and of the head's Service, and the keys that the operator
/// writes among the groups' own labels, which become the pods'.
fn check_templates(object: &Value, faults: &mut Vec<Fault>) {
    let groups = object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten().enumerate();
    let groups = groups.map(|(index, group)| (format!("/spec/workerGroupSpecs/{index}"), group));
    let head = [("/spec/headGroupSpec".to_owned(), &object["spec"]["headGroupSpec"])];
    for (at, group) in head.into_iter().chain(groups) {
        check_metadata(group.pointer("/template/metadata"), &format!("{at}/template/metadata"), faults);
        check_reserved(Some(group), &at, |_| true, faults);
    }
    let service = "/spec/headGroupSpec/headService/metadata";
    check_metadata(object.pointer(service), service, faults);
}

/// The operator deletes the pods that a `scaleStrategy` names by their names alone, also those that are no cluster's
/// (`WorkersToDelete` in KubeRay's `controllers/ray/raycluster_controller.go`).
fn check_deletions(object: &Value, faults: &mut Vec<Fault>) {
    for (index, group) in object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten().enumerate() {
        let mut members = group["scaleStrategy"].as_object().into_iter().flatten();
        if members.any(|(_, value)| !is_empty(value)) {
            let message = "`scaleStrategy` names pods that are deleted; Ray's autoscaler alone writes it.";
            faults.push(Fault::new(format!("{GROUPS}{index}/scaleStrategy"), FaultCode::Reserved, message));
        }
    }
}

/// Two groups of one name make the operator create and fail pods without end.
fn check_groups(object: &Value, faults: &mut Vec<Fault>) {
    let mut names = HashSet::new();
    for (index, group) in object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten().enumerate() {
        let name = group["groupName"].as_str().unwrap_or_default();
        if !names.insert(name) {
            let message = format!("There is a worker group `{name}` already.");
            faults.push(Fault::new(
                format!("/spec/workerGroupSpecs/{index}/groupName"),
                FaultCode::InvalidName,
                message,
            ));
        }
    }
}

/// The rules of a document's members, where the RayCluster says the same.
fn check_members(object: &Value, faults: &mut Vec<Fault>) {
    if object["metadata"].get("name").is_none() {
        faults.push(Fault::new("/metadata/name", FaultCode::Required, "`metadata.name` is required."));
    }
    check_reserved(object.get("metadata"), "/metadata", |_| true, faults);
    let mut missing = |pointer: &str, field: &str| {
        faults.push(Fault::new(pointer, FaultCode::Required, format!("`{field}` is required.")));
    };
    match object.pointer("/spec/headGroupSpec/template/spec/containers") {
        _ if object.get("spec").is_none() => missing("/spec", "spec"),
        Some(Value::Array(containers)) if containers.is_empty() => {
            let field = "spec.headGroupSpec.template.spec.containers.0";
            missing("/spec/headGroupSpec/template/spec/containers/0", field);
        }
        _ => {}
    }
    check_groups(object, faults);
    check_hidden(object, faults);
    // What is hidden of a document that has the autoscaler on is judged too.
    let mut judged = object.clone();
    if let Some(spec) = judged.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("enableInTreeAutoscaling");
    }
    let mut document = view(&judged).document;
    if let Some(enabled) = object["spec"].get("enableInTreeAutoscaling") {
        let autoscaling = document.0.entry("autoscaling").or_insert_with(|| Map::new().into());
        if let Some(autoscaling) = autoscaling.as_object_mut() {
            autoscaling.insert("enabled".to_owned(), enabled.clone());
        }
    }
    let is_ours = |fault: &Fault| {
        let tokens: Vec<_> = fault.pointer.split('/').skip(1).collect();
        let in_template =
            matches!(tokens.as_slice(), ["head", "podTemplate", ..] | ["workerGroups", _, "podTemplate", ..]);
        !in_template && !fault.code.is_structural()
    };
    let found = document.faults().into_iter().filter(is_ours).chain(operator_faults(&document));
    for mut fault in found {
        fault.pointer = manifest_pointer(&fault.pointer, object);
        let same = |known: &Fault| known.pointer == fault.pointer && known.code == fault.code;
        let told =
            |known: &Fault| same(known) && (known.message == fault.message || fault.code == FaultCode::InvalidQuantity);
        if !faults.iter().any(told) {
            faults.push(fault);
        }
    }
}
