//! Who gets what answer: every route, every caller, every kind of cluster, as a table; the same on every backend.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{HeaderMap, Method, StatusCode};
use raygate::access::{Access, NewToken, Policy, StaticTokens};
use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, ManagerError};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error as WsError;

use crate::streams::Lines;
use crate::support::{Answer, InProcess, Outcome, eventually};

mod table;

use table::{CALLERS, Row, rows};

/// A value that only those may see who may change the cluster.
const SECRET: &str = "a-secret";

/// A manager that KubeRay leaves clusters to: nothing writes to them but the test.
const MANAGER: &str = "kueue.x-k8s.io/multikueue";

/// The namespaces that a matrix needs: three that are empty, and one that doesn't exist.
pub(crate) struct Places {
    pub(crate) plain: String,
    pub(crate) private: String,
    pub(crate) elsewhere: String,
    pub(crate) nowhere: String,
}

fn policy(places: &Places) -> String {
    let Places { plain, private, elsewhere, .. } = places;
    json!({
        "version": 1,
        "grants": [
            {"users": ["viewer"], "namespaces": [plain, private], "role": "viewer"},
            {"users": ["owner", "other"], "namespaces": [plain, private], "role": "user"},
            {"users": ["operator"], "namespaces": [plain, private], "role": "operator"},
            {"users": ["admin", "expired"], "namespaces": ["*"], "role": "admin"},
            // As much as can be, and only there: it is to be worth nothing in the other namespaces.
            {"users": ["elsewhere", "viewer", "other"], "namespaces": [elsewhere], "role": "admin"},
        ],
        "privateNamespaces": [private],
    })
    .to_string()
}

/// The token of every column that has one, and the file that knows them.
fn tokens() -> Outcome<(BTreeMap<&'static str, String>, String)> {
    let (mut tokens, mut lines) = (BTreeMap::from([("bad", "raygate_bad".to_owned())]), Vec::new());
    for user in CALLERS.into_iter().filter(|user| !["none", "bad"].contains(user)) {
        let NewToken { token, line } = NewToken::make(user, &[], 1, None)?;
        let mut line: Value = serde_json::from_str(line.trim_start_matches("- "))?;
        if user == "expired" {
            line["expireTime"] = "2020-01-01T00:00:00Z".into();
        }
        lines.push(format!("- {line}"));
        tokens.insert(user, token);
    }
    Ok((tokens, lines.join("\n")))
}

/// How a request is sent: as the row says, as a `HEAD` instead, or as the beginning of a WebSocket; for what Kubernetes
/// holds now, or no older than a version that nothing has. The status is to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Itself,
    Head,
    Socket,
    Strong,
    Newer,
}

/// One cell of the table, sent in one way.
struct Cell<'a> {
    row: &'a Row,
    caller: &'static str,
    wanted: &'static str,
    way: Way,
    /// What the table says of the same for a cluster that isn't there.
    absent: Option<&'static str>,
    /// The caller may change the cluster, so they see all of it.
    clear: bool,
}

/// What one cell asks about.
struct Target {
    /// The namespace as the request names it.
    said: Option<String>,
    namespace: String,
    name: String,
    /// It was there before anybody asked.
    there: bool,
}

struct Matrix {
    backend: Backend,
    api: InProcess,
    places: Places,
    tokens: BTreeMap<&'static str, String>,
    count: AtomicU32,
    wrong: Vec<String>,
}

/// Fills in the whole table over an empty backend.
pub(crate) async fn matrix(backend: Backend, places: Places) -> Outcome {
    let (tokens, file) = tokens()?;
    let known = StaticTokens::default();
    known.load(file.as_bytes())?;
    let plain = places.plain.clone();
    let policy = Policy::read(policy(&places).as_bytes())?;
    let access = Access::closed(Vec::new(), plain.clone(), vec![Arc::new(known)], policy);
    let flags = [
        "--caller-requests-per-second=1000000",
        "--caller-burst=1000000",
        "--read-wait-milliseconds=1",
        "--caller-streams=1000000",
        "--caller-concurrent-requests=1000000",
        "--unauthenticated-requests-per-second=1000000",
        "--unauthenticated-burst=1000000",
    ];
    let api = InProcess::start(&backend, access, &flags).await?;

    let mut matrix = Matrix { backend, api, places, tokens, count: AtomicU32::new(0), wrong: Vec::new() };
    matrix.fill().await?;
    assert!(matrix.wrong.is_empty(), "{} wrong answers:\n{}", matrix.wrong.len(), matrix.wrong.join("\n"));
    matrix.api.end().await
}

