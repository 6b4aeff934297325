//! Rights that change while something is under way.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::access::{Authenticator, Identity, Policy, Rejected};
use crate::ray::owner;

/// Believes everybody.
struct Trusting;

#[async_trait]
impl Authenticator for Trusting {
    fn name(&self) -> &'static str {
        "trusting"
    }

    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, Rejected> {
        Ok(Some(Identity { user: token.into(), authenticator: "trusting", ..Identity::anonymous() }))
    }

    fn renew(&self, identity: &Identity) -> Option<Identity> {
        Some(identity.clone())
    }
}

fn policy(users: &str) -> Policy {
    let grants = format!("grants:\n- {{users: [{users}], namespaces: [default], role: user}}");
    Policy::read(format!("version: 1\n{grants}\nprivateNamespaces: [default]").as_bytes()).unwrap()
}

async fn trusting() -> (Arc<Service>, Faults, Backend) {
    let access = Access::closed(Vec::new(), "default".into(), vec![Arc::new(Trusting)], policy("alice, bob"));
    service(access).await
}

async fn alice(service: &Service) -> Caller {
    service.access.authenticate("alice").await.unwrap().unwrap()
}

/// Whether the first that comes of a watch is that it is refused.
async fn is_refused(service: &Service, watcher: &mut Watcher, code: ErrorCode) -> bool {
    match service.next(watcher).await {
        Next::Refused(error) => error.code == code,
        Next::Frame(_) | Next::Done => false,
    }
}

#[tokio::test]
async fn a_policy_that_came_between_the_gate_and_the_stream_holds() {
    let (service, ..) = trusting().await;
    let alice = alice(&service).await;
    service.create(&alice, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();
    service.access.replace_policy(policy("bob"));
    let mut watcher = service.watch(&alice, &Selection::default()).unwrap();
    assert!(is_refused(&service, &mut watcher, ErrorCode::Forbidden).await);
    let mut watcher = service.watch_one(&alice, "demo").unwrap();
    assert!(is_refused(&service, &mut watcher, ErrorCode::Forbidden).await);
}

#[tokio::test]
async fn an_expired_credential_is_shown_nothing_however_much_there_is() {
    let (service, ..) = trusting().await;
    let mut identity = alice(&service).await.identity;
    identity.expires = Some(clock::now() - SignedDuration::from_secs(1));
    let mut watcher = service.watch(&service.access.caller(identity.clone()), &Selection::default()).unwrap();
    assert!(is_refused(&service, &mut watcher, ErrorCode::Unauthenticated).await);
    identity.expires = Some(Timestamp::MAX);
    let mut watcher = service.watch(&service.access.caller(identity), &Selection::default()).unwrap();
    assert!(matches!(service.next(&mut watcher).await, Next::Frame(_)));
}

#[tokio::test]
async fn a_writes_answer_shows_nothing_of_what_has_become_somebody_elses() {
    let (service, faults, inner) = trusting().await;
    let gate = Gate::shut();
    faults.add(Call::Patch, 1, Fault::AnswerHeld(gate.clone()));
    let alice = alice(&service).await;
    service.create(&alice, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();
    let (patcher, asking) = (service.clone(), alice.clone());
    let patch = tokio::spawn(async move {
        let body = br#"{"labels": {"mine": "b"}}"#;
        let written = patcher.patch(&asking, "demo", (Format::Json, body), &Terms::default()).await;
        written.map(|written| String::from_utf8_lossy(&written.cluster.face().rendered).into_owned())
    });
    gate.arrived().await;
    let held = inner.clusters.get("default", "demo").await.unwrap();
    let change = json!({"metadata": owner::patch(Some("bob"))});
    let held = inner.clusters.patch("default", "demo", held.resource_version(), &change).await.unwrap();
    let change = json!({"metadata": {"labels": {"bobs": "plan"}}});
    inner.clusters.patch("default", "demo", held.resource_version(), &change).await.unwrap();
    let key = ClusterKey::new("default", "demo");
    while !service.cache.get(&key).unwrap().labels.contains_key("bobs") {
        tokio::task::yield_now().await;
    }
    gate.pass();
    let answer = patch.await.unwrap().unwrap();
    assert!(answer.contains("mine") && !answer.contains("bobs") && !answer.contains("\"bob\""), "{answer}");
    assert!(service.get(&alice, "demo", Freshness::Known).await.is_err());
}

/// Who may not see a cluster doesn't wait for those who write to it: that would tell that it is there.
#[tokio::test]
async fn a_hidden_cluster_is_not_told_by_waiting() {
    let (service, faults, _) = trusting().await;
    let gate = Gate::shut();
    faults.add(Call::Patch, 1, Fault::AnswerHeld(gate.clone()));
    let alice = alice(&service).await;
    let bob = service.access.authenticate("bob").await.unwrap().unwrap();
    service.create(&alice, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();
    let writer = service.clone();
    let write = tokio::spawn(async move {
        let body = br#"{"labels": {"a": "b"}}"#;
        writer.patch(&alice, "demo", (Format::Json, body), &Terms::default()).await.map(|_| ())
    });
    gate.arrived().await;
    let asked = |name: &'static str| {
        let (service, bob) = (service.clone(), bob.clone());
        async move {
            let body = br#"{"labels": {"a": "b"}}"#;
            let terms = Terms::default();
            let asked = service.patch(&bob, name, (Format::Json, body), &terms);
            tokio::time::timeout(Duration::from_secs(1), asked).await.map(|done| done.map(|_| ()).unwrap_err().code)
        }
    };
    assert_eq!(asked("other").await, Ok(ErrorCode::NotFound));
    let seen = asked("demo").await;
    gate.pass();
    write.await.unwrap().unwrap();
    assert_eq!(seen, Ok(ErrorCode::NotFound), "bob waits for alice, of whose cluster he knows nothing");
}
