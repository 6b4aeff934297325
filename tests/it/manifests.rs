//! A whole RayCluster as a body, and YAML wherever JSON is taken.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Outcome, Raygate, faults};

async fn post_yaml(raygate: &Raygate, text: &str) -> Outcome<Answer> {
    raygate.send(Method::POST, "/clusters", &[("content-type", "application/yaml")], text.to_owned()).await
}

fn found(faults: &[(&str, &str)]) -> Vec<(String, String)> {
    faults.iter().map(|(pointer, code)| ((*pointer).to_owned(), (*code).to_owned())).collect()
}

/// As kubectl users have it, with what only they use.
const MANIFEST: &str = "\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: sample
  labels: {team: vision}
  annotations:
    note: \"a try\"
    kubectl.kubernetes.io/last-applied-configuration: '{}'
    raygate.dev/deletion-protection: v1
  uid: 3f1c
  resourceVersion: '7'
  generation: 3
  creationTimestamp: null
  managedFields: [{manager: kubectl}]
spec:
  rayVersion: '2.52.0'
  headGroupSpec:
    rayStartParams:
      dashboard-host: '0.0.0.0'
    template:
      spec:
        containers:
        - name: ray-head
          image: rayproject/ray:2.52.0
          resources: &amounts
            limits: {cpu: 1, memory: 2G}
            requests: {cpu: 1, memory: 2G}
          ports:
          - containerPort: 6379
          volumeMounts:
          - {mountPath: /code, name: code}
        volumes:
        - name: code
          emptyDir: {}
  workerGroupSpecs:
  - groupName: w
    replicas: 1
    minReplicas: 0
    maxReplicas: 3
    template:
      spec:
        topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
        containers:
        - name: ray-worker
          image: rayproject/ray:2.52.0
          resources: *amounts
status:
  state: ready
";

#[tokio::test]
async fn a_ray_cluster_is_a_body() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = post_yaml(&raygate, MANIFEST).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("location"), "clusters/sample.default");
    let cluster = answer.json();
    let dropped: Vec<_> =
        cluster["warnings"].as_array().ok_or("no warnings")?.iter().map(|it| &it["pointer"]).collect();
    assert_eq!(
        dropped,
        [
            "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
            "/metadata/annotations/raygate.dev~1deletion-protection"
        ]
    );
    assert_eq!((&cluster["labels"], &cluster["annotations"]), (&json!({"team": "vision"}), &json!({"note": "a try"})));
    assert_eq!(cluster["head"]["cpu"], "1");
    assert_eq!(cluster["head"]["volumes"], json!({"code": {"emptyDir": {}, "mountPath": "/code"}}));
    assert_eq!(cluster["workerGroups"]["w"]["memory"], "2G");

    // Stored as it was written, but for what the server writes.
    let manifest = raygate.get("/clusters/sample/manifest").await?.json();
    assert_eq!(
        (&manifest["metadata"]["generation"], &manifest["metadata"]["managedFields"]),
        (&json!(1), &Value::Null)
    );
    assert_ne!(manifest["metadata"]["uid"], "3f1c");
    let container = &manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{"containerPort": 6379, "protocol": "TCP"}]), "with the schema's defaults");
    assert_eq!(container.get("terminationMessagePolicy"), None, "nothing is added");
    Ok(())
}

