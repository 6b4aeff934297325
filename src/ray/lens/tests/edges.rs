//! Edges of the rules: where two of them meet, and where nothing may come of a write.

use serde_json::{Value, json};

use super::*;
use crate::ray::document::wrong_removals;
use crate::ray::fault::MOST;
use crate::ray::manifest::Manifest;

fn worker_group(replicas: i32) -> Value {
    json!({
        "groupName": "w", "replicas": replicas, "minReplicas": 0, "maxReplicas": 5, "numOfHosts": 1,
        "template": {"spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray:2.52.0"}]}},
    })
}

/// What putting a whole RayCluster makes of one.
fn put_whole(held: &Value, wanted: Value) -> Result<Value, Refusal> {
    let (manifest, faults) = Manifest::read(wanted);
    manifest.replace(held, faults).map(|edit| edit.object)
}

fn codes(done: Result<Value, Refusal>) -> Vec<FaultCode> {
    match done {
        Err(Refusal::Faults(faults)) => faults.into_iter().map(|fault| fault.code).collect(),
        other => panic!("no fault was found: {other:?}"),
    }
}

#[test]
fn two_groups_of_one_name_hinder_no_other_write_while_the_autoscaler_is_on() {
    let mut held = with_head(|_| {});
    held["spec"]["enableInTreeAutoscaling"] = json!(true);
    held["spec"]["workerGroupSpecs"] = json!([worker_group(1), worker_group(2)]);
    let mut wanted = held.clone();
    wanted["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(patched(&held, &json!({"labels": {"team": "a"}})), Ok(wanted));
}

#[test]
fn an_empty_list_of_groups_stays() {
    let mut held = with_head(|_| {});
    held["spec"]["workerGroupSpecs"] = json!([]);
    let mut wanted = held.clone();
    wanted["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(patched(&held, &json!({"labels": {"team": "a"}})), Ok(wanted));
}

#[test]
fn a_whole_cluster_with_the_autoscaler_and_no_groups_can_be_put_back() {
    let mut held = with_head(|_| {});
    held["spec"]["enableInTreeAutoscaling"] = json!(true);
    assert_eq!(put_whole(&held, held.clone()), Ok(held));
}

#[test]
fn a_whole_cluster_with_two_groups_of_one_name_can_be_put_back() {
    let mut held = with_head(|_| {});
    held["spec"]["enableInTreeAutoscaling"] = json!(true);
    held["spec"]["workerGroupSpecs"] = json!([worker_group(1), worker_group(2)]);
    assert_eq!(put_whole(&held, held.clone()), Ok(held));
}

/// Of two mounts at one path only one would be made.
#[test]
fn a_second_volume_at_a_path_is_refused() {
    let both = json!({"a": {"emptyDir": {}, "mountPath": "/x"}, "b": {"emptyDir": {}, "mountPath": "/x"}});
    assert!(!faults(json!({"name": "demo", "head": {"volumes": both}})).is_empty());

    let held = with_head(|head| {
        head["template"]["spec"]["volumes"] = json!([{"name": "a", "emptyDir": {}}]);
        ray(head)["volumeMounts"] = json!([{"name": "a", "mountPath": "/x"}]);
    });
    let done = patched(&held, &json!({"head": {"volumes": {"b": {"emptyDir": {}, "mountPath": "/x"}}}}));
    assert!(!codes(done).is_empty());
}

#[test]
fn reserved_keys_in_a_pod_template_are_refused() {
    let metadata = json!({"labels": {"ray.io/cluster": "other"}, "annotations": {"raygate.dev/anything": "v1"}});
    let head = json!({"podTemplate": {"metadata": metadata}});
    let at = |place: &str| (format!("/head/podTemplate/metadata/{place}"), FaultCode::Reserved);
    let wanted = [at("annotations/raygate.dev~1anything"), at("labels/ray.io~1cluster")];
    assert_eq!(faults(json!({"name": "demo", "head": head})), wanted);
}

/// The operator copies a group's own labels to its pods, and takes the Service's metadata as it is.
#[test]
fn reserved_keys_are_refused_wherever_they_reach_pods_or_services() {
    let key = "ray.io/headless-worker-svc";
    let at = "ray.io~1headless-worker-svc";
    let group = |name: &str| {
        let mut group = worker_group(1);
        group["groupName"] = json!(name);
        group
    };
    let mut plain = with_head(|head| head["headService"] = json!({"metadata": {"labels": {"a": "b"}}}));
    plain["spec"]["workerGroupSpecs"] = json!([group("w"), group("v")]);
    for (document, place, member) in [
        (json!({"head": {"rayLabels": {key: "x"}}}), "/head/rayLabels", "/spec/headGroupSpec/labels"),
        (
            json!({"workerGroups": {"v": {"rayLabels": {key: "x"}}}}),
            "/workerGroups/v/rayLabels",
            "/spec/workerGroupSpecs/1/labels",
        ),
        (
            json!({"headService": {"annotations": {key: "x"}}}),
            "/headService/annotations",
            "/spec/headServiceAnnotations",
        ),
        (
            json!({"headService": {"metadata": {"labels": {key: "x"}}}}),
            "/headService/metadata/labels",
            "/spec/headGroupSpec/headService/metadata/labels",
        ),
        (
            json!({"headService": {"metadata": {"annotations": {key: "x"}}}}),
            "/headService/metadata/annotations",
            "/spec/headGroupSpec/headService/metadata/annotations",
        ),
    ] {
        let mut named = document.clone();
        named["name"] = json!("demo");
        assert_eq!(faults(named), [(format!("{place}/{at}"), FaultCode::Reserved)]);
        assert_eq!(codes(patched(&plain, &document)), [FaultCode::Reserved], "{place}");

        let (holder, last) = member.rsplit_once('/').unwrap();
        let mut held = plain.clone();
        held.pointer_mut(holder).unwrap()[last] = json!({key: "x"});
        let found: Vec<_> =
            Manifest::read(held.clone()).1.into_iter().map(|fault| (fault.pointer, fault.code)).collect();
        assert_eq!(found, [(format!("{member}/{at}"), FaultCode::Reserved)]);
        assert_eq!(codes(put_whole(&plain, held.clone())), [FaultCode::Reserved], "{member}");
        // What is held may stay, but nothing else may be there.
        assert_eq!(put_whole(&held, held.clone()), Ok(held.clone()), "{member}");
        let mut labelled = held.clone();
        labelled["metadata"]["labels"] = json!({"team": "a"});
        assert_eq!(patched(&held, &json!({"labels": {"team": "a"}})), Ok(labelled), "{member}");
        let mut other = held.clone();
        other.pointer_mut(member).unwrap()[key] = json!("y");
        assert_eq!(codes(put_whole(&held, other)), [FaultCode::Reserved], "{member}");
    }
}

#[test]
fn finalizers_and_owners_of_pods_and_services_are_refused() {
    let mut plain = with_head(|head| head["headService"] = json!({"metadata": {"labels": {"a": "b"}}}));
    plain["spec"]["workerGroupSpecs"] = json!([worker_group(1)]);
    let found = |object: &Value| -> Vec<_> {
        let (_, faults) = Manifest::read(object.clone());
        faults.into_iter().map(|fault| (fault.pointer, fault.code)).collect()
    };
    for (place, holder) in [
        ("/head/podTemplate/metadata", "/spec/headGroupSpec/template"),
        ("/workerGroups/w/podTemplate/metadata", "/spec/workerGroupSpecs/0/template"),
        ("/headService/metadata", "/spec/headGroupSpec/headService"),
    ] {
        let document = |metadata: &Value| {
            let names = place.split('/').skip(1).collect::<Vec<_>>();
            names.into_iter().rev().fold(metadata.clone(), |inner, name| json!({name: inner}))
        };
        let with = |metadata: &Value| {
            let mut object = plain.clone();
            object.pointer_mut(holder).unwrap()["metadata"] = metadata.clone();
            object
        };
        for (member, value, code) in [
            ("finalizers", json!(["a/b"]), FaultCode::Reserved),
            ("ownerReferences", json!([{"kind": "ConfigMap", "name": "a", "uid": "1"}]), FaultCode::UnknownMember),
        ] {
            let metadata = json!({member: value});
            let mut named = document(&metadata);
            named["name"] = json!("demo");
            assert_eq!(faults(named), [(format!("{place}/{member}"), code)]);
            assert_eq!(codes(patched(&plain, &document(&metadata))), [code], "{place}");
            assert_eq!(found(&with(&metadata)), [(format!("{holder}/metadata/{member}"), code)]);
            assert_eq!(codes(put_whole(&plain, with(&metadata))), [code], "{place}");
        }
        assert_eq!(found(&with(&json!({"finalizers": []}))), [], "{place}");
        // What is held may stay.
        let held = with(&json!({"finalizers": ["a/b"]}));
        assert_eq!(put_whole(&held, held.clone()), Ok(held.clone()), "{place}");
        assert_eq!(codes(put_whole(&held, with(&json!({"finalizers": ["a/c"]})))), [FaultCode::Reserved], "{place}");
        let mut labelled = held.clone();
        labelled["metadata"]["labels"] = json!({"team": "a"});
        assert_eq!(patched(&held, &json!({"labels": {"team": "a"}})), Ok(labelled), "{place}");
    }
}

/// Of two groups of one name a document shows the first alone.
#[test]
fn a_reserved_label_of_a_second_group_of_one_name_is_refused() {
    let mut held = with_head(|_| {});
    held["spec"]["workerGroupSpecs"] = json!([worker_group(1), worker_group(2)]);
    let mut wanted = held.clone();
    wanted["spec"]["workerGroupSpecs"][1]["labels"] = json!({"ray.io/cluster": "theirs"});
    assert_eq!(codes(put_whole(&held, wanted)), [FaultCode::Reserved]);
}

#[test]
fn a_reserved_key_is_not_taken_away_in_silence() {
    let mut held = with_head(|_| {});
    held["metadata"]["annotations"] = json!({DELETION_PROTECTION: "v1"});
    let patch = json!({"annotations": {DELETION_PROTECTION: null}});
    assert!(patched(&held, &patch).is_err() || !wrong_removals(&patch).is_empty());
}

#[test]
fn a_reserved_part_of_a_whole_cluster_may_not_differ_from_what_is_held() {
    let mut held = with_head(|head| {
        head["template"]["metadata"] = json!({"labels": {"ray.io/cluster": "demo"}});
    });
    held["metadata"]["labels"] = json!({"ray.io/originated-from-crd": "RayJob"});
    held["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    assert_eq!(put_whole(&held, held.clone()), Ok(held.clone()), "as it is held it may be sent");
    for place in [
        "/metadata/ownerReferences/0/uid",
        "/metadata/labels/ray.io~1originated-from-crd",
        "/spec/headGroupSpec/template/metadata/labels/ray.io~1cluster",
    ] {
        let mut wanted = held.clone();
        *wanted.pointer_mut(place).unwrap() = json!("other");
        assert_eq!(codes(put_whole(&held, wanted)), [FaultCode::Reserved], "{place}");
    }
}

/// The operator deletes pods that it names, whose ever they are.
#[test]
fn a_scale_strategy_is_nobodys_to_write() {
    let names = |pod: &str| json!({"workersToDelete": [pod]});
    let refused = |index: usize| vec![(format!("/spec/workerGroupSpecs/{index}/scaleStrategy"), FaultCode::Reserved)];
    let found = |wanted: &Value| -> Vec<_> {
        Manifest::read(wanted.clone()).1.into_iter().map(|fault| (fault.pointer, fault.code)).collect()
    };
    let with = |autoscaled: bool, strategies: &[Option<Value>]| {
        let mut object = with_head(|_| {});
        object["spec"]["enableInTreeAutoscaling"] = json!(autoscaled);
        let groups = strategies.iter().enumerate().map(|(index, strategy)| {
            let mut group = worker_group(1);
            group["groupName"] = json!(format!("g{index}"));
            if let Some(strategy) = strategy {
                group["scaleStrategy"] = strategy.clone();
            }
            group
        });
        object["spec"]["workerGroupSpecs"] = groups.collect();
        object
    };
    for autoscaled in [false, true] {
        let with = |strategies: &[Option<Value>]| with(autoscaled, strategies);
        for empty in [json!({}), json!({"workersToDelete": []}), json!({"workersToDelete": null})] {
            assert_eq!(found(&with(&[Some(empty)])), []);
        }
        assert_eq!(found(&with(&[None, Some(names("theirs"))])), refused(1));

        let held = with(&[Some(names("a")), None]);
        assert_eq!(put_whole(&held, held.clone()), Ok(held.clone()));
        assert_eq!(put_whole(&held, with(&[None, None])), Ok(held.clone()), "it is kept");
        assert_eq!(put_whole(&held, with(&[Some(json!({})), Some(json!({}))])), Ok(held.clone()), "it is kept");
        // A group that moved has its own; no other one may have it.
        let mut moved = held.clone();
        moved["spec"]["workerGroupSpecs"].as_array_mut().unwrap().reverse();
        assert_eq!(put_whole(&held, moved.clone()), Ok(moved));
        let mut renamed = held.clone();
        renamed["spec"]["workerGroupSpecs"][0]["groupName"] = json!("new");
        assert_eq!(codes(put_whole(&held, renamed)), [FaultCode::Reserved]);
        assert_eq!(codes(put_whole(&held, with(&[None, None, Some(names("a"))]))), [FaultCode::Reserved]);
    }
    let (still, on) = ([Some(names("a"))], [Some(names("b"))]);
    assert_eq!(codes(put_whole(&with(false, &still), with(false, &on))), [FaultCode::Reserved]);
    assert_eq!(codes(put_whole(&with(false, &still), with(true, &on))), [FaultCode::Reserved], "turned on");
    // The autoscaler's older state has no effect.
    assert_eq!(put_whole(&with(true, &still), with(true, &on)), Ok(with(true, &still)));
    assert_eq!(put_whole(&with(true, &[None]), with(true, &on)), Ok(with(true, &[None])));
}

/// A fault excuses the value that has it, not another one.
#[test]
fn a_standing_fault_excuses_no_new_value() {
    let held = with_head(|head| ray(head)["image"] = json!("no image"));
    assert!(patched(&held, &json!({"labels": {"team": "a"}})).is_ok());
    assert_eq!(codes(patched(&held, &json!({"image": "none either"}))), [FaultCode::InvalidValue]);
}

#[test]
fn a_number_that_comes_to_light_is_within_its_bounds() {
    let mut held = with_head(|_| {});
    held["spec"]["enableInTreeAutoscaling"] = json!(true);
    held["spec"]["workerGroupSpecs"] = json!([worker_group(5)]);
    let patch = json!({"autoscaling": {"enabled": false}, "workerGroups": {"w": {"maxReplicas": 3}}});
    assert_eq!(codes(patched(&held, &patch)), [FaultCode::OutOfRange]);
}

#[test]
fn a_new_group_without_any_image_is_refused_even_if_it_says_nothing() {
    let mut held = with_head(|head| drop(ray(head).as_object_mut().unwrap().remove("image")));
    held["spec"].as_object_mut().unwrap().remove("rayVersion");
    assert_eq!(codes(patched(&held, &json!({"workerGroups": {"new": {}}}))), [FaultCode::Required]);
}

#[test]
fn an_unknown_member_is_a_fault_even_if_it_is_null() {
    let unknown = |place: &str| (place.to_owned(), FaultCode::UnknownMember);
    let wanted = [unknown("/bogus"), unknown("/head/cpus")];
    assert_eq!(faults(json!({"name": "demo", "bogus": null, "head": {"cpus": null}})), wanted);
}

/// What is told is bounded, and so is what is kept until it is told.
#[test]
fn the_faults_of_one_document_are_bounded() {
    let volumes: Value = (0..2_000).map(|number| (format!("v{number}"), json!({}))).collect::<Map<_, _>>().into();
    let volumes_of = |group: &str| json!({"name": "demo", "workerGroups": {group: {"volumes": volumes}}});
    let secrets = json!({"name": "demo", "head": {"imagePullSecrets": vec![1; 2_000]}});
    for (what, document) in [
        ("volumes", volumes_of("w")),
        ("volumes of a group with an endless name", volumes_of(&"w".repeat(2_000))),
        ("texts", secrets),
    ] {
        let found = Document::read(document).1;
        // One member's faults may come on top.
        assert!(found.len() <= MOST + 2, "{what}: {}", found.len());
        let size: usize = found.iter().map(|fault| fault.pointer.len()).sum();
        assert!(size < 20_000, "{what}: {size} bytes of pointers");
    }
}

/// Groups of a whole cluster are told apart by name, wherever they stand.
#[test]
fn what_is_reserved_moves_with_its_group() {
    let group = |name: &str, label: bool| {
        let mut group = worker_group(0);
        group["groupName"] = json!(name);
        if label {
            group["template"]["metadata"] = json!({"labels": {"ray.io/group": "x"}});
        }
        group
    };
    let with = |groups: Vec<Value>| {
        let mut object = with_head(|_| {});
        object["spec"]["workerGroupSpecs"] = groups.into();
        object
    };
    let held = with(vec![group("a", false), group("b", true)]);
    assert!(put_whole(&held, with(vec![group("b", true), group("a", false)])).is_ok(), "sent as it is held");
    assert!(put_whole(&held, with(vec![group("b", true)])).is_ok());
    let moved = with(vec![group("a", true), group("b", true)]);
    assert_eq!(codes(put_whole(&held, moved)), [FaultCode::Reserved], "it is b's, not a's");
    let new = with(vec![group("a", false), group("c", true)]);
    assert_eq!(codes(put_whole(&held, new)), [FaultCode::Reserved], "it isn't a new group's");
}

#[test]
fn a_whole_cluster_that_says_nothing_of_suspension_resumes() {
    let mut held = with_head(|_| {});
    held["spec"]["suspend"] = json!(true);
    let after = put_whole(&held, with_head(|_| {})).unwrap();
    assert_eq!(after["spec"]["suspend"], false, "a removed key would hold it suspended for ever");
}
