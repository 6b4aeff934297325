//! What the schema says, each from the outside: a value in, what is wrong with it out.

use serde_json::{Value, json};

use super::ray_cluster;
use crate::ray::fault::{Fault, FaultCode};

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

#[test]
fn a_fault_is_placed_and_worded() {
    let found = planted(&format!("{CONTAINER}/imge"), json!("x"));
    assert_eq!((found[0].pointer.as_str(), found[0].code), (&*format!("{CONTAINER}/imge"), FaultCode::UnknownMember));
    assert!(found[0].message.contains("Did you mean `image`?"), "{}", found[0].message);
    assert!(found[0].allowed.iter().any(|name| name == "livenessProbe"));
    assert_eq!(found.len(), 1);
}
