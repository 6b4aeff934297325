//! What happens to clusters on a real control plane.

use super::*;
use crate::story::{Outside, provisioned, story};

impl Outside for Bed {
    async fn stored(&self, name: &str) -> Outcome<Option<Value>> {
        let object = self.clusters().get_opt(name).await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    async fn scale(&self, name: &str, replicas: u32) -> Outcome {
        let patch = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas}]);
        self.kubectl(&["patch", "raycluster", name, "--type=json", "-p", &patch.to_string()], "").await?;
        Ok(())
    }

    async fn pods(&self) -> Outcome<usize> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(pods.list(&ListParams::default()).await?.items.len())
    }

    async fn service(&self, name: &str) -> Outcome<bool> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(services.get_opt(name).await?.is_some())
    }
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_cluster_lives_and_goes() -> Outcome {
    let bed = Bed::new("story").await?;
    let raygate = bed.raygate(&[]).await?;
    story(&raygate, &bed, &bed.namespace).await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn clusters_of_others_break_nothing() -> Outcome {
    let bed = Bed::new("others").await?;
    let raygate = bed.raygate(&[]).await?;
    let mut socket = raygate.socket("/watch", &[]).await?;
    socket.event().await?;

    let bare = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: bare}\n";
    bed.kubectl(&["create", "-f", "-"], bare).await?;
    let events = socket.until(|event| event["cluster"]["name"] == "bare").await?;
    assert_eq!(events.last().ok_or("no event")?["type"], "ADDED");
    let cluster = raygate.get("/clusters/bare").await?.json();
    assert_eq!(cluster["status"]["state"], "PENDING", "{cluster}");

    let listed = raygate.get("/clusters").await?.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(raygate.post("/clusters", &json!({"name": "fine"})).await?.status, 201);
    socket.until(|event| event["cluster"]["name"] == "fine" && event["cluster"]["status"]["state"] == "READY").await?;
    raygate.post("/clusters", &json!({"name": "bare"})).await?.problem(409, "ALREADY_EXISTS");
    raygate
        .post("/clusters", &json!({"name": "x", "namespace": "no-such-namespace"}))
        .await?
        .problem(404, "NAMESPACE_NOT_FOUND");
    assert_eq!(raygate.delete("/clusters/bare").await?.status, 202);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_dead_head_is_told_at_once() -> Outcome {
    let bed = Bed::new("head").await?;
    let raygate = bed.raygate(&[]).await?;
    let mut socket = raygate.socket("/watch", &[]).await?;
    raygate.post("/clusters", &json!({"name": "demo"})).await?;
    socket.until(|event| event["cluster"]["status"]["state"] == "READY").await?;
    provisioned(&raygate, "demo").await?;

    // Upstream's own status goes on saying `ready`.
    let head = raygate.get("/clusters/demo").await?.json()["status"]["head"]["node"].clone();
    let head = head.as_str().ok_or("no head")?;
    bed.kubectl(&["delete", "pod", head, "--wait=false"], "").await?;
    socket.until(|event| event["cluster"]["status"]["state"] == "DEGRADED").await?;
    let events = socket.until(|event| event["cluster"]["status"]["state"] == "READY").await?;
    let new = events.last().ok_or("no event")?["cluster"]["status"]["head"]["node"].clone();
    assert_ne!(new, head, "another pod is the head now");
    Ok(())
}
