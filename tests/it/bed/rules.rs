//! The operator's rules on the operator: what raygate refuses, it refuses too, and what raygate takes gets a head.

use k8s_openapi::api::core::v1::Event;

use super::*;

/// A RayCluster: a head and a group.
fn cluster() -> Value {
    let node = |name: &str| json!({"rayStartParams": {}, "template": {"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.52.0"}]}}});
    let mut group = node("ray-worker");
    group["groupName"] = json!("w");
    group["minReplicas"] = json!(0);
    group["maxReplicas"] = json!(2);
    json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {},
        "spec": {"rayVersion": "2.52.0", "headGroupSpec": node("ray-head"), "workerGroupSpecs": [group]},
    })
}

const HEAD: &str = "/spec/headGroupSpec";
const GROUP: &str = "/spec/workerGroupSpecs/0";
const CONTAINER: &str = "/spec/headGroupSpec/template/spec/containers/0";

/// What is put into a RayCluster: places (JSON Pointers, the last step may be new) and values.
type Change = Vec<(String, Value)>;

fn changed(change: &Change) -> Outcome<Value> {
    let mut object = cluster();
    for (place, value) in change {
        let (holder, member) = place.rsplit_once('/').ok_or("no place")?;
        let holder = object.pointer_mut(holder).ok_or_else(|| format!("no {holder}"))?;
        holder[member.replace("~1", "/")] = value.clone();
    }
    Ok(object)
}

fn env(name: &str, value: &str) -> (String, Value) {
    (format!("{CONTAINER}/env"), json!([{"name": name, "value": value}]))
}

fn spec(member: &str, value: Value) -> (String, Value) {
    (format!("/spec/{member}"), value)
}

fn annotation(name: &str, value: &str) -> (String, Value) {
    ("/metadata/annotations".to_owned(), json!({name: value}))
}

fn params(value: Value) -> (String, Value) {
    (format!("{HEAD}/rayStartParams"), value)
}

