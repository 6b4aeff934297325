//! What a user may not have in pods, by each way that it can be asked for. What each rule is about in all its cases, its
//! own tests say; here it is that no way goes round them.

mod autoscaler;

use http::Method;
use serde_json::{Value, json};

use super::{UNLIMITED, held, owned};
use crate::support::{Answer, Guarded, Outcome};

const PEOPLE: &[(&str, &[&str])] = &[("alice", &[]), ("bob", &[]), ("carl", &[]), ("olga", &[]), ("adam", &[])];

const POLICY: &str = r#"
version: 1
grants:
- {users: [alice], namespaces: [default], role: user, podRules: scaling}
- {users: [bob], namespaces: [default], role: user}
- {users: [carl], namespaces: [default], role: user, podRules: narrow}
- {users: [olga], namespaces: ["*"], role: operator}
- {users: [adam], namespaces: ["*"], role: admin}
podRules:
  narrow: {images: ["rayproject/*"], hostPaths: ["/data", "/data/*"], autoscaler: true}
  scaling: {autoscaler: true}
"#;

/// With `mine` of alice's.
async fn start() -> Outcome<Guarded> {
    let guarded = Guarded::memory(PEOPLE, POLICY, &UNLIMITED).await?;
    let answer = guarded.create("alice", &json!({"name": "mine", "workerGroups": {"w": {"replicas": 1}}})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(guarded)
}

/// Something that isn't allowed: what is sent, where in it the thing is, by which rule.
type Forbidden = (Value, String, &'static str);

/// Of a head or a worker group, by the document's own members.
fn members() -> Vec<(Value, &'static str, &'static str)> {
    let reference = json!({"name": "s", "key": "k"});
    let volume = |source: &str, value: Value| json!({"volumes": {"v": {source: value, "mountPath": "/v"}}});
    let copied = json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "s"}}}});
    vec![
        (volume("hostPath", json!({"path": "/etc"})), "/volumes", "hostPaths"),
        (volume("secret", json!("s")), "/volumes", "secrets"),
        (volume("secret", json!({"secretName": "s"})), "/volumes", "secrets"),
        (volume("configMap", json!("s")), "/volumes", "configMaps"),
        (volume("claim", json!("s")), "/volumes", "claims"),
        (volume("ephemeral", copied), "/volumes", "claims"),
        (json!({"env": {"A": {"secretKeyRef": reference}}}), "/env", "secrets"),
        (json!({"env": {"A": {"configMapKeyRef": reference}}}), "/env", "configMaps"),
        (json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "/securityContext", "privileged"),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
            "/securityContext",
            "privileged",
        ),
        (json!({"serviceAccount": "admin"}), "/serviceAccount", "serviceAccounts"),
        (json!({"priorityClassName": "system-node-critical"}), "/priorityClassName", "priorityClasses"),
        (json!({"imagePullSecrets": ["s"]}), "/imagePullSecrets", "imagePullSecrets"),
        (json!({"labels": {"kueue.x-k8s.io/priority-class": "high"}}), "/labels", "priorityClasses"),
        (json!({"rayLabels": {"priorityClassName": "high"}}), "/rayLabels", "priorityClasses"),
    ]
}

/// Of a pod's spec.
fn pod_specs() -> Vec<(Value, &'static str)> {
    let volume = |source: &str, value: Value| json!({"volumes": [{"name": "v", source: value}]});
    let projected = json!({"sources": [{"secret": {"name": "s"}}]});
    let side = |kind: &str, more: Value| {
        let mut container = json!({"name": "side", "image": "busybox:1"});
        container
            .as_object_mut()
            .into_iter()
            .for_each(|members| members.extend(more.as_object().cloned().unwrap_or_default()));
        json!({kind: [container]})
    };
    let mut specs = vec![
        (json!({"hostNetwork": true}), "hostNamespaces"),
        (json!({"hostPID": true}), "hostNamespaces"),
        (json!({"hostIPC": true}), "hostNamespaces"),
        (json!({"nodeName": "control-plane"}), "nodeNames"),
        (json!({"serviceAccountName": "admin"}), "serviceAccounts"),
        (json!({"priorityClassName": "system-node-critical"}), "priorityClasses"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "imagePullSecrets"),
        (json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}), "privileged"),
        (json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), "hostNamespaces"),
        (volume("hostPath", json!({"path": "/"})), "hostPaths"),
        (volume("hostPath", json!({"path": "/var/run/docker.sock", "type": "Socket"})), "hostPaths"),
        (volume("nfs", json!({"server": "s", "path": "/"})), "volumeTypes"),
        (volume("csi", json!({"driver": "d"})), "volumeTypes"),
        (volume("secret", json!({"secretName": "s"})), "secrets"),
        (volume("projected", projected), "secrets"),
        (volume("persistentVolumeClaim", json!({"claimName": "s"})), "claims"),
    ];
    for kind in ["containers", "initContainers"] {
        specs.extend([
            (side(kind, json!({"securityContext": {"privileged": true}})), "privileged"),
            (side(kind, json!({"securityContext": {"procMount": "Unmasked"}})), "privileged"),
            (side(kind, json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}})), "capabilities"),
            (side(kind, json!({"ports": [{"containerPort": 80, "hostPort": 80}]})), "hostNamespaces"),
            (side(kind, json!({"envFrom": [{"secretRef": {"name": "s"}}]})), "secrets"),
            (side(kind, json!({"envFrom": [{"configMapRef": {"name": "s"}}]})), "configMaps"),
            (
                side(kind, json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})),
                "secrets",
            ),
        ]);
    }
    specs
}

