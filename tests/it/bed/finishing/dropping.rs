//! Worker groups that are dropped: their pods go, then their entries, and nothing else changes.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

/// Where only the operator's word counts, as no test waits for that long.
pub(in crate::bed) const BY_WORD: &[&str] = &["--settle-seconds=86400"];

/// How groups are dropped.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// `DELETE` of each.
    Delete,
    /// `PUT` of the document without them.
    Document,
    /// A patch that says `null` of them.
    Patch,
    /// `PUT` of the RayCluster without them.
    Manifest,
}

const WAYS: [Way; 4] = [Way::Delete, Way::Document, Way::Patch, Way::Manifest];

/// Drops worker groups, and checks that they aren't seen any more.
async fn drop_groups(raygate: &Raygate, name: &str, groups: &[&str], way: Way) -> Outcome {
    let path = format!("/clusters/{name}");
    let any = [("if-match", "*")];
    let put = async |body: Value| raygate.send(Method::PUT, &path, &any, body.to_string()).await;
    let answer = match way {
        Way::Delete => {
            for group in groups {
                let path = format!("{path}/workerGroups/{group}");
                let answer = raygate.send(Method::DELETE, &path, &any, "").await?;
                assert_eq!(answer.status, 202, "{answer:?}");
            }
            raygate.get(&path).await?
        }
        Way::Patch => {
            let nulls: serde_json::Map<_, _> = groups.iter().map(|group| ((*group).to_owned(), Value::Null)).collect();
            let body = json!({"workerGroups": nulls});
            raygate.send(Method::PATCH, &path, &[], body.to_string()).await?
        }
        Way::Document => {
            let mut document = raygate.get(&path).await?.json();
            let members = document["workerGroups"].as_object_mut().ok_or("no groups")?;
            members.retain(|group, _| !groups.contains(&group.as_str()));
            put(document).await?
        }
        Way::Manifest => {
            let mut manifest = raygate.get(&format!("{path}/manifest")).await?.json();
            let entries = manifest["spec"]["workerGroupSpecs"].as_array_mut().ok_or("no groups")?;
            entries.retain(|group| !groups.iter().any(|name| group["groupName"] == *name));
            put(manifest).await?
        }
    };
    assert_eq!(answer.status, 200, "{way:?}: {answer:?}");
    let seen = answer.json();
    assert!(groups.iter().all(|group| seen["workerGroups"][group].is_null()), "{way:?}: {seen}");
    Ok(())
}

/// Waits until the entries of dropped groups are gone, and checks that all else is as it was `before`.
pub(in crate::bed) async fn dropped(scene: &Scene, before: &(Value, Vec<Value>), groups: &[&str]) -> Outcome {
    let (object, pods) = before;
    let name = object["metadata"]["name"].as_str().ok_or("no name")?;
    let after = scene
        .holds(name, "the entries of the dropped groups are gone", |stored| {
            annotation(stored, DROPPED_GROUPS).is_null() && !entries(stored).iter().any(|entry| is_of(entry, groups))
        })
        .await?;
    let left: Vec<_> = entries(object).into_iter().filter(|entry| !is_of(entry, groups)).collect();
    assert_eq!(entries(&after), left);
    let stay = scene.pods(name).await?;
    assert!(of_groups(&stay, groups).is_empty(), "{stay:?}");
    let went = uids(&of_groups(pods, groups));
    let kept: Vec<_> = uids(pods).into_iter().filter(|uid| !went.contains(uid)).collect();
    assert_eq!(uids(&stay), kept, "the head and the other groups keep their pods");
    assert_steady(scene, before, groups).await
}

