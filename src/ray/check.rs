//! What is wrong with a document: each member by what it takes, and the rules between them.

use serde_json::{Map, Value};

use super::document::{Document, member, short_resources, upstream};
use super::fault::{Fault, FaultCode, MOST, escape};
use super::lens::ray_entry;
use super::members::{GROUP, How, Kind, Member, NODE, Rule, SOURCES, VOLUME};
use super::quantity::Quantity;
use super::schema::Schema;

fn join(at: &str, name: &str) -> String {
    format!("{at}/{}", escape(name))
}

/// Longer than any name that Kubernetes takes.
const LONGEST_NAME: usize = 1024;

/// What is wrong with a value of this kind; `at` is its pointer. It stops beyond [`MOST`] faults.
pub(super) fn check(kind: &Kind, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    match kind {
        Kind::Text(rule) => match value.as_str() {
            Some(text) => check_rule(*rule, text, at, faults),
            None => faults.push(Fault::wrong_type(at, "a string", value)),
        },
        Kind::Choice(choices) => match value.as_str() {
            Some(text) if choices.contains(&text) => {}
            Some(text) => {
                let message = format!("`{text}` is not taken here; it is one of {}.", choices.join(", "));
                faults.push(Fault::new(at, FaultCode::InvalidValue, message).allowing(*choices));
            }
            None => faults.push(Fault::wrong_type(at, "a string", value)),
        },
        Kind::Flag if value.is_boolean() => {}
        Kind::Flag => faults.push(Fault::wrong_type(at, "true or false", value)),
        Kind::Whole(least) => check_whole(*least, value, at, faults),
        Kind::Amount => drop(check_amount(value, at, faults)),
        Kind::WholeAmount => {
            if let Some(quantity) = check_amount(value, at, faults).filter(|quantity| !quantity.is_whole()) {
                let message = format!("{} is not a whole number, and this can't be divided.", quantity.as_str());
                faults.push(Fault::new(at, FaultCode::OutOfRange, message));
            }
        }
        Kind::Texts(rule) => match value.as_array() {
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    check(&Kind::Text(*rule), item, &format!("{at}/{index}"), faults);
                }
            }
            None => faults.push(Fault::wrong_type(at, "a list", value)),
        },
        Kind::Map(rule, kind) => {
            for (name, value) in object(value, at, faults) {
                if faults.len() > MOST {
                    return;
                }
                let at = join(at, name);
                check_rule(*rule, name, &at, faults);
                // What is under an endless name isn't looked at: each fault there would repeat the name.
                if name.len() <= LONGEST_NAME {
                    check(kind, value, &at, faults);
                }
            }
        }
        Kind::Object(_, lists) => {
            for (name, value) in object(value, at, faults) {
                if faults.len() > MOST {
                    return;
                }
                match member(lists, name) {
                    Some(member) => check(&member.kind, value, &join(at, name), faults),
                    None => faults.push(unknown(at, name, &names(lists))),
                }
            }
        }
        Kind::Extended(own, place) => check_extended(own, upstream(place), value, at, faults),
        Kind::Upstream("spec.headGroupSpec.template") => check_template(value, at, faults),
        Kind::Upstream(place) => check_upstream(place, value, at, faults),
        Kind::Named(..) | Kind::TextOr(_) if value.is_string() => {}
        Kind::Named(place, _) | Kind::TextOr(place) if value.is_object() => check_upstream(place, value, at, faults),
        Kind::Named(..) | Kind::TextOr(_) => faults.push(Fault::wrong_type(at, "a string or an object", value)),
    }
}

/// The members of an object.
fn object<'a>(
    value: &'a Value,
    at: &str,
    faults: &mut Vec<Fault>,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    if !value.is_object() {
        faults.push(Fault::wrong_type(at, "an object", value));
    }
    value.as_object().into_iter().flatten()
}

