//! Requests that are made again: which create an object came from, by what stands on it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::access::Caller;
use crate::ray::begun;
use crate::ray::json;
use crate::ray::name::ClusterKey;
use crate::ray::revision::{hex, ordered};

/// Annotation: which create made the object. Version 1 is `v1:` and a random number of that request's.
pub(super) const NONCE: &str = "raygate.dev/create-nonce";

/// The label and the annotation of an object that was made with an `Idempotency-Key`. Version 1 of the label is a hash of
/// the caller, namespace and key, of the annotation `v1:` and a hash of the key and the body.
pub(super) const KEY: &str = "raygate.dev/idempotency-key";

/// A new value of [`NONCE`].
pub(super) fn nonce() -> String {
    format!("v1:{}", random())
}

/// A number that nobody else comes up with, in hexadecimal.
pub(super) fn random() -> String {
    hex(&rand::random::<[u8; 16]>())
}

/// An `Idempotency-Key`, for one caller, namespace and body.
pub(super) struct Key {
    label: String,
    fingerprint: String,
}

impl Key {
    /// The key of this request. Spelling, order of members and media type of the body make no other request.
    pub(super) fn new(caller: &Caller, namespace: &str, key: &str, body: &Value) -> Self {
        let label = hash(&[caller.user(), namespace, key]);
        // The key is a secret of the client's: without it nobody can guess at what the body was.
        let fingerprint = format!("v1:{}", hash(&["body", key, &ordered(body).to_string()]));
        Self { label, fingerprint }
    }

    /// Selects the objects that were made with the key.
    pub(super) fn selector(&self) -> String {
        format!("{KEY}={}", self.label)
    }

    /// Where requests with the key wait for each other: under a name that no cluster has.
    pub(super) fn queue(&self, key: &ClusterKey) -> ClusterKey {
        ClusterKey::new(key.namespace.clone(), format!("{KEY}={}", self.label))
    }

    /// Marks what is made with the key.
    pub(super) fn put(&self, metadata: &mut Value) {
        json::merge(metadata, &json!({"labels": {KEY: self.label}, "annotations": {KEY: self.fingerprint}}));
    }

    /// Whether the object was made with the key.
    pub(super) fn has_made(&self, object: &Value) -> bool {
        object["metadata"]["labels"][KEY] == *self.label
    }

    /// Whether it was made with the key by the same body.
    pub(super) fn has_made_just_this(&self, object: &Value) -> bool {
        object["metadata"]["annotations"][KEY] == *self.fingerprint
    }
}

/// What tells a restart from others: of its request's `Idempotency-Key` a hash of caller, cluster and key, and behind a full
/// stop one of the key and what else is asked for; without a key a random number.
pub(super) fn restart_mark(caller: &Caller, cluster: &ClusterKey, key: Option<&str>, asked: &Value) -> String {
    let mark = key.map(|key| {
        let of = hash(&[caller.user(), "restart", &cluster.to_string(), key]);
        format!("{of}.{}", hash(&["restart", key, &ordered(asked).to_string()]))
    });
    begun::restart_mark(&mark.unwrap_or_else(random))
}

/// 128 bits of a hash over some texts, in hexadecimal.
fn hash(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    hex(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[test]
    fn a_key_is_one_callers_in_one_namespace_for_one_body() {
        let caller = Access::open(Vec::new(), "default".into()).anonymous();
        let body = json!({"name": "demo", "head": {"cpu": 1, "memory": "1Gi"}});
        let same = json!({"head": {"memory": "1Gi", "cpu": 1}, "name": "demo"});
        let key = Key::new(&caller, "default", "k", &body);
        let mut metadata = json!({"labels": {"a": "b"}});
        key.put(&mut metadata);
        let object = json!({"metadata": metadata});
        assert_eq!(object["metadata"]["labels"]["a"], "b");
        let again = Key::new(&caller, "default", "k", &same);
        assert!(again.has_made(&object) && again.has_made_just_this(&object));
        let other = Key::new(&caller, "default", "k", &json!({"name": "other"}));
        assert!(other.has_made(&object) && !other.has_made_just_this(&object));
        assert!(!Key::new(&caller, "default", "l", &body).has_made(&object));
        assert!(!Key::new(&caller, "elsewhere", "k", &body).has_made(&object));
        // What Kubernetes takes as a label.
        assert_eq!(key.label.len(), 32);
    }
}
