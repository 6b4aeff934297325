//! Every write against a backend that fails: what became of it is told, or that nobody knows.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::join_all;
use http::Method;
use raygate::access::Access;
use raygate::manager::faulty::{Call, Fault, Faults, Gate};
use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, ManagerError};
use serde_json::{Value, json};

use crate::support::{Answer, Api, InProcess, Outcome};

/// A write: what is there before it, the request, and what is there after it.
#[derive(Clone)]
pub(crate) struct Write {
    /// What it is; as the name of a cluster, too.
    pub(crate) name: &'static str,
    /// The cluster that is there before.
    pub(crate) before: Option<Value>,
    pub(crate) method: Method,
    /// After `/clusters/NAME`; `None` where it goes to `/clusters`.
    path: Option<&'static str>,
    /// A header that says what must hold; `ETAG` in it is the cluster's.
    guard: Option<(&'static str, &'static str)>,
    body: Value,
    /// The status where it is done.
    pub(crate) success: u16,
    /// The call of the backend that it comes to.
    call: Call,
    /// Whether it is done, by what Kubernetes holds.
    pub(crate) is_done: fn(Option<&Value>) -> bool,
}

impl Write {
    /// Sends it, about the cluster of this name, with this query.
    pub(crate) async fn send(&self, api: &Api, cluster: &str, query: &str) -> Outcome<Answer> {
        let path = self.path.map_or_else(|| "/clusters".to_owned(), |path| format!("/clusters/{cluster}{path}"));
        let path = format!("{path}{query}");
        let etag = match self.before {
            Some(_) => api.get(&format!("/clusters/{cluster}")).await?.header("etag").to_owned(),
            None => String::new(),
        };
        let guard = self.guard.map(|(name, value)| (name, value.replace("ETAG", &etag)));
        let headers: Vec<_> = guard.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut body = self.body.clone();
        if self.path.is_none() {
            body["name"] = cluster.into();
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        api.send(self.method.clone(), &path, &headers, body).await
    }

    /// Whether it is about the whole cluster, and not a part or an action of it.
    pub(crate) fn is_of_the_cluster(&self) -> bool {
        self.path == Some("")
    }

    /// Makes what is there before it.
    pub(crate) async fn prepare(&self, api: &Api, cluster: &str) -> Outcome {
        let Some(mut before) = self.before.clone() else { return Ok(()) };
        before["name"] = cluster.into();
        let answer = api.post("/clusters", &before).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        Ok(())
    }

    /// Checks that it says that it is done, of the cluster as it is: of what Kubernetes holds and what a reader sees.
    pub(crate) async fn told(&self, api: &Api, cluster: &str, answer: &Answer, held: Option<&Value>) -> Outcome {
        let deletes = self.method == Method::DELETE && self.is_of_the_cluster();
        // What has gone at once leaves nothing to be shown.
        let success = if deletes && held.is_none() && answer.status == 204 { 204 } else { self.success };
        assert_eq!(answer.status, success, "{}: {answer:?}", self.name);
        assert!((self.is_done)(held), "{}: {held:?}", self.name);
        if deletes {
            return Ok(());
        }
        let revision = |answer: &Answer| answer.header("etag").split('.').next().map(str::to_owned);
        let read = api.get(&format!("/clusters/{cluster}")).await?;
        assert_eq!(revision(answer), revision(&read), "{}: {answer:?} is not {read:?}", self.name);
        Ok(())
    }
}

fn document(more: &Value) -> Value {
    let group = json!({"replicas": 0, "minReplicas": 0, "maxReplicas": 3, "cpu": "10m", "memory": "1Gi"});
    let mut document = json!({"rayVersion": "2.52.0", "labels": {"team": "a"}, "head": {"cpu": "10m", "memory": "1Gi"}, "workerGroups": {"a": group}});
    for (name, value) in more.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

fn group<'a>(held: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    held?["spec"]["workerGroupSpecs"].as_array()?.iter().find(|group| group["groupName"] == name)
}

fn has(held: Option<&Value>, pointer: &str, wanted: &Value) -> bool {
    held.and_then(|held| held.pointer(pointer)) == Some(wanted)
}

/// Every kind of write.
pub(crate) fn writes() -> Vec<Write> {
    let before = || Some(document(&json!({})));
    let change = |name, method, path, body, success, is_done| Write {
        name,
        before: before(),
        method,
        path: Some(path),
        guard: Some(("if-match", "ETAG")),
        body,
        success,
        call: Call::Patch,
        is_done,
    };
    let other = document(&json!({"labels": {"team": "b"}}));
    let create = Write {
        name: "create",
        before: None,
        method: Method::POST,
        path: None,
        guard: None,
        body: document(&json!({})),
        success: 201,
        call: Call::Create,
        is_done: |held| has(held, "/metadata/labels/team", &json!("a")),
    };
    let put = (Method::PUT, Some(""), Some(("if-none-match", "*")));
    let (patch, post) = (Method::PATCH, Method::POST);
    let small = json!({"cpu": "10m", "memory": "1Gi", "replicas": 0, "maxReplicas": 7});
    vec![
        Write { name: "put-new", method: put.0, path: put.1, guard: put.2, ..create.clone() },
        create,
        change("put", Method::PUT, "", other, 200, |held| has(held, "/metadata/labels/team", &json!("b"))),
        change(
            "patch",
            patch.clone(),
            "",
            json!({"labels": {"team": "b"}, "head": {"env": {"E": "1"}}}),
            200,
            |held| {
                has(held, "/metadata/labels/team", &json!("b"))
                    && has(held, "/spec/headGroupSpec/template/spec/containers/0/env/0/value", &json!("1"))
            },
        ),
        Write {
            call: Call::Delete,
            ..change("delete", Method::DELETE, "", Value::Null, 202, |held| {
                held.is_none_or(|held| held["metadata"]["deletionTimestamp"].is_string())
            })
        },
        change("stop", post.clone(), "/stop", Value::Null, 202, |held| has(held, "/spec/suspend", &json!(true))),
        Write {
            before: Some(document(&json!({"suspended": true}))),
            ..change("start", post.clone(), "/start", Value::Null, 202, |held| {
                has(held, "/spec/suspend", &json!(false))
            })
        },
        change("restart", post.clone(), "/restart", Value::Null, 202, |held| {
            // Under way, or finished.
            ["restart", "restarted"].iter().any(|mark| {
                held.is_some_and(|held| held["metadata"]["annotations"][format!("raygate.dev/{mark}")].is_string())
            })
        }),
        change("owner", post, "/owner", json!({"owner": "alice"}), 200, |held| {
            has(held, "/metadata/annotations/raygate.dev~1owner", &json!("alice"))
        }),
        change("patch-group", patch, "/workerGroups/a", json!({"maxReplicas": 7}), 200, |held| {
            group(held, "a").is_some_and(|group| group["maxReplicas"] == 7)
        }),
        change("put-group", Method::PUT, "/workerGroups/a", small.clone(), 200, |held| {
            group(held, "a").is_some_and(|group| group["maxReplicas"] == 7)
        }),
        change("put-new-group", Method::PUT, "/workerGroups/b", small, 201, |held| {
            group(held, "b").is_some_and(|group| group["maxReplicas"] == 7)
        }),
        change("delete-group", Method::DELETE, "/workerGroups/a", Value::Null, 202, |held| {
            group(held, "a").is_none_or(|group| group["maxReplicas"] == 0)
        }),
    ]
}

/// A raygate of its own, in which one write is tried.
struct Trial {
    write: Write,
    api: InProcess,
    faults: Faults,
    /// The backend, beside raygate.
    inner: Backend,
}

const NAME: &str = "demo";

impl Trial {
    /// What is there before is there.
    async fn new(write: Write, flags: &[&str]) -> Outcome<Self> {
        let inner = backend(Options { namespaces: vec!["default".to_owned()], ..Options::default() });
        let (outer, faults) = Faults::over(&inner);
        let api = InProcess::start(&outer, Access::open(Vec::new(), "default".into()), flags).await?;
        write.prepare(&api, NAME).await?;
        Ok(Self { write, api, faults, inner })
    }