/// At no time anything but the dropped groups' entries and raygate's annotation was another than `before`.
async fn assert_steady(scene: &Scene, (object, pods): &(Value, Vec<Value>), groups: &[&str]) -> Outcome {
    let name = object["metadata"]["name"].as_str().ok_or("no name")?;
    let own: Vec<_> = of_groups(pods, groups).iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    for version in scene.versions(name).await? {
        assert_eq!(apart_from_entries(&version), apart_from_entries(object));
        let mut before = entries(object);
        let found = entries(&version);
        // A group that is gone is gone; whatever is there is where it was.
        before.retain(|entry| {
            !is_of(entry, groups) || found.iter().any(|found| found["groupName"] == entry["groupName"])
        });
        assert_eq!(found.len(), before.len(), "{version}");
        for (found, before) in found.into_iter().zip(before) {
            if !is_of(&found, groups) || found == before {
                assert_eq!(found, before);
                continue;
            }
            let mut named = found["scaleStrategy"]["workersToDelete"].as_array().into_iter().flatten();
            assert!(named.all(|pod| own.contains(pod)), "{found}");
            let mut at_rest = before;
            for member in ["replicas", "minReplicas", "maxReplicas"] {
                at_rest[member] = 0.into();
            }
            assert_eq!(unnamed(found), unnamed(at_rest));
        }
    }
    Ok(())
}

/// An entry without the names of the pods that are to go.
fn unnamed(mut entry: Value) -> Value {
    if let Some(members) = entry.as_object_mut() {
        members.shift_remove("scaleStrategy");
    }
    entry
}

fn entries(object: &Value) -> Vec<Value> {
    object["spec"]["workerGroupSpecs"].as_array().cloned().unwrap_or_default()
}

fn is_of(entry: &Value, groups: &[&str]) -> bool {
    groups.iter().any(|group| entry["groupName"] == *group)
}

/// What users own of a RayCluster, without the entries of worker groups and the mark of dropped ones.
fn apart_from_entries(object: &Value) -> [Value; 4] {
    let (mut annotations, mut spec) = (object["metadata"]["annotations"].clone(), object["spec"].clone());
    for (object, member) in [(&mut annotations, DROPPED_GROUPS), (&mut spec, "workerGroupSpecs")] {
        if let Some(members) = object.as_object_mut() {
            members.shift_remove(member);
        }
    }
    [annotations, spec, object["metadata"]["labels"].clone(), object["metadata"]["finalizers"].clone()]
}

