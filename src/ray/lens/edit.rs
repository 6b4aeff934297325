//! A wanted document against the one that is seen: what changes in the RayCluster, or why it can't.

use serde_json::{Map, Value, json};

use super::merge::merge;
use super::template::{is_same_quantity, ray_entry};
use super::{build, find_mut, image_of, normal, view};
use crate::ray::document::{Document, member, short_resources};
use crate::ray::fault::{Fault, FaultCode, escape};
use crate::ray::members::{DOCUMENT, Kind};
use crate::ray::name::is_reserved_key;
use crate::ray::schema::{Schema, ray_cluster};

/// What a write makes of a RayCluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The RayCluster as it is wanted; the same where nothing changes.
    pub object: Value,
    /// Faults that were there before.
    pub standing: Vec<Fault>,
}

/// Why a wanted document isn't carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// It has faults that were not there before.
    Faults(Vec<Fault>),
    /// It changes a worker group of which there are several by that name.
    AmbiguousGroup(String),
    /// It sets `replicas` of this group, which Ray's autoscaler owns.
    AutoscalerOwns(String),
}

/// The RayCluster that is wanted instead of `object`. `faults` are those of the wanted document as it was read; those
/// that the present one has too don't stand in the way.
///
/// # Errors
/// Says why it can't be.
pub fn edit(object: &Value, mut wanted: Document, mut faults: Vec<Fault>) -> Result<Edit, Refusal> {
    let seen = view(object).document;
    keep_identity(&mut wanted, &seen, &mut faults);
    forgive_held_keys(&mut wanted, object, &mut faults);
    check_derived(&wanted, &seen, &mut faults);
    let held = seen.faults();
    let (standing, new): (Vec<_>, Vec<_>) = faults.into_iter().partition(|fault| held.contains(fault));
    if !new.is_empty() {
        return Err(Refusal::Faults(new));
    }
    if wanted == seen {
        return Ok(Edit { object: object.clone(), standing });
    }

    let mut target = normal(&wanted);
    let (mut from, mut hidden) = (seen.clone(), Vec::new());
    for (name, group) in wanted.groups() {
        if let Some(replicas) = owned_replicas(object, &seen, &target, name, group)? {
            hidden.push((name.clone(), replicas));
        }
    }
    for (name, (before, after)) in hidden {
        for (document, replicas) in [(&mut from, before), (&mut target, after)] {
            if let Some(group) = document.0.get_mut("workerGroups").and_then(|groups| groups.get_mut(&name)) {
                group["replicas"] = replicas;
            }
        }
    }
    for name in ambiguous(object) {
        if seen.group(&name) != target.group(&name) {
            return Err(Refusal::AmbiguousGroup(name));
        }
    }
    respell(&DOCUMENT, &mut target.0, &seen.0);

    let (mut base, mut theirs) = (build(&from), build(&target));
    tell_lone_limits(object, &target, &mut base);
    leave_imageless_alone(object, &target, [&mut base, &mut theirs]);
    if object["spec"].get("autoscalerOptions").is_some_and(|options| *options == json!({})) {
        // Not seen beside `enabled`: it goes with `autoscaling` and stays with it.
        for (built, document) in [(&mut base, &from), (&mut theirs, &target)] {
            if document.0.contains_key("autoscaling") && built["spec"].get("autoscalerOptions").is_none() {
                built["spec"]["autoscalerOptions"] = json!({});
            }
        }
    }
    Ok(Edit { object: merge(object, &base, &theirs, &target), standing })
}

/// A document for a path may leave its name out, but not say another.
fn keep_identity(wanted: &mut Document, seen: &Document, faults: &mut Vec<Fault>) {
    for member in ["name", "namespace"] {
        let Some(held) = seen.0.get(member) else { continue };
        let pointer = format!("/{member}");
        match wanted.0.get(member) {
            Some(name) if name != held && !faults.iter().any(|fault| fault.pointer == pointer) => {
                let message = format!("`{member}` can't be changed; here it is {held}.");
                faults.push(Fault::new(pointer, FaultCode::Immutable, message));
            }
            Some(_) => {}
            None => drop(wanted.0.insert(member.to_owned(), held.clone())),
        }
    }
}

