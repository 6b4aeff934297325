//! A raygate in the test's own process, over a backend that the test has at hand.

use std::ops::Deref;
use std::sync::Arc;

use clap::Parser as _;
use raygate::access::Access;
use raygate::app;
use raygate::audit::Audit;
use raygate::config::Command;
use raygate::manager::Backend;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Api, Outcome};

/// A raygate that serves until it is ended.
pub(crate) struct InProcess {
    api: Api,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), String>>,
}

impl Deref for InProcess {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl InProcess {
    /// Serves everybody, over this backend.
    pub(crate) async fn open(backend: &Backend) -> Outcome<Self> {
        Self::start(backend, Access::open(Vec::new(), "default".into()), &[]).await
    }

    /// Serves over this backend by these rules, with these flags.
    pub(crate) async fn start(backend: &Backend, access: Access, flags: &[&str]) -> Outcome<Self> {
        let usual = ["raygate", "--shutdown-delay-seconds=0"];
        let config = Command::try_parse_from(usual.iter().chain(flags))?.serve;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let api = Api::at(listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let built = app::assemble(config, backend, Arc::new(access), Audit::off());
        let serving = tokio::spawn(app::serve(built, listener, async { drop(stopped.await) }));
        api.ready().await?;
        Ok(Self { api, stop, serving })
    }

    /// Ends it in order.
    pub(crate) async fn end(self) -> Outcome {
        drop(self.stop);
        Ok(self.serving.await??)
    }
}
