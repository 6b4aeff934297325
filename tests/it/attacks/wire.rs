//! Heads and bodies that two readers could read differently: whoever sends them is never taken for somebody else.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::{Said, UNLIMITED, create, held, only, owned, start, talk};
use crate::support::{Guarded, Outcome};

/// Asks who one is, with these header lines.
async fn whoami(guarded: &Guarded, lines: &str) -> Outcome<Option<Said>> {
    let request = format!("GET /whoami HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n\r\n");
    only(guarded, request.as_bytes()).await
}

fn status(said: Option<&Said>) -> u16 {
    said.map_or(0, |said| said.status)
}

#[tokio::test]
async fn one_credential_or_none() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let [alice, adam] = ["alice", "adam"].map(|user| guarded.token(user));
    let protocol = "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.";
    let encoded = base64_url(adam);
    let second = format!("base64url.bearer.authorization.k8s.io.{encoded}");
    for lines in [
        format!("Authorization: Bearer {alice}\r\nAuthorization: Bearer {adam}\r\n"),
        format!("Authorization: Bearer {alice}\r\nauthorization: Bearer {alice}\r\n"),
        format!("Authorization: Bearer nonsense\r\nAuthorization: Bearer {adam}\r\n"),
        format!("Authorization: Bearer {adam}\r\nAuthorization:\r\n"),
        format!("Authorization: Bearer {alice}, Bearer {adam}\r\n"),
        format!("Authorization: Bearer {alice},{adam}\r\n"),
        format!("Authorization: Bearer {alice} {adam}\r\n"),
        format!("Authorization: Bearer {alice}\r\n{protocol}{encoded}\r\n"),
        format!("{protocol}{encoded}, {second}\r\n"),
        format!("{protocol}{encoded}\r\n{protocol}{encoded}\r\n"),
        format!("{protocol}\r\n"),
        format!("{protocol}{adam}\r\n"),
    ] {
        let said = whoami(&guarded, &lines).await?;
        assert_eq!(status(said.as_ref()), 401, "{said:?}");
    }
    Ok(())
}

fn base64_url(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text)
}

#[tokio::test]
async fn heads_that_are_no_heads_are_refused() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let [alice, adam] = ["alice", "adam"].map(|user| guarded.token(user));
    for lines in [
        // Folded, with a space before the colon or the name, with control characters (RFC 9112, section 5).
        format!("Authorization: Bearer {alice}\r\n Bearer {adam}\r\n"),
        format!("Authorization:\r\n Bearer {adam}\r\n"),
        format!("X: y\r\n\tAuthorization: Bearer {adam}\r\n"),
        format!("Authorization : Bearer {adam}\r\n"),
        format!("Authorization\t: Bearer {adam}\r\n"),
        format!(" Authorization: Bearer {adam}\r\n"),
        format!("Author\0ization: Bearer {adam}\r\n"),
        format!("X: y\rAuthorization: Bearer {adam}\r\n"),
        format!("Authorization: Bearer {adam}\0\r\n"),
        format!("Authorization Bearer {adam}\r\n"),
    ] {
        let said = whoami(&guarded, &lines).await?;
        assert_eq!(status(said.as_ref()), 400, "{lines:?}: {said:?}");
    }
    for version in ["HTTP/3.0", "HTTP/1.2", "HTTP/9.9", "HTTP/1.1 HTTP/1.1", "ICY", ""] {
        let head = format!("GET /whoami {version}\r\nHost: localhost\r\nAuthorization: Bearer {adam}\r\n");
        let said = talk(&guarded, format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
        assert!(said.iter().all(|said| said.status == 400), "{version}: {said:?}");
    }
    let old = format!("GET /whoami HTTP/1.0\r\nAuthorization: Bearer {alice}\r\n\r\n");
    let said = only(&guarded, old.as_bytes()).await?;
    assert_eq!(said.and_then(|said| said.name()).as_deref(), Some("alice"));
    Ok(())
}

/// What proxies, frameworks and Kubernetes take for somebody's name, or for another request, in other places.
const IGNORED: &str = "X-Remote-User: adam\r\nRemote-User: adam\r\nX-Forwarded-User: adam\r\nX-Forwarded-Email: adam\r\n\
    X-Auth-Request-User: adam\r\nX-User: adam\r\nImpersonate-User: adam\r\nImpersonate-Group: system:masters\r\n\
    X-Remote-Group: system:masters\r\nFrom: adam\r\nX-Original-URL: /clusters/theirs.other\r\nX-Rewrite-URL: /metrics\r\n\
    X-Original-Method: DELETE\r\nX-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\nX-Method-Override: DELETE\r\n\
    X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1;host=localhost\r\n\
    X-Forwarded-Host: evil.example\r\nX-Forwarded-Prefix: /clusters\r\nX-Forwarded-Client-Cert: Subject=\"CN=adam\"\r\n\
    Connection: Authorization\r\n";

