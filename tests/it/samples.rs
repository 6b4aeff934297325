//! The RayClusters among the operator's own samples, of every version of its module that can be had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raygate::ray::yaml;
use serde_json::{Value, json};

use crate::support::Outcome;

/// A sample: where it is from, and the RayCluster.
pub(crate) struct Sample {
    pub(crate) source: String,
    pub(crate) object: Value,
}

/// The RayClusters of one folder of samples: those that are documents, and those that are part of another kind.
pub(crate) fn in_folder(folder: &Path) -> Outcome<(Vec<Sample>, Vec<Sample>)> {
    let (mut clusters, mut parts) = (Vec::new(), Vec::new());
    for path in files(folder)? {
        let text = std::fs::read_to_string(&path)?;
        for (index, document) in documents(&text).into_iter().enumerate() {
            let source = format!("{} #{index}", path.display());
            let value = match yaml::read(document.as_bytes()) {
                Ok(read) => read.value,
                Err(faults) if faults.0.iter().any(|fault| fault.message.contains("empty")) => continue,
                Err(faults) => return Err(format!("{source}: {faults:?}").into()),
            };
            let part = |pointer: &str| {
                let spec = value.pointer(pointer)?;
                let metadata = json!({"name": "part", "namespace": "default"});
                Some(json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}))
            };
            if value["kind"] == "RayCluster" && value["apiVersion"] == "ray.io/v1" {
                clusters.push(Sample { source, object: value });
            } else if let Some(object) =
                ["/spec/rayClusterSpec", "/spec/rayClusterConfig", "/spec/jobTemplate/rayClusterSpec"]
                    .into_iter()
                    .find_map(part)
            {
                parts.push(Sample { source, object });
            }
        }
    }
    Ok((clusters, parts))
}

/// The folders of samples, newest version first.
pub(crate) fn folders() -> Outcome<Vec<PathBuf>> {
    let folders =
        std::env::var("RAYGATE_BED_SAMPLES").map_err(|_| "RAYGATE_BED_SAMPLES is not set: tests/run does it")?;
    Ok(folders.split(':').map(PathBuf::from).collect())
}

fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The documents of a file, as kubectl parts them.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.starts_with("---") {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents
}

/// Samples with what differs between them, each once: the versions of one sample are often the same.
pub(crate) fn distinct(samples: Vec<Sample>) -> Vec<Sample> {
    let mut seen = BTreeMap::new();
    for sample in samples {
        seen.entry(sample.object.to_string()).or_insert(sample);
    }
    seen.into_values().collect()
}
