//! What goes wrong with pods, in Kubernetes' own words: each backend tells the same story of the same spec. The ground has
//! a ConfigMap and a Secret `present` with the key `key`, and no other.

use raygate::manager::{ManagerError, Observed, Preconditions, Scope};
use raygate::ray::cluster::RayCluster;
use raygate::ray::facts::{ContainerFact, ContainerState, NodeFact, NodeRole, Termination, Why};
use serde_json::{Value, json};

use super::follow::{Follower, Picture};
use super::samples::{assert_error, cluster, group};
use super::{Ground, Outcome};

const HEAD: NodeRole = NodeRole::Head;
const WORKER: NodeRole = NodeRole::Worker;

/// A cluster, and someone who follows its pods.
struct Story<'a> {
    ground: &'a Ground,
    cluster: Observed<RayCluster>,
    pods: Follower<NodeFact>,
}

impl<'a> Story<'a> {
    /// Creates a cluster with a head and one worker; `spoil` edits the pod spec of the role.
    async fn of(ground: &'a Ground, role: NodeRole, spoil: impl FnOnce(&mut Value)) -> Outcome<Self> {
        let mut object = serde_json::to_value(cluster(&ground.namespace, "demo", 1)?)?;
        let group = if role == HEAD { "/spec/headGroupSpec" } else { "/spec/workerGroupSpecs/0" };
        spoil(object.pointer_mut(&format!("{group}/template/spec")).ok_or("no pod spec")?);
        let object = serde_json::from_value::<RayCluster>(object)?;
        let pods = Follower::new(ground.backend.workloads.watch(&Scope::Namespace(ground.namespace.clone())));
        let cluster = ground.backend.clusters.create(&object).await?;
        Ok(Self { ground, cluster, pods })
    }

    /// Follows until a pod of this role is so.
    async fn until(&mut self, role: NodeRole, what: &str, holds: impl Fn(&NodeFact) -> bool) -> Outcome<NodeFact> {
        let found = |pods: &Picture<NodeFact>| pods.values().find(|pod| pod.role == role && holds(pod)).cloned();
        Ok(found(self.pods.until(what, |pods| found(pods).is_some()).await?).ok_or("gone")?)
    }

    /// Follows until a container of a pod of this role waits for this reason.
    async fn until_waiting(&mut self, role: NodeRole, name: &str, reason: &str) -> Outcome<(NodeFact, Why)> {
        let waits = |pod: &NodeFact| waiting(pod, name).is_some_and(|why| why.reason == reason);
        let pod = self.until(role, &format!("{name} waits: {reason}"), waits).await?;
        let why = waiting(&pod, name).cloned().ok_or("it waits no longer")?;
        Ok((pod, why))
    }

    /// Follows until the last run of a container of this role ended so.
    async fn until_ended(&mut self, role: NodeRole, name: &str, reason: &str) -> Outcome<(NodeFact, Termination)> {
        let ended = |pod: &NodeFact| last(pod, name).is_some_and(|end| end.reason == reason);
        let pod = self.until(role, &format!("{name} ended: {reason}"), ended).await?;
        let end = last(&pod, name).cloned().ok_or("it has no last run")?;
        Ok((pod, end))
    }

    /// Follows until the operator says this of the head's readiness.
    async fn until_head_condition(&mut self, reason: &str) -> Outcome<Value> {
        let scope = Scope::Namespace(self.ground.namespace.clone());
        let mut clusters = Follower::new(self.ground.backend.clusters.watch(&scope));
        let condition = |object: &Observed<RayCluster>| {
            let conditions = object.raw["status"]["conditions"].as_array();
            conditions.into_iter().flatten().find(|condition| condition["type"] == "HeadPodReady").cloned()
        };
        let says = |object: &Observed<RayCluster>| condition(object).is_some_and(|found| found["reason"] == reason);
        let object = clusters.until_object(&self.cluster, &format!("HeadPodReady: {reason}"), says).await?;
        Ok(condition(&object).ok_or("no condition")?)
    }

    /// Deletes the cluster, whatever its pods are up to, and waits until nothing of it is left.
    async fn end(mut self) -> Outcome {
        let Ground { backend, namespace, .. } = self.ground;
        let mut clusters = Follower::new(backend.clusters.watch(&Scope::Namespace(namespace.clone())));
        clusters.until_synced().await?;
        backend.clusters.delete(namespace, "demo", &Preconditions::default()).await?;
        self.pods.until("no pod", Picture::is_empty).await?;
        clusters.until_gone(&self.cluster).await?;
        assert_error(self.ground.get("demo").await, &ManagerError::NotFound);
        Ok(())
    }
}

