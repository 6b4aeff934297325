//! Create a cluster.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::error::from_manager;
use super::{ApiError, ErrorCode, Service, Terms, Written, pods, repeat};
use crate::access::{Action, Caller, Target};
use crate::manager::{ManagerError, Observed, Scope};
use crate::ray::body::{Body, Format};
use crate::ray::cluster::RayCluster;
use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode, Warning, escape};
use crate::ray::json;
use crate::ray::lens::{build, document_pointer, manifest_pointer, pointer_in_sent, respell_document, tokens, view};
use crate::ray::manifest::Manifest;
use crate::ray::name::ClusterKey;
use crate::ray::owner;
use crate::ray::render::Form;
use crate::ray::version;

/// What is to be created, and how its faults are told.
struct Wanted {
    object: Value,
    is_manifest: bool,
    warnings: Vec<Warning>,
}

impl Service {
    /// Creates the cluster that a document asks for, or that a whole RayCluster is. With an `Idempotency-Key` under which
    /// one has been made by the same body, it answers that one.
    ///
    /// # Errors
    /// All faults of the body at once; a name that is taken; a key that another body has used; whatever Kubernetes refuses
    /// it for.
    pub async fn create(
        &self,
        caller: &Caller,
        (format, bytes): (Format, &[u8]),
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        self.create_from(caller, Body::read(format, bytes)?, Vec::new(), terms).await
    }

    /// Creates what a body asks for, unless it has these faults or others.
    pub(super) async fn create_from(
        &self,
        caller: &Caller,
        body: Body,
        faults: Vec<Fault>,
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        let mut wanted =
            if body.is_manifest() { read_manifest(&body, faults)? } else { self.read_document(&body, faults)? };
        let metadata = &mut wanted.object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or(&caller.default_namespace).to_owned();
        let key = ClusterKey::new(namespace.clone(), metadata["name"].as_str().unwrap_or_default());
        let allowed = self.access.authorize(caller, Action::CreateCluster, Target::Namespace(&namespace));
        allowed.map_err(|denied| ApiError::from(denied).about(&key, None))?;
        metadata["namespace"] = namespace.clone().into();
        // Where nobody says who they are, nobody owns anything.
        if !self.access.is_open() {
            json::merge(metadata, &owner::patch(Some(caller.user())));
        }
        let place = |pointer: &str| wanted.place(pointer, &body.value);
        pods::check(caller, &key, None, &wanted.object, place)?;
        self.fresh()?;
        let repeat = terms.key.as_ref().map(|key| repeat::Key::new(caller, &namespace, key, &body.value));
        let written = self.make(caller, &key, wanted, repeat.as_ref(), terms).await;
        written.map_err(|error| error.about(&key, None))
    }

    /// Makes what is wanted, if it hasn't been made by the same request before.
    async fn make(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        mut wanted: Wanted,
        repeat: Option<&repeat::Key>,
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        let failed = |error| from_manager(error, key);
        let nonce = repeat::nonce();
        json::merge(&mut wanted.object["metadata"], &json!({"annotations": {repeat::NONCE: nonce}}));
        if let Some(repeat) = repeat {
            let scope = Scope::Namespace(key.namespace.clone());
            let made = self.backend.clusters.list(&scope, Some(&repeat.selector())).await.map_err(failed)?;
            if let Some(made) = made.first() {
                return self.replayed(caller, made, repeat, terms);
            }
            repeat.put(&mut wanted.object["metadata"]);
        }
        let cluster = RayCluster::deserialize(&wanted.object)
            .map_err(|error| ApiError::faulty(Fault::new("", FaultCode::InvalidValue, error.to_string()).into()))?;
        let error = match self.clusters(terms).create(&cluster).await {
            Ok(observed) => return Ok(self.made(caller, &observed, wanted, terms)),
            Err(error) => error,
        };
        let mut held = None;
        if let ManagerError::AlreadyExists = error {
            held = self.backend.clusters.get(&key.namespace, &key.name).await.ok();
        } else if let (ManagerError::OutcomeUnknown(_), false) = (&error, terms.dry_run) {
            held = self.look_back(key).await.ok();
        }
        match (held, repeat) {
            (Some(held), _) if held.raw["metadata"]["annotations"][repeat::NONCE] == *nonce => {
                Ok(self.made(caller, &held, wanted, terms))
            }
            (Some(held), Some(repeat)) if repeat.has_made(&held.raw) => self.replayed(caller, &held, repeat, terms),
            (Some(held), _) => Err(taken(caller, key, &held, &wanted)),
            (None, _) if error == ManagerError::AlreadyExists => Err(ApiError::taken_unseen(key)),
            (None, _) => Err(from_manager(error, key).placed(|field| {
                if wanted.is_manifest { field_pointer(field) } else { document_pointer(field, &wanted.object) }
            })),
        }
    }

    /// The answer to a create.
    fn made(&self, caller: &Caller, observed: &Observed<RayCluster>, wanted: Wanted, terms: &Terms) -> Written {
        let written = self.written(caller, observed, vec![String::new()], terms);
        Written { warnings: wanted.warnings, ..written }
    }

    /// The answer to a create whose `Idempotency-Key` has made a cluster before.
    fn replayed(
        &self,
        caller: &Caller,
        made: &Observed<RayCluster>,
        repeat: &repeat::Key,
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        let key = ClusterKey::new(made.namespace(), made.name());
        if caller.sight(&key, owner::owner(&made.raw)).is_none() {
            return Err(ApiError::taken_unseen(&key));
        }
        if !repeat.has_made_just_this(&made.raw) {
            let detail = format!("This `Idempotency-Key` has made the cluster {key}, by another body.");
            return Err(ApiError::new(ErrorCode::IdempotencyKeyReused, detail).hint("Use a new key for a new request."));
        }
        if made.metadata.deletion_timestamp.is_some() {
            return Err(ApiError::deleting(&key));
        }
        Ok(Written { replayed: true, ..self.written(caller, made, Vec::new(), terms) })
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

/// The name is taken: by what, and how that differs from what is wanted, as far as the caller may know.
fn taken(caller: &Caller, key: &ClusterKey, held: &Observed<RayCluster>, wanted: &Wanted) -> ApiError {
    let Some(form) = caller.sight(key, owner::owner(&held.raw)) else { return ApiError::taken_unseen(key) };
    if held.metadata.deletion_timestamp.is_some() {
        return ApiError::deleting(key);
    }
    let error = ApiError::taken(key);
    if form == Form::Masked {
        return error;
    }
    let (there, mut wanted_document) = (view(&held.raw).document, view(&wanted.object).document);
    respell_document(&mut wanted_document, &there);
    let differences = json::changes(&there.0.into(), &wanted_document.0.into()).into_iter().map(|pointer| {
        let pointer = if wanted.is_manifest { manifest_pointer(&pointer, &wanted.object) } else { pointer };
        Fault::new(pointer, FaultCode::Different, "The cluster of this name has another value here.")
    });
    ApiError { faults: differences.collect(), ..error }
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
