//! Who is calling, what they may do, what they may see. Closed by default: what no rule allows is refused.
//!
//! A request is judged three times, each time by [`Access::authorize`]: at the gate (may they do this at all), once its
//! namespace is known, and once its cluster is. Lists and streams see what [`Caller::sight`] lets through.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::ray::name::ClusterKey;
use crate::ray::render::Form;

mod caller;
mod files;
mod identity;
pub mod limits;
mod pattern;
pub mod pods;
mod policy;
mod tokens;

pub use caller::{Caller, Standing};
pub use files::{Files, Reloaded, Which};
pub use identity::{Authenticator, Identity, Rejected};
pub use pattern::Pattern;
pub use policy::{Grant, Policy, Role};
pub use tokens::{NewToken, StaticTokens};

/// Everything that can be asked of the service. Each route has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask whether the process lives, is ready, what version it is, or what it has counted.
    Probe,
    /// Read the API's description.
    ReadDocs,
    /// Ask who one is.
    ReadSelf,
    /// List clusters.
    ListClusters,
    /// Follow the changes of clusters.
    WatchClusters,
    /// Create a cluster.
    CreateCluster,
    /// Read a cluster.
    ReadCluster,
    /// Change a cluster, or create it under the name that is asked for.
    WriteCluster,
    /// Read the RayCluster behind a cluster.
    ReadManifest,
    /// Follow the changes of one cluster.
    WatchCluster,
    /// Delete a cluster.
    DeleteCluster,
    /// Stop a cluster.
    StopCluster,
    /// Start a stopped cluster.
    StartCluster,
    /// Make all nodes of a cluster anew.
    RestartCluster,
    /// Hand a cluster over to somebody.
    SetOwner,
}

/// What an action needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is for everybody who reaches the service.
    Nothing,
    /// To be known.
    Identity,
    /// At least this role in the namespace.
    Role(Role),
    /// At least this role, and to be the cluster's owner or an operator.
    Ownership(Role),
}

impl Action {
    /// What it needs.
    #[must_use]
    pub fn needs(self) -> Need {
        match self {
            Self::Probe | Self::ReadDocs => Need::Nothing,
            Self::ReadSelf => Need::Identity,
            Self::ListClusters | Self::WatchClusters | Self::ReadCluster | Self::ReadManifest | Self::WatchCluster => {
                Need::Role(Role::Viewer)
            }
            Self::CreateCluster => Need::Role(Role::User),
            Self::WriteCluster
            | Self::DeleteCluster
            | Self::StopCluster
            | Self::StartCluster
            | Self::RestartCluster => Need::Ownership(Role::User),
            Self::SetOwner => Need::Role(Role::Operator),
        }
    }

    /// Its name, for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::ReadDocs => "readDocs",
            Self::ReadSelf => "readSelf",
            Self::ListClusters => "listClusters",
            Self::WatchClusters => "watchClusters",
            Self::CreateCluster => "createCluster",
            Self::ReadCluster => "readCluster",
            Self::WriteCluster => "writeCluster",
            Self::ReadManifest => "readManifest",
            Self::WatchCluster => "watchCluster",
            Self::DeleteCluster => "deleteCluster",
            Self::StopCluster => "stopCluster",
            Self::StartCluster => "startCluster",
            Self::RestartCluster => "restartCluster",
            Self::SetOwner => "setOwner",
        }
    }
}

/// What an action is about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The service itself, or more than one namespace (what is seen is then filtered by [`Caller::sight`]).
    Service,
    /// A namespace.
    Namespace(&'a str),
    /// A cluster that there is, and who owns it.
    Cluster(&'a ClusterKey, Option<&'a str>),
}

/// Why an action is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The namespace isn't one that the caller may use, whether it exists or not.
    Namespace(String),
    /// The caller's role (`None`: they have none anywhere) isn't enough for this.
    Role {
        /// The role that it takes.
        needed: Role,
        /// The namespace, if it is one.
        namespace: Option<String>,
    },
    /// The cluster is somebody else's.
    Owner,
    /// The caller may not even see the cluster.
    Hidden,
}

