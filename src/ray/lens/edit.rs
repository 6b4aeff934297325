//! A wanted document against the one that is seen: what changes in the RayCluster, or why it can't.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::merge::{by_name, merge};
use super::place::document_place;
use super::template::{CONTAINER, is_same_quantity, ray_entry};
use super::{build, find, find_mut, image_of, normal, view};
use crate::ray::begun;
use crate::ray::document::{Document, member, short_resources};
use crate::ray::fault::{Fault, FaultCode, escape};
use crate::ray::json;
use crate::ray::members::{DOCUMENT, Kind};
use crate::ray::name::is_reserved_key;
use crate::ray::rules::newly_hidden;
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
    /// It names this worker group, which is being dropped.
    GroupTerminating(String),
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
    let same = |fault: &Fault| is_standing(fault, &held, &wanted.0, &seen.0);
    let (standing, new): (Vec<_>, Vec<_>) = faults.into_iter().partition(same);
    if !new.is_empty() {
        return Err(Refusal::Faults(new));
    }
    if wanted == seen {
        return Ok(Edit { object: object.clone(), standing });
    }

    let dropped = begun::dropped_groups(object);
    if let Some((name, _)) = wanted.groups().find(|(name, _)| dropped.contains(*name)) {
        return Err(Refusal::GroupTerminating(name.clone()));
    }

    let mut target = normal(&wanted);
    let (mut from, mut hidden) = (seen.clone(), Vec::new());
    let groups = by_name(object["spec"].get("workerGroupSpecs"), "groupName");
    for (name, group) in wanted.groups() {
        let held = groups.get(name.as_str()).map(|group| &group["replicas"]);
        if let Some(replicas) = owned_replicas(held, &seen, &target, name, group)? {
            hidden.push((name.clone(), replicas));
        }
    }
    let was_hidden = !hidden.is_empty();
    for (name, (before, after)) in hidden {
        for (document, replicas) in [(&mut from, before), (&mut target, after)] {
            if let Some(group) = document.0.get_mut("workerGroups").and_then(|groups| groups.get_mut(&name)) {
                group["replicas"] = replicas;
            }
        }
    }
    for name in ambiguous(object) {
        if from.group(&name) != target.group(&name) {
            return Err(Refusal::AmbiguousGroup(name));
        }
    }
    if was_hidden {
        // A number that was hidden may not fit the bounds that come with it.
        let before = from.faults();
        let mut unfit = target.faults();
        unfit.retain(|fault| fault.pointer.ends_with("/replicas") && !before.contains(fault) && !held.contains(fault));
        if !unfit.is_empty() {
            return Err(Refusal::Faults(unfit));
        }
    }
    respell_document(&mut target, &seen);

    let (mut base, mut theirs) = (build(&from), build(&target));
    tell_lone_limits(object, &target, &mut base);
    leave_imageless_alone(object, &wanted, &mut base, &mut theirs);
    if object["spec"].get("autoscalerOptions").is_some_and(|options| *options == json!({})) {
        // Not seen beside `enabled`: it goes with `autoscaling` and stays with it.
        for (built, document) in [(&mut base, &from), (&mut theirs, &target)] {
            if document.0.contains_key("autoscaling") && built["spec"].get("autoscalerOptions").is_none() {
                built["spec"]["autoscalerOptions"] = json!({});
            }
        }
    }
    let mut merged = merge(object, &base, &theirs, &target);
    give_new_containers_images(object, &target, &mut merged);
    let mut new = newly_hidden(object, &merged);
    if !new.is_empty() {
        for fault in &mut new {
            let tokens: Vec<_> = fault.pointer.split('/').skip(1).collect();
            fault.pointer = document_place(&tokens, &merged);
        }
        return Err(Refusal::Faults(new));
    }
    if begun::is_restarting(object) && target.is_set("suspended") {
        // It is to stop, and not to start again.
        json::merge(&mut merged, &begun::restart_end(object, false));
    }
    begun::hold_back(object, &mut merged);
    Ok(Edit { object: merged, standing })
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
        for (name, _) in wanted.groups().filter(|(_, group)| !group.contains_key("image")) {
            if seen.group(name).is_none_or(|held| held.contains_key("image")) {
                required(format!("/workerGroups/{}/image", escape(name)), message);
            }
        }
    }
}

