//! The lens on one group's entry: what short members say of its pod template, and the rest as `podTemplate`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::volumes::{Names, build_volumes, view_volumes};
use super::{find, find_mut, is_empty, left_over, non_empty, path, put, take, users_keys, view_copied};
use crate::ray::document::short_resources;
use crate::ray::members::{GROUP, How, Member, NODE, is_gpu};
use crate::ray::name::is_reserved_key;
use crate::ray::quantity::Quantity;

/// Resource name of the GPUs that `gpu` means where `gpuResource` doesn't say otherwise.
pub const GPU: &str = "nvidia.com/gpu";
/// What the Ray containers of a head and of workers are called where nobody says otherwise.
const GENERATED: [&str; 2] = ["ray-head", "ray-worker"];
/// What a Ray container gets where nobody says otherwise: the kubelet itself then puts a crashed container's last words
/// into its status.
const LAST_WORDS: &str = "FallbackToLogsOnError";
/// The resources that have a member of their own name.
const SHORT: [&str; 2] = ["cpu", "memory"];

const CONTAINERS: [&str; 3] = ["template", "spec", "containers"];
/// The Ray container in a group's entry.
pub(super) const CONTAINER: [&str; 4] = ["template", "spec", "containers", "0"];

/// Whose entry it is.
#[derive(Clone, Copy)]
pub(super) enum Group<'a> {
    /// The head's; its image is the cluster's.
    Head,
    /// Workers', who needn't repeat this image.
    Workers(Option<&'a str>),
}

impl Group<'_> {
    fn container(self) -> &'static str {
        let [head, worker] = GENERATED;
        match self {
            Self::Head => head,
            Self::Workers(_) => worker,
        }
    }
}

/// The image of a group's Ray container.
pub(super) fn image(entry: &Value) -> Option<&str> {
    find(entry, &CONTAINER)?.get("image")?.as_str()
}

/// What is seen of a group's entry (without its name); `field` is the entry's in Kubernetes' notation.
pub(super) fn view_node(mut rest: Value, field: &str, group: Group<'_>, partial: &mut Vec<String>) -> Value {
    let mut members = Map::new();
    let held = find_mut(&mut rest, &CONTAINER).and_then(Value::as_object_mut);
    match held.and_then(|container| container.shift_remove("image")) {
        Some(Value::String(image)) => match group {
            Group::Workers(shown) if shown != Some(&*image) => drop(members.insert("image".to_owned(), image.into())),
            Group::Workers(_) | Group::Head => {}
        },
        Some(_) | None => partial.push(format!("{field}.template.spec.containers[0].image")),
    }
    let own = match group {
        Group::Head => &[],
        Group::Workers(_) => GROUP,
    };
    let resources = view_resources(&mut rest);
    for member in own.iter().chain(NODE) {
        let seen = match member.name {
            "image" => continue,
            "cpu" | "memory" | "gpu" | "gpuResource" | "resources" => resources.get(member.name).cloned(),
            "env" => view_env(&mut rest),
            "imagePullSecrets" => view_pull_secrets(&mut rest),
            "labels" | "annotations" => view_metadata(&mut rest, member),
            "volumes" => view_volumes(&mut rest),
            "podTemplate" => view_template(&mut rest, group.container()),
            _ => view_copied(member, member.place, &mut rest),
        };
        if let Some(seen) = seen {
            members.insert(member.name.to_owned(), seen);
        }
    }
    partial.extend(left_over(&rest).map(|name| format!("{field}.{name}")));
    members.into()
}

/// The entry (without its name) of a group that a document's node asks for.
pub(super) fn build_node(node: &Map<String, Value>, group: Group<'_>, image: Option<&str>) -> Value {
    let mut entry = json!({"rayStartParams": {}});
    let mut template = node.get("podTemplate").cloned().unwrap_or_else(|| json!({}));
    let ray = ray_entry(&template);
    let mut containers = match take(&mut template, &["spec", "containers"]) {
        Some(Value::Array(containers)) => containers,
        Some(_) | None => Vec::new(),
    };
    let mut container = match ray.filter(|index| *index < containers.len()) {
        Some(index) => containers.remove(index),
        None => json!({}),
    };
    // The usual order, so that a manifest reads well.
    let mut first = Map::new();
    first.insert("name".to_owned(), container.get("name").cloned().unwrap_or_else(|| group.container().into()));
    if let Some(image) = image {
        first.insert("image".to_owned(), image.into());
    }
    if let Some(rest) = container.as_object_mut() {
        first.extend(std::mem::take(rest).into_iter().filter(|(name, _)| name != "name" && name != "image"));
    }
    first.entry("terminationMessagePolicy").or_insert_with(|| LAST_WORDS.into());
    containers.insert(0, first.into());
    put(&mut template, &["spec", "containers"], containers.into());
    put(&mut entry, &["template"], template);

    for member in GROUP.iter().chain(NODE).filter(|member| member.how != How::Own) {
        if let Some(value) = node.get(member.name) {
            lay(&mut entry, &path(member.place), value);
        }
    }
    build_resources(node, &mut entry);
    for member in ["labels", "annotations"] {
        if let Some(value) = node.get(member) {
            lay(&mut entry, &["template", "metadata", member], value);
        }
    }
    let secrets = node.get("imagePullSecrets").and_then(Value::as_array);
    let secrets = secrets.into_iter().flatten().map(|name| json!({"name": name}));
    append(&mut entry, &["template", "spec", "imagePullSecrets"], secrets);
    let env = node.get("env").and_then(Value::as_object).into_iter().flatten();
    let env = env.map(|(name, value)| {
        let member = if value.is_object() { "valueFrom" } else { "value" };
        json!({"name": name, member: value})
    });
    append(&mut entry, &["template", "spec", "containers", "0", "env"], env);
    build_volumes(node, &mut entry);
    entry
}

