//! Whatever is logged: no token, no value of an environment variable.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::{SECRET, UNLIMITED, create, start};
use crate::support::{Guarded, Outcome, eventually};

/// A request over HTTP/2, whose frames say more to whoever listens in.
async fn over_http2(guarded: &Guarded, method: Method, path: &str, body: String) -> Outcome<u16> {
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
    let request = Request::builder().method(method).uri(format!("http://{}{path}", guarded.address));
    let request = request.header("authorization", guarded.bearer("alice")).header("content-type", "application/json");
    let answer = client.request(request.body(Full::new(body.into()))?).await?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await?;
    Ok(status)
}

#[tokio::test]
async fn all_that_can_be_logged_holds_no_secret() -> Outcome {
    for format in ["text", "json"] {
        let guarded = start(&[&UNLIMITED[..], &["--log-format", format]].concat()).await?;
        create(&guarded, "alice", "demo", "default").await?;
        let env = json!({"head": {"env": {"KEY": format!("{SECRET}-2")}}}).to_string();
        assert_eq!(guarded.ask("alice", Method::PATCH, "/clusters/demo", env.clone()).await?.status, 200);
        assert_eq!(over_http2(&guarded, Method::PATCH, "/clusters/demo", env).await?, 200);
        assert_eq!(over_http2(&guarded, Method::GET, "/clusters/demo/manifest", String::new()).await?, 200);
        let encoded = BASE64_URL_SAFE_NO_PAD.encode(guarded.token("alice"));
        let protocol = format!("raygate.v1, base64url.bearer.authorization.k8s.io.{encoded}");
        let mut socket = guarded.socket("/watch", &[("sec-websocket-protocol", &protocol)]).await?;
        assert!(socket.event().await?.to_string().contains(SECRET), "alice sees her own");
        // What is refused is quoted to whoever sent it, and to nobody else.
        for body in [
            format!(r#"{{"head": {{"env": {{"KEY": ["{SECRET}"]}}}}}}"#),
            format!(r#"{{"head": {{"cpu": "{SECRET}"}}}}"#),
            format!(r#"{{"{SECRET}": 1}}"#),
            format!("{{{SECRET}"),
        ] {
            let refused = guarded.ask("alice", Method::PATCH, "/clusters/demo", body).await?;
            assert!([400, 422].contains(&refused.status.as_u16()), "{refused:?}");
        }
        for user in ["alice", "adam"] {
            let path = format!("/clusters?access_token={}", guarded.token(user));
            guarded.get(&path).await?.problem(401, "UNAUTHENTICATED");
        }
        guarded.get("/health").await?;
        let log = eventually("the last request is logged, and its probe", async || {
            let log = guarded.log()?;
            Ok(log.contains("answered a probe").then_some(log))
        })
        .await?;
        let told = log + &Value::from(guarded.audit()?).to_string();
        for secret in [SECRET, guarded.token("alice"), guarded.token("adam"), &encoded] {
            assert!(!told.contains(secret), "as {format}: it is in {told}");
        }
    }
    Ok(())
}
