//! What the contract can't say of every backend: the order of a life, bounded memory, and random sequences.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::collection::LOG_LENGTH;
use super::{Options, backend, life};
use crate::manager::{Backend, Change, ManagerError, Observed, Preconditions, Scope, Watch};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::{ContainerState, NodeFact, NodeRole};

mod failures;
mod parts;
mod sequences;

const NAMESPACES: [&str; 2] = ["home", "elsewhere"];

fn new_backend() -> Backend {
    backend(Options {
        namespaces: NAMESPACES.map(str::to_owned).to_vec(),
        pod_start_delay: Duration::from_secs(3),
        pod_stop_delay: Duration::from_secs(2),
        ..Options::default()
    })
}

fn cluster(namespace: &str, name: &str, replicas: i32) -> RayCluster {
    let template = json!({"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}});
    let group = json!({"groupName": "small", "replicas": replicas, "template": template});
    let spec = json!({"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]});
    serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})).unwrap()
}

async fn patch(backend: &Backend, namespace: &str, name: &str, patch: Value) -> Result<(), ManagerError> {
    let object = backend.clusters.get(namespace, name).await?;
    backend.clusters.patch(namespace, name, object.resource_version(), &patch).await?;
    Ok(())
}

/// Under a paused clock time moves only once every task is idle: afterwards all that was due has happened.
async fn until_quiet() {
    sleep(Duration::from_hours(1)).await;
}

/// What a watch shows, read as far as it goes without waiting.
struct Seen<T> {
    watch: Watch<T>,
    objects: BTreeMap<(String, String), T>,
    newest: u64,
    resets: usize,
    synced: bool,
}

trait Shown {
    fn key(&self) -> (String, String);
    fn version(&self) -> u64;
}

impl Shown for Observed<RayCluster> {
    fn key(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    fn version(&self) -> u64 {
        self.resource_version().parse().unwrap()
    }
}

impl Shown for NodeFact {
    fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    fn version(&self) -> u64 {
        self.resource_version.parse().unwrap()
    }
}

impl<T: Shown> Seen<T> {
    fn new(watch: Watch<T>) -> Self {
        Self { watch, objects: BTreeMap::new(), newest: 0, resets: 0, synced: false }
    }

    /// Reads what there is; between pictures versions must rise strictly.
    fn read(&mut self) {
        while let Some(step) = self.watch.changes.next().now_or_never() {
            match step.unwrap() {
                Change::Reset => {
                    self.objects.clear();
                    self.resets += 1;
                    self.synced = false;
                }
                Change::Applied(object) => {
                    self.note(object.version());
                    self.objects.insert(object.key(), object);
                }
                Change::Deleted(object) => {
                    self.note(object.version());
                    assert!(self.objects.remove(&object.key()).is_some(), "deleted what wasn't there");
                }
                Change::Synced => self.synced = true,
            }
        }
        assert!(self.synced, "an unfinished picture");
    }

    fn note(&mut self, version: u64) {
        assert!(!self.synced || version > self.newest, "{version} after {}", self.newest);
        self.newest = self.newest.max(version);
    }

    fn versions(&self) -> Vec<u64> {
        self.objects.values().map(Shown::version).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn workers_wait_for_their_head() {
    let backend = new_backend();
    backend.clusters.create(&cluster("home", "demo", 2)).await.unwrap();
    let mut pods = backend.workloads.watch(&Scope::All).changes;
    let (mut head_ready, mut waited, mut ready) = (false, 0, 0);
    while ready < 2 {
        if let Change::Applied(pod) = pods.next().await.unwrap() {
            let waits = || matches!(pod.containers[0].state, ContainerState::Running(_));
            match pod.role {
                NodeRole::Head if pod.ready => head_ready = true,
                NodeRole::Head => assert!(matches!(pod.reason(), Some("ContainerCreating") | None)),
                NodeRole::Worker if pod.ready => ready += 1,
                NodeRole::Worker if !head_ready && waits() => {
                    assert_eq!((pod.containers[0].name.as_str(), pod.containers[0].init), ("wait-gcs-ready", true));
                    assert_eq!((pod.phase.as_str(), pod.reason()), ("Pending", Some("PodInitializing")));
                    waited += 1;
                }
                NodeRole::Worker | NodeRole::Other => assert!(!pod.ready),
            }
        }
    }
    assert!(head_ready && waited == 2);
}

#[tokio::test(start_paused = true)]
async fn pods_go_strictly_before_their_cluster() {
    let backend = new_backend();
    backend.clusters.create(&cluster("home", "demo", 2)).await.unwrap();
    until_quiet().await;
    let mut pods = Seen::new(backend.workloads.watch(&Scope::All));
    pods.read();
    assert_eq!(pods.objects.len(), 3);
    backend.clusters.delete("home", "demo", &Preconditions::default()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    pods.read();
    assert_eq!(pods.objects.values().filter(|pod| pod.deleting).count(), 3);
    let held = backend.clusters.get("home", "demo").await.unwrap();
    assert_eq!(held.metadata.finalizers, Some(vec!["foregroundDeletion".to_owned()]));
    sleep(Duration::from_secs(2)).await;
    pods.read();
    assert!(pods.objects.is_empty());
    assert_eq!(backend.clusters.get("home", "demo").await.err(), Some(ManagerError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn only_an_explicit_false_resumes() {
    let backend = new_backend();
    backend.clusters.create(&cluster("home", "demo", 1)).await.unwrap();
    for (suspend, expected) in [(json!(null), 2), (json!(true), 0), (json!(null), 0), (json!(false), 2)] {
        patch(&backend, "home", "demo", json!({"spec": {"suspend": suspend}})).await.unwrap();
        until_quiet().await;
        let mut pods = Seen::new(backend.workloads.watch(&Scope::All));
        pods.read();
        assert_eq!(pods.objects.len(), expected, "{suspend}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_finds_invalid_is_stored_and_left_alone() {
    let backend = new_backend();
    let negative = cluster("home", "negative", 0);
    backend.clusters.create(&negative).await.unwrap();
    let groups = |min: i32, max: i32| {
        let mut group = serde_json::to_value(&negative.spec.clone().unwrap().worker_group_specs.unwrap()[0]).unwrap();
        group["minReplicas"] = json!(min);
        group["maxReplicas"] = json!(max);
        json!({"spec": {"workerGroupSpecs": [group]}})
    };
    for (min, max) in [(-1, 2), (3, 2)] {
        patch(&backend, "home", "negative", groups(min, max)).await.unwrap();
        until_quiet().await;
        let object = backend.clusters.get("home", "negative").await.unwrap();
        assert_eq!(object.raw.get("status"), None);
    }
    patch(&backend, "home", "negative", groups(0, 2)).await.unwrap();
    until_quiet().await;
    let object = backend.clusters.get("home", "negative").await.unwrap();
    assert_eq!(object.raw["status"]["state"], "ready");
}

#[tokio::test(start_paused = true)]
async fn careless_replicas_stop_at_the_limit() {
    let backend = new_backend();
    let mut pods = Seen::new(backend.workloads.watch(&Scope::All));
    pods.read();
    backend.clusters.create(&cluster("home", "vast", i32::MAX)).await.unwrap();
    until_quiet().await;
    // The second cluster gets its head once there is room.
    backend.clusters.create(&cluster("home", "small", 0)).await.unwrap();
    until_quiet().await;
    pods.read();
    assert_eq!(pods.objects.len(), life::POD_LIMIT);
    assert_eq!(pods.resets, 2, "who is that far behind is shown a new picture");
    let vast = backend.clusters.get("home", "vast").await.unwrap().decoded.unwrap();
    assert_eq!(vast.condition("ReplicaFailure"), Some(true));
    assert_eq!(vast.condition("RayClusterProvisioned"), Some(false));

    backend.clusters.delete("home", "vast", &Preconditions::default()).await.unwrap();
    until_quiet().await;
    pods.read();
    assert_eq!(pods.objects.len(), 1);
    let small = backend.clusters.get("home", "small").await.unwrap().decoded.unwrap();
    assert_eq!((small.condition("ReplicaFailure"), small.condition("HeadPodReady")), (None, Some(true)));
}

#[tokio::test(start_paused = true)]
async fn slow_watcher_starts_again() {
    let backend = new_backend();
    let mut quiet = cluster("home", "demo", 0);
    quiet.spec.as_mut().unwrap().extra.insert("managedBy".to_owned(), json!("kueue.x-k8s.io/multikueue"));
    backend.clusters.create(&quiet).await.unwrap();
    let mut seen = Seen::new(backend.clusters.watch(&Scope::All));
    seen.read();
    for count in 0..=LOG_LENGTH {
        let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
        patch(&backend, "home", "demo", label).await.unwrap();
    }
    seen.read();
    assert_eq!(seen.resets, 2);
    let object = seen.objects.values().next().unwrap();
    assert_eq!(object.raw["metadata"]["labels"]["count"], LOG_LENGTH.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_between_threads() {
    const WRITES: usize = 200;
    let backend = new_backend();
    let mut watch = backend.clusters.watch(&Scope::All).changes;
    let writers = (0..4).map(|writer| {
        let backend = backend.clone();
        tokio::spawn(async move {
            let name = format!("writer-{writer}");
            let mut quiet = cluster("home", &name, 0);
            quiet.spec.as_mut().unwrap().extra.insert("managedBy".to_owned(), json!("kueue.x-k8s.io/multikueue"));
            backend.clusters.create(&quiet).await.unwrap();
            for count in 1..WRITES {
                let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
                patch(&backend, "home", &name, label).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    assert!(matches!(watch.next().await, Some(Change::Reset)));
    let (mut newest, mut shown) = (0, BTreeMap::new());
    while shown.len() < 4 || shown.values().any(|count| *count < WRITES - 1) {
        match watch.next().await.unwrap() {
            Change::Applied(object) => {
                let count =
                    object.raw["metadata"]["labels"]["count"].as_str().map_or(0, |count| count.parse().unwrap());
                let last = shown.insert(object.name().to_owned(), count);
                assert!(last.is_none_or(|last| count == last + 1), "{count} after {last:?}");
                // In a picture the objects come by name.
                newest = newest.max(object.version());
            }
            Change::Synced => {}
            step @ (Change::Reset | Change::Deleted(_)) => panic!("{step:?}"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(newest, 4 * u64::try_from(WRITES).unwrap());
}

#[tokio::test(start_paused = true)]
async fn finalizer_set_beforehand_stops_no_delete() {
    let backend = new_backend();
    backend.clusters.create(&cluster("home", "demo", 0)).await.unwrap();
    let finalizers = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    patch(&backend, "home", "demo", finalizers).await.unwrap();
    backend.clusters.delete("home", "demo", &Preconditions::default()).await.unwrap();
    until_quiet().await;
    assert_eq!(backend.clusters.get("home", "demo").await.err(), Some(ManagerError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn life_ends_with_the_backend() {
    let metrics = Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let Backend { clusters, workloads } = new_backend();
    clusters.create(&cluster("home", "demo", 1)).await.unwrap();
    let mut watch = clusters.watch(&Scope::All).changes;
    drop(clusters);
    until_quiet().await;
    assert_eq!(metrics.num_alive_tasks(), before + 1);
    drop(workloads);
    until_quiet().await;
    assert_eq!(metrics.num_alive_tasks(), before);
    while watch.next().now_or_never().is_some_and(|step| step.is_some()) {}
    assert!(watch.next().now_or_never().is_none(), "the watch goes silent, it doesn't end");
}
