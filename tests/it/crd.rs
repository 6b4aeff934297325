//! What `crd/` holds: made here from upstream's CRD and from our own types, and held to them.
//!
//! `UPDATE_CRD=1` writes the files anew instead of comparing them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use kube::Resource;
use kube::core::schema::StructuralSchemaRewriter;
use raygate::ray::cluster::RayCluster;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

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

/// The RayCluster CRD of the operator's module.
pub(crate) fn upstream() -> Outcome<Value> {
    let folder = std::env::var("RAYGATE_BED_OPERATOR").map_err(|_| "RAYGATE_BED_OPERATOR is not set")?;
    let file = Path::new(&folder).join("config/crd/bases/ray.io_rayclusters.yaml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(serde_saphyr::from_str(&text)?)
}

/// The schema of a CRD's version `v1`.
fn schema(crd: &Value) -> Outcome<&Value> {
    let mut versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.find(|version| version["name"] == "v1" && version["served"] == true);
    Ok(&version.ok_or("no version v1")?["schema"]["openAPIV3Schema"])
}

/// What in the first CRD, ours, isn't so in the other.
fn differences(ours: &Value, upstream: &Value) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for place in ["/spec/group", "/spec/names/kind", "/spec/names/plural", "/spec/scope"] {
        if ours.pointer(place) != upstream.pointer(place) {
            found.push(place.to_owned());
        }
    }
    differences_of_places(schema(ours)?, schema(upstream)?, "", &mut found);
    Ok(found)
}

fn differences_of_places(ours: &Value, upstream: &Value, path: &str, found: &mut Vec<String>) {
    if upstream.is_null() {
        return found.push(format!("{path}: unknown"));
    }
    for keyword in ["type", "format"] {
        if ours[keyword] != upstream[keyword] {
            found.push(format!("{path}: {keyword} {} is {}", ours[keyword], upstream[keyword]));
        }
    }
    let required = |schema: &Value| schema["required"].as_array().cloned().unwrap_or_default();
    let of_upstream = required(upstream);
    for name in required(ours).iter().filter(|name| !of_upstream.contains(name)) {
        found.push(format!("{path}: {name} isn't required"));
    }
    for (name, place) in ours["properties"].as_object().into_iter().flatten() {
        differences_of_places(place, &upstream["properties"][name], &format!("{path}.{name}"), found);
    }
    for (keyword, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(place) = ours.get(keyword) {
            differences_of_places(place, &upstream[keyword], &format!("{path}{sign}"), found);
        }
    }
}

/// Whether every place of our manifest is upstream's too.
pub(crate) fn assert_conforms(upstream: &Value) -> Outcome {
    let ours: Value = serde_saphyr::from_str(&fs::read_to_string(file("rayclusters.yaml"))?)?;
    assert_eq!(differences(&ours, upstream)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn every_kind_of_difference_is_found() -> Outcome {
    let ours: Value = serde_saphyr::from_str(&manifest()?)?;
    assert_eq!(differences(&ours, &ours)?, Vec::<String>::new());
    let root = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let group = format!("{root}/spec/properties/workerGroupSpecs/items");
    let cases = [
        (format!("{group}/properties/replicas/type"), json!("string"), ".spec.workerGroupSpecs[].replicas: type"),
        (format!("{group}/properties/replicas/format"), json!("int64"), ".spec.workerGroupSpecs[].replicas: format"),
        (
            format!("{group}/properties/replicaz"),
            json!({"type": "integer"}),
            ".spec.workerGroupSpecs[].replicaz: unknown",
        ),
        (format!("{group}/required"), json!(["groupName"]), ".spec.workerGroupSpecs[]: \"groupName\" isn't required"),
        (
            format!("{root}/status/properties/endpoints/additionalProperties/type"),
            json!("integer"),
            ".status.endpoints{}: type",
        ),
        (format!("{root}/spec/items"), json!({"type": "string"}), ".spec[]: unknown"),
        ("/spec/scope".to_owned(), json!("Cluster"), "/spec/scope"),
    ];
    for (place, value, difference) in cases {
        let mut planted = ours.clone();
        let (parent, name) = place.rsplit_once('/').ok_or("no parent")?;
        planted.pointer_mut(parent).ok_or("no such place")?[name] = value;
        let found = differences(&planted, &ours)?;
        assert!(found.len() == 1 && found[0].starts_with(difference), "{place}: {found:?}");
    }
    Ok(())
}

/// The CRD manifest of our own types.
fn manifest() -> Outcome<String> {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings.with_transform(StructuralSchemaRewriter).into_generator();
    let mut schema = generator.into_root_schema_for::<RayCluster>().to_value();
    bare(&mut schema);
    let manifest = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayclusters.ray.io"},
        "spec": {
            "group": RayCluster::group(&()),
            "names": {
                "kind": RayCluster::kind(&()), "listKind": "RayClusterList", "plural": RayCluster::plural(&()),
                "singular": "raycluster",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": RayCluster::version(&()), "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    Ok(format!("{BANNER}{}", serde_saphyr::to_string(&manifest)?))
}

const BANNER: &str = "\
# What raygate reads of a RayCluster, or decides on: made from its types by the tests. Everything else it keeps as it is.
# It shows what raygate needs of KubeRay's CRD, and the tests hold it to that. Never apply it: it would take the place of
# KubeRay's own, which knows far more.
";

/// Leaves of a schema what says of which type a place is.
fn bare(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    keywords.retain(|keyword, _| !matches!(keyword.as_str(), "title" | "description" | "default" | "nullable"));
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "properties" => value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(bare),
            "items" | "additionalProperties" => bare(value),
            _ => {}
        }
    }
}

#[test]
fn the_manifest_is_that_of_our_types() -> Outcome {
    assert_fresh("rayclusters.yaml", &manifest()?)
}

/// The compiled form of a CRD's schema: every subtree once and after its parts, which it names by their number.
pub(crate) fn compiled(crd: &Value) -> Outcome<String> {
    let mut schema = schema(crd)?.clone();
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
