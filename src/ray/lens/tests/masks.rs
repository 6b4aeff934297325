//! What masking changes of random RayClusters, and what is seen of them.

use proptest::prelude::*;

use super::laws::{config, ray_cluster_object};
use super::*;
use crate::ray::mask::{HIDDEN, mask};

/// A RayCluster with this text at every place that is hidden.
fn with_secret(object: &Value, secret: &str) -> Value {
    let mut object = object.clone();
    put(&mut object, &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"], secret.into());
    if object.get("spec").is_none() {
        return object;
    }
    put(&mut object, &["spec", "autoscalerOptions", "env"], json!([{"name": "AUTOSCALER", "value": secret}]));
    let collector = ["spec", "historyServerOptions", "collectorOptions", "env"];
    put(&mut object, &collector, json!([{"name": "HISTORY", "value": secret}]));
    for member in ["redisPassword", "redisUsername"] {
        put(&mut object, &["spec", "gcsFaultToleranceOptions", member, "value"], secret.into());
    }
    put(&mut object, &["spec", "gcsFaultToleranceOptions", "redisAddress"], format!("redis://:{secret}@r:1").into());
    let spec = &mut object["spec"];
    if let Some(head) = spec.get_mut("headGroupSpec") {
        plant(head, secret);
    }
    for group in spec.get_mut("workerGroupSpecs").and_then(Value::as_array_mut).into_iter().flatten() {
        plant(group, secret);
    }
    object
}

fn plant(entry: &mut Value, secret: &str) {
    put(entry, &["rayStartParams", "redis-password"], secret.into());
    put(entry, &["rayStartParams", "redis-username"], secret.into());
    put(entry, &["rayStartParams", "redis-address"], format!("u:{secret}@r:1").into());
    put(
        entry,
        &["template", "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"],
        secret.into(),
    );
    for list in ["containers", "initContainers"] {
        let containers = entry["template"]["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let entries = container["env"].as_array().cloned().unwrap_or_default();
            let planted = [json!({"name": "PLANTED", "value": secret}), json!({"name": "E", "value": secret})];
            container["env"] = entries.into_iter().chain(planted).collect();
            let headers = json!([{"name": "Authorization", "value": secret}]);
            container["livenessProbe"] = json!({"httpGet": {"port": 1, "httpHeaders": headers}});
        }
    }
}

/// Where two values differ, as JSON pointers.
fn differences(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            for name in names {
                let (one, other) = (one.get(name), other.get(name));
                let at = format!("{at}/{}", crate::ray::fault::escape(name));
                match (one, other) {
                    (Some(one), Some(other)) => differences(one, other, &at, found),
                    _ => found.push(at),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(one, other, &format!("{at}/{index}"), found);
            }
        }
        _ if one == other => {}
        _ => found.push(at.to_owned()),
    }
}

/// The places of all members of a document; what lists hold counts as one.
fn members(value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        members(value, &at, found);
        found.push(at);
    }
}

proptest! {
    #![proptest_config(config(13))]

    /// Whatever the secret is, the same is seen, and the secret isn't.
    #[test]
    fn what_is_seen_says_nothing_of_what_is_hidden(object in ray_cluster_object(), secret in "[a-z]{0,12}") {
        let masked = mask(&with_secret(&object, &format!("s3cret-{secret}")));
        prop_assert!(!masked.to_string().contains("s3cret"), "{}", masked);
        prop_assert_eq!(&mask(&with_secret(&object, "")), &masked);
        prop_assert_eq!(&mask(&masked), &masked);
    }

    /// Nothing but the hidden places changes.
    #[test]
    fn nothing_else_changes(object in ray_cluster_object()) {
        let object = with_secret(&object, "s3cret");
        let masked = mask(&object);
        let mut found = Vec::new();
        differences(&object, &masked, "", &mut found);
        for place in found {
            let tokens: Vec<_> = place.split('/').collect();
            let hidden = match tokens.as_slice() {
                [.., "env", _, member] => !["name", "valueFrom"].contains(member),
                [.., "httpHeaders", _, "value"] | [.., "redisPassword" | "redisUsername", "value"] | [.., "redisAddress"] => true,
                [.., "rayStartParams", option] => option.starts_with("redis-"),
                [.., "metadata", "annotations", key] => key.ends_with("last-applied-configuration"),
                _ => false,
            };
            prop_assert!(hidden, "{} changed", place);
            if !place.ends_with("last-applied-configuration") {
                prop_assert_eq!(masked.pointer(&place), Some(&json!(HIDDEN)), "{}", place);
            }
        }
    }

    /// A document has the same members, whoever reads it.
    #[test]
    fn a_document_has_the_same_members(object in ray_cluster_object()) {
        let object = with_secret(&object, "s3cret");
        let (whole, masked) = (view(&object), view(&mask(&object)));
        let (mut wanted, mut found) = (Vec::new(), Vec::new());
        members(&whole.document.0.into(), "", &mut wanted);
        members(&masked.document.0.into(), "", &mut found);
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(masked.partial, whole.partial);
    }
}
