//! What readers cost the control plane, which counts everybody's requests.

use crate::bed::*;

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn readers_cost_the_control_plane_nothing() -> Outcome {
    let bed = Bed::new("readers").await?;
    let raygate = bed.raygate(&[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "demo"})).await?.status, 201);
    let mut socket = raygate.socket("/watch", &[]).await?;
    socket.until(|event| event["cluster"]["status"]["state"] == "READY").await?;

    let count = async || {
        let get = bed.metric("apiserver_request_total", &[r#"resource="rayclusters""#, r#"verb="GET""#]).await?;
        let list = bed.metric("apiserver_request_total", &[r#"resource="rayclusters""#, r#"verb="LIST""#]).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(get + list)
    };
    // The operator's requests may fall between the two counts: one quiet round is proof.
    eventually("a hundred reads and ten sockets are free", async || {
        let watches = bed.metric("apiserver_longrunning_requests", &[r#"verb="WATCH""#, "rayclusters"]).await?;
        let before = count().await?;
        for _ in 0..100 {
            assert_eq!(raygate.get("/clusters/demo").await?.status, 200);
        }
        let mut sockets = Vec::new();
        for _ in 0..10 {
            let mut socket = raygate.socket("/clusters/demo/watch", &[]).await?;
            socket.until(|event| event["type"] == "SYNCED").await?;
            sockets.push(socket);
        }
        let after = count().await?;
        let watches_after = bed.metric("apiserver_longrunning_requests", &[r#"verb="WATCH""#, "rayclusters"]).await?;
        let free = (after - before).abs() < 0.5 && (watches_after - watches).abs() < 0.5;
        Ok(free.then_some(()))
    })
    .await
}
