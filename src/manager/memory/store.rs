//! An apiserver's semantics over maps: versions, generations, conflicts, foreground deletes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::collection::{Collection, Key};
use super::schema;
use crate::clock;
use crate::manager::{ManagerError, Preconditions, Scope};
use crate::ray::facts::NodeFact;
use crate::ray::json;

/// The finalizer that keeps an object until all it owns is gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The objects, behind one lock that is never held over an await.
pub(super) struct Store {
    namespaces: HashSet<String>,
    state: Mutex<State>,
    newest: watch::Sender<u64>,
}

/// Whether a write is stored, or only checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storing {
    Yes,
    /// `dryRun=All`.
    No,
}

/// Everything there is.
#[derive(Default)]
pub(super) struct State {
    version: u64,
    pub(super) clusters: Collection<Value>,
    pub(super) pods: Collection<NodeFact>,
    /// A cluster's key → the names of the pods made for it.
    made_for: BTreeMap<Key, BTreeSet<String>>,
    /// Clusters whose life must be looked at.
    dirty: BTreeSet<Key>,
    /// Machines whose kubelet is silent.
    silent: BTreeSet<String>,
}

/// A cluster whose life must be looked at, and all pods that were ever made under its name and are still there.
pub(super) struct Work {
    pub(super) key: Key,
    pub(super) cluster: Option<Arc<Value>>,
    pub(super) pods: Vec<Arc<NodeFact>>,
}

impl Store {
    pub(super) fn new(namespaces: Vec<String>) -> Self {
        Self { namespaces: namespaces.into_iter().collect(), state: Mutex::default(), newest: watch::Sender::new(0) }
    }

    /// Tells of every new version.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let version = state.version;
        self.newest.send_if_modified(|newest| std::mem::replace(newest, version) != version);
        result
    }

    pub(super) fn clusters(&self, scope: &Scope) -> Vec<Arc<Value>> {
        self.lock().clusters.objects(scope).collect()
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Result<Arc<Value>, ManagerError> {
        self.lock().clusters.get(&key(namespace, name)).ok_or(ManagerError::NotFound)
    }

    pub(super) fn create(&self, mut object: Value, storing: Storing) -> Result<Arc<Value>, ManagerError> {
        schema::decode(&object)?;
        let key = key(text(&object, "namespace"), text(&object, "name"));
        if !self.namespaces.contains(&key.0) {
            return Err(ManagerError::NamespaceNotFound(key.0));
        }
        if !text(&object, "resourceVersion").is_empty() {
            let reason = "resourceVersion should not be set on objects to be created";
            return Err(ManagerError::Unexpected(reason.to_owned()));
        }
        schema::prepare_create(&mut object);
        schema::normalize(&mut object);
        schema::check(&object, None)?;
        set(&mut object, "uid", json!(Uuid::new_v4().to_string()));
        set(&mut object, "creationTimestamp", json!(schema::time(clock::now())));
        set(&mut object, "generation", json!(1));
        self.write(|state| match state.clusters.get(&key) {
            Some(_) => Err(ManagerError::AlreadyExists),
            None if storing == Storing::No => Ok(Arc::new(object)),
            None => Ok(state.put(key, object)),
        })
    }

    pub(super) fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
        storing: Storing,
    ) -> Result<Arc<Value>, ManagerError> {
        let key = key(namespace, name);
        self.write(|state| {
            let old = state.clusters.get(&key).ok_or(ManagerError::NotFound)?;
            let mut new = Value::clone(&old);
            json::merge(&mut new, patch);
            schema::decode(&new)?;
            if text(&old, "resourceVersion") != resource_version {
                return Err(ManagerError::Conflict);
            }
            schema::prepare_update(&mut new, &old)?;
            schema::normalize(&mut new);
            schema::check(&new, Some(&old))?;
            if new == *old {
                return Ok(old);
            }
            if new["spec"] != old["spec"] {
                bump_generation(&mut new);
            }
            if storing == Storing::No {
                return Ok(Arc::new(new));
            }
            Ok(state.put_or_finish(key, new))
        })
    }

    /// Starts a foreground delete, or finds it started.
    pub(super) fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
        storing: Storing,
    ) -> Result<Arc<Value>, ManagerError> {
        let key = key(namespace, name);
        let holds = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        self.write(|state| {
            let old = state.clusters.get(&key).ok_or(ManagerError::NotFound)?;
            if !holds(&preconditions.uid, text(&old, "uid"))
                || !holds(&preconditions.resource_version, text(&old, "resourceVersion"))
            {
                return Err(ManagerError::Conflict);
            }
            let mut new = Value::clone(&old);
            let mut finalizers = finalizers(&old);
            if !finalizers.iter().any(|name| name == FOREGROUND) {
                finalizers.push(FOREGROUND.to_owned());
                set(&mut new, "finalizers", json!(finalizers));
            }
            if !is_deleting(&old) {
                set(&mut new, "deletionTimestamp", json!(schema::time(clock::now())));
                set(&mut new, "deletionGracePeriodSeconds", json!(0));
                bump_generation(&mut new);
            }
            match storing {
                _ if new == *old => Ok(old),
                Storing::No => Ok(Arc::new(new)),
                Storing::Yes => Ok(state.put(key, new)),
            }
        })
    }

    /// Writes the status, if the cluster is still the one of this uid.
    pub(super) fn set_status(&self, key: &Key, uid: &str, status: Value) {
        self.write(|state| {
            let Some(old) = state.clusters.get(key).filter(|old| text(old, "uid") == uid) else {
                return;
            };
            let mut new = Value::clone(&old);
            if let Some(members) = new.as_object_mut() {
                members.insert("status".to_owned(), status);
            }
            if new != *old {
                state.put(key.clone(), new);
            }
        });
    }

    /// Nothing that the cluster owns is left: ends its foreground delete.
    pub(super) fn release(&self, key: &Key, uid: &str) {
        self.write(|state| {
            let Some(old) = state.clusters.get(key).filter(|old| text(old, "uid") == uid) else {
                return;
            };
            let mut new = Value::clone(&old);
            let finalizers: Vec<String> = finalizers(&old).into_iter().filter(|name| name != FOREGROUND).collect();
            set(&mut new, "finalizers", json!(finalizers));
            state.put_or_finish(key.clone(), new);
        });
    }

    /// The next cluster whose life must be looked at.
    pub(super) fn next_work(&self) -> Option<Work> {
        let mut state = self.lock();
        let key = state.dirty.pop_first()?;
        let cluster = state.clusters.get(&key);
        let pods = state.pods_made_for(&key);
        Some(Work { key, cluster, pods })
    }

    /// The pods that were made under a cluster's name and are still there.
    pub(super) fn pods_of(&self, namespace: &str, name: &str) -> Vec<Arc<NodeFact>> {
        self.lock().pods_made_for(&key(namespace, name))
    }

    /// Marks clusters whose life must be looked at, besides those that change.
    pub(super) fn mark(&self, keys: impl IntoIterator<Item = Key>) {
        self.lock().dirty.extend(keys);
    }

    /// Machines whose kubelet is silent.
    pub(super) fn silent(&self) -> BTreeSet<String> {
        self.lock().silent.clone()
    }

    /// Silences a machine, or lets it speak again.
    pub(super) fn set_silent(&self, node: &str, silent: bool) {
        self.write(|state| {
            let changed = if silent { state.silent.insert(node.to_owned()) } else { state.silent.remove(node) };
            if changed {
                state.next_version();
            }
        });
    }

    /// How many pods there are.
    pub(super) fn pod_count(&self) -> usize {
        self.lock().pods.len()
    }

    /// Stores a new pod of this cluster; `false` where its name is taken.
    pub(super) fn add_pod(&self, cluster: &Key, fact: NodeFact) -> bool {
        self.write(|state| {
            let free = state.pods.get(&(fact.namespace.clone(), fact.name.clone())).is_none();
            if free {
                state.made_for.entry(cluster.clone()).or_default().insert(fact.name.clone());
                state.put_pod(cluster, fact);
            }
            free
        })
    }

    /// Changes a pod of this cluster, if it is still the one of this uid and the change changes anything.
    pub(super) fn change_pod(&self, cluster: &Key, name: &str, uid: &str, change: impl FnOnce(&mut NodeFact)) {
        self.write(|state| {
            let Some(old) = state.pods.get(&key(&cluster.0, name)).filter(|old| old.uid == uid) else {
                return;
            };
            let mut new = NodeFact::clone(&old);
            change(&mut new);
            if new != *old {
                state.put_pod(cluster, new);
            }
        });
    }

    /// Removes a pod of this cluster, if it is still the one of this uid.
    pub(super) fn remove_pod(&self, cluster: &Key, name: &str, uid: &str) {
        let pod = key(&cluster.0, name);
        self.write(|state| {
            let Some(old) = state.pods.get(&pod).filter(|old| old.uid == uid) else {
                return;
            };
            let version = state.next_version();
            let last = NodeFact { resource_version: version.to_string(), ..NodeFact::clone(&old) };
            state.pods.remove(&pod, version, Arc::new(last));
            if let Some(names) = state.made_for.get_mut(cluster) {
                names.remove(name);
                if names.is_empty() {
                    state.made_for.remove(cluster);
                }
            }
            state.dirty.insert(cluster.clone());
        });
    }
}

