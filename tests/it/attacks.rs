//! What an attacker may try. Each test says what must come of it, whoever tries.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Answer, Api, Guarded, Outcome, PATIENCE};

mod bodies;
mod floods;
mod hidden;
mod logs;
mod paths;
mod pods;
mod reserved;
mod slow;
mod stalled;
mod tokens;
mod wire;

const PEOPLE: &[(&str, &[&str])] = &[("alice", &[]), ("bob", &[]), ("viv", &["lookers"]), ("olga", &[]), ("adam", &[])];

/// `shared` is private, and alice and bob may both use it; `other` is for operators.
const POLICY: &str = r#"
version: 1
grants:
- {users: [alice, bob], namespaces: [default, shared, "user-{name}"], role: user}
- {groups: [lookers], namespaces: [default, shared], role: viewer}
- {users: [olga], namespaces: ["*"], role: operator}
- {users: [adam], namespaces: ["*"], role: admin}
privateNamespaces: ["user-*", shared]
"#;

/// No caller's limit, for tests that ask much.
const UNLIMITED: [&str; 8] = [
    "--caller-requests-per-second",
    "1000000",
    "--caller-burst",
    "1000000",
    "--unauthenticated-requests-per-second",
    "1000000",
    "--unauthenticated-burst",
    "1000000",
];

/// What stands in the env of clusters that somebody else may not see.
const SECRET: &str = "raygate-test-secret-of-the-victim";

async fn start(arguments: &[&str]) -> Outcome<Guarded> {
    let namespaces = ["--namespace", "default", "--namespace", "user-bob", "--namespace", "shared"];
    let other = ["--namespace", "other"];
    Guarded::memory(PEOPLE, POLICY, &[&namespaces[..], &other, arguments].concat()).await
}

/// A cluster of somebody, with a secret in its env.
async fn create(guarded: &Guarded, user: &str, name: &str, namespace: &str) -> Outcome {
    let env = json!({"KEY": SECRET});
    let document = json!({"name": name, "namespace": namespace, "labels": {"team": "red"}, "head": {"env": env}});
    let answer = guarded.create(user, &document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(())
}

/// A cluster as an admin reads it: what Kubernetes holds.
async fn held(guarded: &Guarded, reference: &str) -> Outcome<Value> {
    let answer = guarded.ask("adam", Method::GET, &format!("/clusters/{reference}/manifest"), "").await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Ok(answer.json())
}

/// What users own of it.
fn owned(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([object["spec"], metadata["labels"], metadata["annotations"], metadata["deletionTimestamp"], metadata["uid"]])
}

/// One answer on a connection.
#[derive(Debug)]
struct Said {
    status: u16,
    head: String,
    body: String,
}

impl Said {
    /// Who it says one is; nobody where it isn't that answer.
    fn name(&self) -> Option<String> {
        let who: Value = serde_json::from_str(&self.body).ok()?;
        Some(who["name"].as_str()?.to_owned())
    }
}

/// Sends these bytes on a connection of their own and reads what comes until it is closed, however it is. It asks for the
/// close, or has one coming.
async fn talk(api: &Api, bytes: &[u8]) -> Outcome<Vec<Said>> {
    let (mut reader, mut writer) = TcpStream::connect(api.address).await?.into_split();
    let mut answer = Vec::new();
    let talking = async {
        // Who is refused early may find the connection closed.
        let _ = writer.write_all(bytes).await;
        while let Ok(1..) = reader.read_buf(&mut answer).await {}
    };
    timeout(PATIENCE, talking).await?;
    answers(&String::from_utf8_lossy(&answer))
}

/// The answers in a text, each with its length.
fn answers(text: &str) -> Outcome<Vec<Said>> {
    let mut said = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").ok_or_else(|| format!("half an answer: {rest}"))?;
        let status = head.strip_prefix("HTTP/1.").and_then(|head| head.split(' ').nth(1));
        let status = status.ok_or_else(|| format!("no answer: {rest}"))?.parse()?;
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let length = length.unwrap_or(0);
        let body = after.get(..length).ok_or_else(|| format!("half a body: {rest}"))?;
        said.push(Said { status, head: head.to_owned(), body: body.to_owned() });
        rest = after.get(length..).unwrap_or_default();
    }
    Ok(said)
}

/// The one answer to these bytes; none where the connection is just closed.
async fn only(api: &Api, bytes: &[u8]) -> Outcome<Option<Said>> {
    let mut said = talk(api, bytes).await?;
    assert!(said.len() <= 1, "{said:?}");
    Ok(said.pop())
}

/// The kilobytes of memory that a process has.
fn resident(id: u32) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// A problem without what is each answer's own.
fn essence(answer: &Answer) -> Value {
    let mut problem = answer.json();
    if let Some(members) = problem.as_object_mut() {
        members.shift_remove("requestId");
    }
    problem
}

/// A short pause between bytes that come slowly.
const DRIP: Duration = Duration::from_millis(100);
