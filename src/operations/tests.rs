//! Use cases against each other: what one finds out is true of what another did meanwhile.

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;

mod rights;

use super::*;
use crate::manager::{Deletion, Observed, Preconditions, ResourceManager, Scope, Watch, memory};
use crate::ray::body::Format;
use crate::ray::cluster::RayCluster;

/// A backend whose reads answer late: each waits for a permit after it has read.
struct Late {
    inner: Arc<dyn ResourceManager<RayCluster>>,
    read: Semaphore,
    answer: Semaphore,
}

#[async_trait]
impl ResourceManager<RayCluster> for Late {
    async fn list(&self, scope: &Scope, labels: Option<&str>) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        self.inner.list(scope, labels).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        let found = self.inner.get(namespace, name).await;
        self.read.add_permits(1);
        self.answer.acquire().await.unwrap().forget();
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
        self.inner.patch(namespace, name, version, patch).await
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
}

/// "Not found" is old news of a cluster that came to be while the answer was on its way.
#[tokio::test]
async fn a_late_not_found_hides_no_newer_cluster() {
    let options = memory::Options {
        namespaces: vec!["default".into()],
        pod_start_delay: Duration::from_millis(10),
        pod_stop_delay: Duration::from_millis(10),
        ..memory::Options::default()
    };
    let mut backend = memory::backend(options);
    let late = Arc::new(Late { inner: backend.clusters.clone(), read: Semaphore::new(0), answer: Semaphore::new(0) });
    backend.clusters = late.clone();
    let (cache, feeds) = Cache::new(&backend, &[Scope::All]);
    for feed in feeds {
        tokio::spawn(feed);
    }
    let access = Arc::new(Access::open(Vec::new(), "default".into()));
    let caller = access.anonymous();
    let defaults = Defaults { ray_version: "2.52.0".into(), head_cpu: "1".into(), head_memory: "1Gi".into() };
    let settings = Settings { defaults, max_staleness: Duration::from_mins(1), heartbeat: Duration::from_secs(20) };
    let service = Arc::new(Service::new(backend, cache, access, settings));
    while !service.cache.synced() {
        tokio::task::yield_now().await;
    }

    let (patcher, asking) = (service.clone(), caller.clone());
    let patch = tokio::spawn(async move {
        let body = br#"{"labels": {"a": "b"}}"#;
        patcher.patch(&asking, "demo", (Format::Json, body), &Guard::default()).await.map(|_| ())
    });
    late.read.acquire().await.unwrap().forget();
    service.create(&caller, Format::Json, br#"{"name": "demo"}"#).await.map(|_| ()).unwrap();
    late.answer.add_permits(1);
    assert_eq!(patch.await.unwrap().unwrap_err().code, ErrorCode::NotFound);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(service.get(&caller, "demo").is_ok(), "what was created is there");
}
