//! What the tests stand on: the built binary as a process, and clients that show everything of an answer.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error as WsError, Message, client::IntoClientRequest as _};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) mod bench;
mod cutting;
mod guarded;
mod in_process;
mod output;

use output::Output;

pub(crate) use bench::Bench;
pub(crate) use cutting::{Cut, Cutting};
pub(crate) use guarded::{Files, Guarded};
pub(crate) use in_process::InProcess;

/// What a test answers: nothing, or how it failed.
pub(crate) use crate::contract::Outcome;

/// How long anything that must happen may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// A running raygate: the built binary as a process.
pub(crate) struct Raygate {
    child: Child,
    api: Api,
    out: Output,
    log: Output,
}

/// A raygate that listens, wherever it runs.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Deref for Raygate {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    #[expect(clippy::panic, reason = "an answer that isn't JSON fails the test that asked")]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// A header's value, empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Checks that this is a problem of this status and code, whole and well-formed, and hands it out.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["code"], code, "{problem}");
        for member in ["type", "title", "detail", "instance", "requestId"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {problem}");
        }
        assert_eq!(problem["requestId"], self.header("x-request-id"), "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        problem
    }
}

/// The pointers and codes of a problem's faults, sorted.
pub(crate) fn faults(problem: &Value) -> Vec<(String, String)> {
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut faults: Vec<_> = errors.iter().map(|fault| (text(&fault["pointer"]), text(&fault["code"]))).collect();
    faults.sort();
    faults
}

impl Raygate {
    /// Starts the binary with these arguments on a free port of the loopback interface and waits until it listens.
    pub(crate) async fn start(arguments: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raygate"));
        let usual = ["--listen", "127.0.0.1:0", "--shutdown-delay-seconds", "0"];
        command.args(unless_given(&usual, arguments)).args(arguments);
        let (out, log) = (Output::new("out")?, Output::new("log")?);
        command.stdin(Stdio::null()).stdout(out.writer()?).stderr(log.writer()?).kill_on_drop(true);
        // All that can be logged, so that what may not be in a log is seen there.
        command.env("RUST_LOG", "trace").env_remove("KUBERNETES_SERVICE_HOST");
        let mut child = command.spawn()?;
        let first = eventually("raygate listens", async || {
            let ended = child.try_wait()?.is_some();
            let first = out.lines()?.first().cloned();
            if ended && first.is_none() { Err(log.read()?.into()) } else { Ok(first) }
        })
        .await?;
        let address =
            first.strip_prefix("listening on http://").ok_or_else(|| format!("it said {first:?}"))?.parse()?;
        Ok(Self { child, api: Api::at(address), out, log })
    }

    /// The lines of the audit so far.
    pub(crate) fn audit(&self) -> Outcome<Vec<Value>> {
        Ok(self.out.lines()?.iter().skip(1).map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> Outcome<String> {
        self.log.read()
    }

    /// Starts the embedded backend with short delays, ready to serve.
    pub(crate) async fn memory(arguments: &[&str]) -> Outcome<Self> {
        let delays = ["--backend", "memory", "--memory-start-milliseconds", "20", "--memory-stop-milliseconds", "20"];
        let raygate = Self::start(&[&unless_given(&delays, arguments), arguments].concat()).await?;
        raygate.ready().await?;
        Ok(raygate)
    }

    /// The process's id.
    pub(crate) fn id(&self) -> Outcome<u32> {
        self.child.id().ok_or_else(|| "the process has ended".into())
    }

    /// Sends SIGTERM.
    pub(crate) async fn terminate(&self) -> Outcome {
        let status = Command::new("kill").args(["-TERM", &self.id()?.to_string()]).status().await?;
        if status.success() { Ok(()) } else { Err("kill failed".into()) }
    }

    /// Ends it at once, with SIGKILL.
    pub(crate) async fn kill(mut self) -> Outcome {
        Ok(timeout(PATIENCE, self.child.kill()).await??)
    }

    /// Waits for the process to end.
    pub(crate) async fn ended(mut self) -> Outcome<ExitStatus> {
        Ok(timeout(PATIENCE, self.child.wait()).await??)
    }
}

impl Api {
    /// The one that listens there.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Waits until `/ready` says yes.
    pub(crate) async fn ready(&self) -> Outcome {
        eventually("raygate is ready", async || {
            let answer = self.get("/ready").await?;
            Ok((answer.status == StatusCode::OK).then_some(()))
        })
        .await
    }

    /// Sends a request; a body is JSON unless a header says otherwise.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Outcome<Answer> {
        let body = body.into();
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = timeout(PATIENCE, self.client.request(request.body(Full::new(body))?)).await??;
        let (head, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await??.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Answer> {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Outcome<Answer> {
        self.send(Method::POST, path, &[], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Outcome<Answer> {
        self.send(Method::DELETE, path, &[], "").await
    }

    /// Sends these bytes on a connection of their own and reads until it is closed.
    pub(crate) async fn raw(&self, request: &[u8]) -> Outcome<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Opens a WebSocket with these extra headers.
    pub(crate) async fn socket(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Socket, WsError> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().map_err(http::Error::from)?);
        }
        let (stream, response) = connect_async(request).await?;
        Ok(Socket { stream, headers: response.headers().clone() })
    }
}

/// The flags, each with its value, that aren't among the given arguments.
fn unless_given<'a>(flags: &[&'a str], given: &[&str]) -> Vec<&'a str> {
    flags.chunks(2).filter(|flag| !given.contains(&flag[0])).flatten().copied().collect()
}

/// A WebSocket that watches.
pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) headers: HeaderMap,
}

impl Socket {
    /// The next event that isn't a heartbeat; the close frame instead, if that is what comes.
    pub(crate) async fn next(&mut self) -> Outcome<Result<Value, Option<CloseFrame>>> {
        loop {
            let message = timeout(PATIENCE, self.stream.next()).await?.ok_or("the socket ended without a close")??;
            match message {
                Message::Text(text) => {
                    let event: Value = serde_json::from_str(&text)?;
                    if event["type"] != "HEARTBEAT" {
                        return Ok(Ok(event));
                    }
                }
                Message::Close(frame) => return Ok(Err(frame)),
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Binary(_) | Message::Frame(_) => return Err(format!("unexpected {message:?}").into()),
            }
        }
    }

    /// The next event that isn't a heartbeat.
    pub(crate) async fn event(&mut self) -> Outcome<Value> {
        self.next().await?.map_err(|close| format!("closed: {close:?}").into())
    }

    /// All events up to and with the first one that is wanted.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Outcome<Vec<Value>> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await?;
            events.push(event.clone());
            if wanted(&event) {
                return Ok(events);
            }
        }
    }

    /// The code of the close frame that ends it.
    pub(crate) async fn closed(&mut self) -> Outcome<u16> {
        loop {
            if let Err(frame) = self.next().await? {
                return Ok(frame.map_or(1005, |frame| frame.code.into()));
            }
        }
    }

    /// Says goodbye.
    pub(crate) async fn close(mut self) -> Outcome {
        self.stream.send(Message::Close(None)).await?;
        Ok(())
    }
}

/// Asks again and again until there is an answer.
pub(crate) async fn eventually<T: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, asking).await.map_err(|_| format!("not within {PATIENCE:?}: {what}"))?
}

/// The states that a cluster's events told, in order, without repetitions.
pub(crate) fn states(events: &[Value]) -> Vec<String> {
    let states = events.iter().filter_map(|event| event["cluster"]["status"]["state"].as_str().map(str::to_owned));
    let mut states: Vec<_> = states.collect();
    states.dedup();
    states
}
