//! A document as a client sends it.

use raygate::ray::body::{Body, Format};
use raygate::ray::document::Document;
use raygate::ray::lens::{build, edit, normal, view};

/// What is taken becomes a RayCluster whose view is the document's normal form, and putting that back changes nothing.
pub(crate) fn run(data: &[u8]) {
    let Ok(body) = Body::read(Format::Json, data) else { return };
    let (document, faults) = Document::read(body.value.clone());
    if body.judge(faults).is_err() {
        return;
    }
    let object = build(&document);
    let seen = view(&object).document;
    assert_eq!(normal(&document), seen);
    assert_eq!(normal(&seen), seen, "the normal form is one");
    let again = edit(&object, seen, Vec::new());
    assert_eq!(again.map(|edit| edit.object), Ok(object));
}
