//! What watchers see, as a WebSocket and as lines of JSON.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as WsError;

use crate::story::provisioned;
use crate::support::{Api, Outcome, PATIENCE, Raygate, Socket, states};

/// An answer whose body is read line by line, as it comes.
pub(crate) struct Lines {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    /// Sends a request and reads the head of its answer.
    pub(crate) async fn ask(raygate: &Api, method: Method, path: &str) -> Outcome<Self> {
        Self::ask_with(raygate, method, path, &[]).await
    }

    /// The same with these headers.
    pub(crate) async fn ask_with(
        raygate: &Api,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Outcome<Self> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", raygate.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = timeout(PATIENCE, client.request(request.body(Empty::<Bytes>::new())?)).await??;
        Ok(Self::of(response))
    }

    /// The lines of this answer.
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, rest: Vec::new() }
    }

    /// The next line, heartbeats too; nothing once the body has ended as it should.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Value>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.rest.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let Some(frame) = timeout(PATIENCE, self.body.frame()).await? else {
                assert!(self.rest.is_empty(), "half a line at the end: {:?}", self.rest);
                return Ok(None);
            };
            self.rest.extend_from_slice(&frame?.into_data().unwrap_or_default());
        }
    }

    /// All events but heartbeats, up to and with the first one that is wanted.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Outcome<Vec<Value>> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await?.ok_or("it ended")?;
            if event["type"] != "HEARTBEAT" {
                events.push(event.clone());
            }
            if wanted(&event) {
                return Ok(events);
            }
        }
    }

    /// The whole body.
    pub(crate) async fn collect(self) -> Outcome<Bytes> {
        Ok(timeout(PATIENCE, self.body.collect()).await??.to_bytes())
    }
}

/// Delays that leave time to see every state.
const UNHURRIED: [&str; 4] = ["--memory-start-milliseconds", "500", "--memory-stop-milliseconds", "500"];

fn small(name: &str) -> Value {
    json!({"name": name, "workerGroups": {"small": {"replicas": 1, "cpu": "1", "memory": "1Gi"}}})
}

async fn create(raygate: &Raygate, document: &Value) -> Outcome<Value> {
    let answer = raygate.post("/clusters", document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(answer.json())
}

fn is_type(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == wanted
}

fn is_state(name: &'static str, wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["cluster"]["name"] == name && event["cluster"]["status"]["state"] == wanted
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["cluster"]["name"].as_str().unwrap_or_default()).collect()
}

/// Checks the story of one cluster from its creation to its end.
fn check_life(events: &[Value], uid: &Value) {
    let types = types(events);
    assert_eq!(types.first(), Some(&"ADDED"), "{types:?}");
    assert_eq!(types.last(), Some(&"DELETED"), "{types:?}");
    let between = &types[1..types.len() - 1];
    assert!(between.iter().all(|event| *event == "MODIFIED"), "{types:?}");
    let states = states(&events[..events.len() - 1]);
    assert_eq!(states, ["PENDING", "READY", "DELETING"]);
    let mut last = 0;
    for event in events {
        assert_eq!(event["cluster"]["uid"], *uid, "{event}");
        assert!(event["cursor"].as_str().is_some_and(|cursor| !cursor.is_empty()), "{event}");
        let version = event["cluster"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
        assert!(version >= Some(last), "a version went back from {last}: {event}");
        last = version.unwrap_or_default();
    }
}

#[tokio::test]
async fn socket_sees_a_life() -> Outcome {
    let raygate = Raygate::memory(&UNHURRIED).await?;
    let mut socket = raygate.socket("/watch?namespace=*", &[]).await?;
    assert_eq!(socket.event().await?["type"], "SYNCED", "nothing is there yet");
    let uid = create(&raygate, &small("demo")).await?["uid"].clone();
    let mut events = socket.until(is_state("demo", "READY")).await?;
    raygate.delete("/clusters/demo").await?;
    events.extend(socket.until(is_type("DELETED")).await?);
    check_life(&events, &uid);
    socket.close().await
}

#[tokio::test]
async fn lines_tell_the_same() -> Outcome {
    let raygate = Raygate::memory(&UNHURRIED).await?;
    let mut lines = Lines::ask(&raygate, Method::GET, "/watch?namespace=*").await?;
    assert_eq!(lines.status, 200);
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    assert_eq!(types(&lines.until(is_type("SYNCED")).await?), ["SYNCED"]);
    let uid = create(&raygate, &small("demo")).await?["uid"].clone();
    let mut events = lines.until(is_state("demo", "READY")).await?;
    raygate.delete("/clusters/demo").await?;
    events.extend(lines.until(is_type("DELETED")).await?);
    check_life(&events, &uid);
    Ok(())
}

#[tokio::test]
async fn what_is_there_comes_first() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mut early = raygate.socket("/watch", &[]).await?;
    for name in ["one", "two", "three"] {
        create(&raygate, &json!({"name": name})).await?;
        early.until(is_state(name, "READY")).await?;
        // The operator's own word is the last thing that changes.
        provisioned(&raygate, name).await?;
    }
    let mut socket = raygate.socket("/watch", &[]).await?;
    let events = socket.until(is_type("SYNCED")).await?;
    assert_eq!(types(&events), ["ADDED", "ADDED", "ADDED", "SYNCED"]);
    let mut given = names(&events[..3]);
    given.sort_unstable();
    assert_eq!(given, ["one", "three", "two"]);
    create(&raygate, &json!({"name": "four"})).await?;
    let event = socket.event().await?;
    assert_eq!((&event["type"], &event["cluster"]["name"]), (&json!("ADDED"), &json!("four")), "{event}");
    Ok(())
}

