//! What every request passes through, from the outside in.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, HOST, ORIGIN, UPGRADE};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};

use super::audit::{Peer, Trail, Watch};
use super::credential::{self, Token};
use super::error::{NO_CREDENTIAL, render, status};
use super::{App, action_of, methods_of};
use crate::access::limits::Permit;
use crate::access::{Access, Action, Caller, Need, Rejected, Target};
use crate::clock;
use crate::metrics::Decision;
use crate::operations::{ApiError, ErrorCode};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest request id that is taken from a client, in bytes.
const LONGEST_ID: usize = 128;

/// The id of a request: the client's own if it is printable, else a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let usable =
        given.filter(|id| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
    usable.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

/// Outermost: gives the request an id, its errors their form, and the log a line.
pub(super) async fn finish(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = clock::instant();
    let id = request_id(&request);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let watch = Watch::new(app, method.clone(), &path, &id, peer);
    request.extensions_mut().insert(watch.trail());
    let response = next.run(request).await;
    watch.answered(&response);
    let mut response = render(response, &path, &id);
    if let Ok(id) = HeaderValue::try_from(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if method == Method::PATCH && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // RFC 5789, section 2.2.
        let accepted = HeaderValue::from_static("application/merge-patch+json, application/json, application/yaml");
        response.headers_mut().insert("accept-patch", accepted);
    }
    let status = response.status().as_u16();
    let milliseconds = clock::instant().saturating_duration_since(began).as_millis();
    if matches!(path.as_str(), "/health" | "/ready" | "/metrics") {
        tracing::debug!(request_id = id, %method, path, status, milliseconds, "answered a probe");
    } else {
        tracing::info!(request_id = id, %method, path, status, milliseconds, "answered a request");
    }
    response
}

/// A panic is an answer like any other, and its text is for the log.
#[expect(clippy::needless_pass_by_value, reason = "the form that the layer asks for")]
pub(super) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("no text"), "a request's handler panicked");
    ApiError::new(
        ErrorCode::Internal,
        "Something went wrong inside raygate; its log says what, under this request's id.",
    )
    .into_response()
}

/// Without authentication only requests for this host, from pages of this host, are served: a web page elsewhere could
/// otherwise have its visitor's browser send them (DNS rebinding, cross-site requests and sockets).
pub(super) async fn same_host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if !app.service.access.is_open() {
        // A page elsewhere has no token to send.
        return next.run(request).await;
    }
    let Some(host) = authority(&request).filter(|authority| app.is_allowed_host(authority.host())) else {
        return ApiError::new(ErrorCode::MisdirectedRequest, "This isn't a host that raygate answers for.")
            .hint("Use localhost or 127.0.0.1, or have the name allowed with --allowed-host.")
            .rule("host")
            .into_response();
    };
    let safe = is_safe(request.method());
    let upgrade = request.headers().contains_key(UPGRADE) || request.method() == Method::CONNECT;
    if (!safe || upgrade) && request.headers().get_all(ORIGIN).iter().any(|origin| !app.is_own_origin(origin, &host)) {
        let error = ApiError::new(ErrorCode::ForeignOrigin, "Pages of other origins may not do this.");
        return error.rule("origin").into_response();
    }
    next.run(request).await
}

/// The host that a request is for: of HTTP/2 the `:authority`, of HTTP/1.1 an absolute target's, else exactly one
/// `Host` (RFC 9112, section 3.2).
fn authority(request: &Request) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        _ => None,
    }
}

impl App {
    fn is_allowed_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]")
            || self.config.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&host))
    }

    /// Whether an `Origin` is the very authority that is asked, or a host that is allowed by name.
    fn is_own_origin(&self, origin: &HeaderValue, host: &Authority) -> bool {
        let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
        let Some(origin) = origin.and_then(|origin| origin.authority().cloned()) else {
            return false;
        };
        let allowed = self.config.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin.host()));
        allowed || origin.as_str().eq_ignore_ascii_case(host.as_str())
    }
}

