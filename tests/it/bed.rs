//! Tests on the real control plane that `tests/run` starts. Each has namespaces of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use raygate::manager::kubernetes::{Options, backend};
use serde_json::{Value, json};

use crate::contract::{Ground, Outcome};
use crate::support::{Raygate, eventually};

mod between;
mod cuts;
mod documents;
mod etags;
mod finishing;
mod keys;
mod managed;
mod matrix;
mod outage;
mod races;
mod reads;
mod recreate;
mod refusals;
mod rules;
mod samples;
mod story;

/// What stands in Secrets: printf raygate-test-secret-of-kubernetes | base64
const SECRET: &str = "cmF5Z2F0ZS10ZXN0LXNlY3JldC1vZi1rdWJlcm5ldGVz";

/// Where the control plane is.
pub(super) fn kubeconfig() -> Outcome<PathBuf> {
    let path = std::env::var_os("RAYGATE_BED_KUBECONFIG");
    path.map(PathBuf::from).ok_or_else(|| "RAYGATE_BED_KUBECONFIG is not set: tests/run does it".into())
}

async fn config() -> Outcome<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig()?)?;
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// A kubeconfig of a test's own; the file goes with it.
struct Own(PathBuf);

impl Own {
    /// The control plane's, changed.
    fn new(change: impl FnOnce(&mut Value)) -> Outcome<Self> {
        let mut config = serde_json::to_value(Kubeconfig::read_from(kubeconfig()?)?)?;
        change(&mut config);
        let path = std::env::temp_dir().join(format!("kubeconfig-{}", uuid::Uuid::new_v4()));
        std::fs::write(&path, config.to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // What isn't there any more is gone too.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The control plane, without raygate in between.
#[derive(Clone)]
pub(super) struct Bed {
    pub(super) client: kube::Client,
    pub(super) namespace: String,
}

impl Bed {
    /// The control plane and a new namespace on it.
    pub(super) async fn new(subject: &str) -> Outcome<Self> {
        let client = kube::Client::try_from(config().await?)?;
        let namespace = fresh(&client, subject).await?;
        Ok(Self { client, namespace })
    }

    /// Where the apiserver listens.
    pub(super) async fn address() -> Outcome<SocketAddr> {
        let url = config().await?.cluster_url;
        Ok(format!("{}:{}", url.host().ok_or("no host")?, url.port_u16().ok_or("no port")?).parse()?)
    }

    /// raygate over this control plane, with the namespace as everybody's default.
    pub(super) async fn raygate(&self, arguments: &[&str]) -> Outcome<Raygate> {
        self.raygate_as(&kubeconfig()?, arguments).await
    }

    /// The same, as whom and where a kubeconfig says.
    async fn raygate_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Outcome<Raygate> {
        let kubeconfig = kubeconfig.to_str().ok_or("a strange path")?;
        let given = ["--backend", "kubernetes", "--kubeconfig", kubeconfig, "--default-namespace", &self.namespace];
        let raygate = Raygate::start(&[&given, arguments].concat()).await?;
        raygate.ready().await?;
        Ok(raygate)
    }

    /// RayClusters by a client that knows nothing of our types.
    pub(super) fn clusters(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    /// The objects that the contract's ground has.
    async fn add_objects(&self) -> Outcome {
        let object = json!({"metadata": {"name": "present"}, "data": {"key": SECRET}});
        let (configs, secrets): (Api<ConfigMap>, Api<Secret>) = (
            Api::namespaced(self.client.clone(), &self.namespace),
            Api::namespaced(self.client.clone(), &self.namespace),
        );
        configs.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        secrets.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Runs the real kubectl in the namespace.
    pub(super) async fn kubectl(&self, arguments: &[&str], input: &str) -> Outcome<String> {
        use tokio::io::AsyncWriteExt as _;
        let kubectl = std::env::var_os("RAYGATE_BED_KUBECTL").ok_or("RAYGATE_BED_KUBECTL is not set")?;
        let mut command = tokio::process::Command::new(kubectl);
        command.arg("--kubeconfig").arg(kubeconfig()?).args(["-n", &self.namespace]).args(arguments);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().ok_or("no input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The sum of the samples of one of the apiserver's metrics whose labels contain all of these.
    pub(super) async fn metric(&self, name: &str, labels: &[&str]) -> Outcome<f64> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        let samples = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                && labels.iter().all(|label| line.contains(label))
        });
        let values = samples.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
        Ok(values.sum::<Result<f64, _>>()?)
    }
}

/// A new namespace.
async fn fresh(client: &kube::Client, subject: &str) -> Outcome<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{subject}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    // The default service account comes a moment later; pods can't be made before.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), &name);
    eventually("the namespace has its service account", async || Ok(accounts.get_opt("default").await?)).await?;
    Ok(name)
}

mod contract {
    use super::{Bed, Duration, Ground, Options, Outcome, backend, fresh, kubeconfig};

    pub(super) async fn ground() -> Outcome<Ground> {
        let bed = Bed::new("contract").await?;
        let elsewhere = fresh(&bed.client, "elsewhere").await?;
        bed.add_objects().await?;
        let options = Options {
            kubeconfig: Some(kubeconfig()?),
            context: None,
            call_timeout: Duration::from_secs(30),
            watch_timeout_seconds: 25,
            watch_backoff_max: Duration::from_secs(1),
        };
        Ok(Ground { backend: backend(options).await?, namespace: bed.namespace, elsewhere })
    }

    promises!(ground, #[ignore = "needs the control plane that tests/run starts"]);
}

/// Tests that disturb whatever else runs on the control plane: `tests/run` runs them by themselves.
mod alone {
    mod busy;
    mod killed;
    mod old_crd;
    mod readers;

    use http::Method;

    use super::contract::ground;
    use crate::contract::Outcome;
    use crate::contract::failures::{Machines, lost_machine_makes_its_pods_unready};
    use crate::support::Api;

    /// The control interface of the control plane's kubelet.
    struct Control(Api);

    impl Control {
        fn new() -> Outcome<Self> {
            let control = std::env::var("RAYGATE_BED_CONTROL")
                .map_err(|_| "RAYGATE_BED_CONTROL is not set: tests/run does it")?;
            Ok(Self(Api::at(control.trim_start_matches("http://").parse()?)))
        }
    }

    impl Machines for Control {
        async fn set_silent(&self, machine: &str, silent: bool) -> Outcome {
            let path = format!("/node-{}?node={machine}", if silent { "down" } else { "up" });
            let answer = self.0.send(Method::POST, &path, &[], "").await?;
            if answer.status.is_success() { Ok(()) } else { Err(format!("{path}: {answer:?}").into()) }
        }
    }

    #[tokio::test]
    #[ignore = "needs the control plane that tests/run starts"]
    async fn a_lost_machine_makes_its_pods_unready() -> Outcome {
        lost_machine_makes_its_pods_unready(&ground().await?, &Control::new()?).await
    }
}

mod crd {
    use crate::contract::Outcome;
    use crate::crd::{assert_conforms, assert_fresh, compiled, upstream};

    #[test]
    #[ignore = "needs the control plane that tests/run starts"]
    fn the_compiled_schema_is_that_of_the_operator() -> Outcome {
        assert_fresh("rayclusters.schema.json", &compiled(&upstream()?)?)
    }

    #[test]
    #[ignore = "needs the control plane that tests/run starts"]
    fn the_operators_crd_has_all_that_we_read() -> Outcome {
        assert_conforms(&upstream()?)
    }
}
