//! Change a cluster: put a document (or a whole RayCluster) in its place, merge a patch into it, or do the same with one of
//! its worker groups.

use serde_json::{Value, json};

use super::create::field_pointer;
use super::error::from_manager;
use super::run::mark;
use super::terms::exists;
use super::{ApiError, ErrorCode, Guard, Service, Terms, Written, owned, pods};
use crate::access::{Action, Caller, Denied};
use crate::manager::{ManagerError, Observed};
use crate::ray::begun;
use crate::ray::body::{Body, Format};
use crate::ray::cluster::RayCluster;
use crate::ray::document::{Document, wrong_removals};
use crate::ray::fault::{Fault, FaultCode, Warning, WarningCode, escape};
use crate::ray::json;
use crate::ray::lens::{Edit, Refusal, document_pointer, edit, manifest_pointer, pointer_in_sent, view};
use crate::ray::managed::managed_by_others;
use crate::ray::manifest::{Manifest, moved_pointer};
use crate::ray::name::ClusterKey;
use crate::ray::outdated::outdated_nodes;
use crate::ray::owner::owner;
use crate::ray::version;

/// Members of a worker group's answer that only the server writes.
const GROUP_SERVER_MEMBERS: [&str; 2] = ["status", "warnings"];

/// What there is under a name.
enum Found {
    Held(Box<Observed<RayCluster>>),
    /// A cluster that the caller may not see.
    Hidden,
    Nothing,
}

