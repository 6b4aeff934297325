//! One object as its backend holds it: whole as JSON, and decoded if it can be.
//!
//! A plain typed list fails whole when one item has a wrong type somewhere. [`Observed`] takes the object raw first and
//! types it afterwards, so that one unreadable object disturbs nobody, and keeps everything for `/manifest`.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An object of kind `K`, whole and, where its types allow, decoded.
#[derive(Clone)]
pub struct Observed<K> {
    /// The object as stored, without `metadata.managedFields`.
    pub raw: Value,
    /// What `metadata.managedFields` says.
    pub managed: Value,
    /// Its metadata, without those.
    pub metadata: ObjectMeta,
    /// The typed form, or why there is none.
    pub decoded: Result<K, String>,
}

impl<K: DeserializeOwned> Observed<K> {
    /// Takes an object as stored.
    ///
    /// # Errors
    /// Where it isn't an object with Kubernetes' metadata.
    pub fn from_raw(mut raw: Value) -> Result<Self, serde_json::Error> {
        let metadata = raw
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .ok_or_else(|| serde_json::Error::custom("an object without metadata"))?;
        let managed = metadata.shift_remove("managedFields").unwrap_or_default();
        let metadata = ObjectMeta::deserialize(&raw["metadata"])?;
        let decoded = K::deserialize(&raw).map_err(|error| error.to_string());
        Ok(Self { raw, managed, metadata, decoded })
    }
}

impl<K> Observed<K> {
    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

impl<K> fmt::Debug for Observed<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the object itself: it may hold what its owner keeps secret.
        write!(formatter, "Observed({}/{} {})", self.namespace(), self.name(), self.resource_version())
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Observed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<K> Serialize for Observed<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<K: Resource> Resource for Observed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
