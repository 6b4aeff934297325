//! A cluster to try writes on: a raygate in the test's process, and beside it what kubectl and the machines do.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use http::Method;
use raygate::access::Access;
use raygate::manager::Backend;
use raygate::manager::memory::{NodeSwitch, Options, backend_with_switch};
use serde_json::{Value, json};

use super::{Answer, InProcess, Outcome, eventually};

/// The machines of the backend.
const MACHINES: [&str; 1] = ["memory-node-1"];

/// Where the cluster is.
pub(crate) const DEMO: &str = "/clusters/demo";

/// What is begun is finished soon; nobody is asked to be slow.
const FLAGS: [&str; 3] = ["--settle-seconds=1", "--caller-requests-per-second=1000000", "--caller-burst=1000000"];

/// A raygate over a backend that the test has at hand.
pub(crate) struct Bench {
    pub(crate) backend: Backend,
    machines: NodeSwitch,
    api: InProcess,
}

impl Deref for Bench {
    type Target = InProcess;

    fn deref(&self) -> &InProcess {
        &self.api
    }
}

impl Bench {
    /// One without clusters, for everybody.
    pub(crate) async fn new() -> Outcome<Self> {
        Self::with(Access::open(Vec::new(), "default".into())).await
    }

    /// One without clusters, by these rules.
    pub(crate) async fn with(access: Access) -> Outcome<Self> {
        let (backend, machines) = backend_with_switch(Options {
            namespaces: vec!["default".into(), "other".into()],
            pod_start_delay: Duration::from_millis(20),
            pod_stop_delay: Duration::from_millis(20),
            nodes: MACHINES.len(),
            // That a machine is silent is noticed long after the test.
            back_off: Duration::from_hours(1),
            ..Options::default()
        });
        let api = InProcess::start(&backend, access, &FLAGS).await?;
        Ok(Self { backend, machines, api })
    }

    /// One with the cluster `demo` of this document, all of whose nodes are ready.
    pub(crate) async fn ready(document: &Value) -> Outcome<Self> {
        let bench = Self::new().await?;
        let answer = bench.post("/clusters", document).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        bench.becomes("READY").await?;
        Ok(bench)
    }

    /// Another raygate over the same backend.
    pub(crate) async fn replica(&self) -> Outcome<InProcess> {
        InProcess::start(&self.backend, Access::open(Vec::new(), "default".into()), &FLAGS).await
    }

    /// Ends the raygate; the backend stays.
    pub(crate) async fn without_raygate(self) -> Outcome<(Backend, NodeSwitch)> {
        self.api.end().await?;
        Ok((self.backend, self.machines))
    }

    /// From now on no node goes, and none becomes ready.
    pub(crate) fn hold(&self) {
        for machine in MACHINES {
            self.machines.down(machine);
        }
    }

    /// Nodes come and go again.
    pub(crate) fn release(&self) {
        release(&self.machines);
    }

    /// Sends JSON.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Outcome<Answer> {
        self.api.send(method, path, headers, body.to_string()).await
    }

    /// Patches the cluster.
    pub(crate) async fn patch(&self, body: Value) -> Outcome<Answer> {
        self.call(Method::PATCH, DEMO, &[], &body).await
    }

    /// Has the cluster stopped, started or restarted.
    pub(crate) async fn run(&self, verb: &str, headers: &[(&str, &str)]) -> Outcome<Answer> {
        self.send(Method::POST, &format!("{DEMO}/{verb}"), headers, "").await
    }

    /// The cluster as it is read.
    pub(crate) async fn read(&self) -> Outcome<Answer> {
        let answer = self.get(DEMO).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        Ok(answer)
    }

    /// Waits for a state of the cluster.
    pub(crate) async fn becomes(&self, state: &str) -> Outcome<Value> {
        eventually(state, async || {
            let cluster = self.get(DEMO).await?.json();
            Ok((cluster["status"]["state"] == state).then_some(cluster))
        })
        .await
    }

    /// Waits until nothing that a write has begun is left on the cluster, and answers the RayCluster.
    pub(crate) async fn finished(&self) -> Outcome<Value> {
        finished(&self.backend).await
    }

    /// The RayCluster as it is stored.
    pub(crate) async fn held(&self) -> Outcome<Value> {
        held(&self.backend).await
    }

    /// Writes to the RayCluster as kubectl would: past raygate.
    pub(crate) async fn kubectl(&self, patch: Value) -> Outcome<Value> {
        eventually("kubectl patches", async || {
            let held = self.held().await?;
            let version = held["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let patched = self.backend.clusters.patch("default", "demo", version, &patch).await;
            Ok(patched.ok().map(|observed| observed.raw))
        })
        .await
    }

    /// The nodes of the cluster that aren't on their way out: uids and names, by the group.
    pub(crate) async fn nodes(&self) -> Outcome<Nodes> {
        nodes(&self.backend).await
    }
}

/// Nodes, by group: uid and name of each.
pub(crate) type Nodes = BTreeMap<String, BTreeMap<String, String>>;

/// Nodes come and go again on these machines.
pub(crate) fn release(machines: &NodeSwitch) {
    for machine in MACHINES {
        machines.up(machine);
    }
}

/// The RayCluster as this backend holds it.
pub(crate) async fn held(backend: &Backend) -> Outcome<Value> {
    Ok(backend.clusters.get("default", "demo").await?.raw)
}

/// Waits until nothing that a write has begun is left on the cluster, and answers the RayCluster.
pub(crate) async fn finished(backend: &Backend) -> Outcome<Value> {
    eventually("what is begun is finished", async || {
        let held = held(backend).await?;
        let stands = |key: &str| held["metadata"]["annotations"].get(key).is_some();
        let begun = stands("raygate.dev/restart") || stands("raygate.dev/dropped-groups");
        Ok((!begun).then_some(held))
    })
    .await
}

/// The nodes of the cluster that aren't on their way out.
pub(crate) async fn nodes(backend: &Backend) -> Outcome<Nodes> {
    let mut nodes = Nodes::new();
    for node in backend.workloads.list("default", "demo").await?.into_iter().filter(|node| !node.deleting) {
        nodes.entry(node.group).or_default().insert(node.uid, node.name);
    }
    Ok(nodes)
}

/// Whether the two have no node in common.
pub(crate) fn all_new(before: &Nodes, after: &Nodes) -> bool {
    let uids = |nodes: &Nodes| nodes.values().flat_map(|group| group.keys().cloned()).collect::<Vec<_>>();
    let before = uids(before);
    uids(after).iter().all(|uid| !before.contains(uid))
}

/// The part of an answer's ETag that counts for `If-Match`.
pub(crate) fn revision(answer: &Answer) -> &str {
    answer.header("etag").split('.').next().unwrap_or_default()
}

/// A cluster with two groups.
pub(crate) fn two_groups() -> Value {
    json!({
        "name": "demo", "labels": {"team": "a"}, "head": {"cpu": "1", "memory": "2Gi"},
        "workerGroups": {
            "a": {"replicas": 2, "maxReplicas": 5, "cpu": "1", "memory": "1Gi"},
            "b": {"replicas": 1, "maxReplicas": 5, "cpu": "1", "memory": "1Gi", "env": {"A": "raygate-test-secret-1"}},
        },
    })
}
