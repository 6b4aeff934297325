//! Deleting objects.

use raygate::manager::{Deletion, ManagerError, Observed, Preconditions, Scope};
use raygate::ray::cluster::RayCluster;
use serde_json::json;

use super::follow::Follower;
use super::samples::{assert_error, assert_invalid, quiet};
use super::{Ground, Outcome};

const HOLD: &str = "example.com/hold";

async fn delete(ground: &Ground, preconditions: &Preconditions) -> Outcome<Observed<RayCluster>> {
    match ground.backend.clusters.delete(&ground.namespace, "demo", preconditions).await? {
        Deletion::Started(object) => Ok(*object),
        Deletion::Done => Err("a foreground delete can't be done at once".into()),
    }
}

/// A cluster that stays after its delete, until its finalizer is taken away.
async fn held(ground: &Ground) -> Outcome<Observed<RayCluster>> {
    let mut cluster = quiet(&ground.namespace, "demo")?;
    cluster.metadata.finalizers = Some(vec![HOLD.to_owned()]);
    Ok(ground.backend.clusters.create(&cluster).await?)
}

fn follow(ground: &Ground) -> Follower<Observed<RayCluster>> {
    Follower::new(ground.backend.clusters.watch(&Scope::Namespace(ground.namespace.clone())))
}

fn only_held(object: &Observed<RayCluster>) -> bool {
    object.metadata.deletion_timestamp.is_some() && object.metadata.finalizers.as_deref() == Some(&[HOLD.to_owned()])
}

pub(crate) async fn deletion_time_comes_first(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let mut follower = follow(ground);
    follower.until_synced().await?;
    let deleting = delete(ground, &Preconditions::default()).await?;
    assert_eq!(deleting.uid(), created.uid());
    assert!(deleting.metadata.deletion_timestamp.is_some());
    assert_eq!(deleting.raw["spec"], created.raw["spec"]);

    follower.until_object(&created, "a deletion time", |object| object.metadata.deletion_timestamp.is_some()).await?;
    follower.until_gone(&created).await?;
    assert_error(ground.get("demo").await, &ManagerError::NotFound);
    Ok(())
}

pub(crate) async fn second_delete_finds_the_first(ground: &Ground) -> Outcome {
    held(ground).await?;
    let first = delete(ground, &Preconditions::default()).await?;
    let second = delete(ground, &Preconditions::default()).await?;
    assert_eq!(second.uid(), first.uid());
    assert_eq!(second.metadata.deletion_timestamp, first.metadata.deletion_timestamp);
    let taken = ground.backend.clusters.create(&quiet(&ground.namespace, "demo")?).await;
    assert_error(taken, &ManagerError::AlreadyExists);
    ground.edit("demo", &json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

pub(crate) async fn finalizer_holds_the_object(ground: &Ground) -> Outcome {
    let created = held(ground).await?;
    let mut follower = follow(ground);
    delete(ground, &Preconditions::default()).await?;
    let deleting = follower.until_object(&created, "the foreign finalizer alone", only_held).await?;
    assert!(ground.get("demo").await?.metadata.deletion_timestamp.is_some());

    let more = json!({"metadata": {"finalizers": [HOLD, "example.com/more"]}});
    assert_invalid(ground.patch(&deleting, &more).await, "metadata.finalizers");
    let stale = ground.patch(&created, &json!({"metadata": {"finalizers": null}})).await;
    assert_error(stale, &ManagerError::Conflict);

    ground.patch(&deleting, &json!({"metadata": {"finalizers": null}})).await?;
    follower.until_gone(&created).await?;
    assert_error(ground.get("demo").await, &ManagerError::NotFound);
    Ok(())
}

pub(crate) async fn unmet_precondition_conflicts(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let labelled = ground.patch(&created, &json!({"metadata": {"labels": {"team": "blue"}}})).await?;
    let wrong = [
        (Some("3f0cf1ef-8f4a-4a56-a4c7-0c0b6b0f2a10"), None),
        (None, Some(created.resource_version())),
        (Some(created.uid()), Some(created.resource_version())),
    ];
    for (uid, resource_version) in wrong {
        let unmet = preconditions(uid, resource_version);
        let answer = ground.backend.clusters.delete(&ground.namespace, "demo", &unmet).await;
        assert_error(answer, &ManagerError::Conflict);
        assert_eq!(ground.get("demo").await?.raw, labelled.raw);
    }
    let met = preconditions(Some(created.uid()), Some(labelled.resource_version()));
    assert!(delete(ground, &met).await?.metadata.deletion_timestamp.is_some());
    Ok(())
}

fn preconditions(uid: Option<&str>, resource_version: Option<&str>) -> Preconditions {
    Preconditions { uid: uid.map(str::to_owned), resource_version: resource_version.map(str::to_owned) }
}

pub(crate) async fn pods_go_before_their_cluster(ground: &Ground) -> Outcome {
    let created = ground.create_cluster("demo", 1).await?;
    let scope = Scope::Namespace(ground.namespace.clone());
    let mut pods = Follower::new(ground.backend.workloads.watch(&scope));
    pods.until("two ready pods", |pods| pods.values().filter(|pod| pod.ready).count() == 2).await?;
    let mut clusters = follow(ground);
    clusters.until_synced().await?;

    let deleting = delete(ground, &Preconditions::default()).await?;
    clusters.until_object(&deleting, "a deletion time", |object| object.metadata.deletion_timestamp.is_some()).await?;
    pods.until("no pod", |pods| !pods.values().any(|pod| pod.owner_uid == created.uid())).await?;
    clusters.until_gone(&deleting).await?;
    assert_error(ground.get("demo").await, &ManagerError::NotFound);
    Ok(())
}