fn container<'a>(pod: &'a NodeFact, name: &str) -> Option<&'a ContainerFact> {
    pod.containers.iter().find(|container| container.name == name)
}

fn waiting<'a>(pod: &'a NodeFact, name: &str) -> Option<&'a Why> {
    match &container(pod, name)?.state {
        ContainerState::Waiting(why) => Some(why),
        ContainerState::Running(_) | ContainerState::Terminated(_) => None,
    }
}

/// How the container ended last.
fn last<'a>(pod: &'a NodeFact, name: &str) -> Option<&'a Termination> {
    let container = container(pod, name)?;
    match &container.state {
        ContainerState::Terminated(end) => Some(end),
        ContainerState::Waiting(_) | ContainerState::Running(_) => container.last.as_deref(),
    }
}

fn runs(pod: &NodeFact, name: &str) -> bool {
    container(pod, name).is_some_and(|container| matches!(container.state, ContainerState::Running(_)))
}

fn sidecar(command: &Value) -> Value {
    let policy = "FallbackToLogsOnError";
    json!({"name": "side", "image": "busybox:1.36", "command": command, "terminationMessagePolicy": policy})
}

fn add_sidecar(spec: &mut Value, command: &Value) {
    if let Some(containers) = spec["containers"].as_array_mut() {
        containers.push(sidecar(command));
    }
}

pub(crate) async fn unknown_image_keeps_a_worker_waiting(ground: &Ground) -> Outcome {
    let image = "rayproject/ray:9.9.9";
    let mut story = Story::of(ground, WORKER, |spec| spec["containers"][0]["image"] = json!(image)).await?;
    let full = "docker.io/rayproject/ray:9.9.9";
    let error = format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image \"{full}\": failed to resolve reference \"{full}\": {full}: not found"
    );
    let (_, why) = story.until_waiting(WORKER, "wait-gcs-ready", "ErrImagePull").await?;
    assert_eq!(why.message, error);
    let (pod, why) = story.until_waiting(WORKER, "wait-gcs-ready", "ImagePullBackOff").await?;
    assert_eq!(why.message, format!("Back-off pulling image \"{image}\": ErrImagePull: {error}"));

    assert_eq!((pod.phase.as_str(), pod.ready, pod.reason()), ("Pending", false, Some("ImagePullBackOff")));
    assert!(pod.host.is_some() && pod.unscheduled.is_none() && pod.verdict.is_none());
    let shape: Vec<_> = pod.containers.iter().map(|found| (found.name.as_str(), found.init, found.restarts)).collect();
    assert_eq!(shape, [("wait-gcs-ready", true, 0), ("ray-worker", false, 0)]);
    assert_eq!(waiting(&pod, "ray-worker").map(|why| why.reason.as_str()), Some("PodInitializing"));
    // After the back-off it is tried again.
    story.until_waiting(WORKER, "wait-gcs-ready", "ErrImagePull").await?;
    story.until(HEAD, "a ready head", |pod| pod.ready).await?;
    story.end().await
}

pub(crate) async fn mistyped_image_of_the_head_is_told_in_the_status(ground: &Ground) -> Outcome {
    let image = "rayproject/rya:2.52.0";
    let mut story = Story::of(ground, HEAD, |spec| spec["containers"][0]["image"] = json!(image)).await?;
    let (pod, why) = story.until_waiting(HEAD, "ray-head", "ImagePullBackOff").await?;
    let denied = "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed";
    assert!(why.message.ends_with(denied), "{}", why.message);
    assert_eq!((pod.phase.as_str(), pod.ready), ("Pending", false));

    let condition = story.until_head_condition("ImagePullBackOff").await?;
    let expected = format!("containers with unready status: [ray-head]; ray-head: {}", why.message);
    assert_eq!((&condition["status"], &condition["message"]), (&json!("False"), &json!(expected)));
    // Its worker waits for it.
    let pod = story.until(WORKER, "a worker that waits", |pod| runs(pod, "wait-gcs-ready")).await?;
    assert_eq!((pod.phase.as_str(), pod.reason()), ("Pending", Some("PodInitializing")));
    story.end().await
}

