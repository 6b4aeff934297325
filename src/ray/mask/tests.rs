//! What is hidden and what isn't, place by place.

use serde_json::{Value, json};

use super::*;
use crate::ray::lens::view;

/// A RayCluster with this head's entry, and with what belongs to it whole.
fn cluster(spec: &Value) -> Value {
    json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo"}, "spec": spec})
}

fn masked_spec(spec: &Value) -> Value {
    mask(&cluster(spec))["spec"].clone()
}

#[test]
fn environments_are_hidden_wherever_they_are() {
    let env = json!([{"name": "A", "value": "s3cret"}]);
    let hidden = json!([{"name": "A", "value": HIDDEN}]);
    let with = |env: &Value| {
        let pod = json!({"spec": {
            "containers": [{"name": "ray-head", "env": env}, {"name": "side", "env": env}],
            "initContainers": [{"name": "i", "env": env}],
            "ephemeralContainers": [{"name": "e", "env": env}],
        }});
        json!({
            "headGroupSpec": {"template": pod, "future": {"deep": [{"env": env}]}},
            "workerGroupSpecs": [{"groupName": "a", "template": pod}, {"groupName": "b", "template": pod}],
            "autoscalerOptions": {"env": env},
            "historyServerOptions": {"collectorOptions": {"env": env}},
        })
    };
    assert_eq!(masked_spec(&with(&env)), with(&hidden));
}

#[test]
fn of_a_variable_its_name_and_its_source_stay() {
    let env = |entries: Value| json!({"autoscalerOptions": {"env": entries}});
    let source = json!({"secretKeyRef": {"name": "s", "key": "k", "optional": true}});
    for (held, seen) in [
        (json!([{"name": "A", "value": ""}]), json!([{"name": "A", "value": HIDDEN}])),
        (json!([{"name": "A"}]), json!([{"name": "A", "value": HIDDEN}])),
        (json!([{"name": "A", "valueFrom": source}]), json!([{"name": "A", "valueFrom": source}])),
        (
            json!([{"name": "A", "value": "x", "newer": {"deep": ["y", 1, true, null]}}]),
            json!([{"name": "A", "value": HIDDEN, "newer": {"deep": [HIDDEN, HIDDEN, HIDDEN, null]}}]),
        ),
        (
            json!([{"name": {"name": "x"}, "value": {"valueFrom": "y"}}]),
            json!([{"name": {"name": HIDDEN}, "value": {"valueFrom": HIDDEN}}]),
        ),
        (json!({"A": "x", "B": {"name": "y"}}), json!({"A": HIDDEN, "B": {"name": HIDDEN}})),
        (json!(["A=x", 7, ["B=y"]]), json!([HIDDEN, HIDDEN, [HIDDEN]])),
        (json!("A=x"), json!(HIDDEN)),
        (json!([]), json!([])),
    ] {
        assert_eq!(masked_spec(&env(held.clone())), env(seen), "{held}");
    }
}

#[test]
fn passwords_and_headers_are_hidden() {
    let spec = |secret: &str| {
        let get =
            json!({"httpGet": {"path": "/x", "port": 1, "httpHeaders": [{"name": "Authorization", "value": secret}]}});
        let source = json!({"secretKeyRef": {"name": "redis", "key": "user"}});
        json!({
            "gcsFaultToleranceOptions": {
                "redisAddress": "redis:6379", "redisPassword": {"value": secret}, "redisUsername": {"valueFrom": source},
            },
            "headGroupSpec": {
                "rayStartParams": {"redis-password": secret, "redis-username": secret, "num-cpus": "0"},
                "template": {"spec": {"containers": [{
                    "name": "ray-head", "livenessProbe": get, "readinessProbe": get, "startupProbe": get,
                    "lifecycle": {"postStart": get, "preStop": get},
                }]}},
            },
        })
    };
    assert_eq!(masked_spec(&spec("s3cret")), spec(HIDDEN));
}

#[test]
fn addresses_are_hidden_if_they_may_hold_a_password() {
    let spec = |address: &str| {
        json!({
            "gcsFaultToleranceOptions": {"redisAddress": address},
            "headGroupSpec": {"rayStartParams": {"redis-address": address, "address": address, "num-cpus": "0"}},
            "workerGroupSpecs": [{"groupName": "w", "rayStartParams": {"address": address}}],
        })
    };
    for secret in ["redis://user:s3cret@redis:6379", ":s3cret@redis", "@"] {
        assert_eq!(masked_spec(&spec(secret)), spec(HIDDEN), "{secret}");
    }
    for plain in ["redis:6379", "redis://redis:6379", "$(REDIS)", ""] {
        assert_eq!(masked_spec(&spec(plain)), spec(plain), "{plain}");
    }
}