/// Of a cluster, by the document's own members.
fn of_clusters() -> Vec<Forbidden> {
    let secret = json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    let variable = json!({"name": "A", "valueFrom": secret["valueFrom"]});
    let on = |more: Value| {
        let mut autoscaling = json!({"enabled": true});
        autoscaling
            .as_object_mut()
            .into_iter()
            .for_each(|members| members.extend(more.as_object().cloned().unwrap_or_default()));
        json!({"autoscaling": autoscaling})
    };
    let cases = vec![
        (json!({"labels": {"ray.io/priority-class-name": "high"}}), "/labels", "priorityClasses"),
        (json!({"labels": {"kueue.x-k8s.io/priority-class": "high"}}), "/labels", "priorityClasses"),
        (json!({"labels": {"priorityClassName": "high"}}), "/labels", "priorityClasses"),
        (json!({"headService": {"type": "LoadBalancer"}}), "/headService", "serviceTypes"),
        (json!({"headService": {"type": "NodePort"}}), "/headService", "serviceTypes"),
        (json!({"headService": {"spec": {"externalIPs": ["10.0.0.1"]}}}), "/headService", "serviceTypes"),
        (json!({"headService": {"spec": {"selector": {"a": "b"}}}}), "/headService", "serviceTypes"),
        (json!({"headService": {"metadata": {"name": "theirs-head-svc"}}}), "/headService", "serviceNames"),
        (json!({"ingress": {"enabled": true}}), "/ingress", "ingressHosts"),
        (on(json!({"securityContext": {"privileged": true}})), "/autoscaling", "privileged"),
        (on(json!({"securityContext": {"capabilities": {"add": ["ALL"]}}})), "/autoscaling", "capabilities"),
        (on(json!({"env": [variable]})), "/autoscaling", "secrets"),
        (on(json!({"envFrom": [{"secretRef": {"name": "s"}}]})), "/autoscaling", "secrets"),
        (
            json!({"gcsFaultTolerance": {"redisAddress": "redis:6379", "redisPassword": secret}}),
            "/gcsFaultTolerance",
            "secrets",
        ),
        (
            json!({"gcsFaultTolerance": {"redisAddress": "redis:6379", "redisUsername": secret}}),
            "/gcsFaultTolerance",
            "secrets",
        ),
    ];
    cases.into_iter().map(|(document, at, rule)| (document, at.to_owned(), rule)).collect()
}

/// Everything as documents: by short members and by `podTemplate`, of the head and of groups, the one that is there too.
fn documents() -> Vec<Forbidden> {
    let mut documents = of_clusters();
    for (at, wrap) in [
        ("/head", (|node| json!({"head": node})) as fn(Value) -> Value),
        ("/workerGroups/w", |node| json!({"workerGroups": {"w": node}})),
        ("/workerGroups/new", |node| json!({"workerGroups": {"w": {}, "new": node}})),
    ] {
        for (node, member, rule) in members() {
            documents.push((wrap(node), format!("{at}{member}"), rule));
        }
        for (spec, rule) in pod_specs() {
            documents.push((wrap(json!({"podTemplate": {"spec": spec}})), format!("{at}/podTemplate"), rule));
        }
        let profile = json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/ray": "unconfined"}});
        documents.push((wrap(profile), format!("{at}/annotations"), "privileged"));
    }
    documents
}

