//! From a configuration to a running service, and back down in order.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::access::{Access, Files, Reloaded, Which};
use crate::audit::Audit;
use crate::cache::Cache;
use crate::clock;
use crate::config::{AuditOutput, BackendChoice, Config};
use crate::http::{App, Peer, Slot, router};
use crate::manager::{Backend, Scope, kubernetes, memory};
use crate::metrics::{Metrics, Reload};
use crate::operations::{Service, Settings};
use crate::ray::lens::Defaults;

/// Most bytes of a request's head.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Most header lines of a request.
const MAX_HEADERS: usize = 100;
/// Bytes that wait in the system for a peer: with more of them it would look as if a slow one took nothing.
const NOT_SENT: u32 = 128 * 1024;
/// Unacknowledged bytes end a connection after this long.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(40);
/// A peer over HTTP/2 is asked for a sign of life this often, and has this long to give one.
const HTTP2_KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long what is cut may take to be gone.
const CUT: Duration = Duration::from_secs(1);
/// How long the last lines of the audit may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// A pause where the system refuses another connection for now.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A service that can be served.
pub struct Built {
    /// What handlers have at hand.
    pub app: Arc<App>,
    /// The routes.
    pub router: Router,
    /// The tasks that feed the cache. None of them ends before the process does; if one does, so must the process.
    pub tasks: JoinSet<()>,
}

/// Builds the service that a configuration asks for, and starts what feeds it.
///
/// # Errors
/// A sentence for the person who starts the service.
pub async fn build(config: Config) -> Result<Built, String> {
    config.check()?;
    let backend = backend(&config).await?;
    let open = || Access::open(config.namespaces.clone(), config.default_namespace.clone());
    let (access, files) = match (&config.token_file, &config.policy_file) {
        (Some(tokens), Some(policy)) => {
            let served = config.namespaces.clone();
            let files = Files::open(tokens, policy, served, config.default_namespace.clone()).await?;
            (files.access(), Some(files))
        }
        _ => (Arc::new(open()), None),
    };
    let audit = match config.audit {
        AuditOutput::Stdout => Audit::to(std::io::stdout()),
        AuditOutput::Stderr => Audit::to(std::io::stderr()),
        AuditOutput::Off => Ok(Audit::off()),
    };
    let audit = audit.map_err(|error| format!("the audit can't begin: {error}"))?;
    let every = Duration::from_secs(config.reload_seconds);
    let mut built = assemble(config, &backend, access, audit);
    if let Some(files) = files {
        let metrics = Arc::clone(&built.app.metrics);
        for which in [Which::Tokens, Which::Policy] {
            metrics.reloaded(which, Reload::Loaded, clock::now());
        }
        built.tasks.spawn(files.follow(every, move |news| reloaded(&metrics, &news)));
    }
    Ok(built)
}

/// Tells that one of the files of access has changed.
fn reloaded(metrics: &Metrics, Reloaded { which, result }: &Reloaded) {
    let file = which.name();
    match result {
        Ok(()) => tracing::info!(file, "the rules of access have changed"),
        Err(why) => tracing::error!(file, why, "the rules of access stay as they were: the file is not right"),
    }
    let outcome = if result.is_ok() { Reload::Loaded } else { Reload::Refused };
    metrics.reloaded(*which, outcome, clock::now());
}

