//! What is hidden of a RayCluster.

use raygate::ray::json;
use raygate::ray::lens::view;
use raygate::ray::mask::{HIDDEN, hidden_values, mask};
use serde_json::{Value, json};

/// What is masked stays masked, no environment of a container is left in clear, and a view can be made of it.
pub(crate) fn run(data: &[u8]) {
    let Ok((value, _)) = json::read(data) else { return };
    let spec = json!({"spec": value});
    for object in [&value, &spec] {
        let masked = mask(object);
        assert_eq!(mask(&masked), masked);
        for pointer in hidden_values(&masked) {
            assert_eq!(masked.pointer(&pointer), Some(&json!(HIDDEN)), "{pointer}");
        }
        for container in masked
            .pointer("/spec/headGroupSpec/template/spec/containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            for variable in container["env"].as_array().into_iter().flatten() {
                assert!(variable["value"].as_str().is_none_or(|value| value == HIDDEN), "{variable}");
                let named = variable["name"].is_string();
                let says = |member: &str| variable.get(member).is_some();
                assert!(!named || says("value") || says("valueFrom"), "its emptiness shows: {variable}");
            }
        }
        drop(view(&masked));
    }
}