    /// What the backend holds.
    async fn held(&self) -> Outcome<Option<Value>> {
        match self.inner.clusters.get("default", NAME).await {
            Ok(held) => Ok(Some(held.raw)),
            Err(ManagerError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn send(&self) -> Outcome<Answer> {
        self.write.send(&self.api, NAME, "").await
    }

    /// It says that it is done, and it is.
    async fn tells_done(self) -> Outcome {
        let answer = self.send().await?;
        self.write.told(&self.api, NAME, &answer, self.held().await?.as_ref()).await?;
        self.api.end().await
    }

    /// It fails like this, and isn't done.
    async fn tells_not_done(self, status: u16, code: &str) -> Outcome {
        let answer = self.send().await?;
        answer.problem(status, code);
        assert_eq!(answer.header("retry-after").is_empty(), status != 503, "{}: {answer:?}", self.write.name);
        assert!(!(self.write.is_done)(self.held().await?.as_ref()), "{}: nothing is done", self.write.name);
        self.api.end().await
    }
}

/// Tries every write that is meant, side by side.
async fn each(meant: impl Fn(&Write) -> bool, flags: &[&str], run: impl AsyncFn(Trial) -> Outcome) -> Outcome {
    let tried = writes().into_iter().filter(|write| meant(write)).map(|write| {
        let run = &run;
        async move {
            let name = write.name;
            let tried = AssertUnwindSafe(async { run(Trial::new(write, flags).await?).await }).catch_unwind().await;
            match tried {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{name}: {error}")),
                Err(_) => Some(name.to_owned()),
            }
        }
    });
    let tried = join_all(tried).await;
    assert!(tried.len() > 5);
    let wrong: Vec<_> = tried.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

fn lost() -> ManagerError {
    ManagerError::OutcomeUnknown("no answer".into())
}

#[tokio::test]
async fn what_was_done_is_told_though_the_answer_was_lost() -> Outcome {
    each(
        |_| true,
        &[],
        async |trial| {
            trial.faults.add(trial.write.call, 1, Fault::AnswerLost(lost()));
            trial.tells_done().await
        },
    )
    .await
}

#[tokio::test]
async fn what_nobody_knows_is_not_told_as_done_nor_as_refused() -> Outcome {
    each(
        |_| true,
        &[],
        async |trial| {
            trial.faults.add(trial.write.call, 1, Fault::Instead(lost()));
            let (faults, call) = (trial.faults.clone(), trial.write.call);
            let asked = faults.asked(call);
            trial.tells_not_done(504, "OUTCOME_UNKNOWN").await?;
            assert_eq!(faults.asked(call), asked + 1, "it isn't sent again");
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn nobody_knows_where_the_look_back_fails() -> Outcome {
    each(
        |_| true,
        &[],
        async |trial| {
            trial.faults.add(trial.write.call, 1, Fault::AnswerLost(lost()));
            // A change begins with a look.
            let looks = usize::from(trial.write.before.is_some() || trial.write.name == "put-new");
            trial.faults.add(Call::Get, looks, Fault::None);
            trial.faults.add(Call::Get, usize::MAX, Fault::Instead(ManagerError::Unavailable("gone".into())));
            trial.send().await?.problem(504, "OUTCOME_UNKNOWN");
            trial.api.end().await
        },
    )
    .await
}

#[tokio::test]
async fn a_race_that_is_lost_a_few_times_is_won() -> Outcome {
    each(
        |write| write.call != Call::Create,
        &[],
        async |trial| {
            trial.faults.add(trial.write.call, 3, Fault::Instead(ManagerError::Conflict));
            trial.tells_done().await
        },
    )
    .await
}

#[tokio::test]
async fn a_race_that_is_always_lost_is_given_up_in_time() -> Outcome {
    each(
        |write| write.call != Call::Create,
        &["--request-timeout-seconds=2"],
        async |trial| {
            trial.faults.add(trial.write.call, usize::MAX, Fault::Instead(ManagerError::Conflict));
            let (faults, call) = (trial.faults.clone(), trial.write.call);
            trial.tells_not_done(503, "CONTENDED").await?;
            assert!(faults.asked(call) > 5, "it has been tried again and again: {}", faults.asked(call));
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_not_written() -> Outcome {
    each(
        |write| write.before.is_some(),
        &[],
        async |trial| {
            trial.faults.add(Call::Get, 1, Fault::Instead(ManagerError::Unavailable("gone".into())));
            let (faults, call) = (trial.faults.clone(), trial.write.call);
            let asked = faults.asked(call);
            trial.tells_not_done(503, "UNAVAILABLE").await?;
            assert_eq!(faults.asked(call), asked);
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn a_write_whose_answer_never_comes_is_not_told_as_refused() -> Outcome {
    each(
        |_| true,
        &["--request-timeout-seconds=1"],
        async |trial| {
            trial.faults.add(trial.write.call, 1, Fault::AnswerHeld(Gate::shut()));
            trial.send().await?.problem(504, "OUTCOME_UNKNOWN");
            assert!((trial.write.is_done)(trial.held().await?.as_ref()));
            trial.api.end().await
        },
    )
    .await
}

#[tokio::test]
async fn a_dry_run_whose_answer_is_lost_has_done_nothing() -> Outcome {
    each(
        |_| true,
        &[],
        async |trial| {
            let call = match trial.write.call {
                Call::Create => Call::DryCreate,
                Call::Delete => Call::DryDelete,
                Call::Patch
                | Call::DryCreate
                | Call::DryPatch
                | Call::DryDelete
                | Call::Get
                | Call::List
                | Call::Pods => Call::DryPatch,
            };
            trial.faults.add(call, 1, Fault::AnswerLost(lost()));
            let answer = trial.write.send(&trial.api, NAME, "?dryRun=All").await?;
            assert!(answer.status.is_server_error(), "{answer:?}");
            assert!(!(trial.write.is_done)(trial.held().await?.as_ref()));
            trial.api.end().await
        },
    )
    .await
}

/// Two raygates over one backend, the first with faults.
async fn two() -> Outcome<(InProcess, InProcess, Faults, Backend)> {
    let inner = backend(Options { namespaces: vec!["default".to_owned()], ..Options::default() });
    let (outer, faults) = Faults::over(&inner);
    let access = || Access::open(Vec::new(), "default".into());
    let one = InProcess::start(&outer, access(), &[]).await?;
    let other = InProcess::start(&inner, access(), &[]).await?;
    Ok((one, other, faults, inner))
}

async fn create(api: &Api, key: &str, name: &str) -> Outcome<Answer> {
    let body = json!({"name": name}).to_string();
    api.send(Method::POST, "/clusters", &[("idempotency-key", key)], body).await
}

/// Creates through one raygate; the other creates once the first has looked and found nothing.
async fn crossed(name: &str, second: &str, fault: Fault) -> Outcome<(Answer, Answer)> {
    let (one, other, faults, _) = two().await?;
    let gate = Gate::shut();
    faults.add(Call::List, 1, Fault::AnswerHeld(gate.clone()));
    faults.add(Call::Get, 1, fault);
    let late = create(&one, "key", name);
    let early = async {
        gate.arrived().await;
        let answer = create(&other, "key", second).await;
        gate.pass();
        answer
    };
    let (late, early) = tokio::try_join!(late, early)?;
    one.end().await?;
    other.end().await?;
    Ok((early, late))
}

#[tokio::test]
async fn a_twin_that_was_made_elsewhere_meanwhile_is_found() -> Outcome {
    let (made, replayed) = crossed("demo", "demo", Fault::None).await?;
    assert_eq!((made.status.as_u16(), replayed.status.as_u16()), (201, 200), "{replayed:?}");
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(made.json()["uid"], replayed.json()["uid"]);
    Ok(())
}
