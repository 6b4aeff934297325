//! Which nodes an edit leaves as they were: the operator makes new pods by the new template and doesn't touch those that run
//! (`reconcilePods` in KubeRay's `controllers/ray/raycluster_controller.go`).

use serde_json::Value;

use super::facts::{NodeFact, NodeRole};

/// What pods are made of, in the head's entry of the spec or a worker group's.
const OF_A_GROUP: [&str; 4] = ["template", "rayStartParams", "resources", "labels"];
/// What the pods of all groups are made of besides.
const OF_ALL: [&str; 2] = ["gcsFaultToleranceOptions", "authOptions"];
/// What the head's pod is made of besides: the autoscaler runs beside it.
const OF_THE_HEAD: [&str; 2] = ["enableInTreeAutoscaling", "autoscalerOptions"];

/// Annotation of a cluster that the pods get too, and that says what their command is.
const OVERWRITE_COMMAND: &str = "ray.io/overwrite-container-cmd";

/// The names of those of a cluster's `nodes` that would be made differently after a write from `held` to `wanted`, and that
/// nothing replaces. Where the spec's `upgradeStrategy` was and stays `Recreate`, the operator replaces all; and a cluster
/// that is being suspended, or is to be, keeps none.
#[must_use]
pub fn outdated_nodes(held: &Value, wanted: &Value, nodes: &[NodeFact]) -> Vec<String> {
    let command = |object: &Value| object["metadata"]["annotations"].get(OVERWRITE_COMMAND).cloned();
    let other_command = command(held) != command(wanted);
    let (before, after) = (&held["spec"], &wanted["spec"]);
    let recreates = |spec: &Value| spec["upgradeStrategy"]["type"] == "Recreate";
    if after["suspend"] == true || (recreates(before) && recreates(after)) {
        return Vec::new();
    }
    let differ = |members: &[&str], a: &Value, b: &Value| members.iter().any(|member| a.get(member) != b.get(member));
    let all = other_command || differ(&OF_ALL, before, after);
    let at_the_head = all
        || differ(&OF_THE_HEAD, before, after)
        || differ(&OF_A_GROUP, &before["headGroupSpec"], &after["headGroupSpec"]);
    let group = |spec: &Value, name: &str| {
        let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
        groups.into_iter().find(|group| group["groupName"] == name).cloned()
    };
    let is_outdated = |node: &&NodeFact| match node.role {
        NodeRole::Head => at_the_head,
        NodeRole::Worker => match (group(before, &node.group), group(after, &node.group)) {
            (Some(before), Some(after)) => all || differ(&OF_A_GROUP, &before, &after),
            _ => false,
        },
        NodeRole::Other => false,
    };
    let nodes = nodes.iter().filter(|node| !node.deleting).filter(is_outdated);
    let mut names: Vec<_> = nodes.map(|node| node.name.clone()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        let group = |name: &str| json!({"groupName": name, "replicas": 1, "template": {"spec": {"containers": []}}});
        json!({"spec": {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [group("a"), group("b")]}})
    }

    fn nodes() -> Vec<NodeFact> {
        let node = |name: &str, role, group: &str| NodeFact {
            name: name.into(),
            role,
            group: group.into(),
            ..NodeFact::default()
        };
        vec![
            node("head", NodeRole::Head, "headgroup"),
            node("b-1", NodeRole::Worker, "b"),
            node("a-1", NodeRole::Worker, "a"),
            NodeFact { deleting: true, ..node("a-0", NodeRole::Worker, "a") },
            node("job", NodeRole::Other, "a"),
        ]
    }

    fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut wanted = object();
        change(&mut wanted["spec"]);
        outdated_nodes(&object(), &wanted, &nodes())
    }

    #[test]
    fn nodes_of_what_changed_are_outdated() {
        assert_eq!(after(|spec| spec["headGroupSpec"]["template"] = json!({"spec": 1})), ["head"]);
        assert_eq!(after(|spec| spec["workerGroupSpecs"][0]["rayStartParams"] = json!({"x": "1"})), ["a-1"]);
        assert_eq!(after(|spec| spec["enableInTreeAutoscaling"] = json!(true)), ["head"]);
        assert_eq!(after(|spec| spec["authOptions"] = json!({})), ["a-1", "b-1", "head"]);
    }

    #[test]
    fn numbers_of_nodes_and_new_groups_make_none_outdated() {
        let none = [""; 0];
        assert_eq!(after(|_| {}), none);
        assert_eq!(after(|spec| spec["workerGroupSpecs"][0]["replicas"] = json!(5)), none);
        assert_eq!(after(|spec| drop(spec["workerGroupSpecs"].as_array_mut().unwrap().remove(0))), none);
        assert_eq!(after(|spec| spec["idleTimeoutSeconds"] = json!(5)), none);
    }

    #[test]
    fn what_is_replaced_anyway_is_not_named() {
        let edited = |spec: &mut Value| spec["headGroupSpec"]["template"] = json!({"spec": 1});
        let suspended = after(|spec| {
            edited(spec);
            spec["suspend"] = json!(true);
        });
        assert_eq!(suspended, [""; 0]);
        let recreate = |object: &mut Value| object["spec"]["upgradeStrategy"] = json!({"type": "Recreate"});
        let (mut held, mut wanted) = (object(), object());
        edited(&mut wanted["spec"]);
        recreate(&mut wanted);
        assert_eq!(outdated_nodes(&held, &wanted, &nodes()), ["head"], "it must have been there before");
        recreate(&mut held);
        assert_eq!(outdated_nodes(&held, &wanted, &nodes()), [""; 0]);
    }
}
