//! What a write begins and a replica finishes: restarts, and worker groups that are dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use http::Method;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use raygate::ray::begun::{DROPPED_GROUPS, RESTART, RESTARTED};
use tokio::task::JoinSet;

use super::*;
use crate::support::{Answer, Api as RaygateApi};

pub(super) mod dropping;
mod images;
mod meddling;
mod restarting;

/// What keeps a pod that is being deleted.
const HOLD: &str = "example.com/hold";

/// A namespace, and all that its RayClusters and pods go through, by watches of the apiserver.
pub(super) struct Scene {
    pub(super) bed: Bed,
    clusters: Events,
    pods: Events,
    _watches: JoinSet<()>,
}

/// What a watch has told so far, in order; an event that isn't an object ends it.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Result<Value, String>>>>);

impl Events {
    fn push(&self, event: Result<Value, String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn objects(&self) -> Outcome<Vec<Value>> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(events.into_iter().collect::<Result<_, _>>()?)
    }

    /// The objects that it tells, once it has told of these versions.
    async fn upto(&self, present: &[Value]) -> Outcome<Vec<Value>> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        eventually("the watch tells what is there", async || {
            let told = self.objects()?;
            let is_told = |wanted: &Value| told.iter().any(|object| version(object) == version(wanted));
            Ok(present.iter().all(is_told).then_some(told))
        })
        .await
    }
}

/// Watches what there will be in an empty namespace.
async fn watch(api: Api<DynamicObject>, events: Events) {
    let mut version = "0".to_owned();
    loop {
        let parameters = WatchParams::default().disable_bookmarks().timeout(290);
        let mut stream = match api.watch(&parameters, &version).await {
            Ok(stream) => stream.boxed(),
            Err(error) => return events.push(Err(error.to_string())),
        };
        while let Some(event) = stream.next().await {
            let object = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => object,
                other => return events.push(Err(format!("the watch said {other:?}"))),
            };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            events.push(serde_json::to_value(object).map_err(|error| error.to_string()));
        }
    }
}

impl Scene {
    /// A new namespace.
    pub(super) async fn new(subject: &str) -> Outcome<Self> {
        let bed = Bed::new(subject).await?;
        let (clusters, pods) = (Events::default(), Events::default());
        let mut watches = JoinSet::new();
        watches.spawn(watch(bed.clusters(), clusters.clone()));
        let kind = ApiResource::erase::<Pod>(&());
        watches.spawn(watch(Api::namespaced_with(bed.client.clone(), &bed.namespace, &kind), pods.clone()));
        Ok(Self { bed, clusters, pods, _watches: watches })
    }

    /// raygate over this namespace, and no other.
    pub(super) async fn raygate(&self, arguments: &[&str]) -> Outcome<Raygate> {
        self.bed.raygate(&[&["--namespace", &self.bed.namespace], arguments].concat()).await
    }

    /// The RayCluster as the apiserver holds it.
    pub(super) async fn stored(&self, name: &str) -> Outcome<Value> {
        Ok(serde_json::to_value(self.bed.clusters().get(name).await?)?)
    }

    /// All that the RayCluster has been, up to what it is.
    pub(super) async fn versions(&self, name: &str) -> Outcome<Vec<Value>> {
        let mut told = self.clusters.upto(&[self.stored(name).await?]).await?;
        told.retain(|object| object["metadata"]["name"] == name);
        Ok(told)
    }

    fn pod_api(&self) -> Api<Pod> {
        Api::namespaced(self.bed.client.clone(), &self.bed.namespace)
    }

