//! A proxy before the apiserver that cuts connections: a request is done and its answer lost, or nobody knows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::{Body, Client};
use raygate::manager::faulty::Gate;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Outcome;

/// What becomes of a request.
#[derive(Clone)]
pub(crate) enum Cut {
    /// It is let through.
    Pass,
    /// It is sent on whole; once its answer has come, its connection is cut before a byte of it is passed on.
    AnswerLost,
    /// It is sent on whole, and its connection is cut without waiting for anything.
    AtOnce,
    /// Its connection is cut; it is sent on, whole, when the gate is opened.
    Late(Arc<Gate>),
    /// It is sent on whole, and its answer waits at the gate.
    Held(Arc<Gate>),
}

/// What becomes of the next requests of this method whose path begins and ends like this.
struct Rule {
    method: Method,
    begin: String,
    end: String,
    cuts: Vec<Cut>,
}

/// What was sent on behind the client's back, and is still to be answered.
type Sent = JoinHandle<Outcome<u16>>;

#[derive(Default)]
struct Script {
    rules: Vec<Rule>,
    sent: Vec<Sent>,
}

/// The proxy: plain HTTP towards raygate, with credentials of its own towards the apiserver.
pub(crate) struct Cutting {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl Cutting {
    /// A proxy before this control plane.
    pub(crate) async fn before(mut config: kube::Config) -> Outcome<Self> {
        // Nothing is sent twice.
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let script = Arc::<Mutex<Script>>::default();
        let rules = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, rules) = (client.clone(), Arc::clone(&rules));
                let service = service_fn(move |request| answer(client.clone(), Arc::clone(&rules), request));
                // How a connection ends is what the test looks at.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, script })
    }

    /// From now on the next requests of this method, whose path begins and ends like this, fare like this, one after the
    /// other. What was said before of any others is forgotten.
    pub(crate) fn cut(&self, method: Method, begin: &str, end: &str, cuts: Vec<Cut>) {
        let rule = Rule { method, begin: begin.to_owned(), end: end.to_owned(), cuts };
        lock(&self.script).rules = vec![rule];
    }

    /// Waits until all that was sent on behind the client's back has been answered: with these statuses.
    pub(crate) async fn settled(&self) -> Outcome<Vec<u16>> {
        let sent = std::mem::take(&mut lock(&self.script).sent);
        let mut statuses = Vec::new();
        for one in sent {
            statuses.push(one.await??);
        }
        Ok(statuses)
    }

    /// Whether all that was said has happened.
    pub(crate) fn is_done(&self) -> bool {
        lock(&self.script).rules.iter().all(|rule| rule.cuts.is_empty())
    }
}

fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request, or fails, which cuts its connection.
async fn answer(client: Client, script: Arc<Mutex<Script>>, request: Request<Incoming>) -> Outcome<Response<Body>> {
    let cut = next(&script, request.method(), request.uri().path());
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    for name in [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, AUTHORIZATION] {
        head.headers.remove(name);
    }
    let request = Request::from_parts(head, body);
    match cut {
        Cut::Pass => send(&client, request).await,
        Cut::AnswerLost => {
            let sent = tokio::spawn(forward(client, request, None)).await?;
            lock(&script).sent.push(tokio::spawn(async move { sent }));
            Err("the answer is lost".into())
        }
        Cut::AtOnce => {
            lock(&script).sent.push(tokio::spawn(forward(client, request, None)));
            Err("cut at once".into())
        }
        Cut::Late(gate) => {
            lock(&script).sent.push(tokio::spawn(forward(client, request, Some(gate))));
            Err("cut before it is sent on".into())
        }
        Cut::Held(gate) => {
            let answer = tokio::spawn(async move { send(&client, request).await }).await?;
            gate.wait().await;
            answer
        }
    }
}

/// What becomes of this request.
fn next(script: &Mutex<Script>, method: &Method, path: &str) -> Cut {
    let mut script = lock(script);
    let is_meant = |rule: &&mut Rule| {
        rule.method == *method && path.starts_with(&rule.begin) && path.ends_with(&rule.end) && !rule.cuts.is_empty()
    };
    script.rules.iter_mut().find(is_meant).map_or(Cut::Pass, |rule| rule.cuts.remove(0))
}

/// Sends a request on and reads its answer whole, whoever waits for it.
async fn forward(client: Client, request: Request<Bytes>, gate: Option<Arc<Gate>>) -> Outcome<u16> {
    if let Some(gate) = gate {
        gate.wait().await;
    }
    let response = send(&client, request).await?;
    let status = response.status().as_u16();
    response.into_body().collect().await?;
    Ok(status)
}

async fn send(client: &Client, request: Request<Bytes>) -> Outcome<Response<Body>> {
    let mut response = client.send(request.map(Body::from)).await?;
    for name in [CONNECTION, TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    Ok(response)
}
