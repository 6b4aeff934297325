//! A merge patch of what is held.

use raygate::ray::body::{Body, Format};
use raygate::ray::document::{Document, wrong_removals};
use raygate::ray::json;
use raygate::ray::lens::{edit, view};
use serde_json::Value;

use super::held;

/// Where the held RayCluster has something that no document shows.
const UNSEEN: [&str; 4] = ["/metadata/finalizers", "/spec/unseen", "/spec/headGroupSpec/unseen", "/status"];

/// After a patch that is taken, wanting what is seen changes nothing, and what can't be seen is as it was.
pub(crate) fn run(data: &[u8]) {
    let Ok(body) = Body::read(Format::Json, data) else { return };
    let mut faults = wrong_removals(&body.value);
    let mut wanted = Value::Object(view(held()).document.0);
    json::merge(&mut wanted, &body.value);
    let (wanted, found) = Document::read(wanted);
    faults.extend(found);
    let Ok(done) = edit(held(), wanted, faults) else { return };
    for pointer in UNSEEN {
        assert!(held().pointer(pointer).is_some(), "{pointer}");
        assert_eq!(done.object.pointer(pointer), held().pointer(pointer), "{pointer}");
    }
    let mut patched = held().clone();
    json::merge(&mut patched, &Value::Object(json::difference(held(), &done.object)));
    assert_eq!(patched, done.object);
    let again = edit(&done.object, view(&done.object).document, Vec::new());
    assert_eq!(again.map(|edit| edit.object), Ok(done.object));
}
