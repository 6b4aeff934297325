//! A whole service, from its router down to a scripted backend.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use clap::Parser as _;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::backend::Scripted;
use super::oracle::{Cluster, Clusters, Key, PEOPLE, Rules};
use crate::access::{Access, Authenticator, Identity, Policy, Rejected};
use crate::app::{Built, assemble};
use crate::audit::Audit;
use crate::config::Command;
use crate::manager::Backend;

/// The version of the first cluster of all; each name has its own.
pub(super) const FIRST: u64 = 100;

/// Long enough for all that is under way: the clock stands still until nothing is left to do.
const MOMENT: Duration = Duration::from_millis(1);

/// Runs with a clock that stands still while there is something to do.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// Until nothing is left to do.
pub(super) async fn settle() {
    sleep(MOMENT).await;
}

/// Everybody's token is their name, unless it has been taken away.
#[derive(Default)]
struct Names {
    taken_away: Mutex<BTreeSet<&'static str>>,
}

impl Names {
    fn identity(&self, token: &str) -> Option<Identity> {
        let (user, groups) = PEOPLE.iter().find(|(name, _)| *name == token)?;
        let valid = !self.taken_away.lock().unwrap().contains(user);
        valid.then(|| Identity {
            user: (*user).to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            authenticator: "names",
            credential: Some((*user).to_owned()),
            proof: None,
            expires: None,
        })
    }
}

#[async_trait]
impl Authenticator for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, Rejected> {
        Ok(self.identity(token))
    }

    fn renew(&self, identity: &Identity) -> Option<Identity> {
        self.identity(&identity.user)
    }
}

/// A service and its backend.
pub(super) struct World {
    pub(super) backend: Arc<Scripted>,
    access: Arc<Access>,
    names: Arc<Names>,
    built: Built,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), headers: Vec::new(), body: None }
    }

    pub(super) fn send(method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Some(body) }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// All of an answer but what tells the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    async fn read(response: Response) -> Self {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().filter(|(name, _)| !["age", "date"].contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        let status = response.status().as_u16();
        Self { status, headers, body: response.into_body().collect().await.unwrap().to_bytes() }
    }
}

impl World {
    /// A service of these namespaces (none for all), under these rules, of these clusters.
    pub(super) async fn new(served: &[&str], rules: &Rules, clusters: &Clusters) -> Self {
        let flags = ["raygate", "--backend=memory", "--heartbeat-seconds=15"].map(str::to_owned).into_iter();
        let most = ["requests-per-second", "burst", "concurrent-requests", "streams"];
        let flags = flags.chain(most.iter().map(|limit| format!("--caller-{limit}=1000000")));
        let flags = flags.chain(served.iter().map(|namespace| format!("--namespace={namespace}")));
        let config = Command::try_parse_from(flags).unwrap().serve;

        let scripted = Arc::new(Scripted::default());
        for (version, key) in (FIRST..).zip(Key::all()) {
            if let Some(cluster) = clusters.get(&key) {
                let uid = key.uid();
                scripted.put(key, cluster.object(key, &uid, version));
                scripted.pod(&uid, cluster.pod(key, &uid));
            }
        }
        let names = Arc::new(Names::default());
        let served = served.iter().map(|namespace| (*namespace).to_owned()).collect();
        let policy = Policy::read(rules.file().as_bytes()).unwrap();
        let access = Arc::new(Access::closed(served, "default".into(), vec![names.clone()], policy));
        let backend = Backend { clusters: scripted.clone(), workloads: scripted.clone() };
        let built = assemble(config, &backend, access.clone(), Audit::off());
        settle().await;
        Self { backend: scripted, access, names, built }
    }

    /// From now on there is this cluster, and its pod.
    pub(super) fn put(&self, key: Key, cluster: &Cluster, uid: &str, version: u64) {
        self.backend.put(key, cluster.object(key, uid, version));
        self.backend.pod(uid, cluster.pod(key, uid));
    }

    /// From now on these rules hold.
    pub(super) fn rule(&self, rules: &Rules) {
        self.access.replace_policy(Policy::read(rules.file().as_bytes()).unwrap());
    }

    /// Takes somebody's token away, or gives it back.
    pub(super) fn revoke(&self, user: &'static str, away: bool) {
        let mut taken_away = self.names.taken_away.lock().unwrap();
        let _ = if away { taken_away.insert(user) } else { taken_away.remove(user) };
        self.access.announce();
    }

    async fn send(&self, user: &str, ask: &Ask) -> Response {
        let request = Request::builder().method(&ask.method).uri(&ask.path);
        let request = request.header("authorization", format!("Bearer {user}")).header("x-request-id", "same");
        let mut request = ask.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let mut body = Body::empty();
        if let Some(sent) = &ask.body {
            request = request.header("content-type", "application/json");
            body = Body::from(sent.to_string());
        }
        let router: Router = self.built.router.clone();
        router.oneshot(request.body(body).unwrap()).await.unwrap()
    }

    /// What somebody is answered.
    pub(super) async fn ask(&self, user: &str, ask: &Ask) -> Answer {
        Answer::read(self.send(user, ask).await).await
    }

    /// A stream of somebody's.
    pub(super) async fn follow(&self, user: &str, path: &str) -> Result<Lines, Answer> {
        let response = self.send(user, &Ask::get(path)).await;
        if response.status() != 200 {
            return Err(Answer::read(response).await);
        }
        Ok(Lines { body: response.into_body(), ended: false })
    }
}

/// The lines of a stream.
pub(super) struct Lines {
    body: Body,
    pub(super) ended: bool,
}

impl Lines {
    /// All that is due.
    pub(super) async fn due(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(frame) = timeout(MOMENT, self.body.frame()).await {
            let Some(frame) = frame else {
                self.ended = true;
                break;
            };
            let data = frame.unwrap().into_data().unwrap();
            lines.push(String::from_utf8(data.to_vec()).unwrap());
        }
        lines
    }
}

/// Cursors are opaque and each process has its own: what can be compared is which of them are the same.
#[derive(Default)]
pub(super) struct Cursors(BTreeMap<String, usize>);

impl Cursors {
    /// A line with the number of its cursor among those that were met.
    pub(super) fn number(&mut self, line: &str) -> String {
        let (head, rest) = line.split_once(r#""cursor":""#).unwrap();
        let (cursor, rest) = rest.split_once('"').unwrap();
        let next = self.0.len();
        let number = *self.0.entry(cursor.to_owned()).or_insert(next);
        format!("{head}cursor {number} {rest}")
    }
}