/// Puts a member where it belongs; an object is laid over the one that is there.
fn lay(entry: &mut Value, path: &[&str], value: &Value) {
    let held = find(entry, path).and_then(Value::as_object).filter(|held| !held.is_empty());
    let value = match (held, value) {
        (Some(held), Value::Object(members)) => {
            let mut held = held.clone();
            held.extend(members.clone());
            held.into()
        }
        _ => value.clone(),
    };
    put(entry, path, value);
}

pub(super) fn append(entry: &mut Value, path: &[&str], items: impl Iterator<Item = Value>) {
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        return;
    }
    if let Some(held) = find_mut(entry, path).and_then(Value::as_array_mut) {
        return held.extend(items);
    }
    put(entry, path, items.into());
}

/// Which entry of a `podTemplate`'s containers is the Ray container's: the first, if it has no image, which every other
/// container needs; or else the one of the generated name.
#[must_use]
pub fn ray_entry(template: &Value) -> Option<usize> {
    let containers = template.pointer("/spec/containers")?.as_array()?;
    let first = containers.first().filter(|container| container.get("image").is_none());
    let generated = || containers.iter().position(|container| GENERATED.iter().any(|name| container["name"] == *name));
    first.map(|_| 0).or_else(generated)
}

/// The names of the resources that the Ray container's entry of a `podTemplate` says an amount of.
pub(super) fn ray_resources(template: &Value) -> impl Iterator<Item = &String> {
    let container = ray_entry(template).and_then(|index| template.pointer(&format!("/spec/containers/{index}")));
    let amounts = |kind: &str| container.and_then(|container| container["resources"][kind].as_object());
    ["limits", "requests"].into_iter().filter_map(amounts).flat_map(Map::keys).collect::<Vec<_>>().into_iter()
}

/// `cpu`, `memory`, `gpu`, `gpuResource` and `resources`, taken out of the Ray container.
fn view_resources(rest: &mut Value) -> Map<String, Value> {
    let place = |kind: &'static str| [&CONTAINER[..], &["resources", kind]].concat();
    let mut seen = Map::new();
    let amounts = ["requests", "limits"].map(|kind| {
        let held = find(rest, &place(kind)).and_then(Value::as_object);
        let held = held.filter(|held| held.values().all(|value| quantity_text(value).is_some()));
        let texts =
            held.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), quantity_text(value)?.into())));
        let texts: Map<String, Value> = texts.collect();
        if held.is_some() {
            take(rest, &place(kind));
        }
        texts
    });
    let [requests, limits] = amounts.each_ref();
    let short = |name: &str| {
        let limit = limits.get(name)?;
        requests.get(name).is_none_or(|request| is_same_quantity(request, limit)).then(|| limit.clone())
    };
    let gpus: Vec<_> = limits.keys().filter(|name| is_gpu(name) && short(name).is_some()).cloned().collect();
    let gpu = match gpus.as_slice() {
        many if many.iter().any(|name| name == GPU) => Some(GPU.to_owned()),
        [only] => Some(only.clone()),
        _ => None,
    };
    let mut said: Vec<String> = Vec::new();
    for name in SHORT {
        if let Some(amount) = short(name) {
            seen.insert(name.to_owned(), amount);
            said.push(name.to_owned());
        }
    }
    if let Some(gpu) = gpu {
        seen.extend(short(&gpu).map(|amount| ("gpu".to_owned(), amount)));
        if gpu != GPU {
            seen.insert("gpuResource".to_owned(), gpu.clone().into());
        }
        said.push(gpu);
    }
    let mut long = Map::new();
    for (kind, mut amounts) in ["requests", "limits"].into_iter().zip(amounts) {
        amounts.retain(|name, _| !said.contains(name));
        if !amounts.is_empty() {
            long.insert(kind.to_owned(), amounts.into());
        }
    }
    if !long.is_empty() {
        seen.insert("resources".to_owned(), long.into());
    }
    prune(rest, &[&CONTAINER[..], &["resources"]].concat());
    seen
}

