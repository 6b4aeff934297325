//! Three-way merging: what differs between two built RayClusters, carried over to the one that is held.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::edit::{left_at, left_ray};
use crate::ray::document::Document;

/// `ours` with what differs between `base` and `theirs`; everything else in it stays as it is. `target` is the document
/// that `theirs` was built from.
pub(super) fn merge(ours: &Value, base: &Value, theirs: &Value, target: &Document) -> Value {
    let mut merged = ours.clone();
    merge_members(&mut merged, base, theirs, |name, ours, base, theirs| match name {
        "metadata" => merge_any(ours, base, theirs),
        "spec" => merge_spec(ours, base, theirs, target),
        _ => ours,
    });
    merged
}

fn merge_spec(ours: Option<Value>, base: Option<&Value>, theirs: Option<&Value>, target: &Document) -> Option<Value> {
    let missing_head = ours.as_ref().is_none_or(|ours| ours.get("headGroupSpec").is_none());
    let before = ours.clone();
    let mut merged = merge_object(ours, base, theirs, |name, ours, base, theirs| match name {
        "headGroupSpec" => merge_group(ours, base, theirs, target.head().get("podTemplate")),
        "workerGroupSpecs" => merge_groups(ours, base, theirs, target),
        _ => merge_any(ours, base, theirs),
    });
    // A spec without a head can't be stored.
    if missing_head
        && merged != before
        && let (Some(merged), Some(head)) = (&mut merged, theirs.and_then(|theirs| theirs.get("headGroupSpec")))
    {
        merged["headGroupSpec"] = head.clone();
    }
    merged
}

fn merge_groups(ours: Option<Value>, base: Option<&Value>, theirs: Option<&Value>, target: &Document) -> Option<Value> {
    let left =
        |name: &Value| target.group(name.as_str().unwrap_or_default()).and_then(|group| group.get("podTemplate"));
    merge_list(ours, base, theirs, "groupName", None, |ours, base, theirs| {
        let name = theirs.or(base).map_or(Value::Null, |group| group["groupName"].clone());
        merge_group(ours, base, theirs, left(&name))
    })
}

/// One group's entry; `left` is the `podTemplate` that is wanted.
fn merge_group(
    ours: Option<Value>,
    base: Option<&Value>,
    theirs: Option<&Value>,
    left: Option<&Value>,
) -> Option<Value> {
    merge_object(ours, base, theirs, |name, ours, base, theirs| {
        if name != "template" {
            return merge_any(ours, base, theirs);
        }
        merge_object(ours, base, theirs, |name, ours, base, theirs| {
            if name != "spec" {
                return merge_any(ours, base, theirs);
            }
            merge_object(ours, base, theirs, |name, ours, base, theirs| match name {
                "containers" => merge_containers(ours, base, theirs, left),
                "volumes" => {
                    let left = left_at(left_at(left, "spec"), "volumes");
                    merge_list(ours, base, theirs, "name", left, merge_any)
                }
                _ => merge_any(ours, base, theirs),
            })
        })
    })
}

/// The Ray container stays the first; what the others are is said whole.
fn merge_containers(
    ours: Option<Value>,
    base: Option<&Value>,
    theirs: Option<&Value>,
    left: Option<&Value>,
) -> Option<Value> {
    if base == theirs {
        return ours;
    }
    let (mut ray, mut others) = match ours {
        Some(Value::Array(mut items)) if !items.is_empty() => {
            let others = items.split_off(1);
            (items.pop(), others)
        }
        _ => (None, Vec::new()),
    };
    let split = |list: Option<&'_ Value>| {
        list.and_then(Value::as_array)
            .and_then(|list| list.split_first())
            .map(|(ray, others)| (ray.clone(), others.to_vec()))
    };
    let (base, theirs) = (split(base), split(theirs));
    let base_ray = base.as_ref().map(|(ray, _)| ray);
    let their_ray = theirs.as_ref().map(|(ray, _)| ray);
    let left = left_ray(left);
    ray = merge_object(ray, base_ray, their_ray, |name, ours, base, theirs| match name {
        "env" => merge_list(ours, base, theirs, "name", left_at(left, "env"), merge_any),
        "volumeMounts" => merge_list(ours, base, theirs, "mountPath", left_at(left, "volumeMounts"), merge_any),
        _ => merge_any(ours, base, theirs),
    });
    if base.map(|(_, others)| others) != theirs.as_ref().map(|(_, others)| others.clone()) {
        others = theirs.map(|(_, others)| others).unwrap_or_default();
    }
    Some(ray.into_iter().chain(others).collect())
}

