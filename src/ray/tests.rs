//! The domain's rules, each from the outside: a RayCluster or a document in, what is said of it out.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::RayCluster;
use super::document::Document;
use super::facts::{NodeFact, NodeRole, Nodes};
use super::fault::{Fault, FaultCode};
use super::json;
use super::name::ClusterRef;
use super::render::render;
use super::status::{self, State};

fn cluster(value: Value) -> RayCluster {
    serde_json::from_value(value).unwrap()
}

fn node(role: NodeRole, group: &str, ready: bool) -> NodeFact {
    NodeFact {
        namespace: "default".into(),
        name: format!("{group}-{ready}"),
        owner_uid: "a".into(),
        group: group.into(),
        role,
        phase: "Running".into(),
        ready,
        ..NodeFact::default()
    }
}

fn head(ready: bool) -> NodeFact {
    node(NodeRole::Head, "headgroup", ready)
}

fn worker(ready: bool) -> NodeFact {
    node(NodeRole::Worker, "w", ready)
}

fn state(cluster: &RayCluster, nodes: &[NodeFact]) -> State {
    state_with_gone(cluster, nodes, 0)
}

fn state_with_gone(cluster: &RayCluster, nodes: &[NodeFact], gone: usize) -> State {
    status::state(cluster, &Nodes { present: nodes.to_vec(), gone, known_since: None })
}

/// A cluster with one group of two replicas; `change` edits it.
fn changed(change: impl FnOnce(&mut Value)) -> RayCluster {
    let mut value = json!({
        "metadata": {"name": "demo", "namespace": "default", "uid": "a"},
        "spec": {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [
            {"groupName": "w", "replicas": 2, "minReplicas": 1, "maxReplicas": 3, "numOfHosts": 1, "template": {}},
        ]},
        "status": {"state": "ready", "conditions": []},
    });
    change(&mut value);
    cluster(value)
}

fn provisioned(value: &mut Value) {
    value["status"]["conditions"] = json!([{"type": "RayClusterProvisioned", "status": "True"}]);
}

