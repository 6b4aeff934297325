//! What a write begins and any replica finishes, as it stands on the RayCluster meanwhile: a restart (its second half), and
//! worker groups that are dropped (the operator leaves the pods of a group that vanishes from the spec running for ever, so
//! one is scaled to nothing first, and its entry goes once its pods are gone).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::facts::{NodeFact, NodeRole};
use super::json::merge;

#[cfg(test)]
mod tests;

/// Annotation of a cluster that is being restarted: `v1:` and the restart's nonce. `spec.suspend` is `true` until the
/// suspension has taken hold.
pub const RESTART: &str = "raygate.dev/restart";

/// Annotation: what [`RESTART`] was, of the restarts before, and of those that found one under way. Version 1 is a JSON
/// array, the newest first, at most 8.
pub const RESTARTED: &str = "raygate.dev/restarted";

/// Annotation with the names of the worker groups that are being dropped: version 1 is a JSON array of them.
pub const DROPPED_GROUPS: &str = "raygate.dev/dropped-groups";

/// How many restarts are remembered.
const REMEMBERED: usize = 8;

/// What the value of [`RESTART`] begins with.
const VERSION: &str = "v1:";

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The value of [`RESTART`] for a restart with this nonce.
#[must_use]
pub fn restart_mark(nonce: &str) -> String {
    format!("{VERSION}{nonce}")
}

/// The restarts that are remembered, the one under way first.
fn marks(object: &Value) -> impl Iterator<Item = String> {
    let before = annotation(object, RESTARTED).and_then(|marks| serde_json::from_str::<Vec<String>>(marks).ok());
    annotation(object, RESTART).map(str::to_owned).into_iter().chain(before.into_iter().flatten())
}

/// Whether this restart is under way, or is remembered.
#[must_use]
pub fn is_marked(object: &Value, mark: &str) -> bool {
    marks(object).any(|known| known == mark)
}

/// Whether a restart is remembered whose mark is the same up to a full stop, and another behind it.
#[must_use]
pub fn is_marked_otherwise(object: &Value, mark: &str) -> bool {
    let begin = |mark: &str| mark.split_once('.').map(|(begin, _)| begin.to_owned());
    begin(mark).is_some() && marks(object).any(|known| known != mark && begin(&known) == begin(mark))
}

/// The value of [`RESTARTED`] with this mark in front, if it is one.
fn remembered(object: &Value, mark: Option<&str>) -> Value {
    let under_way = annotation(object, RESTART);
    let before = marks(object).filter(|known| Some(known.as_str()) != under_way && Some(known.as_str()) != mark);
    let marks: Vec<_> = mark.map(str::to_owned).into_iter().chain(before).take(REMEMBERED).collect();
    json!(marks).to_string().into()
}

/// The merge patch (RFC 7396) that remembers a restart that found another under way.
#[must_use]
pub fn remember(object: &Value, mark: &str) -> Value {
    json!({"metadata": {"annotations": {RESTARTED: remembered(object, Some(mark))}}})
}

/// Whether the cluster is being restarted. One whose suspension somebody took back isn't.
#[must_use]
pub fn is_restarting(object: &Value) -> bool {
    object["spec"]["suspend"] == true && has_restart(object)
}

/// Whether a restart stands on the cluster, also one whose suspension somebody has taken back.
#[must_use]
pub fn has_restart(object: &Value) -> bool {
    annotation(object, RESTART).is_some_and(|mark| mark.starts_with(VERSION))
}

/// Whether the operator has suspended the cluster: it says so by a condition, or, where it has none, by its `state`
/// (`calculateStatus` in KubeRay's `controllers/ray/raycluster_controller.go`).
#[must_use]
pub fn is_suspended(object: &Value) -> bool {
    match object["status"]["conditions"].as_array().filter(|conditions| !conditions.is_empty()) {
        Some(conditions) => conditions
            .iter()
            .any(|condition| condition["type"] == "RayClusterSuspended" && condition["status"] == "True"),
        None => object["status"]["state"] == "suspended",
    }
}

/// Whether the operator says that it has acted on the spec as it is. It says so only together with something else that is
/// new: where it doesn't, it may have all the same.
#[must_use]
pub fn is_observed(object: &Value) -> bool {
    let generation = |number: &Value| number.as_i64();
    let observed = generation(&object["status"]["observedGeneration"]);
    observed.is_some() && observed >= generation(&object["metadata"]["generation"])
}

/// The merge patch (RFC 7396) that begins a restart.
#[must_use]
pub fn restart(mark: &str) -> Value {
    json!({"spec": {"suspend": true}, "metadata": {"annotations": {RESTART: mark}}})
}

/// The merge patch (RFC 7396) that ends a restart: the cluster runs again, or stays as it is.
#[must_use]
pub fn restart_end(object: &Value, resume: bool) -> Value {
    let spec = if resume { json!({"suspend": false}) } else { json!({}) };
    json!({"spec": spec, "metadata": {"annotations": {RESTART: null, RESTARTED: remembered(object, annotation(object, RESTART))}}})
}

/// The worker groups that are marked as being dropped.
#[must_use]
pub fn marked_groups(object: &Value) -> BTreeSet<String> {
    let names = annotation(object, DROPPED_GROUPS).and_then(|names| serde_json::from_str::<Vec<String>>(names).ok());
    names.into_iter().flatten().collect()
}