#[tokio::test]
async fn a_manifest_that_was_read_makes_the_same_again() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    assert_eq!(post_yaml(&raygate, MANIFEST).await?.status, 201);
    let read = raygate.send(Method::GET, "/clusters/sample/manifest", &[("accept", "application/yaml")], "").await?;
    assert_eq!((read.status.as_u16(), read.header("content-type")), (200, "application/yaml"), "{read:?}");
    let text = String::from_utf8(read.body.to_vec())?;
    let answer = post_yaml(&raygate, &text.replacen("name: sample", "name: again", 1)).await?;
    assert_eq!(answer.status, 201, "{answer:?}\n{text}");
    let spec = async |name: &str| -> Outcome<Value> {
        Ok(raygate.get(&format!("/clusters/{name}/manifest")).await?.json()["spec"].clone())
    };
    assert_eq!(spec("again").await?, spec("sample").await?);
    for (accept, media_type) in [
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json, application/yaml;q=0.5", "application/json"),
        ("application/json;q=0.1, application/yaml", "application/yaml"),
    ] {
        let answer = raygate.send(Method::GET, "/clusters/sample/manifest", &[("accept", accept)], "").await?;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, media_type), "{accept}");
    }
    let answer = raygate.send(Method::GET, "/clusters/sample/manifest", &[("accept", "text/html")], "").await?;
    answer.problem(406, "NOT_ACCEPTABLE");
    Ok(())
}

#[tokio::test]
async fn faults_of_a_manifest_are_placed_in_it() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let base = || {
        json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}, "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "i"}]}}},
            "workerGroupSpecs": [{"groupName": "w", "minReplicas": 0, "maxReplicas": 2, "template": {"spec": {"containers": [{"name": "w"}]}}}],
        }})
    };
    let with = |pointer: &str, value: Value| {
        let mut manifest = base();
        let at = pointer.split('/').skip(1).fold(&mut manifest, |at, token| match token.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[token],
        });
        *at = value;
        manifest
    };
    for (pointer, value, code) in [
        ("/spec/headGroupspec", json!({}), "UNKNOWN_MEMBER"),
        ("/metadata/lables", json!({}), "UNKNOWN_MEMBER"),
        ("/extra", json!(1), "UNKNOWN_MEMBER"),
        ("/spec/headGroupSpec/template/spec/containers/0/imagepullPolicy", json!("Always"), "UNKNOWN_MEMBER"),
        ("/spec/workerGroupSpecs/0/replicas", json!("2"), "WRONG_TYPE"),
        ("/spec/rayVersion", json!(2.5), "WRONG_TYPE"),
    ] {
        let problem = raygate.post("/clusters", &with(pointer, value)).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, code)]), "{problem}");
    }
    for (pointer, value, at, code) in [
        ("/metadata/name", json!("Bad"), "/metadata/name", "INVALID_NAME"),
        ("/metadata/finalizers", json!(["a/b"]), "/metadata/finalizers", "RESERVED"),
        (
            "/metadata/ownerReferences",
            json!([{"uid": "u", "kind": "k", "name": "n", "apiVersion": "v"}]),
            "/metadata/ownerReferences",
            "RESERVED",
        ),
        ("/metadata/generateName", json!("x-"), "/metadata/generateName", "RESERVED"),
        ("/metadata/labels", json!({"ray.io/cluster": "x"}), "/metadata/labels/ray.io~1cluster", "RESERVED"),
        (
            "/spec/headGroupSpec/template/metadata",
            json!({"labels": {"ray.io/group": "x"}}),
            "/spec/headGroupSpec/template/metadata/labels/ray.io~1group",
            "RESERVED",
        ),
        ("/spec/workerGroupSpecs/0/replicas", json!(3), "/spec/workerGroupSpecs/0/replicas", "OUT_OF_RANGE"),
        ("/spec/workerGroupSpecs/0/groupName", json!("Bad"), "/spec/workerGroupSpecs/0/groupName", "INVALID_NAME"),
        (
            "/spec/headGroupSpec/template/spec/containers/0/resources",
            json!({"limits": {"cpu": "much"}}),
            "/spec/headGroupSpec/template/spec/containers/0/resources/limits/cpu",
            "INVALID_QUANTITY",
        ),
    ] {
        let problem = raygate.post("/clusters", &with(pointer, value)).await?.problem(422, "INVALID");
        assert_eq!(faults(&problem), found(&[(at, code)]), "{problem}");
    }
    let group = |name: &str| json!({"groupName": name, "minReplicas": 0, "maxReplicas": 2, "template": {"spec": {"containers": [{"name": "w"}]}}});
    for (pointer, value, at, code) in [
        (
            "/spec/workerGroupSpecs",
            json!([group("w"), group("w")]),
            "/spec/workerGroupSpecs/1/groupName",
            "INVALID_NAME",
        ),
        ("/spec/workerGroupSpecs", json!([group("podTemplate")]), "/spec/workerGroupSpecs/0/groupName", "INVALID_NAME"),
        (
            "/spec/headGroupSpec/template/spec/containers",
            json!([]),
            "/spec/headGroupSpec/template/spec/containers/0",
            "REQUIRED",
        ),
        ("/spec/headGroupSpec/serviceType", json!("Odd"), "/spec/headGroupSpec/serviceType", "INVALID_VALUE"),
    ] {
        let problem = raygate.post("/clusters", &with(pointer, value)).await?.problem(422, "INVALID");
        assert_eq!(faults(&problem), found(&[(at, code)]), "{problem}");
    }
    let mut autoscaled = with("/spec/workerGroupSpecs/0/replicas", json!(3));
    autoscaled["spec"]["enableInTreeAutoscaling"] = json!(true);
    let problem = raygate.post("/clusters", &autoscaled).await?.problem(422, "INVALID");
    assert_eq!(faults(&problem), found(&[("/spec/workerGroupSpecs/0/replicas", "OUT_OF_RANGE")]), "{problem}");
    let problem = raygate.post("/clusters", &with("/spec/bogus", Value::Null)).await?.problem(400, "MALFORMED");
    assert_eq!(faults(&problem), found(&[("/spec/bogus", "UNKNOWN_MEMBER")]), "{problem}");
    let specless = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}});
    let problem = raygate.post("/clusters", &specless).await?.problem(422, "INVALID");
    assert_eq!(faults(&problem), found(&[("/spec", "REQUIRED")]), "{problem}");
    for (member, value) in [("apiVersion", "ray.io/v2"), ("kind", "RayJob")] {
        let mut manifest = base();
        manifest[member] = json!(value);
        let problem = raygate.post("/clusters", &manifest).await?.problem(422, "INVALID");
        assert_eq!(faults(&problem), found(&[(&format!("/{member}"), "INVALID_VALUE")]), "{problem}");
    }
    let mut nameless = base();
    nameless["metadata"] = json!({});
    let problem = raygate.post("/clusters", &nameless).await?.problem(422, "INVALID");
    assert_eq!(faults(&problem), found(&[("/metadata/name", "REQUIRED")]));
    Ok(())
}