#[test]
fn states_come_from_pods_and_conditions() {
    let full = [head(true), worker(true), worker(true)];
    let one_short = [head(true), worker(true), worker(false)];
    let headless = [head(false), worker(true), worker(true)];
    let none: [NodeFact; 0] = [];

    assert_eq!(state(&changed(|_| ()), &full), State::Ready);
    assert_eq!(state(&changed(|_| ()), &one_short), State::Pending, "upstream's `ready` isn't believed");
    assert_eq!(state(&changed(provisioned), &one_short), State::Degraded);
    assert_eq!(state(&changed(provisioned), &headless), State::Degraded, "a dead head");
    assert_eq!(state(&changed(|_| ()), &none), State::Pending);

    let mut leaving = full.clone();
    leaving[0].deleting = true;
    assert_eq!(state(&changed(provisioned), &leaving), State::Degraded, "a head on its way out");

    let deleting = changed(|value| value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(state(&deleting, &full), State::Deleting);
}

#[test]
fn news_of_pods_that_are_older_than_the_operators_word_make_nothing_worse() {
    let said = |value: &mut Value| {
        value["status"] = json!({"readyWorkerReplicas": 2, "conditions": [
            {"type": "HeadPodReady", "status": "True"},
            {"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
        ]});
    };
    let at = |second: u8, ready: bool| NodeFact {
        ready_since: Some(format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()),
        ..worker(ready)
    };
    let with = |late: NodeFact| state(&changed(said), &[head(true), worker(true), late]);
    assert_eq!(with(at(9, false)), State::Pending, "it was ready at 10: this is from before");
    assert_eq!(with(at(10, false)), State::Pending);
    assert_eq!(with(at(11, false)), State::Degraded, "it has become unready since");
    assert_eq!(with(NodeFact { deleting: true, ..at(9, true) }), State::Degraded, "it is on its way out");
    assert_eq!(state_with_gone(&changed(said), &[head(true), worker(true)], 1), State::Degraded, "it is gone");
    assert_eq!(state(&changed(said), &[head(true), worker(true)]), State::Pending, "it hasn't been seen yet");
    assert_eq!(state(&changed(said), &[head(false), worker(true)]), State::Degraded, "only one can be unseen");
    let known_since = |second: u8| {
        let known_since = Some(format!("2026-01-01T00:00:{second:02}Z").parse().unwrap());
        status::state(&changed(said), &Nodes { present: vec![head(true), worker(true)], gone: 0, known_since })
    };
    assert_eq!(known_since(10), State::Pending, "the operator may have spoken of it since");
    assert_eq!(known_since(11), State::Degraded, "all that it spoke of was known");
    let new = |second: u8| NodeFact {
        created: Some(format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()),
        ready_since: None,
        ..worker(false)
    };
    assert_eq!(with(new(9)), State::Pending, "its readiness hasn't been heard of yet");
    assert_eq!(with(new(11)), State::Degraded, "it has been made since");
    let growing = changed(|value| {
        said(value);
        value["spec"]["workerGroupSpecs"][0]["replicas"] = json!(3);
    });
    let nodes = [head(true), worker(true), worker(true), at(10, false)];
    assert_eq!(state(&growing, &nodes), State::Degraded, "the operator doesn't say that three are ready");
}

#[test]
fn wanted_numbers_are_the_operators() {
    let pods = |count: usize| {
        let workers = std::iter::repeat_with(|| worker(true)).take(count);
        [head(true)].into_iter().chain(workers).collect::<Vec<_>>()
    };
    let group = |member: &'static str, value: i32| {
        changed(move |cluster| cluster["spec"]["workerGroupSpecs"][0][member] = json!(value))
    };
    let most = |cluster: &RayCluster| (0..9).find(|count| state(cluster, &pods(*count)) == State::Ready);
    assert_eq!(most(&changed(|_| ())), Some(2));
    assert_eq!(most(&group("replicas", 9)), Some(3), "the operator clamps into the bounds");
    assert_eq!(most(&group("replicas", 0)), Some(1), "the operator clamps into the bounds");
    assert_eq!(most(&group("numOfHosts", 2)), Some(4));
    let suspended = changed(|cluster| cluster["spec"]["workerGroupSpecs"][0]["suspend"] = json!(true));
    assert_eq!(most(&suspended), Some(0), "a suspended group keeps no pods");
    let autoscaled = changed(|cluster| cluster["spec"]["enableInTreeAutoscaling"] = json!(true));
    assert_eq!(most(&autoscaled), Some(1), "the autoscaler may go down to the lower bound");
}

#[test]
fn no_number_is_too_large_to_be_counted() {
    let group = |name: &str| json!({"groupName": name, "replicas": i32::MAX, "minReplicas": i32::MAX, "maxReplicas": i32::MAX, "numOfHosts": i32::MAX, "template": {}});
    let huge = changed(|value| {
        provisioned(value);
        value["status"]["readyWorkerReplicas"] = json!(i64::MAX);
        value["spec"]["workerGroupSpecs"] = json!([group("a"), group("a"), group("b"), group("c")]);
    });
    assert_eq!(state(&huge, &[head(true)]), State::Degraded);
    assert_eq!(status::groups(Some(&huge), &[])["a"].desired, 2 * i64::from(i32::MAX) * i64::from(i32::MAX));
    let none = changed(|value| value["spec"]["workerGroupSpecs"] = json!([group("a"), group("a"), group("a")]));
    assert_eq!(status::groups(Some(&none), &[])["a"].desired, i64::MAX);
}

#[test]
fn suspension_holds_until_an_explicit_false() {
    let suspended = |value: &mut Value| {
        value["status"]["conditions"] = json!([{"type": "RayClusterSuspended", "status": "True"}]);
    };
    let with = |suspend: Option<bool>| {
        changed(|value| {
            suspended(value);
            if let Some(suspend) = suspend {
                value["spec"]["suspend"] = json!(suspend);
            }
        })
    };
    assert_eq!(state(&with(Some(true)), &[]), State::Stopped);
    assert_eq!(state(&with(Some(true)), &[head(true)]), State::Stopping);
    assert_eq!(state(&with(None), &[]), State::Stopped, "a removed key resumes nothing");
    assert_eq!(state(&with(Some(false)), &[]), State::Pending);
}

fn read(value: Value) -> Result<Document, Vec<Fault>> {
    let (document, faults) = Document::read(value);
    if faults.is_empty() { Ok(document) } else { Err(faults) }
}

#[test]
fn faults_are_found_together_and_placed() {
    let document = json!({
        "name": "Demo", "rayVersion": 5, "wrkerGroups": {}, "labels": {"ray.io/cluster": "x", "ok": "not ok"},
        "workerGroups": {
            "headgroup": {"replicas": -1, "maxReplicas": 3_000_000_000_u32},
            "w": {"replicas": 5, "maxReplicas": 4, "cpu": "much", "gpu": 0.5, "env": {"A=B": "x", "C": 1}},
            "v": {"minReplicas": 3, "maxReplicas": 2},
            "u": {"minReplicas": 3, "maxReplicas": 4, "replicas": 1},
            "t": "text",
        },
    });
    let mut found: Vec<_> =
        read(document).unwrap_err().iter().map(|fault| (fault.pointer.clone(), fault.code)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let wanted = [
        ("/labels/ok", FaultCode::InvalidValue),
        ("/labels/ray.io~1cluster", FaultCode::Reserved),
        ("/name", FaultCode::InvalidName),
        ("/rayVersion", FaultCode::WrongType),
        ("/workerGroups/headgroup", FaultCode::InvalidName),
        ("/workerGroups/headgroup/maxReplicas", FaultCode::OutOfRange),
        ("/workerGroups/headgroup/replicas", FaultCode::OutOfRange),
        ("/workerGroups/t", FaultCode::WrongType),
        ("/workerGroups/u/replicas", FaultCode::OutOfRange),
        ("/workerGroups/v/maxReplicas", FaultCode::OutOfRange),
        ("/workerGroups/w/cpu", FaultCode::InvalidQuantity),
        ("/workerGroups/w/env/A=B", FaultCode::InvalidName),
        ("/workerGroups/w/env/C", FaultCode::WrongType),
        ("/workerGroups/w/gpu", FaultCode::OutOfRange),
        ("/workerGroups/w/replicas", FaultCode::OutOfRange),
        ("/wrkerGroups", FaultCode::UnknownMember),
    ];
    assert_eq!(found, wanted.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn references_name_one_thing_completely() {
    let parse = |text: &str| ClusterRef::parse(text).map(|found| (found.name, found.namespace));
    let found = |name: &str, namespace: Option<&str>| Some((name.to_owned(), namespace.map(str::to_owned)));
    assert_eq!(parse("demo"), found("demo", None));
    assert_eq!(parse("demo.team-a"), found("demo", Some("team-a")));
    assert_eq!(parse("a.b.team-a"), found("a.b", Some("team-a")), "a name may hold a dot, a namespace can't");
    for text in ["", ".", "demo.", ".ns", "Demo", "de/mo", "demo..ns", "-demo", "demo.Team", "dé"] {
        assert_eq!(parse(text), None, "{text:?}");
    }
}

/// The pointers of all objects.
fn objects(value: &Value, at: String, found: &mut Vec<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        objects(inner, format!("{at}/{name}"), found);
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        objects(inner, format!("{at}/{index}"), found);
    }
    if value.is_object() {
        found.push(at);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9./~ -]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![
            "[a-z]{1,6}",
            prop::sample::select(vec![
                "spec",
                "metadata",
                "containers",
                "template",
                "resources",
                "limits",
                "cpu",
                "env",
                "name",
                "value",
                "replicas",
                "groupName",
                "conditions",
                "type",
                "status",
                "head",
                "workerGroups",
                "image",
                "labels",
            ])
            .prop_map(str::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, rng_seed: proptest::test_runner::RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a cluster holds, it is rendered, with one of the states.
    #[test]
    fn rendering_is_total(spec in any_json(), status in any_json(), ready: bool) {
        let mut value = json!({"metadata": {"name": "x", "namespace": "y", "uid": "a"}});
        value["spec"] = spec;
        value["status"] = status;
        let decoded = serde_json::from_value::<RayCluster>(value.clone()).map_err(|error| error.to_string());
        let metadata = changed(|_| ()).metadata;
        let nodes = [head(ready), worker(ready)];
        let rendered = render(&value, &metadata, decoded.as_ref().map_err(String::as_str), &Nodes { present: nodes.to_vec(), ..Nodes::default() });
        prop_assert_eq!(decoded.is_err(), rendered.status.state == State::Unknown);
    }

    /// Any JSON planted at any object node survives decoding and encoding; the root and metadata have Kubernetes' own
    /// members and no others.
    #[test]
    fn planted_members_survive(planted in any_json(), at: prop::sample::Index) {
        let mut value = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "rayVersion": "2.52.0", "suspend": false, "enableInTreeAutoscaling": true, "autoscalerOptions": {"resources": {"limits": {}}},
                "headGroupSpec": {"serviceType": "ClusterIP", "template": {"metadata": {}, "spec": {"containers": [{"env": [{"valueFrom": {}}]}]}}},
                "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "scaleStrategy": {}, "template": {"spec": {"containers": [{}, {}]}}}, {"groupName": "v", "template": {}}],
            },
            "status": {"conditions": [{"type": "x"}], "head": {"podIP": "1"}, "endpoints": {}, "stateTransitionTimes": {}},
        });
        let mut places = Vec::new();
        objects(&value, String::new(), &mut places);
        let strings = ["/metadata", "/status/endpoints"];
        places.retain(|place| !place.is_empty() && !strings.contains(&place.as_str()));
        let place = at.get(&places);
        value.pointer_mut(place).unwrap()["planted"] = planted;
        prop_assert_eq!(serde_json::to_value(cluster(value.clone())).unwrap(), value);
    }

    /// No document is too odd to be judged.
    #[test]
    fn judging_is_total(value in any_json()) {
        let _ = read(value);
    }

    /// Any bytes are JSON or a fault, and what is JSON is what serde_json reads.
    #[test]
    fn reading_agrees_with_serde_json(value in any_json()) {
        let text = value.to_string();
        if let Ok((found, _)) = json::read(text.as_bytes()) {
            prop_assert_eq!(found, serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
