//! One cluster as the cache holds it: bytes, and the little that is needed to find and order it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Serialize;

use crate::manager::Observed;
use crate::ray::cluster::RayCluster;
use crate::ray::facts::Nodes;
use crate::ray::name::ClusterKey;
use crate::ray::render::render;
use crate::ray::revision::{digest, revision};

/// One cluster at one moment. Never changed: another moment is another entry.
pub struct Entry {
    /// What it is called.
    pub key: ClusterKey,
    /// Kubernetes' uid.
    pub uid: String,
    /// Kubernetes' resourceVersion.
    pub version: String,
    /// What of it users own, as one short text: what `If-Match` guards.
    pub revision: String,
    /// Its labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Where it stands among all changes of this process.
    pub sequence: u64,
    /// The RayCluster as JSON, without managedFields.
    pub object: Bytes,
    /// What a reader sees, as JSON.
    pub rendered: Bytes,
    /// The entity tag, made when first needed.
    etag: OnceLock<String>,
    /// The `ADDED` frame, made when first needed.
    pub(crate) added: OnceLock<Bytes>,
    /// The `MODIFIED` frame, made when first needed.
    pub(crate) modified: OnceLock<Bytes>,
    /// The `DELETED` frame, made when first needed.
    pub(crate) deleted: OnceLock<Bytes>,
}

impl Entry {
    /// The entry of an object and its nodes.
    pub(super) fn new(observed: &Observed<RayCluster>, nodes: &Nodes, sequence: u64) -> Self {
        Self::with_object(observed, encode(&observed.raw), revision(&observed.raw), nodes, sequence)
    }

    /// The same object with other nodes; `None` where a reader would see no difference.
    pub(super) fn with_nodes(&self, nodes: &Nodes, sequence: u64) -> Option<Self> {
        let raw = serde_json::from_slice(&self.object).ok()?;
        let observed = Observed::from_raw(raw).ok()?;
        let entry = Self::with_object(&observed, self.object.clone(), self.revision.clone(), nodes, sequence);
        (entry.rendered != self.rendered).then_some(entry)
    }

    /// The entity tag of what a reader sees: the revision, and a digest of the bytes.
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| format!("\"{}.{}\"", self.revision, digest(&self.rendered)))
    }

    /// The same cluster under another number.
    pub(super) fn at(&self, sequence: u64) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            version: self.version.clone(),
            revision: self.revision.clone(),
            labels: self.labels.clone(),
            sequence,
            object: self.object.clone(),
            rendered: self.rendered.clone(),
            etag: OnceLock::new(),
            added: OnceLock::new(),
            modified: OnceLock::new(),
            deleted: OnceLock::new(),
        }
    }

    fn with_object(
        observed: &Observed<RayCluster>,
        object: Bytes,
        revision: String,
        nodes: &Nodes,
        sequence: u64,
    ) -> Self {
        let decoded = observed.decoded.as_ref().map_err(String::as_str);
        Self {
            key: ClusterKey::new(observed.namespace(), observed.name()),
            uid: observed.uid().to_owned(),
            version: observed.resource_version().to_owned(),
            revision,
            labels: observed.metadata.labels.clone().unwrap_or_default(),
            sequence,
            object,
            rendered: encode(&render(&observed.raw, &observed.metadata, decoded, nodes)),
            etag: OnceLock::new(),
            added: OnceLock::new(),
            modified: OnceLock::new(),
            deleted: OnceLock::new(),
        }
    }
}

/// Serialises what can't fail to serialise: maps with string keys.
fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// Whether one resourceVersion is newer than another. Kubernetes lets versions of one resource be compared as numbers
/// (KEP-5504); versions that are no numbers are newer if they differ.
pub(super) fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => version != than,
    }
}
