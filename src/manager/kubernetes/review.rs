//! Whose refusal a 403 was: of those who say what our account may do, or of admission.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Resource;
use kube::api::{Api, PostParams};

use super::client::Clients;
use super::error::{ManagerResultExt as _, deadline};
use crate::manager::{ManagerError, Scope};

/// What a call does.
pub(super) struct Call<'a> {
    /// In Kubernetes' word for it.
    pub(super) verb: &'static str,
    /// Where.
    pub(super) scope: &'a Scope,
    /// To which object; creates and lists are allowed without a name.
    pub(super) name: Option<&'a str>,
}

/// The error of a call, a [`ManagerError::Forbidden`] confirmed: Kubernetes is asked whether our account may do this. If it
/// may, it was admission that refused. Without an answer it stays what it was.
pub(super) async fn confirmed<K>(clients: &Clients, call: Call<'_>, error: ManagerError) -> ManagerError
where
    K: Resource<DynamicType = ()>,
{
    let ManagerError::Forbidden(text) = error else {
        return error;
    };
    let attributes = attributes::<K>(&call);
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
        ..Default::default()
    };
    let api = Api::all(clients.calls.clone());
    match deadline(clients.call_timeout, api.create(&PostParams::default(), &review)).await.read() {
        Ok(SelfSubjectAccessReview { status: Some(SubjectAccessReviewStatus { allowed: true, .. }), .. }) => {
            ManagerError::AdmissionDenied(text)
        }
        Ok(SelfSubjectAccessReview { status: Some(_), .. }) => ManagerError::Forbidden(named::<K>(&call, &text)),
        Ok(SelfSubjectAccessReview { status: None, .. }) | Err(_) => ManagerError::Forbidden(text),
    }
}

fn attributes<K: Resource<DynamicType = ()>>(call: &Call<'_>) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(call.verb.to_owned()),
        group: Some(K::group(&()).into_owned()),
        version: Some(K::version(&()).into_owned()),
        resource: Some(K::plural(&()).into_owned()),
        namespace: match call.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace.clone()),
        },
        name: call.name.map(str::to_owned),
        ..Default::default()
    }
}

/// The right that is missing, in our words and then in Kubernetes'.
fn named<K: Resource<DynamicType = ()>>(call: &Call<'_>, text: &str) -> String {
    let place = match call.scope {
        Scope::All => "all namespaces".to_owned(),
        Scope::Namespace(namespace) => format!("the namespace {namespace}"),
    };
    format!("{} {}.{} in {place} ({text})", call.verb, K::plural(&()), K::group(&()))
}