pub(crate) async fn private_image_needs_a_login(ground: &Ground) -> Outcome {
    let image = "private.example.com/team/ray:1.2";
    let mut story = Story::of(ground, HEAD, |spec| spec["containers"][0]["image"] = json!(image)).await?;
    let (_, why) = story.until_waiting(HEAD, "ray-head", "ErrImagePull").await?;
    let refused = format!(
        "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://private.example.com/oauth2/token?scope=repository%3Ateam%2Fray%3Apull&service=private.example.com: 401 Unauthorized"
    );
    assert_eq!(why.message, refused);
    story.end().await
}

pub(crate) async fn image_names_are_judged(ground: &Ground) -> Outcome {
    let invalid = "rayproject/ray:2.52.0:oops";
    let never = "rayproject/ray:2.99.99";
    let mut story = Story::of(ground, HEAD, |spec| {
        spec["containers"][0]["image"] = json!(invalid);
        add_sidecar(spec, &json!(["sleep", "infinity"]));
        spec["containers"][1]["image"] = json!(never);
        spec["containers"][1]["imagePullPolicy"] = json!("Never");
    })
    .await?;
    let (_, why) = story.until_waiting(HEAD, "ray-head", "InvalidImageName").await?;
    let message = format!(
        "Failed to apply default image tag \"{invalid}\": couldn't parse image name \"{invalid}\": invalid reference format"
    );
    assert_eq!(why.message, message);
    let (_, why) = story.until_waiting(HEAD, "side", "ErrImageNeverPull").await?;
    assert_eq!(why.message, format!("Container image \"{never}\" is not present with pull policy of Never"));
    story.end().await
}

pub(crate) async fn missing_references_keep_a_container_waiting(ground: &Ground) -> Outcome {
    let namespace = &ground.namespace;
    let key = |object: &str, key: &str| json!({"name": object, "key": key});
    let variable = |source: Value| json!([{"name": "A", "valueFrom": source}]);
    let cases = [
        (
            json!({"env": variable(json!({"secretKeyRef": key("absent", "key")}))}),
            "secret \"absent\" not found".to_owned(),
        ),
        (
            json!({"env": variable(json!({"secretKeyRef": key("present", "nokey")}))}),
            format!("couldn't find key nokey in Secret {namespace}/present"),
        ),
        (
            json!({"env": variable(json!({"configMapKeyRef": key("present", "nokey")}))}),
            format!("couldn't find key nokey in ConfigMap {namespace}/present"),
        ),
        (json!({"envFrom": [{"configMapRef": {"name": "absent"}}]}), "configmap \"absent\" not found".to_owned()),
    ];
    let mut story = Story::of(ground, HEAD, |spec| {
        for (index, (fields, _)) in cases.iter().enumerate() {
            let mut container = sidecar(&json!(["sleep", "infinity"]));
            container["name"] = json!(format!("side-{index}"));
            if let (Some(container), Some(fields)) = (container.as_object_mut(), fields.as_object()) {
                container.extend(fields.clone());
            }
            if let Some(containers) = spec["containers"].as_array_mut() {
                containers.push(container);
            }
        }
    })
    .await?;
    for (index, (_, message)) in cases.iter().enumerate() {
        let (pod, why) = story.until_waiting(HEAD, &format!("side-{index}"), "CreateContainerConfigError").await?;
        assert_eq!((why.message.as_str(), pod.phase.as_str(), pod.ready), (message.as_str(), "Pending", false));
    }
    story.until(HEAD, "Ray runs beside them", |pod| runs(pod, "ray-head")).await?;
    story.end().await
}

pub(crate) async fn optional_references_may_be_missing(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, HEAD, |spec| {
        let absent = json!({"name": "absent", "key": "key", "optional": true});
        let nokey = json!({"name": "present", "key": "nokey", "optional": true});
        let there = json!({"name": "present", "key": "key"});
        spec["volumes"] = json!([
            {"name": "a", "secret": {"secretName": "absent", "optional": true}},
            {"name": "b", "configMap": {"name": "present", "items": [{"key": "key", "path": "x"}]}},
        ]);
        spec["containers"][0]["volumeMounts"] =
            json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]);
        spec["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "absent", "optional": true}}]);
        spec["containers"][0]["env"] = json!([
            {"name": "A", "valueFrom": {"configMapKeyRef": absent}},
            {"name": "B", "valueFrom": {"secretKeyRef": nokey}},
            {"name": "C", "valueFrom": {"secretKeyRef": there}},
        ]);
    })
    .await?;
    story.until(HEAD, "a ready head", |pod| pod.ready).await?;
    story.end().await
}

