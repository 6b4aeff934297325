//! Logs: to standard error, for people or as JSON lines. Never bodies, never tokens.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// What is logged where `RUST_LOG` says nothing else.
const FILTER: &str = "info";

/// Begins to log. A second call changes nothing.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let subscriber =
        fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // An error says that logging has begun already.
    let _ = match format {
        LogFormat::Text => subscriber.finish().with(most()).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).finish().with(most()).try_init(),
    };
}

/// The most that is logged, whatever `RUST_LOG` says. Others than we log headers and bodies when they are asked for
/// details, and kube warns with whole objects when it can't decode one.
fn most() -> Targets {
    Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target(env!("CARGO_PKG_NAME"), LevelFilter::TRACE)
        .with_targets([("kube_client", LevelFilter::ERROR), ("kube_runtime", LevelFilter::ERROR)])
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn others_tell_no_details() {
        let most = most();
        for target in ["h2::codec::framed_read", "hyper::proto::h1", "tungstenite::handshake", "kube_client", "tower"] {
            assert!(!most.would_enable(target, &Level::DEBUG), "{target}");
            assert!(!most.would_enable(target, &Level::TRACE), "{target}");
            assert!(most.would_enable(target, &Level::ERROR), "{target}");
        }
        assert!(!most.would_enable("kube_client::client", &Level::WARN));
        assert!(!most.would_enable("kube_runtime::watcher", &Level::WARN));
        assert!(most.would_enable("h2", &Level::WARN));
        for target in ["raygate", "raygate::http::middleware"] {
            assert!(most.would_enable(target, &Level::TRACE), "{target}");
        }
    }
}
