//! A backend whose news the test writes: versions and uids are the test's own, so that two worlds can be compared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::{Value, json};

use super::oracle::Key;
use crate::manager::{
    Change, Deletion, ManagerError, Observed, Preconditions, ProofOfLife, ResourceManager, Scope, Watch, Workloads,
};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeFact;
use crate::ray::json::merge;

/// Versions of what callers write begin here, above those of the test.
const FIRST_WRITE: u64 = 1_000_000;

/// Everything that there is, and who watches it.
#[derive(Default)]
pub(super) struct Scripted(Mutex<State>);

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Value>,
    pods: BTreeMap<String, NodeFact>,
    writes: u64,
    cluster_watches: Vec<Listener<Observed<RayCluster>>>,
    pod_watches: Vec<Listener<NodeFact>>,
}

struct Listener<T> {
    scope: Scope,
    news: UnboundedSender<Change<T>>,
}

fn covers(scope: &Scope, namespace: &str) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespace(one) => one == namespace,
    }
}

fn tell<T: Clone>(listeners: &[Listener<T>], namespace: &str, change: &Change<T>) {
    for listener in listeners.iter().filter(|listener| covers(&listener.scope, namespace)) {
        listener.news.unbounded_send(change.clone()).unwrap();
    }
}

fn listen<T: Send + 'static>(scope: &Scope, present: Vec<T>) -> (Listener<T>, Watch<T>) {
    let (news, changes) = unbounded();
    news.unbounded_send(Change::Reset).unwrap();
    for one in present {
        news.unbounded_send(Change::Applied(one)).unwrap();
    }
    news.unbounded_send(Change::Synced).unwrap();
    (Listener { scope: scope.clone(), news }, Watch { changes: changes.boxed(), life: ProofOfLife::always() })
}

fn observed(object: &Value) -> Observed<RayCluster> {
    Observed::from_raw(object.clone()).unwrap()
}

impl State {
    fn apply(&mut self, key: Key, object: Value) -> Observed<RayCluster> {
        let told = observed(&object);
        tell(&self.cluster_watches, key.0, &Change::Applied(told.clone()));
        self.objects.insert(key, object);
        told
    }

    fn next_version(&mut self) -> u64 {
        self.writes += 1;
        FIRST_WRITE + self.writes
    }

    fn held(&self, namespace: &str, name: &str) -> Result<(Key, Value), ManagerError> {
        let found = self.objects.iter().find(|(key, _)| key.0 == namespace && key.1 == name);
        found.map(|(key, object)| (*key, object.clone())).ok_or(ManagerError::NotFound)
    }
}

impl Scripted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What is held under a name.
    pub(super) fn get(&self, key: Key) -> Option<Value> {
        self.state().objects.get(&key).cloned()
    }

    /// From now on there is this under the name.
    pub(super) fn put(&self, key: Key, object: Value) {
        self.state().apply(key, object);
    }

    /// What is held under a name is gone; its last version was this.
    pub(super) fn remove(&self, key: Key, version: u64) {
        let mut state = self.state();
        if let Some(mut object) = state.objects.remove(&key) {
            object["metadata"]["resourceVersion"] = version.to_string().into();
            tell(&state.cluster_watches, key.0, &Change::Deleted(observed(&object)));
        }
    }

    /// From now on there is this pod of the cluster with this uid, or none.
    pub(super) fn pod(&self, owner: &str, pod: Option<NodeFact>) {
        let mut state = self.state();
        if let Some(pod) = pod {
            tell(&state.pod_watches, &pod.namespace, &Change::Applied(pod.clone()));
            state.pods.insert(owner.to_owned(), pod);
        } else if let Some(pod) = state.pods.remove(owner) {
            tell(&state.pod_watches, &pod.namespace, &Change::Deleted(pod.clone()));
        }
    }
}

#[async_trait]
impl ResourceManager<RayCluster> for Scripted {
    async fn list(&self, _: &Scope, _: Option<&str>) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        Err(ManagerError::Unexpected("nobody lists".into()))
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        self.state().held(namespace, name).map(|(_, object)| observed(&object))
    }

    async fn create(&self, cluster: &RayCluster) -> Result<Observed<RayCluster>, ManagerError> {
        let mut object = serde_json::to_value(cluster).unwrap();
        let called = |member: &str| cluster_text(&object, member);
        let key = Key::find(&called("namespace"), &called("name"));
        let key = key.ok_or(ManagerError::NamespaceNotFound("elsewhere".into()))?;
        let mut state = self.state();
        if state.objects.contains_key(&key) {
            return Err(ManagerError::AlreadyExists);
        }
        let version = state.next_version();
        let servers = json!({"uid": format!("made-{version}"), "resourceVersion": version.to_string()});
        merge(&mut object["metadata"], &servers);
        Ok(state.apply(key, object))
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        let mut state = self.state();
        let (key, mut object) = state.held(namespace, name)?;
        if object["metadata"]["resourceVersion"] != resource_version {
            return Err(ManagerError::Conflict);
        }
        merge(&mut object, patch);
        object["metadata"]["resourceVersion"] = state.next_version().to_string().into();
        Ok(state.apply(key, object))
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        _: &Preconditions,
    ) -> Result<Deletion<RayCluster>, ManagerError> {
        let mut state = self.state();
        let (key, mut object) = state.held(namespace, name)?;
        object["metadata"]["deletionTimestamp"] = "2020-01-02T00:00:00Z".into();
        object["metadata"]["resourceVersion"] = state.next_version().to_string().into();
        Ok(Deletion::Started(Box::new(state.apply(key, object))))
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<RayCluster>> {
        let mut state = self.state();
        let present = state.objects.iter().filter(|(key, _)| covers(scope, key.0));
        let present = present.map(|(_, object)| observed(object)).collect();
        let (listener, watch) = listen(scope, present);
        state.cluster_watches.push(listener);
        watch
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<RayCluster>> {
        // Nobody asks: there is nothing to check against.
        Arc::new(Self::default())
    }
}

fn cluster_text(object: &Value, member: &str) -> String {
    object["metadata"][member].as_str().unwrap_or_default().to_owned()
}

#[async_trait]
impl Workloads for Scripted {
    fn watch(&self, scope: &Scope) -> Watch<NodeFact> {
        let mut state = self.state();
        let present = state.pods.values().filter(|pod| covers(scope, &pod.namespace)).cloned().collect();
        let (listener, watch) = listen(scope, present);
        state.pod_watches.push(listener);
        watch
    }

    async fn list(&self, namespace: &str, _: &str) -> Result<Vec<NodeFact>, ManagerError> {
        Ok(self.state().pods.values().filter(|pod| pod.namespace == namespace).cloned().collect())
    }
}