pub(crate) async fn missing_volume_keeps_the_pod_creating(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, WORKER, |spec| {
        spec["volumes"] = json!([{"name": "settings", "configMap": {"name": "absent"}}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "settings", "mountPath": "/settings"}]);
    })
    .await?;
    story.until(WORKER, "a worker", |pod| pod.host.is_some()).await?;
    // It is never told in the pod's status: by the time that a worker made later is ready, this one isn't.
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", 1), group("later", 1)]}})).await?;
    story.until(WORKER, "the later worker", |pod| pod.group == "later" && pod.ready).await?;
    let pod = story.until(WORKER, "the first worker", |pod| pod.group == "small").await?;
    assert_eq!((pod.phase.as_str(), pod.reason(), pod.host.is_some()), ("Pending", Some("PodInitializing"), true));
    for name in ["wait-gcs-ready", "ray-worker"] {
        assert_eq!(waiting(&pod, name).map(|why| why.message.as_str()), Some(""), "{name}");
        assert!(container(&pod, name).is_some_and(|container| !container.in_trouble()), "{name}");
    }
    story.end().await
}

pub(crate) async fn failing_sidecar_is_restarted_with_back_off(ground: &Ground) -> Outcome {
    let command = json!(["sh", "-c", "echo loading; echo disk is full; exit 3"]);
    let mut story = Story::of(ground, WORKER, |spec| add_sidecar(spec, &command)).await?;
    let beside = |pod: &NodeFact| runs(pod, "ray-worker") && !runs(pod, "side") && last(pod, "side").is_some();
    let pod = story.until(WORKER, "Ray runs beside what ended", beside).await?;
    let end = last(&pod, "side").ok_or("no last run")?;
    assert_eq!((end.reason.as_str(), end.exit_code, end.message.as_str()), ("Error", 3, "loading\ndisk is full\n"));
    assert!(end.started.is_some() && end.started <= end.finished && !pod.ready);

    let mut seen = 0;
    for _ in 0..2 {
        let again = |pod: &NodeFact| {
            container(pod, "side").is_some_and(|side| side.restarts > seen)
                && waiting(pod, "side").is_some_and(|why| why.reason == "CrashLoopBackOff")
        };
        let pod = story.until(WORKER, "one more back-off", again).await?;
        seen = container(&pod, "side").map_or(0, |side| side.restarts);
        // A busy machine may be late for a short one.
        let delays = ["10s", "20s", "40s", "1m20s", "2m40s"];
        let delay = delays.get(usize::try_from(seen)? - 1).ok_or("so many restarts")?;
        let (name, namespace, uid) = (&pod.name, &pod.namespace, &pod.uid);
        let message = format!("back-off {delay} restarting failed container=side pod={name}_{namespace}({uid})");
        assert_eq!(waiting(&pod, "side").map(|why| why.message.as_str()), Some(message.as_str()));
        assert_eq!((pod.phase.as_str(), pod.reason(), pod.ready), ("Running", Some("CrashLoopBackOff"), false));
        assert_eq!(last(&pod, "side").map(|end| end.exit_code), Some(3));
    }
    let names = |pod: &NodeFact| pod.containers.iter().map(|found| found.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&pod), ["wait-gcs-ready", "ray-worker", "side"]);
    story.end().await
}

pub(crate) async fn failing_command_keeps_ray_from_starting(ground: &Ground) -> Outcome {
    let command = json!(["echo preparing; exit 4"]);
    let mut story = Story::of(ground, HEAD, |spec| spec["containers"][0]["command"] = command).await?;
    story.until_waiting(HEAD, "ray-head", "CrashLoopBackOff").await?;
    let (_, end) = story.until_ended(HEAD, "ray-head", "Error").await?;
    // Last words are asked for, or aren't told.
    assert_eq!((end.exit_code, end.message.as_str()), (4, ""));
    story.until_head_condition("CrashLoopBackOff").await?;
    story.end().await
}

pub(crate) async fn missing_programs_are_named(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, WORKER, |spec| {
        add_sidecar(spec, &json!(["no-such-binary", "--x"]));
        add_sidecar(spec, &json!(["sh", "-c", "no-such-tool --x"]));
        spec["containers"][2]["name"] = json!("shell");
    })
    .await?;
    let (_, end) = story.until_ended(WORKER, "side", "StartError").await?;
    let message = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: \"no-such-binary\": executable file not found in $PATH";
    assert_eq!((end.exit_code, end.message.as_str()), (128, message));
    assert_eq!(end.started.map(jiff::Timestamp::as_second), Some(0));
    let (_, end) = story.until_ended(WORKER, "shell", "Error").await?;
    assert_eq!((end.exit_code, end.message.as_str()), (127, "sh: no-such-tool: not found\n"));
    story.end().await
}

