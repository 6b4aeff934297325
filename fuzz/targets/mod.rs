//! What is fuzzed, by the name of its target. `tests/it/corpus.rs` runs the same on what is kept in `corpus`.

use std::sync::LazyLock;

use serde_json::Value;

mod cursor;
mod document;
mod manifest;
mod mask;
mod patch;
mod policy;
mod selector;
mod yaml;

/// A target's name, and what it runs on each input.
type Target = (&'static str, fn(&[u8]));

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    ("cursor", cursor::run),
    ("document", document::run),
    ("manifest", manifest::run),
    ("mask", mask::run),
    ("patch", patch::run),
    ("policy", policy::run),
    ("selector", selector::run),
    ("yaml", yaml::run),
];

/// Runs the target of this name; a failure is a panic.
pub(crate) fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    assert!(target.is_some(), "there is no target {name}");
    if let Some((_, target)) = target {
        target(data);
    }
}

/// A RayCluster as Kubernetes holds it, with what no document can show.
pub(crate) fn held() -> &'static Value {
    static HELD: LazyLock<Value> = LazyLock::new(|| {
        let mut held = serde_json::from_str(include_str!("held.json")).unwrap_or_default();
        raygate::ray::schema::ray_cluster().apply_defaults(&mut held);
        held
    });
    assert!(HELD.is_object(), "held.json can't be read");
    &HELD
}
