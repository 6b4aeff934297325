//! What the schema says, each from the outside: a value in, what is wrong with it out.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use super::read::compiled;
use super::{Kind, MOST, Schema, ray_cluster};
use crate::ray::fault::{Fault, FaultCode};

mod total;

/// A cluster with something of everything: two groups, ports, an environment, a volume.
fn sample() -> Value {
    let container = json!({
        "name": "ray", "image": "rayproject/ray:2.52.0",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"containerPort": 6379, "name": "gcs"}, {"containerPort": 8265, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": 2, "memory": "4Gi"}, "requests": {"cpu": "500m"}},
        "livenessProbe": {"httpGet": {"port": "http", "path": "/"}},
    });
    let template = json!({
        "metadata": {"labels": {"team": "blue"}},
        "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]},
    });
    json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"name": "demo", "namespace": "default", "labels": {"team": "blue"}},
        "spec": {
            "rayVersion": "2.52.0",
            "autoscalerOptions": {"upscalingMode": "Default", "idleTimeoutSeconds": 60},
            "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": template},
            "workerGroupSpecs": [
                {"groupName": "small", "replicas": 1, "template": template},
                {"groupName": "large", "template": template, "scaleStrategy": {"workersToDelete": ["a"]}},
            ],
        },
    })
}

fn faults(value: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    ray_cluster().check(value, "", &mut faults);
    faults
}

/// The faults of the sample with one value planted in it.
fn planted(place: &str, value: Value) -> Vec<Fault> {
    let mut sample = sample();
    plant(&mut sample, place, value);
    faults(&sample)
}

fn plant(value: &mut Value, place: &str, planted: Value) {
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match name.parse::<usize>() {
        Ok(index) => parent[index] = planted,
        Err(_) => parent[name] = planted,
    }
}

const CONTAINER: &str = "/spec/workerGroupSpecs/0/template/spec/containers/0";

#[test]
fn a_valid_cluster_has_no_fault() {
    assert_eq!(faults(&sample()), []);
    assert_eq!(faults(&json!({"metadata": {"name": "bare"}})), [], "nothing is required but names");
}

fn told(faults: &[Fault]) -> Vec<(&str, FaultCode, &str)> {
    faults.iter().map(|fault| (fault.pointer.as_str(), fault.code, fault.message.as_str())).collect()
}

#[test]
fn unknown_members_are_found_at_any_depth() {
    let cases = [
        ("/foo", "/foo", None),
        ("/metadata/labelz", "/metadata/labelz", Some("labels")),
        ("/spec/headGroupspec", "/spec/headGroupspec", Some("headGroupSpec")),
        ("/spec/workerGroupSpecs/1/replica", "/spec/workerGroupSpecs/1/replica", Some("replicas")),
        (
            "/spec/headGroupSpec/template/metadata/labelz",
            "/spec/headGroupSpec/template/metadata/labelz",
            Some("labels"),
        ),
    ];
    for (place, pointer, meant) in cases {
        let found = planted(place, Value::Null);
        assert_eq!((found.len(), found[0].pointer.as_str(), found[0].code), (1, pointer, FaultCode::UnknownMember));
        let nearest = meant.map(|meant| format!("Did you mean `{meant}`?"));
        assert!(nearest.is_none_or(|nearest| found[0].message.ends_with(&nearest)), "{}", found[0].message);
    }
    let found = planted(&format!("{CONTAINER}/env/0/valu"), json!("x"));
    assert_eq!(found[0].pointer, format!("{CONTAINER}/env/0/valu"));
    assert_eq!(found[0].allowed, ["name", "value", "valueFrom"]);
}

#[test]
fn values_of_another_type_are_worded() {
    let cases = [
        (format!("{CONTAINER}/image"), json!(5), "This takes a string, not a whole number."),
        (format!("{CONTAINER}/env"), json!({}), "This takes a list, not an object."),
        (format!("{CONTAINER}/env/0"), json!(null), "This takes an object, not null."),
        (format!("{CONTAINER}/stdin"), json!("yes"), "This takes true or false, not a string."),
        (
            format!("{CONTAINER}/ports/0/containerPort"),
            json!(1.5),
            "This takes a whole number, not a number with a fraction.",
        ),
        (
            format!("{CONTAINER}/resources/limits/cpu"),
            json!(0.5),
            "This takes a whole number or a string, not a number with a fraction.",
        ),
        (
            format!("{CONTAINER}/livenessProbe/httpGet/port"),
            json!([]),
            "This takes a whole number or a string, not a list.",
        ),
        ("/metadata/labels/team".to_owned(), json!(-1), "This takes a string, not a negative whole number."),
        ("/spec".to_owned(), json!(true), "This takes an object, not true or false."),
    ];
    for (place, value, message) in cases {
        assert_eq!(told(&planted(&place, value)), [(place.as_str(), FaultCode::WrongType, message)]);
    }
}

