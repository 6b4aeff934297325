//! What the cache promises its readers, whatever order the news comes in.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::picture::Picture;
use super::*;
use crate::ray::facts::{NodeFact, NodeRole};
use crate::ray::render::Form;

fn object(name: &str, uid: &str, version: u32) -> Observed<RayCluster> {
    let raw = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"headGroupSpec": {"template": {}}},
    });
    Observed::from_raw(raw).unwrap()
}

fn head(uid: &str, owner: &str, ready: bool) -> NodeFact {
    NodeFact {
        namespace: "default".into(),
        name: format!("{owner}-head"),
        uid: uid.into(),
        resource_version: "1".into(),
        owner_uid: owner.into(),
        group: "headgroup".into(),
        role: NodeRole::Head,
        phase: "Running".into(),
        ready,
        ..NodeFact::default()
    }
}

fn key() -> ClusterKey {
    ClusterKey::new("default", "demo")
}

fn state(picture: &Picture) -> String {
    let rendered: Value = serde_json::from_slice(&picture.get(&key()).unwrap().face(Form::Clear).rendered).unwrap();
    rendered["status"]["state"].as_str().unwrap().to_owned()
}

/// The journal after a number, as (uid, version, gone).
fn steps(picture: &Picture, since: u64) -> Vec<(String, String, bool)> {
    let step = |step: &Step| (step.entry.uid.clone(), step.entry.version.clone(), step.gone);
    picture.since(since).map(step).collect()
}

fn said(uid: &str, version: &str, gone: bool) -> (String, String, bool) {
    (uid.to_owned(), version.to_owned(), gone)
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut picture = Picture::default();
    assert!(picture.apply(&object("demo", "a", 10), true));
    assert!(!picture.apply(&object("demo", "a", 9), false), "numbers, not texts, are compared");
    assert!(!picture.apply(&object("demo", "a", 10), false), "nothing new is no change");
    assert_eq!(picture.get(&key()).unwrap().version, "10");
    assert!(picture.apply(&object("demo", "a", 11), false));
    assert_eq!(steps(&picture, 0), [said("a", "11", false)], "each cluster stands in the journal once");
}

#[test]
fn what_is_gone_stays_gone_whoever_is_late() {
    let mut picture = Picture::default();
    picture.apply(&object("demo", "a", 1), false);
    assert!(picture.deleted(&object("demo", "a", 5)));
    assert!(!picture.apply(&object("demo", "a", 4), true), "a write's answer that comes after the deletion");
    assert!(!picture.deleted(&object("demo", "a", 5)), "twice is once");
    assert!(picture.get(&key()).is_none());
    assert_eq!(steps(&picture, 0), [said("a", "5", true)]);
}

#[test]
fn another_cluster_under_the_same_name_is_a_deletion_first() {
    let mut picture = Picture::default();
    picture.apply(&object("demo", "a", 1), false);
    let before = picture.sequence;
    assert!(picture.apply(&object("demo", "b", 7), true), "our own create, before the watch told of the deletion");
    assert_eq!(steps(&picture, before), [said("a", "1", true), said("b", "7", false)]);
    assert!(!picture.deleted(&object("demo", "a", 6)), "the late news of the first one's deletion");
    assert_eq!(picture.get(&key()).unwrap().uid, "b");
    assert!(!picture.apply(&object("demo", "a", 5), false), "late news of the first one");
}

#[test]
fn pods_count_only_for_their_owner_and_may_come_first() {
    let mut picture = Picture::default();
    assert!(!picture.node_applied(head("pod", "a", true)), "nobody's to see yet");
    picture.apply(&object("demo", "a", 1), false);
    assert_eq!(state(&picture), "READY");
    picture.node_applied(head("other", "b", false));
    assert_eq!(state(&picture), "READY", "a pod of another owner");

    let before = picture.sequence;
    assert!(picture.node_applied(head("pod", "a", false)));
    assert_eq!((state(&picture).as_str(), steps(&picture, before).len()), ("PENDING", 1));
    assert!(!picture.node_deleted(&head("pod-of-before", "a", true)), "a pod that had the name before");
    assert!(picture.node_deleted(&head("pod", "a", false)));
    assert!(!picture.node_deleted(&head("pod", "a", false)));
}

