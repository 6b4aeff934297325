//! A whole RayCluster as a body, put in place of another.

use raygate::ray::body::{Body, Format};
use raygate::ray::json;
use raygate::ray::manifest::Manifest;
use serde_json::Value;

use super::held;

/// What is put in place differs from what was held by a merge patch, and putting it back changes nothing.
pub(crate) fn run(data: &[u8]) {
    for format in [Format::Json, Format::Yaml] {
        let Some(body) = Body::read(format, data).ok().filter(Body::is_manifest) else { continue };
        let (manifest, faults) = Manifest::read(body.value.clone());
        let Ok(done) = manifest.replace(held(), faults) else { continue };
        if body.judge(Vec::new()).is_err() {
            continue;
        }
        let mut patched = held().clone();
        json::merge(&mut patched, &Value::Object(json::difference(held(), &done.object)));
        assert_eq!(patched, done.object);
        let (manifest, faults) = Manifest::read(done.object.clone());
        let again = manifest.replace(&done.object, faults);
        assert_eq!(again.map(|edit| edit.object), Ok(done.object));
    }
}
