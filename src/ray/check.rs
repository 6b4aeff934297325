//! What is wrong with a document: each member by what it takes. The rules between them are in `rules`.

use serde_json::Value;

use super::document::{member, upstream};
use super::fault::{Fault, FaultCode, MOST, escape};
use super::lens::ray_entry;
use super::members::{Kind, Member, Rule};
use super::name::{check_metadata_key, is_reserved_key};
use super::quantity::Quantity;
use super::schema::Schema;

pub(super) fn join(at: &str, name: &str) -> String {
    format!("{at}/{}", escape(name))
}

/// Longer than any name that Kubernetes takes.
pub(super) const LONGEST_NAME: usize = 1024;

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
                    if faults.len() > MOST {
                        return;
                    }
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
        Kind::Extended(own, place) => {
            check_extended(own, upstream(place), value, at, faults);
            // Of those with further members only the head's Service has metadata.
            check_metadata(value.get("metadata"), &format!("{at}/metadata"), faults);
        }
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
    check_metadata(value.get("metadata"), &format!("{at}/metadata"), faults);
}

/// What of the metadata of a pod template or a Service Kubernetes and its controllers alone write. A finalizer that
/// nobody takes away would keep the object for ever. `ownerReferences` the schema has not.
pub(super) fn check_metadata(metadata: Option<&Value>, at: &str, faults: &mut Vec<Fault>) {
    check_reserved(metadata, at, |_| true, faults);
    check_empty(metadata, "finalizers", at, faults);
}

/// A member of metadata that raygate takes from nobody.
pub(super) fn check_empty(metadata: Option<&Value>, member: &str, at: &str, faults: &mut Vec<Fault>) {
    if metadata.and_then(|metadata| metadata.get(member)).is_some_and(|value| !is_empty(value)) {
        let message = format!("`{member}` is written by Kubernetes and its controllers only.");
        faults.push(Fault::new(join(at, member), FaultCode::Reserved, message));
    }
}

/// Whether a list is there in name only.
pub(super) fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The reserved keys among labels and annotations, as far as their values concern the caller.
pub(super) fn check_reserved(
    metadata: Option<&Value>,
    at: &str,
    concerns: impl Fn(&Value) -> bool,
    faults: &mut Vec<Fault>,
) {
    for member in ["labels", "annotations"] {
        let keys = metadata.and_then(|metadata| metadata.get(member)?.as_object()).into_iter().flatten();
        for (key, _) in keys.filter(|(key, value)| is_reserved_key(key) && concerns(value)) {
            check_rule(check_metadata_key, key, &join(&format!("{at}/{member}"), key), faults);
        }
    }
}
