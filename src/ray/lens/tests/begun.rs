//! The laws, while something that a write has begun stands on the RayCluster.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::laws::{self, config, ray_cluster_object};
use super::*;
use crate::ray::begun::{self, DROPPED_GROUPS, RESTART};
use crate::ray::manifest::Manifest;
use crate::ray::revision::revision;

/// The object while its first groups are being dropped, and while it is being restarted.
fn begun(mut object: Value, dropped: usize, restarts: bool) -> Value {
    let groups = object.pointer_mut("/spec/workerGroupSpecs").and_then(Value::as_array_mut);
    let mut groups: Vec<_> = groups.into_iter().flatten().collect();
    let mut names: Vec<_> = groups.iter().take(dropped).map(|group| group["groupName"].clone()).collect();
    names.sort_by_key(Value::to_string);
    names.dedup();
    // Of several of one name all are dropped.
    for group in groups.iter_mut().filter(|group| names.contains(&group["groupName"])) {
        json::merge(group, &json!({"replicas": 0, "minReplicas": 0, "maxReplicas": 0}));
    }
    if !names.is_empty() {
        json::merge(&mut object, &json!({"metadata": {"annotations": {DROPPED_GROUPS: json!(names).to_string()}}}));
    }
    if restarts {
        json::merge(&mut object, &json!({"spec": {"suspend": true}, "metadata": {"annotations": {RESTART: "v1:x"}}}));
    }
    object
}

/// Once all is finished.
fn finished(object: &Value) -> Value {
    let mut object = object.clone();
    if begun::has_restart(&object) {
        let end = begun::restart_end(&object, true);
        json::merge(&mut object, &end);
    }
    begun::taken_out(&object, &begun::dropped_groups(&object))
}

proptest! {
    #![proptest_config(config(21))]

    #[test]
    fn wanting_what_is_seen_meanwhile_changes_nothing(
        object in ray_cluster_object(), dropped in 0..3_usize, restarts in any::<bool>(),
    ) {
        let object = begun(object, dropped, restarts);
        let (wanted, faults) = Document::read(seen(&object));
        prop_assert_eq!(edit(&object, wanted, faults).map(|edit| edit.object), Ok(object.clone()));
        let (manifest, faults) = Manifest::read(object.clone());
        if let Ok(done) = manifest.replace(&object, faults) {
            // A manifest's own empty members may go; what is begun stays begun.
            let marks = |object: &Value| [RESTART, DROPPED_GROUPS].map(|key| object["metadata"]["annotations"][key].clone());
            prop_assert_eq!((marks(&done.object), revision(&done.object)), (marks(&object), revision(&object)));
        }
    }

    #[test]
    fn finishing_changes_neither_what_is_seen_nor_the_revision(
        object in ray_cluster_object(), dropped in 0..3_usize, restarts in any::<bool>(),
    ) {
        let object = begun(object, dropped, restarts);
        let after = finished(&object);
        prop_assert_eq!(view(&after).document, view(&object).document);
        prop_assert_eq!(revision(&after), revision(&object));
    }

    /// A write in the meantime comes to what it comes to afterwards.
    #[test]
    fn a_write_meanwhile_comes_to_what_it_comes_to_later(
        object in ray_cluster_object(), dropped in 0..3_usize, restarts in any::<bool>(), patch in laws::patch(),
    ) {
        let held = begun(object, dropped, restarts);
        let (now, later) = (patched(&held, &patch), patched(&finished(&held), &patch));
        let seen = |done: &Result<Value, Refusal>| done.as_ref().ok().map(|done| view(&finished(done)).document);
        if !matches!(now, Err(Refusal::GroupTerminating(_))) {
            prop_assert_eq!(seen(&now), seen(&later), "{:?}", now);
        }
    }
}
