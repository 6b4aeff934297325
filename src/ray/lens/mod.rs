//! Between a RayCluster and its document, both as JSON: [`view`] one way, [`build`] and [`edit()`] the other.
//!
//! A document is a pure function of the RayCluster and stored nowhere. A write is the difference between the document
//! that is seen and the one that is wanted: both are built, and what differs between the two is what changes in the
//! RayCluster. So whatever a document can't show stays as it is. Three laws hold (`tests.rs`): to want what is seen
//! changes nothing; what is wanted is seen afterwards, in its [`normal`] form; what can't be seen survives.

use serde_json::{Map, Value, json};

use super::begun;
use super::cluster::{API_VERSION, KIND};
use super::document::Document;
use super::members::{AUTOSCALING, CLUSTER, HEAD_SERVICE, How, INGRESS, Kind, Member};
use super::name::is_reserved_key;
use super::schema::ray_cluster;

mod edit;
mod merge;
mod place;
mod template;
#[cfg(test)]
mod tests;
mod volumes;

pub use edit::{Edit, Refusal, edit, respell_document, respell_upstream};
pub use place::{document_pointer, manifest_pointer, pointer_in_sent, tokens};
pub use template::{GPU, canonical_quantity, is_same_quantity, ray_entry};

use template::{Group, build_node, view_node};

/// Annotation of a cluster that must not be deleted; its value is the version of its own format. Whatever the version, it
/// protects.
pub const DELETION_PROTECTION: &str = "raygate.dev/deletion-protection";
/// The value of [`DELETION_PROTECTION`].
const PROTECTED: &str = "v1";

/// What a new cluster gets where its document says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// `rayVersion`.
    pub ray_version: String,
    /// `head.cpu`.
    pub head_cpu: String,
    /// `head.memory`.
    pub head_memory: String,
}

impl Defaults {
    /// Fills in what a document of a new cluster leaves out.
    pub fn apply(&self, document: &mut Document) {
        let members = &mut document.0;
        members.entry("rayVersion").or_insert_with(|| self.ray_version.clone().into());
        let head = members.entry("head").or_insert_with(|| json!({}));
        for (member, amount) in [("cpu", &self.head_cpu), ("memory", &self.head_memory)] {
            let said = |kind: &str, head: &Value| head["resources"][kind].get(member).is_some();
            let in_template = template::ray_resources(&head["podTemplate"]).any(|resource| resource == member);
            if said("limits", head) || said("requests", head) || in_template {
                continue;
            }
            if let Some(head) = head.as_object_mut() {
                head.entry(member).or_insert_with(|| amount.clone().into());
            }
        }
    }
}

/// What is seen of a RayCluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// Its document.
    pub document: Document,
    /// The fields that the document can't show, in Kubernetes' notation.
    pub partial: Vec<String>,
}

/// The document of a RayCluster, of which `object` is the whole JSON.
#[must_use]
pub fn view(object: &Value) -> View {
    let mut partial = Vec::new();
    let mut members = Map::new();
    let mut rest = object.get("spec").cloned().unwrap_or_default();
    let mut head = take(&mut rest, &["headGroupSpec"]).unwrap_or_default();
    let groups = take(&mut rest, &["workerGroupSpecs"]);
    let ray_version = rest["rayVersion"].as_str().map(ray_image);
    let head_image = template::image(&head).map(str::to_owned);
    let image = head_image.clone().filter(|image| Some(image) != ray_version.as_ref());

    for member in CLUSTER {
        let metadata = &object["metadata"];
        let seen = match member.name {
            "name" | "namespace" => metadata.get(member.name).filter(|name| name.is_string()).cloned(),
            "labels" | "annotations" => non_empty(users_keys(&metadata[member.name])),
            "image" => image.clone().map(Value::from),
            "suspended" => {
                let suspend = take(&mut rest, &["suspend"]).unwrap_or_else(|| is_held_suspended(object).into());
                Some(if begun::is_restarting(object) { false.into() } else { suspend })
            }
            "autoscaling" => view_autoscaling(&mut rest),
            "headService" => view_head_service(&mut rest, &mut head),
            "ingress" => view_ingress(&mut head),
            "deletionProtection" => metadata["annotations"].get(DELETION_PROTECTION).map(|_| true.into()),
            "head" | "workerGroups" => None,
            _ => member.place.strip_prefix("spec.").and_then(|place| view_copied(member, place, &mut rest)),
        };
        if let Some(seen) = seen {
            members.insert(member.name.to_owned(), seen);
        }
    }
    let shown = image.or(ray_version);
    let field = "spec.headGroupSpec";
    members.insert("head".to_owned(), view_node(head, field, Group::Head, &mut partial));

    let mut seen = Map::new();
    let dropped = begun::dropped_groups(object);
    let autoscaled = members.get("autoscaling").is_some_and(|autoscaling| autoscaling["enabled"] == true);
    for (index, mut group) in groups.as_ref().and_then(Value::as_array).cloned().into_iter().flatten().enumerate() {
        let field = format!("spec.workerGroupSpecs[{index}]");
        let name =
            take(&mut group, &["groupName"]).and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        if dropped.contains(&name) {
            continue;
        }
        // Two groups of one name can be stored: the first is shown.
        if seen.contains_key(&name) {
            partial.push(field);
            continue;
        }
        if autoscaled {
            take(&mut group, &["replicas"]);
        }
        seen.insert(name, view_node(group, &field, Group::Workers(shown.as_deref()), &mut partial));
    }
    if !seen.is_empty() {
        members.insert("workerGroups".to_owned(), seen.into());
    }
    partial.extend(left_over(&rest).map(|name| format!("spec.{name}")));
    View { document: Document(members), partial }
}