#[tokio::test]
async fn same_name_again_is_another_cluster() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let first = create(&raygate, &json!({"name": "demo"})).await?["uid"].clone();
    let mut socket = raygate.socket("/watch", &[]).await?;
    socket.until(is_type("SYNCED")).await?;
    raygate.delete("/clusters/demo").await?;
    let second = crate::support::eventually("the name is free", async || {
        let answer = raygate.post("/clusters", &json!({"name": "demo"})).await?;
        Ok((answer.status == 201).then(|| answer.json()["uid"].clone()))
    })
    .await?;
    assert_ne!(first, second);
    let events = socket.until(|event| event["cluster"]["uid"] == second).await?;
    let (last, before) = events.split_last().ok_or("nothing came")?;
    assert_eq!(last["type"], "ADDED", "{last}");
    let gone = before.last().ok_or("nothing before")?;
    assert_eq!((&gone["type"], &gone["cluster"]["uid"]), (&json!("DELETED"), &first), "{gone}");
    Ok(())
}

/// The status and code of an answer that was no WebSocket.
fn refusal(result: Result<Socket, WsError>) -> Outcome<(u16, Value)> {
    match result {
        Ok(_) => Err("a socket was opened".into()),
        Err(WsError::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            let problem: Value = serde_json::from_slice(body).unwrap_or_default();
            Ok((response.status().as_u16(), problem["code"].clone()))
        }
        Err(other) => Err(other.into()),
    }
}

#[tokio::test]
async fn absent_cluster_is_a_problem_before_the_first_byte() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    raygate.get("/clusters/absent/watch").await?.problem(404, "NOT_FOUND");
    let refused = refusal(raygate.socket("/clusters/absent/watch", &[]).await)?;
    assert_eq!(refused, (404, json!("NOT_FOUND")));
    let refused = refusal(raygate.socket("/watch?limit=1", &[]).await)?;
    assert_eq!(refused, (400, json!("MALFORMED")));
    Ok(())
}

#[tokio::test]
async fn one_clusters_watch_ends_with_it() -> Outcome {
    let raygate = Raygate::memory(&UNHURRIED).await?;
    let uid = create(&raygate, &small("demo")).await?["uid"].clone();
    create(&raygate, &small("other")).await?;
    let mut socket = raygate.socket("/clusters/demo/watch", &[]).await?;
    let mut lines = Lines::ask(&raygate, Method::GET, "/clusters/demo.default/watch").await?;
    let mut seen = socket.until(is_state("demo", "READY")).await?;
    let mut read = lines.until(is_state("demo", "READY")).await?;
    raygate.delete("/clusters/demo").await?;
    seen.extend(socket.until(is_type("DELETED")).await?);
    read.extend(lines.until(is_type("DELETED")).await?);
    for mut events in [seen, read] {
        assert_eq!(types(&events)[..2], ["ADDED", "SYNCED"]);
        events.remove(1);
        check_life(&events, &uid);
    }
    assert_eq!(socket.next().await?.map_err(|close| close.map(|close| u16::from(close.code))), Err(Some(1000)));
    assert_eq!(lines.next().await?, None);
    Ok(())
}