    /// A cluster's pods that there are, also those that are being deleted.
    pub(super) async fn pods(&self, cluster: &str) -> Outcome<Vec<Value>> {
        let ours = ListParams::default().labels(&format!("ray.io/cluster={cluster}"));
        let pods = self.pod_api().list(&ours).await?.items;
        Ok(pods.into_iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// A cluster's pods that there are or have been, by uid.
    pub(super) async fn pods_ever(&self, cluster: &str) -> Outcome<BTreeMap<String, Value>> {
        let mut told = self.pods.upto(&self.pods(cluster).await?).await?;
        told.retain(|pod| pod["metadata"]["labels"]["ray.io/cluster"] == cluster);
        Ok(told.into_iter().map(|pod| (uid(&pod), pod)).collect())
    }

    /// Merges a patch into the RayCluster, past raygate.
    pub(super) async fn patch(&self, name: &str, patch: Value) -> Outcome {
        self.bed.clusters().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// These pods stay, whoever deletes them, until they are let go.
    pub(super) async fn hold(&self, pods: &[Value]) -> Outcome {
        self.set_finalizers(pods, &json!([HOLD])).await
    }

    /// What was held goes, if it was deleted.
    pub(super) async fn let_go(&self, pods: &[Value]) -> Outcome {
        self.set_finalizers(pods, &Value::Null).await
    }

    async fn set_finalizers(&self, pods: &[Value], finalizers: &Value) -> Outcome {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        for pod in pods {
            let name = pod["metadata"]["name"].as_str().ok_or("no name")?;
            self.pod_api().patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Waits until the stored RayCluster is like this.
    pub(super) async fn holds(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Outcome<Value> {
        eventually(what, async || {
            let stored = self.stored(name).await?;
            Ok(fits(&stored).then_some(stored))
        })
        .await
    }

    /// Creates a cluster and waits until it is `READY`, and the operator knows it: as it is stored then, and its pods.
    ///
    /// One that is suspended before the operator has looked at the pods that it made is resumed minutes later
    /// (`isPodScaled` in KubeRay's `controllers/ray/expectations/scale_expectations.go`).
    pub(super) async fn create(&self, api: &RaygateApi, document: &Value) -> Outcome<(Value, Vec<Value>)> {
        let answer = api.post("/clusters", document).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        let name = document["name"].as_str().ok_or("no name")?;
        becomes(api, name, "READY").await?;
        let provisioned = |stored: &Value| condition(stored, "RayClusterProvisioned") == "True";
        let stored = self.holds(name, "the operator knows that it is ready", provisioned).await?;
        Ok((stored, self.pods(name).await?))
    }

    /// Waits until a restart is over and the cluster is `READY`, and checks that it has had as many pods anew as it had
    /// before, each once.
    pub(super) async fn restarted(&self, api: &RaygateApi, name: &str, old: &[Value]) -> Outcome {
        self.holds(name, "the restart is over", |stored| !is_restarting(stored)).await?;
        let pods = eventually("there are new pods, and they are ready", async || {
            let pods = self.pods(name).await?;
            Ok((pods.len() == old.len() && pods.iter().all(is_ready)).then_some(pods))
        })
        .await?;
        becomes(api, name, "READY").await?;
        let stored = self.stored(name).await?;
        assert_eq!(stored["spec"]["suspend"], false, "explicitly: {stored}");
        assert!(annotation(&stored, RESTARTED).is_string(), "{stored}");
        assert!(uids(&pods).iter().all(|uid| !uids(old).contains(uid)), "none of the old ones is left");
        assert_eq!(self.pods_ever(name).await?.len(), 2 * old.len(), "each was made anew once");
        Ok(())
    }
}

/// A cluster with these worker groups.
pub(super) fn document(name: &str, groups: &Value) -> Value {
    let mut document = json!({"name": name, "head": {"cpu": "0.1", "memory": "1Gi"}, "workerGroups": groups});
    for group in document["workerGroups"].as_object_mut().into_iter().flat_map(|groups| groups.values_mut()) {
        group["cpu"] = "0.1".into();
        group["memory"] = "1Gi".into();
    }
    document
}

/// Waits for a state.
pub(super) async fn becomes(api: &RaygateApi, name: &str, state: &str) -> Outcome<Value> {
    eventually(state, async || {
        let cluster = api.get(&format!("/clusters/{name}")).await?.json();
        Ok((cluster["status"]["state"] == state).then_some(cluster))
    })
    .await
}

pub(super) async fn verb(api: &RaygateApi, name: &str, verb: &str) -> Outcome<Answer> {
    api.send(Method::POST, &format!("/clusters/{name}/{verb}"), &[], "").await
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> &'a Value {
    &object["metadata"]["annotations"][key]
}

/// Whether a restart stands on the cluster.
pub(super) fn is_restarting(object: &Value) -> bool {
    annotation(object, RESTART).is_string()
}

/// The status of a condition of a RayCluster or pod.
pub(super) fn condition<'a>(object: &'a Value, wanted: &str) -> &'a str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == wanted).and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// Whether a pod is ready and stays.
fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready") == "True"
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The uids, sorted.
pub(super) fn uids(objects: &[Value]) -> Vec<String> {
    let mut uids: Vec<_> = objects.iter().map(uid).collect();
    uids.sort();
    uids
}

/// Those of the pods that are of these worker groups.
pub(super) fn of_groups(pods: &[Value], groups: &[&str]) -> Vec<Value> {
    let is_of = |pod: &&Value| groups.iter().any(|group| pod["metadata"]["labels"]["ray.io/group"] == *group);
    pods.iter().filter(is_of).cloned().collect()
}

/// Nothing has gone wrong in a process.
pub(super) fn assert_no_errors(raygate: &Raygate) -> Outcome {
    let log = raygate.log()?;
    let is_bad = |line: &&str| {
        let level = line.split_whitespace().nth(1).unwrap_or_default();
        line.contains("raygate") && ["ERROR", "WARN"].contains(&level)
    };
    let bad: Vec<_> = log.lines().filter(is_bad).collect();
    assert!(log.lines().any(|line| line.split_whitespace().nth(1) == Some("INFO")), "that's how levels are told");
    assert!(bad.is_empty(), "{bad:?}");
    Ok(())
}
