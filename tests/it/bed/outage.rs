//! What raygate costs the control plane, and what it does without it.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

/// A TCP proxy that can refuse: what is open is cut, and what comes is closed at once.
struct Proxy {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    async fn start(target: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let open = Arc::new(watch::Sender::new(true));
        let sender = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut state = sender.subscribe();
                tokio::spawn(async move {
                    if !*state.borrow_and_update() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(target).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = state.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Ok(Self { address, open })
    }

    fn set(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// A kubeconfig that leads through the proxy.
    fn kubeconfig(&self) -> Outcome<PathBuf> {
        let mut config: Value = serde_json::to_value(Kubeconfig::read_from(kubeconfig()?)?)?;
        config["clusters"][0]["cluster"]["server"] = format!("https://{}", self.address).into();
        let path = std::env::temp_dir().join(format!("kubeconfig-{}-{}", std::process::id(), self.address.port()));
        std::fs::write(&path, config.to_string())?;
        Ok(path)
    }
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn an_outage_is_said_and_survived() -> Outcome {
    let bed = Bed::new("outage").await?;
    let proxy = Proxy::start(Bed::address().await?).await?;
    let path = proxy.kubeconfig()?;
    let raygate = Raygate::start(&[
        "--backend=kubernetes",
        &format!("--kubeconfig={}", path.display()),
        &format!("--namespace={}", bed.namespace),
        &format!("--default-namespace={}", bed.namespace),
        "--max-staleness-seconds=2",
        "--watch-timeout-seconds=1",
        "--watch-backoff-max-seconds=1",
    ])
    .await?;
    raygate.ready().await?;
    let mut socket = raygate.socket("/watch", &[]).await?;
    assert_eq!(socket.event().await?["type"], "SYNCED");

    proxy.set(false);
    eventually("raygate isn't ready", async || {
        let answer = raygate.get("/ready").await?;
        Ok((answer.status == 503).then(|| answer.json()))
    })
    .await?;
    assert_eq!(raygate.get("/health").await?.status, 200);
    let problem = raygate.post("/clusters", &json!({"name": "refused"})).await?;
    assert_eq!(problem.header("retry-after"), "2");
    problem.problem(503, "UNAVAILABLE");
    assert_eq!(raygate.get("/clusters").await?.status, 200, "reads are answered from what is known");

    // Changed meanwhile: it arrives on the socket that stayed open.
    let meanwhile = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: meanwhile}\n";
    bed.kubectl(&["create", "-f", "-"], meanwhile).await?;
    proxy.set(true);
    let event = socket.event().await?;
    assert_eq!((&event["type"], &event["cluster"]["name"]), (&json!("ADDED"), &json!("meanwhile")));
    raygate.ready().await?;
    raygate.get("/clusters/refused").await?.problem(404, "NOT_FOUND");
    std::fs::remove_file(path)?;
    Ok(())
}