fn build_resources(node: &Map<String, Value>, entry: &mut Value) {
    for kind in ["limits", "requests"] {
        let short = short_resources(node).filter_map(|(member, resource)| Some((resource, node.get(member)?)));
        let mut amounts: Map<String, Value> = short.map(|(name, amount)| (name.to_owned(), amount.clone())).collect();
        let long = node.get("resources").and_then(|resources| resources.get(kind)?.as_object());
        amounts.extend(long.cloned().into_iter().flatten());
        if !amounts.is_empty() {
            lay(entry, &[&CONTAINER[..], &["resources", kind]].concat(), &amounts.into());
        }
    }
}

/// A quantity as Kubernetes stores it in a custom resource, a string or a number, as a text.
fn quantity_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A quantity by its value, whatever its spelling; anything else as it is.
#[must_use]
pub fn canonical_quantity(value: &Value) -> Value {
    let quantity = quantity_text(value).and_then(|text| Quantity::parse(&text).ok());
    quantity.map_or_else(|| value.clone(), |quantity| quantity.nanos().to_string().into())
}

/// Whether two values are spellings of one quantity.
#[must_use]
pub fn is_same_quantity(one: &Value, other: &Value) -> bool {
    let parse = |value: &Value| Quantity::parse(&quantity_text(value)?).ok();
    one == other || parse(one).is_some_and(|one| parse(other) == Some(one))
}

/// The environment variables that a name and a value (or its source) say; others stay in the list.
fn view_env(rest: &mut Value) -> Option<Value> {
    let place = [&CONTAINER[..], &["env"]].concat();
    let list = find_mut(rest, &place)?.as_array_mut()?;
    let names = Names::of(list, "name");
    let mut seen = Map::new();
    list.retain(|item| {
        let Some((name, value)) = plain_env(item).filter(|(name, _)| names.has_once(name)) else { return true };
        seen.insert(name.to_owned(), value);
        false
    });
    prune(rest, &place);
    non_empty(seen.into())
}

fn plain_env(item: &Value) -> Option<(&str, Value)> {
    let item = item.as_object()?;
    let name = item.get("name")?.as_str().filter(|name| !name.is_empty())?;
    match (item.len(), item.get("value"), item.get("valueFrom")) {
        // No value and no source: Kubernetes takes it for the empty text.
        (1, None, None) => Some((name, "".into())),
        (2, Some(value), None) if value.is_string() => Some((name, value.clone())),
        (2, None, Some(source)) if source.is_object() => Some((name, source.clone())),
        _ => None,
    }
}

fn view_pull_secrets(rest: &mut Value) -> Option<Value> {
    let place = ["template", "spec", "imagePullSecrets"];
    let list = find(rest, &place)?.as_array()?;
    let name = |item: &Value| item.as_object().filter(|item| item.len() == 1)?.get("name")?.as_str().map(str::to_owned);
    let names: Option<Vec<String>> = list.iter().map(name).collect();
    let names = names.filter(|names| names.iter().collect::<HashSet<_>>().len() == names.len())?;
    take(rest, &place);
    non_empty(names.into())
}

/// The pods' labels or annotations that are the user's; the others are never shown.
fn view_metadata(rest: &mut Value, member: &Member) -> Option<Value> {
    let place = path(member.place);
    let held = find_mut(rest, &place)?;
    let seen = users_keys(held);
    held.as_object_mut()?.retain(|key, value| !is_reserved_key(key) && !value.is_string());
    prune(rest, &place);
    non_empty(seen)
}

/// What is left of the template: the Ray container's rest is the first entry of its containers, by its name.
fn view_template(rest: &mut Value, generated: &str) -> Option<Value> {
    for place in [&["template", "spec", "volumes"][..], &["template", "spec", "nodeSelector"]] {
        prune(rest, place);
    }
    let containers = find_mut(rest, &CONTAINERS).and_then(Value::as_array_mut);
    let mut bare = containers.as_ref().is_some_and(|containers| containers.is_empty());
    if let Some(containers) = containers {
        let alone = containers.len() == 1;
        if let Some(ray) = containers.first_mut().and_then(Value::as_object_mut) {
            if ray.get("terminationMessagePolicy").is_some_and(|policy| policy == LAST_WORDS) {
                ray.shift_remove("terminationMessagePolicy");
            }
            bare = alone && ray.len() == 1 && ray.get("name").is_some_and(|name| name == generated);
            bare |= alone && ray.is_empty();
        }
    }
    if bare {
        take(rest, &CONTAINERS);
    }
    prune(rest, &["template", "spec"]);
    prune(rest, &["template", "metadata"]);
    take(rest, &["template"]).and_then(non_empty)
}

/// Takes away what is empty.
pub(super) fn prune(rest: &mut Value, place: &[&str]) {
    if find(rest, place).is_some_and(is_empty) {
        take(rest, place);
    }
}
