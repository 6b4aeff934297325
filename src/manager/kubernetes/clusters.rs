//! `ResourceManager` over a typed `Api<K>`.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions as KubePreconditions,
    PropagationPolicy, ValidationDirective,
};
use kube::core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::Clients;
use super::error::{ManagerResultExt as _, deadline};
use super::review::{Call, confirmed};
use super::watch::{api, watch};
use crate::manager::{Deletion, ManagerError, Observed, Preconditions, ResourceManager, Scope, Watch};
use crate::ray::managed::MANAGER;

/// Objects of one kind on a control plane.
pub(super) struct KubernetesManager<K> {
    clients: Clients,
    /// Whether Kubernetes is asked to check writes only.
    dry_run: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> KubernetesManager<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    pub(super) fn new(clients: Clients) -> Self {
        Self { clients, dry_run: false, kind: PhantomData }
    }

    fn api(&self, namespace: &str) -> Api<Observed<K>> {
        Api::namespaced(self.clients.calls.clone(), namespace)
    }

    /// What a call came to; where our account was refused, confirmed by a review of what it may.
    async fn confirm<T>(&self, call: Call<'_>, result: Result<T, ManagerError>) -> Result<T, ManagerError> {
        match result {
            Err(error) => Err(confirmed::<K>(&self.clients, call, error).await),
            done => done,
        }
    }
}

fn namespaced(namespace: &str) -> Scope {
    Scope::Namespace(namespace.to_owned())
}

/// Objects per page of a list.
const PAGE: u32 = 500;

#[async_trait]
impl<K> ResourceManager<K> for KubernetesManager<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Send
        + Sync
        + 'static,
{
    async fn list(&self, scope: &Scope, label_selector: Option<&str>) -> Result<Vec<Observed<K>>, ManagerError> {
        let api: Api<Observed<K>> = api(self.clients.calls.clone(), scope);
        let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
        params.label_selector = label_selector.map(str::to_owned);
        let mut items = Vec::new();
        loop {
            let page = deadline(self.clients.call_timeout, api.list(&params)).await.read();
            let page = self.confirm(Call { verb: "list", scope, name: None }, page).await?;
            items.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(items),
            }
        }
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Observed<K>, ManagerError> {
        let held = deadline(self.clients.call_timeout, self.api(namespace).get(name)).await.read();
        self.confirm(Call { verb: "get", scope: &namespaced(namespace), name: Some(name) }, held).await
    }

    async fn create(&self, object: &K) -> Result<Observed<K>, ManagerError> {
        let namespace = object.meta().namespace.as_deref();
        let body = serde_json::to_vec(object).map_err(|error| ManagerError::Unexpected(error.to_string()))?;
        let mut request = Request::new(K::url_path(&(), namespace))
            .create(&PostParams::default(), body)
            .map_err(|error| ManagerError::Unexpected(error.to_string()))?;
        // The CRDs prune what they don't know in silence; kube's PostParams can't ask to be told.
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        let path = request.uri().path();
        let strict = format!("{path}?fieldValidation=Strict&fieldManager={MANAGER}{dry_run}");
        *request.uri_mut() = strict.parse().map_err(|error| ManagerError::Unexpected(format!("{error}")))?;
        let made = deadline(self.clients.call_timeout, self.clients.calls.request(request)).await.write();
        let scope = namespaced(namespace.unwrap_or_default());
        self.confirm(Call { verb: "create", scope: &scope, name: None }, made).await
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        patch: &Value,
    ) -> Result<Observed<K>, ManagerError> {
        let mut guarded = patch.clone();
        if !guarded["metadata"].is_object() {
            guarded["metadata"] = json!({});
        }
        guarded["metadata"]["resourceVersion"] = resource_version.into();
        let params = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            dry_run: self.dry_run,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(namespace);
        let patched =
            deadline(self.clients.call_timeout, api.patch(name, &params, &Patch::Merge(guarded))).await.write();
        self.confirm(Call { verb: "patch", scope: &namespaced(namespace), name: Some(name) }, patched).await
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deletion<K>, ManagerError> {
        let guard = KubePreconditions {
            uid: preconditions.uid.clone(),
            resource_version: preconditions.resource_version.clone(),
        };
        let params = DeleteParams {
            dry_run: self.dry_run,
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(guard),
            ..DeleteParams::default()
        };
        let answer = deadline(self.clients.call_timeout, self.api(namespace).delete(name, &params)).await.write();
        let call = Call { verb: "delete", scope: &namespaced(namespace), name: Some(name) };
        let answer = self.confirm(call, answer).await?;
        Ok(answer.either(|object| Deletion::Started(Box::new(object)), |_| Deletion::Done))
    }

    fn watch(&self, scope: &Scope) -> Watch<Observed<K>> {
        watch(&self.clients, scope, None)
    }

    fn dry_run(&self) -> Arc<dyn ResourceManager<K>> {
        Arc::new(Self { clients: self.clients.clone(), dry_run: true, kind: PhantomData })
    }
}
