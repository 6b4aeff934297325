//! `/watch` and `/clusters/{ref}/watch`: one sequence of frames, as a WebSocket or as lines of JSON.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts as _, State};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, UPGRADE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::error::{Problems, name_of};
use super::extract::{NoQuery, Query, Reference, must_accept};
use super::{App, Slot};
use crate::access::Caller;
use crate::access::limits::Permit;
use crate::clock;
use crate::metrics::OpenStream;
use crate::operations::{ApiError, ErrorCode, Next, Watcher};
use crate::stream::Event;

const NDJSON: &str = "application/x-ndjson";

/// The subprotocol that a client may name, and is then echoed.
const SUBPROTOCOL: &str = "raygate.v1";

/// Largest message that a watcher may send: it has nothing to say.
const MAX_MESSAGE: usize = 4096;

/// How long a peer has to take what is said last.
const FAREWELL: Duration = Duration::from_secs(2);

/// Follow the changes of clusters.
///
/// One `ADDED` per cluster, then `SYNCED`, then changes as they happen, and heartbeats. A WebSocket where the request
/// asks for the upgrade, else one JSON object a line (`curl -N`).
#[utoipa::path(get, path = "/watch", operation_id = "watch_clusters", tag = "watch",
    params(
        ("namespace" = Option<String>, Query, description = "A namespace; `*` for all that you may see; left out it is your default namespace."),
        ("labelSelector" = Option<String>, Query, description = "Labels that the clusters must carry, in Kubernetes' syntax: `team=blue`, `tier in (a,b)`, `!draft`; at most 4096 bytes. A cluster that stops matching is `DELETED` for this watcher, one that begins to is `ADDED`."),
    ),
    responses(
        (status = 101, description = "A WebSocket: one event per text message."),
        (status = 200, description = "One event per line.", body = Event, content_type = "application/x-ndjson"),
        Problems,
    ))]
pub(super) async fn watch_clusters(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut parts: Parts,
) -> Result<Response, ApiError> {
    let query = Query::read(&parts, &["namespace", "labelSelector"])?;
    let transport = Transport::choose(&mut parts, &app).await?;
    let place = Place::take(&app, &caller, &parts)?;
    Ok(transport.serve(app.service.watch(&caller, &query.selection())?, &app, place))
}

/// Follow the changes of one cluster.
///
/// Ends after its deletion.
#[utoipa::path(get, path = "/clusters/{ref}/watch", operation_id = "watch_cluster", tag = "watch",
    params(("ref" = String, Path, description = "`name`, in your default namespace, or `name.namespace`.")),
    responses(
        (status = 101, description = "A WebSocket: one event per text message."),
        (status = 200, description = "One event per line.", body = Event, content_type = "application/x-ndjson"),
        Problems,
    ))]
pub(super) async fn watch_cluster(
    State(app): State<Arc<App>>,
    caller: Caller,
    Reference(reference): Reference,
    _: NoQuery,
    mut parts: Parts,
) -> Result<Response, ApiError> {
    let transport = Transport::choose(&mut parts, &app).await?;
    let place = Place::take(&app, &caller, &parts)?;
    Ok(transport.serve(app.service.watch_one(&caller, &reference)?, &app, place))
}

/// A stream's place among those that its caller may have open, among those that are counted, among the connections, and
/// among what must end before the process does.
struct Place {
    _permit: Option<Permit>,
    _open: OpenStream,
    _slot: Option<Slot>,
    _alive: TaskTrackerToken,
}

impl Place {
    fn take(app: &App, caller: &Caller, parts: &Parts) -> Result<Self, ApiError> {
        let limited = !app.service.access.is_open();
        let permit = limited.then(|| app.limits.stream(caller.user())).transpose()?;
        let slot = parts.extensions.get::<Slot>().cloned();
        Ok(Self { _permit: permit, _open: app.metrics.stream_opened(), _slot: slot, _alive: app.tracker.token() })
    }
}

enum Transport {
    WebSocket(Box<WebSocketUpgrade>),
    Lines,
}

