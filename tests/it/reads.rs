//! Reading what was written on another replica: it is waited for, asked for, and no more is seen of it than of anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use http::Method;
use raygate::access::{Access, NewToken, Policy, StaticTokens};
use raygate::manager::faulty::{Call, Fault, Gate};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Answer, Api, Outcome, PATIENCE, Raygate, eventually, faults};

mod behind;

use behind::Replicas;

/// No test waits that long.
const FOR_EVER: [&str; 2] = ["--read-wait-milliseconds=3600000", "--request-timeout-seconds=3600"];

const SHORT: [&str; 1] = ["--read-wait-milliseconds=50"];

/// A cluster of the default namespace that nobody writes to but the test: the operator leaves it to another manager.
fn still(name: &str) -> Value {
    still_in("default", name)
}

fn still_in(namespace: &str, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": namespace,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "head": {"env": {"A": "raygate-test-secret"}},
    })
}

async fn created(api: &Api, document: &Value) -> Outcome<u64> {
    let answer = api.post("/clusters", document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    version(&answer.json())
}

async fn labelled(api: &Api, name: &str, value: &str) -> Outcome<u64> {
    let body = json!({"labels": {"seen": value}}).to_string();
    let answer = api.send(Method::PATCH, &format!("/clusters/{name}"), &[], body).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    version(&answer.json())
}

fn version(cluster: &Value) -> Outcome<u64> {
    Ok(cluster["resourceVersion"].as_str().ok_or("no resourceVersion")?.parse()?)
}

/// Deletes a cluster, and waits until nothing of it is left; answers the version that it had on its way out.
async fn deleted(api: &Api, name: &str) -> Outcome<u64> {
    let path = format!("/clusters/{name}");
    let answer = api.delete(&path).await?;
    assert_eq!(answer.status, 202, "{answer:?}");
    eventually("it is gone", async || Ok((api.get(&path).await?.status == 404).then_some(()))).await?;
    version(&answer.json())
}

/// The names that a list shows.
fn names(list: &Answer) -> Vec<String> {
    let list = list.json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// An answer from what was known: it says how old it may be.
fn assert_known(answer: &Answer) {
    assert!(answer.status == 200 && !answer.header("age").is_empty(), "{answer:?}");
}

/// An answer that Kubernetes was asked for.
fn assert_read_through(answer: &Answer) {
    assert!(answer.status == 200 && answer.header("age").is_empty(), "{answer:?}");
}

/// Asks, and has the far replica hear only once it is waited for.
async fn waited_for(replicas: &Replicas, path: &str) -> Outcome<Answer> {
    let mut asking = Box::pin(replicas.far.get(path));
    let early = timeout(Duration::from_millis(200), &mut asking).await;
    assert!(early.is_err(), "answered before it could be known: {early:?}");
    replicas.behind.release();
    let answer = timeout(PATIENCE, asking).await??;
    assert_eq!(replicas.behind.asked(), (0, 0), "{path}: nobody was asked");
    replicas.behind.hold();
    Ok(answer)
}

#[tokio::test]
async fn a_version_is_waited_for_until_the_watch_brings_it() -> Outcome {
    let replicas = Replicas::open(&FOR_EVER).await?;
    replicas.behind.hold();
    for (at, path) in ["/clusters/a", "/clusters/a/manifest", "/clusters", "/clusters?namespace=*"].iter().enumerate() {
        let value = at.to_string();
        let wanted = match at {
            0 => created(&replicas.near, &still("a")).await?,
            _ => labelled(&replicas.near, "a", &value).await?,
        };
        let sign = if path.contains('?') { '&' } else { '?' };
        let answer = waited_for(&replicas, &format!("{path}{sign}minResourceVersion={wanted}")).await?;
        assert_known(&answer);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(at == 0 || text.contains(&format!(r#""seen":"{value}""#)), "{path}: {text}");
    }

    // What is known is enough: of the cluster itself, and of another whose watch has come so far.
    let known = labelled(&replicas.near, "a", "last").await?;
    assert_known(&waited_for(&replicas, &format!("/clusters/a?minResourceVersion={known}")).await?);
    assert_known(&replicas.far.get(&format!("/clusters?minResourceVersion={known}")).await?);
    replicas.far.get(&format!("/clusters/b?minResourceVersion={known}")).await?.problem(404, "NOT_FOUND");
    assert_eq!(replicas.behind.asked(), (0, 0));
    replicas.end().await
}

#[tokio::test]
async fn a_deletion_is_waited_for_too() -> Outcome {
    let replicas = Replicas::open(&FOR_EVER).await?;
    created(&replicas.near, &still("gone")).await?;
    let created = created(&replicas.near, &still("stays")).await?;
    assert_known(&replicas.far.get(&format!("/clusters?minResourceVersion={created}")).await?);
    replicas.behind.hold();
    // Nothing else is written: what is newer than the last state can be the end of it alone.
    let end = deleted(&replicas.near, "gone").await? + 1;
    let path = format!("/clusters/gone?minResourceVersion={end}");
    waited_for(&replicas, &path).await?.problem(404, "NOT_FOUND");
    replicas.end().await
}

#[tokio::test]
async fn what_this_process_wrote_says_nothing_of_other_clusters() -> Outcome {
    let replicas = Replicas::open(&SHORT).await?;
    replicas.behind.hold();
    created(&replicas.near, &still("theirs")).await?;
    let own = created(&replicas.far, &still("own")).await?;
    assert_known(&replicas.far.get(&format!("/clusters/own?minResourceVersion={own}")).await?);
    assert_eq!(replicas.behind.asked(), (0, 0));
    assert_read_through(&replicas.far.get(&format!("/clusters/theirs?minResourceVersion={own}")).await?);
    assert_eq!(replicas.behind.asked(), (1, 0));
    assert_read_through(&replicas.far.get(&format!("/clusters?minResourceVersion={own}")).await?);
    assert_eq!(replicas.behind.asked(), (0, 1));
    replicas.end().await
}

#[tokio::test]
async fn what_does_not_come_is_asked_for() -> Outcome {
    let replicas = Replicas::open(&SHORT).await?;
    replicas.behind.hold();
    for (path, asked) in [("/clusters/a", (1, 0)), ("/clusters/a/manifest", (1, 0)), ("/clusters", (0, 1))] {
        let name = format!("{}-{}", path.len(), asked.1);
        let wanted = created(&replicas.near, &still(&format!("x{name}"))).await?;
        let path = path.replace("/a", &format!("/x{name}"));
        let answer = replicas.far.get(&format!("{path}?minResourceVersion={wanted}")).await?;
        assert_read_through(&answer);
        assert!(String::from_utf8_lossy(&answer.body).contains(&format!("x{name}")), "{answer:?}");
        assert_eq!(replicas.behind.asked(), asked, "{path}");
        assert_known(&replicas.far.get(&path).await?);
    }
    // A version that nothing has is no fault: there may be changes that aren't seen here.
    let none = u128::MAX;
    assert_read_through(&replicas.far.get(&format!("/clusters?minResourceVersion={none}")).await?);
    replicas.far.get(&format!("/clusters/none?minResourceVersion={none}")).await?.problem(404, "NOT_FOUND");
    replicas.end().await
}

#[tokio::test]
async fn strong_reads_see_what_the_watch_has_not_brought() -> Outcome {
    let replicas = Replicas::open(&FOR_EVER).await?;
    let Replicas { near, far, behind } = &replicas;
    created(near, &still("gone")).await?;
    let both = created(near, &still("b")).await?;
    assert_known(&far.get(&format!("/clusters?minResourceVersion={both}")).await?);
    behind.hold();
    deleted(near, "gone").await?;
    created(near, &still("a")).await?;
    labelled(near, "b", "now").await?;
    assert_eq!(names(&far.get("/clusters").await?), ["b", "gone"], "it hasn't heard");
    assert_eq!(behind.asked(), (0, 0));

    let answer = far.get("/clusters/b?consistency=strong").await?;
    assert_read_through(&answer);
    assert_eq!(answer.json()["labels"], json!({"seen": "now"}));
    far.get("/clusters/gone?consistency=strong").await?.problem(404, "NOT_FOUND");
    assert_read_through(&far.get("/clusters/a/manifest?consistency=strong").await?);
    assert_eq!(behind.asked(), (3, 0));
    assert_eq!(names(&far.get("/clusters").await?), ["a", "b"], "what was read is known");

    deleted(near, "b").await?;
    created(near, &still("d")).await?;
    created(near, &still_in("other", "c")).await?;
    let listed = async |query: &str| -> Outcome<Vec<String>> {
        let answer = far.get(&format!("/clusters?consistency=strong{query}")).await?;
        assert_read_through(&answer);
        Ok(names(&answer))
    };
    assert_eq!(listed("").await?, ["a", "d"]);
    assert_eq!(names(&far.get("/clusters?namespace=*").await?), ["a", "d"], "one namespace was asked for");
    assert_eq!(listed("&namespace=*").await?, ["a", "d", "c"], "by namespace and name");
    labelled(near, "d", "1").await?;
    assert_eq!(listed("&labelSelector=seen%3D1").await?, ["d"]);
    let page = far.get("/clusters?consistency=strong&limit=1").await?.json();
    let token = page["nextPageToken"].as_str().ok_or("no next page")?;
    assert_eq!(listed(&format!("&pageToken={token}")).await?, ["d"]);
    // Both on one request.
    let answer = far.get("/clusters/d?consistency=strong&minResourceVersion=1").await?;
    assert_read_through(&answer);
    let etag = answer.header("etag").to_owned();
    let answer = far.send(Method::GET, "/clusters/d?consistency=strong", &[("if-none-match", &etag)], "").await?;
    assert_eq!((answer.status.as_u16(), answer.header("age")), (304, ""));

    // What comes late makes nothing older, and brings nothing back.
    behind.release();
    let last = labelled(near, "a", "last").await?;
    assert_known(&far.get(&format!("/clusters?minResourceVersion={last}")).await?);
    assert_eq!(names(&far.get("/clusters?namespace=*").await?), ["a", "d", "c"]);
    replicas.end().await
}

#[tokio::test]
async fn each_served_namespace_is_asked() -> Outcome {
    let served = ["default".to_owned(), "other".to_owned()];
    let access = || Ok(Access::open(served.to_vec(), "default".into()));
    let flags = ["--namespace=default", "--namespace=other", SHORT[0]];
    let replicas = Replicas::start(access, &flags).await?;
    replicas.behind.hold();
    created(&replicas.near, &still("a")).await?;
    let other = created(&replicas.near, &still_in("other", "b")).await?;
    replicas.behind.release();
    let path = format!("/clusters?namespace=other&minResourceVersion={other}");
    let answer = eventually("it has heard", async || {
        let answer = replicas.far.get(&path).await?;
        Ok((replicas.behind.asked() == (0, 0)).then_some(answer))
    })
    .await?;
    assert_known(&answer);
    // The watch of the other namespace has seen nothing as new.
    assert_read_through(&replicas.far.get(&format!("/clusters?namespace=*&minResourceVersion={other}")).await?);
    assert_eq!(replicas.behind.asked(), (0, 2));
    replicas.end().await
}

#[tokio::test]
async fn lists_are_asked_for_a_few_at_once() -> Outcome {
    let replicas = Replicas::open(&FOR_EVER).await?;
    created(&replicas.near, &still("a")).await?;
    replicas.behind.hold();
    let gate = Gate::shut();
    replicas.behind.add(Call::List, 12, Fault::Held(gate.clone()));
    let asking = try_join_all((0..12).map(|_| replicas.far.get("/clusters?consistency=strong")));
    let few = async {
        for _ in 0..4 {
            timeout(PATIENCE, gate.arrived()).await?;
        }
        // Whoever waits keeps nobody else waiting.
        assert_known(&replicas.far.get("/clusters").await?);
        assert_eq!(replicas.far.get("/clusters/a?consistency=strong").await?.status, 200);
        assert_eq!(replicas.behind.asked(), (1, 4));
        for _ in 0..12 {
            gate.pass();
        }
        Outcome::Ok(())
    };
    let (answers, few) = tokio::join!(asking, few);
    few?;
    for answer in answers? {
        assert_read_through(&answer);
    }
    assert_eq!(replicas.behind.asked(), (0, 8));
    replicas.end().await
}

#[tokio::test]
async fn a_backend_that_fails_is_told_as_such() -> Outcome {
    let replicas = Replicas::open(&SHORT).await?;
    let version = created(&replicas.near, &still("a")).await?;
    assert_known(&replicas.far.get(&format!("/clusters/a?minResourceVersion={version}")).await?);
    replicas.behind.fail();
    for path in
        ["/clusters/a?consistency=strong", "/clusters/none?minResourceVersion=99999", "/clusters?consistency=strong"]
    {
        let answer = replicas.far.get(path).await?;
        assert_eq!(answer.header("retry-after"), "2", "{path}");
        answer.problem(503, "UNAVAILABLE");
    }
    assert_known(&replicas.far.get("/clusters/a").await?);
    replicas.end().await
}

#[tokio::test]
async fn parameters_that_say_nothing_are_faults() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let fault = |name: &str| (format!("?{name}"), "INVALID_PARAMETER".to_owned());
    for path in ["/clusters", "/clusters/none", "/clusters/none/manifest"] {
        for value in ["", "a", "-1", "%2B1", "1.0", "0x1", "1e3", "%201", "340282366920938463463374607431768211456"] {
            let answer = raygate.get(&format!("{path}?minResourceVersion={value}")).await?;
            assert_eq!(faults(&answer.problem(400, "MALFORMED")), [fault("minResourceVersion")], "{path} {value}");
        }
        for value in ["", "weak", "STRONG"] {
            let problem = raygate.get(&format!("{path}?consistency={value}")).await?.problem(400, "MALFORMED");
            assert_eq!(faults(&problem), [fault("consistency")], "{path} {value}");
            assert_eq!(problem["errors"][0]["allowed"], json!(["strong"]));
        }
        let problem = raygate.get(&format!("{path}?consistency=&minResourceVersion=")).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), [fault("consistency"), fault("minResourceVersion")], "both at once");
        let twice = raygate.get(&format!("{path}?consistency=strong&consistency=strong")).await?;
        assert_eq!(faults(&twice.problem(400, "MALFORMED")), [fault("consistency")]);
    }
    raygate.get("/watch?consistency=strong").await?.problem(400, "MALFORMED");
    raygate.post("/clusters?minResourceVersion=1", &still("a")).await?.problem(400, "MALFORMED");
    Ok(())
}

const POLICY: &str = "
version: 1
grants:
- {users: [alice, bob], namespaces: [default], role: user}
- {users: [viv], namespaces: [default], role: viewer}
privateNamespaces: [default]
";

/// Replicas that ask who is calling, and the header that each of these people sends.
async fn guarded(flags: &[&str]) -> Outcome<(Replicas, BTreeMap<&'static str, String>)> {
    let (mut bearers, mut lines) = (BTreeMap::new(), Vec::new());
    for user in ["alice", "bob", "viv"] {
        let NewToken { token, line } = NewToken::make(user, &[], 1, None)?;
        bearers.insert(user, format!("Bearer {token}"));
        lines.push(line);
    }
    let access = || {
        let known = StaticTokens::default();
        known.load(lines.join("\n").as_bytes())?;
        let policy = Policy::read(POLICY.as_bytes())?;
        Ok(Access::closed(Vec::new(), "default".into(), vec![Arc::new(known)], policy))
    };
    Ok((Replicas::start(access, flags).await?, bearers))
}

#[tokio::test]
async fn what_is_hidden_stays_hidden_however_it_is_read() -> Outcome {
    let (replicas, bearers) = guarded(&SHORT).await?;
    let Replicas { near, far, behind } = &replicas;
    let ask = async |api: &Api, user: &str, path: &str| {
        api.send(Method::GET, path, &[("authorization", &bearers[user])], "").await
    };
    let create = async |user: &str, name: &str| {
        let body = still(name).to_string();
        near.send(Method::POST, "/clusters", &[("authorization", &bearers[user])], body).await
    };
    let known = create("alice", "known").await?.json();
    let version = known["resourceVersion"].as_str().ok_or("no version")?;
    assert_known(&ask(far, "alice", &format!("/clusters/known?minResourceVersion={version}")).await?);
    behind.hold();
    create("alice", "hers").await?;
    create("bob", "his").await?;
    behind.asked();

    for query in ["consistency=strong", "minResourceVersion=99999"] {
        let mut told = Vec::new();
        for name in ["known", "hers", "none"] {
            for view in ["", "/manifest"] {
                let answer = ask(far, "bob", &format!("/clusters/{name}{view}?{query}")).await?;
                let mut problem = answer.problem(404, "NOT_FOUND");
                for own in ["instance", "requestId"] {
                    problem[own] = Value::Null;
                }
                told.push(problem.to_string().replace(name, "NAME"));
            }
        }
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
        assert_eq!(behind.asked(), (6, 0), "{query}: each was asked for, there or not");
        let seen = async |user: &str| -> Outcome<Vec<String>> {
            let answer = ask(far, user, &format!("/clusters?{query}")).await?;
            assert_read_through(&answer);
            Ok(names(&answer))
        };
        assert_eq!(
            (seen("bob").await?, seen("alice").await?),
            (vec!["his".into()], vec!["hers".into(), "known".into()])
        );
        assert_eq!(seen("viv").await?, Vec::<String>::new());
        assert_eq!(behind.asked(), (0, 3));
        for path in ["/clusters/hers.other", "/clusters/hers.other/manifest", "/clusters?namespace=other"] {
            let sign = if path.contains('?') { '&' } else { '?' };
            ask(far, "bob", &format!("{path}{sign}{query}")).await?.problem(403, "FORBIDDEN");
        }
        assert_eq!(behind.asked(), (0, 0), "of what they may not use nobody is asked");
    }
    behind.fail();
    for name in ["known", "none"] {
        ask(far, "bob", &format!("/clusters/{name}?consistency=strong")).await?.problem(503, "UNAVAILABLE");
    }
    replicas.end().await
}

#[tokio::test]
async fn what_one_was_given_elsewhere_is_seen() -> Outcome {
    let (replicas, bearers) = guarded(&SHORT).await?;
    let Replicas { near, far, behind } = &replicas;
    let owned = |owner: &str| {
        let mut document = still("demo");
        document["labels"] = json!({"of": owner});
        document.to_string()
    };
    let send = async |api: &Api, method, user: &str, path: &str, body: String| {
        api.send(method, path, &[("authorization", &bearers[user])], body).await
    };
    let answer = send(near, Method::POST, "alice", "/clusters", owned("alice")).await?;
    let path = format!("/clusters/demo?minResourceVersion={}", version(&answer.json())?);
    assert_known(&send(far, Method::GET, "alice", &path, String::new()).await?);
    behind.hold();
    let (removed, path) =
        (send(near, Method::DELETE, "alice", "/clusters/demo", String::new()).await?, "/clusters/demo");
    assert!(removed.status.is_success(), "{removed:?}");
    let answer = eventually("the name is free", async || {
        let answer = send(near, Method::POST, "bob", "/clusters", owned("bob")).await?;
        Ok((answer.status == 201).then_some(answer))
    })
    .await?;
    send(far, Method::GET, "bob", path, String::new()).await?.problem(404, "NOT_FOUND");
    let newer = format!("{path}?minResourceVersion={}", version(&answer.json())?);
    let answer = send(far, Method::GET, "bob", &newer, String::new()).await?;
    assert_read_through(&answer);
    assert_eq!(answer.json()["labels"], json!({"of": "bob"}));
    send(far, Method::GET, "alice", &newer, String::new()).await?.problem(404, "NOT_FOUND");
    replicas.end().await
}
