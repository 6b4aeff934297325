//! An HTTP proxy between raygate and the apiserver, in which a test has its say before a request goes on.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use tokio::net::TcpListener;

use super::*;

/// What is answered in the apiserver's place.
pub(super) type Instead = (StatusCode, Value);

type Say = Arc<dyn Fn(Method, String) -> BoxFuture<'static, Option<Instead>> + Send + Sync>;

/// A kubeconfig that leads through a proxy that first asks what a test says to a request's method and path. What goes on
/// goes on in the bed's own name.
pub(super) async fn between(
    bed: &Bed,
    say: impl Fn(Method, String) -> BoxFuture<'static, Option<Instead>> + Send + Sync + 'static,
) -> Outcome<Own> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (client, say): (_, Say) = (bed.client.clone(), Arc::new(say));
    let proxy = Router::new().fallback(move |request: Request| {
        let (client, say) = (client.clone(), Arc::clone(&say));
        async move {
            match say(request.method().clone(), request.uri().path().to_owned()).await {
                Some((status, answer)) => (status, Json(answer)).into_response(),
                None => pass(client, request).await.unwrap_or_else(|error| {
                    (StatusCode::BAD_GATEWAY, format!("the test's proxy: {error}")).into_response()
                }),
            }
        }
    });
    tokio::spawn(async move { axum::serve(listener, proxy).await });
    Own::new(|config| {
        config["clusters"][0]["cluster"] = json!({"server": format!("http://{address}")});
    })
}

async fn pass(client: kube::Client, request: Request) -> Outcome<Response> {
    let (mut head, body) = request.into_parts();
    head.headers.remove(AUTHORIZATION);
    head.headers.remove(HOST);
    let body = body.collect().await?.to_bytes().to_vec();
    let mut response = client.send(http::Request::from_parts(head, body.into())).await?;
    response.headers_mut().remove(TRANSFER_ENCODING);
    Ok(response.map(axum::body::Body::new))
}

/// A refusal in Kubernetes' form.
pub(super) fn refusal(status: StatusCode, reason: &str, message: &str) -> Instead {
    let answer = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {"group": "ray.io", "kind": "rayclusters"},
        "code": status.as_u16(),
    });
    (status, answer)
}