/// What the operator refuses, and where raygate says so.
fn refused() -> Vec<(Change, String)> {
    let fault_tolerance = || spec("gcsFaultToleranceOptions", json!({"redisAddress": "redis:6379"}));
    let autoscaler = || spec("enableInTreeAutoscaling", json!(true));
    let v2 = || spec("autoscalerOptions", json!({"version": "v2"}));
    let auth = |version: &str, options: Value| vec![spec("rayVersion", json!(version)), spec("authOptions", options)];
    let always = |at: &str| (format!("{at}/template/spec/restartPolicy"), json!("Always"));
    let first_env = || format!("{CONTAINER}/env/0");
    let at = |holder: &str, rest: &str| format!("{holder}/{rest}");
    vec![
        (vec![(format!("{HEAD}/template/spec/containers"), json!([]))], at(HEAD, "template/spec/containers/0")),
        (vec![(format!("{GROUP}/template/spec/containers"), json!([]))], at(GROUP, "template/spec/containers/0")),
        (vec![params(json!({"labels": "a=b"}))], at(HEAD, "rayStartParams/labels")),
        (
            vec![params(json!({"num-cpus": "1"})), (format!("{HEAD}/resources"), json!({"CPU": "1"}))],
            at(HEAD, "rayStartParams/num-cpus"),
        ),
        (
            vec![
                (format!("{GROUP}/rayStartParams"), json!({"memory": "1"})),
                (format!("{GROUP}/resources"), json!({"CPU": "1"})),
            ],
            at(GROUP, "rayStartParams/memory"),
        ),
        (vec![(format!("{HEAD}/labels"), json!({"zone": "no label"}))], at(HEAD, "labels/zone")),
        (vec![(format!("{GROUP}/labels"), json!({"a b": "x"}))], at(GROUP, "labels/a b")),
        (vec![(format!("{GROUP}/minReplicas"), json!(3))], at(GROUP, "maxReplicas")),
        (vec![(format!("{GROUP}/minReplicas"), json!(-1))], at(GROUP, "minReplicas")),
        (vec![(format!("{GROUP}/maxReplicas"), json!(-1))], at(GROUP, "maxReplicas")),
        (vec![(format!("{GROUP}/idleTimeoutSeconds"), json!(60))], at(GROUP, "idleTimeoutSeconds")),
        (vec![autoscaler(), v2(), (format!("{GROUP}/idleTimeoutSeconds"), json!(-1))], at(GROUP, "idleTimeoutSeconds")),
        (
            vec![autoscaler(), spec("autoscalerOptions", json!({"idleTimeoutSeconds": -1}))],
            "/spec/autoscalerOptions/idleTimeoutSeconds".to_owned(),
        ),
        (vec![env("RAY_enable_autoscaler_v2", "1")], first_env()),
        (vec![env("RAY_enable_autoscaler_v2", "true")], first_env()),
        (vec![autoscaler(), v2(), env("RAY_enable_autoscaler_v2", "0")], first_env()),
        (vec![autoscaler(), v2(), always(HEAD)], at(HEAD, "template/spec/restartPolicy")),
        (vec![autoscaler(), v2(), always(GROUP)], at(GROUP, "template/spec/restartPolicy")),
        (vec![autoscaler(), (format!("{GROUP}/suspend"), json!(true))], at(GROUP, "suspend")),
        (
            vec![fault_tolerance(), annotation("ray.io/ft-enabled", "true")],
            "/metadata/annotations/ray.io~1ft-enabled".to_owned(),
        ),
        (
            vec![fault_tolerance(), annotation("ray.io/external-storage-namespace", "a")],
            "/metadata/annotations/ray.io~1external-storage-namespace".to_owned(),
        ),
        (vec![fault_tolerance(), params(json!({"redis-password": "x"}))], at(HEAD, "rayStartParams/redis-password")),
        (vec![fault_tolerance(), env("REDIS_PASSWORD", "x")], first_env()),
        (vec![fault_tolerance(), env("RAY_REDIS_ADDRESS", "x")], first_env()),
        (vec![env("RAY_REDIS_ADDRESS", "x")], first_env()),
        (vec![env("REDIS_USERNAME", "x")], first_env()),
        (vec![params(json!({"redis-username": "x"}))], at(HEAD, "rayStartParams/redis-username")),
        (auth("2.51.0", json!({"mode": "token"})), "/spec/authOptions/mode".to_owned()),
        (
            vec![spec("rayVersion", Value::Null), spec("authOptions", json!({"mode": "token"}))],
            "/spec/rayVersion".to_owned(),
        ),
        (
            auth("2.54.0", json!({"mode": "token", "enableK8sTokenAuth": true})),
            "/spec/authOptions/enableK8sTokenAuth".to_owned(),
        ),
        (
            auth("2.55.0", json!({"mode": "token", "enableK8sTokenAuth": true, "secretName": "s"})),
            "/spec/authOptions/secretName".to_owned(),
        ),
        (auth("2.55.0", json!({"enableK8sTokenAuth": true})), "/spec/authOptions/enableK8sTokenAuth".to_owned()),
    ]
}

/// The nearest things that the operator takes.
fn taken() -> Vec<Change> {
    let autoscaler = || spec("enableInTreeAutoscaling", json!(true));
    let v2 = || spec("autoscalerOptions", json!({"version": "v2"}));
    vec![
        vec![],
        vec![params(json!({"num-cpus": ""})), (format!("{HEAD}/resources"), json!({"CPU": "1"}))],
        vec![v2(), (format!("{GROUP}/idleTimeoutSeconds"), json!(0))],
        vec![autoscaler(), env("RAY_enable_autoscaler_v2", "1"), (format!("{GROUP}/idleTimeoutSeconds"), json!(60))],
        vec![autoscaler(), v2(), (format!("{HEAD}/template/spec/restartPolicy"), json!("Never"))],
        vec![annotation("ray.io/ft-enabled", "True"), env("RAY_REDIS_ADDRESS", "redis:6379")],
        vec![env("REDIS_PASSWORD", "x")],
        vec![(format!("{GROUP}/suspend"), json!(true))],
        vec![spec("authOptions", json!({"mode": "token"}))],
        vec![spec("rayVersion", json!("2.40.0")), spec("authOptions", json!({}))],
    ]
}

