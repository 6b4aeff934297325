//! Kubernetes behind the ports: the only place that holds a `kube::Client`.

use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::Backend;

mod client;
mod clusters;
mod error;
mod review;
mod watch;
mod workloads;

use client::Clients;
use clusters::KubernetesManager;
use workloads::KubernetesWorkloads;

/// Where the control plane is and how long it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// A kubeconfig file; none means the pod's own service account.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig; none means its current one.
    pub context: Option<String>,
    /// Deadline of one call.
    pub call_timeout: Duration,
    /// How long one watch request lasts: the server ends it then, and the next one is a proof of life.
    pub watch_timeout_seconds: u32,
    /// Longest pause between two attempts to watch.
    pub watch_backoff_max: Duration,
}

/// A backend over the control plane that `options` name. Makes no call.
///
/// # Errors
/// A sentence for the person who starts the service.
pub async fn backend(options: Options) -> Result<Backend, String> {
    let config = config(&options).await?;
    let clients = Clients::new(config, &options)?;
    Ok(Backend {
        clusters: Arc::new(KubernetesManager::new(clients.clone())),
        workloads: Arc::new(KubernetesWorkloads::new(clients)),
    })
}

async fn config(options: &Options) -> Result<kube::Config, String> {
    let Some(path) = &options.kubeconfig else {
        return kube::Config::incluster().map_err(|error| {
            format!("no usable service account in this pod ({error}); name a file with --kubeconfig")
        });
    };
    let unusable = |error: &dyn std::fmt::Display| format!("the kubeconfig {} is unusable: {error}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
    let choice = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(kubeconfig, &choice).await.map_err(|error| unusable(&error))
}
