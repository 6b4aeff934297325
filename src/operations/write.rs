//! Change a cluster: put a document (or a whole RayCluster) in its place, or merge a patch into it.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::create::field_pointer;
use super::error::from_manager;
use super::{ApiError, ErrorCode, Service, Written, owned, pods};
use crate::access::{Action, Caller, Denied};
use crate::manager::{ManagerError, Observed};
use crate::ray::body::{Body, Format};
use crate::ray::cluster::RayCluster;
use crate::ray::document::{Document, wrong_removals};
use crate::ray::fault::{Fault, FaultCode, Warning, WarningCode};
use crate::ray::json;
use crate::ray::lens::{Edit, Refusal, document_pointer, edit, manifest_pointer, pointer_in_sent, view};
use crate::ray::manifest::Manifest;
use crate::ray::name::ClusterKey;
use crate::ray::owner::owner;
use crate::ray::revision::revision;
use crate::ray::version;

/// What must hold for a write to be carried out: `If-Match` and `If-None-Match`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// `If-Match`: the cluster must exist and have one of these revisions; an empty list is `*`, any.
    pub revisions: Option<Vec<String>>,
    /// `If-None-Match: *`: it must not exist.
    pub absent: bool,
}

impl Guard {
    /// Whether it holds of what there is.
    ///
    /// # Errors
    /// `PRECONDITION_FAILED`.
    pub(super) fn check(&self, held: Option<&Value>) -> Result<(), ApiError> {
        let failed = |detail: &str| Err(ApiError::new(ErrorCode::PreconditionFailed, detail));
        match (held, &self.revisions) {
            (Some(_), _) if self.absent => Err(exists()),
            (None, Some(_)) => failed("There is no cluster of this name."),
            (Some(held), Some(revisions)) if !revisions.is_empty() && !revisions.contains(&revision(held)) => {
                failed("The cluster has changed since it was read; read it again.")
            }
            _ => Ok(()),
        }
    }
}

fn exists() -> ApiError {
    ApiError::new(ErrorCode::PreconditionFailed, "There is a cluster of this name already.")
}

/// What there is under a name.
enum Found {
    Held(Box<Observed<RayCluster>>),
    /// A cluster that the caller may not see.
    Hidden,
    Nothing,
}

/// How a body is to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    Merge,
}

impl Service {
    /// Replaces a cluster by what a document asks for, or creates it; says whether it was created.
    ///
    /// # Errors
    /// A guard that doesn't hold or is missing; all faults of the body at once; what others own.
    pub async fn put(
        &self,
        caller: &Caller,
        reference: &str,
        (format, bytes): (Format, &[u8]),
        guard: &Guard,
    ) -> Result<(Written, bool), ApiError> {
        let key = self.resolve(caller, Action::WriteCluster, reference)?;
        let body = Body::read(format, bytes)?;
        self.fresh()?;
        loop {
            let Found::Held(held) = self.find(caller, &key, guard).await? else {
                let (body, faults) = named(body, &key);
                return match self.create_from(caller, body, faults).await {
                    Ok(written) => Ok((written, true)),
                    // Somebody else made it in between.
                    Err(error) if guard.absent && error.code == ErrorCode::AlreadyExists => Err(exists()),
                    Err(error) => Err(error),
                };
            };
            if guard.revisions.is_none() {
                let detail = format!("There is a cluster {key} already.");
                let hint = "Send `If-Match` with the ETag that was read (or `*` for whatever is there) to replace it.";
                return Err(ApiError::new(ErrorCode::PreconditionRequired, detail).hint(hint));
            }
            if let Some(written) = self.write(caller, &key, &held, &body, Way::Put).await? {
                return Ok((written, false));
            }
        }
    }

    /// Merges a patch (RFC 7396) into a cluster's document.
    ///
    /// # Errors
    /// No such cluster; a guard that doesn't hold; all faults at once; what others own.
    pub async fn patch(
        &self,
        caller: &Caller,
        reference: &str,
        (format, bytes): (Format, &[u8]),
        guard: &Guard,
    ) -> Result<Written, ApiError> {
        let key = self.resolve(caller, Action::WriteCluster, reference)?;
        let body = Body::read(format, bytes)?;
        self.fresh()?;
        loop {
            let held = self.held_now(caller, &key, guard).await?;
            if let Some(written) = self.write(caller, &key, &held, &body, Way::Merge).await? {
                return Ok(written);
            }
        }
    }