/// The worker groups that are being dropped: marked so, and at rest. One that somebody else has given room for pods again is
/// wanted back, and one that somebody has taken out is gone.
#[must_use]
pub fn dropped_groups(object: &Value) -> BTreeSet<String> {
    let marked = marked_groups(object);
    if marked.is_empty() {
        return marked;
    }
    let groups = || object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
    let is_dropped = |name: &String| {
        let mut of_this_name = groups().filter(|group| group["groupName"] == **name).peekable();
        of_this_name.peek().is_some() && of_this_name.all(is_at_rest)
    };
    marked.into_iter().filter(is_dropped).collect()
}

/// Whether something waits to be finished.
#[must_use]
pub fn is_unfinished(object: &Value) -> bool {
    has_restart(object) || !marked_groups(object).is_empty()
}

/// Of `wanted`, which is to replace `held`: the worker groups that it no longer has are put back, wanting no pods, and marked
/// as being dropped.
pub fn hold_back(held: &Value, wanted: &mut Value) {
    let groups = |object: &Value| object["spec"]["workerGroupSpecs"].as_array().cloned().unwrap_or_default();
    let name = |group: &Value| group["groupName"].as_str().unwrap_or_default().to_owned();
    let mut kept = groups(wanted);
    let names: BTreeSet<_> = kept.iter().map(name).collect();
    let before = dropped_groups(held);
    let mut dropped = before.clone();
    let mut put_back = false;
    for (index, mut group) in groups(held).into_iter().enumerate() {
        let name = name(&group);
        if names.contains(&name) {
            continue;
        }
        if !before.contains(&name) {
            merge(&mut group, &json!({"replicas": 0, "minReplicas": 0, "maxReplicas": 0}));
        }
        dropped.insert(name);
        kept.insert(index.min(kept.len()), group);
        put_back = true;
    }
    if put_back {
        wanted["spec"]["workerGroupSpecs"] = kept.into();
        let marked = marked_groups(wanted);
        mark_dropped(wanted, &dropped.union(&marked).cloned().collect());
    }
}

/// Without these worker groups where they are at rest, and none of them marked.
#[must_use]
pub fn taken_out(object: &Value, over: &BTreeSet<String>) -> Value {
    let mut after = object.clone();
    leave_out(&mut after, over);
    mark_dropped(&mut after, &marked_groups(object).difference(over).cloned().collect());
    after
}

/// Leaves out those of these worker groups that are at rest.
pub fn leave_out(object: &mut Value, names: &BTreeSet<String>) {
    let is_out = |group: &Value| {
        let is_meant = group["groupName"].as_str().is_some_and(|name| names.contains(name));
        is_meant && is_at_rest(group)
    };
    if let Some(groups) = object.pointer_mut("/spec/workerGroupSpecs").and_then(Value::as_array_mut) {
        groups.retain(|group| !is_out(group));
    }
}

/// Whether a group can have no pods, whatever its `replicas` say: Ray's autoscaler writes those.
#[must_use]
pub fn is_at_rest(group: &Value) -> bool {
    group["maxReplicas"] == 0
}

/// With the autoscaler on, the operator deletes no pods but those that a group's `scaleStrategy` names (`reconcilePods` in
/// KubeRay's `controllers/ray/raycluster_controller.go`): the object with those of dropped groups named; `None` where all
/// are.
#[must_use]
pub fn with_pods_named(object: &Value, pods: &[NodeFact]) -> Option<Value> {
    if object["spec"]["enableInTreeAutoscaling"] != true {
        return None;
    }
    let dropped = dropped_groups(object);
    let mut after = object.clone();
    let mut changed = false;
    for group in after.pointer_mut("/spec/workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(name) = group["groupName"].as_str().filter(|name| dropped.contains(*name)).map(str::to_owned) else {
            continue;
        };
        let named = group["scaleStrategy"]["workersToDelete"].as_array().cloned().unwrap_or_default();
        let missing: Vec<Value> = pods
            .iter()
            .filter(|pod| is_of_group(pod, &name) && !pod.deleting)
            .map(|pod| Value::from(pod.name.as_str()))
            .filter(|pod| !named.contains(pod))
            .collect();
        if !missing.is_empty() {
            let all: Vec<_> = named.into_iter().chain(missing).collect();
            merge(group, &json!({"scaleStrategy": {"workersToDelete": all}}));
            changed = true;
        }
    }
    changed.then_some(after)
}

/// Whether a pod is a worker of this group.
#[must_use]
pub fn is_of_group(pod: &NodeFact, group: &str) -> bool {
    pod.role == NodeRole::Worker && pod.group == group
}

fn mark_dropped(object: &mut Value, names: &BTreeSet<String>) {
    let value = if names.is_empty() { Value::Null } else { json!(names).to_string().into() };
    merge(object, &json!({"metadata": {"annotations": {DROPPED_GROUPS: value}}}));
    let empty = object["metadata"]["annotations"].as_object().is_some_and(serde_json::Map::is_empty);
    if empty && let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("annotations");
    }
}

/// The spec without what a write has begun: groups that are being dropped aren't there, and a cluster that is being restarted
/// isn't suspended. `None` where that is the spec.
#[must_use]
pub fn spec_to_come(object: &Value) -> Option<Value> {
    if !is_unfinished(object) {
        return None;
    }
    let mut spec = object["spec"].clone();
    let dropped = dropped_groups(object);
    if let Some(groups) = spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut) {
        groups.retain(|group| !group["groupName"].as_str().is_some_and(|name| dropped.contains(name)));
    }
    if is_restarting(object) {
        spec["suspend"] = false.into();
    }
    Some(spec)
}
