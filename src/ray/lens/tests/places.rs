//! Each member of a document reaches its place in the RayCluster, and comes back from there.

use super::*;

/// Member (a pointer into the document), its value, its place (a pointer into the RayCluster), the value there.
#[expect(clippy::too_many_lines, reason = "a table")]
fn table() -> Vec<(&'static str, Value, &'static str, Value)> {
    let same = |member: &'static str, place: &'static str, value: Value| (member, value.clone(), place, value);
    let mut table = vec![
        same("/labels", "/metadata/labels", json!({"team": "vision"})),
        same("/annotations", "/metadata/annotations", json!({"note": "any ½ text"})),
        same("/rayVersion", "/spec/rayVersion", json!("2.50.1")),
        same("/image", "/spec/headGroupSpec/template/spec/containers/0/image", json!("registry.example/ray:1")),
        same("/suspended", "/spec/suspend", json!(true)),
        same("/autoscaling/enabled", "/spec/enableInTreeAutoscaling", json!(false)),
        same("/autoscaling/idleTimeoutSeconds", "/spec/autoscalerOptions/idleTimeoutSeconds", json!(90)),
        same("/autoscaling/upscalingMode", "/spec/autoscalerOptions/upscalingMode", json!("Conservative")),
        same("/autoscaling/version", "/spec/autoscalerOptions/version", json!("v2")),
        same("/gcsFaultTolerance", "/spec/gcsFaultToleranceOptions", json!({"redisAddress": "redis:6379"})),
        same("/auth", "/spec/authOptions", json!({"mode": "token"})),
        same("/upgradeStrategy", "/spec/upgradeStrategy", json!({"type": "Recreate"})),
        same("/headService/type", "/spec/headGroupSpec/serviceType", json!("LoadBalancer")),
        same("/headService/annotations", "/spec/headServiceAnnotations", json!({"a.example/b": "c"})),
        same("/headService/spec", "/spec/headGroupSpec/headService/spec", json!({"clusterIP": "None"})),
        same("/ingress/enabled", "/spec/headGroupSpec/enableIngress", json!(true)),
        same("/managedBy", "/spec/managedBy", json!("kueue.x-k8s.io/multikueue")),
        ("/deletionProtection", json!(true), "/metadata/annotations/raygate.dev~1deletion-protection", json!("v1")),
        same("/workerGroups/w/replicas", "/spec/workerGroupSpecs/0/replicas", json!(3)),
        same("/workerGroups/w/minReplicas", "/spec/workerGroupSpecs/0/minReplicas", json!(1)),
        same("/workerGroups/w/maxReplicas", "/spec/workerGroupSpecs/0/maxReplicas", json!(7)),
        same("/workerGroups/w/numOfHosts", "/spec/workerGroupSpecs/0/numOfHosts", json!(4)),
        same("/workerGroups/w/idleTimeoutSeconds", "/spec/workerGroupSpecs/0/idleTimeoutSeconds", json!(60)),
        same("/workerGroups/w/priority", "/spec/workerGroupSpecs/0/priority", json!(5)),
        same(
            "/workerGroups/w/image",
            "/spec/workerGroupSpecs/0/template/spec/containers/0/image",
            json!("registry.example/other:2"),
        ),
    ];
    let limits = "template/spec/containers/0/resources/limits";
    let env = "template/spec/containers/0/env";
    let key = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    let node = [
        ("cpu", json!("500m"), format!("{limits}/cpu"), json!("500m")),
        ("memory", json!("2Gi"), format!("{limits}/memory"), json!("2Gi")),
        ("gpu", json!("2"), format!("{limits}/nvidia.com~1gpu"), json!("2")),
        (
            "resources",
            json!({"limits": {"ephemeral-storage": "9Gi"}}),
            limits.into(),
            json!({"ephemeral-storage": "9Gi"}),
        ),
        ("imagePullPolicy", json!("Always"), "template/spec/containers/0/imagePullPolicy".into(), json!("Always")),
        (
            "imagePullSecrets",
            json!(["a", "b"]),
            "template/spec/imagePullSecrets".into(),
            json!([{"name": "a"}, {"name": "b"}]),
        ),
        ("env", json!({"A": "1"}), env.into(), json!([{"name": "A", "value": "1"}])),
        ("env", json!({"A": key}), env.into(), json!([{"name": "A", "valueFrom": key}])),
        ("rayStartParams", json!({"num-cpus": "0"}), "rayStartParams".into(), json!({"num-cpus": "0"})),
        ("labels", json!({"app": "x"}), "template/metadata/labels".into(), json!({"app": "x"})),
        ("annotations", json!({"app": "½"}), "template/metadata/annotations".into(), json!({"app": "½"})),
        ("rayLabels", json!({"zone": "a"}), "labels".into(), json!({"zone": "a"})),
        ("rayResources", json!({"CPU": "4"}), "resources".into(), json!({"CPU": "4"})),
        ("nodeSelector", json!({"disk": "ssd"}), "template/spec/nodeSelector".into(), json!({"disk": "ssd"})),
        ("tolerations", json!([{"key": "spot"}]), "template/spec/tolerations".into(), json!([{"key": "spot"}])),
        ("serviceAccount", json!("robot"), "template/spec/serviceAccountName".into(), json!("robot")),
        ("priorityClassName", json!("high"), "template/spec/priorityClassName".into(), json!("high")),
        ("securityContext", json!({"runAsUser": 7}), "template/spec/securityContext".into(), json!({"runAsUser": 7})),
        ("podTemplate", json!({"spec": {"hostNetwork": true}}), "template/spec/hostNetwork".into(), json!(true)),
        (
            "podTemplate",
            json!({"spec": {"containers": [{"name": "mine", "tty": true}]}}),
            "template/spec/containers/0/tty".into(),
            json!(true),
        ),
    ];
    let volumes = [
        (json!({"claim": "data"}), json!({"persistentVolumeClaim": {"claimName": "data"}})),
        (
            json!({"claim": {"claimName": "data", "readOnly": true}}),
            json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": true}}),
        ),
        (json!({"configMap": "code"}), json!({"configMap": {"name": "code"}})),
        (
            json!({"configMap": {"name": "code", "defaultMode": 416}}),
            json!({"configMap": {"name": "code", "defaultMode": 416}}),
        ),
        (json!({"secret": "keys"}), json!({"secret": {"secretName": "keys"}})),
        (json!({"emptyDir": {}}), json!({"emptyDir": {}})),
        (
            json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
            json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        ),
        (json!({"hostPath": {"path": "/x"}}), json!({"hostPath": {"path": "/x"}})),
    ];
    for (mut volume, mut source) in volumes {
        volume["mountPath"] = json!("/data");
        volume["subPath"] = json!("in/here");
        source["name"] = json!("v");
        for (in_document, in_object) in
            [("/head", "/spec/headGroupSpec"), ("/workerGroups/w", "/spec/workerGroupSpecs/0")]
        {
            let at = |place: &str| &*format!("{in_object}/template/spec/{place}").leak();
            let member: &str = format!("{in_document}/volumes/v").leak();
            table.push((member, volume.clone(), at("volumes"), json!([source.clone()])));
            let mount = json!([{"name": "v", "mountPath": "/data", "subPath": "in/here"}]);
            table.push((member, volume.clone(), at("containers/0/volumeMounts"), mount));
        }
    }
    for (member, value, place, there) in node {
        for (in_document, in_object) in
            [("/head", "/spec/headGroupSpec"), ("/workerGroups/w", "/spec/workerGroupSpecs/0")]
        {
            let member = format!("{in_document}/{member}").leak();
            table.push((member, value.clone(), format!("{in_object}/{place}").leak(), there.clone()));
        }
    }
    table
}

