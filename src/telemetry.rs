//! Logs: to standard error, for people or as JSON lines. Never bodies, never tokens.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::LogFormat;

/// What is logged where `RUST_LOG` says nothing else. kube logs whole objects when it can't decode one.
const FILTER: &str = "info,kube_client=error,kube_runtime=error";

/// Begins to log. A second call changes nothing.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let subscriber =
        fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // An error says that logging has begun already.
    let _ = match format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
}