#[tokio::test]
async fn heartbeats_break_the_silence() -> Outcome {
    let raygate = Raygate::memory(&["--heartbeat-seconds", "1"]).await?;
    let mut lines = Lines::ask(&raygate, Method::GET, "/watch").await?;
    assert_eq!(types(&lines.until(is_type("HEARTBEAT")).await?), ["SYNCED"]);
    for _ in 0..2 {
        let event = lines.next().await?.ok_or("it ended")?;
        assert_eq!(event["type"], "HEARTBEAT", "{event}");
        assert!(event["cursor"].is_string() && event["cluster"].is_null(), "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn subprotocol_is_echoed() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for offered in ["raygate.v1", "other, raygate.v1"] {
        let socket = raygate.socket("/watch", &[("sec-websocket-protocol", offered)]).await?;
        assert_eq!(socket.headers["sec-websocket-protocol"], "raygate.v1", "{offered}");
    }
    Ok(())
}

#[tokio::test]
async fn upgrades_that_are_no_web_sockets() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for headers in [
        "Upgrade: websocket\r\nConnection: close, upgrade\r\nSec-WebSocket-Version: 13\r\n",
        "Upgrade: websocket\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ] {
        let answer = raygate.raw(format!("GET /watch HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes()).await?;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer}");
        assert!(answer.contains("application/problem+json"), "{headers}: {answer}");
    }
    // An offer of another protocol, as `curl --http2` makes it, is ignored (RFC 9110, section 7.8).
    let offer =
        "GET /clusters/absent/watch HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: close, upgrade\r\n\r\n";
    let answer = raygate.raw(offer.as_bytes()).await?;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    Ok(())
}

#[tokio::test]
async fn watch_keeps_to_its_namespace() -> Outcome {
    let raygate = Raygate::memory(&["--namespace", "default", "--namespace", "other"]).await?;
    let mut own = raygate.socket("/watch", &[]).await?;
    let mut other = Lines::ask(&raygate, Method::GET, "/watch?namespace=other").await?;
    let mut all = raygate.socket("/watch?namespace=*", &[]).await?;
    create(&raygate, &json!({"name": "theirs", "namespace": "other"})).await?;
    all.until(is_state("theirs", "READY")).await?;
    create(&raygate, &json!({"name": "mine"})).await?;
    all.until(is_state("mine", "READY")).await?;
    let namespaces = |events: &[Value], wanted: &str| {
        let clusters = events.iter().filter(|event| event["cluster"].is_object());
        let namespaces: Vec<_> = clusters.map(|event| event["cluster"]["namespace"].clone()).collect();
        assert!(!namespaces.is_empty() && namespaces.iter().all(|namespace| namespace == wanted), "{namespaces:?}");
    };
    namespaces(&own.until(is_state("mine", "READY")).await?, "default");
    namespaces(&other.until(is_state("theirs", "READY")).await?, "other");
    // A second one in `other` would come now if the first watch let it through, or if this one lost its way.
    create(&raygate, &json!({"name": "last", "namespace": "other"})).await?;
    namespaces(&other.until(is_state("last", "READY")).await?, "other");
    Ok(())
}

#[tokio::test]
async fn fifty_sockets_see_a_change() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let mut socket = raygate.socket("/watch", &[]).await?;
        assert_eq!(socket.event().await?["type"], "SYNCED");
        sockets.push(socket);
    }
    // Some go again, with and without a word.
    for socket in sockets.split_off(40) {
        socket.close().await?;
    }
    drop(sockets.split_off(30));
    create(&raygate, &json!({"name": "demo"})).await?;
    for socket in &mut sockets {
        let events = socket.until(is_state("demo", "READY")).await?;
        assert_eq!(types(&events)[0], "ADDED");
    }
    Ok(())
}

#[tokio::test]
async fn socket_that_never_reads_delays_nobody() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mut idle = TcpStream::connect(raygate.address).await?;
    let upgrade = "GET /watch HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    idle.write_all(upgrade.as_bytes()).await?;
    let mut head = [0; 12];
    timeout(PATIENCE, idle.read_exact(&mut head)).await??;
    assert_eq!(&head, b"HTTP/1.1 101");
    let mut socket = raygate.socket("/watch", &[]).await?;
    socket.until(is_type("SYNCED")).await?;

    // More than the kernel holds for a connection, several times over. How many events a cluster has depends on how fast
    // they are read, so there are as many clusters as it takes.
    let note = "x".repeat(200_000);
    let mut bytes = 0;
    for index in 0.. {
        if bytes > 16_000_000 {
            break;
        }
        let name = format!("c{index}");
        create(&raygate, &json!({"name": name, "annotations": {"note": note}})).await?;
        let seen =
            socket.until(|event| event["cluster"]["name"] == name && event["cluster"]["status"]["state"] == "READY");
        bytes += seen.await?.len() * note.len();
    }
    drop(idle);
    Ok(())
}

#[tokio::test]
async fn head_of_a_stream_has_no_body() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = Lines::ask(&raygate, Method::HEAD, "/watch").await?;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    assert!(answer.collect().await?.is_empty());
    Ok(())
}
