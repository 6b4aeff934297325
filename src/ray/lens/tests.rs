//! The lens from the outside: each member's place, each rule of the normal form, and the three laws.

use serde_json::{Value, json};

use super::*;
use crate::ray::fault::FaultCode;
use crate::ray::json;

mod begun;
mod edges;
mod laws;
mod masks;
mod normal_form;
mod places;

/// Reads a document that has no fault.
fn document(value: Value) -> Document {
    let (document, faults) = Document::read(value);
    assert_eq!(faults, []);
    document
}

/// The codes and places of all that is wrong with a document.
fn faults(value: Value) -> Vec<(String, FaultCode)> {
    let mut found: Vec<_> = Document::read(value).1.into_iter().map(|fault| (fault.pointer, fault.code)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The RayCluster that a new cluster's document makes.
fn created(value: Value) -> Value {
    let mut document = document(value);
    let defaults = Defaults { ray_version: "2.52.0".into(), head_cpu: "1".into(), head_memory: "4Gi".into() };
    defaults.apply(&mut document);
    build(&document)
}

/// What is seen of a RayCluster.
fn seen(object: &Value) -> Value {
    view(object).document.0.into()
}

/// A RayCluster as kubectl would make it: `change` edits the head's entry.
fn with_head(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [
                {"name": "ray-head", "image": "rayproject/ray:2.52.0"},
            ]}}},
        },
    });
    change(&mut object["spec"]["headGroupSpec"]);
    object
}

fn ray(entry: &mut Value) -> &mut Value {
    &mut entry["template"]["spec"]["containers"][0]
}

/// What a merge patch (RFC 7396) of what is seen makes of a RayCluster.
fn patched(object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let mut wanted = seen(object);
    json::merge(&mut wanted, patch);
    put_back(object, wanted)
}

/// What putting a document makes of a RayCluster.
fn put_back(object: &Value, wanted: Value) -> Result<Value, Refusal> {
    let (wanted, faults) = Document::read(wanted);
    edit(object, wanted, faults).map(|edit| edit.object)
}