/// A document with this value there.
fn document_with(pointer: &str, value: &Value) -> Value {
    let mut document =
        json!({"name": "demo", "namespace": "default", "rayVersion": "2.56.0", "head": {}, "workerGroups": {"w": {}}});
    // What only version 2 of the autoscaler knows.
    if pointer.ends_with("/idleTimeoutSeconds") || pointer.ends_with("/priority") {
        document["autoscaling"] = json!({"version": "v2"});
    }
    let at = pointer.split('/').skip(1).fold(&mut document, |at, token| &mut at[token]);
    *at = value.clone();
    document
}

#[test]
fn each_member_reaches_its_place_and_comes_back() {
    for (member, value, place, there) in table() {
        let object = build(&document(document_with(member, &value)));
        assert_eq!(object.pointer(place), Some(&there), "{member} isn't at {place}: {object}");
        assert_eq!(seen(&object).pointer(member), Some(&value), "{member} doesn't come back from {object}");
    }
}

#[test]
fn each_member_can_be_set_and_taken_away_later() {
    for (member, value, place, there) in table() {
        let before = build(&document(document_with("/name", &json!("demo"))));
        let with = document_with(member, &value);
        let after = put_back(&before, with).unwrap();
        assert_eq!(after.pointer(place), Some(&there), "{member} isn't set at {place}: {after}");
        let without = put_back(&after, seen(&before)).unwrap();
        assert_eq!(seen(&without), seen(&before), "{member} isn't taken away: {without}");
    }
}

