//! A KubeRay whose RayCluster CRD is older than raygate's.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::bed::refusals::{patch, put};
use crate::contract::Outcome;
use crate::support::{Answer, Raygate, eventually};

const SECRET: &str = "raygate-test-secret-of-the-old-crd";

/// The RayCluster CRD.
struct Crd(Api<CustomResourceDefinition>);

impl Crd {
    async fn versions(&self) -> Outcome<Value> {
        let crd = serde_json::to_value(self.0.get("rayclusters.ray.io").await?)?;
        Ok(crd["spec"]["versions"].clone())
    }

    async fn set(&self, versions: &Value) -> Outcome {
        let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
        self.0.patch("rayclusters.ray.io", &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// The versions without authentication and Ray's labels of groups, and with another type of suspension.
fn older(versions: &Value) -> Outcome<Value> {
    let mut older = versions.clone();
    for version in older.as_array_mut().ok_or("no versions")? {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let gone = spec.as_object_mut().and_then(|members| members.shift_remove("authOptions"));
        let group = &mut spec["workerGroupSpecs"]["items"]["properties"];
        let gone_too = group.as_object_mut().and_then(|members| members.shift_remove("labels"));
        if version["name"] == "v1" && (gone.is_none() || gone_too.is_none()) {
            return Err("the CRD has other fields than this test knows".into());
        }
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["suspend"] = json!({"type": "string"});
    }
    Ok(older)
}

/// Waits until the apiserver judges by this CRD: it knows the new fields, or it doesn't.
async fn in_force(bed: &Bed, known: bool) -> Outcome {
    let object = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "probe"},
        "spec": {"authOptions": {"mode": "token"}, "suspend": true, "headGroupSpec": {"rayStartParams": {}, "template": {}}},
    });
    let path = format!("/apis/ray.io/v1/namespaces/{}/rayclusters?dryRun=All&fieldValidation=Strict", bed.namespace);
    eventually("the CRD is in force", async || {
        let request = http::Request::post(&path).header("content-type", "application/json");
        let answer = bed.client.request::<Value>(request.body(object.to_string().into_bytes())?).await;
        Ok((answer.is_ok() == known).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn fields_that_an_older_crd_lacks_are_named_and_nothing_else() -> Outcome {
    let bed = Bed::new("old-crd").await?;
    let raygate = bed.raygate(&[]).await?;
    let env = json!({"TOKEN": SECRET, "OTHER": format!("\": strict decoding error: {SECRET} exceeded quota:")});
    let document = json!({
        "name": "demo", "rayVersion": "2.52.0", "head": {"env": env},
        "workerGroups": {"w": {"replicas": 0, "env": env}},
    });
    assert_eq!(raygate.post("/clusters", &document).await?.status, 201);

    let crd = Crd(Api::all(bed.client.clone()));
    let versions = crd.versions().await?;
    let told = AssertUnwindSafe(async {
        crd.set(&older(&versions)?).await?;
        in_force(&bed, false).await?;
        refused(&raygate, &document).await
    })
    .catch_unwind()
    .await;
    crd.set(&versions).await?;
    in_force(&bed, true).await?;
    told.unwrap_or_else(|panic| resume_unwind(panic))?;

    let answer = patch(&raygate, "/clusters/demo", &json!({"auth": {"mode": "token"}})).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
    Ok(())
}

/// Checks that an answer shows nothing of the object.
fn shows_nothing(answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    assert!(!text.contains(SECRET), "it shows a secret: {}", text.replace(SECRET, "…"));
}

async fn refused(raygate: &Raygate, document: &Value) -> Outcome {
    let auth = json!({"auth": {"mode": "token"}});
    let labels = json!({"workerGroups": {"w": {"rayLabels": {"zone": "a"}}}});
    let (mut with_auth, mut new) = (document.clone(), document.clone());
    with_auth["auth"] = auth["auth"].clone();
    new["name"] = json!("new");
    new["workerGroups"]["w"]["rayLabels"] = json!({"zone": "a"});
    let replace = raygate.send(Method::PUT, "/clusters/demo", &[("if-match", "*")], with_auth.to_string()).await?;
    for (what, answer, field) in [
        ("POST", raygate.post("/clusters", &new).await?, "spec.workerGroupSpecs[0].labels"),
        ("PUT to create", put(raygate, "/clusters/new", &new).await?, "spec.workerGroupSpecs[0].labels"),
        ("PATCH", patch(raygate, "/clusters/demo", &auth).await?, "spec.authOptions"),
        ("PATCH of a group", patch(raygate, "/clusters/demo", &labels).await?, "spec.workerGroupSpecs[0].labels"),
        ("PUT", replace, "spec.authOptions"),
    ] {
        shows_nothing(&answer);
        let problem = answer.problem(422, "FIELD_NOT_SUPPORTED");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(&format!("doesn't know all of this: unknown field \"{field}\".")), "{what}: {detail}");
    }

    // Another type, with and without a field that it lacks.
    let suspended = json!({"suspended": true});
    let wrong = patch(raygate, "/clusters/demo", &suspended).await?;
    shows_nothing(&wrong);
    let problem = wrong.problem(422, "INVALID");
    assert_eq!(problem["errors"][0]["pointer"], "/suspended", "{problem}");
    let both = patch(raygate, "/clusters/demo", &json!({"suspended": true, "auth": {"mode": "token"}})).await?;
    shows_nothing(&both);
    both.problem(422, "FIELD_NOT_SUPPORTED");
    new["suspended"] = json!(true);
    let both = raygate.post("/clusters", &new).await?;
    shows_nothing(&both);
    both.problem(422, "FIELD_NOT_SUPPORTED");

    let answer = patch(raygate, "/clusters/demo", &json!({"labels": {"team": "b"}})).await?;
    assert_eq!(answer.status, 200, "what it knows can be changed: {answer:?}");
    let audit = serde_json::to_string(&raygate.audit()?)?;
    assert!(audit.contains("FIELD_NOT_SUPPORTED"), "the audit has them: {}", audit.replace(SECRET, "…"));
    assert!(!audit.contains(SECRET), "the audit shows a secret");
    let log = raygate.log()?;
    assert!(
        log.contains("FIELD_NOT_SUPPORTED") || log.contains("422"),
        "the log has them: {}",
        log.replace(SECRET, "…")
    );
    assert!(!log.contains(SECRET), "the log shows a secret");
    Ok(())
}