#[test]
fn values_out_of_bounds_are_told() {
    use FaultCode::{InvalidQuantity, InvalidValue, OutOfRange, Required};
    let group = "/spec/workerGroupSpecs/0";
    let condition = |member: &str, value: Value| {
        let mut condition = json!({
            "type": "Ready", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": "2026-01-31T12:00:00Z",
        });
        condition[member] = value;
        (
            "/spec/headGroupSpec/headService".to_owned(),
            json!({"status": {"conditions": [condition]}}),
            member.to_owned(),
        )
    };
    let cases = [
        (format!("{group}/template"), Value::Null, Required),
        (format!("{group}/groupName"), Value::Null, Required),
        (format!("{CONTAINER}/resources/limits/cpu"), json!("much"), InvalidQuantity),
        (format!("{CONTAINER}/resources/limits/cpu"), json!(""), InvalidQuantity),
        (format!("{CONTAINER}/env/1/name"), json!("A"), InvalidValue),
        (format!("{group}/replicas"), json!(i64::from(i32::MAX) + 1), OutOfRange),
        (format!("{group}/template/spec/activeDeadlineSeconds"), json!(u64::MAX), OutOfRange),
        ("/spec/autoscalerOptions/upscalingMode".to_owned(), json!("Fast"), InvalidValue),
        ("/spec/managedBy".to_owned(), json!("me"), InvalidValue),
    ];
    for (place, value, code) in cases {
        let found = planted(&place, value);
        // A duplicate is the whole entry's.
        let place = place.strip_suffix("/1/name").map_or(place.clone(), |list| format!("{list}/1"));
        assert_eq!(found.iter().map(|fault| (&fault.pointer, fault.code)).collect::<Vec<_>>(), [(&place, code)]);
    }
    let conditions = [
        (condition("status", json!("Maybe")), InvalidValue),
        (condition("type", json!("no type")), InvalidValue),
        (condition("reason", json!("x".repeat(1025))), OutOfRange),
        (condition("message", json!("½".repeat(32769))), OutOfRange),
        (condition("observedGeneration", json!(-1)), OutOfRange),
        (condition("lastTransitionTime", json!("yesterday")), InvalidValue),
    ];
    for ((place, value, member), code) in conditions {
        let found = planted(&place, value);
        let place = format!("{place}/status/conditions/0/{member}");
        assert_eq!(found.iter().map(|fault| (&fault.pointer, fault.code)).collect::<Vec<_>>(), [(&place, code)]);
    }
    let (place, value, _) = condition("message", json!("½".repeat(32768)));
    assert_eq!(planted(&place, value), [], "characters count, not bytes");
    let mode = planted("/spec/autoscalerOptions/upscalingMode", json!("Fast"));
    assert_eq!(mode[0].allowed, ["Default", "Aggressive", "Conservative"]);
    let manager = planted("/spec/managedBy", json!("me"));
    assert_eq!(manager[0].allowed, ["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"]);
}

// Seen on KubeRay 1.6: the apiserver stores each of the refused, and the operator then fails to list RayClusters at all.
#[test]
fn what_stops_the_operator_is_refused() {
    let port = format!("{CONTAINER}/livenessProbe/httpGet/port");
    let cpu = format!("{CONTAINER}/resources/limits/cpu");
    let codes = |place: &str, value: Value| planted(place, value).iter().map(|fault| fault.code).collect::<Vec<_>>();
    for number in [3_000_000_000_i64, -3_000_000_000] {
        assert_eq!(codes("/spec/workerGroupSpecs/0/replicas", json!(number)), [FaultCode::OutOfRange]);
        assert_eq!(codes(&port, json!(number)), [FaultCode::OutOfRange]);
        assert_eq!(codes(&cpu, json!(number)), [], "a quantity is no int32");
    }
    for quantity in ["1e1.5", "1E.5", "1e9999999999"] {
        assert_eq!(codes(&cpu, json!(quantity)), [FaultCode::InvalidQuantity], "{quantity}");
    }
    let at = |time: &str| {
        let condition =
            json!({"type": "A", "status": "True", "reason": "A", "message": "", "lastTransitionTime": time});
        codes("/spec/headGroupSpec/headService", json!({"status": {"conditions": [condition]}}))
    };
    for time in ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00+01:00"] {
        assert_eq!(at(time), [], "{time}");
    }
    let others = [
        "",
        "yesterday",
        "2026-01-31",
        "2026-01-31t12:00:00z",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:60Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31T12:00:00Z[UTC]",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00½Z",
    ];
    for time in others {
        assert_eq!(at(time), [FaultCode::InvalidValue], "{time}");
    }
}