#[test]
fn every_member_there_is_has_its_row() {
    let table = table();
    let rows = |prefix: &str| {
        let members = table.iter().filter_map(|(member, ..)| member.strip_prefix(prefix)?.split('/').next());
        members.map(str::to_owned).collect::<Vec<_>>()
    };
    let (cluster, head, group) = (rows("/"), rows("/head/"), rows("/workerGroups/w/"));
    for member in CLUSTER.iter().filter(|member| !["name", "namespace", "head", "workerGroups"].contains(&member.name))
    {
        assert!(cluster.iter().any(|row| row == member.name), "{}", member.name);
    }
    for member in crate::ray::members::NODE.iter().filter(|member| member.name != "gpuResource") {
        assert!(head.iter().any(|row| row == member.name), "{}", member.name);
    }
    for member in crate::ray::members::GROUP {
        assert!(group.iter().any(|row| row == member.name), "{}", member.name);
    }
}

#[test]
fn a_refusal_by_kubernetes_is_placed_in_the_document() {
    let object = created(json!({"name": "d", "workerGroups": {"a": {}, "b": {}}}));
    let place = |field: &str| document_pointer(field, &object);
    for (field, pointer) in [
        ("metadata.name", "/name"),
        ("metadata.labels", "/labels"),
        ("spec.headGroupSpec.template.spec.containers[0].image", "/image"),
        ("spec.headGroupSpec.template.spec.containers[0].env[2].value", "/head/env"),
        ("spec.headGroupSpec.template.spec.containers[0].resources.limits.memory", "/head/memory"),
        ("spec.headGroupSpec.template.spec.containers[1].image", "/head/podTemplate"),
        ("spec.headGroupSpec.serviceType", "/headService"),
        ("spec.workerGroupSpecs[1].replicas", "/workerGroups/b/replicas"),
        ("spec.workerGroupSpecs[0].template", "/workerGroups/a/podTemplate"),
        ("spec.workerGroupSpecs[0].template.spec.tolerations[0].effect", "/workerGroups/a/tolerations"),
        ("spec.workerGroupSpecs[0]", "/workerGroups/a"),
        ("spec.workerGroupSpecs[7]", "/workerGroups"),
        ("spec.managedBy", "/managedBy"),
        ("spec.newer", ""),
        ("spec.headGroupSpec.template.spec.containers[0].resources.limits[nvidia.com/gpu]", "/head/gpu"),
        ("metadata.labels[a.b/c]", "/labels"),
    ] {
        assert_eq!(place(field), pointer, "{field}");
    }
}

#[test]
fn a_members_fault_is_placed_in_the_manifest() {
    let env = json!({"A/B": "1", "C": "2"});
    let object = created(json!({"name": "d", "head": {"env": env}, "workerGroups": {"a": {"env": env}, "b": {}}}));
    for (pointer, place) in [
        ("/head/env/C", "/spec/headGroupSpec/template/spec/containers/0/env/1"),
        ("/workerGroups/a/env/A~1B", "/spec/workerGroupSpecs/0/template/spec/containers/0/env/0"),
        ("/workerGroups/a/env/D", "/spec/workerGroupSpecs/0/template/spec/containers/0/env"),
        ("/name", "/metadata/name"),
        ("/labels/x~1y", "/metadata/labels/x~1y"),
        ("/rayVersion", "/spec/rayVersion"),
        ("/headService/type", "/spec/headGroupSpec/serviceType"),
        ("/headService/annotations/a~1b", "/spec/headServiceAnnotations/a~1b"),
        ("/autoscaling/enabled", "/spec/enableInTreeAutoscaling"),
        ("/autoscaling/version", "/spec/autoscalerOptions/version"),
        ("/head/cpu", "/spec/headGroupSpec/template/spec/containers/0/resources/limits/cpu"),
        ("/workerGroups/b/replicas", "/spec/workerGroupSpecs/1/replicas"),
        ("/workerGroups/b", "/spec/workerGroupSpecs/1/groupName"),
        ("/workerGroups/b/env/A", "/spec/workerGroupSpecs/1/template/spec/containers/0/env"),
        ("/workerGroups/a/nodeSelector/x", "/spec/workerGroupSpecs/0/template/spec/nodeSelector/x"),
    ] {
        assert_eq!(manifest_pointer(pointer, &object), place, "{pointer}");
    }
}
