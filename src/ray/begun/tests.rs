use serde_json::json;

use super::*;
use crate::ray::facts::NodeFact;
use crate::ray::revision::revision;

fn group(name: &str) -> Value {
    json!({"groupName": name, "replicas": 2, "minReplicas": 1, "maxReplicas": 5, "template": {"x": name}})
}

/// A RayCluster with these groups.
fn object(groups: &[&str]) -> Value {
    let groups: Vec<_> = groups.iter().map(|name| group(name)).collect();
    json!({"metadata": {"name": "demo", "uid": "u"}, "spec": {"rayVersion": "2.52.0", "workerGroupSpecs": groups}})
}

fn names(object: &Value) -> Vec<&str> {
    let groups = object["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
    groups.map(|group| group["groupName"].as_str().unwrap_or_default()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn pod(name: &str, role: NodeRole, group: &str) -> NodeFact {
    NodeFact { name: name.into(), role, group: group.into(), ..NodeFact::default() }
}

#[test]
fn groups_that_go_keep_their_place_until_they_are_gone() {
    for (held, wanted, between) in [
        (&["a", "b", "c"][..], &["b", "c"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["a", "c"], &["a", "b", "c"]),
        (&["a", "b", "c"], &["c"], &["a", "b", "c"]),
        (&["a", "b", "c"], &[], &["a", "b", "c"]),
        (&["a", "b"], &["b", "c"], &["a", "b", "c"]),
        (&["a", "b"], &["c", "d"], &["a", "b", "c", "d"]),
    ] {
        let (held, mut after) = (object(held), object(wanted));
        hold_back(&held, &mut after);
        assert_eq!(names(&after), between, "{wanted:?}");
        let gone: Vec<_> = names(&held).into_iter().filter(|name| !wanted.contains(name)).collect();
        assert_eq!(dropped_groups(&after), set(&gone), "{wanted:?}");
        for entry in after["spec"]["workerGroupSpecs"].as_array().unwrap() {
            let name = entry["groupName"].as_str().unwrap();
            assert_eq!(is_at_rest(entry), gone.contains(&name), "{entry}");
            assert_eq!(entry["template"]["x"], name, "what its nodes are made of stays");
        }
        assert_eq!(taken_out(&after, &set(&gone)), object(wanted), "nothing is left of it");
        assert_eq!(revision(&after), revision(&object(wanted)), "what is wanted is there from the first");
        assert!(is_unfinished(&after) && !is_unfinished(&object(wanted)));
    }
}

#[test]
fn what_drops_nothing_changes_nothing() {
    for wanted in [&["a", "b"][..], &["a", "b", "c"], &["b", "a"]] {
        let mut after = object(wanted);
        hold_back(&object(&["a", "b"]), &mut after);
        assert_eq!(after, object(wanted));
    }
}

#[test]
fn one_more_is_dropped_beside_the_first() {
    let mut first = object(&["b", "c"]);
    hold_back(&object(&["a", "b", "c"]), &mut first);
    let mut second = first.clone();
    second["spec"]["workerGroupSpecs"].as_array_mut().unwrap().remove(1);
    hold_back(&first, &mut second);
    assert_eq!((names(&second), dropped_groups(&second)), (vec!["a", "b", "c"], set(&["a", "b"])));
    let one = taken_out(&second, &set(&["a"]));
    assert_eq!((names(&one), dropped_groups(&one)), (vec!["b", "c"], set(&["b"])), "each goes when it can");
}

#[test]
fn a_group_that_has_room_again_stays() {
    let mut after = object(&["b"]);
    hold_back(&object(&["a", "b"]), &mut after);
    assert_eq!(wanted_back(&after), set(&[]));
    after["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(1);
    assert_eq!(wanted_back(&after), set(&["a"]));
    let kept = taken_out(&after, &wanted_back(&after));
    assert_eq!((names(&kept), is_unfinished(&kept)), (vec!["a", "b"], false));
    // What Ray's autoscaler writes into it is no room.
    after["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(0);
    after["spec"]["workerGroupSpecs"][0]["replicas"] = json!(3);
    assert_eq!(wanted_back(&after), set(&[]));
}

#[test]
fn only_the_workers_of_dropped_groups_are_named() {
    let mut held = object(&["a", "b"]);
    held["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = json!({"workersToDelete": ["a-0"]});
    let mut after = object(&["b"]);
    hold_back(&held, &mut after);
    let pods = [
        pod("a-0", NodeRole::Worker, "a"),
        pod("a-1", NodeRole::Worker, "a"),
        NodeFact { deleting: true, ..pod("a-2", NodeRole::Worker, "a") },
        pod("b-1", NodeRole::Worker, "b"),
        pod("job", NodeRole::Other, "a"),
        // A group may have the name that Kubernetes gives the head's.
        pod("head", NodeRole::Head, "a"),
    ];
    assert_eq!(with_pods_named(&after, &pods), None, "without the autoscaler the operator takes them by itself");
    after["spec"]["enableInTreeAutoscaling"] = json!(true);
    let named = with_pods_named(&after, &pods).unwrap();
    let strategy = |index: usize| named["spec"]["workerGroupSpecs"][index]["scaleStrategy"].clone();
    assert_eq!((strategy(0), strategy(1)), (json!({"workersToDelete": ["a-0", "a-1"]}), Value::Null));
    assert_eq!(with_pods_named(&named, &pods), None, "once is enough");
}

#[test]
fn a_restart_is_a_mark_and_a_suspension() {
    let mut held = object(&["a"]);
    held["spec"]["suspend"] = json!(false);
    let mut begun = held.clone();
    merge(&mut begun, &restart("v1:x"));
    assert!(is_restarting(&begun) && is_marked(&begun, "v1:x") && !is_marked(&begun, "v1:y"));
    assert_eq!(revision(&begun), revision(&held), "it doesn't edit the cluster");
    for resume in [true, false] {
        let mut ended = begun.clone();
        merge(&mut ended, &restart_end(&begun, resume));
        assert!(!is_restarting(&ended) && !has_restart(&ended) && is_marked(&ended, "v1:x"));
        assert_eq!(ended["spec"]["suspend"], !resume);
        assert_eq!(revision(&ended) == revision(&held), resume, "one that was stopped is another");
    }
    begun["spec"]["suspend"] = json!(false);
    assert!(!is_restarting(&begun) && has_restart(&begun), "somebody took the suspension back");
}

#[test]
fn the_operators_word_is_its_condition_or_else_its_state() {
    let with = |status: Value| json!({"metadata": {"generation": 3}, "status": status});
    let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status}]);
    for (status, suspended) in [
        (json!(null), false),
        (json!({"state": "suspended"}), true),
        (json!({"state": "ready"}), false),
        (json!({"state": "suspended", "conditions": []}), true),
        (json!({"state": "suspended", "conditions": condition("RayClusterSuspending", "True")}), false),
        (json!({"state": "ready", "conditions": condition("RayClusterSuspended", "True")}), true),
        (json!({"state": "suspended", "conditions": condition("RayClusterSuspended", "False")}), false),
    ] {
        assert_eq!(is_suspended(&with(status.clone())), suspended, "{status}");
    }
    for (observed, is) in
        [(json!(null), false), (json!(2), false), (json!(3), true), (json!(4), true), (json!("3"), false)]
    {
        assert_eq!(is_observed(&with(json!({"observedGeneration": observed}))), is, "{observed}");
    }
}

#[test]
fn marks_that_cannot_be_read_do_no_harm() {
    for mark in ["", "x", "{}", "[1]", "null", "[\"a\"", "\"a\""] {
        let mut held = object(&["a", "b"]);
        merge(&mut held, &json!({"metadata": {"annotations": {DROPPED_GROUPS: mark}}}));
        assert_eq!(dropped_groups(&held), set(&[]), "{mark}");
        assert_eq!(revision(&held), revision(&object(&["a", "b"])), "{mark}");
        assert_eq!(taken_out(&held, &set(&[])), object(&["a", "b"]), "the mark goes, and nothing else");
    }
    for odd in [
        json!({}),
        json!({"metadata": {"annotations": {DROPPED_GROUPS: "[\"a\"]", RESTART: "v1:x"}}}),
        json!({"metadata": {"annotations": {DROPPED_GROUPS: 1}}, "spec": {"workerGroupSpecs": {}, "suspend": "yes"}}),
    ] {
        assert!(!is_restarting(&odd) && !is_suspended(&odd) && !is_observed(&odd), "{odd}");
        assert_eq!(names(&taken_out(&odd, &set(&["a"]))), [""; 0]);
        assert!(!revision(&odd).is_empty());
    }
}