impl Transport {
    /// Failures before the upgrade are answers like any other.
    async fn choose(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        if app.draining.is_cancelled() {
            return Err(ApiError::new(ErrorCode::Draining, "This process is ending; connect again.").retry());
        }
        // Another protocol than the one that is offered here may be ignored (RFC 9110, section 7.8).
        let offers = parts.headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
        let mut offered = offers.flat_map(|value| value.split(','));
        let upgrade = offered.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"));
        if !upgrade && parts.method != Method::CONNECT {
            must_accept(parts, NDJSON)?;
            return Ok(Self::Lines);
        }
        let upgrade = WebSocketUpgrade::from_request_parts(parts, app)
            .await
            .map_err(|rejection| ApiError::new(ErrorCode::Malformed, format!("No WebSocket: {rejection}")))?;
        Ok(Self::WebSocket(Box::new(upgrade)))
    }

    fn serve(self, watcher: Watcher, app: &Arc<App>, place: Place) -> Response {
        let app = Arc::clone(app);
        match self {
            Self::Lines => lines(watcher, app, place),
            // Buffers of axum's default size cost 135 KB a connection, these 4 KB.
            Self::WebSocket(upgrade) => upgrade
                .protocols([SUBPROTOCOL])
                .read_buffer_size(512)
                .write_buffer_size(0)
                .max_message_size(MAX_MESSAGE)
                .max_frame_size(MAX_MESSAGE)
                .on_upgrade(move |socket| async move {
                    let _place = place;
                    let peer_timeout = Duration::from_secs(app.config.peer_timeout_seconds);
                    serve_socket(socket, watcher, &app, peer_timeout).await;
                }),
        }
    }
}

/// Why a socket is closed.
enum Close {
    Done,
    Draining,
    TooSlow,
    /// Nobody vouches for the caller any more.
    Unauthenticated,
    /// They may not see this any more.
    Forbidden,
    /// The peer has gone or says nothing any more: there is nobody to tell.
    Gone,
}

impl Close {
    fn refused(error: &ApiError) -> Self {
        if error.code == ErrorCode::Unauthenticated { Self::Unauthenticated } else { Self::Forbidden }
    }
}

async fn serve_socket(mut socket: WebSocket, watcher: Watcher, app: &App, peer_timeout: Duration) {
    let close = converse(&mut socket, watcher, app, peer_timeout).await;
    let (code, reason) = match close {
        Close::Done => (close_code::NORMAL, "the cluster is gone"),
        Close::Draining => (close_code::AWAY, "this process is ending; connect again"),
        Close::TooSlow => (4008, "too slow"),
        Close::Unauthenticated => (4001, "the credential has expired, or isn't valid any more"),
        Close::Forbidden => (4003, "not allowed any more"),
        Close::Gone => return,
    };
    let farewell = async {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        socket.send(Message::Close(Some(frame))).await.ok()?;
        // The peer's own close ends it (RFC 6455, section 7.1.1).
        while let Some(Ok(_)) = socket.recv().await {}
        Some(())
    };
    // A peer that doesn't answer the close has been told all the same.
    let _ = timeout(FAREWELL.min(peer_timeout), farewell).await;
}

async fn converse(socket: &mut WebSocket, mut watcher: Watcher, app: &App, peer_timeout: Duration) -> Close {
    let ping_every = peer_timeout / 3;
    let mut next_ping = clock::timer() + ping_every;
    let mut last_heard = clock::timer();
    loop {
        let message = tokio::select! {
            biased;
            () = app.draining.cancelled() => return Close::Draining,
            received = socket.recv() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Close::Gone,
                Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {
                    last_heard = clock::timer();
                    continue;
                }
            },
            () = sleep_until(last_heard + peer_timeout) => return Close::Gone,
            () = sleep_until(next_ping) => {
                next_ping = clock::timer() + ping_every;
                Message::Ping(Bytes::new())
            }
            next = app.service.next(&mut watcher) => match next {
                Next::Frame(frame) => text(frame),
                Next::Done => return Close::Done,
                Next::Refused(error) => return Close::refused(&error),
            },
        };
        tokio::select! {
            biased;
            () = app.draining.cancelled() => return Close::Draining,
            // With other rights the picture begins anew, so a frame that wasn't taken is not missed.
            outdated = app.service.outdated(&mut watcher) => {
                if let Err(error) = outdated {
                    return Close::refused(&error);
                }
            }
            sent = timeout(peer_timeout, socket.send(message)) => match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Close::Gone,
                Err(_) => return Close::TooSlow,
            },
        }
    }
}