/// A reserved key that is sent as it is held asks for nothing.
fn forgive_held_keys(wanted: &mut Document, object: &Value, faults: &mut Vec<Fault>) {
    for member in ["labels", "annotations"] {
        let Some(keys) = wanted.0.get_mut(member).and_then(Value::as_object_mut) else { continue };
        keys.retain(|key, value| {
            let same = is_reserved_key(key) && object["metadata"][member].get(key) == Some(value);
            let pointer = format!("/{member}/{}", escape(key));
            faults.retain(|fault| !same || fault.pointer != pointer);
            !same
        });
    }
}

/// What others derive from can be changed, not removed.
fn check_derived(wanted: &Document, seen: &Document, faults: &mut Vec<Fault>) {
    let mut required = |pointer: String, message: &str| faults.push(Fault::new(pointer, FaultCode::Required, message));
    if seen.0.contains_key("rayVersion") && !wanted.0.contains_key("rayVersion") {
        required("/rayVersion".to_owned(), "`rayVersion` can be changed, not removed.");
    } else if image_of(wanted).is_none() {
        let message = "Without `rayVersion` nothing says which image this is; name one.";
        if seen.0.contains_key("image") {
            required("/image".to_owned(), message);
        }
        for (name, group) in wanted.groups().filter(|(_, group)| !group.contains_key("image")) {
            if seen.group(name).is_none_or(|held| held.contains_key("image")) && !group.is_empty() {
                required(format!("/workerGroups/{}/image", escape(name)), message);
            }
        }
    }
}

/// `replicas` of a group before and after a write, where the view of one of them hides it because Ray's autoscaler owns
/// it: as held, unless this very write turns the autoscaler on or off and says a number.
fn owned_replicas(
    object: &Value,
    seen: &Document,
    target: &Document,
    name: &str,
    group: &Map<String, Value>,
) -> Result<Option<(Value, Value)>, Refusal> {
    if !seen.autoscaling() && !target.autoscaling() {
        return Ok(None);
    }
    let groups = object["spec"]["workerGroupSpecs"].as_array();
    let held = groups.into_iter().flatten().find(|group| group["groupName"] == name).map(|group| &group["replicas"]);
    let wanted = group.get("replicas");
    let Some(held) = held.filter(|held| !held.is_null()) else {
        // A new group: taken as on create.
        return Ok(wanted.map(|wanted| (wanted.clone(), wanted.clone())));
    };
    let owned = seen.autoscaling() && target.autoscaling();
    match wanted {
        Some(wanted) if owned && wanted != held => Err(Refusal::AutoscalerOwns(name.to_owned())),
        Some(wanted) => Ok(Some((held.clone(), wanted.clone()))),
        // The write that turns it on takes what a document without a number means.
        None if !seen.autoscaling() => {
            let least = group.get("minReplicas").cloned().unwrap_or_else(|| 0.into());
            Ok(Some((held.clone(), least)))
        }
        None => Ok(Some((held.clone(), held.clone()))),
    }
}

/// Names that several worker groups have.
fn ambiguous(object: &Value) -> Vec<String> {
    let groups = object["spec"]["workerGroupSpecs"].as_array();
    let names: Vec<_> = groups.into_iter().flatten().map(|group| group["groupName"].as_str().unwrap_or("")).collect();
    let twice = names.iter().enumerate().filter(|(at, name)| names.iter().take(*at).any(|before| before == *name));
    twice.map(|(_, name)| (*name).to_owned()).collect()
}

/// A short amount stands for a limit alone too. Where a resource is no longer said in short, its request is said, so it
/// must not pass for one that is there.
fn tell_lone_limits(object: &Value, target: &Document, base: &mut Value) {
    const REQUESTS: &str = "/template/spec/containers/0/resources/requests";
    let tell = |base: &mut Value, held: &Value, target: Option<&Map<String, Value>>| {
        let Some(requests) = base.pointer_mut(REQUESTS).and_then(Value::as_object_mut) else { return };
        requests.retain(|name, _| {
            let is_held = held.pointer(REQUESTS).is_some_and(|requests| requests.get(name).is_some());
            is_held || target.is_some_and(|target| short_resources(target).any(|(_, resource)| resource == name))
        });
    };
    tell(&mut base["spec"]["headGroupSpec"], &object["spec"]["headGroupSpec"], Some(target.head()));
    for group in base["spec"]["workerGroupSpecs"].as_array_mut().into_iter().flatten() {
        let name = group["groupName"].as_str().unwrap_or_default().to_owned();
        let held = object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
        if let Some(held) = held.into_iter().find(|held| held["groupName"] == *name) {
            tell(group, held, target.group(&name));
        }
    }
}

