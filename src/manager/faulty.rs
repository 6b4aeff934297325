//! For tests: a backend that fails, or answers late, as a test tells it to while it is used.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{BoxStream, unfold};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::{
    Backend, Change, Deletion, ManagerError, Observed, Preconditions, ResourceManager, Scope, Watch, Workloads,
};
use crate::ray::facts::NodeFact;

/// A call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`ResourceManager::list`].
    List,
    /// [`ResourceManager::get`].
    Get,
    /// [`ResourceManager::create`].
    Create,
    /// [`ResourceManager::patch`].
    Patch,
    /// [`ResourceManager::delete`].
    Delete,
    /// [`ResourceManager::create`] that stores nothing.
    DryCreate,
    /// [`ResourceManager::patch`] that stores nothing.
    DryPatch,
    /// [`ResourceManager::delete`] that stores nothing.
    DryDelete,
    /// [`Workloads::list`].
    Pods,
}

/// What happens to a call.
#[derive(Clone)]
pub enum Fault {
    /// Nothing: it is let through.
    None,
    /// It is never made, and comes to this.
    Instead(ManagerError),
    /// It is made, and whatever it came to is lost: it comes to this.
    AnswerLost(ManagerError),
    /// It waits at the gate before it is made.
    Held(Arc<Gate>),
    /// It is made, and its answer waits at the gate.
    AnswerHeld(Arc<Gate>),
}

/// Where calls, or their answers, wait until a test lets them pass.
pub struct Gate {
    arrived: Semaphore,
    passes: Semaphore,
}

impl Gate {
    /// A gate that nothing passes yet.
    #[must_use]
    pub fn shut() -> Arc<Self> {
        Arc::new(Self { arrived: Semaphore::new(0), passes: Semaphore::new(0) })
    }

    /// Waits until one more has arrived.
    pub async fn arrived(&self) {
        take(&self.arrived).await;
    }

    /// Lets one pass.
    pub fn pass(&self) {
        self.passes.add_permits(1);
    }

    /// Arrives, and waits until it may pass.
    pub async fn wait(&self) {
        self.arrived.add_permits(1);
        take(&self.passes).await;
    }
}

async fn take(semaphore: &Semaphore) {
    // It is never closed.
    if let Ok(permit) = semaphore.acquire().await {
        permit.forget();
    }
}

/// How the watches fare.
#[derive(Default, Clone, Copy)]
struct Watches {
    held: bool,
    ended: bool,
    /// How often they have begun anew.
    begun: u64,
}

#[derive(Default)]
struct Script {
    rules: Vec<(Call, usize, Fault)>,
    made: BTreeMap<Call, usize>,
}

/// What happens to the calls and watches of a backend; nothing at first. A test adds to it while the backend is used.
#[derive(Clone, Default)]
pub struct Faults {
    script: Arc<Mutex<Script>>,
    watches: Arc<watch::Sender<Watches>>,
}

impl Faults {
    /// The backend, with faults to be added.
    #[must_use]
    pub fn over(backend: &Backend) -> (Backend, Self) {
        let faults = Self::default();
        let clusters = Faulty { inner: Arc::clone(&backend.clusters), faults: faults.clone(), dry_run: false };
        let workloads = Faulty { inner: Arc::clone(&backend.workloads), faults: faults.clone(), dry_run: false };
        (Backend { clusters: Arc::new(clusters), workloads: Arc::new(workloads) }, faults)
    }

    /// The next so many of these calls, after those that faults have been added for before, fare like this.
    pub fn add(&self, call: Call, times: usize, fault: Fault) {
        self.script().rules.push((call, times, fault));
    }

    /// From now on nothing happens to any call.
    pub fn clear(&self) {
        self.script().rules.clear();
    }

    /// How many of these calls have been asked for.
    #[must_use]
    pub fn asked(&self, call: Call) -> usize {
        self.script().made.get(&call).copied().unwrap_or_default()
    }

    /// Holds the changes of all watches back, or lets them come again.
    pub fn hold_watches(&self, held: bool) {
        self.watches.send_modify(|watches| watches.held = held);
    }

    /// All watches begin anew.
    pub fn reset_watches(&self) {
        self.watches.send_modify(|watches| watches.begun += 1);
    }