/// A whole RayCluster with one worker group, to which this is added: at a place, a value.
fn manifest(name: &str, at: &str, value: &Value) -> Outcome<Value> {
    let template = json!({"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}});
    let group = json!({"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 2, "rayStartParams": {}, "template": template});
    let head = json!({"rayStartParams": {}, "template": template});
    let spec = json!({"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": [group]});
    let mut object = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name, "labels": {}}, "spec": spec});
    let (parent, _) = at.rsplit_once('/').ok_or("no place")?;
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(|| format!("no {parent}"))?;
    let key = at.rsplit('/').next().unwrap_or_default().replace("~1", "/");
    match (parent.get_mut(&key), value) {
        // A sidecar comes behind the Ray container.
        (Some(Value::Array(there)), Value::Array(more)) => there.extend(more.iter().cloned()),
        _ => drop(parent.insert(key, value.clone())),
    }
    Ok(object)
}

/// Everything of RayClusters: place, value, rule.
fn places() -> Vec<(String, Value, &'static str)> {
    let mut places = vec![
        ("/metadata/labels/ray.io~1priority-class-name".to_owned(), json!("high"), "priorityClasses"),
        ("/spec/headGroupSpec/serviceType".to_owned(), json!("LoadBalancer"), "serviceTypes"),
        ("/spec/headGroupSpec/headService".to_owned(), json!({"spec": {"type": "NodePort"}}), "serviceTypes"),
        (
            "/spec/headGroupSpec/headService".to_owned(),
            json!({"metadata": {"name": "theirs-head-svc"}}),
            "serviceNames",
        ),
        ("/spec/headGroupSpec/enableIngress".to_owned(), json!(true), "ingressHosts"),
        ("/spec/autoscalerOptions".to_owned(), json!({"securityContext": {"privileged": true}}), "privileged"),
        ("/spec/autoscalerOptions".to_owned(), json!({"envFrom": [{"secretRef": {"name": "s"}}]}), "secrets"),
        (
            "/spec/gcsFaultToleranceOptions".to_owned(),
            json!({"redisAddress": "r:1", "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}}),
            "secrets",
        ),
    ];
    for group in ["/spec/headGroupSpec", "/spec/workerGroupSpecs/0"] {
        for (spec, rule) in pod_specs() {
            for (member, value) in spec.as_object().into_iter().flatten() {
                places.push((format!("{group}/template/spec/{member}"), value.clone(), rule));
            }
        }
    }
    places
}

/// Whether the answer refuses this for the rule, and says where in what was sent.
fn refuses(answer: &Answer, sent: &Value, at: &str, rule: &str) -> bool {
    let problem = answer.json();
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    let names = |error: &Value| {
        let pointer = error["pointer"].as_str().unwrap_or("?");
        let message = error["message"].as_str().unwrap_or_default();
        pointer.starts_with(at) && sent.pointer(pointer).is_some() && message.contains(&format!("`{rule}`"))
    };
    let told = !errors.is_empty() && errors.iter().all(|error| names(error) && error["code"] == "NOT_ALLOWED");
    answer.status == 403 && problem["code"] == "POD_NOT_ALLOWED" && told
}

/// Sends a body by one way.
async fn send(
    guarded: &Guarded,
    user: &str,
    (method, path): (Method, &str),
    yaml: bool,
    body: &Value,
) -> Outcome<Answer> {
    let bearer = guarded.bearer(user);
    let media_type = if yaml { "application/yaml" } else { "application/json" };
    let headers = [("authorization", bearer.as_str()), ("content-type", media_type), ("if-match", "*")];
    let headers = if path == "/clusters/mine" { &headers[..] } else { &headers[..2] };
    guarded.send(method, path, headers, body.to_string()).await
}

/// Checks that alice is refused this by each of these ways, and that nothing comes of it.
async fn is_refused(
    guarded: &Guarded,
    ways: &[(Method, &str, bool, &Value)],
    (at, rule): (&str, &str),
    wrong: &mut Vec<String>,
) -> Outcome {
    for (method, path, yaml, body) in ways {
        let answer = send(guarded, "alice", (method.clone(), path), *yaml, body).await?;
        if !refuses(&answer, body, at, rule) {
            wrong.push(format!("{method} {path} {body} ({rule} {at}): {} {:?}", answer.status, answer.body));
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_document_goes_round_the_rules() -> Outcome {
    let guarded = start().await?;
    let before = owned(&held(&guarded, "mine.default").await?);
    let mut wrong = Vec::new();
    for (document, at, rule) in documents() {
        let [mut named, mut whole] = [document.clone(), document.clone()];
        named["name"] = json!("fresh");
        whole["rayVersion"] = json!("2.52.0");
        let ways = [
            (Method::POST, "/clusters", false, &named),
            (Method::POST, "/clusters", true, &named),
            (Method::PUT, "/clusters/fresh", false, &document),
            (Method::PUT, "/clusters/mine", false, &whole),
            (Method::PATCH, "/clusters/mine", false, &document),
            (Method::PATCH, "/clusters/mine", true, &document),
        ];
        is_refused(&guarded, &ways, (&at, rule), &mut wrong).await?;
    }
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), wrong);
    assert_eq!(owned(&held(&guarded, "mine.default").await?), before);
    guarded.ask("alice", Method::GET, "/clusters/fresh", "").await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn no_manifest_goes_round_the_rules() -> Outcome {
    let guarded = start().await?;
    let before = owned(&held(&guarded, "mine.default").await?);
    let mut wrong = Vec::new();
    for (at, value, rule) in places() {
        let (fresh, mine) = (manifest("fresh", &at, &value)?, manifest("mine", &at, &value)?);
        let ways = [
            (Method::POST, "/clusters", false, &fresh),
            (Method::POST, "/clusters", true, &fresh),
            (Method::PUT, "/clusters/fresh", true, &fresh),
            (Method::PUT, "/clusters/mine", false, &mine),
            (Method::PUT, "/clusters/mine", true, &mine),
        ];
        is_refused(&guarded, &ways, (&at, rule), &mut wrong).await?;
    }
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), wrong);
    assert_eq!(owned(&held(&guarded, "mine.default").await?), before);
    guarded.ask("alice", Method::GET, "/clusters/fresh", "").await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn admins_may_have_all_of_it() -> Outcome {
    let guarded = start().await?;
    let mut bodies = Vec::new();
    for (index, (mut document, _, _)) in documents().into_iter().enumerate() {
        document["name"] = json!(format!("d{index}"));
        bodies.push(document);
    }
    for (index, (at, value, _)) in places().into_iter().enumerate() {
        bodies.push(manifest(&format!("m{index}"), &at, &value)?);
    }
    let mut wrong = Vec::new();
    for body in bodies {
        let answer = send(&guarded, "adam", (Method::POST, "/clusters"), false, &body).await?;
        if answer.status != 201 {
            wrong.push(format!("{body}: {} {:?}", answer.status, answer.body));
        }
    }
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), wrong);
    Ok(())
}

#[tokio::test]
async fn all_that_is_not_allowed_is_told_at_once() -> Outcome {
    let guarded = start().await?;
    let document = json!({
        "name": "fresh", "head": {"serviceAccount": "admin", "podTemplate": {"spec": {"hostNetwork": true}}},
        "headService": {"type": "LoadBalancer"},
        "workerGroups": {"w": {"volumes": {"v": {"hostPath": {"path": "/"}, "mountPath": "/v"}}}},
    });
    let problem = guarded.create("alice", &document).await?.problem(403, "POD_NOT_ALLOWED");
    let errors = problem["errors"].as_array().ok_or("no errors")?;
    for (at, rule) in [
        ("/head/serviceAccount", "serviceAccounts"),
        ("/head/podTemplate", "hostNamespaces"),
        ("/headService", "serviceTypes"),
        ("/workerGroups/w/volumes", "hostPaths"),
    ] {
        let told =
            errors.iter().filter(|error| error["pointer"].as_str().is_some_and(|pointer| pointer.starts_with(at)));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 1, "{at}: {problem}");
        assert!(told[0]["message"].as_str().is_some_and(|text| text.contains(&format!("`{rule}`"))), "{problem}");
    }
    assert_eq!(errors.len(), 4, "{problem}");
    // Faults come before rules: what can't be is told to anybody.
    let wrong = json!({"name": "Fresh", "head": {"serviceAccount": "admin"}});
    guarded.create("alice", &wrong).await?.problem(422, "INVALID");
    Ok(())
}

#[tokio::test]
async fn what_an_admin_gave_is_kept_and_not_spread() -> Outcome {
    let guarded = start().await?;
    let volumes = json!({"v": {"hostPath": {"path": "/disks"}, "mountPath": "/v"}});
    let groups = json!({"given": {"replicas": 1, "maxReplicas": 9, "volumes": volumes}, "plain": {"replicas": 1}});
    let answer = guarded.create("adam", &json!({"name": "given", "workerGroups": groups})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let hand = guarded.ask("olga", Method::POST, "/clusters/given.default/owner", r#"{"owner": "alice"}"#).await?;
    assert_eq!(hand.status, 200, "{hand:?}");
    let patch = async |body: Value| guarded.ask("alice", Method::PATCH, "/clusters/given", body.to_string()).await;
    for allowed in [
        json!({"workerGroups": {"given": {"replicas": 3}}}),
        json!({"workerGroups": {"given": {"minReplicas": 1, "maxReplicas": 5}}}),
        json!({"workerGroups": {"plain": {"env": {"A": "b"}}}}),
        json!({"workerGroups": {"new": {"replicas": 1}}}),
        json!({"head": {"env": {"A": "b"}}, "labels": {"a": "b"}}),
        json!({"suspended": true}),
    ] {
        let answer = patch(allowed.clone()).await?;
        assert_eq!(answer.status, 200, "{allowed}: {answer:?}");
    }
    let before = owned(&held(&guarded, "given.default").await?);
    for refused in [
        json!({"workerGroups": {"given": {"env": {"A": "b"}}}}),
        json!({"workerGroups": {"given": {"cpu": "2"}}}),
        json!({"workerGroups": {"given": {"replicas": 4, "labels": {"a": "b"}}}}),
        json!({"workerGroups": {"given": {"volumes": {"v": {"hostPath": {"path": "/"}}}}}}),
        json!({"workerGroups": {"given": {"volumes": {"w": {"hostPath": {"path": "/disks"}, "mountPath": "/w"}}}}}),
        json!({"workerGroups": {"other": {"volumes": volumes}}}),
        json!({"workerGroups": {"plain": {"volumes": volumes}}}),
        json!({"head": {"volumes": volumes}}),
    ] {
        let problem = patch(refused.clone()).await?.problem(403, "POD_NOT_ALLOWED");
        assert!(problem["errors"][0]["message"].as_str().is_some_and(|text| text.contains("`hostPaths`")), "{problem}");
    }
    assert_eq!(owned(&held(&guarded, "given.default").await?), before);
    // Without it, it is alice's to change.
    let answer = patch(json!({"workerGroups": {"given": {"volumes": null, "env": {"A": "b"}}}})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    patch(json!({"workerGroups": {"given": {"volumes": volumes}}})).await?.problem(403, "POD_NOT_ALLOWED");
    Ok(())
}

#[tokio::test]
async fn a_policy_may_allow_some_of_it() -> Outcome {
    let guarded = start().await?;
    let image = |image: &str| json!({"name": "fresh", "image": image});
    let of_group = |image: &str| json!({"name": "fresh", "workerGroups": {"w": {"image": image}}});
    let side = |image: &str| {
        let side = json!({"name": "side", "image": image});
        json!({"name": "fresh", "head": {"podTemplate": {"spec": {"initContainers": [side]}}}})
    };
    let autoscaler = |image: &str| json!({"name": "fresh", "autoscaling": {"enabled": true, "image": image}});
    for document in [image, of_group, side, autoscaler].map(|document| document("evil.example/miner:1")) {
        let problem = guarded.create("carl", &document).await?.problem(403, "POD_NOT_ALLOWED");
        for error in problem["errors"].as_array().into_iter().flatten() {
            assert!(error["message"].as_str().is_some_and(|text| text.contains("`images`")), "{problem}");
            assert_eq!(error["allowed"], json!(["rayproject/*"]), "{problem}");
            let pointer = error["pointer"].as_str().unwrap_or("?");
            assert!(document.pointer(pointer).is_some(), "{pointer} of {document}: {problem}");
        }
    }
    let volume = |path: &str| json!({"name": "fresh", "head": {"volumes": {"v": {"hostPath": {"path": path}, "mountPath": "/v"}}}});
    for path in ["/", "/etc", "/data/../etc", "/data/", "/data/./x", "//data", "/database", "/data/x/..", "data"] {
        guarded.create("carl", &volume(path)).await?.problem(403, "POD_NOT_ALLOWED");
    }
    guarded.ask("adam", Method::GET, "/clusters/fresh", "").await?.problem(404, "NOT_FOUND");
    let answer = guarded.create("carl", &volume("/data/sets")).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(())
}