pub(in crate::bed) fn three_groups() -> Value {
    json!({"first": {"replicas": 1}, "second": {"replicas": 2}, "third": {"replicas": 1}})
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn each_way_to_drop_a_group_takes_its_pods_and_nothing_else() -> Outcome {
    let scene = Scene::new("ways").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    for way in WAYS {
        let name = format!("{way:?}").to_lowercase();
        let before = scene.create(&raygate, &document(&name, &three_groups())).await?;
        drop_groups(&raygate, &name, &["second"], way).await?;
        dropped(&scene, &before, &["second"]).await?;
    }
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_first_group_and_two_at_once_are_dropped_and_the_others_stay() -> Outcome {
    let scene = Scene::new("several").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    for (index, groups) in [&["first"][..], &["first", "third"], &["first", "second", "third"]].iter().enumerate() {
        for way in WAYS {
            let name = format!("{way:?}-{index}").to_lowercase();
            let before = scene.create(&raygate, &document(&name, &three_groups())).await?;
            drop_groups(&raygate, &name, groups, way).await?;
            dropped(&scene, &before, groups).await?;
        }
    }
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_of_several_hosts_is_dropped() -> Outcome {
    let scene = Scene::new("hosts").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    let mut groups = three_groups();
    groups["second"]["numOfHosts"] = 2.into();
    for way in WAYS {
        let name = format!("{way:?}").to_lowercase();
        let before = scene.create(&raygate, &document(&name, &groups)).await?;
        assert_eq!(of_groups(&before.1, &["second"]).len(), 4, "two replicas of two hosts");
        drop_groups(&raygate, &name, &["second"], way).await?;
        dropped(&scene, &before, &["second"]).await?;
    }
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn groups_are_dropped_while_the_autoscaler_is_on() -> Outcome {
    let scene = Scene::new("scaled").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    let mut groups = three_groups();
    groups["second"] = json!({"replicas": 2, "minReplicas": 1, "maxReplicas": 4});
    groups["third"]["numOfHosts"] = 2.into();
    for way in WAYS {
        let name = format!("{way:?}").to_lowercase();
        let mut demo = document(&name, &groups);
        demo["autoscaling"] = json!({"enabled": true});
        let before = scene.create(&raygate, &demo).await?;
        let head =
            before.1.iter().find(|pod| pod["metadata"]["labels"]["ray.io/node-type"] == "head").ok_or("no head")?;
        let containers = head["spec"]["containers"].as_array().map(Vec::len);
        assert_eq!(containers, Some(2), "the autoscaler is beside Ray");
        drop_groups(&raygate, &name, &["second", "third"], way).await?;
        dropped(&scene, &before, &["second", "third"]).await?;
    }
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_that_is_dropped_before_it_has_pods_leaves_none_behind() -> Outcome {
    let scene = Scene::new("early").await?;
    let no_limits = ["--caller-requests-per-second=100000", "--caller-burst=100000"];
    let raygate = scene.raygate(&[BY_WORD, &no_limits].concat()).await?;
    let count = if std::env::var_os("RAYGATE_LONG").is_some() { 200 } else { 20 };
    let runs = stream::iter(0..count).map(async |seed: u64| -> Outcome {
        let name = format!("early-{seed}");
        let answer = raygate.post("/clusters", &document(&name, &three_groups())).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        let object = scene.stored(&name).await?;
        // From before the operator has heard of it to when the pods start.
        let pause = StdRng::seed_from_u64(seed).random_range(0..60);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        drop_groups(&raygate, &name, &["second"], Way::Patch).await.map_err(|error| format!("seed {seed}: {error}"))?;
        scene
            .holds(&name, "the entry is gone", |stored| !entries(stored).iter().any(|entry| is_of(entry, &["second"])))
            .await?;
        assert_eq!(of_groups(&scene.pods(&name).await?, &["second"]).len(), 0, "seed {seed}");
        let ever: Vec<_> = scene.pods_ever(&name).await?.into_values().collect();
        assert_steady(&scene, &(object, ever), &["second"]).await?;
        // Once it has made a pod by what is there now, the operator makes none by what was before.
        becomes(&raygate, &name, "READY").await?;
        let path = format!("/clusters/{name}/workerGroups/third");
        assert_eq!(raygate.send(Method::PATCH, &path, &[], r#"{"replicas": 2}"#).await?.status, 200);
        eventually("the third group has another pod", async || {
            Ok((of_groups(&scene.pods(&name).await?, &["third"]).len() == 2).then_some(()))
        })
        .await?;
        assert_eq!(of_groups(&scene.pods(&name).await?, &["second"]).len(), 0, "seed {seed}");
        Ok(())
    });
    runs.buffer_unordered(20).try_collect::<()>().await?;
    for seed in 0..count {
        assert_eq!(scene.pods(&format!("early-{seed}")).await?.len(), 4, "seed {seed}: head, first, third twice");
    }
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_group_of_a_stopped_cluster_is_dropped_and_the_others_start_without_it() -> Outcome {
    let scene = Scene::new("stopped").await?;
    let raygate = scene.raygate(&["--settle-seconds=2"]).await?;
    for way in WAYS {
        let name = format!("{way:?}").to_lowercase();
        scene.create(&raygate, &document(&name, &three_groups())).await?;
        assert_eq!(verb(&raygate, &name, "stop").await?.status, 202);
        becomes(&raygate, &name, "STOPPED").await?;
        let stored =
            scene.holds(&name, "it is suspended", |one| condition(one, "RayClusterSuspended") == "True").await?;
        let ever = scene.pods_ever(&name).await?.len();
        drop_groups(&raygate, &name, &["second"], way).await?;
        let after =
            scene.holds(&name, "its entry is gone", |stored| annotation(stored, DROPPED_GROUPS).is_null()).await?;
        let left: Vec<_> = entries(&stored).into_iter().filter(|entry| !is_of(entry, &["second"])).collect();
        assert_eq!((entries(&after), apart_from_entries(&after)), (left, apart_from_entries(&stored)));
        assert_eq!(scene.pods_ever(&name).await?.len(), ever, "none was made");
        assert_eq!(verb(&raygate, &name, "start").await?.status, 202);
        becomes(&raygate, &name, "READY").await?;
        let pods = scene.pods(&name).await?;
        assert_eq!((pods.len(), of_groups(&pods, &["second"]).len()), (3, 0), "head, first, third");
    }
    assert_no_errors(&raygate)
}
