//! Random sequences of operations, each under a paused clock of its own.

use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::sleep;

use super::{NAMESPACES, Seen, Shown, cluster, new_backend, patch, until_quiet};
use crate::manager::{Backend, Observed, Preconditions, Scope};
use crate::ray::cluster::{RayCluster, WorkerGroupSpec};

#[derive(Debug, Clone)]
enum Step {
    Create(usize, usize, i32),
    Label(usize, usize, u8),
    Scale(usize, usize, i32),
    Suspend(usize, usize, Option<bool>),
    Hold(usize, usize, bool),
    Delete(usize, usize),
    Wait(u64),
    Read,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = (0..NAMESPACES.len(), 0..3_usize);
    let suspend = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    let step = prop_oneof![
        4 => (place.clone(), 0..4).prop_map(|((n, c), replicas)| Step::Create(n, c, replicas)),
        2 => (place.clone(), 0..3_u8).prop_map(|((n, c), value)| Step::Label(n, c, value)),
        2 => (place.clone(), 0..4).prop_map(|((n, c), replicas)| Step::Scale(n, c, replicas)),
        2 => (place.clone(), suspend).prop_map(|((n, c), suspend)| Step::Suspend(n, c, suspend)),
        1 => (place.clone(), any::<bool>()).prop_map(|((n, c), hold)| Step::Hold(n, c, hold)),
        2 => place.prop_map(|(n, c)| Step::Delete(n, c)),
        3 => (0..6000_u64).prop_map(Step::Wait),
        1 => Just(Step::Read),
    ];
    prop::collection::vec(step, 0..40)
}

async fn carry_out(backend: &Backend, step: &Step) {
    let names = |n: usize, c: usize| (NAMESPACES[n], ["a", "b", "a-small"][c]);
    let edit = |n, c, change: Value| {
        let (namespace, name) = names(n, c);
        patch(backend, namespace, name, change).map(drop)
    };
    match *step {
        Step::Create(n, c, replicas) => {
            let (namespace, name) = names(n, c);
            let _ = backend.clusters.create(&cluster(namespace, name, replicas)).await;
        }
        Step::Label(n, c, value) => edit(n, c, json!({"metadata": {"labels": {"value": value.to_string()}}})).await,
        Step::Scale(n, c, replicas) => {
            let groups = serde_json::to_value(&cluster("", "", replicas).spec.unwrap().worker_group_specs).unwrap();
            edit(n, c, json!({"spec": {"workerGroupSpecs": groups}})).await;
        }
        Step::Suspend(n, c, suspend) => edit(n, c, json!({"spec": {"suspend": suspend}})).await,
        Step::Hold(n, c, true) => edit(n, c, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await,
        Step::Hold(n, c, false) => edit(n, c, json!({"metadata": {"finalizers": null}})).await,
        Step::Delete(n, c) => {
            let (namespace, name) = names(n, c);
            let _ = backend.clusters.delete(namespace, name, &Preconditions::default()).await;
        }
        Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
        Step::Read => {}
    }
}

/// How many pods a cluster has once nothing is due any longer; `None` where that depends on its past.
fn settled_pods(object: &Observed<RayCluster>) -> Option<usize> {
    let typed = object.decoded.as_ref().unwrap();
    let workers: i64 = typed.worker_groups().map(WorkerGroupSpec::desired_pods).sum();
    match typed.spec.as_ref().unwrap().suspend {
        // Held by a foreign finalizer: nobody looks after pods that were left.
        _ if object.metadata.deletion_timestamp.is_some() => None,
        Some(true) => Some(0),
        None if typed.condition("RayClusterSuspended") == Some(true) => Some(0),
        None | Some(false) => Some(usize::try_from(workers).unwrap() + 1),
    }
}

async fn sequence_keeps_the_promises(steps: &[Step]) {
    let backend = new_backend();
    let mut eager = Seen::new(backend.clusters.watch(&Scope::All));
    let mut lazy = Seen::new(backend.clusters.watch(&Scope::All));
    let mut local = Seen::new(backend.clusters.watch(&Scope::Namespace("home".to_owned())));
    let mut pods = Seen::new(backend.workloads.watch(&Scope::All));
    lazy.read();
    for step in steps {
        carry_out(&backend, step).await;
        if matches!(step, Step::Read) {
            eager.read();
            local.read();
            pods.read();
        }
    }
    until_quiet().await;
    for seen in [&mut eager, &mut lazy, &mut local] {
        seen.read();
    }
    pods.read();

    let listed = backend.clusters.list(&Scope::All, None).await.unwrap();
    let versions: Vec<u64> = listed.iter().map(Shown::version).collect();
    assert_eq!(eager.versions(), versions);
    assert_eq!(lazy.versions(), versions);
    let at_home = backend.clusters.list(&Scope::Namespace("home".to_owned()), None).await.unwrap();
    assert_eq!(local.versions(), at_home.iter().map(Shown::version).collect::<Vec<_>>());
    for object in &listed {
        let own = pods.objects.values().filter(|pod| pod.owner_uid == object.uid());
        if let Some(expected) = settled_pods(object) {
            assert_eq!(own.filter(|pod| pod.ready && !pod.deleting).count(), expected, "{:#}", object.raw);
        }
    }
    assert!(pods.objects.values().all(|pod| listed.iter().any(|object| object.uid() == pod.owner_uid)));
}

#[test]
fn random_sequences_keep_the_promises() {
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&steps(), |steps| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(sequence_keeps_the_promises(&steps));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
