//! The kinds of client: calls have a deadline and no retries of their own; each watch has a connection of its own and
//! proves the server's life with everything that arrives on it. (Logs and proxies, without a read time-out, come with
//! what needs them.)

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use kube::client::{ClientBuilder, DynBody};
use kube::{Client, Config};
use tower::util::MapResponseLayer;

use super::Options;
use crate::manager::ProofOfLife;

/// Makes clients of one control plane.
#[derive(Clone)]
pub(super) struct Clients {
    config: Config,
    pub(super) calls: Client,
    pub(super) call_timeout: Duration,
    pub(super) watch_timeout_seconds: u32,
    pub(super) watch_backoff_max: Duration,
}

impl Clients {
    pub(super) fn new(mut config: Config, options: &Options) -> Result<Self, String> {
        // kube's own retries repeat any method up to 15 times; a call's deadline is ours.
        config.default_retry = false;
        config.connect_timeout = Some(options.call_timeout);
        config.read_timeout = None;
        let mut calls = config.clone();
        calls.read_timeout = Some(options.call_timeout);
        let calls = Client::try_from(calls).map_err(|error| format!("no client can be made: {error}"))?;
        Ok(Self {
            config,
            calls,
            call_timeout: options.call_timeout,
            watch_timeout_seconds: options.watch_timeout_seconds,
            watch_backoff_max: options.watch_backoff_max,
        })
    }

    /// A client for one watch. Every successful answer, and every piece of its body, is a proof of life.
    pub(super) fn watch(&self, life: &ProofOfLife) -> kube::Result<Client> {
        let life = life.clone();
        let layer = MapResponseLayer::new(move |response: Response<_>| {
            let success = response.status().is_success();
            if success {
                life.heard();
            }
            let life = life.clone();
            response.map(|body: Box<DynBody>| {
                body.map_frame(move |frame| {
                    if success {
                        life.heard();
                    }
                    frame
                })
            })
        });
        Ok(ClientBuilder::try_from(self.config.clone())?.with_layer(&layer).build())
    }
}
