//! What is wrong between the members of a document, each of which may be right by itself. These rules are our own but for
//! the bounds; `operator` has KubeRay's, and the table of all.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::check::{LONGEST_NAME, join};
use super::document::{Document, short_resources};
use super::fault::{Fault, FaultCode, MOST, escape};
use super::lens::ray_entry;
use super::members::{GROUP, How, NODE, SOURCES, VOLUME};

mod operator;
#[cfg(test)]
mod tests;

pub(super) use operator::{check_hidden, check_operator, newly_hidden, operator_faults};

/// Rules between the members of each node. It stops beyond [`MOST`] faults.
pub(super) fn check_nodes(document: &Document, faults: &mut Vec<Fault>) {
    check_node(document.head(), "/head", faults);
    for (name, group) in document.groups().filter(|(name, _)| name.len() <= LONGEST_NAME) {
        if faults.len() > MOST {
            return;
        }
        let at = format!("/workerGroups/{}", escape(name));
        check_bounds(group, &at, faults);
        check_node(group, &at, faults);
    }
}

/// The operator clamps `replicas` into its bounds in silence; here it is a fault. It refuses bounds that leave no room.
fn check_bounds(group: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    // What is no such number has its own fault.
    let number = |member: &str, default: i32| match group.get(member).map(Value::as_i64) {
        None => Some(default),
        Some(number) => i32::try_from(number?).ok().filter(|number| *number >= 0),
    };
    let (Some(min), Some(max)) = (number("minReplicas", 0), number("maxReplicas", i32::MAX)) else { return };
    let Some(replicas) = number("replicas", min) else { return };
    if min > max {
        let message = format!("The upper bound {max} is below the lower bound {min}.");
        faults.push(Fault::new(join(at, "maxReplicas"), FaultCode::OutOfRange, message));
    } else if !(min..=max).contains(&replicas) {
        let message = format!("{replicas} is outside the bounds of this group, {min} to {max}.");
        faults.push(Fault::new(join(at, "replicas"), FaultCode::OutOfRange, message));
    }
}

/// Rules between the members of one node.
fn check_node(node: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    check_resources(node, at, faults);
    check_volumes(node, at, faults);
    if let Some(template) = node.get("podTemplate") {
        check_conflicts(node, template, at, faults);
    }
}

fn check_resources(node: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    if node.contains_key("gpuResource") && !node.contains_key("gpu") {
        let message = "`gpuResource` says what `gpu` counts, and there is no `gpu`; leave it out too.";
        faults.push(Fault::new(join(at, "gpuResource"), FaultCode::InvalidValue, message));
    }
    for (short, resource) in short_resources(node) {
        for kind in ["requests", "limits"] {
            let long = node.get("resources").and_then(|resources| resources.get(kind)?.get(resource));
            if long.is_some() {
                let message = format!("`{short}` and `resources` both say how much {resource} is wanted.");
                let at = format!("{at}/resources/{kind}/{}", escape(resource));
                faults.push(Fault::new(at, FaultCode::ConflictingMembers, message));
            }
        }
    }
}

/// A volume is one thing, and each is seen at a place of its own.
fn check_volumes(node: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    let ray = node.get("podTemplate").and_then(ray_container);
    let mounts = ray.and_then(|ray| ray.get("volumeMounts")?.as_array()).into_iter().flatten();
    let mut paths: HashSet<&str> = mounts.filter_map(|mount| mount.get("mountPath")?.as_str()).collect();
    for (name, volume) in node.get("volumes").and_then(Value::as_object).into_iter().flatten() {
        if faults.len() > MOST {
            return;
        }
        let Some(volume) = volume.as_object() else { continue };
        let at = || join(&join(at, "volumes"), name);
        let sources = || VOLUME.iter().take(SOURCES).map(|member| member.name);
        let given = sources().filter(|source| volume.contains_key(*source)).count();
        if given != 1 {
            let message = match given {
                0 => "A volume needs one member that says what it is.".to_owned(),
                many => format!("A volume is one thing, this one has {many}."),
            };
            faults.push(Fault::new(at(), FaultCode::InvalidValue, message).allowing(sources()));
        }
        match volume.get("mountPath").map(Value::as_str) {
            None => {
                let message = "`mountPath` is required: where the Ray container sees the volume.";
                faults.push(Fault::new(join(&at(), "mountPath"), FaultCode::Required, message));
            }
            Some(Some(path)) if !paths.insert(path) => {
                let message = format!("Another volume is mounted at {path}.");
                faults.push(Fault::new(join(&at(), "mountPath"), FaultCode::ConflictingMembers, message));
            }
            Some(_) => {}
        }
    }
}

fn ray_container(template: &Value) -> Option<&Value> {
    template.pointer(&format!("/spec/containers/{}", ray_entry(template)?))
}

/// What is said by a member and by `podTemplate` too.
fn check_conflicts(node: &Map<String, Value>, template: &Value, at: &str, faults: &mut Vec<Fault>) {
    let ray = ray_container(template);
    let in_container = |field: &str| ray.and_then(|ray| ray.get(field));
    let mut conflict = |pointer: &dyn Fn() -> String, twice: &str| {
        if faults.len() <= MOST {
            let message = format!("`podTemplate` says {twice} too; say it in one place.");
            faults.push(Fault::new(pointer(), FaultCode::ConflictingMembers, message));
        }
    };
    let template_at = || join(at, "podTemplate");
    if in_container("image").is_some() {
        conflict(&template_at, "the Ray container's image, which is `image`");
    }
    for (_, resource) in short_resources(node) {
        let held = |kind: &str| in_container("resources").and_then(|resources| resources.get(kind)?.get(resource));
        if held("limits").or_else(|| held("requests")).is_some() {
            conflict(&template_at, &format!("how much {resource} is wanted"));
        }
    }
    let lists = [("env", in_container("env")), ("volumes", template.pointer("/spec/volumes"))];
    for (member, list) in lists {
        let list = list.and_then(Value::as_array).into_iter().flatten();
        let held: HashSet<_> = list.filter_map(|item| item.get("name")?.as_str()).collect();
        let names = node.get(member).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        for name in names.filter(|name| held.contains(name.as_str())) {
            conflict(&|| join(&join(at, member), name), &format!("`{name}`"));
        }
    }
    for member in [GROUP, NODE].into_iter().flatten() {
        let Some(field) = member.place.strip_prefix("template.").filter(|_| node.contains_key(member.name)) else {
            continue;
        };
        let held = match field.strip_prefix("spec.containers.0.") {
            Some(field) => in_container(field),
            None => template.pointer(&format!("/{}", field.replace('.', "/"))),
        };
        let Some(held) = held else { continue };
        match (held, &node[member.name]) {
            (Value::Object(held), Value::Object(wanted)) => {
                for name in wanted.keys().filter(|name| held.contains_key(*name)) {
                    conflict(&|| join(&join(at, member.name), name), &format!("`{name}`"));
                }
            }
            _ if member.how == How::Copied || member.name == "imagePullSecrets" => {
                conflict(&|| join(at, member.name), &format!("`{field}`"));
            }
            _ => {}
        }
    }
}
