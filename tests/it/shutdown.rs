//! The end: not ready but serving, then no new work, the rest under a deadline.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::streams::Lines;
use crate::support::{Outcome, PATIENCE, Raygate, eventually};

/// Waits until `/ready` says that the process is ending, each time on a connection of its own.
async fn is_draining(raygate: &Raygate) -> Outcome {
    eventually("it is draining", async || {
        let request = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = raygate.raw(request).await?;
        Ok((answer.starts_with("HTTP/1.1 503 ") && answer.contains("DRAINING")).then_some(()))
    })
    .await
}

/// A create whose body is half sent, on a connection of its own; and the other half.
async fn half_a_create(raygate: &Raygate) -> Outcome<(TcpStream, &'static [u8])> {
    let mut stream = TcpStream::connect(raygate.address).await?;
    let half = "POST /clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Expect: 100-continue\r\nContent-Length: 15\r\n\r\n";
    stream.write_all(half.as_bytes()).await?;
    // Asked to go on, the handler reads the body: the request is in flight.
    let mut go_on = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut go_on)).await??;
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{\"name\":").await?;
    Ok((stream, b"\"last\"}"))
}

#[tokio::test]
async fn what_is_under_way_ends_well() -> Outcome {
    let raygate = Raygate::memory(&["--shutdown-delay-seconds", "2"]).await?;
    let mut socket = raygate.socket("/watch", &[]).await?;
    assert_eq!(socket.event().await?["type"], "SYNCED");
    let mut lines = Lines::ask(&raygate, Method::GET, "/watch").await?;
    lines.until(|event| event["type"] == "SYNCED").await?;
    let (mut request, rest) = half_a_create(&raygate).await?;

    raygate.terminate().await?;
    is_draining(&raygate).await?;
    assert_eq!(raygate.get("/health").await?.status, 200, "it still serves");
    let answer = raygate.post("/clusters", &json!({"name": "late"})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let added = socket.event().await?;
    assert_eq!(added["cluster"]["name"], "late", "streams live on during the delay: {added}");

    assert_eq!(socket.closed().await?, 1001);
    while lines.next().await?.is_some() {}
    // Everybody else has been sent away; the request has its answer all the same.
    request.write_all(rest).await?;
    let mut answer = String::new();
    timeout(PATIENCE, request.read_to_string(&mut answer)).await??;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.contains("location: clusters/last.default"), "{answer}");
    let status = raygate.ended().await?;
    assert_eq!(status.code(), Some(0), "{status}");
    Ok(())
}

#[tokio::test]
async fn answer_during_the_delay() -> Outcome {
    let raygate = Raygate::memory(&["--shutdown-delay-seconds", "2"]).await?;
    let (mut request, rest) = half_a_create(&raygate).await?;
    raygate.terminate().await?;
    is_draining(&raygate).await?;
    request.write_all(rest).await?;
    let mut status = [0; 12];
    timeout(PATIENCE, request.read_exact(&mut status)).await??;
    assert_eq!(&status, b"HTTP/1.1 201");
    let address = raygate.address;
    assert_eq!(raygate.ended().await?.code(), Some(0));
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    Ok(())
}

#[tokio::test]
async fn idle_connections_hold_nothing_up() -> Outcome {
    let raygate = Raygate::memory(&["--drain-seconds", "3600"]).await?;
    let mut idle = TcpStream::connect(raygate.address).await?;
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = [0; 12];
    timeout(PATIENCE, idle.read_exact(&mut answer)).await??;
    assert_eq!(&answer, b"HTTP/1.1 200");
    let silent = TcpStream::connect(raygate.address).await?;
    // Accepted in order: once this one is answered, the silent one is being waited for.
    raygate.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    raygate.terminate().await?;
    assert_eq!(raygate.ended().await?.code(), Some(0));
    drop((idle, silent));
    Ok(())
}

#[tokio::test]
async fn request_that_never_ends_is_cut() -> Outcome {
    let raygate = Raygate::memory(&["--drain-seconds", "1"]).await?;
    let (request, _) = half_a_create(&raygate).await?;
    raygate.terminate().await?;
    assert_eq!(raygate.ended().await?.code(), Some(0));
    drop(request);
    Ok(())
}

#[tokio::test]
async fn second_signal_ends_at_once() -> Outcome {
    let raygate = Raygate::memory(&["--shutdown-delay-seconds", "3600", "--drain-seconds", "3600"]).await?;
    raygate.terminate().await?;
    is_draining(&raygate).await?;
    raygate.terminate().await?;
    let status = timeout(Duration::from_secs(30), raygate.ended()).await??;
    assert_ne!(status.code(), Some(0), "it didn't end as it should have: {status}");
    Ok(())
}