    /// The cluster from a quorum read; the caller may change it, and the guard holds.
    pub(super) async fn held_now(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        guard: &Guard,
    ) -> Result<Observed<RayCluster>, ApiError> {
        let none = ApiError::no_cluster(&key.to_string());
        match self.find(caller, key, guard).await? {
            Found::Held(held) => Ok(*held),
            Found::Hidden => Err(none.rule(Denied::Hidden.rule())),
            Found::Nothing => Err(none),
        }
    }

    /// What there is under a name; of what they may see, the caller may change it. The guard holds.
    async fn find(&self, caller: &Caller, key: &ClusterKey, guard: &Guard) -> Result<Found, ApiError> {
        // What comes to be while the answer is on its way isn't what it speaks of.
        let known = self.cache.get(key);
        let held = match self.backend.clusters.get(&key.namespace, &key.name).await {
            Ok(held) => held,
            Err(ManagerError::NotFound) => {
                if let Some(held) = known {
                    self.cache.gone(key, &held.uid);
                }
                return guard.check(None).map(|()| Found::Nothing);
            }
            Err(error) => return Err(from_manager(error, key)),
        };
        let owner = owner(&held.raw);
        if caller.sight(key, owner).is_none() {
            return guard.check(None).map(|()| Found::Hidden);
        }
        self.may(caller, Action::WriteCluster, key, (held.uid(), owner))?;
        if held.metadata.deletion_timestamp.is_some() {
            return Err(ApiError::deleting(key));
        }
        if let Err(why) = &held.decoded {
            let detail = format!("What Kubernetes holds under this name can't be read: {why}.");
            return Err(ApiError::new(ErrorCode::Unreadable, detail).hint("Mend it with kubectl first."));
        }
        guard.check(Some(&held.raw))?;
        Ok(Found::Held(Box::new(held)))
    }

    /// One attempt: the difference between what is held and what is wanted. `None` where somebody else wrote in between;
    /// the request's deadline ends such attempts.
    async fn write(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        held: &Observed<RayCluster>,
        body: &Body,
        way: Way,
    ) -> Result<Option<Written>, ApiError> {
        let is_manifest = way == Way::Put && body.is_manifest();
        let (Edit { mut object, standing }, mut warnings) = if is_manifest {
            wanted_manifest(&held.raw, body)?
        } else {
            (wanted_document(&held.raw, body, way)?, Vec::new())
        };
        let said = body.value.pointer(if is_manifest { "/spec/suspend" } else { "/suspended" });
        if said.is_none_or(Value::is_null) {
            owned::keep_suspension(&held.raw, &mut object);
        }
        let place = |pointer: &str| {
            if is_manifest { pointer.to_owned() } else { pointer_in_sent(pointer, &object, &body.value) }
        };
        pods::check(caller, key, Some(&held.raw), &object, place)?;
        owned::check(&held.raw, &object)?;
        self.check_dropped(held, &object)?;
        let standing = standing.into_iter();
        warnings.extend(standing.map(|fault| Warning::new(fault.pointer, WarningCode::StandingFault, fault.message)));
        for mut warning in version::mismatches(&view(&object).document) {
            if is_manifest {
                warning.pointer = manifest_pointer(&warning.pointer, &object);
            }
            warnings.push(warning);
        }

        let difference = json::difference(&held.raw, &object);
        let written =
            |observed, changed| Ok(Some(Written { cluster: self.shown_written(caller, observed), changed, warnings }));
        if difference.is_empty() {
            return written(held, Vec::new());
        }
        let patch = Value::Object(difference);
        match self.attempt(key, held, &patch).await {
            Ok(Some(observed)) => written(&observed, json::changes(&held.raw, &object)),
            Ok(None) => Ok(None),
            Err(error) => {
                let place =
                    |field: &str| if is_manifest { field_pointer(field) } else { document_pointer(field, &object) };
                Err(from_manager(error, key).placed(place))
            }
        }
    }

