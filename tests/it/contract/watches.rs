//! Watching objects.

use std::time::Instant;

use raygate::manager::{Change, Observed, Preconditions, Scope};
use raygate::ray::cluster::RayCluster;
use serde_json::json;

use super::follow::{Follower, Watched};
use super::samples::{quiet, version};
use super::{Ground, Outcome};

fn follow(ground: &Ground, scope: &Scope) -> Follower<Observed<RayCluster>> {
    Follower::new(ground.backend.clusters.watch(scope))
}

fn home(ground: &Ground) -> Scope {
    Scope::Namespace(ground.namespace.clone())
}

pub(crate) async fn picture_comes_first(ground: &Ground) -> Outcome {
    let first = ground.create_quiet("first").await?;
    let second = ground.create_quiet("second").await?;
    let mut follower = follow(ground, &home(ground));
    assert!(matches!(follower.step().await?, Change::Reset));
    let mut shown = Vec::new();
    loop {
        match follower.step().await? {
            Change::Applied(object) => shown.push(object.raw),
            Change::Synced => break,
            step @ (Change::Reset | Change::Deleted(_)) => return Err(format!("in a picture: {step:?}").into()),
        }
    }
    shown.sort_by_key(|raw| raw["metadata"]["name"].to_string());
    assert_eq!(shown, [first.raw, second.raw]);

    let third = ground.create_quiet("third").await?;
    let step = follower.step().await?;
    assert!(matches!(&step, Change::Applied(object) if object.raw == third.raw), "{step:?}");
    Ok(())
}

pub(crate) async fn empty_scope_has_an_empty_picture(ground: &Ground) -> Outcome {
    ground.create_quiet("demo").await?;
    let watch = ground.backend.clusters.watch(&Scope::Namespace(ground.elsewhere.clone()));
    let life = watch.life.clone();
    let mut follower = Follower::new(watch);
    assert!(matches!(follower.step().await?, Change::Reset));
    assert!(matches!(follower.step().await?, Change::Synced));
    assert!(life.age(now()).is_some());
    assert_eq!(life.failure(), None);

    let mut pods = Follower::new(ground.backend.workloads.watch(&Scope::Namespace(ground.elsewhere.clone())));
    assert!(matches!(pods.step().await?, Change::Reset));
    assert!(matches!(pods.step().await?, Change::Synced));
    Ok(())
}

fn now() -> Instant {
    raygate::clock::instant()
}

pub(crate) async fn changes_follow_in_order(ground: &Ground) -> Outcome {
    let mut follower = follow(ground, &home(ground));
    follower.until_synced().await?;
    let mut object = ground.create_quiet("demo").await?;
    let mut written = vec![object.raw.clone()];
    for count in 1..=5 {
        object = ground.patch(&object, &json!({"metadata": {"labels": {"count": count.to_string()}}})).await?;
        written.push(object.raw.clone());
    }
    let mut shown = Vec::new();
    while shown.last() != written.last() {
        match follower.step().await? {
            Change::Applied(object) => shown.push(object.raw),
            Change::Deleted(object) => return Err(format!("never deleted: {object:?}").into()),
            // The picture begins anew: what lies between may be skipped, what is written stays in order.
            Change::Reset | Change::Synced => {}
        }
    }
    let mut rest = written.iter();
    assert!(shown.iter().all(|one| rest.any(|other| other == one)), "out of order");
    Ok(())
}

pub(crate) async fn recreated_name_is_deleted_first(ground: &Ground) -> Outcome {
    let first = ground.create_quiet("demo").await?;
    // One is read at once, to know when the name is free; the other afterwards.
    let mut prompt = follow(ground, &home(ground));
    let mut late = follow(ground, &home(ground));
    prompt.until_synced().await?;
    late.until_synced().await?;
    ground.backend.clusters.delete(&ground.namespace, "demo", &Preconditions::default()).await?;
    prompt.until_gone(&first).await?;
    let second = ground.create_quiet("demo").await?;
    assert_ne!(second.uid(), first.uid());
    assert!(version(second.resource_version())? > version(first.resource_version())?);

    for follower in [&mut prompt, &mut late] {
        let mut gone = !follower.holds(&first);
        loop {
            match follower.step().await? {
                Change::Deleted(object) if object.uid() == first.uid() => gone = true,
                Change::Applied(object) if object.uid() == second.uid() => break,
                Change::Reset => gone = true,
                Change::Applied(_) | Change::Deleted(_) | Change::Synced => {}
            }
        }
        assert!(gone, "the new object came before the old one's end");
    }
    Ok(())
}

pub(crate) async fn scope_is_kept(ground: &Ground) -> Outcome {
    let mut here = follow(ground, &home(ground));
    let mut everywhere = follow(ground, &Scope::All);
    here.until_synced().await?;
    everywhere.until_synced().await?;
    let foreign = ground.backend.clusters.create(&quiet(&ground.elsewhere, "demo")?).await?;
    let own = ground.create_quiet("demo").await?;

    everywhere
        .until("both", |picture| picture.contains_key(&own.key()) && picture.contains_key(&foreign.key()))
        .await?;
    let picture = here.until("the own one", |picture| picture.contains_key(&own.key())).await?;
    assert!(picture.keys().all(|(namespace, _)| *namespace == ground.namespace));
    Ok(())
}

pub(crate) async fn watch_and_list_agree(ground: &Ground) -> Outcome {
    let mut follower = follow(ground, &home(ground));
    follower.until_synced().await?;
    for name in ["a", "b", "c"] {
        ground.create_quiet(name).await?;
    }
    ground.edit("b", &json!({"spec": {"suspend": true}})).await?;
    let gone = ground.get("c").await?;
    ground.backend.clusters.delete(&ground.namespace, "c", &Preconditions::default()).await?;
    follower.until_object(&gone, "c comes", |_| true).await?;
    follower.until_gone(&gone).await?;

    let listed = ground.backend.clusters.list(&home(ground), None).await?;
    let listed: Vec<_> = listed.iter().map(|object| (object.key(), object.resource_version().to_owned())).collect();
    let picture = follower
        .until("what the list says", |picture| {
            let shown = picture.iter().map(|(key, object)| (key.clone(), object.version().to_owned()));
            shown.collect::<Vec<_>>() == listed
        })
        .await?;
    assert_eq!(picture.len(), 2);
    Ok(())
}