#[tokio::test]
async fn unknown_members_at_any_depth_are_named() -> Outcome {
    unknown_members(&*Raygate::memory(&[]).await?).await
}

/// Unknown members in documents and in whole RayClusters; on any backend.
pub(crate) async fn unknown_members(raygate: &Api) -> Outcome {
    for (head, pointer, nearest) in [
        (json!({"podTemplate": {"spec": {"hostNetwrk": true}}}), "/head/podTemplate/spec/hostNetwrk", "hostNetwork"),
        (json!({"podTemplate": {"metdata": {}}}), "/head/podTemplate/metdata", "metadata"),
        (json!({"tolerations": [{"kee": "spot"}]}), "/head/tolerations/0/kee", "key"),
        (json!({"securityContext": {"runAsuser": 1}}), "/head/securityContext/runAsuser", "runAsUser"),
        (json!({"env": {"A": {"secretKeyref": {}}}}), "/head/env/A/secretKeyref", "secretKeyRef"),
        (
            json!({"volumes": {"v": {"hostPath": {"pth": "/"}, "mountPath": "/v"}}}),
            "/head/volumes/v/hostPath/pth",
            "path",
        ),
    ] {
        let problem = raygate.post("/clusters", &json!({"name": "demo", "head": head})).await?;
        let problem = problem.problem(400, "MALFORMED");
        let fault = problem["errors"].as_array().into_iter().flatten().find(|fault| fault["pointer"] == pointer);
        let fault = fault.ok_or_else(|| format!("{pointer} isn't named: {problem}"))?;
        assert_eq!(fault["code"], "UNKNOWN_MEMBER", "{fault}");
        assert!(fault["message"].as_str().unwrap_or_default().contains(&format!("`{nearest}`")), "{fault}");
    }
    let problem = raygate.post("/clusters", &json!({"name": "demo", "autoscaling": {"idleTimeout": 1}})).await?;
    let problem = problem.problem(400, "MALFORMED");
    assert_eq!(faults(&problem), found(&[("/autoscaling/idleTimeout", "UNKNOWN_MEMBER")]));
    assert!(problem["errors"][0]["message"].as_str().unwrap_or_default().contains("`idleTimeoutSeconds`"), "{problem}");
    let manifest = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "lable": {}}, "spec": {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "i", "livenesProbe": {}}]}}},
        "workerGroupSpec": [],
    }});
    let problem = raygate.post("/clusters", &manifest).await?.problem(400, "MALFORMED");
    let container = "/spec/headGroupSpec/template/spec/containers/0";
    let wanted = ["/metadata/lable", &format!("{container}/livenesProbe"), "/spec/workerGroupSpec"];
    assert_eq!(faults(&problem), found(&wanted.map(|pointer| (pointer, "UNKNOWN_MEMBER"))), "{problem}");
    for (fault, near) in
        problem["errors"].as_array().into_iter().flatten().zip(["labels", "livenessProbe", "workerGroupSpecs"])
    {
        assert!(fault["message"].as_str().unwrap_or_default().contains(&format!("`{near}`")), "{fault}");
    }
    Ok(())
}

