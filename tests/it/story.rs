//! One cluster's life, from a short document to nothing, through raygate and beside it; the same on every backend.

use std::time::Duration;

use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, ManagerError};
use serde_json::{Value, json};

use crate::support::{Api, InProcess, Outcome, eventually, states};

/// What somebody sees and does who doesn't go through raygate.
pub(crate) trait Outside {
    /// The RayCluster as it is stored.
    async fn stored(&self, name: &str) -> Outcome<Option<Value>>;
    /// Gives the first worker group so many replicas.
    async fn scale(&self, name: &str, replicas: u32) -> Outcome;
    /// How many pods there are.
    async fn pods(&self) -> Outcome<usize>;
    /// Whether there is a Service of this name.
    async fn service(&self, name: &str) -> Outcome<bool>;
}

fn document() -> Value {
    json!({
        "name": "demo",
        "rayVersion": "2.52.0",
        "labels": {"team": "vision"},
        "annotations": {"example.com/why": "a try"},
        "head": {"cpu": "1", "memory": "2Gi", "rayStartParams": {"num-cpus": "0"}},
        "workerGroups": {"small": {
            "replicas": 2, "minReplicas": 0, "maxReplicas": 5,
            "cpu": 0.5, "memory": "1Gi", "gpu": 1,
            "env": {"MODE": "raygate-test-secret", "EMPTY": ""},
        }},
    })
}