/// `replicas` of a group before and after a write, where the view of one of them hides it because Ray's autoscaler owns
/// it: as held, unless this very write turns the autoscaler on or off and says a number.
fn owned_replicas(
    held: Option<&Value>,
    seen: &Document,
    target: &Document,
    name: &str,
    group: &Map<String, Value>,
) -> Result<Option<(Value, Value)>, Refusal> {
    if !seen.autoscaling() && !target.autoscaling() {
        return Ok(None);
    }
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

/// Whether a fault of the wanted document was there before, at a value that the write leaves as it is.
fn is_standing(fault: &Fault, held: &[Fault], wanted: &Map<String, Value>, seen: &Map<String, Value>) -> bool {
    let tokens: Vec<_> =
        fault.pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let tokens: Vec<_> = tokens.iter().map(String::as_str).collect();
    let value = |members: &Map<String, Value>| find_in(members, &tokens).cloned();
    held.contains(fault) && value(wanted) == value(seen)
}

fn find_in<'a>(members: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    find(members.get(*first)?, rest)
}

/// Names that several worker groups have.
fn ambiguous(object: &Value) -> HashSet<String> {
    let groups = object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
    let mut names = HashSet::new();
    let again = groups.map(|group| group["groupName"].as_str().unwrap_or_default()).filter(|name| !names.insert(*name));
    again.map(str::to_owned).collect()
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
    let held = by_name(object["spec"].get("workerGroupSpecs"), "groupName");
    let Some(spec) = base.get_mut("spec") else { return };
    if let Some(head) = spec.get_mut("headGroupSpec") {
        tell(head, &object["spec"]["headGroupSpec"], Some(target.head()));
    }
    for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = group["groupName"].as_str().unwrap_or_default().to_owned();
        if let Some(held) = held.get(name.as_str()) {
            tell(group, held, target.group(&name));
        }
    }
}

/// A container without an image stays without one, unless the wanted document names one.
fn leave_imageless_alone(object: &Value, wanted: &Document, base: &mut Value, theirs: &mut Value) {
    let imageless = |entry: &Value| find(entry, &CONTAINER).is_none_or(|container| container.get("image").is_none());
    let leave = |entry: &mut Value| {
        if let Some(container) = find_mut(entry, &CONTAINER).and_then(Value::as_object_mut) {
            container.shift_remove("image");
        }
    };
    // Of several of one name the first is meant.
    let groups = by_name(object["spec"].get("workerGroupSpecs"), "groupName");
    for (built, is_wanted) in [(base, false), (theirs, true)] {
        let Some(spec) = built.get_mut("spec") else { continue };
        let named = is_wanted && wanted.0.contains_key("image");
        if let Some(head) = spec.get_mut("headGroupSpec")
            && imageless(&object["spec"]["headGroupSpec"])
            && !named
        {
            leave(head);
        }
        for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = group["groupName"].as_str().unwrap_or_default();
            let named = is_wanted && wanted.group(name).is_some_and(|group| group.contains_key("image"));
            if groups.get(name).is_some_and(|held| imageless(held)) && !named {
                leave(group);
            }
        }
    }
}

/// Where there was no container at all, the one that came to be has the image that it derives.
fn give_new_containers_images(object: &Value, target: &Document, merged: &mut Value) {
    let Some(image) = image_of(target) else { return };
    let give = |entry: &mut Value, held: Option<&Value>| {
        let is_new = held.is_none_or(|held| find(held, &CONTAINER).is_none());
        if let Some(container) = find_mut(entry, &CONTAINER).and_then(Value::as_object_mut).filter(|_| is_new) {
            container.entry("image").or_insert_with(|| image.clone().into());
        }
    };
    let groups = by_name(object["spec"].get("workerGroupSpecs"), "groupName");
    let Some(spec) = merged.get_mut("spec") else { return };
    if let Some(head) = spec.get_mut("headGroupSpec") {
        give(head, object["spec"].get("headGroupSpec"));
    }
    let mut names = HashSet::new();
    for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = group["groupName"].as_str().unwrap_or_default().to_owned();
        let held = groups.get(name.as_str()).copied();
        if names.insert(name) {
            give(group, held);
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

/// Two spellings of one quantity are no difference: the one that is held stays.
pub fn respell_document(wanted: &mut Document, held: &Document) {
    respell(&DOCUMENT, &mut wanted.0, &held.0);
}

/// The same of what Kubernetes holds. `schema` is that of both values.
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
            let key = |item: &Value| keys.iter().map(|key| item.get(key).map(Value::to_string)).collect::<Vec<_>>();
            let mut keyed = HashMap::new();
            for item in held.iter().filter(|_| !keys.is_empty()) {
                keyed.entry(key(item)).or_insert(item);
            }
            for (index, wanted) in wanted.iter_mut().enumerate() {
                let held = if keys.is_empty() { held.get(index) } else { keyed.get(&key(wanted)).copied() };
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
