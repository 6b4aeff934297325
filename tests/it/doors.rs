//! Who gets in: hosts, origins, addresses to listen on, and command lines that are no start.

use std::process::Stdio;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as WsError;

use crate::support::{Files, Guarded, Outcome, PATIENCE, Raygate};

/// The status of an answer to this request, which asks for the connection to be closed, and its problem's code.
async fn ask(raygate: &Raygate, request: &str) -> Outcome<(u16, Value)> {
    let answer = raygate.raw(request.as_bytes()).await?;
    let status = answer.split(' ').nth(1).ok_or_else(|| format!("no status: {answer}"))?.parse()?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    Ok((status, problem["code"].clone()))
}

fn misdirected() -> (u16, Value) {
    (421, json!("MISDIRECTED_REQUEST"))
}

const UPGRADE: &str = "Connection: close, upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

#[tokio::test]
async fn rebound_name_is_turned_away() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let port = raygate.address.port();
    let create = "Content-Type: application/json\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{\"name\":\"evil\"}";
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.2".to_owned(),
        "0.0.0.0".to_owned(),
        "[::2]".to_owned(),
        String::new(),
    ] {
        for request in [
            format!("GET /clusters HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            format!("GET /docs/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            // As a page of that host would send it: its origin and the host agree.
            format!("POST /clusters HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{create}"),
            format!("GET /watch HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{UPGRADE}\r\n"),
        ] {
            assert_eq!(ask(&raygate, &request).await?, misdirected(), "{request}");
        }
    }
    assert_eq!(raygate.get("/clusters/evil").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn host_is_said_once() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for request in [
        "GET /version HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /version HTTP/1.0\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET /version HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET http://evil.example/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ] {
        assert_eq!(ask(&raygate, request).await?, misdirected(), "{request}");
    }
    // An absolute target overrides Host (RFC 9112, section 3.2.2).
    let absolute = "GET http://localhost/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(&raygate, absolute).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn own_hosts_are_served() -> Outcome {
    let raygate = Raygate::memory(&["--allowed-host", "ray.example.org", "--allowed-host", "10.1.2.3"]).await?;
    let port = raygate.address.port();
    for host in ["localhost", "LocalHost", "127.0.0.1", "[::1]", "ray.example.org", "RAY.example.org", "10.1.2.3"] {
        for host in [host.to_owned(), format!("{host}:{port}"), format!("{host}:1")] {
            let request = format!("GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            assert_eq!(ask(&raygate, &request).await?.0, 200, "{host}");
        }
    }
    for host in ["example.org", "x.ray.example.org", "ray.example.org.evil.example", "10.1.2.4"] {
        let request = format!("GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(&raygate, &request).await?, misdirected(), "{host}");
    }
    let origin = [("origin", "https://ray.example.org"), ("host", "ray.example.org")];
    let answer = raygate.send(Method::POST, "/clusters", &origin, r#"{"name": "demo"}"#).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let evil = [("origin", "https://evil.example"), ("host", "ray.example.org")];
    let answer = raygate.send(Method::POST, "/clusters", &evil, r#"{"name": "evil"}"#).await?;
    answer.problem(403, "FOREIGN_ORIGIN");
    Ok(())
}

#[tokio::test]
async fn pages_elsewhere_change_nothing() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let port = raygate.address.port();
    let other_port = if port == 1024 { 1025 } else { 1024 };
    raygate.post("/clusters", &json!({"name": "mine"})).await?;
    for origin in [
        "http://evil.example".to_owned(),
        format!("http://evil.example:{port}"),
        "null".to_owned(),
        format!("http://127.0.0.1:{other_port}"),
        "http://127.0.0.1".to_owned(),
        // Another origin, though the same machine: whoever serves a page there is somebody else.
        format!("http://localhost:{other_port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
        String::new(),
    ] {
        let headers = [("origin", origin.as_str())];
        let answer = raygate.send(Method::POST, "/clusters", &headers, r#"{"name": "evil"}"#).await?;
        answer.problem(403, "FOREIGN_ORIGIN");
        raygate.send(Method::DELETE, "/clusters/mine", &headers, "").await?.problem(403, "FOREIGN_ORIGIN");
        match raygate.socket("/watch", &[("origin", &origin)]).await {
            Err(WsError::Http(response)) => assert_eq!(response.status(), 403, "{origin}"),
            Err(other) => return Err(other.into()),
            Ok(_) => return Err(format!("a socket for {origin}").into()),
        }
        let answer = raygate.send(Method::GET, "/clusters/mine", &headers, "").await?;
        assert_eq!(answer.status, 200, "to read is safe: the browser keeps the answer from the page: {origin}");
        let preflight = raygate.send(Method::OPTIONS, "/clusters", &headers, "").await?;
        for answer in [answer, preflight] {
            let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
            assert_eq!(cors, None, "{origin}");
        }
    }
    assert_eq!(raygate.get("/clusters/evil").await?.status, 404);
    assert_ne!(raygate.get("/clusters/mine").await?.json()["status"]["state"], "DELETING");
    Ok(())
}

#[tokio::test]
async fn own_page_may() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let origin = format!("http://{}", raygate.address);
    let headers = [("origin", origin.as_str())];
    let answer = raygate.send(Method::POST, "/clusters", &headers, r#"{"name": "demo"}"#).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let mut socket = raygate.socket("/watch", &[("origin", &origin)]).await?;
    assert_eq!(socket.event().await?["type"], "ADDED");
    let port = raygate.address.port();
    let by_name = format!("http://localhost:{port}");
    let headers = [("origin", by_name.as_str()), ("host", &by_name[7..])];
    let answer = raygate.send(Method::DELETE, "/clusters/demo", &headers, "").await?;
    assert!(answer.status.is_success(), "{answer:?}");
    Ok(())
}

/// The binary with these arguments and variables, and none of ours.
fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raygate"));
    command.env_clear().envs(variables.iter().copied()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Checks that it ends with code 2, serves nothing, and says why in words among which are these.
async fn is_no_start(arguments: &[&str], variables: &[(&str, &str)], words: &[&str]) -> Outcome {
    let output = timeout(PATIENCE, command(arguments, variables).output()).await?;
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?} {variables:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?} {variables:?}: {:?}", output.stdout);
    for word in words {
        assert!(said.contains(word), "{word:?} isn't in what {arguments:?} {variables:?} said: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    Ok(())
}

#[tokio::test]
async fn open_addresses_need_a_word() -> Outcome {
    let loopback = ["loopback", "--insecure-allow-anonymous"];
    is_no_start(&["--listen", "0.0.0.0:0"], &[], &loopback).await?;
    is_no_start(&["--listen", "[::]:0"], &[], &loopback).await?;
    is_no_start(&["serve", "--listen", "0.0.0.0:0"], &[], &loopback).await?;
    is_no_start(&[], &[("RAYGATE_LISTEN", "0.0.0.0:0")], &loopback).await?;

    let flags = ["--listen", "0.0.0.0:0", "--backend", "memory", "--insecure-allow-anonymous"];
    let mut child = command(&flags, &[]).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    let line = timeout(PATIENCE, lines.next_line()).await??.unwrap_or_default();
    let port = line.strip_prefix("listening on http://0.0.0.0:").ok_or_else(|| format!("it said {line:?}"))?;
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await??;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    child.kill().await?;
    Ok(())
}

#[tokio::test]
async fn command_lines_that_are_no_start() -> Outcome {
    for (arguments, words) in [
        (&["--nonsense"][..], &["--nonsense"][..]),
        (&["nonsense"], &["nonsense"]),
        (&["--listen", "here"], &["--listen"]),
        (&["--backend", "cloud"], &["cloud", "memory", "kubernetes"]),
        (&["--heartbeat-seconds", "0"], &["--heartbeat-seconds"]),
        (&["--heartbeat-seconds", "21"], &["--heartbeat-seconds"]),
        (&["--max-connections", "0"], &["--max-connections"]),
        (&["--caller-burst", "0"], &["--caller-burst", "1000000"]),
        (&["--caller-streams", "1000001"], &["--caller-streams", "1000000"]),
        (&["--unauthenticated-burst", "many"], &["--unauthenticated-burst", "1000000"]),
        (&["--namespace", "No"], &["No"]),
        (&["--default-namespace", "n.o"], &["n.o"]),
        (&["--default-head-cpu", "lots"], &["lots"]),
        (&["--namespace", "a"], &["default", "--default-namespace"]),
        (&["--context", "somewhere"], &["--kubeconfig"]),
    ] {
        is_no_start(arguments, &[], words).await?;
    }
    is_no_start(&[], &[("RAYGATE_BACKEND", "cloud")], &["cloud"]).await?;
    is_no_start(&[], &[("RAYGATE_HEARTBEAT_SECONDS", "x")], &["x"]).await?;
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    is_no_start(&["--backend", "memory", "--listen", &address], &[], &[&address]).await
}

#[tokio::test]
async fn kubernetes_needs_an_account() -> Outcome {
    let listen = ["--listen", "127.0.0.1:0"];
    let kubernetes = [&listen[..], &["--backend", "kubernetes"]].concat();
    let absent = [&kubernetes[..], &["--kubeconfig", "/nonexistent/kubeconfig"]].concat();
    is_no_start(&absent, &[], &["/nonexistent/kubeconfig"]).await?;
    is_no_start(&kubernetes, &[], &["--kubeconfig"]).await?;
    // A kubeconfig that lies about is never picked up.
    let lying_about = [("KUBECONFIG", "/nonexistent/kubeconfig"), ("HOME", "/nonexistent")];
    is_no_start(&kubernetes, &lying_about, &["--kubeconfig"]).await?;
    // In a pod without a usable account `auto` doesn't fall back to memory.
    let pod = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    is_no_start(&listen, &pod, &["raygate: "]).await
}

#[tokio::test]
async fn access_files_must_be_right_from_the_start() -> Outcome {
    let files = Files::new(&[("alice", &[])], "version: 1\ngrants: []")?;
    let (tokens, policy) = (files.token_path().display().to_string(), files.policy_path().display().to_string());
    let usual = ["--backend", "memory", "--listen", "127.0.0.1:0"];
    let both = [&usual[..], &["--token-file", &tokens, "--policy-file", &policy]].concat();
    is_no_start(&[&usual[..], &["--token-file", &tokens]].concat(), &[], &["--policy-file"]).await?;
    is_no_start(&[&usual[..], &["--policy-file", &policy]].concat(), &[], &["--token-file"]).await?;
    is_no_start(&[&both[..], &["--insecure-allow-anonymous"]].concat(), &[], &["--insecure-allow-anonymous"]).await?;
    let absent = [&usual[..], &["--token-file", "/nonexistent/tokens", "--policy-file", &policy]].concat();
    is_no_start(&absent, &[], &["/nonexistent/tokens"]).await?;
    files.write_policy("version: 1\ngrants: [{users: [a], namespaces: [x], role: king}]")?;
    is_no_start(&both, &[], &[&policy, "grants[0].role", "king"]).await?;
    files.write_policy("version: 1\ngrants: []")?;
    files.write_tokens(&["- {id: a, user: b, hash: c}".to_owned()])?;
    is_no_start(&both, &[], &[&tokens, "[0]", "hash"]).await
}

#[tokio::test]
async fn a_new_token_is_shown_once_and_its_line_is_for_the_file() -> Outcome {
    let run = async |arguments: &[&str]| -> Outcome<_> {
        let new = [&["token", "new"], arguments].concat();
        let output = timeout(PATIENCE, command(&new, &[]).output()).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    };
    let (code, line, said) = run(&["--user", "alice", "--group", "a", "--group", "b c", "--note", "x: \"y\""]).await?;
    assert_eq!((code, line.lines().count()), (Some(0), 1), "{said}");
    let token = said.split_whitespace().last().unwrap_or_default();
    assert!(token.starts_with("raygate_") && !line.contains(token), "{line}");
    let files = Files::new(&[], "version: 1\ngrants: [{groups: [\"b c\"], namespaces: [default], role: viewer}]")?;
    files.write_tokens(&[line.trim_end().to_owned()])?;
    let guarded = Guarded::start(files, &["--backend", "memory"]).await?;
    let bearer = format!("Bearer {token}");
    let who = guarded.send(Method::GET, "/whoami", &[("authorization", &bearer)], "").await?.json();
    assert_eq!((&who["name"], &who["groups"]), (&json!("alice"), &json!(["a", "b c"])), "{who}");
    assert_eq!(run(&["--user", " alice"]).await?.0, Some(2));
    assert_eq!(run(&[]).await?.0, Some(2));
    Ok(())
}

#[tokio::test]
async fn help_and_version_are_answers() -> Outcome {
    for (flag, words) in [("--help", "--allowed-host"), ("--version", "raygate ")] {
        let output = timeout(PATIENCE, command(&[flag], &[]).output()).await??;
        assert!(output.status.success(), "{flag}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(words), "{flag}");
    }
    Ok(())
}
