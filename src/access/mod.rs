//! Who is calling, what they may do, what they may see. Closed by default: what no rule allows is refused.

pub mod pods;

use crate::ray::name::ClusterKey;

/// Everything that can be asked of the service. Each route has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask whether the process lives, is ready, or what version it is.
    Probe,
    /// Read the API's description.
    ReadDocs,
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
}

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Their name, for logs.
    pub name: String,
    /// The namespace they mean where they name none.
    pub default_namespace: String,
}

/// What an action is about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The service itself, or more than one namespace (what is seen is then filtered by [`Access::visible`]).
    Service,
    /// A namespace.
    Namespace(&'a str),
    /// A cluster.
    Cluster(&'a ClusterKey),
}

/// Why an action is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The namespace isn't one that the caller may use, whether it exists or not.
    Namespace(String),
}

/// The rules.
#[derive(Debug, Clone)]
pub struct Access {
    /// The served namespaces; none means all.
    pub namespaces: Vec<String>,
    /// The namespace of callers whose identity names none.
    pub default_namespace: String,
}

impl Access {
    /// Who is calling, without authentication: everybody is the same.
    #[must_use]
    pub fn anonymous(&self) -> Caller {
        Caller { name: "anonymous".into(), default_namespace: self.default_namespace.clone() }
    }

    /// Whether the caller may do this to that.
    ///
    /// # Errors
    /// Says which rule refuses it.
    pub fn authorize(&self, _caller: &Caller, _action: Action, target: Target<'_>) -> Result<(), Denied> {
        match target {
            Target::Service => Ok(()),
            Target::Namespace(namespace) => self.namespace(namespace),
            Target::Cluster(key) => self.namespace(&key.namespace),
        }
    }

    /// What the caller may see of lists and streams.
    pub fn visible(&self, _caller: &Caller) -> impl Fn(&ClusterKey) -> bool + Send + Sync + use<> {
        let namespaces = self.namespaces.clone();
        move |key| namespaces.is_empty() || namespaces.contains(&key.namespace)
    }

    fn namespace(&self, namespace: &str) -> Result<(), Denied> {
        if self.namespaces.is_empty() || self.namespaces.iter().any(|served| served == namespace) {
            return Ok(());
        }
        Err(Denied::Namespace(namespace.to_owned()))
    }
}
