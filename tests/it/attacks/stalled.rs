//! Watchers that take nothing of what they are sent: their streams end like everybody's.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{UNLIMITED, start};
use crate::streams::Lines;
use crate::support::{Guarded, Outcome, PATIENCE, eventually};

/// Waits until so many streams are open.
async fn are_open(guarded: &Guarded, count: u32) -> Outcome {
    let line = format!("raygate_streams_open {count}");
    eventually("the streams are open, or not", async || {
        let metrics = guarded.get("/metrics").await?;
        Ok(String::from_utf8(metrics.body.to_vec())?.lines().any(|one| one == line).then_some(()))
    })
    .await
}

/// A stream of lines over HTTP/2 whose window is shut from the beginning.
async fn shut(guarded: &Guarded, user: &str) -> Outcome<Incoming> {
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .http2_initial_stream_window_size(0)
        .build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{}/watch", guarded.address));
    let request = request.header("authorization", guarded.bearer(user)).body(Empty::new())?;
    let answer = timeout(PATIENCE, client.request(request)).await??;
    assert_eq!(answer.status(), 200);
    Ok(answer.into_body())
}

/// A watch over HTTP/1.1 with these further header lines that is never read from.
async fn unread(guarded: &Guarded, user: &str, lines: &str) -> Outcome<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(guarded.address).await?;
    let bearer = guarded.bearer(user);
    let head = format!("GET /watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Takes alice's token away, and waits until her streams have ended: long before anybody would give her up for taking nothing.
async fn end_with_the_rights(guarded: &Guarded, count: u32) -> Outcome {
    are_open(guarded, count).await?;
    guarded.files().write_tokens(&guarded.files().lines()[1..])?;
    timeout(Duration::from_secs(40), are_open(guarded, 0)).await?
}

/// The longest that a watcher may take nothing.
const PATIENT: [&str; 2] = ["--peer-timeout-seconds", "60"];

#[tokio::test]
async fn a_shut_window_keeps_no_stream_open() -> Outcome {
    let guarded = start(&PATIENT).await?;
    let stalled = shut(&guarded, "alice").await?;
    end_with_the_rights(&guarded, 1).await?;
    drop(stalled);
    Ok(())
}

#[tokio::test]
async fn who_does_not_read_keeps_no_stream_open() -> Outcome {
    let guarded = start(&[&PATIENT[..], &UNLIMITED].concat()).await?;
    // More than all buffers on the way hold.
    let value = "x".repeat(500_000);
    for index in 0..30 {
        let document = json!({"name": format!("big-{index}"), "namespace": "default", "head": {"env": {"BIG": value}}});
        let answer = guarded.create("alice", &document).await?;
        assert_eq!(answer.status, 201, "{:?}", answer.status);
    }
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let stalled = [unread(&guarded, "alice", "").await?, unread(&guarded, "alice", upgrade).await?];
    end_with_the_rights(&guarded, 2).await?;
    drop(stalled);
    Ok(())
}

#[tokio::test]
async fn who_takes_nothing_is_given_up() -> Outcome {
    let guarded = start(&["--peer-timeout-seconds", "1"]).await?;
    let bearer = guarded.bearer("alice");
    let mut lines = Lines::ask_with(&guarded, Method::GET, "/watch", &[("authorization", &bearer)]).await?;
    lines.until(|event| event["type"] == "SYNCED").await?;
    let stalled = shut(&guarded, "alice").await?;
    are_open(&guarded, 1).await?;
    guarded.create("alice", &json!({"name": "demo", "namespace": "default"})).await?;
    lines.until(|event| event["type"] == "ADDED").await?;
    drop(stalled);
    Ok(())
}

#[tokio::test]
async fn pings_keep_no_connection_open() -> Outcome {
    let flags = ["--idle-timeout-seconds", "1", "--header-timeout-seconds", "1", "--max-connections", "2"];
    let guarded = start(&flags).await?;
    let mut pinging = Vec::new();
    for _ in 0..2 {
        // HTTP/1.1's own timeout makes room for them.
        let stream = TcpStream::connect(guarded.address).await?;
        let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(Duration::from_millis(100))
            .keep_alive_while_idle(true)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        let request = Request::get(format!("http://{}/health", guarded.address)).body(Empty::new())?;
        let answer = timeout(PATIENCE, sender.send_request(request)).await??;
        assert_eq!(answer.status(), 200);
        pinging.push(sender);
    }
    let health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = timeout(PATIENCE, guarded.raw(health)).await??;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_stream_keeps_its_connection_open() -> Outcome {
    let guarded = start(&["--idle-timeout-seconds", "1", "--heartbeat-seconds", "4"]).await?;
    let bearer = guarded.bearer("alice");
    let mut socket = guarded.socket("/watch", &[("authorization", &bearer)]).await?;
    let mut old = Lines::ask_with(&guarded, Method::GET, "/watch", &[("authorization", &bearer)]).await?;
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{}/watch", guarded.address));
    let answer = client.request(request.header("authorization", bearer).body(Empty::new())?).await?;
    let mut new = Lines::of(answer);
    for lines in [&mut old, &mut new] {
        lines.until(|event| event["type"] == "HEARTBEAT").await?;
    }
    socket.until(|event| event["type"] == "SYNCED").await?;
    guarded.create("alice", &json!({"name": "demo", "namespace": "default"})).await?;
    for lines in [&mut old, &mut new] {
        lines.until(|event| event["type"] == "ADDED").await?;
    }
    socket.until(|event| event["type"] == "ADDED").await?;
    Ok(())
}
