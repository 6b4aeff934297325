//! The life of a cluster: its pods and its status.

use raygate::manager::{Observed, Scope};
use raygate::ray::cluster::RayCluster;
use raygate::ray::facts::{NodeFact, NodeRole};
use serde_json::{Value, json};

use super::follow::{Follower, Picture};
use super::samples::{generation, group, quiet};
use super::{Ground, Outcome};

fn follow_pods(ground: &Ground) -> Follower<NodeFact> {
    Follower::new(ground.backend.workloads.watch(&Scope::Namespace(ground.namespace.clone())))
}

fn follow(ground: &Ground) -> Follower<Observed<RayCluster>> {
    Follower::new(ground.backend.clusters.watch(&Scope::Namespace(ground.namespace.clone())))
}

/// How many pods of this role are ready, if there are no others of it.
fn ready(pods: &Picture<NodeFact>, role: NodeRole) -> Option<usize> {
    let of_role = || pods.values().filter(|pod| pod.role == role);
    of_role().all(|pod| pod.ready && !pod.deleting).then(|| of_role().count())
}

fn condition<'a>(object: &'a Observed<RayCluster>, kind: &str) -> &'a Value {
    let conditions = object.raw["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn holds(object: &Observed<RayCluster>, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

fn is_ready(object: &Observed<RayCluster>) -> bool {
    object.raw["status"]["state"] == "ready" && holds(object, "RayClusterProvisioned") && holds(object, "HeadPodReady")
}

pub(crate) async fn pods_become_ready(ground: &Ground) -> Outcome {
    let created = ground.create_cluster("demo", 2).await?;
    let mut pods = follow_pods(ground);
    pods.until("a head", |pods| pods.values().any(|pod| pod.role == NodeRole::Head)).await?;
    pods.until("a ready head", |pods| ready(pods, NodeRole::Head) == Some(1)).await?;
    let picture = pods.until("two ready workers", |pods| ready(pods, NodeRole::Worker) == Some(2)).await?;

    for pod in picture.values() {
        assert_eq!((pod.namespace.as_str(), pod.owner_uid.as_str()), (ground.namespace.as_str(), created.uid()));
        assert!(!pod.uid.is_empty() && !pod.resource_version.is_empty());
        assert_eq!((pod.phase.as_str(), pod.ready, pod.deleting), ("Running", true, false));
        assert_eq!(pod.reason(), None);
        let (group, prefix) = match pod.role {
            NodeRole::Head => ("headgroup", "demo-head-"),
            NodeRole::Worker | NodeRole::Other => ("small", "demo-small-worker-"),
        };
        assert_eq!(pod.group, group);
        assert!(pod.name.starts_with(prefix), "{}", pod.name);
    }
    assert_eq!(picture.len(), 3);
    Ok(())
}

pub(crate) async fn status_tells_of_readiness(ground: &Ground) -> Outcome {
    let mut clusters = follow(ground);
    let created = ground.create_cluster("demo", 2).await?;
    let provisioning = clusters
        .until_object(&created, "a first status", |object| {
            condition(object, "RayClusterProvisioned")["reason"] == "RayClusterPodsProvisioning"
        })
        .await?;
    assert!(!holds(&provisioning, "HeadPodReady"));

    let object = clusters.until_object(&created, "a ready cluster", is_ready).await?;
    let status = &object.raw["status"];
    assert_eq!(generation(&object), 1);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(condition(&object, "HeadPodReady")["reason"], "HeadPodRunningAndReady");
    let provisioned = condition(&object, "RayClusterProvisioned");
    assert_eq!(provisioned["reason"], "AllPodRunningAndReadyFirstTime");
    assert_eq!(provisioned["message"], "All Ray Pods are ready for the first time");
    assert!(provisioned["lastTransitionTime"].is_string() && status["lastUpdateTime"].is_string());
    assert!(!holds(&object, "RayClusterSuspended") && !holds(&object, "RayClusterSuspending"));
    let counters = ["desired", "ready", "available"].map(|word| status[format!("{word}WorkerReplicas")].as_i64());
    assert_eq!(counters, [Some(2); 3]);
    let ports =
        json!({"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080", "serve": "8000"});
    assert_eq!(status["endpoints"], ports);

    let head = &status["head"];
    assert_eq!(head["serviceName"], "demo-head-svc");
    assert_eq!(head["serviceIP"], head["podIP"]);
    assert!(head["podIP"].as_str().is_some_and(|address| address.split('.').count() == 4), "{head}");
    let mut pods = follow_pods(ground);
    pods.until_synced().await?;
    let picture = pods.until("a ready head", |pods| ready(pods, NodeRole::Head) == Some(1)).await?;
    assert!(picture.values().any(|pod| pod.role == NodeRole::Head && head["podName"] == *pod.name));
    Ok(())
}

pub(crate) async fn scale_is_followed(ground: &Ground) -> Outcome {
    let created = ground.create_cluster("demo", 1).await?;
    let (mut pods, mut clusters) = (follow_pods(ground), follow(ground));
    let workers = |count: usize| move |pods: &Picture<NodeFact>| ready(pods, NodeRole::Worker) == Some(count);
    pods.until("one worker", workers(1)).await?;
    let head = |pods: &Picture<NodeFact>| pods.values().find(|pod| pod.role == NodeRole::Head).cloned();
    let before = head(pods.until("a head", |pods| head(pods).is_some()).await?);

    for (replicas, count) in [(3, 3), (1, 1), (0, 0), (2, 2)] {
        ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", replicas)]}})).await?;
        pods.until("so many workers as wanted", workers(count)).await?;
        clusters
            .until_object(&created, "a status with that count", |object| {
                object.raw["status"]["readyWorkerReplicas"].as_i64().unwrap_or(0) == i64::from(replicas)
            })
            .await?;
    }
    // Replicas above their bound are clamped in silence, and a second group comes beside the first.
    let mut bounded = group("small", 5);
    bounded["maxReplicas"] = json!(1);
    let groups = json!([bounded, group("big", 1)]);
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": groups}})).await?;
    let in_group = |pods: &Picture<NodeFact>, name: &str| pods.values().filter(|pod| pod.group == name).count();
    let picture = pods
        .until("one worker of each group", |pods| {
            ready(pods, NodeRole::Worker) == Some(2) && in_group(pods, "small") == 1 && in_group(pods, "big") == 1
        })
        .await?;
    assert_eq!(head(picture).map(|pod| pod.uid), before.map(|pod| pod.uid), "the head stays");
    Ok(())
}

pub(crate) async fn suspension_takes_the_pods_until_it_ends(ground: &Ground) -> Outcome {
    let created = ground.create_cluster("demo", 1).await?;
    let (mut pods, mut clusters) = (follow_pods(ground), follow(ground));
    clusters.until_object(&created, "a ready cluster", is_ready).await?;

    ground.edit("demo", &json!({"spec": {"suspend": true}})).await?;
    let suspended = clusters
        .until_object(&created, "a suspended cluster", |object| {
            object.raw["status"]["state"] == "suspended" && holds(object, "RayClusterSuspended")
        })
        .await?;
    assert!(!holds(&suspended, "RayClusterSuspending") && !holds(&suspended, "RayClusterProvisioned"));
    pods.until_synced().await?;
    pods.until("no pod", Picture::is_empty).await?;

    ground.edit("demo", &json!({"spec": {"suspend": false}})).await?;
    pods.until("two ready pods", |pods| pods.values().filter(|pod| pod.ready).count() == 2).await?;
    let resumed = clusters.until_object(&created, "a ready cluster", is_ready).await?;
    assert_eq!(condition(&resumed, "RayClusterSuspended")["status"], "False");
    Ok(())
}

pub(crate) async fn cluster_of_another_controller_is_left_alone(ground: &Ground) -> Outcome {
    let quiet = ground.backend.clusters.create(&quiet(&ground.namespace, "quiet")?).await?;
    ground.create_cluster("demo", 1).await?;
    let mut pods = follow_pods(ground);
    let picture = pods.until("two ready pods", |pods| pods.values().filter(|pod| pod.ready).count() == 2).await?;
    assert!(picture.values().all(|pod| pod.owner_uid != quiet.uid()));
    assert_eq!(ground.get("quiet").await?.raw, quiet.raw);
    Ok(())
}

pub(crate) async fn pods_keep_to_their_scope(ground: &Ground) -> Outcome {
    let mut cluster = quiet(&ground.elsewhere, "demo")?;
    if let Some(spec) = &mut cluster.spec {
        spec.extra.shift_remove("managedBy");
    }
    let foreign = ground.backend.clusters.create(&cluster).await?;
    let mut everywhere = Follower::new(ground.backend.workloads.watch(&Scope::All));
    let of_foreign = |pods: &Picture<NodeFact>| pods.values().any(|pod| pod.owner_uid == foreign.uid());
    everywhere.until("a pod elsewhere", of_foreign).await?;

    let mut here = follow_pods(ground);
    let own = ground.create_cluster("demo", 0).await?;
    let picture = here.until("an own pod", |pods| pods.values().any(|pod| pod.owner_uid == own.uid())).await?;
    assert!(picture.keys().all(|(namespace, _)| *namespace == ground.namespace));
    Ok(())
}
