//! Read clusters: one, a page of many, the object behind one. All from the cache; `through` sees to it that it is new enough.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::{ApiError, ErrorCode, Freshness, Service, page_token, shown};
use crate::access::{Action, Caller, Sight, Standing, Target};
use crate::cache::{Entry, Shown};
use crate::ray::fault::{Fault, FaultCode};
use crate::ray::name::is_dns1123_label;
use crate::ray::owner::ME;
use crate::ray::selector::Selector;
use crate::ray::yaml;
use crate::stream::{Lens, Sees};

/// Which clusters a list or stream is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// A namespace, or `*` for all that the caller may see; left out it is the caller's default namespace.
    pub namespace: Option<String>,
    /// What the clusters' labels must satisfy, in Kubernetes' syntax; left out all are meant.
    pub label_selector: Option<String>,
    /// Whose: a name, or `me`; left out it is everybody's.
    pub owner: Option<String>,
}

impl Selection {
    /// The namespace that a caller means by it; `None` is all that they may see.
    fn namespace_of<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        Some(self.namespace.as_deref().unwrap_or(&caller.default_namespace)).filter(|namespace| *namespace != "*")
    }
}

/// What a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Which clusters.
    pub selection: Selection,
    /// Most items of one page.
    pub limit: usize,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// How new the clusters must be.
    pub freshness: Freshness,
}

/// One page of a list.
pub struct Page {
    /// The clusters, by namespace and name.
    pub items: Vec<Shown>,
    /// Where the next page begins, if there is one.
    pub next_page_token: Option<String>,
    /// Whether the backend was asked for it.
    pub read_through: bool,
}

impl Service {
    /// A page of the clusters that the caller selects and may see.
    ///
    /// # Errors
    /// A namespace that the caller may not use; a selector that can't be read; a page token that isn't one of this list;
    /// whatever keeps the backend from being asked.
    pub async fn list(&self, caller: &Caller, query: &ListQuery) -> Result<Page, ApiError> {
        let lens = self.lens(caller, Action::ListClusters, &query.selection)?;
        let after = match &query.page_token {
            Some(token) => Some(page_token::read(token, &query.selection).ok_or_else(bad_page_token)?),
            None => None,
        };
        let read_through = self.catch_up_all(query.selection.namespace_of(caller), query.freshness).await?;
        let fits = |entry: &Entry| matches!(lens(entry), Sees::It(_));
        let mut items = self.cache.page(after.as_ref(), query.limit.saturating_add(1), fits);
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let last = items.last().filter(|_| more);
        let next_page_token = last.map(|entry| page_token::write(&entry.key, &query.selection));
        let items = items.into_iter().map(|entry| shown(caller, entry)).collect();
        Ok(Page { items, next_page_token, read_through })
    }

    /// The cluster, and whether the backend was asked for it.
    ///
    /// # Errors
    /// No such cluster; whatever keeps the backend from being asked.
    pub async fn get(&self, caller: &Caller, reference: &str, freshness: Freshness) -> Result<(Shown, bool), ApiError> {
        self.read(caller, Action::ReadCluster, reference, freshness).await
    }

    /// The same, for its `object`: the RayCluster as Kubernetes holds it.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn manifest(
        &self,
        caller: &Caller,
        reference: &str,
        freshness: Freshness,
    ) -> Result<(Shown, bool), ApiError> {
        self.read(caller, Action::ReadManifest, reference, freshness).await
    }

    async fn read(
        &self,
        caller: &Caller,
        action: Action,
        reference: &str,
        freshness: Freshness,
    ) -> Result<(Shown, bool), ApiError> {
        let key = self.resolve(caller, action, reference)?;
        let read_through = self.catch_up(caller, &key, freshness).await?;
        Ok((self.held(caller, action, &key)?, read_through))
    }

    /// The same as YAML.
    ///
    /// # Errors
    /// None that can be foreseen: what is held is JSON.
    pub fn manifest_yaml(&self, object: &[u8]) -> Result<Bytes, ApiError> {
        let object: Value = serde_json::from_slice(object).map_err(|error| {
            ApiError::new(ErrorCode::Internal, "The RayCluster can't be written as YAML.").cause(&error)
        })?;
        Ok(yaml::write(&object).into())
    }

    /// What the caller selects and may see.
    pub(super) fn lens(&self, caller: &Caller, action: Action, selection: &Selection) -> Result<Lens, ApiError> {
        let namespace = selection.namespace_of(caller).map(str::to_owned);
        if let Some(namespace) = namespace.as_deref().filter(|namespace| !is_dns1123_label(namespace)) {
            let message = format!("`{namespace}` is no namespace; `*` is all that you may see.");
            return Err(ApiError::faulty(Fault::new("?namespace", FaultCode::InvalidParameter, message).into()));
        }
        let labels = Selector::parse(selection.label_selector.as_deref().unwrap_or_default()).map_err(|fault| {
            let message = format!("This is no label selector: {fault}.");
            ApiError::faulty(Fault::new("?labelSelector", FaultCode::InvalidParameter, message).into())
        })?;
        let target = namespace.as_deref().map_or(Target::Service, Target::Namespace);
        self.access.authorize(caller, action, target)?;
        let owner = selection.owner.as_deref().map(|owner| if owner == ME { caller.user() } else { owner }.to_owned());
        let caller = caller.clone();
        let standings = Standings::default();
        Ok(Box::new(move |entry: &Entry| {
            // A cluster stays in its namespace: nobody who asks for another one has ever been told of it.
            if namespace.as_ref().is_some_and(|namespace| entry.key.namespace != *namespace) {
                return Sees::Nothing;
            }
            let Some(form) = standings.sight(&caller, entry) else { return Sees::Nothing };
            let wanted = (owner.is_none() || entry.owner == owner)
                && labels.matches(|key| entry.labels.get(key).map(String::as_str));
            if wanted { Sees::It(form) } else { Sees::Other(form) }
        }))
    }
}

fn bad_page_token() -> ApiError {
    let message = "This token wasn't given out with a page of this list; begin anew without one.";
    ApiError::faulty(Fault::new("?pageToken", FaultCode::InvalidParameter, message).into())
}

/// What a caller is in each namespace, found out once.
#[derive(Default)]
pub(super) struct Standings(Mutex<HashMap<String, Option<Standing>>>);

impl Standings {
    /// How the caller, always the same one, may see a cluster.
    pub(super) fn sight(&self, caller: &Caller, entry: &Entry) -> Sight {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = &entry.key.namespace;
        let standing = match known.get(namespace) {
            Some(standing) => *standing,
            None => *known.entry(namespace.clone()).or_insert(caller.standing(namespace)),
        };
        let owner = entry.owner.as_deref();
        standing?.sight(owner, caller.owns(owner))
    }
}