pub(crate) async fn image_without_ray_says_so(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, HEAD, |spec| {
        spec["containers"][0]["image"] = json!("python:3.11");
        spec["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    })
    .await?;
    let (_, end) = story.until_ended(HEAD, "ray-head", "Error").await?;
    assert_eq!((end.exit_code, end.message.as_str()), (127, "/bin/bash: line 1: ray: command not found\n"));
    story.end().await
}

pub(crate) async fn failing_init_container_stops_the_pod(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, HEAD, |spec| {
        let fetch = json!(["sh", "-c", "echo no license; exit 1"]);
        let first = json!({"name": "first", "image": "busybox:1.36", "command": ["sh", "-c", "true"]});
        let mut fetch = sidecar(&fetch);
        fetch["name"] = json!("fetch");
        spec["initContainers"] = json!([first, fetch]);
    })
    .await?;
    let (pod, _) = story.until_waiting(HEAD, "fetch", "CrashLoopBackOff").await?;
    assert_eq!((pod.phase.as_str(), pod.reason()), ("Pending", Some("CrashLoopBackOff")));
    let end = last(&pod, "fetch").ok_or("no last run")?;
    assert_eq!((end.exit_code, end.message.as_str()), (1, "no license\n"));
    let first = container(&pod, "first").ok_or("no first container")?;
    assert!(matches!(&first.state, ContainerState::Terminated(end) if end.reason == "Completed"));
    assert!(first.ready && first.init && !first.in_trouble());
    assert_eq!(waiting(&pod, "ray-head").map(|why| why.reason.as_str()), Some("PodInitializing"));
    story.end().await
}

pub(crate) async fn too_much_memory_is_killed(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, HEAD, |spec| {
        let ray = &mut spec["containers"][0];
        ray["env"] = json!([{"name": "RAY_FAKE_ALLOC", "value": "8Gi"}]);
        ray["resources"] = json!({"limits": {"cpu": "100m", "memory": "1Gi"}});
    })
    .await?;
    let (_, end) = story.until_ended(HEAD, "ray-head", "OOMKilled").await?;
    assert_eq!(end.exit_code, 137);
    let (pod, _) = story.until_waiting(HEAD, "ray-head", "CrashLoopBackOff").await?;
    assert_eq!((pod.ready, pod.phase.as_str()), (false, "Running"));
    story.end().await
}

