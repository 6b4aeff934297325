//! Clusters to try the promises on, and short ways to do what most of them do.

use raygate::manager::{ManagerError, Observed};
use raygate::ray::cluster::RayCluster;
use serde_json::{Value, json};

use super::{Ground, Outcome};

/// A cluster with one worker group, `small`.
pub(super) fn cluster(namespace: &str, name: &str, replicas: i32) -> Outcome<RayCluster> {
    let object = json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
            "workerGroupSpecs": [group("small", replicas)],
        },
    });
    Ok(serde_json::from_value(object)?)
}

/// A worker group with replicas and nothing else that has a default.
pub(super) fn group(name: &str, replicas: i32) -> Value {
    json!({"groupName": name, "replicas": replicas, "rayStartParams": {}, "template": template("ray-worker")})
}

fn template(container: &str) -> Value {
    let resources = json!({"requests": {"cpu": "10m", "memory": "64Mi"}});
    json!({"spec": {"containers": [{"name": container, "image": "rayproject/ray:2.52.0", "resources": resources}]}})
}

/// A cluster that the operator leaves alone: nobody but the test writes to it.
pub(super) fn quiet(namespace: &str, name: &str) -> Outcome<RayCluster> {
    let mut cluster = cluster(namespace, name, 1)?;
    if let Some(spec) = &mut cluster.spec {
        spec.extra.insert("managedBy".to_owned(), json!("kueue.x-k8s.io/multikueue"));
    }
    Ok(cluster)
}

impl Ground {
    /// Creates a cluster that the operator leaves alone.
    pub(super) async fn create_quiet(&self, name: &str) -> Outcome<Observed<RayCluster>> {
        Ok(self.backend.clusters.create(&quiet(&self.namespace, name)?).await?)
    }

    /// Creates a cluster with so many workers.
    pub(super) async fn create_cluster(&self, name: &str, replicas: i32) -> Outcome<Observed<RayCluster>> {
        Ok(self.backend.clusters.create(&cluster(&self.namespace, name, replicas)?).await?)
    }

    pub(super) async fn get(&self, name: &str) -> Result<Observed<RayCluster>, ManagerError> {
        self.backend.clusters.get(&self.namespace, name).await
    }

    /// Patches the object as it was observed.
    pub(super) async fn patch(
        &self,
        object: &Observed<RayCluster>,
        patch: &Value,
    ) -> Result<Observed<RayCluster>, ManagerError> {
        let (namespace, name) = (object.namespace(), object.name());
        self.backend.clusters.patch(namespace, name, object.resource_version(), patch).await
    }

    /// Patches the object as it is now, again and again while others write to it.
    pub(super) async fn edit(&self, name: &str, patch: &Value) -> Outcome<Observed<RayCluster>> {
        loop {
            let object = self.get(name).await?;
            match self.patch(&object, patch).await {
                Err(ManagerError::Conflict) => {}
                answer => return Ok(answer?),
            }
        }
    }
}

/// `metadata.generation`.
pub(super) fn generation(object: &Observed<RayCluster>) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

/// The resourceVersion as a number: versions of one backend can be compared.
pub(super) fn version(text: &str) -> Outcome<u64> {
    Ok(text.parse()?)
}

/// That the answer is Invalid and names this field as a cause.
pub(super) fn assert_invalid<T>(answer: Result<T, ManagerError>, field: &str) {
    let causes = match answer.err() {
        Some(ManagerError::Invalid { causes, .. }) => causes,
        other => {
            return assert_eq!(other.map(|error| error.to_string()).as_deref(), Some("invalid"), "{field}");
        }
    };
    assert!(causes.iter().any(|cause| cause.field == field && !cause.message.is_empty()), "{field}: {causes:?}");
}

/// That the answer is Invalid, and that what it says of this field contains these words of the apiserver's.
pub(super) fn assert_refused<T>(answer: Result<T, ManagerError>, field: &str, words: &str) {
    let causes = match answer.err() {
        Some(ManagerError::Invalid { causes, .. }) => causes,
        other => return assert_eq!(other.map(|error| error.to_string()).as_deref(), Some("invalid"), "{field}"),
    };
    let found = causes.iter().any(|cause| cause.field == field && cause.message.contains(words));
    assert!(found, "{field}: {words}: {causes:?}");
}

/// That the answer says of exactly these fields that they don't exist.
pub(super) fn assert_unknown<T>(answer: Result<T, ManagerError>, fields: &[&str]) {
    let words: Vec<String> = fields.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    assert_error(answer, &ManagerError::FieldNotSupported(words.join(", ")));
}

/// A cluster that the operator leaves alone, with these members in the head's container.
pub(super) fn quiet_with(namespace: &str, name: &str, members: &Value) -> Outcome<RayCluster> {
    let mut cluster = quiet(namespace, name)?;
    let head = cluster.spec.as_mut().and_then(|spec| spec.head_group_spec.as_mut()).ok_or("no head")?;
    for (member, value) in members.as_object().ok_or("no members")? {
        head.template["spec"]["containers"][0][member] = value.clone();
    }
    Ok(cluster)
}

/// That the answer is this error.
pub(super) fn assert_error<T>(answer: Result<T, ManagerError>, expected: &ManagerError) {
    assert_eq!(answer.err().as_ref(), Some(expected));
}
