//! One watch that never ends: kube's watcher, its errors noted and paused for, its events as our steps.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::BoxStream;
use kube::api::Api;
use kube::runtime::utils::{ResetTimerBackoff, StreamBackoff};
use kube::runtime::watcher::{self, Event, ExponentialBackoff};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::client::Clients;
use super::error::{from_error, watch_error};
use crate::manager::{Change, ProofOfLife, Scope, Watch};

/// The API of a kind in a scope.
pub(super) fn api<K>(client: Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match scope {
        Scope::All => Api::all(client),
        Scope::Namespace(namespace) => Api::namespaced(client, namespace),
    }
}

/// After so long without a failure the pauses are short again.
const QUIET: Duration = Duration::from_mins(2);

/// Watches a kind in a scope.
pub(super) fn watch<K>(clients: &Clients, scope: &Scope, label_selector: Option<&str>) -> Watch<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
        + Send
        + 'static,
{
    let life = ProofOfLife::awaited();
    let client = match clients.watch(&life) {
        Ok(client) => client,
        Err(error) => {
            // Can't happen after the first client was made of the same configuration; said all the same.
            life.failed(from_error(&error));
            return Watch { changes: futures::stream::pending().boxed(), life };
        }
    };
    let config = watcher::Config {
        label_selector: label_selector.map(str::to_owned),
        timeout: Some(clients.watch_timeout_seconds),
        ..watcher::Config::default()
    };
    let what = K::plural(&()).into_owned();
    let pauses = ExponentialBackoff::from(
        backon::ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(clients.watch_backoff_max)
            .with_jitter()
            .without_max_times(),
    );
    // The watcher says `Init` before each attempt to list: only time may shorten the pauses again.
    let backoff = ResetTimerBackoff::new(pauses, QUIET);
    let events = StreamBackoff::new(watcher::watcher(api::<K>(client, scope), config).boxed(), backoff);
    let heard = life.clone();
    let changes: BoxStream<'static, Change<K>> = events
        .filter_map(move |event| {
            // `Init` comes before the server is asked; everything else is an answer that made sense.
            if matches!(event, Ok(Event::InitApply(_) | Event::InitDone | Event::Apply(_) | Event::Delete(_))) {
                heard.understood();
            }
            ready(match event {
                Ok(Event::Init) => Some(Change::Reset),
                Ok(Event::InitApply(object) | Event::Apply(object)) => Some(Change::Applied(object)),
                Ok(Event::InitDone) => Some(Change::Synced),
                Ok(Event::Delete(object)) => Some(Change::Deleted(object)),
                Err(error) => {
                    let cause = watch_error(&error);
                    tracing::warn!(resource = what, %cause, "a watch was interrupted and is begun again");
                    heard.failed(cause);
                    None
                }
            })
        })
        .boxed();
    Watch { changes, life }
}