/// A frame as a text message. Frames are JSON, so they are UTF-8.
fn text(frame: Bytes) -> Message {
    match Utf8Bytes::try_from(frame) {
        Ok(text) => Message::Text(text),
        Err(error) => {
            tracing::error!(%error, "a frame that is not UTF-8");
            Message::Ping(Bytes::new())
        }
    }
}

/// A peer that takes nothing.
#[derive(Debug)]
struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the client takes nothing")
    }
}

impl std::error::Error for TooSlow {}

/// A line, and the number of the rights that it was made under.
type Line = (u64, Bytes);

fn lines(watcher: Watcher, app: Arc<App>, place: Place) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    let (current, given_up) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (rights, abandoned) = (Arc::clone(&current), Arc::clone(&given_up));
    // A task of its own: while a peer takes nothing, nobody asks the body.
    tokio::spawn(async move {
        let _place = place;
        if feed(watcher, &app, &sender, &rights).await.is_err() {
            abandoned.store(true, Ordering::Release);
        }
    });
    let lines = stream::unfold((receiver, current, given_up), |(mut receiver, current, given_up)| async move {
        loop {
            let next: Option<Line> = receiver.recv().await;
            let item = match next {
                Some((rights, line)) if rights == current.load(Ordering::Acquire) => Ok(line),
                Some(_) => continue,
                // A body that breaks off isn't one that is done.
                None if given_up.swap(false, Ordering::AcqRel) => Err(TooSlow),
                None => return None,
            };
            return Some((item, (receiver, current, given_up)));
        }
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(lines)).into_response()
}

/// Feeds a watcher's lines to the body of its answer, for as long as they are taken and may be. A line that waits when the
/// rights change is never sent.
///
/// # Errors
/// They weren't taken in time.
async fn feed(mut watcher: Watcher, app: &App, lines: &mpsc::Sender<Line>, rights: &AtomicU64) -> Result<(), TooSlow> {
    let peer_timeout = Duration::from_secs(app.config.peer_timeout_seconds);
    let mut number = 0;
    let mut given = clock::timer();
    let error = loop {
        let room = tokio::select! {
            biased;
            () = app.draining.cancelled() => return Ok(()),
            outdated = app.service.outdated(&mut watcher) => {
                number += 1;
                rights.store(number, Ordering::Release);
                match outdated {
                    Ok(()) => continue,
                    Err(error) => break error,
                }
            }
            room = lines.reserve() => match room {
                Ok(room) => room,
                Err(_) => return Ok(()),
            },
            () = sleep_until(given + peer_timeout) => return Err(TooSlow),
        };
        let next = tokio::select! {
            biased;
            () = app.draining.cancelled() => return Ok(()),
            () = lines.closed() => return Ok(()),
            next = app.service.next(&mut watcher) => next,
        };
        match next {
            Next::Frame(frame) => room.send((number, line(&frame))),
            Next::Refused(error) => break error,
            Next::Done => return Ok(()),
        }
        given = clock::timer();
    };
    let last = line(&watcher.farewell(&name_of(error.code), &error));
    // Who doesn't take it sees that nothing more comes.
    let _ = timeout(FAREWELL.min(peer_timeout), lines.send((number, last))).await;
    Ok(())
}

/// A frame as a line.
fn line(frame: &Bytes) -> Bytes {
    let mut line = BytesMut::with_capacity(frame.len() + 1);
    line.extend_from_slice(frame);
    line.extend_from_slice(b"\n");
    line.freeze()
}