#[test]
fn what_tools_remember_goes() {
    let metadata = || {
        json!({"annotations": {
            "note": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{\"env\": []}",
            "kapp.k14s.io/original": "{\"env\": []}",
            "kapp.k14s.io/original-diff": "-env: s3cret",
            "objectset.rio.cattle.io/applied": "H4sI",
        }})
    };
    let without = || json!({"annotations": {"note": "x"}});
    let object = |metadata: &dyn Fn() -> Value, elsewhere: &str| {
        json!({"metadata": metadata(), "spec": {
            "headServiceAnnotations": {LAST_APPLIED: elsewhere, "kapp.k14s.io/original": elsewhere},
            "headGroupSpec": {
                "template": {"metadata": metadata()},
                "headService": {"metadata": {"annotations": {LAST_APPLIED: elsewhere}}},
            },
            "workerGroupSpecs": [{"groupName": "a", "template": {"metadata": metadata()}}],
        }})
    };
    assert_eq!(mask(&object(&metadata, "{}")), object(&without, HIDDEN));
}

#[test]
fn names_that_users_choose_are_no_members() {
    let named =
        json!({"env": "prod", "httpHeaders": "x", "redisPassword": "y", "redis-password": "z", "redisAddress": "u@h"});
    let spec = json!({
        "headServiceAnnotations": named,
        "headGroupSpec": {
            "labels": named,
            "resources": named,
            "template": {"metadata": {"labels": named, "annotations": named}, "spec": {
                "nodeSelector": named,
                "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": named}},
                ]}},
            }},
        },
    });
    assert_eq!(masked_spec(&spec), spec);
}

#[test]
fn what_is_no_secret_stays() {
    let object = json!({
        "metadata": {"name": "demo", "annotations": {"env": "prod", "note": "{\"env\": [{\"name\": \"A\", \"value\": \"x\"}]}"}},
        "spec": {"headGroupSpec": {"template": {"spec": {
            "containers": [{
                "name": "ray-head", "command": ["a"], "args": ["--password=x"], "envFrom": [{"secretRef": {"name": "s"}}],
                "livenessProbe": {"exec": {"command": ["curl", "-H", "x"]}},
            }],
            "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"env": "x"}}}],
        }}}},
        "status": {"env": [{"name": "A", "value": "x"}]},
    });
    assert_eq!(mask(&object), object);
    for odd in [json!(null), json!([]), json!("x"), json!({"spec": null}), json!({"spec": "x", "metadata": 7})] {
        assert_eq!(mask(&odd), odd);
    }
}

#[test]
fn a_document_shows_the_mask() {
    let container = json!({"name": "ray-worker", "image": "x", "env": [
        {"name": "A", "value": "1"}, {"name": "B"}, {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]});
    let pod = json!({"spec": {"containers": [container]}});
    let object = cluster(&json!({
        "headGroupSpec": {"template": pod},
        "workerGroupSpecs": [{"groupName": "small", "template": pod}],
    }));
    let document = view(&mask(&object)).document;
    let seen = json!({"A": HIDDEN, "B": HIDDEN, "C": {"secretKeyRef": {"name": "s", "key": "k"}}});
    assert_eq!(document.head()["env"], seen);
    assert_eq!(document.group("small").unwrap()["env"], seen);
}

#[test]
fn what_is_hidden_is_found() {
    let object = json!({
        "metadata": {"annotations": {"note": HIDDEN}},
        "spec": {
            "autoscalerOptions": {"env": [{"name": "A", "value": "<hidden> "}, {"name": "B", "value": HIDDEN}]},
            "headGroupSpec": {"rayStartParams": {"a/b~c": HIDDEN, HIDDEN: "x"}},
        },
    });
    let mut found = hidden_values(&object);
    found.sort();
    assert_eq!(found, ["/spec/autoscalerOptions/env/1/value", "/spec/headGroupSpec/rayStartParams/a~1b~0c"]);
    for pointer in &found {
        assert_eq!(object.pointer(pointer), Some(&json!(HIDDEN)));
    }
    assert_eq!(hidden_values(&json!({"spec": HIDDEN})), ["/spec"]);
    assert_eq!(hidden_values(&json!([HIDDEN])), [""; 0]);
}

#[test]
fn depth_and_length_cost_no_more_than_they_have_bytes() {
    let mut deep = json!(HIDDEN);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    assert_eq!(hidden_values(&json!({"spec": deep})), [format!("/spec{}", "/0".repeat(120))]);
    // A pointer for every value would be 100 GB of text here.
    let long = json!({"spec": {"k".repeat(500_000): vec![json!("x"); 200_000]}});
    assert_eq!(hidden_values(&long), [""; 0]);
    let many = json!({"spec": vec![json!(HIDDEN); 10_000]});
    assert_eq!(hidden_values(&many).len(), MOST);
}
