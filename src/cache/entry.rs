//! One cluster as the cache holds it: bytes, and the little that is needed to find and order it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::manager::Observed;
use crate::ray::begun::is_unfinished;
use crate::ray::cluster::RayCluster;
use crate::ray::document::SERVER_MEMBERS;
use crate::ray::facts::Nodes;
use crate::ray::lens::view;
use crate::ray::mask::mask;
use crate::ray::name::ClusterKey;
use crate::ray::owner::owner;
use crate::ray::render::{Form, UNREADABLE, render};
use crate::ray::revision::{digest, revision};

/// One cluster at one moment. Never changed: another moment is another entry.
pub struct Entry {
    /// What it is called.
    pub key: ClusterKey,
    /// Kubernetes' uid.
    pub uid: String,
    /// Kubernetes' resourceVersion.
    pub version: String,
    /// Who owns it, if somebody does.
    pub owner: Option<String>,
    /// Its labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Whether something that a write has begun waits to be finished.
    pub unfinished: bool,
    /// Where it stands among all changes of this process.
    pub sequence: u64,
    clear: Face,
    /// Made when first needed.
    masked: OnceLock<Face>,
}

/// A cluster in one of its forms, as bytes.
#[derive(Default)]
pub struct Face {
    /// What of it users own, as one short text: what `If-Match` guards.
    revision: String,
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

/// A cluster in the form that its reader may see.
#[derive(Clone)]
pub struct Shown {
    /// The cluster.
    pub entry: Arc<Entry>,
    /// The form.
    pub form: Form,
}

impl Shown {
    /// The cluster's bytes in that form.
    #[must_use]
    pub fn face(&self) -> &Face {
        self.entry.face(self.form)
    }
}

impl Face {
    fn new(revision: String, object: Bytes, rendered: Bytes) -> Self {
        Self { revision, object, rendered, ..Self::default() }
    }

    /// The entity tag of what a reader sees: the revision, and a digest of the bytes.
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| format!("\"{}.{}\"", self.revision, digest(&self.rendered)))
    }

    /// The same without anything made later.
    fn again(&self) -> Self {
        Self::new(self.revision.clone(), self.object.clone(), self.rendered.clone())
    }

    /// What those see who may not change it. Nothing in it, the entity tag included, depends on what is masked.
    fn masked(&self) -> Self {
        let read = |bytes: &Bytes| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let object = mask(&read(&self.object));
        let clear = read(&self.rendered);
        // What can't be decoded has no document but its name and namespace.
        let readable = clear.get("status").is_some_and(|status| status.get("message").is_none());
        let mut members: Map<String, Value> = if readable {
            view(&object).document.0
        } else {
            let named = clear.as_object().into_iter().flatten();
            named.filter(|(name, _)| matches!(name.as_str(), "name" | "namespace")).map(owned).collect()
        };
        let servers = clear.as_object().into_iter().flatten();
        members.extend(servers.filter(|(name, _)| SERVER_MEMBERS.contains(&name.as_str())).map(owned));
        if !readable && let Some(status) = members.get_mut("status") {
            // Why it can't be read quotes what can't be.
            status["message"] = UNREADABLE.into();
        }
        Self::new(revision(&object), encode(&object), encode(&members))
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

impl Entry {
    /// The entry of an object and its nodes.
    pub(super) fn new(observed: &Observed<RayCluster>, nodes: &Nodes, sequence: u64) -> Self {
        Self::with_object(observed, encode(&observed.raw), revision(&observed.raw), nodes, sequence)
    }

    /// The same object with other nodes; `None` where a reader would see no difference.
    pub(super) fn with_nodes(&self, nodes: &Nodes, sequence: u64) -> Option<Self> {
        let raw = serde_json::from_slice(&self.clear.object).ok()?;
        let observed = Observed::from_raw(raw).ok()?;
        let Face { object, revision, .. } = &self.clear;
        let entry = Self::with_object(&observed, object.clone(), revision.clone(), nodes, sequence);
        (entry.clear.rendered != self.clear.rendered).then_some(entry)
    }

    /// Its bytes in this form.
    pub fn face(&self, form: Form) -> &Face {
        match form {
            Form::Clear => &self.clear,
            Form::Masked => self.masked.get_or_init(|| self.clear.masked()),
        }
    }

    /// The same cluster under another number.
    pub(super) fn at(&self, sequence: u64) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            version: self.version.clone(),
            owner: self.owner.clone(),
            labels: self.labels.clone(),
            unfinished: self.unfinished,
            sequence,
            clear: self.clear.again(),
            masked: OnceLock::new(),
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
        let rendered = encode(&render(&observed.raw, &observed.metadata, decoded, nodes));
        Self {
            key: ClusterKey::new(observed.namespace(), observed.name()),
            uid: observed.uid().to_owned(),
            version: observed.resource_version().to_owned(),
            owner: owner(&observed.raw).map(str::to_owned),
            labels: observed.metadata.labels.clone().unwrap_or_default(),
            unfinished: is_unfinished(&observed.raw),
            sequence,
            clear: Face::new(revision, object, rendered),
            masked: OnceLock::new(),
        }
    }
}

/// Serialises what can't fail to serialise: maps with string keys.
fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// A resourceVersion as a number, if it is one. Kubernetes lets versions of one resource be compared as numbers (KEP-5504).
pub(super) fn number(version: &str) -> Option<u128> {
    version.parse().ok()
}

/// Whether one resourceVersion is newer than another; versions that are no numbers are newer if they differ.
pub(super) fn is_newer(version: &str, than: &str) -> bool {
    match (number(version), number(than)) {
        (Some(version), Some(than)) => version > than,
        _ => version != than,
    }
}
