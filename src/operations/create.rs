//! Create a cluster.

use serde::Deserialize as _;
use serde_json::Value;

use super::error::from_manager;
use super::{ApiError, Service, Written, pods};
use crate::access::{Action, Caller, Target};
use crate::manager::ManagerError;
use crate::ray::body::{Body, Format};
use crate::ray::cluster::RayCluster;
use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode, Warning, escape};
use crate::ray::json;
use crate::ray::lens::{build, document_pointer, manifest_pointer, pointer_in_sent, tokens, view};
use crate::ray::manifest::Manifest;
use crate::ray::name::ClusterKey;
use crate::ray::owner;
use crate::ray::version;

/// What is to be created, and how its faults are told.
struct Wanted {
    object: Value,
    is_manifest: bool,
    warnings: Vec<Warning>,
}

impl Service {
    /// Creates the cluster that a document asks for, or that a whole RayCluster is.
    ///
    /// # Errors
    /// All faults of the body at once; a name that is taken; whatever Kubernetes refuses it for.
    pub async fn create(&self, caller: &Caller, format: Format, bytes: &[u8]) -> Result<Written, ApiError> {
        self.create_from(caller, Body::read(format, bytes)?, Vec::new()).await
    }

    /// Creates what a body asks for, unless it has these faults or others.
    pub(super) async fn create_from(
        &self,
        caller: &Caller,
        body: Body,
        faults: Vec<Fault>,
    ) -> Result<Written, ApiError> {
        let mut wanted =
            if body.is_manifest() { read_manifest(&body, faults)? } else { self.read_document(&body, faults)? };
        let metadata = &mut wanted.object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or(&caller.default_namespace).to_owned();
        let key = ClusterKey::new(namespace.clone(), metadata["name"].as_str().unwrap_or_default());
        let allowed = self.access.authorize(caller, Action::CreateCluster, Target::Namespace(&namespace));
        allowed.map_err(|denied| ApiError::from(denied).about(&key, None))?;
        metadata["namespace"] = namespace.into();
        // Where nobody says who they are, nobody owns anything.
        if !self.access.is_open() {
            json::merge(metadata, &owner::patch(Some(caller.user())));
        }
        let place = |pointer: &str| wanted.place(pointer, &body.value);
        pods::check(caller, &key, None, &wanted.object, place)?;
        self.fresh()?;

        let cluster = RayCluster::deserialize(&wanted.object)
            .map_err(|error| ApiError::faulty(Fault::new("", FaultCode::InvalidValue, error.to_string()).into()))?;
        match self.backend.clusters.create(&cluster).await {
            Ok(observed) => {
                let cluster = self.shown_written(caller, &observed);
                Ok(Written { cluster, changed: vec![String::new()], warnings: wanted.warnings })
            }
            Err(ManagerError::AlreadyExists) => Err(self.taken(caller, &key).await),
            Err(error) => Err(from_manager(error, &key).placed(|field| {
                if wanted.is_manifest { field_pointer(field) } else { document_pointer(field, &wanted.object) }
            })),
        }
        .map_err(|error| error.about(&key, None))
    }

    /// The name is taken: by what, as far as the caller may know.
    async fn taken(&self, caller: &Caller, key: &ClusterKey) -> ApiError {
        let held = self.backend.clusters.get(&key.namespace, &key.name).await;
        let Ok(held) = held else { return ApiError::taken_unseen(key) };
        if caller.sight(key, owner::owner(&held.raw)).is_none() {
            ApiError::taken_unseen(key)
        } else if held.metadata.deletion_timestamp.is_some() {
            ApiError::deleting(key)
        } else {
            ApiError::taken(key)
        }
    }

    fn read_document(&self, body: &Body, mut faults: Vec<Fault>) -> Result<Wanted, ApiError> {
        let (mut document, found) = Document::read(body.value.clone());
        faults.extend(found);
        if body.value.is_object() && !document.0.contains_key("name") {
            faults.push(Fault::new("/name", FaultCode::Required, "`name` is required."));
        }
        body.judge(faults)?;
        self.settings.defaults.apply(&mut document);
        let warnings = version::mismatches(&document);
        Ok(Wanted { object: build(&document), is_manifest: false, warnings })
    }
}

impl Wanted {
    /// Where in what was sent is what stands at this pointer in the RayCluster.
    fn place(&self, pointer: &str, sent: &Value) -> String {
        if self.is_manifest { pointer.to_owned() } else { pointer_in_sent(pointer, &self.object, sent) }
    }
}

fn read_manifest(body: &Body, mut faults: Vec<Fault>) -> Result<Wanted, ApiError> {
    let (Manifest { object, mut warnings }, found) = Manifest::read(body.value.clone());
    faults.extend(found);
    body.judge(faults)?;
    for mut warning in version::mismatches(&view(&object).document) {
        warning.pointer = manifest_pointer(&warning.pointer, &object);
        warnings.push(warning);
    }
    Ok(Wanted { object, is_manifest: true, warnings })
}

/// A field in Kubernetes' notation (`spec.workerGroupSpecs[0].template`) as a JSON Pointer.
pub(super) fn field_pointer(field: &str) -> String {
    tokens(field).into_iter().fold(String::new(), |pointer, token| pointer + "/" + &escape(token))
}