/// The story, in a namespace that is empty and everybody's default.
pub(crate) async fn story(raygate: &Api, outside: &impl Outside, namespace: &str) -> Outcome {
    let mut socket = raygate.socket("/watch", &[]).await?;
    assert_eq!(socket.event().await?["type"], "SYNCED", "a new namespace is empty");

    // Create: the answer is the whole resource, and read at once it is no older.
    let created = raygate.post("/clusters", &document()).await?;
    assert_eq!(created.status, 201, "{created:?}");
    let reference = format!("demo.{namespace}");
    assert_eq!(created.header("location"), format!("clusters/{reference}"));
    let cluster = created.json();
    assert_eq!(cluster["status"]["state"], "PENDING", "{cluster}");
    for member in ["name", "rayVersion", "labels", "annotations", "head"] {
        assert_eq!(cluster[member], document()[member], "{member} of {cluster}");
    }
    let uid = cluster["uid"].as_str().ok_or("no uid")?.to_owned();
    assert_eq!(raygate.get("/clusters/demo").await?.json()["uid"], uid.as_str());

    // What Kubernetes holds is what the document says, read by a client that knows nothing of our types.
    let stored = outside.stored("demo").await?.ok_or("nothing is stored")?;
    let spec = &stored["spec"];
    let worker = &spec["workerGroupSpecs"][0];
    assert_eq!(spec["rayVersion"], "2.52.0");
    assert_eq!(spec["headGroupSpec"]["rayStartParams"], json!({"num-cpus": "0"}));
    let head = &spec["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(head["image"], "rayproject/ray:2.52.0");
    assert_eq!(
        head["resources"],
        json!({"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}})
    );
    let bounds = ["groupName", "replicas", "minReplicas", "maxReplicas"].map(|member| worker[member].clone());
    assert_eq!(bounds, [json!("small"), json!(2), json!(0), json!(5)]);
    let container = &worker["template"]["spec"]["containers"][0];
    assert_eq!(
        container["env"],
        json!([{"name": "MODE", "value": "raygate-test-secret"}, {"name": "EMPTY", "value": ""}])
    );
    let amounts = json!({"cpu": "0.5", "memory": "1Gi", "nvidia.com/gpu": "1"});
    assert_eq!(container["resources"], json!({"limits": amounts, "requests": amounts}));
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");

    // The socket sees it come: PENDING until the operator's pods are ready, then READY.
    let events = socket.until(|event| event["cluster"]["status"]["state"] == "READY").await?;
    assert_eq!(events[0]["type"], "ADDED", "{events:?}");
    assert_eq!(states(&events), ["PENDING", "READY"]);
    let ready = events.last().ok_or("no event")?;
    assert_eq!(
        ready["cluster"]["status"]["workerGroups"]["small"],
        json!({"desired": 2, "ready": 2, "pending": 0, "terminating": 0})
    );
    assert_eq!(ready["cluster"]["status"]["head"]["ready"], true);
    assert_eq!(outside.pods().await?, 3);
    let service = eventually("the head's service is named", async || {
        let head = raygate.get("/clusters/demo").await?.json()["status"]["head"].clone();
        Ok(head["service"].as_str().filter(|_| head["dashboardPort"] == 8265).map(str::to_owned))
    })
    .await?;
    assert!(outside.service(&service).await?, "{service}");

    provisioned(raygate, "demo").await?;

    // The manifest is the object as Kubernetes holds it, without managedFields.
    let manifest = raygate.get("/clusters/demo/manifest").await?.json();
    assert_eq!(manifest["spec"], outside.stored("demo").await?.ok_or("nothing is stored")?["spec"]);
    assert_eq!((&manifest["kind"], &manifest["metadata"]["managedFields"]), (&json!("RayCluster"), &Value::Null));

    // Scaled beside raygate: seen on the socket, up and ready again.
    outside.scale("demo", 3).await?;
    let seen = socket.until(|event| event["cluster"]["workerGroups"]["small"]["replicas"] == 3).await?;
    let grown = |event: &Value| event["cluster"]["status"]["workerGroups"]["small"]["ready"] == 3;
    let mut events: Vec<_> = seen.into_iter().last().into_iter().collect();
    if !grown(&events[0]) {
        events.extend(socket.until(grown).await?);
    }
    for event in &events {
        let is_ready = event["cluster"]["status"]["state"] == "READY";
        assert_eq!(is_ready, grown(event), "READY is what has grown, and nothing else: {event}");
    }

    // Deleted: DELETING until nothing of it is left, then gone.
    let deleted = raygate.delete(&format!("/clusters/{reference}")).await?;
    assert_eq!((deleted.status.as_u16(), &deleted.json()["status"]["state"]), (202, &json!("DELETING")));
    assert_eq!(raygate.get("/clusters/demo").await?.json()["status"]["state"], "DELETING");
    socket.until(|event| event["cluster"]["status"]["state"] == "DELETING").await?;
    let events = socket.until(|event| event["type"] == "DELETED").await?;
    assert_eq!(states(&events), ["DELETING"]);
    assert_eq!(events.last().ok_or("no event")?["cluster"]["uid"], uid.as_str());
    raygate.get("/clusters/demo").await?.problem(404, "NOT_FOUND");
    raygate.delete("/clusters/demo").await?.problem(404, "NOT_FOUND");
    assert!(outside.stored("demo").await?.is_none());
    assert_eq!(outside.pods().await?, 0);
    eventually("the service is gone", async || Ok((!outside.service(&service).await?).then_some(()))).await?;
    socket.close().await
}

/// Waits until the operator, too, has seen the cluster ready. It says so a moment later than the pods; before, a cluster
/// that loses a pod is PENDING again, not DEGRADED.
pub(crate) async fn provisioned(raygate: &Api, name: &str) -> Outcome {
    eventually("the operator has seen it ready", async || {
        let cluster = raygate.get(&format!("/clusters/{name}")).await?.json();
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = |condition: &Value| condition["type"] == "RayClusterProvisioned" && condition["status"] == "True";
        Ok(conditions.iter().any(said).then_some(()))
    })
    .await
}

/// The embedded backend, held beside the raygate that serves it.
struct Embedded(Backend);

impl Outside for Embedded {
    async fn stored(&self, name: &str) -> Outcome<Option<Value>> {
        match self.0.clusters.get("default", name).await {
            Ok(observed) => Ok(Some(observed.raw)),
            Err(ManagerError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn scale(&self, name: &str, replicas: u32) -> Outcome {
        loop {
            let held = self.0.clusters.get("default", name).await?;
            let mut groups = held.raw["spec"]["workerGroupSpecs"].clone();
            groups[0]["replicas"] = replicas.into();
            let patch = json!({"spec": {"workerGroupSpecs": groups}});
            match self.0.clusters.patch("default", name, held.resource_version(), &patch).await {
                Err(ManagerError::Conflict) => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    async fn pods(&self) -> Outcome<usize> {
        use futures::StreamExt as _;
        use raygate::manager::{Change, Scope};
        let mut changes = self.0.workloads.watch(&Scope::All).changes;
        let mut pods = 0;
        while let Some(change) = changes.next().await {
            match change {
                Change::Applied(_) => pods += 1,
                Change::Synced => break,
                Change::Reset | Change::Deleted(_) => pods = 0,
            }
        }
        Ok(pods)
    }

    async fn service(&self, name: &str) -> Outcome<bool> {
        // It has no Services: a cluster's is there as long as the cluster.
        Ok(self.stored("demo").await?.is_some_and(|cluster| cluster["status"]["head"]["serviceName"] == name))
    }
}

#[tokio::test]
async fn a_cluster_lives_and_goes_in_memory() -> Outcome {
    let delay = Duration::from_millis(300);
    let options = Options {
        namespaces: vec!["default".into()],
        pod_start_delay: delay,
        pod_stop_delay: delay,
        ..Options::default()
    };
    let backend = backend(options);
    let raygate = InProcess::open(&backend).await?;
    story(&raygate, &Embedded(backend), "default").await?;
    raygate.end().await
}