/// Who is calling and whether they may: fails closed for a route without an action. Handlers find the caller in the
/// request's extensions, and no credential in its headers.
pub(super) async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let Some(action) = action_of(request.method(), &path) else {
        return app.spend_unknown(peer(&request)).map_or_else(IntoResponse::into_response, |()| no_action(&path));
    };
    let response = match admit(&app, action, request).await {
        Ok((request, permit)) => {
            let _permit = permit;
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    app.metrics.decided(decision(&response), action);
    response
}

/// What an answer says of who may do what. What is hidden counts like what isn't there: everybody may read the counters.
fn decision(response: &Response) -> Decision {
    let refused = response.extensions().get::<ApiError>().filter(|error| error.note.rule.is_some());
    match refused.map(|error| status(error.code).0) {
        None | Some(StatusCode::NOT_FOUND) => Decision::Allowed,
        Some(StatusCode::UNAUTHORIZED) => Decision::Unauthenticated,
        Some(StatusCode::TOO_MANY_REQUESTS) => Decision::Limited,
        Some(_) => Decision::Forbidden,
    }
}

/// The request with its caller, if they may ask for this at all and haven't asked too much; and the place that it takes.
async fn admit(app: &App, action: Action, mut request: Request) -> Result<(Request, Option<Permit>), ApiError> {
    let trail = request.extensions().get::<Trail>().cloned().unwrap_or_default();
    trail.asks(action);
    let credential = credential::take(request.headers_mut());
    let access = &app.service.access;
    let peer = peer(&request);
    if action.needs() == Need::Nothing {
        // Probes are cheap, and must never be refused.
        if action == Action::Probe || access.is_open() {
            return Ok((request, None));
        }
        // Whoever has a token doesn't share the limit of those who have none.
        let permit = match identify(access, credential).await {
            Ok(caller) => Some(app.limits.request(caller.user())?),
            Err(_) => app.spend_unknown(peer).map(|()| None)?,
        };
        return Ok((request, permit));
    }
    let caller = if access.is_open() { Ok(access.anonymous()) } else { identify(access, credential).await };
    let caller = match caller {
        Ok(caller) => caller,
        Err(error) => return Err(app.spend_unknown(peer).map_or_else(|limited| limited, |()| error)),
    };
    trail.is_by(&caller, reference(&mut request).await.as_deref());
    // Where nobody is asked, nobody is limited.
    let permit = (!access.is_open()).then(|| app.limits.request(caller.user())).transpose()?;
    access.authorize(&caller, action, Target::Service)?;
    request.extensions_mut().insert(caller);
    Ok((request, permit))
}

/// Where there is no route.
pub(super) async fn nothing(State(app): State<Arc<App>>, request: Request) -> Response {
    app.spend_unknown(peer(&request))
        .map_or_else(IntoResponse::into_response, |()| StatusCode::NOT_FOUND.into_response())
}

/// The address that a request came from.
fn peer(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0)
}

impl App {
    /// Counts a request of whoever it may be. Where nobody is asked, nobody is limited.
    fn spend_unknown(&self, peer: IpAddr) -> Result<(), ApiError> {
        if self.service.access.is_open() { Ok(()) } else { self.limits.unauthenticated(peer).map_err(ApiError::from) }
    }
}

/// The reference to a cluster in the path.
async fn reference(request: &mut Request) -> Option<String> {
    let parameters = request.extract_parts::<RawPathParams>().await.ok()?;
    parameters.iter().find(|(name, _)| *name == "ref").map(|(_, value)| value.to_owned())
}

/// Whose the credential is.
async fn identify(access: &Access, credential: Result<Option<Token>, ApiError>) -> Result<Caller, ApiError> {
    let Some(token) = credential? else {
        return Err(unauthenticated("This takes a token.", NO_CREDENTIAL));
    };
    match access.authenticate(token.reveal()).await {
        Ok(Some(caller)) => Ok(caller),
        Ok(None) => Err(unauthenticated("This token isn't valid.", "credential")),
        Err(Rejected::Expired(id)) => {
            Err(unauthenticated("This token has expired.", "credentialExpired")
                .cause(&format!("token {id} has expired")))
        }
    }
}

fn unauthenticated(detail: &str, rule: &'static str) -> ApiError {
    ApiError::new(ErrorCode::Unauthenticated, detail)
        .hint("Send the header `Authorization: Bearer TOKEN` with a token from whoever runs this service.")
        .rule(rule)
}

/// The method isn't one of the path's; or nobody gave the route an action.
fn no_action(path: &str) -> Response {
    let methods = methods_of(path);
    if methods.is_empty() {
        return ApiError::new(ErrorCode::Internal, "This route has no action.").cause(&path).into_response();
    }
    let mut response = ApiError::method_not_allowed().into_response();
    if let Ok(methods) = HeaderValue::try_from(methods) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

/// Whether a request's body is still on its way: then nothing has been done. Travels as an extension of the request.
#[derive(Clone, Default)]
pub(super) struct Reading(Arc<AtomicBool>);

impl Reading {
    /// It has begun (`true`), or is done.
    pub(super) fn set(&self, reading: bool) {
        self.0.store(reading, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The deadline of everything but what streams after its head.
pub(super) async fn deadline(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let limit = Duration::from_secs(app.config.request_timeout_seconds);
    let safe = is_safe(request.method());
    let reading = Reading::default();
    request.extensions_mut().insert(reading.clone());
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) if safe || reading.goes_on() => {
            ApiError::new(ErrorCode::Timeout, format!("The request wasn't done within {} s.", limit.as_secs()))
                .retry()
                .into_response()
        }
        Err(_) => {
            let detail = format!("The request wasn't done within {} s; whether it was is unknown.", limit.as_secs());
            ApiError::new(ErrorCode::OutcomeUnknown, detail).into_response()
        }
    }
}

/// RFC 9110, section 9.2.1.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