impl State {
    fn pods_made_for(&self, cluster: &Key) -> Vec<Arc<NodeFact>> {
        let names = self.made_for.get(cluster).into_iter().flatten();
        names.filter_map(|name| self.pods.get(&(cluster.0.clone(), name.clone()))).collect()
    }

    /// The newest version of anything.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        let version = self.next_version();
        set(&mut object, "resourceVersion", json!(version.to_string()));
        let object = Arc::new(object);
        self.dirty.insert(key.clone());
        self.clusters.apply(key, version, Arc::clone(&object));
        object
    }

    /// Stores the object, or lets it go if it is being deleted and no finalizer holds it any longer.
    fn put_or_finish(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        if !is_deleting(&object) || !finalizers(&object).is_empty() {
            return self.put(key, object);
        }
        let version = self.next_version();
        set(&mut object, "resourceVersion", json!(version.to_string()));
        let object = Arc::new(object);
        self.clusters.remove(&key, version, Arc::clone(&object));
        self.dirty.insert(key);
        object
    }

    fn put_pod(&mut self, cluster: &Key, mut fact: NodeFact) {
        let version = self.next_version();
        fact.resource_version = version.to_string();
        self.pods.apply((fact.namespace.clone(), fact.name.clone()), version, Arc::new(fact));
        self.dirty.insert(cluster.clone());
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

/// A text member of the object's metadata; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object["metadata"][member].as_str().unwrap_or_default()
}

/// Whether the object has a deletion time.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The object's finalizers.
pub(super) fn finalizers(object: &Value) -> Vec<String> {
    let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Sets a member of the object's metadata; an empty list removes it.
fn set(object: &mut Value, member: &str, value: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if value.as_array().is_some_and(Vec::is_empty) {
            metadata.shift_remove(member);
        } else {
            metadata.insert(member.to_owned(), value);
        }
    }
}

fn bump_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    set(object, "generation", json!(generation + 1));
}