#[tokio::test]
async fn yaml_is_read_as_kubectl_reads_it() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = post_yaml(
        &raygate,
        "\u{feff}# a comment\r\nname: demo\r\nsuspended: yes\r\nhead: &node {cpu: 500m, memory: 1Gi}\r\nworkerGroups:\r\n  w:\r\n    <<: *node\r\n    \
         cpu: 1\r\n    volumes:\r\n      code: {configMap: {name: c, defaultMode: 0640}, mountPath: /code}\r\n",
    )
    .await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let cluster = answer.json();
    assert_eq!(cluster["suspended"], true, "{cluster}");
    let group = &cluster["workerGroups"]["w"];
    assert_eq!((&group["cpu"], &group["memory"]), (&json!("1"), &json!("1Gi")));
    assert_eq!(group["volumes"]["code"]["configMap"]["defaultMode"], 416);
    Ok(())
}

#[tokio::test]
async fn yaml_that_is_not_taken() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for level in 1..30 {
        let before = format!("*a{}", level - 1);
        bomb = format!("{bomb}a{level}: &a{level} [{before}, {before}, {before}, {before}]\n");
    }
    for (text, pointer, code, words) in [
        ("name: demo\nhead:\n  env:\n    FLAG: yes\n".to_owned(), "/head/env/FLAG", "WRONG_TYPE", "\"yes\""),
        ("name: demo\nrayVersion: 2.50\n".to_owned(), "/rayVersion", "WRONG_TYPE", "\"2.50\""),
        ("name: demo\nhead:\n  cpuu: 1\n".to_owned(), "/head/cpuu", "UNKNOWN_MEMBER", "line 3, column"),
        ("name: demo\nname: other\n".to_owned(), "/name", "DUPLICATE_KEY", "line 2"),
        ("name: demo\n---\nname: other\n---\nname: third\n".to_owned(), "", "SYNTAX", "3"),
        ("name: [\n".to_owned(), "", "SYNTAX", "line"),
        ("name: demo\nhead:\n\tcpu: 1\n".to_owned(), "", "SYNTAX", "line 3"),
        ("# nothing\n".to_owned(), "", "SYNTAX", "empty"),
        (bomb, "", "SYNTAX", "alias"),
    ] {
        let problem = post_yaml(&raygate, &text).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, code)]), "{text}: {problem}");
        let message = problem["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{words:?} isn't said: {message}");
    }
    Ok(())
}