/// Any value; of an object each member by itself, anything else whole. Of an object that isn't there (an amount's
/// request, where there is a limit alone) only what differs comes to be.
fn merge_any(ours: Option<Value>, base: Option<&Value>, theirs: Option<&Value>) -> Option<Value> {
    let built = base.is_some_and(Value::is_object) && theirs.is_some_and(Value::is_object) && base != theirs;
    let ours = ours.or_else(|| built.then(|| Value::Object(Map::new())));
    merge_object(ours, base, theirs, merge_member)
}

fn merge_member(_: &str, ours: Option<Value>, base: Option<&Value>, theirs: Option<&Value>) -> Option<Value> {
    merge_any(ours, base, theirs)
}

/// An object, its members by `each`; what isn't an object on all sides is taken whole.
fn merge_object(
    ours: Option<Value>,
    base: Option<&Value>,
    theirs: Option<&Value>,
    each: impl Fn(&str, Option<Value>, Option<&Value>, Option<&Value>) -> Option<Value>,
) -> Option<Value> {
    if base == theirs {
        return ours;
    }
    let object = |value: Option<&Value>| value.is_none_or(Value::is_object);
    match ours {
        Some(mut merged @ Value::Object(_)) if object(base) && object(theirs) => {
            let empty = Value::Object(Map::new());
            merge_members(&mut merged, base.unwrap_or(&empty), theirs.unwrap_or(&empty), each);
            let gone = theirs.is_none() && merged.as_object().is_some_and(Map::is_empty);
            if gone { None } else { Some(merged) }
        }
        _ => theirs.cloned(),
    }
}

fn merge_members(
    ours: &mut Value,
    base: &Value,
    theirs: &Value,
    each: impl Fn(&str, Option<Value>, Option<&Value>, Option<&Value>) -> Option<Value>,
) {
    let Some(members) = ours.as_object_mut() else { return };
    let held = std::mem::take(members);
    let names: HashSet<String> = held.keys().cloned().collect();
    let held = held.into_iter().map(|(name, value)| (name, Some(value)));
    let added = theirs.as_object().into_iter().flatten().filter(|(name, _)| !names.contains(*name));
    for (name, value) in held.chain(added.map(|(name, _)| (name.clone(), None))) {
        let (base, theirs) = (base.get(&name), theirs.get(&name));
        if let Some(value) = each(&name, value, base, theirs) {
            members.insert(name, value);
        }
    }
}

/// A list whose entries are told apart by a member. Entries that are there keep their places, new ones come last; those
/// that a `podTemplate` shows (`left`) come in its order.
fn merge_list(
    ours: Option<Value>,
    base: Option<&Value>,
    theirs: Option<&Value>,
    key: &str,
    left: Option<&Value>,
    each: impl Fn(Option<Value>, Option<&Value>, Option<&Value>) -> Option<Value>,
) -> Option<Value> {
    if base == theirs {
        return ours;
    }
    let (Some(Value::Array(held)), Some(Value::Array(wanted))) = (ours, theirs) else {
        return theirs.cloned();
    };
    let (base, theirs) = (by_name(base, key), by_name(theirs, key));
    let mut names = HashSet::new();
    let mut merged: Vec<Value> = Vec::new();
    for entry in held {
        if !names.insert(name_of(&entry, key).to_owned()) {
            // The second of one name: nothing is said of it.
            merged.push(entry);
            continue;
        }
        let (base, theirs) = (base.get(name_of(&entry, key)).copied(), theirs.get(name_of(&entry, key)).copied());
        // An entry that is taken away goes with all it has.
        if theirs.is_some() || base.is_none() {
            merged.extend(each(Some(entry), base, theirs));
        }
    }
    for entry in wanted {
        if names.insert(name_of(entry, key).to_owned()) {
            merged.push(entry.clone());
        }
    }
    let left = left.and_then(Value::as_array).into_iter().flatten();
    let order: HashMap<&str, usize> = left.enumerate().map(|(at, entry)| (name_of(entry, key), at)).collect();
    let shown = merged.iter().cloned().enumerate().filter(|(_, entry)| order.contains_key(name_of(entry, key)));
    let (places, mut shown): (Vec<usize>, Vec<Value>) = shown.unzip();
    shown.sort_by_key(|entry| order.get(name_of(entry, key)).copied());
    for (place, entry) in places.into_iter().zip(shown) {
        if let Some(slot) = merged.get_mut(place) {
            *slot = entry;
        }
    }
    if merged.is_empty() { None } else { Some(merged.into()) }
}

fn name_of<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The entries of a list by name; of several of one name the first.
pub(super) fn by_name<'a>(list: Option<&'a Value>, key: &str) -> HashMap<&'a str, &'a Value> {
    let mut entries = HashMap::new();
    for entry in list.and_then(Value::as_array).into_iter().flatten() {
        entries.entry(name_of(entry, key)).or_insert(entry);
    }
    entries
}
