//! The audit of deletions, when nobody reads it, and at the end.

use std::convert::Infallible;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Method, Request};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{Api, Files, Guarded, Outcome, PATIENCE, eventually};

/// A raygate whose standard output is a pipe, its first line read.
struct Piped {
    child: Child,
    api: Api,
    out: BufReader<ChildStdout>,
    _files: Files,
}

async fn start() -> Outcome<Piped> {
    let files = Files::new(&[("alice", &[])], "version: 1\ngrants: []")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_raygate"));
    command.args(["--listen", "127.0.0.1:0", "--backend", "memory"]);
    command.args(["--shutdown-delay-seconds", "0", "--drain-seconds", "1"]);
    command.args(["--unauthenticated-burst", "1000000"]);
    command.arg("--token-file").arg(files.token_path()).arg("--policy-file").arg(files.policy_path());
    command.env_remove("KUBERNETES_SERVICE_HOST").kill_on_drop(true);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut first = String::new();
    timeout(PATIENCE, out.read_line(&mut first)).await??;
    let address = first.trim().strip_prefix("listening on http://").ok_or("it doesn't listen")?.parse()?;
    let api = Api::at(address);
    api.ready().await?;
    Ok(Piped { child, api, out, _files: files })
}

/// Has this many requests refused, each with a long line.
async fn refused(api: &Api, count: u32) -> Outcome {
    for _ in 0..count {
        let answer = api.send(Method::POST, &format!("/clusters/{}/owner", "x".repeat(300)), &[], "{}").await?;
        answer.problem(401, "UNAUTHENTICATED");
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_that_stalls_does_not_hold_the_end_up() -> Outcome {
    let mut piped = start().await?;
    // Twice and more what a pipe holds.
    refused(&piped.api, 500).await?;
    let id = piped.child.id().ok_or("it has ended")?;
    let killed = Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
    assert!(killed.success());
    // The drain's second, and five for the last lines.
    let status = timeout(Duration::from_secs(6) + PATIENCE, piped.child.wait()).await??;
    assert_eq!(status.code(), Some(0), "{status}");
    drop(piped.out);
    Ok(())
}

#[tokio::test]
async fn lines_that_cannot_be_written_are_counted() -> Outcome {
    let piped = start().await?;
    drop(piped.out);
    refused(&piped.api, 3).await?;
    eventually("three lines are lost", async || {
        let metrics = piped.api.get("/metrics").await?;
        let text = String::from_utf8(metrics.body.to_vec())?;
        Ok(text.lines().any(|line| line == "raygate_audit_lines_lost_total 3").then_some(()))
    })
    .await
}

/// A policy under which alice is a user.
const POLICY: &str = "version: 1\ngrants: [{users: [alice], namespaces: [default], role: user}]";

#[tokio::test]
async fn a_cluster_is_deleted_once() -> Outcome {
    let files = Files::new(&[("alice", &[])], POLICY)?;
    let flags = ["--backend", "memory", "--memory-start-milliseconds", "20", "--memory-stop-milliseconds", "3600000"];
    let guarded = Guarded::start(files, &flags).await?;
    guarded.create("alice", &json!({"name": "demo"})).await?;
    eventually("it has something to stop", async || {
        let cluster = guarded.ask("alice", Method::GET, "/clusters/demo", "").await?.json();
        Ok((cluster["status"]["state"] == "READY").then_some(()))
    })
    .await?;
    for _ in 0..3 {
        assert_eq!(guarded.ask("alice", Method::DELETE, "/clusters/demo", "").await?.status, 202);
    }
    let lines = eventually("a line for each", async || {
        let lines: Vec<_> = guarded.audit()?.into_iter().filter(|line| line["verb"] == "DELETE").collect();
        Ok((lines.len() >= 3).then_some(lines))
    })
    .await?;
    let results: Vec<_> = lines.iter().map(|line| [&line["result"], &line["status"]]).collect();
    let (first, later) = ([&json!("CHANGED"), &json!(202)], [&json!("UNCHANGED"), &json!(202)]);
    assert_eq!(results, [first, later, later], "{lines:?}");
    assert!(lines.iter().all(|line| line["uid"] == lines[0]["uid"] && line["uid"].is_string()), "{lines:?}");
    Ok(())
}

/// A request of alice's whose body never ends, over HTTP/1.1.
async fn half_http1(guarded: &Guarded) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(guarded.address).await?;
    let head = format!(
        "POST /clusters HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nX-Request-Id: http1\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"name\":",
        guarded.bearer("alice")
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// The same over HTTP/2, sent by a task.
fn half_http2(guarded: &Guarded) -> Outcome<JoinHandle<bool>> {
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let half = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{\"name\":")));
    let body = StreamBody::new(stream::iter([half]).chain(stream::pending()));
    let request = Request::post(format!("http://{}/clusters", guarded.address));
    let request = request.header("authorization", guarded.bearer("alice")).header("x-request-id", "http2");
    let request = request.header("content-type", "application/json").body(body)?;
    Ok(tokio::spawn(async move { client.request(request).await.is_ok() }))
}

#[tokio::test]
async fn what_is_cut_at_the_end_has_its_line() -> Outcome {
    let flags = ["--drain-seconds", "1", "--caller-concurrent-requests", "2"];
    let guarded = Guarded::memory(&[("alice", &[])], POLICY, &flags).await?;
    let first = half_http1(&guarded).await?;
    let second = half_http2(&guarded)?;
    eventually("both are under way", async || {
        Ok((guarded.ask("alice", Method::GET, "/whoami", "").await?.status == 429).then_some(()))
    })
    .await?;
    guarded.terminate().await?;
    let mut lines = eventually("a line for each", async || {
        let lines: Vec<_> = guarded.audit()?.into_iter().filter(|line| line["action"] == "createCluster").collect();
        Ok((lines.len() >= 2).then_some(lines))
    })
    .await?;
    lines.sort_by_key(|line| line["requestId"].to_string());
    let told: Vec<_> = lines.iter().map(|line| [&line["requestId"], &line["user"], &line["result"]]).collect();
    assert_eq!(told, [["http1", "alice", "UNKNOWN"], ["http2", "alice", "UNKNOWN"]], "{lines:?}");
    assert!(!second.await?, "it has no answer");
    drop(first);
    Ok(())
}