    /// All watches end, which none ever may.
    pub fn end_watches(&self) {
        self.watches.send_modify(|watches| watches.ended = true);
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to this call.
    fn next(&self, call: Call) -> Fault {
        let mut script = self.script();
        *script.made.entry(call).or_default() += 1;
        let Some((_, times, fault)) = script.rules.iter_mut().find(|(of, times, _)| *of == call && *times > 0) else {
            return Fault::None;
        };
        *times -= 1;
        fault.clone()
    }

    async fn around<T>(
        &self,
        call: Call,
        made: impl Future<Output = Result<T, ManagerError>> + Send,
    ) -> Result<T, ManagerError> {
        match self.next(call) {
            Fault::None => made.await,
            Fault::Instead(error) => Err(error),
            Fault::AnswerLost(error) => {
                drop(made.await);
                Err(error)
            }
            Fault::Held(gate) => {
                gate.wait().await;
                made.await
            }
            Fault::AnswerHeld(gate) => {
                let answer = made.await;
                gate.wait().await;
                answer
            }
        }
    }

    /// A watch that fares as the watches do; it lives as the first one does.
    fn watch<T: Send + 'static>(&self, open: impl Fn() -> Watch<T> + Send + 'static) -> Watch<T> {
        let mut news = self.watches.subscribe();
        let begun = news.borrow_and_update().begun;
        let Watch { changes, life } = open();
        let steps = Steps { open, changes, begun, news, _teller: Arc::clone(&self.watches) };
        Watch { changes: unfold(steps, Steps::next).boxed(), life }
    }
}

/// The steps of a watch.
struct Steps<T, F> {
    open: F,
    changes: BoxStream<'static, Change<T>>,
    begun: u64,
    news: watch::Receiver<Watches>,
    /// Kept, so that there always is somebody who may tell news.
    _teller: Arc<watch::Sender<Watches>>,
}

impl<T, F: Fn() -> Watch<T>> Steps<T, F> {
    async fn next(mut self) -> Option<(Change<T>, Self)> {
        loop {
            let Watches { held, ended, begun } = *self.news.borrow_and_update();
            if ended {
                return None;
            }
            if begun != self.begun {
                self.changes = (self.open)().changes;
                self.begun = begun;
            }
            tokio::select! {
                biased;
                _ = self.news.changed() => {}
                change = self.changes.next(), if !held => return Some((change?, self)),
            }
        }
    }
}

/// A port, and what happens to its calls.
struct Faulty<P: ?Sized> {
    inner: Arc<P>,
    faults: Faults,
    dry_run: bool,
}