impl Denied {
    /// The rule that refuses it, for the audit.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Namespace(_) => "namespace",
            Self::Role { .. } => "role",
            Self::Owner => "owner",
            Self::Hidden => "private",
        }
    }
}

/// The rules, as they are at the moment.
pub struct Access {
    served: Vec<String>,
    default_namespace: String,
    authenticators: Vec<Arc<dyn Authenticator>>,
    policy: RwLock<Arc<Policy>>,
    changed: watch::Sender<u64>,
}

impl Access {
    /// The rules of a service that everybody who reaches it may use as they like. `served` are the namespaces served,
    /// none for all; `default_namespace` is that of callers whose policy names none.
    #[must_use]
    pub fn open(served: Vec<String>, default_namespace: String) -> Self {
        Self::closed(served, default_namespace, Vec::new(), Policy::open())
    }

    /// The rules of a service that asks who is calling (each authenticator in turn) and holds to a policy.
    #[must_use]
    pub fn closed(
        served: Vec<String>,
        default_namespace: String,
        authenticators: Vec<Arc<dyn Authenticator>>,
        policy: Policy,
    ) -> Self {
        let (changed, _) = watch::channel(0);
        Self { served, default_namespace, authenticators, policy: RwLock::new(Arc::new(policy)), changed }
    }

    /// Whether anybody is served without saying who they are.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.authenticators.is_empty()
    }

    /// Puts another policy in place.
    pub fn replace_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.announce();
    }

    /// Says that who is who has changed.
    pub fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Tells each time that the rules have changed.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Who is calling, without authentication: everybody is the same.
    #[must_use]
    pub fn anonymous(&self) -> Caller {
        self.caller(Identity::anonymous())
    }

    /// Whose this bearer token is. `None` where nobody vouches for it.
    ///
    /// # Errors
    /// It was somebody's, and isn't valid any more.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Caller>, Rejected> {
        for authenticator in &self.authenticators {
            if let Some(identity) = authenticator.authenticate(token).await? {
                return Ok(Some(self.caller(identity)));
            }
        }
        Ok(None)
    }

    /// The same caller under the present rules; `None` where nobody vouches for them any more.
    #[must_use]
    pub fn renew(&self, caller: &Caller) -> Option<Caller> {
        if self.is_open() {
            return Some(self.anonymous());
        }
        let identity = &caller.identity;
        let authenticator = self.authenticators.iter().find(|one| one.name() == identity.authenticator)?;
        authenticator.renew(identity).map(|identity| self.caller(identity))
    }

    /// Whether the caller may do this to that.
    ///
    /// # Errors
    /// Says which rule refuses it.
    pub fn authorize(&self, caller: &Caller, action: Action, target: Target<'_>) -> Result<(), Denied> {
        let (Need::Role(needed) | Need::Ownership(needed)) = action.needs() else { return Ok(()) };
        let namespace = match target {
            Target::Service => {
                let enough = caller.best_role().is_some_and(|role| role >= needed);
                return if enough { Ok(()) } else { Err(Denied::Role { needed, namespace: None }) };
            }
            Target::Namespace(namespace) => namespace,
            Target::Cluster(key, _) => &key.namespace,
        };
        let Some(standing) = caller.standing(namespace) else { return Err(Denied::Namespace(namespace.to_owned())) };
        if let Target::Cluster(_, owner) = target {
            let own = caller.owns(owner);
            if standing.sight(owner, own).is_none() {
                return Err(Denied::Hidden);
            }
            let owners = matches!(action.needs(), Need::Ownership(_));
            if standing.role >= needed && owners && !standing.may_change(own) {
                return Err(Denied::Owner);
            }
        }
        if standing.role < needed {
            return Err(Denied::Role { needed, namespace: Some(namespace.to_owned()) });
        }
        Ok(())
    }

    /// Somebody, with what the policy says of them at the moment.
    #[must_use]
    pub fn caller(&self, identity: Identity) -> Caller {
        let policy = Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner));
        Caller::new(identity, &policy, &self.served, &self.default_namespace)
    }
}

/// How a caller may see a cluster: `None` not at all.
pub type Sight = Option<Form>;
