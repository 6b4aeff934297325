//! What `crd/` holds: made here from upstream's CRD and from our own types, and held to them.
//!
//! `UPDATE_CRD=1` writes the files anew instead of comparing them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::contract::Outcome;

/// A file of this folder.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crd").join(name)
}

/// Holds a file of `crd/` to what it should be, or writes it.
pub(crate) fn assert_fresh(name: &str, wanted: &str) -> Outcome {
    let file = file(name);
    if std::env::var_os("UPDATE_CRD").is_some() {
        return Ok(fs::write(file, wanted)?);
    }
    let found = fs::read_to_string(&file)?;
    assert!(found == wanted, "crd/{name} is out of date: UPDATE_CRD=1 writes it anew");
    Ok(())
}

/// The RayCluster CRD of the operator's module, its version `v1`.
pub(crate) fn upstream() -> Outcome<Value> {
    let folder = std::env::var("RAYGATE_BED_OPERATOR")?;
    let file = Path::new(&folder).join("config/crd/bases/ray.io_rayclusters.yaml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut crd: Value = serde_saphyr::from_str(&text)?;
    let versions = crd["spec"]["versions"].as_array_mut().ok_or("no versions")?;
    let version = versions.iter_mut().find(|version| version["name"] == "v1").ok_or("no version v1")?;
    Ok(version["schema"]["openAPIV3Schema"].take())
}

/// The compiled form of a schema: every subtree once and after its parts, which it names by their number.
pub(crate) fn compiled(mut schema: Value) -> Outcome<String> {
    schema["properties"]["metadata"] = object_meta();
    let mut places = Places::default();
    places.number(schema)?;
    Ok(format!("[\n{}\n]\n", places.lines.join(",\n")))
}

#[derive(Default)]
struct Places {
    numbers: HashMap<String, usize>,
    lines: Vec<String>,
}

impl Places {
    fn number(&mut self, schema: Value) -> Outcome<usize> {
        let Value::Object(schema) = schema else { return Err(format!("no schema: {schema}").into()) };
        let mut place = BTreeMap::new();
        for (keyword, value) in schema {
            let value = match (keyword.as_str(), value) {
                ("description", _) => continue,
                ("properties", Value::Object(properties)) => {
                    let numbered = properties.into_iter().map(|(name, part)| Ok((name, self.number(part)?.into())));
                    Value::Object(numbered.collect::<Outcome<_>>()?)
                }
                ("items" | "additionalProperties", part) => self.number(part)?.into(),
                (_, value) => value,
            };
            place.insert(keyword, value);
        }
        let line = serde_json::to_string(&place)?;
        let next = self.lines.len();
        let number = *self.numbers.entry(line.clone()).or_insert(next);
        if number == next {
            self.lines.push(line);
        }
        Ok(number)
    }
}

/// Kubernetes' ObjectMeta, of which a CRD says only that it is an object.
fn object_meta() -> Value {
    let (string, boolean, integer) =
        (json!({"type": "string"}), json!({"type": "boolean"}), json!({"type": "integer", "format": "int64"}));
    let time = json!({"type": "string", "format": "date-time"});
    let strings = json!({"type": "object", "additionalProperties": string});
    let owner = json!({
        "type": "object",
        "properties": {
            "apiVersion": string, "blockOwnerDeletion": boolean, "controller": boolean, "kind": string, "name": string,
            "uid": string,
        },
        "required": ["apiVersion", "kind", "name", "uid"],
    });
    let managed = json!({
        "type": "object",
        "properties": {
            "apiVersion": string, "fieldsType": string,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "manager": string, "operation": string, "subresource": string, "time": time,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "annotations": strings, "creationTimestamp": time, "deletionGracePeriodSeconds": integer,
            "deletionTimestamp": time, "finalizers": {"type": "array", "items": string}, "generateName": string,
            "generation": integer, "labels": strings, "managedFields": {"type": "array", "items": managed},
            "name": string, "namespace": string, "ownerReferences": {"type": "array", "items": owner},
            "resourceVersion": string, "selfLink": string, "uid": string,
        },
    })
}
