//! Who else manages a field: Kubernetes notes in `metadata.managedFields` which manager has set what (`fieldsV1`, the form of
//! structured-merge-diff in `sigs.k8s.io/structured-merge-diff/v6/fieldpath`). Tools like Argo CD and Flux set back what
//! somebody else changes.

use serde_json::Value;

/// The name under which raygate writes.
pub const MANAGER: &str = "raygate";

/// The names under which KubeRay's operator writes: it sets nothing back.
const OPERATOR: [&str; 3] = ["manager", "ray-operator", "kuberay-operator"];

/// Of the places that a write changes (JSON Pointers into the RayCluster, of which `held` is the whole JSON), those that
/// somebody else manages too, each with whom.
#[must_use]
pub fn managed_by_others(managed: &Value, held: &Value, changed: &[String]) -> Vec<(String, String)> {
    let entries: Vec<_> = managed
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("subresource").is_none_or(|of| of == ""))
        .filter_map(|entry| Some((entry["manager"].as_str()?, &entry["fieldsV1"])))
        .filter(|(manager, _)| *manager != MANAGER && !OPERATOR.contains(manager))
        .collect();
    let mut found = Vec::new();
    for pointer in changed {
        let tokens: Vec<_> =
            pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        for (manager, fields) in &entries {
            let both = (pointer.clone(), (*manager).to_owned());
            if is_managed(fields, held, &tokens) && !found.contains(&both) {
                found.push(both);
            }
        }
    }
    found
}

/// Whether a set of fields has the one at this place, or one inside it.
fn is_managed(fields: &Value, held: &Value, path: &[String]) -> bool {
    let Some((name, rest)) = path.split_first() else { return true };
    // Nothing is told of what is inside: all of it is meant.
    if fields.as_object().is_none_or(serde_json::Map::is_empty) {
        return fields.is_object();
    }
    let items = held.as_array();
    let inside = match items {
        Some(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
        None => held.get(name),
    };
    let inside = inside.unwrap_or(&Value::Null);
    let found = if items.is_some() { item(fields, inside) } else { fields.get(format!("f:{name}")) };
    found.is_some_and(|fields| is_managed(fields, inside, rest))
}

/// What is told of an item of a list, which is known by its keys.
fn item<'a>(fields: &'a Value, item: &Value) -> Option<&'a Value> {
    let is_key_of = |key: &str| {
        let keys = key.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
        let keys = keys.as_ref().and_then(Value::as_object);
        keys.is_some_and(|keys| keys.iter().all(|(name, value)| item.get(name) == Some(value)))
    };
    fields.as_object()?.iter().find(|(key, _)| is_key_of(key)).map(|(_, fields)| fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held() -> Value {
        json!({
            "metadata": {"labels": {"team": "a", "tier": "b"}},
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": {"template": {"spec": {"containers": [
                    {"name": "side", "image": "s"}, {"name": "ray-head", "image": "i", "env": [{"name": "A"}]},
                ]}}},
                "workerGroupSpecs": [{"groupName": "w", "replicas": 1}],
            },
        })
    }

    fn managed() -> Value {
        json!([
            {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:team": {}}},
                "f:spec": {
                    "f:headGroupSpec": {"f:template": {"f:spec": {"f:containers": {
                        "k:{\"name\":\"ray-head\"}": {".": {}, "f:name": {}, "f:image": {}},
                    }}}},
                    "f:workerGroupSpecs": {},
                },
            }},
            {"manager": "raygate", "operation": "Update", "fieldsV1": {"f:spec": {"f:rayVersion": {}}}},
            {"manager": "manager", "operation": "Update", "fieldsV1": {"f:spec": {"f:rayVersion": {}}}},
            {"manager": "other", "operation": "Update", "subresource": "status", "fieldsV1": {"f:spec": {"f:rayVersion": {}}}},
        ])
    }

    fn found(changed: &[&str]) -> Vec<String> {
        let changed: Vec<_> = changed.iter().map(|&place| place.to_owned()).collect();
        let found = managed_by_others(&managed(), &held(), &changed);
        found.into_iter().map(|(place, manager)| format!("{place} {manager}")).collect()
    }

    #[test]
    fn what_others_manage_is_found() {
        let containers = "/spec/headGroupSpec/template/spec/containers";
        for place in [
            "/metadata/labels/team",
            "/metadata/labels",
            "/spec/workerGroupSpecs/0/replicas",
            "/spec/workerGroupSpecs",
            &format!("{containers}/1/image"),
            containers,
        ] {
            assert_eq!(found(&[place]), [format!("{place} argocd-controller")]);
        }
        for place in [
            "/metadata/labels/tier",
            "/spec/rayVersion",
            &format!("{containers}/0/image"),
            &format!("{containers}/1/env/0/name"),
            "/spec/suspend",
        ] {
            assert_eq!(found(&[place]), [""; 0], "{place}");
        }
    }

    #[test]
    fn anything_may_stand_there() {
        for managed in [json!(null), json!([{}]), json!([{"manager": "m", "fieldsV1": []}]), json!({"a": 1})] {
            assert_eq!(managed_by_others(&managed, &held(), &["/spec/rayVersion".into()]), []);
        }
        let odd =
            json!([{"manager": "m", "fieldsV1": {"f:spec": {"f:workerGroupSpecs": {"k:nonsense": {}, "v:1": {}}}}}]);
        assert_eq!(managed_by_others(&odd, &held(), &["/spec/workerGroupSpecs/9/replicas".into()]), []);
    }
}
