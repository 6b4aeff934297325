//! Somebody who calls, and all that the policy says of them.

use std::sync::Arc;

use serde_json::Value;

use super::pattern::{Names, Pattern};
use super::pods::{PodRules, Violation, violations};
use super::policy::{Grant, Policy, Role};
use super::{Identity, Sight};
use crate::ray::name::ClusterKey;
use crate::ray::owner::owner;
use crate::ray::render::Form;

/// Who is calling, under the rules of the moment that they called at.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who they are.
    pub identity: Identity,
    /// The namespace they mean where they name none.
    pub default_namespace: String,
    /// What they may do where.
    pub grants: Arc<[Arc<Grant>]>,
    /// Namespaces in which clusters are seen by their owners and by operators alone.
    private: Arc<[Pattern]>,
    /// The namespaces served; none for all.
    served: Arc<[String]>,
}

impl Caller {
    pub(super) fn new(identity: Identity, policy: &Policy, served: &[String], default_namespace: &str) -> Self {
        let grants: Arc<[Arc<Grant>]> = policy.grants_of(&identity).into();
        let mut caller = Self {
            default_namespace: default_namespace.to_owned(),
            grants,
            private: policy.private_namespaces().into(),
            served: served.into(),
            identity,
        };
        caller.default_namespace = caller.own_namespace(default_namespace);
        caller
    }

    /// Their name.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.identity.user
    }

    /// Whether these are the rights of that caller too.
    #[must_use]
    pub fn has_rights_of(&self, other: &Self) -> bool {
        self.grants == other.grants
            && self.private == other.private
            && self.identity.user == other.identity.user
            && self.default_namespace == other.default_namespace
    }

    /// The strongest role that they have in this namespace.
    #[must_use]
    pub fn role_in(&self, namespace: &str) -> Option<Role> {
        self.grants_in(namespace).map(|grant| grant.role).max()
    }

    /// How they may see a cluster of this owner. Env values are for those who may change it.
    #[must_use]
    pub fn sight(&self, key: &ClusterKey, owner: Option<&str>) -> Sight {
        let role = self.role_in(&key.namespace)?;
        let others = owner.is_some_and(|owner| owner != self.identity.user);
        if others
            && role < Role::Operator
            && self.private.iter().any(|pattern| pattern.matches(self.names(), &key.namespace))
        {
            return None;
        }
        Some(if self.may_change(key, owner) { Form::Clear } else { Form::Masked })
    }

    /// Whether they may change a cluster of this owner.
    #[must_use]
    pub fn may_change(&self, key: &ClusterKey, owner: Option<&str>) -> bool {
        self.grants_in(&key.namespace).any(|grant| self.changes(grant, owner))
    }

    /// What of `wanted` they may not have, judged on what differs from `held`. One grant must allow all of it.
    #[must_use]
    pub fn violations(&self, key: &ClusterKey, held: Option<&Value>, wanted: &Value) -> Vec<Violation> {
        let owned_by = held.map_or(Some(self.user()), owner);
        let mut grants: Vec<_> = self.grants_in(&key.namespace).filter(|grant| self.changes(grant, owned_by)).collect();
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.role));
        let mut fewest: Option<Vec<Violation>> = None;
        for grant in grants {
            let found = violations(&grant.pods, self.user(), held, wanted);
            if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
                fewest = Some(found);
            }
        }
        fewest.unwrap_or_else(|| violations(&PodRules::restricted(), self.user(), held, wanted))
    }

    fn changes(&self, grant: &Grant, owner: Option<&str>) -> bool {
        match grant.role {
            Role::Viewer => false,
            Role::User => owner == Some(self.user()),
            Role::Operator | Role::Admin => true,
        }
    }

    /// Where they may do what: namespaces and patterns of namespaces, each with a role.
    pub fn reach(&self) -> impl Iterator<Item = (String, Role)> {
        let filled = |grant: &Arc<Grant>| {
            let role = grant.role;
            let namespaces = grant.namespaces.iter().filter_map(|pattern| pattern.filled(self.names()));
            namespaces.map(move |namespace| (namespace, role)).collect::<Vec<_>>()
        };
        self.grants.iter().flat_map(filled)
    }

    fn names(&self) -> Names<'_> {
        Names { cluster: "", user: self.user() }
    }

    fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &Grant> {
        let served = self.served.is_empty() || self.served.iter().any(|served| served == namespace);
        self.grants.iter().map(AsRef::as_ref).filter(move |grant: &&Grant| {
            served && grant.namespaces.iter().any(|pattern| pattern.matches(self.names(), namespace))
        })
    }

    /// The first default that a grant names, else the service's if they may use it, else the first namespace that a grant
    /// names outright.
    fn own_namespace(&self, default: &str) -> String {
        let named = self.grants.iter().filter_map(|grant| grant.default_namespace.as_ref());
        let named = named.filter_map(|pattern| pattern.name(self.names()));
        let outright = self.grants.iter().flat_map(|grant| &grant.namespaces);
        let outright = outright.filter_map(|pattern| pattern.name(self.names()));
        let mut candidates = named.chain([default.to_owned()]).chain(outright);
        candidates.find(|namespace| self.role_in(namespace).is_some()).unwrap_or_else(|| default.to_owned())
    }
}