/// Builds the service over a backend, under these rules of access, and starts what feeds it.
#[must_use]
pub fn assemble(config: Config, backend: &Backend, access: Arc<Access>, audit: Audit) -> Built {
    // Each namespace once, however often it was named.
    let namespaces: BTreeSet<_> = config.namespaces.iter().cloned().collect();
    let scopes: Vec<_> =
        if namespaces.is_empty() { vec![Scope::All] } else { namespaces.into_iter().map(Scope::Namespace).collect() };
    let (cache, feeds) = Cache::new(backend, &scopes);
    let mut tasks: JoinSet<()> = feeds.into_iter().collect();
    let settings = Settings {
        defaults: Defaults {
            ray_version: config.default_ray_version.clone(),
            head_cpu: config.default_head_cpu.clone(),
            head_memory: config.default_head_memory.clone(),
        },
        max_staleness: Duration::from_secs(config.max_staleness_seconds),
        heartbeat: Duration::from_secs(config.heartbeat_seconds),
        read_wait: Duration::from_millis(config.read_wait_milliseconds),
        // Time is left for the last attempt, and to say that it was in vain.
        patience: Duration::from_secs(config.request_timeout_seconds) * 3 / 4,
        settle: Duration::from_secs(config.settle_seconds),
    };
    let app = Arc::new(App::new(Service::new(backend.clone(), cache, access, settings), config, audit));
    let finisher = Arc::clone(&app);
    tasks.spawn(async move { finisher.service.finish().await });
    Built { router: router(Arc::clone(&app)), app, tasks }
}

async fn backend(config: &Config) -> Result<Backend, String> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let kubernetes = match config.backend {
        BackendChoice::Auto => in_pod,
        BackendChoice::Kubernetes => true,
        BackendChoice::Memory => false,
    };
    if kubernetes {
        return kubernetes::backend(kubernetes::Options {
            kubeconfig: config.kubeconfig.clone(),
            context: config.context.clone(),
            call_timeout: Duration::from_secs(config.call_timeout_seconds),
            watch_timeout_seconds: config.watch_timeout_seconds,
            watch_backoff_max: Duration::from_secs(config.watch_backoff_max_seconds),
        })
        .await;
    }
    let namespaces =
        if config.namespaces.is_empty() { vec![config.default_namespace.clone()] } else { config.namespaces.clone() };
    Ok(memory::backend(memory::Options {
        namespaces,
        pod_start_delay: Duration::from_millis(config.memory_start_milliseconds),
        pod_stop_delay: Duration::from_millis(config.memory_stop_milliseconds),
        nodes: config.memory_nodes.into(),
        node_cpu: config.memory_node_cpu.clone(),
        node_memory: config.memory_node_memory.clone(),
        node_gpus: config.memory_node_gpu,
        images: config.memory_images.clone(),
        objects: config.memory_objects.iter().map(|object| object.parse()).collect::<Result<_, _>>()?,
        back_off: Duration::from_millis(config.memory_back_off_milliseconds),
    }))
}

