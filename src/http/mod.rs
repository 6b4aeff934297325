//! Every route of the service, the layers in order, and what answers where there is no route.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{connect, get};
use bytes::Bytes;
use http::Method;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Action;
use crate::access::limits::Limits;
use crate::audit::Audit;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::operations::Service;

mod actions;
mod audit;
mod clusters;
mod credential;
mod docs;
mod error;
mod extract;
mod groups;
mod health;
mod metrics;
mod middleware;
mod terms;
mod watch;
mod whoami;

pub use audit::Peer;
pub use error::{Problem, status};

/// A connection's place among those that may be open at once, and the sign that something is under way on it. Travels with
/// each request, so that a stream keeps both: a WebSocket takes the connection over.
#[derive(Clone)]
pub struct Slot {
    /// The connection's place.
    pub place: Arc<OwnedSemaphorePermit>,
    /// Of those that count what is under way on the connection.
    pub under_way: TaskTrackerToken,
}

/// What every handler has at hand.
pub struct App {
    /// What the service does.
    pub service: Service,
    /// What it is set to.
    pub config: Config,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Cancelled when streams must end.
    pub draining: CancellationToken,
    /// Cancelled when what hasn't ended by then is dropped as it is.
    pub cut: CancellationToken,
    /// Counts what must end before the process does.
    pub tracker: TaskTracker,
    /// Where it is told who changed what, and who was refused what.
    pub audit: Audit,
    /// What callers have used up.
    pub limits: Limits,
    openapi: Bytes,
    swagger: Arc<utoipa_swagger_ui::Config<'static>>,
}

impl App {
    /// An application around the service.
    #[must_use]
    pub fn new(service: Service, config: Config, audit: Audit) -> Self {
        let openapi = openapi().to_json().map(Bytes::from).unwrap_or_default();
        let limits = Limits::new(config.limits());
        Self {
            service,
            config,
            metrics: Arc::new(Metrics::new(audit.lost())),
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
            tracker: TaskTracker::new(),
            audit,
            limits,
            openapi,
            // Relative to the page, so that a proxy may serve it under any path.
            swagger: Arc::new(utoipa_swagger_ui::Config::from("../openapi.json").use_base_layout()),
        }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "raygate", description = "Ray clusters over plain HTTP."),
    components(schemas(Problem)),
    servers((url = ".", description = "This service, wherever it is mounted")),
    modifiers(&Security),
    tags(
        (name = "clusters", description = "Create, read and delete Ray clusters."),
        (name = "watch", description = "Follow them as they change."),
        (name = "service", description = "The service itself."),
    ),
)]
struct Description;

/// How callers say who they are.
struct Security;

impl Modify for Security {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token from whoever runs this service. Not needed where it runs without authentication.",
        ));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer.build()));
        // Either will do: which one, the service's flags say.
        let none = SecurityRequirement::default();
        openapi.security = Some(vec![none, SecurityRequirement::new("token", Vec::<String>::new())]);
    }
}

/// The action of every route: method, path, action. A request whose route isn't here is refused.
pub const ACTIONS: &[(Method, &str, Action)] = &[
    (Method::GET, "/clusters", Action::ListClusters),
    (Method::POST, "/clusters", Action::CreateCluster),
    (Method::GET, "/clusters/{ref}", Action::ReadCluster),
    (Method::PUT, "/clusters/{ref}", Action::WriteCluster),
    (Method::PATCH, "/clusters/{ref}", Action::WriteCluster),
    (Method::DELETE, "/clusters/{ref}", Action::DeleteCluster),
    (Method::POST, "/clusters/{ref}/stop", Action::StopCluster),
    (Method::POST, "/clusters/{ref}/start", Action::StartCluster),
    (Method::POST, "/clusters/{ref}/restart", Action::RestartCluster),
    (Method::POST, "/clusters/{ref}/owner", Action::SetOwner),
    (Method::PATCH, "/clusters/{ref}/workerGroups/{group}", Action::WriteCluster),
    (Method::PUT, "/clusters/{ref}/workerGroups/{group}", Action::WriteCluster),
    (Method::DELETE, "/clusters/{ref}/workerGroups/{group}", Action::WriteCluster),
    (Method::GET, "/clusters/{ref}/manifest", Action::ReadManifest),
    (Method::GET, "/clusters/{ref}/watch", Action::WatchCluster),
    (Method::GET, "/watch", Action::WatchClusters),
    (Method::GET, "/whoami", Action::ReadSelf),
    (Method::GET, "/health", Action::Probe),
    (Method::GET, "/ready", Action::Probe),
    (Method::GET, "/version", Action::Probe),
    (Method::GET, "/metrics", Action::Probe),
    (Method::GET, "/openapi.json", Action::ReadDocs),
    (Method::GET, "/", Action::ReadDocs),
    (Method::GET, "/docs", Action::ReadDocs),
    (Method::GET, "/docs/", Action::ReadDocs),
    (Method::GET, "/docs/{*file}", Action::ReadDocs),
];

