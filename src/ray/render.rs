//! What a reader sees of a cluster: one pure function of the object and its nodes.

use indexmap::IndexMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::cluster::RayCluster;
use super::document::Document;
use super::facts::Nodes;
use super::fault::Warning;
use super::lens::{View, view};
use super::name::ClusterKey;
use super::owner::owner;
use super::status::{self, GroupStatus, HeadStatus, State};

/// What is said of a cluster that can't be read, where why isn't said.
pub const UNREADABLE: &str = "What Kubernetes holds under this name can't be read.";

/// How a cluster is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Whole.
    Clear,
    /// Without the values that only those may see who may change it.
    Masked,
}

/// A Ray cluster as raygate answers it: its document, and what only the server writes.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The document; of a cluster that can't be read only the name and namespace.
    #[serde(flatten)]
    pub document: Document,
    /// Fields of the RayCluster that the document can't show (Kubernetes' notation); every write leaves them alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub partial: Vec<String>,
    /// Kubernetes' uid: another cluster under the same name has another.
    pub uid: String,
    /// Who owns it; nobody where it wasn't made here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was created (RFC 3339, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub create_time: Option<String>,
    /// Kubernetes' version of the stored object.
    pub resource_version: String,
    /// Where to find it and what belongs to it; relative to the root of this API.
    pub links: Links,
    /// How it is.
    pub status: ClusterStatus,
    /// In the answer to a write: what was taken and should be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<Warning>,
}

/// References, relative to the root of this API (where `openapi.json` is).
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ClusterLinks)]
pub struct Links {
    /// The cluster itself.
    #[serde(rename = "self")]
    pub this: String,
    /// The RayCluster as Kubernetes holds it.
    pub manifest: String,
    /// Its changes, live.
    pub watch: String,
}

impl Links {
    fn of(key: &ClusterKey) -> Self {
        Self {
            this: format!("clusters/{key}"),
            manifest: format!("clusters/{key}/manifest"),
            watch: format!("clusters/{key}/watch"),
        }
    }
}

/// How a cluster is.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// In one word.
    pub state: State,
    /// Why it can't be read, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The head node.
    pub head: HeadStatus,
    /// The worker groups by name.
    pub worker_groups: IndexMap<String, GroupStatus>,
    /// Name of a port of the head service → its number, as the operator says it.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub endpoints: IndexMap<String, String>,
    /// Conditions as Kubernetes has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub conditions: Vec<Value>,
    /// When a condition last changed (RFC 3339, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last_transition_time: Option<String>,
}

/// The cluster that an object (`raw` as Kubernetes holds it; `decoded`, or why it can't be) and its nodes amount to.
/// `nodes` are those whose owner is the cluster, by uid.
#[must_use]
pub fn render(raw: &Value, metadata: &ObjectMeta, decoded: Result<&RayCluster, &str>, nodes: &Nodes) -> Cluster {
    let cluster = decoded.ok();
    let key =
        ClusterKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
    let status = cluster.and_then(|cluster| cluster.status.clone()).unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let last_transition_time =
        conditions.iter().filter_map(|condition| condition["lastTransitionTime"].as_str()).max().map(str::to_owned);
    let View { document, partial } = if cluster.is_some() { view(raw) } else { bare_view(&key) };
    Cluster {
        document,
        partial,
        uid: metadata.uid.clone().unwrap_or_default(),
        owner: owner(raw).map(str::to_owned),
        create_time: metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        links: Links::of(&key),
        status: ClusterStatus {
            state: cluster.map_or(State::Unknown, |cluster| status::state(cluster, nodes)),
            message: decoded.err().map(|why| format!("What Kubernetes holds under this name can't be read: {why}.")),
            head: status::head(cluster, &nodes.present),
            worker_groups: status::groups(cluster, &nodes.present),
            endpoints: status.endpoints.unwrap_or_default(),
            conditions,
            last_transition_time,
        },
        warnings: Vec::new(),
    }
}

fn bare_view(key: &ClusterKey) -> View {
    let members = [("name", &key.name), ("namespace", &key.namespace)];
    let members = members.map(|(member, text)| (member.to_owned(), text.as_str().into()));
    View { document: Document(members.into_iter().collect()), partial: Vec::new() }
}

/// What is said of a cluster that its reader may not see any more: what it was called, and that nothing is known.
#[must_use]
pub fn unseen(key: &ClusterKey, uid: &str) -> Cluster {
    Cluster {
        document: bare_view(key).document,
        partial: Vec::new(),
        uid: uid.to_owned(),
        owner: None,
        create_time: None,
        resource_version: String::new(),
        links: Links::of(key),
        status: ClusterStatus {
            state: State::Unknown,
            message: None,
            head: status::head(None, &[]),
            worker_groups: status::groups(None, &[]),
            endpoints: IndexMap::new(),
            conditions: Vec::new(),
            last_transition_time: None,
        },
        warnings: Vec::new(),
    }
}