/// Serves until told to stop, then ends in order: not ready but serving for the shutdown delay; then no new work,
/// sockets closed with 1001, and the rest under the drain's deadline.
///
/// # Errors
/// A task that must never end has ended.
pub async fn serve(built: Built, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<(), String> {
    let Built { app, router, mut tasks } = built;
    let accepting = tokio::spawn(accept(listener, router, Arc::clone(&app)));
    let mut failure = None;
    tokio::select! {
        () = stop => tracing::info!("told to stop; not ready from now on"),
        ended = tasks.join_next() => failure = Some(format!("a task that must never end has ended: {ended:?}")),
    }
    app.service.drain();
    if failure.is_none() {
        tokio::time::sleep(Duration::from_secs(app.config.shutdown_delay_seconds)).await;
    }
    tracing::info!("no new work from now on");
    accepting.abort();
    app.draining.cancel();
    app.tracker.close();
    let limit = Duration::from_secs(app.config.drain_seconds);
    if timeout(limit, app.tracker.wait()).await.is_err() {
        tracing::warn!(left = app.tracker.len(), "what didn't end in time is cut");
        app.cut.cancel();
        // The audit is told of each request that is dropped.
        if timeout(CUT, app.tracker.wait()).await.is_err() {
            tracing::warn!(left = app.tracker.len(), "something doesn't end though it is cut");
        }
    }
    if timeout(FAREWELL, app.audit.close()).await.is_err() {
        tracing::error!("nobody takes the last lines of the audit");
    }
    failure.map_or(Ok(()), Err)
}

async fn accept(listener: TcpListener, router: Router, app: Arc<App>) {
    let slots = Arc::new(Semaphore::new(app.config.max_connections));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let connection = connection(stream, peer, router.clone(), Arc::clone(&app), Arc::new(slot));
                let cut = app.cut.clone();
                app.tracker.spawn(async move { cut.run_until_cancelled(connection).await });
            }
            // Out of file descriptors, most likely: those that end make room.
            Err(error) => {
                tracing::warn!(%error, "a connection couldn't be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection until it ends; once draining begins or nothing has been under way on it for a while, until it has
/// answered what it was asked.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    app: Arc<App>,
    place: Arc<OwnedSemaphorePermit>,
) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%peer, %error, "a connection ended before it began");
        return;
    }
    let header_timeout = Duration::from_secs(app.config.header_timeout_seconds);
    let idle_timeout = Duration::from_secs(app.config.idle_timeout_seconds);
    let asked = Arc::new(Notify::new());
    let under_way = TaskTracker::new();
    // A closed one can be waited for, and counts all the same.
    under_way.close();
    let (asks, counts, serves) = (Arc::clone(&asked), under_way.clone(), Arc::clone(&app));
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let slot = Slot { place: Arc::clone(&place), under_way: counts.token() };
        asks.notify_one();
        request.extensions_mut().insert(slot.clone());
        request.extensions_mut().insert(Peer(peer.ip()));
        // Over HTTP/2 a request has a task of its own.
        let (router, cut, alive) = (router.clone(), serves.cut.clone(), serves.tracker.token());
        async move {
            let _kept = (slot, alive);
            tokio::select! {
                biased;
                () = cut.cancelled() => Err("the process is ending"),
                response = answer(router, request) => Ok(response),
            }
        }
    });
    let builder = protocols(header_timeout);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = app.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
        has_asked = idle(&asked, &under_way, header_timeout, idle_timeout) => {
            tracing::debug!(%peer, has_asked, "a connection on which nothing is under way is closed");
            if !has_asked {
                return;
            }
            connection.as_mut().graceful_shutdown();
            // A peer that doesn't go along is left.
            timeout(header_timeout, connection.as_mut()).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, error, "a connection ended badly");
    }
}

/// Waits until a connection has asked nothing at first, or nothing has been under way on it since; answers whether it has
/// ever asked. Which protocol it is, is found out without a timer, so the first request has one of ours; and over HTTP/2
/// pings prove a peer's life, but not that it wants something.
async fn idle(asked: &Notify, under_way: &TaskTracker, first: Duration, later: Duration) -> bool {
    if timeout(first, asked.notified()).await.is_err() {
        return false;
    }
    loop {
        under_way.wait().await;
        if timeout(later, asked.notified()).await.is_err() {
            return true;
        }
    }
}

/// The protocols that are spoken, and their bounds.
fn protocols(header_timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(HTTP2_KEEP_ALIVE)
        .keep_alive_timeout(HTTP2_KEEP_ALIVE);
    builder
}

async fn answer(router: Router, request: Request<Incoming>) -> axum::response::Response {
    match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))
}

#[cfg(test)]
mod visibility;

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use clap::Parser as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::config::Command;
    use crate::http::layered;

    async fn panics() {
        panic!("words for the log alone");
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_like_any_other() {
        let config = Command::try_parse_from(["raygate", "--backend=memory"]).unwrap().serve;
        let built = build(config).await.unwrap();
        let router = layered(Router::new().route("/panics", get(panics)), built.app);
        let request = Request::get("/panics").header("host", "localhost").header("x-request-id", "mine");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&problem["code"], &problem["requestId"]), (&"INTERNAL".into(), &"mine".into()));
        assert!(!problem.to_string().contains("words for the log"), "{problem}");
    }
}