#[test]
fn pods_that_a_new_picture_lacks_are_gone() {
    let mut picture = Picture::default();
    picture.apply(&object("demo", "a", 1), false);
    picture.node_applied(head("pod", "a", true));
    assert!(!picture.nodes_synced(&Scope::Namespace("elsewhere".into()), &HashSet::new()));
    assert_eq!(state(&picture), "READY");
    assert!(picture.nodes_synced(&Scope::All, &HashSet::new()));
    assert_eq!(state(&picture), "PENDING");
}

#[test]
fn an_unreadable_object_is_a_cluster_of_unknown_state() {
    let mut picture = Picture::default();
    let mut raw = object("demo", "a", 1).raw;
    raw["spec"]["workerGroupSpecs"] = json!([{"groupName": "x", "replicas": "2"}]);
    picture.apply(&Observed::from_raw(raw).unwrap(), false);
    assert_eq!(state(&picture), "UNKNOWN");
}

#[test]
fn forgotten_deletions_are_told_as_such() {
    let mut picture = Picture::default();
    for version in 1..=10_002 {
        let uid = format!("uid-{version}");
        picture.apply(&object("demo", &uid, version), false);
    }
    // One is there, 10,001 have been replaced, and 10,000 deletions are remembered.
    assert_eq!(steps(&picture, 0).len(), 10_001);
    assert!(picture.forgotten > 0 && picture.forgotten < picture.sequence);
    assert!(steps(&picture, picture.forgotten).len() == 10_001);
}

/// A cache that one watch of this scope would feed, and what says how far it has come.
fn cache(scope: Scope) -> (Cache, watch::Sender<u128>) {
    let (seen, told) = watch::channel(0);
    let (changed, _) = watch::channel(0);
    let reach = vec![Reach::new(scope, told)];
    (Cache { picture: RwLock::default(), changed, feeds: Vec::new(), reach, cursors: Cursors::new() }, seen)
}

#[test]
fn a_cluster_is_reached_by_its_own_version_or_by_its_watch() {
    let (cache, seen) = cache(Scope::All);
    let reached = |version, sees: bool| cache.reached_by(&key(), version, move |_| sees).now_or_never();
    assert_eq!(reached(10, true), None, "there is none, and it may come");
    cache.found(&[object("demo", "a", 10)]);
    assert_eq!((reached(10, true), reached(11, true)), (Some(true), None));
    assert_eq!(reached(10, false), None, "whoever can't see it waits as if it weren't there");
    assert_eq!(cache.reached(None, 10).now_or_never(), None, "it says nothing of others");
    seen.send_replace(11);
    assert_eq!((reached(11, true), reached(11, false), reached(12, true)), (Some(true), Some(true), None));
    assert_eq!(cache.reached(Some("default"), 11).now_or_never(), Some(true));
    drop(seen);
    assert_eq!(cache.reached(None, 12).now_or_never(), Some(false), "it never will be");
}

#[tokio::test]
async fn whoever_waits_is_woken_by_the_cluster_and_by_its_watch() {
    let (cache, seen) = cache(Scope::Namespace("default".into()));
    let key = key();
    let (woken, ()) = tokio::join!(cache.reached_by(&key, 5, |_| true), async {
        cache.found(&[object("demo", "a", 4)]);
        tokio::task::yield_now().await;
        cache.found(&[object("demo", "a", 5)]);
    });
    assert!(woken);
    let (one, all, ()) = tokio::join!(cache.reached_by(&key, 6, |_| true), cache.reached(None, 6), async {
        seen.send_replace(6);
    });
    assert!(one && all);
    assert!(!cache.reached(Some("elsewhere"), 1).await, "nobody watches it");
}
