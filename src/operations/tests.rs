//! Use cases against each other: what one finds out is true of what another did meanwhile.

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;

mod rights;

use super::*;
use crate::manager::{Deletion, Observed, Preconditions, ResourceManager, Scope, Watch, memory};
use crate::ray::body::Format;
use crate::ray::cluster::RayCluster;
use crate::ray::lens::DELETION_PROTECTION;

/// Where answers wait after what was asked for is done.
struct Gate {
    done: Semaphore,
    answer: Semaphore,
}

impl Gate {
    /// Each answer waits for a permit.
    fn shut() -> Self {
        Self { done: Semaphore::new(0), answer: Semaphore::new(0) }
    }

    /// No answer waits.
    fn open() -> Self {
        Self { done: Semaphore::new(0), answer: Semaphore::new(Semaphore::MAX_PERMITS) }
    }

    async fn pass(&self) {
        self.done.add_permits(1);
        self.answer.acquire().await.unwrap().forget();
    }
}

/// A backend whose reads or patches answer late.
struct Late {
    inner: Arc<dyn ResourceManager<RayCluster>>,
    reads: Gate,
    patches: Gate,
}

#[async_trait]
impl ResourceManager<RayCluster> for Late {
    async fn list(&self, scope: &Scope, labels: Option<&str>) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        self.inner.list(scope, labels).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        let found = self.inner.get(namespace, name).await;
        self.reads.pass().await;
        found
    }

    async fn create(&self, object: &RayCluster) -> Result<Observed<RayCluster>, ManagerError> {
        self.inner.create(object).await
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        let patched = self.inner.patch(namespace, name, version, patch).await;
        self.patches.pass().await;
        patched
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<RayCluster>, ManagerError> {
        self.inner.delete(namespace, name, preconditions).await
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<RayCluster>> {
        self.inner.watch(scope)
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<RayCluster>> {
        self.inner.dry_run()
    }
}

/// A service over the embedded backend, which answers late at these gates.
async fn service(access: Access, reads: Gate, patches: Gate) -> (Arc<Service>, Arc<Late>) {
    let options = memory::Options {
        namespaces: vec!["default".into()],
        pod_start_delay: Duration::from_millis(10),
        pod_stop_delay: Duration::from_millis(10),
        ..memory::Options::default()
    };
    let mut backend = memory::backend(options);
    let late = Arc::new(Late { inner: backend.clusters.clone(), reads, patches });
    backend.clusters = late.clone();
    let (cache, feeds) = Cache::new(&backend, &[Scope::All]);
    for feed in feeds {
        tokio::spawn(feed);
    }
    let defaults = Defaults { ray_version: "2.52.0".into(), head_cpu: "1".into(), head_memory: "1Gi".into() };
    let settings = Settings {
        defaults,
        max_staleness: Duration::from_mins(1),
        heartbeat: Duration::from_secs(20),
        read_wait: Duration::from_secs(2),
        patience: Duration::from_secs(20),
        settle: Duration::from_secs(1),
    };
    let service = Arc::new(Service::new(backend, cache, Arc::new(access), settings));
    while !service.cache.synced() {
        tokio::task::yield_now().await;
    }
    (service, late)
}

/// "Not found" is old news of a cluster that came to be while the answer was on its way.
#[tokio::test]
async fn a_late_not_found_hides_no_newer_cluster() {
    let access = Access::open(Vec::new(), "default".into());
    let caller = access.anonymous();
    let (service, late) = service(access, Gate::shut(), Gate::open()).await;

    let (patcher, asking) = (service.clone(), caller.clone());
    let patch = tokio::spawn(async move {
        let body = br#"{"labels": {"a": "b"}}"#;
        patcher.patch(&asking, "demo", (Format::Json, body), &Terms::default()).await.map(|_| ())
    });
    late.reads.done.acquire().await.unwrap().forget();
    service.create(&caller, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();
    late.reads.answer.add_permits(1);
    assert_eq!(patch.await.unwrap().unwrap_err().code, ErrorCode::NotFound);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(service.get(&caller, "demo", Freshness::Known).await.is_ok(), "what was created is there");
}

/// A cluster that comes under protection after it was read for the delete is still there.
#[tokio::test]
async fn a_protection_that_comes_in_between_holds() {
    let access = Access::open(Vec::new(), "default".into());
    let caller = access.anonymous();
    let (service, late) = service(access, Gate::shut(), Gate::open()).await;
    service.create(&caller, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();

    let (deleter, asking) = (service.clone(), caller.clone());
    let delete =
        tokio::spawn(async move { deleter.delete(&asking, "demo", false, &Terms::default()).await.map(|_| ()) });
    late.reads.done.acquire().await.unwrap().forget();
    let held = late.inner.get("default", "demo").await.unwrap();
    let protection = serde_json::json!({"metadata": {"annotations": {DELETION_PROTECTION: "v1"}}});
    late.inner.patch("default", "demo", held.resource_version(), &protection).await.unwrap();
    late.reads.answer.add_permits(2);
    assert_eq!(delete.await.unwrap().unwrap_err().code, ErrorCode::DeletionProtected);
    assert!(late.inner.get("default", "demo").await.unwrap().metadata.deletion_timestamp.is_none());
}
