//! What the audit is told of a request. A guard watches over each: whatever becomes of it, its line is written.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::response::Response;
use http::Method;

use super::App;
use super::error::name_of;
use super::middleware::is_safe;
use crate::access::{Action, Caller, Identity};
use crate::audit::{Line, Outcome};
use crate::clock;
use crate::operations::{ApiError, ErrorCode};
use crate::ray::name::{ClusterKey, ClusterRef};

/// Most of a path that is told, in bytes.
const LONGEST_PATH: usize = 300;

/// The address that a connection came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// What a request is found out to be while it is served. Travels as an extension of the request.
#[derive(Clone, Default)]
pub(super) struct Trail(Arc<Found>);

#[derive(Default)]
struct Found {
    action: OnceLock<Action>,
    who: OnceLock<Identity>,
    cluster: OnceLock<ClusterKey>,
}

impl Trail {
    /// What is asked for.
    pub(super) fn asks(&self, action: Action) {
        self.0.action.get_or_init(|| action);
    }

    /// Who asks, and for which cluster, by its reference in the path.
    pub(super) fn is_by(&self, caller: &Caller, reference: Option<&str>) {
        self.0.who.get_or_init(|| caller.identity.clone());
        if let Some(ClusterRef { name, namespace }) = reference.and_then(ClusterRef::parse) {
            let namespace = namespace.unwrap_or_else(|| caller.default_namespace.clone());
            self.0.cluster.get_or_init(|| ClusterKey::new(namespace, name));
        }
    }
}

/// What a write did; `changed` is `None` where the whole cluster is on its way out. Travels as an extension of the response.
#[derive(Debug, Clone)]
struct Done {
    uid: String,
    changed: Option<Vec<String>>,
    cluster: Option<ClusterKey>,
    rule: Option<&'static str>,
}

/// The answer to a write that changed this, or nothing, of the cluster with this uid.
pub(super) fn wrote(mut response: Response, key: &ClusterKey, uid: &str, changed: Vec<String>) -> Response {
    let done = Done { uid: uid.to_owned(), changed: Some(changed), cluster: Some(key.clone()), rule: None };
    response.extensions_mut().insert(done);
    response
}

/// The answer to the deletion of the cluster with this uid, and whether anything came of it.
pub(super) fn deleted(mut response: Response, uid: &str, any: bool) -> Response {
    let changed = (!any).then(Vec::new);
    response.extensions_mut().insert(Done { uid: uid.to_owned(), changed, cluster: None, rule: None });
    response
}

/// The answer to a deletion of what there isn't, as far as the caller may know: this rule may hide it.
pub(super) fn missing(mut response: Response, rule: Option<&'static str>) -> Response {
    response.extensions_mut().insert(Done { uid: String::new(), changed: Some(Vec::new()), cluster: None, rule });
    response
}

/// Watches over a request. Dropped without an answer (its client has gone, and nobody waits), it tells so.
pub(super) struct Watch {
    app: Arc<App>,
    trail: Trail,
    method: Method,
    path: String,
    request_id: String,
    peer: Option<IpAddr>,
    told: bool,
}

impl Watch {
    pub(super) fn new(app: Arc<App>, method: Method, path: &str, request_id: &str, peer: Option<IpAddr>) -> Self {
        let cut = path.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_PATH);
        let path = path.get(..cut.unwrap_or(path.len())).unwrap_or_default().to_owned();
        Self { app, trail: Trail::default(), method, path, request_id: request_id.to_owned(), peer, told: false }
    }

    /// What finds out about the request.
    pub(super) fn trail(&self) -> Trail {
        self.trail.clone()
    }

    /// Tells of the answer, if it is one that the audit is for.
    pub(super) fn answered(mut self, response: &Response) {
        self.told = true;
        let error = response.extensions().get::<ApiError>();
        let done = response.extensions().get::<Done>();
        let refused =
            error.is_some_and(|error| error.note.rule.is_some()) || done.is_some_and(|done| done.rule.is_some());
        let quiet = error.is_some_and(|error| error.note.quiet);
        let changes = !is_safe(&self.method) && self.trail.0.action.get().is_some();
        if quiet || !(refused || changes && self.method != Method::CONNECT) {
            return;
        }
        let result = match (error, done) {
            _ if refused => Outcome::Refused,
            (Some(error), _) if error.code == ErrorCode::OutcomeUnknown => Outcome::Unknown,
            (None, Some(done)) if done.changed.as_ref().is_some_and(Vec::is_empty) => Outcome::Unchanged,
            (None, Some(_)) => Outcome::Changed,
            _ => Outcome::Failed,
        };
        let mut line = self.line(result);
        line.status = Some(response.status().as_u16());
        line.code = error.map(|error| name_of(error.code));
        if let Some(note) = error.map(|error| &error.note) {
            line.rule = note.rule;
            line.cluster = note.cluster.as_ref().map(ToString::to_string).or(line.cluster);
            line.uid.clone_from(&note.uid);
        }
        if let Some(done) = done {
            line.rule = done.rule.or(line.rule);
            line.uid = Some(done.uid.clone()).filter(|uid| !uid.is_empty());
            line.changed = done.changed.clone().unwrap_or_default();
            line.cluster = done.cluster.as_ref().map(ToString::to_string).or(line.cluster);
        }
        self.app.audit.record(&line);
    }

    fn line(&self, result: Outcome) -> Line {
        let found = &self.trail.0;
        let who = found.who.get();
        Line {
            time: clock::now(),
            audit: 1,
            request_id: self.request_id.clone(),
            user: who.map(|who| who.user.clone()),
            authenticator: who.map(|who| who.authenticator),
            token_id: who.and_then(|who| who.credential.clone()),
            peer: self.peer.map(|peer| peer.to_string()),
            verb: self.method.to_string(),
            path: self.path.clone(),
            action: found.action.get().map(|action| action.name()),
            cluster: found.cluster.get().map(ToString::to_string),
            uid: None,
            result,
            status: None,
            code: None,
            rule: None,
            changed: Vec::new(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.told && !is_safe(&self.method) && self.trail.0.who.get().is_some() {
            self.app.audit.record(&self.line(Outcome::Unknown));
        }
    }
}
