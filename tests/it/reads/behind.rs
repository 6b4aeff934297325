//! A replica that hasn't heard: a backend whose watch of clusters is held back, beside one that hears at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use raygate::access::Access;
use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, Deletion, ManagerError, Observed, Preconditions, ResourceManager, Scope, Watch};
use raygate::ray::cluster::RayCluster;
use serde_json::Value;
use tokio::sync::watch::Sender;

use crate::support::{InProcess, Outcome};

/// The clusters of another backend, of which it tells nothing while it is told so.
pub(super) struct Behind {
    inner: Arc<dyn ResourceManager<RayCluster>>,
    told: Sender<bool>,
    /// Whether lists are answered.
    listing: Sender<bool>,
    fails: AtomicBool,
    gets: AtomicUsize,
    lists: AtomicUsize,
    /// Lists that have been asked for and not answered.
    pub(super) under_way: Sender<usize>,
}

impl Behind {
    fn new(inner: Arc<dyn ResourceManager<RayCluster>>) -> Self {
        let (told, listing, under_way) = (Sender::new(true), Sender::new(true), Sender::new(0));
        let fails = AtomicBool::new(false);
        Self { inner, told, listing, fails, gets: AtomicUsize::new(0), lists: AtomicUsize::new(0), under_way }
    }

    /// From now on nothing is told of what changes.
    pub(super) fn hold(&self) {
        self.told.send_replace(false);
    }

    /// From now on it is told, and so is what was held back.
    pub(super) fn release(&self) {
        self.told.send_replace(true);
    }

    /// Whether lists are answered from now on.
    pub(super) fn set_listing(&self, listing: bool) {
        self.listing.send_replace(listing);
    }

    /// From now on reads fail.
    pub(super) fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// How often one cluster, and how often a list, was asked for since this was asked.
    pub(super) fn asked(&self) -> (usize, usize) {
        (self.gets.swap(0, Ordering::Relaxed), self.lists.swap(0, Ordering::Relaxed))
    }

    fn answers(&self) -> Result<(), ManagerError> {
        if self.fails.load(Ordering::Relaxed) { Err(ManagerError::Unavailable("as was said".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl ResourceManager<RayCluster> for Behind {
    async fn list(&self, scope: &Scope, labels: Option<&str>) -> Result<Vec<Observed<RayCluster>>, ManagerError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.answers()?;
        self.under_way.send_modify(|count| *count += 1);
        // Ends with the test at the latest.
        let _ = self.listing.subscribe().wait_for(|listing| *listing).await;
        self.under_way.send_modify(|count| *count -= 1);
        self.inner.list(scope, labels).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.answers()?;
        self.inner.get(namespace, name).await
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
        let Watch { changes, life } = self.inner.watch(scope);
        let told = self.told.subscribe();
        let changes = changes.then(move |change| {
            let mut told = told.clone();
            async move {
                let _ = told.wait_for(|told| *told).await;
                change
            }
        });
        Watch { changes: changes.boxed(), life }
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<RayCluster>> {
        self.inner.dry_run()
    }
}

/// Two replicas over one backend.
pub(super) struct Replicas {
    /// It hears at once.
    pub(super) near: InProcess,
    /// It hears when `behind` lets it.
    pub(super) far: InProcess,
    pub(super) behind: Arc<Behind>,
}

impl Replicas {
    /// Both serve by the same rules; the far one with these flags.
    pub(super) async fn start(access: impl Fn() -> Outcome<Access>, flags: &[&str]) -> Outcome<Self> {
        let namespaces = vec!["default".to_owned(), "other".to_owned()];
        let inner = backend(Options { namespaces, ..Options::default() });
        let behind = Arc::new(Behind::new(Arc::clone(&inner.clusters)));
        let outer = Backend { clusters: Arc::<Behind>::clone(&behind), workloads: Arc::clone(&inner.workloads) };
        let near = InProcess::start(&inner, access()?, &[]).await?;
        let far = InProcess::start(&outer, access()?, flags).await?;
        Ok(Self { near, far, behind })
    }

    /// Both serve everybody.
    pub(super) async fn open(flags: &[&str]) -> Outcome<Self> {
        Self::start(|| Ok(Access::open(Vec::new(), "default".into())), flags).await
    }

    /// Ends both in order.
    pub(super) async fn end(self) -> Outcome {
        self.behind.release();
        self.near.end().await?;
        self.far.end().await
    }
}
