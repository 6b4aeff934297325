//! The audit when nobody reads it.

use std::process::Stdio;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::{Api, Files, Outcome, PATIENCE, eventually};

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
