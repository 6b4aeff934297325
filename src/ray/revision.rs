//! The revision of a cluster: what of it users own, as one short text. A write that it guards isn't spoilt by a status
//! that ticks, by the operator's rewriting (spellings of quantities, empty members), or by Ray's autoscaler.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::begun;
use super::lens::{DELETION_PROTECTION, canonical_quantity};
use super::name::is_reserved_key;
use super::schema::{Schema, ray_cluster};

/// Objects that say nothing when they are empty: the operator adds them. (So do empty maps, which it takes away.)
const EMPTY: [&str; 6] = ["metadata", "resources", "scaleStrategy", "spec", "status", "loadBalancer"];

/// Flags and numbers that say nothing when they are false or 0: the operator takes them away, as Kubernetes' own types do.
const ZERO: [&str; 15] = [
    "failureThreshold",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "nodePort",
    "periodSeconds",
    "publishNotReadyAddresses",
    "readOnly",
    "stdin",
    "stdinOnce",
    "successThreshold",
    "timeoutSeconds",
    "tty",
];

/// Texts that say something when they are empty; others the operator takes away.
const TEXTS: [&str; 2] = ["storageClassName", "volumeAttributesClassName"];

/// 64 bits over the uid and the canonical form of labels, annotations, spec and deletion protection, in hexadecimal.
#[must_use]
pub fn revision(object: &Value) -> String {
    let metadata = &object["metadata"];
    let users = |member: &str| {
        let keys = metadata[member].as_object().into_iter().flatten();
        let keys = keys.filter(|(key, _)| !is_reserved_key(key) || *key == DELETION_PROTECTION);
        sorted(keys.map(|(key, value)| (key.clone(), value.clone())))
    };
    let autoscaled = object["spec"]["enableInTreeAutoscaling"] == true;
    // What a write has begun is what it came to, however far it is.
    let to_come = begun::spec_to_come(object);
    let spec = canonical(to_come.as_ref().unwrap_or(&object["spec"]), ray_cluster().at("spec"), &mut |path, name| {
        autoscaled && path == "workerGroupSpecs" && matches!(name, "replicas" | "scaleStrategy")
    });
    let owned = Value::from(vec![metadata["uid"].clone(), users("labels"), users("annotations"), spec]);
    digest(owned.to_string().as_bytes())
}

/// 64 bits over some bytes, in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Without members that say nothing; keys in order, quantities by value.
fn canonical(value: &Value, schema: Option<&Schema>, left_out: &mut dyn FnMut(&str, &str) -> bool) -> Value {
    canonical_at("", value, schema, left_out)
}

fn canonical_at(
    parent: &str,
    value: &Value,
    schema: Option<&Schema>,
    left_out: &mut dyn FnMut(&str, &str) -> bool,
) -> Value {
    match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, value) in members {
                if left_out(parent, name) {
                    continue;
                }
                let value = canonical_at(name, value, schema.and_then(|schema| schema.member(name)), left_out);
                if !says_nothing(name, &value, schema) {
                    kept.insert(name.clone(), value);
                }
            }
            sorted(kept)
        }
        Value::Array(items) => {
            let schema = schema.and_then(Schema::items);
            items.iter().map(|item| canonical_at(parent, item, schema, left_out)).collect()
        }
        Value::String(_) | Value::Number(_) if schema.is_some_and(Schema::is_quantity) => canonical_quantity(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether a member, in canonical form, of an object of this schema says no more than if it weren't there.
fn says_nothing(name: &str, value: &Value, schema: Option<&Schema>) -> bool {
    let is_map = schema.and_then(|schema| schema.member(name)).is_some_and(Schema::is_map);
    // Of a map, or of what upstream doesn't know, nobody takes anything away.
    let is_known = schema.is_some_and(|schema| !schema.is_map() && schema.member(name).is_some());
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && (is_map || EMPTY.contains(&name)),
        Value::Bool(flag) => is_known && !flag && ZERO.contains(&name),
        Value::Number(number) => is_known && number.as_i64() == Some(0) && ZERO.contains(&name),
        // The operator says the amount that means none.
        Value::String(_) if name == "divisor" => is_known && *value == canonical_quantity(&"0".into()),
        Value::String(text) => is_known && text.is_empty() && !TEXTS.contains(&name),
    }
}

fn sorted(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members.into_iter().collect::<Map<_, _>>().into()
}