#[tokio::test]
async fn headers_of_others_say_nothing() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "alice", "demo", "default").await?;
    let before = owned(&held(&guarded, "demo.default").await?);
    let (alice, adam) = (guarded.bearer("alice"), guarded.bearer("adam"));
    let others = format!("{IGNORED}Proxy-Authorization: {adam}\r\nX-Authorization: {adam}\r\nCookie: token={adam}\r\n");
    let said = whoami(&guarded, &format!("{others}Authorization: {alice}\r\n")).await?;
    assert_eq!(said.as_ref().and_then(Said::name).as_deref(), Some("alice"), "{said:?}");
    assert_eq!(status(whoami(&guarded, &others).await?.as_ref()), 401);
    let get = |lines: &str| {
        format!("GET /clusters/demo HTTP/1.1\r\nHost: localhost\r\n{IGNORED}{lines}Connection: close\r\n\r\n")
    };
    let said = only(&guarded, get(&format!("Authorization: {alice}\r\n")).as_bytes()).await?;
    assert_eq!(said.and_then(|said| said.name()).as_deref(), Some("demo"), "the path is the request's own");
    assert_eq!(owned(&held(&guarded, "demo.default").await?), before, "nor is it a DELETE");
    let post = format!("POST /clusters/demo HTTP/1.1\r\nHost: localhost\r\n{IGNORED}Authorization: {alice}\r\n");
    let said = only(&guarded, format!("{post}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    assert_eq!(status(said.as_ref()), 405);
    Ok(())
}

/// A request hidden where another reader sees a body: with nobody's token, and with adam's.
fn smuggled(guarded: &Guarded) -> [String; 2] {
    let plain = "GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    [format!("{plain}\r\n"), format!("{plain}Authorization: {}\r\n\r\n", guarded.bearer("adam"))]
}

#[tokio::test]
async fn lengths_that_contradict_hide_no_request() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let bob = guarded.bearer("bob");
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 0\r\nContent-Length: 44\r\n",
        "Content-Length: 44\r\nContent-Length: 0\r\n",
        "Content-Length: 0, 44\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: 0x0\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
    ] {
        for hidden in smuggled(&guarded) {
            let head = format!("POST /clusters HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bob}\r\n{lines}");
            let request = format!("{head}Content-Type: application/json\r\n\r\n0\r\n\r\n{hidden}");
            let said = talk(&guarded, request.as_bytes()).await?;
            for (index, said) in said.iter().enumerate() {
                assert!((400..500).contains(&said.status) || index > 0, "{lines:?}: {said:?}");
                // What comes second is a request of its own, and its caller's own.
                let own = hidden.contains("Authorization").then(|| "adam".to_owned());
                assert!(said.status != 200 || said.name() == own, "{lines:?}: {said:?}");
            }
            assert!(said.len() <= 2, "{said:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn chunks_that_are_none_are_refused() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let bob = guarded.bearer("bob");
    let body = r#"{"name": "chunked"}"#;
    for chunks in [
        format!("zz\r\n{body}\r\n0\r\n\r\n"),
        format!("FFFFFFFFFFFFFFFFF\r\n{body}\r\n0\r\n\r\n"),
        format!("-13\r\n{body}\r\n0\r\n\r\n"),
        format!("0x13\r\n{body}\r\n0\r\n\r\n"),
        format!("13 \0\r\n{body}\r\n0\r\n\r\n"),
        format!("12\r\n{body}\r\n0\r\n\r\n"),
        format!("13{body}\r\n0\r\n\r\n"),
    ] {
        let head = "POST /clusters HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
        let request = format!("{head}Authorization: {bob}\r\nContent-Type: application/json\r\n\r\n{chunks}");
        let said = only(&guarded, request.as_bytes()).await?;
        assert_eq!(status(said.as_ref()), 400, "{chunks:?}: {said:?}");
    }
    guarded.ask("bob", Method::GET, "/clusters/chunked", "").await?.problem(404, "NOT_FOUND");
    // A trailer is no header.
    let trailer = format!("13\r\n{body}\r\n0\r\nAuthorization: {}\r\n\r\n", guarded.bearer("adam"));
    for (lines, wanted) in [(format!("Authorization: {bob}\r\n"), 201), (String::new(), 401)] {
        let head = "POST /clusters HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
        let request = format!("{head}{lines}Trailer: Authorization\r\nContent-Type: application/json\r\n\r\n{trailer}");
        assert_eq!(status(only(&guarded, request.as_bytes()).await?.as_ref()), wanted);
    }
    let made = guarded.ask("bob", Method::GET, "/clusters/chunked", "").await?.json();
    assert_eq!(made["owner"], "bob", "{made}");
    Ok(())
}

/// Callers one after the other, and who each of them is.
const CALLERS: [(&str, Option<&str>); 8] = [
    ("alice", Some("alice")),
    ("", None),
    ("adam", Some("adam")),
    ("nonsense", None),
    ("bob", Some("bob")),
    ("", None),
    ("alice", Some("alice")),
    ("viv", Some("viv")),
];

#[tokio::test]
async fn each_request_of_a_connection_is_its_own_callers() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let mut requests = String::new();
    for (index, (user, _)) in CALLERS.iter().enumerate() {
        let credential = match *user {
            "" => String::new(),
            "nonsense" => "Authorization: Bearer nonsense\r\n".to_owned(),
            user => format!("Authorization: {}\r\n", guarded.bearer(user)),
        };
        let close = if index + 1 == CALLERS.len() { "Connection: close\r\n" } else { "" };
        requests += "GET /whoami HTTP/1.1\r\nHost: localhost\r\n";
        requests += &(credential + close + "\r\n");
    }
    let said = talk(&guarded, requests.as_bytes()).await?;
    let names: Vec<_> = said.iter().map(Said::name).collect();
    assert_eq!(names, CALLERS.map(|(_, name)| name.map(str::to_owned)), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn each_request_of_an_http2_connection_is_its_own_callers() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
    let ask = async |lines: Vec<(&str, String)>| -> Outcome<(u16, Value)> {
        let mut request = Request::get(format!("http://{}/whoami", guarded.address));
        for (name, value) in lines {
            request = request.header(name, value);
        }
        let answer = client.request(request.body(Empty::new())?).await?;
        let (status, body) = (answer.status().as_u16(), answer.into_body().collect().await?.to_bytes());
        Ok((status, serde_json::from_slice(&body)?))
    };
    for _ in 0..5 {
        let asked = CALLERS.iter().map(async |(user, name)| {
            let lines = match *user {
                "" => vec![],
                user => vec![("authorization", guarded.bearer(user))],
            };
            let (status, who) = ask(lines).await?;
            let wanted = name.map_or((401, &Value::Null), |_| (200, &who["name"]));
            assert_eq!((status, &who["name"]), wanted, "{who}");
            assert_eq!(who["name"].as_str(), *name, "{who}");
            Outcome::Ok(())
        });
        futures::future::try_join_all(asked).await?;
    }
    let (alice, adam) = (guarded.bearer("alice"), guarded.bearer("adam"));
    let (status, _) = ask(vec![("authorization", alice.clone()), ("authorization", adam)]).await?;
    assert_eq!(status, 401, "two credentials");
    let (status, who) = ask(vec![("authorization", alice), ("host", "evil.example".into())]).await?;
    assert_eq!((status, &who["name"]), (200, &json!("alice")));
    Ok(())
}

#[tokio::test]
async fn heads_and_targets_have_a_size() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let before = super::resident(guarded.id()?)?;
    let bearer = guarded.bearer("alice");
    let many = |count: usize| (0..count).fold(String::new(), |text, index| text + &format!("X-{index}: y\r\n"));
    for (lines, statuses) in [
        (many(1000), &[431][..]),
        (format!("X: {}\r\n", "y".repeat(100_000)), &[431]),
        (format!("Cookie: {}\r\n", "a=b; ".repeat(20_000)), &[431]),
        (format!("X: {}\r\n", "y".repeat(10_000_000)), &[431]),
        (many(50), &[200]),
    ] {
        let said = whoami(&guarded, &format!("Authorization: {bearer}\r\n{lines}")).await?;
        assert!(statuses.contains(&status(said.as_ref())), "{statuses:?}: {said:?}");
    }
    let parameters = |count: usize| (0..count).map(|index| format!("p{index}=1")).collect::<Vec<_>>().join("&");
    for (target, statuses) in [
        (format!("/clusters/{}", "a".repeat(70_000)), &[414, 431][..]),
        (format!("/clusters?labelSelector={}", "a".repeat(70_000)), &[414, 431]),
        (format!("/clusters?{}", parameters(7_000)), &[400]),
        (format!("/clusters?{}", "limit&".repeat(10_000)), &[400]),
        (format!("/clusters?{}", parameters(10_000)), &[414, 431]),
        (format!("/{}", "a/".repeat(30_000)), &[404]),
        (format!("/clusters/{}", "%2e".repeat(20_000)), &[404]),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n");
        let said = only(&guarded, format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
        let start = target.get(..40);
        assert!(statuses.contains(&status(said.as_ref())), "{start:?}: {:?}", said.map(|said| said.head));
    }
    let after = super::resident(guarded.id()?)?;
    assert!(after < before + 100_000, "from {before} to {after} KB");
    Ok(())
}