/// The scheduler's answer to a worker that is spoiled so: its reason, and a message that begins like this.
async fn unschedulable(ground: &Ground, spoil: impl FnOnce(&mut Value), why: &str) -> Outcome {
    let mut story = Story::of(ground, WORKER, spoil).await?;
    let pod = story.until(WORKER, "the scheduler's answer", |pod| pod.unscheduled.is_some()).await?;
    let unscheduled = pod.unscheduled.as_deref().ok_or("scheduled")?;
    assert_eq!(unscheduled.reason, "Unschedulable");
    assert_eq!(
        unscheduled.message,
        format!(
            "0/3 nodes are available: {why}. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
    );
    assert!(unscheduled.since.is_some());
    assert_eq!((pod.phase.as_str(), pod.reason(), pod.host.as_deref()), ("Pending", Some("Unschedulable"), None));
    assert_eq!((pod.containers.len(), pod.ready, pod.ready_since), (0, false, None));

    // Once nobody wants it any longer nothing is amiss.
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", 0)]}})).await?;
    story.pods.until("only a ready head", |pods| pods.len() == 1 && pods.values().all(|pod| pod.ready)).await?;
    story.end().await
}

pub(crate) async fn too_many_cpus_fit_nowhere(ground: &Ground) -> Outcome {
    let requests = json!({"requests": {"cpu": "100000", "memory": "64Mi"}});
    unschedulable(ground, |spec| spec["containers"][0]["resources"] = requests, "3 Insufficient cpu").await
}

pub(crate) async fn too_much_of_several_things_fits_nowhere(ground: &Ground) -> Outcome {
    let limits = json!({"limits": {"memory": "900Ti", "nvidia.com/gpu": 9000}});
    let why = "3 Insufficient memory, 3 Insufficient nvidia.com/gpu";
    unschedulable(ground, |spec| spec["containers"][0]["resources"] = limits, why).await
}

pub(crate) async fn unmatched_node_selector_fits_nowhere(ground: &Ground) -> Outcome {
    let why = "3 node(s) didn't match Pod's node affinity/selector";
    unschedulable(ground, |spec| spec["nodeSelector"] = json!({"pool": "no-such-pool"}), why).await
}

pub(crate) async fn unschedulable_head_is_unknown_to_the_operator(ground: &Ground) -> Outcome {
    let requests = json!({"requests": {"cpu": "100000"}});
    let mut story = Story::of(ground, HEAD, |spec| spec["containers"][0]["resources"] = requests).await?;
    story.until(HEAD, "the scheduler's answer", |pod| pod.unscheduled.is_some()).await?;
    let condition = story.until_head_condition("Unknown").await?;
    assert_eq!((&condition["status"], &condition["message"]), (&json!("False"), &json!("")));
    story.end().await
}

pub(crate) async fn corrected_image_helps_new_pods_alone(ground: &Ground) -> Outcome {
    let image = "rayproject/ray:9.9.9";
    let mut story = Story::of(ground, WORKER, |spec| spec["containers"][0]["image"] = json!(image)).await?;
    let (spoiled, _) = story.until_waiting(WORKER, "wait-gcs-ready", "ErrImagePull").await?;
    // The operator replaces no pod for a change of its template; it takes a scale to nothing and back.
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", 1)]}})).await?;
    let (pod, _) = story.until_waiting(WORKER, "wait-gcs-ready", "ImagePullBackOff").await?;
    assert_eq!((&pod.uid, pod.deleting), (&spoiled.uid, false));
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", 0)]}})).await?;
    story.pods.until("no worker", |pods| pods.values().all(|pod| pod.role != WORKER)).await?;
    ground.edit("demo", &json!({"spec": {"workerGroupSpecs": [group("small", 1)]}})).await?;
    let pod = story.until(WORKER, "a ready worker", |pod| pod.ready).await?;
    assert_ne!(pod.uid, spoiled.uid);
    story.end().await
}

pub(crate) async fn finished_worker_is_replaced(ground: &Ground) -> Outcome {
    let mut story = Story::of(ground, WORKER, |spec| {
        spec["restartPolicy"] = json!("Never");
        spec["containers"][0]["command"] = json!(["exit 4"]);
    })
    .await?;
    let (pod, end) = story.until_ended(WORKER, "ray-worker", "Error").await?;
    assert_eq!((pod.phase.as_str(), end.exit_code), ("Failed", 4));
    let first = pod.uid;
    let another = |pod: &NodeFact| pod.uid != first && last(pod, "ray-worker").is_some();
    let pod = story.until(WORKER, "another worker that fails", another).await?;
    assert_eq!((pod.phase.as_str(), container(&pod, "ray-worker").map(|found| found.restarts)), ("Failed", Some(0)));
    story.end().await
}

/// What takes machines down and up.
pub(crate) trait Machines {
    /// The machine's kubelet falls silent, or speaks again.
    async fn set_silent(&self, machine: &str, silent: bool) -> Outcome;
}

/// The pods of a lost machine run on as far as anybody knows, and aren't ready; until it is back. Not among the promises:
/// on a shared backend it would disturb the others.
pub(crate) async fn lost_machine_makes_its_pods_unready(ground: &Ground, machines: &impl Machines) -> Outcome {
    let mut story = Story::of(ground, HEAD, |_| ()).await?;
    let head = story.until(HEAD, "a head that is ready", |pod| pod.ready).await?;
    let machine = head.host.clone().ok_or("it runs nowhere")?;
    story.until_head_condition("HeadPodRunningAndReady").await?;

    machines.set_silent(&machine, true).await?;
    let lost = story.until(HEAD, "a head that is lost", |pod| !pod.ready).await?;
    assert_eq!((&lost.uid, lost.phase.as_str(), lost.deleting), (&head.uid, "Running", false));
    assert_eq!(lost.containers, head.containers, "of its containers nothing new is known");
    let condition = story.until_head_condition("Unknown").await?;
    assert_eq!(condition["status"], "False", "{condition}");

    machines.set_silent(&machine, false).await?;
    let back = story.until(HEAD, "a head that is back", |pod| pod.ready).await?;
    assert_eq!(back.uid, head.uid, "it is the same pod");
    story.until_head_condition("HeadPodRunningAndReady").await?;
    story.end().await
}