/// Whether the operator has said that it doesn't take this RayCluster.
async fn is_refused(bed: &Bed, name: &str) -> Outcome<bool> {
    let events: Api<Event> = Api::namespaced(bed.client.clone(), &bed.namespace);
    let of_it = ListParams::default().fields(&format!("involvedObject.name={name},involvedObject.kind=RayCluster"));
    let reasons = events.list(&of_it).await?.items.into_iter().filter_map(|event| event.reason);
    Ok(reasons.into_iter().any(|reason| reason == "InvalidRayClusterSpec" || reason == "InvalidRayClusterMetadata"))
}

async fn has_head(bed: &Bed, name: &str) -> Outcome<bool> {
    let pods: Api<Pod> = Api::namespaced(bed.client.clone(), &bed.namespace);
    let head = ListParams::default().labels(&format!("ray.io/cluster={name},ray.io/node-type=head"));
    Ok(!pods.list(&head).await?.items.is_empty())
}

/// Makes RayClusters of these names past raygate, all at once.
async fn create(bed: &Bed, objects: &[(String, Value)]) -> Outcome {
    let list: Vec<_> = objects
        .iter()
        .map(|(name, object)| {
            let mut object = object.clone();
            object["metadata"]["name"] = json!(name);
            object
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": list});
    bed.kubectl(&["create", "-f", "-"], &list.to_string()).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_operator_refuses_what_raygate_refuses() -> Outcome {
    let bed = Bed::new("rules").await?;
    let raygate = Raygate::memory(&[]).await?;
    let mut objects = Vec::new();
    for (index, (change, pointer)) in refused().into_iter().enumerate() {
        let (name, mut object) = (format!("refused-{index}"), changed(&change)?);
        objects.push((name.clone(), object.clone()));
        object["metadata"]["name"] = json!(name);
        let answer = raygate.post("/clusters", &object).await?;
        assert_eq!(answer.status, 422, "{change:?}: {answer:?}");
        let errors = answer.json()["errors"].clone();
        let places: Vec<_> = errors.as_array().into_iter().flatten().map(|error| &error["pointer"]).collect();
        assert_eq!(places, [&json!(pointer)], "{change:?}: {errors}");
    }
    create(&bed, &objects).await?;
    for (name, object) in &objects {
        eventually(&format!("{name} is refused: {object}"), async || Ok(is_refused(&bed, name).await?.then_some(())))
            .await?;
        assert!(!has_head(&bed, name).await?, "{name}: {object}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_operator_takes_what_raygate_takes() -> Outcome {
    let bed = Bed::new("rules-taken").await?;
    let raygate = Raygate::memory(&[]).await?;
    let mut objects = Vec::new();
    for (index, change) in taken().into_iter().enumerate() {
        let (name, mut object) = (format!("taken-{index}"), changed(&change)?);
        objects.push((name.clone(), object.clone()));
        object["metadata"]["name"] = json!(name);
        let answer = raygate.post("/clusters", &object).await?;
        assert_eq!(answer.status, 201, "{change:?}: {answer:?}");
    }
    create(&bed, &objects).await?;
    for (name, object) in &objects {
        eventually(&format!("{name} has a head: {object}"), async || Ok(has_head(&bed, name).await?.then_some(())))
            .await?;
        assert!(!is_refused(&bed, name).await?, "{name}: {object}");
    }
    Ok(())
}