impl Matrix {
    async fn fill(&mut self) -> Outcome {
        for about in ["plain", "private", "ownerless", "unowned"] {
            self.store(about, about, true).await?;
            let path = format!("/clusters/{about}.{}", self.namespace(about)?);
            let bearer = self.bearer("admin");
            eventually("the cluster is known", async || {
                let answer = self.api.send(Method::GET, &path, &[("authorization", &bearer)], "").await?;
                Ok((answer.status == 200).then_some(()))
            })
            .await?;
        }
        let rows = rows()?;
        let known: BTreeMap<_, _> =
            rows.iter().map(|row| ((row.verb, row.route, row.about), row.cells.as_slice())).collect();
        for row in &rows {
            let absent = known.get(&(row.verb, row.route, "absent"));
            let changes = known.get(&("PATCH", "/clusters/{ref}", row.about));
            for (at, caller) in CALLERS.into_iter().enumerate() {
                let ways: &[Way] = match row.verb {
                    "GET" if row.is_stream() => &[Way::Itself, Way::Head, Way::Socket],
                    "GET" if row.is_read() => &[Way::Itself, Way::Head, Way::Strong, Way::Newer],
                    "GET" => &[Way::Itself, Way::Head],
                    _ => &[Way::Itself],
                };
                for way in ways {
                    let absent = absent.map(|cells| cells[at]);
                    let clear = changes.is_some_and(|cells| cells[at] == "200");
                    let cell = Cell { row, caller, wanted: row.cells[at], way: *way, absent, clear };
                    let wrong = self.check(&cell).await?;
                    let place = format!("{} {} {} {caller} {way:?}", row.verb, row.route, row.about);
                    self.wrong.extend(wrong.into_iter().map(|wrong| format!("{place}: {wrong}")));
                }
            }
        }
        Ok(())
    }

    /// What is wrong with one cell.
    async fn check(&self, cell: &Cell<'_>) -> Outcome<Vec<String>> {
        let Cell { row, wanted, .. } = cell;
        let writes = row.verb != "GET" && wanted.starts_with('2');
        let target = self.target(row, cell.caller).await?;
        let before = self.version(&target).await?;
        let answer = self.ask(cell, &target).await?;
        let after = self.version(&target).await?;
        let mut wrong = self.differences(&answer, cell);
        if (before != after) != writes {
            wrong.push(format!("what is stored went from version {before:?} to {after:?}"));
        }
        if !wrong.is_empty() {
            return Ok(wrong);
        }
        wrong.extend(shows_too_much(cell, &answer));
        let hidden = row.about == "private" && !cell.clear;
        // As if there were none, but for creates: the name is taken.
        if let (true, Some(absent)) = (hidden, cell.absent.filter(|absent| *absent != "201")) {
            let nothing = Target { name: self.fresh(), there: false, ..target };
            let other = self.ask(cell, &nothing).await?;
            let (held, none) = (telling(&answer, &target.name), telling(&other, &nothing.name));
            if absent != *wanted || held != none {
                wrong.push(format!("tells that there is a cluster: {held:?} is not {none:?}"));
            }
        } else if *wanted == "409" {
            let location =
                if hidden { String::new() } else { format!("clusters/{}.{}", target.name, target.namespace) };
            let hides = answer.json()["detail"] == format!("The name {} is taken.", target.name);
            if answer.header("location") != location || hides != hidden {
                wrong.push(format!("a taken name: {answer:?}"));
            }
        }
        Ok(wrong)
    }

    /// Where the answer isn't the one of the cell.
    fn differences(&self, answer: &Answer, cell: &Cell<'_>) -> Vec<String> {
        let Cell { wanted: cell, way, .. } = *cell;
        let switched = way == Way::Socket && cell == "200";
        let status = if switched { "101" } else { cell.trim_end_matches('N') };
        let code = match cell {
            "401" => "UNAUTHENTICATED",
            "403" => "FORBIDDEN",
            "404" => "NOT_FOUND",
            "404N" => "NAMESPACE_NOT_FOUND",
            "409" => "ALREADY_EXISTS",
            "412" => "PRECONDITION_FAILED",
            "428" => "PRECONDITION_REQUIRED",
            _ => "",
        };
        let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let has_code = code.is_empty() || way == Way::Head || problem["code"] == code;
        if answer.status.as_str() != status || !has_code {
            let text = String::from_utf8_lossy(&answer.body);
            return vec![format!("{} {text} instead of {cell} {code}", answer.status)];
        }
        let mut wrong = Vec::new();
        if !code.is_empty() && way != Way::Head {
            answer.problem(answer.status.as_u16(), code);
        }
        if (cell == "401") == answer.header("www-authenticate").is_empty() {
            wrong.push(format!("WWW-Authenticate is `{}`", answer.header("www-authenticate")));
        }
        let text = String::from_utf8_lossy(&answer.body);
        if self.tokens.values().any(|token| text.contains(token)) {
            wrong.push("the answer has a token in it".to_owned());
        }
        wrong
    }