#[test]
fn entries_are_told_apart_with_their_defaults() {
    let ports = format!("{CONTAINER}/ports");
    let twice =
        json!([{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": null}]);
    let found = planted(&ports, twice);
    assert_eq!(found.iter().map(|fault| &fault.pointer).collect::<Vec<_>>(), [&format!("{ports}/1")], "told once");
    assert!(found[0].message.starts_with("Duplicate value: "), "{}", found[0].message);
    assert_eq!(planted(&ports, json!([{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}])), []);
    assert_eq!(planted(&format!("{CONTAINER}/args"), json!(["a", "a"])), [], "a plain list minds no repetition");
}

#[test]
fn nulls_count_as_left_out() {
    for place in ["/spec/rayVersion", "/spec/workerGroupSpecs", "/spec/workerGroupSpecs/0/replicas", "/metadata/labels"]
    {
        assert_eq!(planted(place, Value::Null), [], "{place}");
    }
    assert_eq!(planted(&format!("{CONTAINER}/ports/0/protocol"), Value::Null), []);
}

#[test]
fn faults_come_together_and_have_a_bound() {
    let mut value = sample();
    value["spec"]["foo"] = json!(1);
    plant(&mut value, &format!("{CONTAINER}/image"), json!(5));
    value["spec"]["headGroupSpec"]["template"]["spec"]["containers"] = Value::Null;
    let mut found: Vec<_> = faults(&value).into_iter().map(|fault| fault.pointer).collect();
    found.sort();
    let image = format!("{CONTAINER}/image");
    assert_eq!(found, ["/spec/foo", "/spec/headGroupSpec/template/spec/containers", &image]);

    let long = "x".repeat(1_000_000);
    let found = planted(&format!("/spec/{long}"), json!(1));
    assert!(found[0].message.ends_with("` here."), "no name is near that one");
    assert!(found[0].allowed.iter().any(|name| name == "headGroupSpec"));

    let many: Vec<Value> = (0..MOST * 2).map(Value::from).collect();
    assert_eq!(planted(&format!("{CONTAINER}/args"), json!(many)).len(), MOST);
}

#[test]
fn a_fault_stands_under_the_place_it_is_asked_for() {
    let mut found = Vec::new();
    let template = ray_cluster().at("spec.headGroupSpec.template").unwrap();
    template.check(&json!({"metadata": {"labels": {"a/b": 1}}}), "/head/template", &mut found);
    assert_eq!(found[0].pointer, "/head/template/metadata/labels/a~1b");
}

#[test]
fn places_are_found_by_their_path() {
    let root = ray_cluster();
    let kind = |path: &str| root.at(path).map(Schema::kind);
    assert_eq!(kind(""), Some(Kind::Object));
    assert_eq!(kind("spec.workerGroupSpecs"), Some(Kind::Array));
    assert_eq!(kind("spec.workerGroupSpecs[].template.spec.containers[].ports[].containerPort"), Some(Kind::Integer));
    assert_eq!(kind("metadata.labels{}"), Some(Kind::String));
    assert_eq!(kind("spec.headGroupSpec.rayStartParams{}"), Some(Kind::String));
    assert_eq!(kind("metadata.generation"), Some(Kind::Integer));
    for path in
        ["foo", "spec[]", "spec{}", "spec.workerGroupSpecs.template", "metadata.labels.team", "spec.rayVersion.x"]
    {
        assert_eq!(kind(path), None, "{path}");
    }
    let container = root.at("spec.headGroupSpec.template.spec.containers[]").unwrap();
    assert!(container.at("resources.limits{}").unwrap().is_quantity());
    assert!(!container.at("livenessProbe.httpGet.port").unwrap().is_quantity(), "a port has no unit");
    assert_eq!(container.at("env").unwrap().list_keys(), ["name"]);
    assert_eq!(container.at("ports").unwrap().list_keys(), ["containerPort", "protocol"]);
    assert!(container.members().any(|name| name == "imagePullPolicy"));
    assert_eq!(root.at("metadata.labels").unwrap().member("any").map(Schema::kind), Some(Kind::String));
}

#[test]
fn metadata_is_what_kubernetes_has() {
    let owner = OwnerReference {
        api_version: "v1".into(),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: "Pod".into(),
        name: "a".into(),
        uid: "b".into(),
    };
    let time: Time = serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap();
    let managed = ManagedFieldsEntry {
        api_version: Some("v1".into()),
        fields_type: Some("FieldsV1".into()),
        fields_v1: Some(FieldsV1(json!({"f:spec": {".": {}}}))),
        manager: Some("a".into()),
        operation: Some("Update".into()),
        subresource: Some("status".into()),
        time: Some(time.clone()),
    };
    // With every member that there is: another one in a later version of Kubernetes is an error here.
    let metadata = ObjectMeta {
        annotations: Some([("a".into(), "b".into())].into()),
        creation_timestamp: Some(time.clone()),
        deletion_grace_period_seconds: Some(1),
        deletion_timestamp: Some(time),
        finalizers: Some(vec!["a/b".into()]),
        generate_name: Some("a".into()),
        generation: Some(1),
        labels: Some([("a".into(), "b".into())].into()),
        managed_fields: Some(vec![managed]),
        name: Some("a".into()),
        namespace: Some("a".into()),
        owner_references: Some(vec![owner]),
        resource_version: Some("1".into()),
        self_link: Some("a".into()),
        uid: Some("a".into()),
    };
    let metadata = serde_json::to_value(metadata).unwrap();
    assert_eq!(faults(&json!({"metadata": metadata})), []);
    let schema = ray_cluster().at("metadata").unwrap();
    let same = |schema: &Schema, value: &Value| {
        let members: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(schema.members().collect::<BTreeSet<_>>(), members);
    };
    same(schema, &metadata);
    same(schema.at("ownerReferences[]").unwrap(), &metadata["ownerReferences"][0]);
    same(schema.at("managedFields[]").unwrap(), &metadata["managedFields"][0]);
    assert_eq!(schema.at("managedFields[].fieldsV1").map(Schema::is_open), Some(true));
}

#[test]
fn defaults_are_filled_in_where_objects_are() {
    let mut value = json!({
        "metadata": {"name": "demo", "labels": null},
        "spec": {
            "rayVersion": null,
            "headGroupSpec": {"template": {"spec": {"nodeSelector": {"a": null, "b": "c"}, "containers": [
                {"name": "ray", "ports": [{"containerPort": 1, "protocol": null}], "command": [null], "odd": null},
            ]}}},
            "workerGroupSpecs": [{"groupName": "a", "replicas": null, "maxReplicas": 5}, "odd", null],
        },
        "status": {"lastUpdateTime": null, "state": null},
    });
    ray_cluster().apply_defaults(&mut value);
    let wanted = json!({
        "metadata": {"name": "demo"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"nodeSelector": {"b": "c"}, "containers": [
                {"name": "ray", "ports": [{"containerPort": 1, "protocol": "TCP"}], "command": [null], "odd": null},
            ]}}},
            "workerGroupSpecs": [
                {"groupName": "a", "replicas": 0, "maxReplicas": 5, "minReplicas": 0, "numOfHosts": 1}, "odd", null,
            ],
        },
        "status": {"lastUpdateTime": null},
    });
    assert_eq!(value, wanted);
    let once = value.clone();
    ray_cluster().apply_defaults(&mut value);
    assert_eq!(value, once);
}

#[test]
fn what_the_reader_does_not_know_is_an_error() {
    let read = |place: Value| compiled(&json!([{"type": "string"}, place]).to_string());
    assert!(read(json!({"type": "object", "properties": {"a": 0}})).is_ok());
    let unreadable = [
        json!({"type": "string", "maxItems": 1}),
        json!({"type": "string", "format": "ipv4"}),
        json!({"type": "number"}),
        json!({"x-kubernetes-int-or-string": true, "type": "string"}),
        json!({"type": "string", "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "boolean"}, {"type": "string"}]}),
        json!({"type": "array", "items": 0, "x-kubernetes-list-type": "bag"}),
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "size(self) > 1", "message": "short"}]}),
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "no", "reason": "x"}]}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "array", "items": 1}),
        json!({"type": "string", "x-kubernetes-embedded-resource": true}),
    ];
    for place in unreadable {
        assert!(read(place.clone()).is_err(), "{place}");
    }
    assert!(compiled("[]").is_err());
}
