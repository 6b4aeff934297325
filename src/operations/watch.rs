//! Follow the changes of clusters.

use std::sync::Arc;

use super::{ApiError, Selection, Service};
use crate::access::{Action, Caller};
use crate::stream::Subscription;

impl Service {
    /// The clusters that the caller selects and may see, now and from now on.
    ///
    /// # Errors
    /// A namespace that the caller may not use; a selector that can't be read.
    pub fn watch(&self, caller: &Caller, selection: &Selection) -> Result<Subscription, ApiError> {
        let fits = self.filter(caller, Action::WatchClusters, selection)?;
        self.known()?;
        Ok(Subscription::collection(Arc::clone(&self.cache), Box::new(fits), self.settings.heartbeat))
    }

    /// One cluster until it is deleted.
    ///
    /// # Errors
    /// No such cluster.
    pub fn watch_one(&self, caller: &Caller, reference: &str) -> Result<Subscription, ApiError> {
        let key = self.resolve(caller, Action::WatchCluster, reference)?;
        self.known()?;
        Subscription::single(Arc::clone(&self.cache), key.clone(), self.settings.heartbeat)
            .ok_or_else(|| ApiError::no_cluster(&key.to_string()))
    }
}