/// The RayCluster that a document asks for, with the CRD's defaults; a namespace only where the document has one.
#[must_use]
pub fn build(document: &Document) -> Value {
    let members = &document.0;
    let mut metadata = Map::new();
    for member in ["name", "namespace", "labels", "annotations"] {
        if let Some(value) = members.get(member) {
            metadata.insert(member.to_owned(), value.clone());
        }
    }
    let mut object = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}});
    if document.is_set("deletionProtection") {
        put(&mut object, &["metadata", "annotations", DELETION_PROTECTION], PROTECTED.into());
    }
    let image = image_of(document);
    let head = build_node(document.head(), Group::Head, image.as_deref());
    for member in CLUSTER {
        let Some(value) = members.get(member.name) else { continue };
        match member.name {
            "suspended" => put(&mut object, &["spec", "suspend"], value.clone()),
            "autoscaling" => build_extended(&mut object, AUTOSCALING, member.place, value),
            _ if member.how != How::Own => put(&mut object, &path(member.place), value.clone()),
            _ => {}
        }
    }
    put(&mut object, &["spec", "headGroupSpec"], head);
    for (own, member) in [(HEAD_SERVICE, "headService"), (INGRESS, "ingress")] {
        if let (Some(value), Some(place)) = (members.get(member), CLUSTER.iter().find(|known| known.name == member)) {
            build_extended(&mut object, own, place.place, value);
        }
    }
    let groups: Vec<_> = document.groups().map(|(name, group)| build_group(name, group, image.as_deref())).collect();
    if !groups.is_empty() {
        put(&mut object, &["spec", "workerGroupSpecs"], groups.into());
    }
    ray_cluster().apply_defaults(&mut object);
    object
}

/// What is seen of a document once it is stored: its normal form.
#[must_use]
pub fn normal(document: &Document) -> Document {
    view(&build(document)).document
}

/// The image of nodes that name none: the document's own, or that of its version of Ray.
fn image_of(document: &Document) -> Option<String> {
    document.text("image").map(str::to_owned).or_else(|| document.text("rayVersion").map(ray_image))
}

/// The image that a version of Ray means.
fn ray_image(version: &str) -> String {
    format!("rayproject/ray:{version}")
}

fn build_group(name: &str, group: &Map<String, Value>, image: Option<&str>) -> Value {
    let image = group.get("image").and_then(Value::as_str).or(image);
    let mut built = build_node(group, Group::Workers(None), image);
    let mut entry = Map::new();
    entry.insert("groupName".to_owned(), name.into());
    let least = group.get("minReplicas").cloned().unwrap_or_else(|| 0.into());
    entry.insert("replicas".to_owned(), group.get("replicas").cloned().unwrap_or(least));
    if let Some(built) = built.as_object_mut() {
        entry.append(built);
    }
    entry.into()
}

/// Whether the operator holds the cluster suspended: with no explicit `false` it does so for ever.
fn is_held_suspended(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "RayClusterSuspended" && condition["status"] == "True")
}

/// A member that is where it is said to be, taken from its place if it is of its type.
fn view_copied(member: &Member, place: &str, rest: &mut Value) -> Option<Value> {
    let place = path(place);
    if !fits(&member.kind, find(rest, &place)?) {
        return None;
    }
    let value = take(rest, &place)?;
    if member.how == How::Whole { Some(value) } else { non_empty(value) }
}