fn names(lists: &[&'static [Member]]) -> Vec<&'static str> {
    lists.iter().flat_map(|list| list.iter()).map(|member| member.name).collect()
}

fn unknown(at: &str, name: &str, known: &[&str]) -> Fault {
    Fault::unknown(join(at, name), FaultCode::UnknownMember, name, known)
}

fn check_rule(rule: Rule, text: &str, at: &str, faults: &mut Vec<Fault>) {
    if let Err(wrong) = rule(text) {
        faults.push(wrong.at(at));
    }
}

fn check_whole(least: i32, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    let Some(number) = value.as_number().filter(|number| !number.is_f64()) else {
        return faults.push(Fault::wrong_type(at, "a whole number", value));
    };
    let message = match number.as_i64().map(i32::try_from) {
        Some(Ok(number)) if number >= least => return,
        Some(Ok(_)) => format!("{number} is too small; {least} is the least."),
        Some(Err(_)) | None => format!("{number} is more than Kubernetes can hold, {} to {}.", i32::MIN, i32::MAX),
    };
    faults.push(Fault::new(at, FaultCode::OutOfRange, message));
}

fn check_amount(value: &Value, at: &str, faults: &mut Vec<Fault>) -> Option<Quantity> {
    let Some(text) = value.as_str() else {
        faults.push(Fault::wrong_type(at, "a string or a number", value));
        return None;
    };
    match Quantity::parse(text) {
        Ok(quantity) if quantity.is_negative() => {
            faults.push(Fault::new(at, FaultCode::OutOfRange, format!("{text} is negative; 0 is the least.")));
            None
        }
        Ok(quantity) => Some(quantity),
        Err(wrong) => {
            faults.push(wrong.at(at));
            None
        }
    }
}

fn check_extended(own: &'static [Member], rest: Option<&Schema>, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    for (name, value) in object(value, at, faults) {
        if faults.len() > MOST {
            return;
        }
        match (member(&[own], name), rest.and_then(|schema| schema.member(name))) {
            (Some(member), _) => check(&member.kind, value, &join(at, name), faults),
            (None, Some(schema)) => schema.check(value, &join(at, name), faults),
            (None, None) => {
                let rest = rest.into_iter().flat_map(Schema::members);
                faults.push(unknown(at, name, &names(&[own]).into_iter().chain(rest).collect::<Vec<_>>()));
            }
        }
    }
}

fn check_upstream(place: &str, value: &Value, at: &str, faults: &mut Vec<Fault>) {
    if let Some(schema) = upstream(place) {
        schema.check(value, at, faults);
    }
}

/// A rest of a pod template: it needn't have containers, nor the Ray container's entry a name.
fn check_template(value: &Value, at: &str, faults: &mut Vec<Fault>) {
    let mut found = Vec::new();
    check_upstream("spec.headGroupSpec.template", value, at, &mut found);
    let containers = format!("{at}/spec/containers");
    let first = if ray_entry(value) == Some(0) { format!("{containers}/0/name") } else { String::new() };
    found.retain(|fault| fault.code != FaultCode::Required || (fault.pointer != containers && fault.pointer != first));
    faults.append(&mut found);
}

/// Rules between the members of each node.
pub(super) fn check_nodes(document: &Document, faults: &mut Vec<Fault>) {
    check_node(document.head(), "/head", faults);
    for (name, group) in document.groups() {
        let at = format!("/workerGroups/{}", escape(name));
        check_bounds(group, &at, faults);
        check_node(group, &at, faults);
    }
}

/// The operator clamps `replicas` into its bounds in silence; here it is a fault.
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
    for (name, volume) in node.get("volumes").and_then(Value::as_object).into_iter().flatten() {
        check_volume(volume, &join(&join(at, "volumes"), name), faults);
    }
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

fn check_volume(volume: &Value, at: &str, faults: &mut Vec<Fault>) {
    let Some(volume) = volume.as_object() else { return };
    let sources: Vec<_> = VOLUME.iter().take(SOURCES).map(|member| member.name).collect();
    let given: Vec<_> = sources.iter().filter(|source| volume.contains_key(**source)).collect();
    if given.len() != 1 {
        let message = match given.as_slice() {
            [] => "A volume needs one member that says what it is.".to_owned(),
            many => format!("A volume is one thing, this one has {}.", many.len()),
        };
        faults.push(Fault::new(at, FaultCode::InvalidValue, message).allowing(sources));
    }
    if !volume.contains_key("mountPath") {
        let message = "`mountPath` is required: where the Ray container sees the volume.";
        faults.push(Fault::new(join(at, "mountPath"), FaultCode::Required, message));
    }
}

/// What is said by a member and by `podTemplate` too.
fn check_conflicts(node: &Map<String, Value>, template: &Value, at: &str, faults: &mut Vec<Fault>) {
    let mut conflict = |pointer: String, twice: &str| {
        let message = format!("`podTemplate` says {twice} too; say it in one place.");
        faults.push(Fault::new(pointer, FaultCode::ConflictingMembers, message));
    };
    let ray = ray_entry(template).and_then(|index| template.pointer(&format!("/spec/containers/{index}")));
    let in_container = |field: &str| ray.and_then(|ray| ray.get(field));
    if in_container("image").is_some() {
        conflict(join(at, "podTemplate"), "the Ray container's image, which is `image`");
    }
    for (_, resource) in short_resources(node) {
        let held = |kind: &str| in_container("resources").and_then(|resources| resources.get(kind)?.get(resource));
        if held("limits").or_else(|| held("requests")).is_some() {
            conflict(join(at, "podTemplate"), &format!("how much {resource} is wanted"));
        }
    }
    let lists = [("env", in_container("env")), ("volumes", template.pointer("/spec/volumes"))];
    for (member, list) in lists {
        let held: Vec<_> =
            list.and_then(Value::as_array).into_iter().flatten().filter_map(|item| item.get("name")).collect();
        for name in node.get(member).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if held.iter().any(|held| *held == name) {
                conflict(join(&join(at, member), name), &format!("`{name}`"));
            }
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
                    conflict(join(&join(at, member.name), name), &format!("`{name}`"));
                }
            }
            _ if member.how == How::Copied || member.name == "imagePullSecrets" => {
                conflict(join(at, member.name), &format!("`{field}`"));
            }
            _ => {}
        }
    }
}
