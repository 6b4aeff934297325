//! ConfigMaps and Secrets: which there are, and what a kubelet says of those that a pod names and that aren't there.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Container, KeyToPath, PodSpec, Volume};

/// What kind of object holds configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// A ConfigMap or Secret that exists, in every namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// The keys that it has.
    pub keys: Vec<String>,
}

impl FromStr for Object {
    type Err = String;

    /// Reads `KIND/NAME[:KEY,KEY]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no object; write ConfigMap/NAME or Secret/NAME, perhaps with :KEY,KEY");
        let (kind, rest) = text.split_once('/').ok_or_else(wrong)?;
        let kind = match kind.to_ascii_lowercase().as_str() {
            "configmap" => ObjectKind::ConfigMap,
            "secret" => ObjectKind::Secret,
            _ => return Err(wrong()),
        };
        let (name, keys) = rest.split_once(':').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(wrong());
        }
        let keys = keys.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect();
        Ok(Self { kind, name: name.to_owned(), keys })
    }
}

impl ObjectKind {
    fn title(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// As the kubelet's managers name a resource that they don't find.
    fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// The objects that exist.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<(ObjectKind, String), BTreeSet<String>>);

impl FromIterator<Object> for Objects {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut found: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for Object { kind, name, keys } in objects {
            found.entry((kind, name)).or_default().extend(keys);
        }
        Self(found)
    }
}

impl Objects {
    fn get(&self, kind: ObjectKind, name: &str) -> Result<&BTreeSet<String>, String> {
        let missing = || format!("{} \"{name}\" not found", kind.resource());
        self.0.get(&(kind, name.to_owned())).ok_or_else(missing)
    }

    /// Whether a pull secret of the pod exists; one that does opens every registry.
    pub(super) fn has_pull_secret(&self, pod: &PodSpec) -> bool {
        let mut secrets = pod.image_pull_secrets.iter().flatten();
        secrets.any(|secret| self.get(ObjectKind::Secret, &secret.name).is_ok())
    }

    /// What keeps the container's environment from being made (`makeEnvironmentVariables` of the kubelet).
    pub(super) fn check_environment(&self, namespace: &str, container: &Container) -> Result<(), String> {
        for from in container.env_from.iter().flatten() {
            if let Some(source) = &from.config_map_ref {
                self.require(ObjectKind::ConfigMap, &source.name, source.optional)?;
            } else if let Some(source) = &from.secret_ref {
                self.require(ObjectKind::Secret, &source.name, source.optional)?;
            }
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            let (kind, name, key, optional) = if let Some(key) = &source.config_map_key_ref {
                (ObjectKind::ConfigMap, &key.name, &key.key, key.optional)
            } else if let Some(key) = &source.secret_key_ref {
                (ObjectKind::Secret, &key.name, &key.key, key.optional)
            } else {
                continue;
            };
            let keys = self.require(kind, name, optional)?;
            if keys.is_some_and(|keys| !keys.contains(key)) && optional != Some(true) {
                return Err(format!("couldn't find key {key} in {} {namespace}/{name}", kind.title()));
            }
        }
        Ok(())
    }

    /// Whether all volumes can be mounted. What is wrong otherwise a kubelet tells in events alone.
    pub(super) fn can_mount(&self, pod: &PodSpec) -> bool {
        pod.volumes.iter().flatten().all(|volume| self.check_volume(volume).is_ok())
    }

    fn check_volume(&self, volume: &Volume) -> Result<(), String> {
        if let Some(source) = &volume.config_map {
            return self.check_items(ObjectKind::ConfigMap, &source.name, source.items.as_deref(), source.optional);
        }
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            return self.check_items(ObjectKind::Secret, name, source.items.as_deref(), source.optional);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(source) = &source.config_map {
                self.check_items(ObjectKind::ConfigMap, &source.name, source.items.as_deref(), source.optional)?;
            } else if let Some(source) = &source.secret {
                self.check_items(ObjectKind::Secret, &source.name, source.items.as_deref(), source.optional)?;
            }
        }
        Ok(())
    }

    fn check_items(
        &self,
        kind: ObjectKind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let Some(keys) = self.require(kind, name, optional)? else { return Ok(()) };
        match items.into_iter().flatten().find(|item| !keys.contains(&item.key)) {
            Some(item) if optional != Some(true) => {
                Err(format!("references non-existent {} key: {}", kind.resource(), item.key))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The object's keys; `None` where there is no such object and that is as well.
    fn require(
        &self,
        kind: ObjectKind,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&BTreeSet<String>>, String> {
        match self.get(kind, name) {
            Ok(keys) => Ok(Some(keys)),
            Err(_) if optional == Some(true) => Ok(None),
            Err(missing) => Err(missing),
        }
    }
}
