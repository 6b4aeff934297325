//! Which half of the ETag moves when the real operator, the real autoscaler's patches and other managers write.

use super::*;
use crate::etags::{
    Autoscaler, a_status_moves_the_digest, another_cluster_has_another_revision, created, edit, etag, etag_at, halves,
    the_autoscaler_owns_what_it_writes,
};

impl Bed {
    /// `demo` as Kubernetes holds it.
    async fn demo(&self) -> Outcome<Value> {
        Ok(serde_json::to_value(self.clusters().get("demo").await?)?)
    }
}

impl Autoscaler for Bed {
    /// As `ray.autoscaler` of Kubernetes does it: a JSON patch that replaces one member of a group by index.
    async fn write(&self, member: &str, value: Value) -> Outcome<String> {
        let at = format!("/spec/workerGroupSpecs/0/{member}");
        let patch = json!([{"op": "replace", "path": at, "value": value}]).to_string();
        let arguments = ["patch", "raycluster", "demo", "--type=json", "-p", &patch, "-o"];
        let version = self.kubectl(&[&arguments[..], &["jsonpath={.metadata.resourceVersion}"]].concat(), "").await?;
        Ok(version)
    }
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_status_that_changes_spoils_no_edit() -> Outcome {
    let bed = Bed::new("etag-status").await?;
    a_status_moves_the_digest(&*bed.raygate(&[]).await?).await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_tag_is_no_good_for_another_cluster_of_the_name() -> Outcome {
    let bed = Bed::new("etag-name").await?;
    another_cluster_has_another_revision(&*bed.raygate(&[]).await?).await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn an_autoscaler_that_is_on_spoils_no_edit() -> Outcome {
    let bed = Bed::new("etag-scale").await?;
    the_autoscaler_owns_what_it_writes(&*bed.raygate(&[]).await?, &bed).await
}

/// What nobody can see but in `managedFields` is no change of the user's; of what is shown, the resourceVersion is another.
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn another_manager_of_the_same_values_spoils_no_edit() -> Outcome {
    let bed = Bed::new("etag-fields").await?;
    let raygate = bed.raygate(&[]).await?;
    // KubeRay leaves it to another controller, so nobody else writes to it.
    let demo = json!({"name": "demo", "labels": {"team": "a"}, "managedBy": "kueue.x-k8s.io/multikueue"});
    let new = created(&raygate, &demo).await?;
    let before = bed.demo().await?;
    let same = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "labels": {"team": "a"}},
        "spec": {"rayVersion": before["spec"]["rayVersion"]},
    });
    let apply = ["apply", "--server-side", "--field-manager=another", "-f", "-"];
    bed.kubectl(&apply, &same.to_string()).await?;
    let after = bed.demo().await?;
    assert_eq!(
        (&after["spec"], &after["metadata"]["generation"]),
        (&before["spec"], &before["metadata"]["generation"])
    );
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "it was a write");
    assert!(after["metadata"]["managedFields"].to_string().contains("\"another\""), "{after}");

    let version = after["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    let now = etag_at(&raygate, version).await?;
    assert_eq!(halves(&now)?.0, halves(&new)?.0);
    let poll = raygate.send(http::Method::GET, "/clusters/demo", &[("if-none-match", &new)], "").await?;
    assert_eq!((poll.status.as_u16(), &poll.json()["resourceVersion"]), (200, &after["metadata"]["resourceVersion"]));
    // Applied again it is no write at all: neither half moves.
    bed.kubectl(&apply, &same.to_string()).await?;
    let again = bed.demo().await?;
    assert_eq!(again["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(etag(&raygate).await?, now);
    assert_eq!(edit(&raygate, &new, "past-the-other").await?.status, 200);
    Ok(())
}

/// A cluster in spellings that the operator doesn't use, which it rewrites.
fn spelt() -> [Value; 2] {
    let document = json!({
        "name": "demo", "gcsFaultTolerance": {"redisAddress": "redis:6379"},
        "head": {"cpu": "1000m", "memory": "1024Mi", "podTemplate": {"spec": {"tolerations": [], "initContainers": []}}},
        "workerGroups": {"w": {
            "replicas": 1, "cpu": "0.5", "memory": "1073741824", "podTemplate": {"spec": {"volumes": []}, "metadata": {}},
        }},
    });
    // What Kubernetes' types leave out, and what they add, beside other ways to write an amount.
    let template = |name: &str| {
        let env = json!([
            {"name": "A", "value": ""},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ]);
        let container = json!({
            "name": name, "image": "rayproject/ray:2.52.0", "env": env, "stdin": false, "securityContext": {},
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5", "memory": "0.5Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": false, "subPath": ""}],
            "readinessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 0},
        });
        let volumes = json!([{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}}]);
        json!({
            "metadata": {"annotations": {}, "labels": {"team": ""}},
            "spec": {
                "containers": [container], "volumes": volumes, "tolerations": [], "nodeSelector": {}, "hostNetwork": false,
                "affinity": {}, "schedulerName": "",
            },
        })
    };
    let manifest = json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo", "annotations": {}},
        "spec": {
            "rayVersion": "2.52.0", "suspend": false, "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
            "autoscalerOptions": {"env": [], "resources": {"limits": {"cpu": "0.5", "memory": "0.5Gi"}}, "securityContext": {}},
            "headGroupSpec": {
                "template": template("ray-head"), "rayStartParams": {}, "labels": {}, "resources": {},
                "headService": {"metadata": {"labels": {"team": "a"}}, "spec": {"ports": [], "selector": {}}},
            },
            "workerGroupSpecs": [{
                "groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 2, "template": template("ray-worker"),
                "scaleStrategy": {"workersToDelete": []},
            }],
        },
    });
    [document, manifest]
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn the_operators_own_spelling_spoils_no_edit() -> Outcome {
    for (index, body) in spelt().into_iter().enumerate() {
        let bed = Bed::new("etag-spelling").await?;
        let raygate = bed.raygate(&[]).await?;
        let answer = raygate.post("/clusters", &body).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        let new = answer.header("etag").to_owned();
        // What the create's answer was made of, as it stood before the operator came by: the same object, the first version.
        let version = answer.json()["resourceVersion"].clone();
        let after = eventually("the operator has rewritten it", async || {
            let held = bed.demo().await?;
            let finalizers = held["metadata"]["finalizers"].to_string();
            Ok(finalizers.contains("gcs-ft-redis-cleanup").then_some(held))
        })
        .await?;
        assert_ne!(after["metadata"]["resourceVersion"], version);
        let text = after["spec"].to_string();
        assert!(!text.contains("1000m") && !text.contains("1024Mi"), "body {index}: it writes as it likes: {text}");

        let version = after["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
        let now = etag_at(&raygate, version).await?;
        assert_eq!(halves(&now)?.0, halves(&new)?.0, "body {index}: {after}");
        let guarded = edit(&raygate, &new, "past-the-operator").await?;
        assert_eq!(guarded.status, 200, "body {index}: {guarded:?}");
    }
    Ok(())
}
