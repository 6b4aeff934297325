//! `/whoami`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::error::Problems;
use super::extract::NoQuery;
use crate::access::{Caller, Role};

/// Who is asking, and what they may do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhoAmI {
    /// The name that owns what they create.
    name: String,
    /// The groups that they are in.
    groups: Vec<String>,
    /// What vouches for them: `token`; `none` where nobody is asked.
    authenticator: &'static str,
    /// The name of their token, which is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    /// Until when their token is valid (RFC 3339, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    expire_time: Option<String>,
    /// The namespace that they mean where they name none.
    default_namespace: String,
    /// Where they may do what.
    namespaces: Vec<Reach>,
    /// What one process does for them; absent where nobody is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<CallerLimits>,
}

/// What one process does for one caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallerLimits {
    /// Requests a second, in the long run.
    requests_per_second: u32,
    /// Requests at one stroke after a pause.
    burst: u32,
    /// Requests that are under way at once.
    concurrent_requests: u32,
    /// Streams that are open at once.
    streams: u32,
}

/// What somebody may do in some namespaces.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reach {
    /// A namespace, or a pattern for namespaces, in which `*` stands for anything.
    namespace: String,
    /// What they may do there.
    role: Role,
}

/// Who is asking.
#[utoipa::path(get, path = "/whoami", operation_id = "get_whoami", tag = "service",
    responses((status = 200, description = "Who, and what they may do.", body = WhoAmI), Problems))]
pub(super) async fn get_whoami(State(app): State<Arc<App>>, caller: Caller, _: NoQuery) -> Json<WhoAmI> {
    let namespaces = caller.reach().map(|(namespace, role)| Reach { namespace, role });
    let settings = app.limits.settings();
    let limits = (!app.service.access.is_open()).then(|| CallerLimits {
        requests_per_second: settings.requests_per_second.get(),
        burst: settings.burst.get(),
        concurrent_requests: settings.concurrent_requests.get(),
        streams: settings.streams.get(),
    });
    let identity = &caller.identity;
    Json(WhoAmI {
        name: identity.user.clone(),
        groups: identity.groups.clone(),
        authenticator: identity.authenticator,
        token_id: identity.credential.clone(),
        expire_time: identity.expires.map(|expires| expires.to_string()),
        default_namespace: caller.default_namespace.clone(),
        namespaces: namespaces.collect(),
        limits,
    })
}