#[async_trait]
impl<K: Send + Sync + 'static> ResourceManager<K> for Faulty<dyn ResourceManager<K>> {
    async fn list(&self, scope: &Scope, label_selector: Option<&str>) -> Result<Vec<Observed<K>>, ManagerError> {
        self.faults.around(Call::List, self.inner.list(scope, label_selector)).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<K>, ManagerError> {
        self.faults.around(Call::Get, self.inner.get(namespace, name)).await
    }

    async fn create(&self, object: &K) -> Result<Observed<K>, ManagerError> {
        let call = if self.dry_run { Call::DryCreate } else { Call::Create };
        self.faults.around(call, self.inner.create(object)).await
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<K>, ManagerError> {
        let call = if self.dry_run { Call::DryPatch } else { Call::Patch };
        self.faults.around(call, self.inner.patch(namespace, name, resource_version, patch)).await
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<K>, ManagerError> {
        let call = if self.dry_run { Call::DryDelete } else { Call::Delete };
        self.faults.around(call, self.inner.delete(namespace, name, preconditions)).await
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<K>> {
        let (inner, scope) = (Arc::clone(&self.inner), scope.clone());
        self.faults.watch(move || inner.watch(&scope))
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<K>> {
        Arc::new(Self { inner: self.inner.dry_run(), faults: self.faults.clone(), dry_run: true })
    }
}

#[async_trait]
impl Workloads for Faulty<dyn Workloads> {
    fn watch(&self, scope: &Scope) -> Watch<NodeFact> {
        let (inner, scope) = (Arc::clone(&self.inner), scope.clone());
        self.faults.watch(move || inner.watch(&scope))
    }

    async fn list(&self, namespace: &str, cluster: &str) -> Result<Vec<NodeFact>, ManagerError> {
        self.faults.around(Call::Pods, self.inner.list(namespace, cluster)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::manager::memory;
    use crate::ray::cluster::RayCluster;

    fn faulty() -> (Backend, Faults) {
        Faults::over(&memory::backend(memory::Options { namespaces: vec!["n".into()], ..memory::Options::default() }))
    }

    fn cluster(name: &str) -> RayCluster {
        let metadata = json!({"name": name, "namespace": "n"});
        // Nobody else writes to a cluster of another controller.
        let spec = json!({"managedBy": "kueue.x-k8s.io/multikueue", "headGroupSpec": {"template": {"spec": {"containers": []}}}});
        let object = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn lost() -> ManagerError {
        ManagerError::OutcomeUnknown("lost".into())
    }

    #[tokio::test]
    async fn a_call_fares_as_it_is_told_so_many_times_and_in_order() {
        let (backend, faults) = faulty();
        let clusters = &backend.clusters;
        faults.add(Call::Create, 1, Fault::Instead(lost()));
        faults.add(Call::Create, 1, Fault::None);
        faults.add(Call::Create, 2, Fault::AnswerLost(lost()));
        let mut made = Vec::new();
        for name in ["a", "b", "c", "c", "d"] {
            made.push(clusters.create(&cluster(name)).await.map(|_| ()));
        }
        assert_eq!(made, [Err(lost()), Ok(()), Err(lost()), Err(lost()), Ok(())]);
        let there: Vec<_> =
            clusters.list(&Scope::All, None).await.unwrap().iter().map(|one| one.name().to_owned()).collect();
        assert_eq!(there, ["b", "c", "d"], "what isn't made isn't there, and what is lost is");
        assert_eq!((faults.asked(Call::Create), faults.asked(Call::Get)), (5, 0));
        faults.add(Call::Get, usize::MAX, Fault::Instead(ManagerError::Conflict));
        assert_eq!(clusters.get("n", "b").await.map(|_| ()), Err(ManagerError::Conflict));
        faults.clear();
        assert!(clusters.get("n", "b").await.is_ok());
    }

    #[tokio::test]
    async fn dry_runs_have_faults_of_their_own() {
        let (backend, faults) = faulty();
        let checks = backend.clusters.dry_run();
        faults.add(Call::DryCreate, 1, Fault::Instead(lost()));
        assert!(backend.clusters.create(&cluster("a")).await.is_ok());
        assert_eq!(checks.create(&cluster("b")).await.map(|_| ()), Err(lost()));
        assert!(checks.create(&cluster("b")).await.is_ok());
        assert_eq!(backend.clusters.list(&Scope::All, None).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn calls_and_answers_wait_at_their_gate() {
        let (backend, faults) = faulty();
        for (name, fault, done) in [("a", Fault::Held as fn(_) -> _, false), ("b", Fault::AnswerHeld, true)] {
            let gate = Gate::shut();
            faults.add(Call::Create, 1, fault(Arc::clone(&gate)));
            let object = cluster(name);
            let mut call = backend.clusters.create(&object);
            assert!(call.as_mut().now_or_never().is_none());
            gate.arrived().await;
            assert_eq!(backend.clusters.get("n", name).await.is_ok(), done);
            gate.pass();
            assert!(call.await.is_ok());
            assert!(backend.clusters.get("n", name).await.is_ok());
        }
    }

    #[tokio::test]
    async fn watches_are_held_begin_anew_and_end() {
        let (backend, faults) = faulty();
        let mut watch = backend.clusters.watch(&Scope::All);
        let kind = |change: Option<Change<Observed<RayCluster>>>| match change {
            Some(Change::Reset) => "reset",
            Some(Change::Applied(_)) => "applied",
            Some(Change::Deleted(_)) => "deleted",
            Some(Change::Synced) => "synced",
            None => "ended",
        };
        let mut next = async || kind(watch.changes.next().await);
        assert_eq!((next().await, next().await), ("reset", "synced"));
        faults.hold_watches(true);
        backend.clusters.create(&cluster("a")).await.unwrap();
        assert!(next().now_or_never().is_none(), "nothing comes");
        faults.hold_watches(false);
        assert_eq!(next().await, "applied");
        faults.reset_watches();
        assert_eq!((next().await, next().await, next().await), ("reset", "applied", "synced"));
        faults.end_watches();
        assert_eq!(next().await, "ended");
    }
}
