//! What becomes of what a replica has begun when it is killed. Replicas of other tests would finish it: these run alone.

use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use raygate::access::Access;
use raygate::manager::kubernetes::{Options, backend};
use raygate::manager::{Deletion, ManagerError, Observed, Preconditions, ResourceManager, Scope, Watch};
use raygate::ray::begun::{DROPPED_GROUPS, is_observed};
use raygate::ray::cluster::RayCluster;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::finishing::dropping::{BY_WORD, dropped, three_groups};
use super::super::finishing::{
    Scene, annotation, assert_no_errors, becomes, condition, document, is_restarting, of_groups, verb,
};
use crate::bed::{Duration, kubeconfig};
use crate::contract::Outcome;
use crate::support::{InProcess, Raygate, eventually};

async fn drop_second(raygate: &Raygate) -> Outcome {
    let answer = raygate.send(Method::DELETE, "/clusters/demo/workerGroups/second", &[("if-match", "*")], "").await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_entry_of_a_dropped_group_goes_by_the_operators_word() -> Outcome {
    let scene = Scene::new("word").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    let before = scene.create(&raygate, &document("demo", &three_groups())).await?;
    drop_second(&raygate).await?;
    dropped(&scene, &before, &["second"]).await?;
    assert_no_errors(&raygate)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_entry_of_a_dropped_group_stays_where_the_operator_says_nothing() -> Outcome {
    let scene = Scene::new("silent").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    let mut silent = document("silent", &three_groups());
    silent["managedBy"] = "kueue.x-k8s.io/multikueue".into();
    assert_eq!(raygate.post("/clusters", &silent).await?.status, 201);
    let path = "/clusters/silent/workerGroups/second";
    assert_eq!(raygate.send(Method::DELETE, path, &[("if-match", "*")], "").await?.status, 202);
    let marked = scene.stored("silent").await?;
    assert_eq!(annotation(&marked, DROPPED_GROUPS), r#"["second"]"#);
    // Meanwhile another cluster's group goes: the process has had the time.
    let before = scene.create(&raygate, &document("demo", &three_groups())).await?;
    drop_second(&raygate).await?;
    dropped(&scene, &before, &["second"]).await?;
    assert_eq!(scene.stored("silent").await?, marked, "no pod is there, but one might come");
    assert_no_errors(&raygate)?;
    raygate.kill().await?;

    let other = scene.raygate(&["--settle-seconds=1"]).await?;
    let is_over = |stored: &Value| annotation(stored, DROPPED_GROUPS).is_null();
    let after = scene.holds("silent", "its entry goes after a while without pods", is_over).await?;
    let left = after["spec"]["workerGroupSpecs"].as_array().map(Vec::len);
    assert_eq!((left, scene.pods("silent").await?.len()), (Some(2), 0));
    assert_no_errors(&other)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_dropped_group_waits_while_no_replica_runs() -> Outcome {
    let scene = Scene::new("killed").await?;
    let raygate = scene.raygate(BY_WORD).await?;
    let before = scene.create(&raygate, &document("demo", &three_groups())).await?;
    // Its entry can't go before the process does.
    scene.hold(&before.1).await?;
    drop_second(&raygate).await?;
    raygate.kill().await?;
    scene.let_go(&before.1).await?;
    eventually("its pods are gone", async || {
        Ok(of_groups(&scene.pods("demo").await?, &["second"]).is_empty().then_some(()))
    })
    .await?;
    let stored = scene.holds("demo", "the operator has acted on it", is_observed).await?;
    assert_eq!(annotation(&stored, DROPPED_GROUPS), r#"["second"]"#);
    let entry = &stored["spec"]["workerGroupSpecs"][1];
    let numbers = ["groupName", "replicas", "minReplicas", "maxReplicas"].map(|member| entry[member].clone());
    assert_eq!(numbers, [json!("second"), json!(0), json!(0), json!(0)]);

    let other = scene.raygate(BY_WORD).await?;
    dropped(&scene, &before, &["second"]).await?;
    assert_no_errors(&other)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_dropped_group_is_finished_by_the_replica_that_is_left() -> Outcome {
    let scene = Scene::new("left").await?;
    let (raygate, other) = (scene.raygate(BY_WORD).await?, scene.raygate(BY_WORD).await?);
    let before = scene.create(&raygate, &document("demo", &three_groups())).await?;
    scene.hold(&before.1).await?;
    drop_second(&raygate).await?;
    raygate.kill().await?;
    scene.let_go(&before.1).await?;
    dropped(&scene, &before, &["second"]).await?;
    assert_no_errors(&other)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_waits_while_no_replica_runs() -> Outcome {
    let scene = Scene::new("killed").await?;
    let raygate = scene.raygate(&[]).await?;
    let (object, pods) = scene.create(&raygate, &document("demo", &three_groups())).await?;
    scene.hold(&pods).await?;
    assert_eq!(verb(&raygate, "demo", "restart").await?.status, 202);
    raygate.kill().await?;
    scene.let_go(&pods).await?;
    let stored =
        scene.holds("demo", "it is suspended", |stored| condition(stored, "RayClusterSuspended") == "True").await?;
    assert_eq!((is_restarting(&stored), &stored["spec"]["suspend"]), (true, &json!(true)), "it stays so");
    assert!(scene.pods("demo").await?.is_empty());

    let other = scene.raygate(&[]).await?;
    scene.restarted(&other, "demo", &pods).await?;
    assert_generations(&scene, &object).await?;
    assert_no_errors(&other)
}

/// A restart changes the spec twice: it stops, and it resumes.
async fn assert_generations(scene: &Scene, before: &Value) -> Outcome {
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    let after = scene.stored("demo").await?;
    assert_eq!(generation(&after), generation(before).map(|before| before + 2));
    let versions = scene.versions("demo").await?;
    let mut suspended: Vec<_> = versions.iter().map(|version| version["spec"]["suspend"] == true).collect();
    suspended.dedup();
    assert_eq!(suspended, [false, true, false]);
    Ok(())
}

/// RayClusters over Kubernetes; the answer to the patch that ends a restart doesn't come while it is stuck.
struct Stuck {
    clusters: Arc<dyn ResourceManager<RayCluster>>,
    /// Whether that patch is sent before it is stuck, or afterwards.
    sends: bool,
    /// Whether one is stuck.
    reached: watch::Sender<bool>,
    /// Whether it goes on.
    released: watch::Sender<bool>,
}

#[async_trait]
impl ResourceManager<RayCluster> for Stuck {
    async fn list(
        &self,
        scope: &Scope,
        label_selector: Option<&str>,
    ) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        self.clusters.list(scope, label_selector).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        self.clusters.get(namespace, name).await
    }

    async fn create(&self, object: &RayCluster) -> Result<Observed<RayCluster>, ManagerError> {
        self.clusters.create(object).await
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        let send = async || self.clusters.patch(namespace, name, resource_version, patch).await;
        if patch["spec"]["suspend"] != false {
            return send().await;
        }
        let answer = if self.sends { Some(send().await) } else { None };
        self.reached.send_replace(true);
        let _ = self.released.subscribe().wait_for(|released| *released).await;
        let answer = match answer {
            Some(given) => given,
            None => send().await,
        };
        self.reached.send_replace(false);
        answer
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<RayCluster>, ManagerError> {
        self.clusters.delete(namespace, name, preconditions).await
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<RayCluster>> {
        self.clusters.watch(scope)
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<RayCluster>> {
        self.clusters.dry_run()
    }
}

/// A replica that restarts the cluster `demo` and is stuck at the restart's end; what holds it.
async fn stuck(scene: &Scene, sends: bool) -> Outcome<(InProcess, Arc<Stuck>)> {
    let options = Options {
        kubeconfig: Some(kubeconfig()?),
        context: None,
        call_timeout: Duration::from_secs(30),
        watch_timeout_seconds: 25,
        watch_backoff_max: Duration::from_secs(1),
    };
    let mut backend = backend(options).await?;
    let (reached, released) = (watch::Sender::new(false), watch::Sender::new(false));
    let stuck = Arc::new(Stuck { clusters: Arc::clone(&backend.clusters), sends, reached, released });
    backend.clusters = Arc::clone(&stuck) as Arc<dyn ResourceManager<RayCluster>>;
    let namespace = &scene.bed.namespace;
    let flags = [&format!("--namespace={namespace}"), &format!("--default-namespace={namespace}")];
    let access = Access::open(vec![namespace.clone()], namespace.clone());
    let api = InProcess::start(&backend, access, &flags.map(String::as_str)).await?;
    becomes(&api, "demo", "READY").await?;
    assert_eq!(verb(&api, "demo", "restart").await?.status, 202);
    stuck.reached.subscribe().wait_for(|reached| *reached).await?;
    Ok((api, stuck))
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_whose_end_never_left_is_ended_by_another_replica() -> Outcome {
    let scene = Scene::new("unsent").await?;
    let raygate = scene.raygate(&[]).await?;
    let (object, pods) = scene.create(&raygate, &document("demo", &three_groups())).await?;
    raygate.kill().await?;
    let (api, _stuck) = stuck(&scene, false).await?;
    api.end().await?;
    assert!(is_restarting(&scene.stored("demo").await?));

    let other = scene.raygate(&[]).await?;
    scene.restarted(&other, "demo", &pods).await?;
    assert_generations(&scene, &object).await?;
    assert_no_errors(&other)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restarts_end_that_comes_late_changes_nothing() -> Outcome {
    let scene = Scene::new("late").await?;
    let raygate = scene.raygate(&[]).await?;
    let (object, pods) = scene.create(&raygate, &document("demo", &three_groups())).await?;
    raygate.kill().await?;
    let (api, stuck) = stuck(&scene, false).await?;
    let other = scene.raygate(&[]).await?;
    scene.restarted(&other, "demo", &pods).await?;
    // Somebody stops it for good: what comes late doesn't start it.
    assert_eq!(verb(&other, "demo", "stop").await?.status, 202);
    becomes(&other, "demo", "STOPPED").await?;
    stuck.released.send_replace(true);
    stuck.reached.subscribe().wait_for(|reached| !*reached).await?;
    becomes(&api, "demo", "STOPPED").await?;
    assert_eq!(verb(&api, "demo", "stop").await?.status, 200, "it is stopped");
    api.end().await?;
    let stored = scene.stored("demo").await?;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    assert_eq!(generation(&stored), generation(&object).map(|before| before + 3), "stopped, resumed, stopped");
    assert_eq!(stored["spec"]["suspend"], true);
    assert_no_errors(&other)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_restart_whose_end_was_done_unanswered_is_not_ended_twice() -> Outcome {
    let scene = Scene::new("unanswered").await?;
    let raygate = scene.raygate(&[]).await?;
    let (object, pods) = scene.create(&raygate, &document("demo", &three_groups())).await?;
    raygate.kill().await?;
    let (api, _stuck) = stuck(&scene, true).await?;
    api.end().await?;
    let stored = scene.stored("demo").await?;
    assert_eq!((is_restarting(&stored), &stored["spec"]["suspend"]), (false, &json!(false)), "it was done");

    let other = scene.raygate(&[]).await?;
    scene.restarted(&other, "demo", &pods).await?;
    assert_generations(&scene, &object).await?;
    assert_no_errors(&other)
}