/// The action of a request. `HEAD` is a `GET`; a WebSocket over HTTP/2 comes as `CONNECT` (RFC 8441).
fn action_of(method: &Method, path: &str) -> Option<Action> {
    let method = if matches!(*method, Method::HEAD | Method::CONNECT) { &Method::GET } else { method };
    ACTIONS.iter().find(|(of, at, _)| of == method && *at == path).map(|(_, _, action)| *action)
}

/// The methods that a path takes, as the header `Allow` lists them; none if it isn't a route.
fn methods_of(path: &str) -> String {
    let methods = ACTIONS.iter().filter(|(_, at, _)| *at == path).map(|(method, _, _)| method);
    let methods = methods.map(|method| if method == Method::GET { "GET,HEAD" } else { method.as_str() });
    methods.collect::<Vec<_>>().join(",")
}

fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(clusters::list_clusters, clusters::create_cluster))
        .routes(routes!(
            clusters::get_cluster,
            clusters::put_cluster,
            clusters::patch_cluster,
            clusters::delete_cluster
        ))
        .routes(routes!(clusters::get_cluster_manifest))
        .routes(routes!(actions::stop_cluster))
        .routes(routes!(actions::start_cluster))
        .routes(routes!(actions::restart_cluster))
        .routes(routes!(clusters::set_cluster_owner))
        .routes(routes!(groups::patch_worker_group, groups::put_worker_group, groups::delete_worker_group))
        .routes(routes!(watch::watch_cluster))
        .routes(routes!(watch::watch_clusters))
        // A WebSocket over HTTP/2 (RFC 8441).
        .route("/clusters/{ref}/watch", connect(watch::watch_cluster))
        .route("/watch", connect(watch::watch_clusters))
        .routes(routes!(whoami::get_whoami))
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_ready))
        .routes(routes!(health::get_version))
        .routes(routes!(metrics::get_metrics))
        .routes(routes!(docs::get_openapi))
}

/// The description of this API.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().split_for_parts().1
}

/// The whole service as one router.
pub fn router(app: Arc<App>) -> Router {
    let (documented, _) = routes().split_for_parts();
    let routes = documented
        .route("/", get(docs::get_root))
        .route("/docs", get(docs::get_docs_redirect))
        .route("/docs/", get(docs::get_docs))
        .route("/docs/{*file}", get(docs::get_docs_file))
        .route_layer(from_fn_with_state(Arc::clone(&app), middleware::gate))
        .fallback(middleware::nothing);
    layered(routes, app)
}

/// Routes with everything that every request passes through, from the outside in.
pub(crate) fn layered(routes: Router<Arc<App>>, app: Arc<App>) -> Router {
    let layers = ServiceBuilder::new()
        .layer(from_fn_with_state(Arc::clone(&app), middleware::finish))
        .layer(CatchPanicLayer::custom(middleware::panicked))
        .layer(from_fn_with_state(Arc::clone(&app), middleware::same_host))
        .layer(from_fn_with_state(Arc::clone(&app), middleware::deadline));
    routes.layer(layers).with_state(app)
}
