//! Following a watch: step by step, or as the picture that the steps add up to.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use raygate::manager::{Change, Observed, Watch};
use raygate::ray::cluster::RayCluster;
use raygate::ray::facts::NodeFact;
use tokio::time::timeout;

use super::Outcome;

/// How long anything may take before a promise counts as broken.
const PATIENCE: Duration = Duration::from_mins(2);

/// The objects by namespace and name.
pub(super) type Picture<T> = BTreeMap<(String, String), T>;

/// What a watch shows, with namespace, name and resourceVersion.
pub(super) trait Watched: Clone {
    fn key(&self) -> (String, String);
    fn version(&self) -> &str;
}

impl Watched for Observed<RayCluster> {
    fn key(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    fn version(&self) -> &str {
        self.resource_version()
    }
}

impl Watched for NodeFact {
    fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    fn version(&self) -> &str {
        &self.resource_version
    }
}

/// Someone who follows a watch.
pub(super) struct Follower<T> {
    watch: Watch<T>,
    picture: Picture<T>,
    /// The picture that is being shown anew, until it is whole.
    next: Option<Picture<T>>,
}

impl<T: Watched> Follower<T> {
    pub(super) fn new(watch: Watch<T>) -> Self {
        Self { watch, picture: Picture::new(), next: None }
    }

    /// The next step, which must come.
    pub(super) async fn step(&mut self) -> Outcome<Change<T>> {
        let step = timeout(PATIENCE, self.watch.changes.next()).await.map_err(|_| "nothing more on the watch")?;
        let step = step.ok_or("the watch ended")?;
        match &step {
            Change::Reset => self.next = Some(Picture::new()),
            Change::Applied(object) => {
                self.shown().insert(object.key(), object.clone());
            }
            Change::Deleted(object) => {
                self.shown().remove(&object.key());
            }
            Change::Synced => self.picture = self.next.take().ok_or("Synced without Reset")?,
        }
        Ok(step)
    }

    fn shown(&mut self) -> &mut Picture<T> {
        self.next.as_mut().unwrap_or(&mut self.picture)
    }

    /// Whether this object is shown now.
    pub(super) fn holds(&self, object: &Observed<RayCluster>) -> bool {
        self.picture.contains_key(&object.key())
    }

    /// Follows until the whole picture satisfies this.
    pub(super) async fn until(&mut self, what: &str, holds: impl Fn(&Picture<T>) -> bool) -> Outcome<&Picture<T>> {
        let follow = async {
            while self.next.is_some() || !holds(&self.picture) {
                self.step().await?;
            }
            Outcome::Ok(())
        };
        timeout(PATIENCE, follow).await.map_err(|_| format!("never came: {what}"))??;
        Ok(&self.picture)
    }

    /// Follows until the first picture is whole.
    pub(super) async fn until_synced(&mut self) -> Outcome<&Picture<T>> {
        while !matches!(self.step().await?, Change::Synced) {}
        Ok(&self.picture)
    }

    /// Follows until this object is shown and satisfies this.
    pub(super) async fn until_object(
        &mut self,
        object: &Observed<RayCluster>,
        what: &str,
        holds: impl Fn(&T) -> bool,
    ) -> Outcome<T> {
        let key = object.key();
        let picture = self.until(what, |picture| picture.get(&key).is_some_and(&holds)).await?;
        Ok(picture.get(&key).ok_or("gone")?.clone())
    }

    /// Follows until this object is no longer shown.
    pub(super) async fn until_gone(&mut self, object: &Observed<RayCluster>) -> Outcome {
        let key = object.key();
        self.until("the object is gone", |picture| !picture.contains_key(&key)).await?;
        Ok(())
    }
}