/// A container without an image stays without one, unless one is named.
fn leave_imageless_alone(object: &Value, target: &Document, built: [&mut Value; 2]) {
    let imageless = |entry: &Value| {
        let container = entry.pointer("/template/spec/containers/0");
        container.is_some_and(|container| container.get("image").is_none())
    };
    let head = imageless(&object["spec"]["headGroupSpec"]) && !target.0.contains_key("image");
    let groups = || object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
    let names: Vec<_> =
        target.groups().filter(|(_, group)| !group.contains_key("image")).map(|(name, _)| name).collect();
    // Of several of one name the first is meant.
    let first = |name: &&&String| groups().find(|group| group["groupName"] == ***name).is_some_and(imageless);
    let names: Vec<_> = names.iter().filter(first).collect();
    let image = ["template", "spec", "containers", "0"];
    for object in built {
        let Some(spec) = object.get_mut("spec") else { continue };
        if head && let Some(container) = spec.get_mut("headGroupSpec").and_then(|head| find_mut(head, &image)) {
            container.as_object_mut().map(|container| container.shift_remove("image"));
        }
        for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
            if names.iter().any(|name| group["groupName"] == ***name)
                && let Some(container) = find_mut(group, &image).and_then(Value::as_object_mut)
            {
                container.shift_remove("image");
            }
        }
    }
}

/// Two spellings of one quantity are no difference: the one that is held stays.
fn respell(kind: &Kind, wanted: &mut Map<String, Value>, held: &Map<String, Value>) {
    for (name, wanted) in wanted.iter_mut() {
        let Some(held) = held.get(name) else { continue };
        match kind {
            Kind::Object(_, lists) => {
                if let Some(member) = member(lists, name) {
                    respell_value(&member.kind, wanted, held);
                }
            }
            Kind::Map(_, kind) => respell_value(kind, wanted, held),
            Kind::Extended(_, place) => {
                respell_upstream(ray_cluster().at(place).and_then(|schema| schema.member(name)), wanted, held);
            }
            Kind::Text(_)
            | Kind::Choice(_)
            | Kind::Flag
            | Kind::Whole(_)
            | Kind::Amount
            | Kind::WholeAmount
            | Kind::Texts(_)
            | Kind::Upstream(_)
            | Kind::Named(..)
            | Kind::TextOr(_) => {}
        }
    }
}

fn respell_value(kind: &Kind, wanted: &mut Value, held: &Value) {
    match (kind, wanted, held) {
        (Kind::Amount | Kind::WholeAmount, wanted, held) if is_same_quantity(wanted, held) => wanted.clone_from(held),
        (Kind::Upstream(place) | Kind::Named(place, _) | Kind::TextOr(place), wanted, held) => {
            respell_upstream(ray_cluster().at(place), wanted, held);
        }
        (kind, Value::Object(wanted), Value::Object(held)) => respell(kind, wanted, held),
        _ => {}
    }
}

/// Two spellings of one quantity are no difference: the one that is held stays. `schema` is that of both values.
pub fn respell_upstream(schema: Option<&Schema>, wanted: &mut Value, held: &Value) {
    match (wanted, held) {
        (Value::Object(wanted), Value::Object(held)) => {
            for (name, wanted) in wanted {
                if let Some(held) = held.get(name) {
                    respell_upstream(schema.and_then(|schema| schema.member(name)), wanted, held);
                }
            }
        }
        (Value::Array(wanted), Value::Array(held)) => {
            let keys = schema.map(Schema::list_keys).unwrap_or_default();
            let schema = schema.and_then(Schema::items);
            for (index, wanted) in wanted.iter_mut().enumerate() {
                let twin = |other: &&Value| keys.iter().all(|key| other.get(key) == wanted.get(key));
                let held = if keys.is_empty() { held.get(index) } else { held.iter().find(twin) };
                if let Some(held) = held {
                    respell_upstream(schema, wanted, held);
                }
            }
        }
        (wanted, held) if schema.is_some_and(Schema::is_quantity) && is_same_quantity(wanted, held) => {
            wanted.clone_from(held);
        }
        _ => {}
    }
}

/// The part of a `podTemplate` that stands where this field of a template stands.
pub(super) fn left_at<'a>(left: Option<&'a Value>, member: &str) -> Option<&'a Value> {
    left?.get(member)
}

/// The Ray container's part of a `podTemplate`.
pub(super) fn left_ray(template: Option<&Value>) -> Option<&Value> {
    template?.pointer(&format!("/spec/containers/{}", ray_entry(template?)?))
}