fn view_autoscaling(spec: &mut Value) -> Option<Value> {
    let options = spec.get("autoscalerOptions").is_some_and(Value::is_object);
    let options = if options { take(spec, &["autoscalerOptions"]) } else { None };
    let enabled = take(spec, &["enableInTreeAutoscaling"]).map(|enabled| ("enabled", enabled));
    if options.is_none() && enabled.is_none() {
        return None;
    }
    Some(extended(enabled.into_iter().collect(), options))
}

fn view_head_service(spec: &mut Value, head: &mut Value) -> Option<Value> {
    let kind = take(head, &["serviceType"]).map(|kind| ("type", kind));
    let annotations = take(spec, &["headServiceAnnotations"]).and_then(non_empty);
    let own = kind.into_iter().chain(annotations.map(|annotations| ("annotations", annotations)));
    non_empty(extended(own.collect(), take(head, &["headService"])))
}

fn view_ingress(head: &mut Value) -> Option<Value> {
    let enabled = take(head, &["enableIngress"]).map(|enabled| ("enabled", enabled));
    non_empty(extended(enabled.into_iter().collect(), take(head, &["ingressOptions"])))
}

fn extended(own: Vec<(&str, Value)>, rest: Option<Value>) -> Value {
    let mut members: Map<String, Value> = own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let Some(Value::Object(rest)) = rest {
        members.extend(rest);
    }
    members.into()
}

fn build_extended(object: &mut Value, own: &[Member], place: &str, value: &Value) {
    let Some(members) = value.as_object() else { return };
    let mut rest = members.clone();
    for member in own {
        if let Some(value) = rest.shift_remove(member.name) {
            put(object, &path(member.place), value);
        }
    }
    // An explicit `{}` is kept; what says no more than its own members needs no options.
    if !rest.is_empty() || members.is_empty() {
        put(object, &path(place), rest.into());
    }
}

/// Whether what Kubernetes holds there is of the type that the member has in a document.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Text(_) | Kind::Choice(_) => value.is_string(),
        Kind::Flag => value.is_boolean(),
        Kind::Whole(_) => value.as_i64().is_some(),
        Kind::Map(_, kind) => value.as_object().is_some_and(|members| members.values().all(|value| fits(kind, value))),
        Kind::Amount | Kind::WholeAmount => value.is_string() || value.is_number(),
        Kind::Texts(_) => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        Kind::Upstream(place) if ray_cluster().at(place).is_some_and(|schema| schema.items().is_some()) => {
            value.is_array()
        }
        Kind::Object(..) | Kind::Extended(..) | Kind::Upstream(_) => value.is_object(),
        Kind::Named(..) | Kind::TextOr(_) => value.is_string() || value.is_object(),
    }
}

/// The labels or annotations that are the user's.
fn users_keys(held: &Value) -> Value {
    let held = held.as_object().into_iter().flatten();
    let users = held.filter(|(key, value)| !is_reserved_key(key) && value.is_string());
    users.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

/// Nothing, for an empty map or list.
fn non_empty(value: Value) -> Option<Value> {
    if is_empty(&value) { None } else { Some(value) }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Names of members that are left and say something.
fn left_over(rest: &Value) -> impl Iterator<Item = &String> {
    let members = rest.as_object().into_iter().flatten();
    members.filter(|(_, value)| !is_empty(value)).map(|(name, _)| name)
}

fn path(place: &str) -> Vec<&str> {
    place.split('.').collect()
}

fn find<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, member| match value {
        Value::Array(items) => items.get(member.parse::<usize>().ok()?),
        Value::Object(members) => members.get(*member),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn find_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, member| match value {
        Value::Array(items) => items.get_mut(member.parse::<usize>().ok()?),
        Value::Object(members) => members.get_mut(*member),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// Takes a member out of the objects that hold it.
fn take(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    find_mut(value, way)?.as_object_mut()?.shift_remove(*last)
}

/// Puts a member at its place; objects on the way come to be.
fn put(value: &mut Value, path: &[&str], member: Value) {
    let Some((last, way)) = path.split_last() else { return };
    let mut at = value;
    for name in way {
        let next = match at {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
            Value::Object(members) => Some(members.entry(*name).or_insert_with(|| json!({}))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    if let Some(members) = at.as_object_mut() {
        members.insert((*last).to_owned(), member);
    }
}