/// The same with the members of every object in order.
#[must_use]
pub fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(members) => sorted(members.iter().map(|(name, value)| (name.clone(), ordered(value)))),
        Value::Array(items) => items.iter().map(ordered).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": "1", "generation": 1, "labels": {"a": "1"}, "annotations": {"b": "2"}},
            "spec": {"rayVersion": "2.52.0", "headGroupSpec": {"template": {"spec": {"containers": [
                {"name": "h", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            ]}}}, "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "template": {}}]},
        })
    }

    fn after(change: impl FnOnce(&mut Value)) -> bool {
        let mut changed = object();
        change(&mut changed);
        revision(&changed) != revision(&object())
    }

    #[test]
    fn what_users_own_moves_it() {
        assert!(after(|object| object["metadata"]["uid"] = json!("v")));
        assert!(after(|object| object["metadata"]["labels"]["a"] = json!("2")));
        assert!(after(|object| object["metadata"]["annotations"]["c"] = json!("2")));
        assert!(after(|object| object["metadata"]["annotations"][DELETION_PROTECTION] = json!("v1")));
        assert!(after(|object| object["spec"]["workerGroupSpecs"][0]["replicas"] = json!(2)));
        assert!(after(|object| object["spec"]["suspend"] = json!(false)));
        assert!(after(|object| object["spec"]["newer"] = json!({})));
    }

    #[test]
    fn what_others_write_does_not() {
        assert!(!after(|object| object["metadata"]["resourceVersion"] = json!("2")));
        assert!(!after(|object| object["metadata"]["generation"] = json!(2)));
        assert!(!after(|object| object["metadata"]["finalizers"] = json!(["x/y"])));
        assert!(!after(|object| object["metadata"]["annotations"]["raygate.dev/other"] = json!("x")));
        assert!(!after(|object| object["status"] = json!({"state": "ready"})));
    }

    /// What KubeRay makes of a spec with GCS fault tolerance (its typed update).
    #[test]
    fn the_operators_spelling_does_not() {
        assert!(!after(|object| {
            let head = &mut object["spec"]["headGroupSpec"];
            head["rayStartParams"] = json!({});
            head["template"]["metadata"] = json!({});
            let container = &mut head["template"]["spec"]["containers"][0];
            *container = json!({"env": [], "image": "i", "name": "h", "resources": {"limits": {"memory": "1024Mi", "cpu": "1000m"}}});
            object["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = json!({});
        }));
    }

    /// What it leaves out of a spec, and what it adds, wherever it stands.
    #[test]
    fn what_says_nothing_does_not() {
        let members = [
            ("headGroupSpec/template/spec/nodeSelector", json!({})),
            ("headGroupSpec/template/spec/hostNetwork", json!(false)),
            ("headGroupSpec/template/spec/priorityClassName", json!("")),
            ("headGroupSpec/template/spec/tolerations", json!([])),
            (
                "headGroupSpec/headService",
                json!({"metadata": {}, "spec": {"selector": {}, "ports": []}, "status": {"loadBalancer": {}}}),
            ),
            ("workerGroupSpecs/0/scaleStrategy", json!({"workersToDelete": []})),
        ];
        for (path, value) in members {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let set = |value: &Value| {
                let mut object = object();
                object["spec"].pointer_mut(&format!("/{parent}")).unwrap()[name] = value.clone();
                revision(&object)
            };
            let without = if name == "headService" { set(&json!({})) } else { revision(&object()) };
            assert_eq!(set(&value), without, "{path}: {value}");
        }
        let env = |entry: Value| {
            let mut object = object();
            object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = json!([entry]);
            revision(&object)
        };
        assert_eq!(env(json!({"name": "A", "value": ""})), env(json!({"name": "A"})));
        let cpu = |divisor: Value| {
            env(json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": divisor}}}))
        };
        assert_eq!(cpu(json!("0")), cpu(Value::Null));
        assert_ne!(cpu(json!("1")), cpu(Value::Null));
    }

    #[test]
    fn what_says_something_does() {
        assert!(after(
            |object| object["spec"]["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] = json!(false)
        ));
        assert!(after(
            |object| object["spec"]["headGroupSpec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0)
        ));
        assert!(after(|object| object["spec"]["headGroupSpec"]["rayStartParams"] = json!({"readOnly": ""})));
        assert!(after(|object| object["spec"]["headGroupSpec"]["template"]["spec"]["volumes"] =
            json!([{"name": "v", "emptyDir": {}}])));
        let unknown = after(|object| object["spec"]["headGroupSpec"]["template"]["tty"] = json!(false));
        assert!(unknown, "of what upstream doesn't know, nothing is known");
    }

    #[test]
    fn the_autoscalers_writes_do_not_while_it_is_on() {
        let mut scaled = object();
        scaled["spec"]["enableInTreeAutoscaling"] = json!(true);
        let before = revision(&scaled);
        scaled["spec"]["workerGroupSpecs"][0]["replicas"] = json!(5);
        scaled["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = json!({"workersToDelete": ["x"]});
        assert_eq!(revision(&scaled), before);
    }
}