/// What a body is, and how it is to be taken.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// A document or RayCluster in place of the one that is held.
    Put,
    /// A patch of the document.
    Merge,
    /// A worker group of this name in place of the one that is held, or beside the others.
    PutGroup(&'a str),
    /// A patch of this worker group.
    MergeGroup(&'a str),
    /// No body: this worker group goes.
    DropGroup(&'a str),
}

impl Way<'_> {
    fn group(&self) -> Option<&str> {
        match self {
            Self::Put | Self::Merge => None,
            Self::PutGroup(name) | Self::MergeGroup(name) | Self::DropGroup(name) => Some(name),
        }
    }

    /// Whether it says enough, and what it is about is there; answers whether it makes a new worker group.
    fn fits(&self, held: &Value, key: &ClusterKey, guard: &Guard) -> Result<bool, ApiError> {
        let Some(group) = self.group() else { return Ok(false) };
        let is_there = view(held).document.group(group).is_some();
        let puts = matches!(self, Self::PutGroup(_));
        if !is_there && !puts {
            if begun::dropped_groups(held).contains(group) {
                return Err(group_terminating(group));
            }
            let detail = format!("The cluster {key} has no worker group {group}.");
            return Err(ApiError::new(ErrorCode::NotFound, detail));
        }
        if is_there && guard.absent {
            let detail = format!("There is a worker group {group} already.");
            return Err(ApiError::new(ErrorCode::PreconditionFailed, detail));
        }
        if !matches!(self, Self::MergeGroup(_)) {
            guard.must_match("This")?;
        }
        Ok(puts && !is_there)
    }

    /// Where in the body something of the document stands.
    fn place(&self, pointer: String) -> String {
        let inside = self.group().and_then(|name| pointer.strip_prefix(&format!("/workerGroups/{}", escape(name))));
        match inside {
            Some(inside) if inside.is_empty() || inside.starts_with('/') => inside.to_owned(),
            _ => pointer,
        }
    }

    /// The document, or patch of one, of which the body is a part.
    fn whole(&self, body: &Body) -> Value {
        match self.group() {
            Some(name) => json!({"workerGroups": {name: body.value}}),
            None => body.value.clone(),
        }
    }
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
        terms: &Terms,
    ) -> Result<(Written, bool), ApiError> {
        let key = self.resolve(caller, Action::WriteCluster, reference)?;
        let body = Body::read(format, bytes)?;
        self.fresh()?;
        let turn = self.turn(&key).await?;
        loop {
            let Found::Held(held) = self.find(caller, &key, &terms.guard).await? else {
                let (body, faults) = named(Body::read(format, bytes)?, &key);
                // A key is a `POST`'s: who puts again says what must be there.
                let terms = &Terms { key: None, ..terms.clone() };
                return match self.create_from(caller, body, faults, terms).await {
                    Ok(written) => Ok((written, true)),
                    // Somebody else made it in between.
                    Err(error) if terms.guard.absent && error.code == ErrorCode::AlreadyExists => Err(exists()),
                    Err(error) => Err(error),
                };
            };
            if terms.guard.revisions.is_none() {
                let detail = format!("There is a cluster {key} already.");
                let hint = "Send `If-Match` with the ETag that was read (or `*` for whatever is there) to replace it.";
                return Err(ApiError::new(ErrorCode::PreconditionRequired, detail).hint(hint));
            }
            if let Some(written) = self.write(caller, &key, &held, (&body, Way::Put), terms).await? {
                return Ok((written, false));
            }
            turn.lost().await?;
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
        sent: (Format, &[u8]),
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        Ok(self.change(caller, reference, Some(sent), Way::Merge, terms).await?.0)
    }

    /// Puts a worker group in the place of the one of this name, or beside the others; says whether it is new.
    ///
    /// # Errors
    /// As [`Self::put`]; the guard is always needed.
    pub async fn put_group(
        &self,
        caller: &Caller,
        (reference, group): (&str, &str),
        sent: (Format, &[u8]),
        terms: &Terms,
    ) -> Result<(Written, bool), ApiError> {
        self.change(caller, reference, Some(sent), Way::PutGroup(group), terms).await
    }

    /// Merges a patch (RFC 7396) into a worker group.
    ///
    /// # Errors
    /// As [`Self::patch`]; no such worker group.
    pub async fn patch_group(
        &self,
        caller: &Caller,
        (reference, group): (&str, &str),
        sent: (Format, &[u8]),
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        Ok(self.change(caller, reference, Some(sent), Way::MergeGroup(group), terms).await?.0)
    }

    /// Drops a worker group: its nodes go, then its entry.
    ///
    /// # Errors
    /// No such cluster or worker group; a guard that is missing or doesn't hold; what others own.
    pub async fn delete_group(
        &self,
        caller: &Caller,
        (reference, group): (&str, &str),
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        Ok(self.change(caller, reference, None, Way::DropGroup(group), terms).await?.0)
    }

    /// Changes a cluster that there is; says whether a worker group is new.
    async fn change(
        &self,
        caller: &Caller,
        reference: &str,
        sent: Option<(Format, &[u8])>,
        way: Way<'_>,
        terms: &Terms,
    ) -> Result<(Written, bool), ApiError> {
        let key = self.resolve(caller, Action::WriteCluster, reference)?;
        let mut body = sent.map(|(format, bytes)| Body::read(format, bytes)).transpose()?.unwrap_or_default();
        if let (Some(_), Some(members)) = (way.group(), body.value.as_object_mut()) {
            // What only the server writes, so that what was read can be sent back.
            members.retain(|name, _| !GROUP_SERVER_MEMBERS.contains(&name.as_str()));
        }
        self.fresh()?;
        // Of a worker group `If-None-Match` is about the group; the rest is the cluster's.
        let guard = Guard { absent: terms.guard.absent && way.group().is_none(), ..terms.guard.clone() };
        let turn = self.turn(&key).await?;
        loop {
            let held = self.held_now(caller, &key, &guard).await?;
            let is_new = way.fits(&held.raw, &key, &terms.guard)?;
            if let Some(written) = self.write(caller, &key, &held, (&body, way), terms).await? {
                return Ok((written, is_new));
            }
            turn.lost().await?;
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

    /// One attempt: the difference between what is held and what is wanted. `None` where somebody else wrote in between.
    async fn write(
        &self,
        caller: &Caller,
        key: &ClusterKey,
        held: &Observed<RayCluster>,
        (body, way): (&Body, Way<'_>),
        terms: &Terms,
    ) -> Result<Option<Written>, ApiError> {
        let is_manifest = matches!(way, Way::Put) && body.is_manifest();
        let (Edit { mut object, standing }, mut warnings) = if is_manifest {
            wanted_manifest(&held.raw, body)?
        } else {
            (wanted_document(&held.raw, body, way)?, Vec::new())
        };
        let said = body.value.pointer(if is_manifest { "/spec/suspend" } else { "/suspended" });
        if said.is_none_or(Value::is_null) {
            owned::keep_suspension(&held.raw, &mut object);
        }
        if terms.restart {
            // A RayCluster that was read while it is being restarted says how far that is.
            let stops = said == Some(&Value::Bool(true)) && !(is_manifest && begun::is_restarting(&body.value));
            restart_with(&held.raw, &mut object, stops, &mark(caller, key, terms))?;
        }
        let sent = way.whole(body);
        // Groups that are held back aren't in what was sent.
        let in_sent = |pointer: &str| moved_pointer(pointer, &object, &sent).unwrap_or_default();
        let place = |pointer: &str| {
            if is_manifest { in_sent(pointer) } else { way.place(pointer_in_sent(pointer, &object, &sent)) }
        };
        pods::check(caller, key, Some(&held.raw), &object, place)?;
        owned::check(&held.raw, &object)?;
        let standing = standing.into_iter();
        warnings.extend(standing.map(|fault| Warning::new(fault.pointer, WarningCode::StandingFault, fault.message)));
        for mut warning in version::mismatches(&view(&object).document) {
            if is_manifest {
                warning.pointer = in_sent(&manifest_pointer(&warning.pointer, &object));
            }
            warnings.push(warning);
        }
        warnings.extend(self.restart_needed(key, held, &object));
        let changes = json::changes(&held.raw, &object);
        for (changed, manager) in managed_by_others(&held.managed, &held.raw, &changes) {
            let message = format!("`{manager}` manages this too, and may set it back.");
            let pointer = if is_manifest { in_sent(&changed) } else { pointer_in_sent(&changed, &object, &sent) };
            let warning = Warning::new(pointer, WarningCode::ManagedByOther, message);
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        for warning in &mut warnings {
            warning.pointer = way.place(std::mem::take(&mut warning.pointer));
        }

        let difference = json::difference(&held.raw, &object);
        let written = |observed, changed| {
            let written = self.written(caller, observed, changed, terms);
            Ok(Some(Written { warnings, ..written }))
        };
        if difference.is_empty() {
            return written(held, Vec::new());
        }
        let patch = Value::Object(difference);
        match self.attempt(key, held, &patch, terms).await {
            Ok(Some(observed)) => written(&observed, changes),
            Ok(None) => Ok(None),
            Err(error) => {
                let place = |field: &str| {
                    if is_manifest {
                        in_sent(&field_pointer(field))
                    } else {
                        way.place(document_pointer(field, &object))
                    }
                };
                Err(from_manager(error, key).placed(place))
            }
        }
    }

    /// What to say of the nodes that go on as they were made.
    fn restart_needed(&self, key: &ClusterKey, held: &Observed<RayCluster>, wanted: &Value) -> Option<Warning> {
        let nodes = outdated_nodes(&held.raw, wanted, &self.cache.nodes(held.uid()));
        let first = nodes.first()?;
        let those = match nodes.len() {
            1 => format!("The node {first} goes"),
            many => format!("{many} nodes (see `nodes`) go"),
        };
        let message = format!(
            "{those} on as made before this write; only new nodes are made by it. POST clusters/{key}/restart makes all nodes \
             anew, and so does a write with ?restart=true."
        );
        Some(Warning { nodes, ..Warning::new("", WarningCode::RestartNeeded, message) })
    }
}

/// Begins a restart in the same write, unless it has been begun.
fn restart_with(held: &Value, object: &mut Value, stops: bool, mark: &str) -> Result<(), ApiError> {
    owned::check_suspension(held)?;
    if stops {
        let message = "The same write says that the cluster is stopped: it is either that or restarted.";
        return Err(ApiError::faulty(Fault::new("?restart", FaultCode::InvalidParameter, message).into()));
    }
    if !begun::is_restarting(object) && !begun::is_marked(held, mark) {
        json::merge(object, &begun::restart(mark));
    }
    Ok(())
}

fn group_terminating(name: &str) -> ApiError {
    let detail = format!("The worker group {name} is being dropped: some of its nodes are left.");
    ApiError::new(ErrorCode::GroupTerminating, detail).hint("Once they are gone the name is free.").retry()
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

fn wanted_document(held: &Value, body: &Body, way: Way<'_>) -> Result<Edit, ApiError> {
    if !body.value.is_object() && !matches!(way, Way::DropGroup(_)) {
        body.judge(vec![Fault::wrong_type("", "an object", &body.value)])?;
    }
    let mut faults = Vec::new();
    let mut seen = Value::Object(view(held).document.0);
    let wanted = match way {
        Way::Put => body.value.clone(),
        Way::Merge | Way::MergeGroup(_) => {
            let patch = way.whole(body);
            faults.extend(wrong_removals(&patch));
            json::merge(&mut seen, &patch);
            seen
        }
        Way::PutGroup(name) | Way::DropGroup(name) => {
            json::merge(&mut seen, &json!({"workerGroups": {name: null}}));
            if let Way::PutGroup(_) = way {
                seen["workerGroups"][name].clone_from(&body.value);
            }
            seen
        }
    };
    let (wanted, found) = Document::read(wanted);
    faults.extend(found);
    let mut edit = edit(held, wanted, faults);
    if let Err(Refusal::Faults(faults)) = &mut edit {
        for fault in faults {
            fault.pointer = way.place(std::mem::take(&mut fault.pointer));
        }
    }
    refused(edit, body)
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
        Refusal::GroupTerminating(name) => group_terminating(&name),
        Refusal::AutoscalerOwns(name) => {
            let detail = format!("Ray's autoscaler sets the replicas of {name}.");
            let hint = "Change `minReplicas` and `maxReplicas`, or turn the autoscaler off in the same write.";
            ApiError::new(ErrorCode::AutoscalerOwnsReplicas, detail).hint(hint)
        }
    })
}