    /// The operator leaves the pods of a group that vanishes from the spec running for ever, so one that has nodes or
    /// wants some isn't dropped.
    fn check_dropped(&self, held: &Observed<RayCluster>, wanted: &Value) -> Result<(), ApiError> {
        let groups = wanted["spec"]["workerGroupSpecs"].as_array().into_iter().flatten();
        let kept: HashSet<_> = groups.filter_map(|group| group["groupName"].as_str()).collect();
        let nodes = self.cache.nodes(held.uid());
        let with_nodes: HashSet<_> = nodes.iter().map(|node| node.group.as_str()).collect();
        for group in held.decoded.iter().flat_map(RayCluster::worker_groups) {
            let name = group.group_name.as_str();
            if !kept.contains(name) && (group.desired_pods() > 0 || with_nodes.contains(name)) {
                let detail = format!("The worker group {} has nodes, or wants some.", group.group_name);
                let hint = "Set its `replicas`, `minReplicas` and `maxReplicas` to 0 first; once its nodes are gone it can be dropped.";
                return Err(ApiError::new(ErrorCode::GroupInUse, detail).hint(hint));
            }
        }
        Ok(())
    }
}

/// The body of a create under a path: its name and namespace are the path's, where it leaves them out. Another name is a
/// fault like any other.
fn named(mut body: Body, key: &ClusterKey) -> (Body, Vec<Fault>) {
    let at = if body.is_manifest() { "/metadata" } else { "" };
    if let Some(members) = body.value.as_object_mut().filter(|_| !at.is_empty()) {
        let metadata = members.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
    }
    let mut faults = Vec::new();
    for (member, wanted) in [("name", &key.name), ("namespace", &key.namespace)] {
        let Some(members) = body.value.pointer_mut(at).and_then(Value::as_object_mut) else { break };
        match members.get(member) {
            Some(Value::String(said)) if said != wanted => {
                let message = format!("`{member}` must be the path's, {wanted}.");
                faults.push(Fault::new(format!("{at}/{member}"), FaultCode::Immutable, message));
            }
            Some(Value::Null) | None => drop(members.insert(member.to_owned(), wanted.as_str().into())),
            Some(_) => {}
        }
    }
    (body, faults)
}

fn wanted_document(held: &Value, body: &Body, way: Way) -> Result<Edit, ApiError> {
    if !body.value.is_object() {
        body.judge(vec![Fault::wrong_type("", "an object", &body.value)])?;
    }
    let mut faults = Vec::new();
    let wanted = match way {
        Way::Put => body.value.clone(),
        Way::Merge => {
            faults.extend(wrong_removals(&body.value));
            let mut wanted = Value::Object(view(held).document.0);
            json::merge(&mut wanted, &body.value);
            wanted
        }
    };
    let (wanted, found) = Document::read(wanted);
    faults.extend(found);
    refused(edit(held, wanted, faults), body)
}

fn wanted_manifest(held: &Value, body: &Body) -> Result<(Edit, Vec<Warning>), ApiError> {
    let (manifest, faults) = Manifest::read(body.value.clone());
    let warnings = manifest.warnings.clone();
    Ok((refused(manifest.replace(held, faults), body)?, warnings))
}

fn refused(edit: Result<Edit, Refusal>, body: &Body) -> Result<Edit, ApiError> {
    let new = match &edit {
        Err(Refusal::Faults(faults)) => faults.clone(),
        _ => Vec::new(),
    };
    body.judge(new)?;
    edit.map_err(|refusal| match refusal {
        Refusal::Faults(faults) => ApiError::faulty(crate::ray::fault::Faults(faults)),
        Refusal::AmbiguousGroup(name) => {
            let detail = format!("There are several worker groups called {name}; which one is meant can't be known.");
            ApiError::new(ErrorCode::AmbiguousGroup, detail).hint("Give each its own name with kubectl first.")
        }
        Refusal::AutoscalerOwns(name) => {
            let detail = format!("Ray's autoscaler sets the replicas of {name}.");
            let hint = "Change `minReplicas` and `maxReplicas`, or turn the autoscaler off in the same write.";
            ApiError::new(ErrorCode::AutoscalerOwnsReplicas, detail).hint(hint)
        }
    })
}
