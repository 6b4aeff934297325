//! What of a RayCluster only those may see who may change it, and what others see in its place.
//!
//! Hidden are the values that hold secrets in clear:
//!
//! - of every `env` below `spec`, whoever's: a variable that is empty or has no value is hidden like any other,
//! - of the headers of HTTP requests (`httpHeaders` of probes and of `lifecycle`),
//! - `redisPassword` and `redisUsername`, and in `rayStartParams` `redis-password` and `redis-username`,
//! - `redisAddress`, and in `rayStartParams` `redis-address` and `address`, if there is an `@` in it: before that may be a
//!   password.
//!
//! Of these stay the name, and what stands under `valueFrom`: it says where a secret is, not what it is. What kubectl,
//! kapp and Rancher remember of the object that they sent holds them all, so those annotations go whole.
//! Where the schema has a map, as of labels, the names are the user's and mean nothing; what it doesn't know is judged by
//! names alone, so that a newer operator's places are hidden too.
//!
//! Not hidden are places where no secret belongs: commands and their arguments (of probes and `lifecycle` too), all other
//! annotations and labels, other addresses (`gitRepo`), `workingDir`, the attributes of CSI and flex volumes
//! (secrets have references of their own there), and what `dnsConfig` and `sysctls` set. Neither is `status`.

use serde_json::Value;

use super::fault::{MOST, escape};
use super::name::LAST_APPLIED;
use super::schema::{Schema, Step, ray_cluster};

#[cfg(test)]
mod tests;

/// What stands in place of a value that its reader may not see. No label, name or quantity can be this text.
pub const HIDDEN: &str = "<hidden>";

/// Members that hold a secret, or a list of them.
const SECRETS: [&str; 4] = ["env", "httpHeaders", "redisPassword", "redisUsername"];

/// Options of `ray start` that are secrets.
const SECRET_OPTIONS: [&str; 2] = ["redis-password", "redis-username"];

/// Addresses that may have a password in them, and options of `ray start` that are such.
const ADDRESSES: [&str; 1] = ["redisAddress"];
const ADDRESS_OPTIONS: [&str; 2] = ["redis-address", "address"];

/// Annotations in which tools keep the object as they sent it.
const REMEMBERED: [&str; 4] =
    [LAST_APPLIED, "kapp.k14s.io/original", "kapp.k14s.io/original-diff", "objectset.rio.cattle.io/applied"];

/// raygate's own marks of the create that made an object: with them a reader could test guesses at what its body was.
const OF_CREATES: [&str; 2] = ["raygate.dev/idempotency-key", "raygate.dev/create-nonce"];

/// What a value below `spec` is.
#[derive(Clone, Copy)]
enum Place {
    /// Anything, and what the schema says of it, if it knows it.
    Plain(Option<&'static Schema>),
    /// The options of `ray start`.
    Options,
    /// One of [`SECRETS`].
    Secret,
    /// Nothing in it may be seen.
    Hidden,
}

/// The RayCluster, of which `raw` is the whole JSON, without what only those may see who may change it.
#[must_use]
pub fn mask(raw: &Value) -> Value {
    let mut masked = raw.clone();
    forget(&mut masked);
    let Some(spec) = masked.get_mut("spec") else { return masked };
    let groups = spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut);
    groups.into_iter().flatten().filter_map(|group| group.get_mut("template")).for_each(forget);
    spec.pointer_mut("/headGroupSpec/template").into_iter().for_each(forget);

    let mut left = vec![(spec, Place::Plain(ray_cluster().member("spec")))];
    while let Some((value, place)) = left.pop() {
        match value {
            Value::Object(members) => {
                let said = members.contains_key("value") || members.contains_key("valueFrom");
                if matches!(place, Place::Secret) && members.get("name").is_some_and(Value::is_string) && !said {
                    // Kubernetes takes it for the empty text.
                    members.insert("value".to_owned(), HIDDEN.into());
                }
                let members = members.iter_mut().map(|(name, value)| (member(place, name, value), value));
                left.extend(members.filter_map(|(place, value)| Some((value, place?))));
            }
            Value::Array(items) => {
                let place = match place {
                    Place::Plain(schema) => Place::Plain(schema.and_then(Schema::items)),
                    Place::Options | Place::Secret | Place::Hidden => place,
                };
                left.extend(items.iter_mut().map(|item| (item, place)));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => match place {
                Place::Plain(_) | Place::Options => {}
                Place::Secret | Place::Hidden => *value = HIDDEN.into(),
            },
            // Kubernetes drops it.
            Value::Null => {}
        }
    }
    masked
}

/// What a member is; `None` where it stays whatever it holds.
fn member(place: Place, name: &str, value: &Value) -> Option<Place> {
    let may_have_password = || value.as_str().is_some_and(|address| address.contains('@'));
    match place {
        Place::Secret if name == "valueFrom" || (name == "name" && value.is_string()) => None,
        Place::Secret | Place::Hidden => Some(Place::Hidden),
        Place::Options if SECRET_OPTIONS.contains(&name) => Some(Place::Hidden),
        Place::Options if ADDRESS_OPTIONS.contains(&name) && may_have_password() => Some(Place::Hidden),
        Place::Options => Some(Place::Plain(None)),
        Place::Plain(_) if REMEMBERED.contains(&name) => Some(Place::Hidden),
        // There the names are the user's, who may well have a label `env`.
        Place::Plain(Some(schema)) if schema.is_map() => Some(Place::Plain(schema.member(name))),
        Place::Plain(_) if SECRETS.contains(&name) => Some(Place::Secret),
        Place::Plain(_) if ADDRESSES.contains(&name) && may_have_password() => Some(Place::Hidden),
        Place::Plain(_) if name == "rayStartParams" => Some(Place::Options),
        Place::Plain(schema) => Some(Place::Plain(schema.and_then(|schema| schema.member(name)))),
    }
}

/// Takes away what tools remember of an object.
fn forget(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !REMEMBERED.contains(&key.as_str()) && !OF_CREATES.contains(&key.as_str()));
    }
}

/// Where below `spec` a value is [`HIDDEN`], as JSON pointers into the RayCluster: what was read masked must not be written
/// back. No more than [`MOST`] are told.
#[must_use]
pub fn hidden_values(raw: &Value) -> Vec<String> {
    // Each value with the step to it and the number of the value that holds it. A pointer is made for what is found only.
    let mut seen: Vec<(usize, Step<'_>, &Value)> = Vec::new();
    seen.extend(raw.get("spec").map(|spec| (0, Step::Member("spec"), spec)));
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((_, _, value)) = seen.get(at).copied() {
        match value {
            Value::Object(members) => {
                seen.extend(members.iter().map(|(name, value)| (at, Step::Member(name), value)));
            }
            Value::Array(items) => {
                seen.extend(items.iter().enumerate().map(|(index, item)| (at, Step::Index(index), item)));
            }
            Value::String(text) if text == HIDDEN && found.len() < MOST => found.push(at),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        at += 1;
    }
    found.into_iter().map(|at| pointer(&seen, at)).collect()
}

fn pointer(seen: &[(usize, Step<'_>, &Value)], mut at: usize) -> String {
    let mut tokens = Vec::new();
    while let Some((holder, step, _)) = seen.get(at) {
        tokens.push(match step {
            Step::Member(name) => format!("/{}", escape(name)),
            Step::Index(index) => format!("/{index}"),
        });
        // The first is `spec` itself.
        if at == 0 {
            break;
        }
        at = *holder;
    }
    tokens.iter().rev().map(String::as_str).collect()
}