    fn bearer(&self, caller: &str) -> String {
        format!("Bearer {}", self.tokens.get(caller).map(String::as_str).unwrap_or_default())
    }

    /// A name that nothing has yet.
    fn fresh(&self) -> String {
        format!("x{}", self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn namespace(&self, about: &str) -> Outcome<String> {
        let places = &self.places;
        Ok(match about {
            "plain" | "ownerless" | "missing" | "own" | "all" | "-" => &places.plain,
            "private" | "unowned" | "absent" => &places.private,
            "nowhere" => &places.nowhere,
            other => return Err(format!("about `{other}`").into()),
        }
        .clone())
    }

    /// What a cell asks about; a cluster of its own unless it only looks.
    async fn target(&self, row: &Row, caller: &str) -> Outcome<Target> {
        let namespace = self.namespace(row.about)?;
        let said = match row.about {
            "-" | "own" => None,
            "all" => Some("*".to_owned()),
            _ => Some(namespace.clone()),
        };
        let namespace =
            if row.about == "own" && caller == "elsewhere" { self.places.elsewhere.clone() } else { namespace };
        let there = ["plain", "private", "ownerless", "unowned"].contains(&row.about);
        let looks = row.verb == "GET";
        let name = if there && looks { row.about.to_owned() } else { self.fresh() };
        if there && !looks {
            self.store(row.about, &name, !row.route.ends_with("/stop")).await?;
        }
        Ok(Target { said, namespace, name, there })
    }

    /// Stores a cluster, beside raygate.
    async fn store(&self, about: &str, name: &str, stopped: bool) -> Outcome {
        let owner = ["plain", "private"].contains(&about).then_some("owner");
        let mut metadata = raygate::ray::owner::patch(owner);
        if owner.is_none() {
            metadata = json!({});
        }
        metadata["name"] = name.into();
        metadata["namespace"] = self.namespace(about)?.into();
        let amounts = json!({"cpu": "10m", "memory": "16Mi"});
        let head = json!({
            "name": "ray-head",
            "image": "rayproject/ray:2.52.0",
            "env": [{"name": "A", "value": SECRET}],
            "resources": {"limits": amounts, "requests": amounts},
        });
        let object = json!({
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": metadata,
            "spec": {
                "managedBy": MANAGER,
                "suspend": stopped,
                "rayVersion": "2.52.0",
                "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [head]}}},
                "workerGroupSpecs": [{
                    "groupName": "held",
                    "rayStartParams": {},
                    "template": {"spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray:2.52.0"}]}},
                }],
            },
        });
        self.backend.clusters.create(&serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// The version of what is stored.
    async fn version(&self, target: &Target) -> Outcome<Option<String>> {
        match self.backend.clusters.get(&target.namespace, &target.name).await {
            Ok(held) => Ok(Some(held.resource_version().to_owned())),
            Err(ManagerError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a row's request. Of a stream only the head is read.
    async fn ask(&self, cell: &Cell<'_>, target: &Target) -> Outcome<Answer> {
        let Cell { row, caller, way, .. } = *cell;
        let mut path = row.route.replace("{*file}", "swagger-ui.css");
        path = path.replace("{ref}", &format!("{}.{}", target.name, target.namespace));
        path = path.replace("{group}", if row.verb == "PUT" { "new" } else { "held" });
        if let (true, Some(namespace)) = (row.verb == "GET" && !row.route.contains("{ref}"), &target.said) {
            path = format!("{path}?namespace={namespace}");
        }
        let fresh = match way {
            Way::Strong => "consistency=strong",
            Way::Newer => "minResourceVersion=340282366920938463463374607431768211455",
            Way::Itself | Way::Head | Way::Socket => "",
        };
        if !fresh.is_empty() {
            path = format!("{path}{}{fresh}", if path.contains('?') { '&' } else { '?' });
        }
        let bearer = self.bearer(caller);
        let mut headers: Vec<(&'static str, &str)> = Vec::new();
        if caller != "none" {
            headers.push(("authorization", &bearer));
        }
        match row.verb {
            "PUT" => headers.push(("if-match", "*")),
            "DELETE" if row.route.contains("{group}") => headers.push(("if-match", "*")),
            "PUT-NEW" => headers.push(("if-none-match", "*")),
            _ => {}
        }
        let method = if way == Way::Head { Method::HEAD } else { row.method()? };
        match way {
            Way::Socket => match self.api.socket(&path, &headers).await {
                Ok(socket) => Ok(Answer::of(StatusCode::SWITCHING_PROTOCOLS, socket.headers.clone(), Vec::new())),
                Err(WsError::Http(refusal)) => {
                    let (head, body) = refusal.into_parts();
                    Ok(Answer::of(head.status, head.headers, body.unwrap_or_default()))
                }
                Err(other) => Err(other.into()),
            },
            Way::Itself if row.is_stream() => {
                let lines = Lines::ask_with(&self.api, method, &path, &headers).await?;
                let (status, headers) = (lines.status, lines.headers.clone());
                let body = if status.is_success() { Vec::new() } else { lines.collect().await?.to_vec() };
                Ok(Answer::of(status, headers, body))
            }
            Way::Itself | Way::Head | Way::Strong | Way::Newer => {
                self.api.send(method, &path, &headers, body(row, target)).await
            }
        }
    }
}

/// What an answer shows that its caller may not see, or doesn't show that they may: a value, or a cluster in a list.
fn shows_too_much(cell: &Cell<'_>, answer: &Answer) -> Option<String> {
    let Cell { row, clear, .. } = *cell;
    if matches!(cell.way, Way::Head | Way::Socket) || row.verb != "GET" || row.is_stream() || cell.wanted != "200" {
        return None;
    }
    if row.route.contains("{ref}") {
        let shown = String::from_utf8_lossy(&answer.body).contains(SECRET);
        return (shown != clear).then(|| format!("{SECRET} is in it: {shown}"));
    }
    if row.route != "/clusters" || row.about != "private" {
        return None;
    }
    let list = answer.json();
    let names: Vec<_> = list["items"].as_array().into_iter().flatten().map(|item| &item["name"]).collect();
    let right = names.contains(&&json!("unowned")) && names.contains(&&json!("private")) == clear;
    (!right).then(|| format!("lists {names:?}"))
}

/// What a row sends: something that changes the cluster it is for, if there is one.
fn body(row: &Row, target: &Target) -> String {
    let mut document = json!({
        "name": target.name,
        "labels": {"changed": "yes"},
        "rayVersion": "2.52.0",
        "suspended": true,
        "head": {"cpu": "10m", "memory": "16Mi", "env": {"A": SECRET}},
    });
    if let (true, Some(namespace)) = (row.verb == "POST", &target.said) {
        document["namespace"] = namespace.as_str().into();
    }
    if target.there {
        document["managedBy"] = MANAGER.into();
    }
    match (row.verb, row.route) {
        ("GET" | "DELETE", _)
        | ("POST", "/clusters/{ref}/stop" | "/clusters/{ref}/start" | "/clusters/{ref}/restart") => String::new(),
        (_, route) if route.contains("{group}") => json!({"cpu": "20m", "memory": "16Mi"}).to_string(),
        ("POST", "/clusters/{ref}/owner") => json!({"owner": "other"}).to_string(),
        ("PATCH", _) => json!({"labels": {"changed": "yes"}}).to_string(),
        _ => document.to_string(),
    }
}

/// All that an answer tells, but for the name that was asked for and what is every answer's own.
fn telling(answer: &Answer, name: &str) -> (StatusCode, BTreeMap<String, String>, Value) {
    let own = ["date", "x-request-id", "content-length", "age"];
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| (name.to_string(), format!("{value:?}"));
    let headers = answer.headers.iter().map(header).filter(|(name, _)| !own.contains(&name.as_str())).collect();
    let mut problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let Some(members) = problem.as_object_mut() {
        members.shift_remove("instance");
        members.shift_remove("requestId");
        for value in members.values_mut().filter(|value| value.is_string()) {
            *value = value.as_str().unwrap_or_default().replace(&format!(" {name}."), " NAME.").into();
        }
    }
    (answer.status, headers, problem)
}

impl Answer {
    fn of(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self { status, headers, body: body.into() }
    }
}

#[tokio::test]
async fn everybody_gets_their_answer_in_memory() -> Outcome {
    let [plain, private, elsewhere] = ["team", "team-private", "team-elsewhere"].map(str::to_owned);
    let namespaces = vec![plain.clone(), private.clone(), elsewhere.clone()];
    let backend = backend(Options { namespaces, ..Options::default() });
    matrix(backend, Places { plain, private, elsewhere, nowhere: "no-such-namespace".into() }).await
}
