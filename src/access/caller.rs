//! Somebody who calls, and all that the policy says of them.

use std::sync::Arc;

use serde_json::Value;

use super::pattern::{Filled, Names, Pattern};
use super::pods::{PodRules, Violation, violations};
use super::policy::{Grant, Policy, Role};
use super::{Identity, Sight};
use crate::ray::name::{ClusterKey, is_dns1123_label};
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
    grants: Arc<[Given]>,
    /// Namespaces in which clusters are seen by their owners and by operators alone.
    private: Arc<[Filled]>,
    /// The namespaces served; none for all.
    served: Arc<[String]>,
}

/// A grant, with its namespaces as they are for one caller.
#[derive(Debug, Clone, PartialEq)]
struct Given {
    grant: Arc<Grant>,
    namespaces: Vec<Filled>,
}

/// What somebody is in a namespace: all that decides what they may see and change there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The strongest role that they have in it.
    pub role: Role,
    /// Whether clusters in it are seen by their owners and by operators alone.
    pub private: bool,
}

impl Standing {
    /// How somebody may see a cluster of this owner (`own`: it is theirs). Env values are for those who may change it.
    #[must_use]
    pub fn sight(self, owner: Option<&str>, own: bool) -> Sight {
        if self.private && owner.is_some() && !own && self.role < Role::Operator {
            return None;
        }
        Some(if self.may_change(own) { Form::Clear } else { Form::Masked })
    }

    /// Whether somebody may change a cluster; `own`: it is theirs.
    #[must_use]
    pub fn may_change(self, own: bool) -> bool {
        match self.role {
            Role::Viewer => false,
            Role::User => own,
            Role::Operator | Role::Admin => true,
        }
    }
}

impl Caller {
    pub(super) fn new(identity: Identity, policy: &Policy, served: &[String], default_namespace: &str) -> Self {
        let names = Names { cluster: "", user: &identity.user };
        // What a name makes no namespace of stands for none.
        let fill = |pattern: &Pattern| pattern.filled(names).filter(|filled| is_dns1123_label(&filled.with("a")));
        let given = |grant: Arc<Grant>| Given { namespaces: grant.namespaces.iter().filter_map(fill).collect(), grant };
        let grants = policy.grants_of(&identity).into_iter().map(given).collect();
        let private = policy.private_namespaces().iter().filter_map(fill).collect();
        let mut caller =
            Self { default_namespace: default_namespace.to_owned(), grants, private, served: served.into(), identity };
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

    /// The strongest role that they have anywhere.
    #[must_use]
    pub fn best_role(&self) -> Option<Role> {
        self.grants.iter().map(|given| given.grant.role).max()
    }

    /// What they are in this namespace, if anything.
    #[must_use]
    pub fn standing(&self, namespace: &str) -> Option<Standing> {
        let role = self.grants_in(namespace).map(|grant| grant.role).max()?;
        Some(Standing { role, private: self.private.iter().any(|pattern| pattern.matches(namespace)) })
    }

    /// Whether this is them.
    #[must_use]
    pub fn owns(&self, owner: Option<&str>) -> bool {
        owner == Some(self.user())
    }

    /// How they may see a cluster of this owner.
    #[must_use]
    pub fn sight(&self, key: &ClusterKey, owner: Option<&str>) -> Sight {
        self.standing(&key.namespace)?.sight(owner, self.owns(owner))
    }

    /// What of `wanted` they may not have, judged on what differs from `held`. One grant must allow all of it.
    #[must_use]
    pub fn violations(&self, key: &ClusterKey, held: Option<&Value>, wanted: &Value) -> Vec<Violation> {
        let owned_by = held.map_or(Some(self.user()), owner);
        let changes = |grant: &&Grant| Standing { role: grant.role, private: false }.may_change(self.owns(owned_by));
        let mut grants: Vec<_> = self.grants_in(&key.namespace).filter(changes).collect();
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.role));
        let mut judged: Vec<&PodRules> = Vec::new();
        let mut fewest: Option<Vec<Violation>> = None;
        for grant in grants {
            if judged.contains(&grant.pods.as_ref()) {
                continue;
            }
            judged.push(&grant.pods);
            let found = violations(&grant.pods, self.user(), held, wanted);
            if found.is_empty() {
                return found;
            }
            if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
                fewest = Some(found);
            }
        }
        fewest.unwrap_or_else(|| violations(&PodRules::restricted(), self.user(), held, wanted))
    }

    /// Where they may do what: namespaces and patterns of namespaces, each with a role.
    pub fn reach(&self) -> impl Iterator<Item = (String, Role)> {
        let each = |given: &Given| {
            let role = given.grant.role;
            given.namespaces.iter().map(move |filled| (filled.with("*"), role)).collect::<Vec<_>>()
        };
        self.grants.iter().flat_map(each)
    }

    fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &Grant> {
        let served = self.served.is_empty() || self.served.iter().any(|served| served == namespace);
        let usable = served && is_dns1123_label(namespace);
        let given = self
            .grants
            .iter()
            .filter(move |given| usable && given.namespaces.iter().any(|filled| filled.matches(namespace)));
        given.map(|given| given.grant.as_ref())
    }

    /// The first default that a grant names, else the service's if they may use it, else the first namespace that a grant
    /// names outright.
    fn own_namespace(&self, default: &str) -> String {
        let words = Names { cluster: "", user: self.user() };
        let named = self.grants.iter().filter_map(|given| given.grant.default_namespace.as_ref());
        let named = named.filter_map(|pattern| pattern.filled(words)).map(|filled| filled.with("*"));
        let outright = self.grants.iter().flat_map(|given| &given.namespaces);
        let outright = outright.filter_map(Filled::name).map(str::to_owned);
        let mut candidates = named.chain([default.to_owned()]).chain(outright);
        candidates.find(|namespace| self.standing(namespace).is_some()).unwrap_or_else(|| default.to_owned())
    }
}
