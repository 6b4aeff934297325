//! The command line. Every flag has an environment variable `RAYGATE_…`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::access::limits::LimitSettings;
use crate::ray::name::check_label_name;
use crate::ray::quantity::Quantity;

/// Ray clusters over plain HTTP.
#[derive(Debug, Clone, Parser)]
#[command(name = "raygate", version, about, next_display_order = None)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Command {
    /// What to do; left out it is `serve`.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Options of `serve`.
    #[command(flatten)]
    pub serve: Config,
}

/// What to do.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Serve the API (also what happens without a verb).
    Serve(Box<Config>),
    /// Tokens for those who call.
    #[command(subcommand)]
    Token(TokenVerb),
}

/// What to do about tokens.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum TokenVerb {
    /// Make a token. It is shown once, on standard error; the line for the token file goes to standard output, so that
    /// `raygate token new --user alice >> tokens.yaml` stores it.
    New(NewTokenOptions),
}

/// What a new token is to be.
#[derive(Debug, Clone, clap::Args)]
pub struct NewTokenOptions {
    /// Whose it is.
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// A group that they are in (repeatable).
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<String>,
    /// For how many days it is valid; 0 is for ever.
    #[arg(long, default_value_t = 90, value_name = "DAYS")]
    pub days: u16,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

impl Command {
    /// What to do, spelt out: no verb is `serve`.
    #[must_use]
    pub fn into_verb(self) -> Verb {
        self.verb.unwrap_or_else(|| Verb::Serve(Box::new(self.serve)))
    }
}

/// Options of the service.
#[derive(Debug, Clone, clap::Args)]
pub struct Config {
    /// Address to listen on; port 0 picks one.
    #[arg(long, env = "RAYGATE_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen: SocketAddr,

    /// What runs the clusters; `auto` is `kubernetes` inside a pod, else `memory`.
    #[arg(long, env = "RAYGATE_BACKEND", value_enum, default_value = "auto")]
    pub backend: BackendChoice,

    /// A kubeconfig file for the backend `kubernetes`; left out it is the pod's service account.
    #[arg(long, env = "RAYGATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; left out it is its current one.
    #[arg(long, env = "RAYGATE_CONTEXT", requires = "kubeconfig", value_name = "NAME")]
    pub context: Option<String>,

    /// A namespace to serve (repeatable); left out it is all of them.
    #[arg(long = "namespace", env = "RAYGATE_NAMESPACE", value_delimiter = ',', value_parser = namespace, value_name = "NAME")]
    pub namespaces: Vec<String>,

    /// The namespace of whoever names none.
    #[arg(long, env = "RAYGATE_DEFAULT_NAMESPACE", default_value = "default", value_parser = namespace, value_name = "NAME")]
    pub default_namespace: String,

    /// Ray's version where a document names none.
    #[arg(long, env = "RAYGATE_DEFAULT_RAY_VERSION", default_value = "2.52.0", value_name = "VERSION")]
    pub default_ray_version: String,

    /// CPUs of a head where the document names none.
    #[arg(long, env = "RAYGATE_DEFAULT_HEAD_CPU", default_value = "1", value_parser = quantity, value_name = "QUANTITY")]
    pub default_head_cpu: String,

    /// Memory of a head where the document names none.
    #[arg(long, env = "RAYGATE_DEFAULT_HEAD_MEMORY", default_value = "4Gi", value_parser = quantity, value_name = "QUANTITY")]
    pub default_head_memory: String,

    /// A `Host` to answer beside localhost, 127.0.0.1 and `[::1]` (repeatable).
    #[arg(long = "allowed-host", env = "RAYGATE_ALLOWED_HOST", value_delimiter = ',', value_name = "HOST")]
    pub allowed_hosts: Vec<String>,

    /// Serve everybody who can reach an address that isn't loopback.
    #[arg(long, env = "RAYGATE_INSECURE_ALLOW_ANONYMOUS")]
    pub insecure_allow_anonymous: bool,

    /// Who is who: a file of tokens' hashes, as `raygate token new` writes them. With it nobody is served who doesn't say
    /// who they are.
    #[arg(long, env = "RAYGATE_TOKEN_FILE", requires = "policy_file", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Who may do what where: docs/security.md.
    #[arg(long, env = "RAYGATE_POLICY_FILE", requires = "token_file", value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// How often the two files are looked at.
    #[arg(long, env = "RAYGATE_RELOAD_SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub reload_seconds: u64,

    /// Where the audit goes: one JSON object a line for each request that changes something, tries to, or is refused.
    #[arg(long, env = "RAYGATE_AUDIT", value_enum, default_value = "stdout")]
    pub audit: AuditOutput,

    /// Not ready once the backend hasn't been heard of for this long.
    #[arg(long, env = "RAYGATE_MAX_STALENESS_SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub max_staleness_seconds: u64,

    /// How long one watch of the backend lasts before the next one proves that it lives.
    #[arg(long, env = "RAYGATE_WATCH_TIMEOUT_SECONDS", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=290), value_name = "SECONDS")]
    pub watch_timeout_seconds: u32,

    /// Longest pause between two attempts to watch the backend.
    #[arg(long, env = "RAYGATE_WATCH_BACKOFF_MAX_SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub watch_backoff_max_seconds: u64,

    /// Deadline of one call of the backend.
    #[arg(long, env = "RAYGATE_CALL_TIMEOUT_SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub call_timeout_seconds: u64,

    /// Deadline of one request, streams excepted.
    #[arg(long, env = "RAYGATE_REQUEST_TIMEOUT_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub request_timeout_seconds: u64,

    /// How long a read with `minResourceVersion` waits for what is known to become that new before Kubernetes is asked.
    #[arg(long, env = "RAYGATE_READ_WAIT_MILLISECONDS", default_value_t = 2000, value_name = "MILLISECONDS")]
    pub read_wait_milliseconds: u64,

    /// How long nothing may have been seen of a dropped worker group's nodes before its entry goes, where the operator
    /// doesn't say that it has seen that none are wanted.
    #[arg(long, env = "RAYGATE_SETTLE_SECONDS", default_value_t = 10, value_name = "SECONDS")]
    pub settle_seconds: u64,

    /// Longest silence on a stream.
    #[arg(long, env = "RAYGATE_HEARTBEAT_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=20), value_name = "SECONDS")]
    pub heartbeat_seconds: u64,

    /// A stream's peer from which nothing has come, or that has taken nothing, for this long is given up.
    #[arg(long, env = "RAYGATE_PEER_TIMEOUT_SECONDS", default_value_t = 45, value_parser = clap::value_parser!(u64).range(1..=60), value_name = "SECONDS")]
    pub peer_timeout_seconds: u64,

    /// Largest body of a request.
    #[arg(long, env = "RAYGATE_MAX_BODY_BYTES", default_value_t = 1024 * 1024, value_name = "BYTES")]
    pub max_body_bytes: usize,

    /// Most connections at once; further ones wait.
    #[arg(long, env = "RAYGATE_MAX_CONNECTIONS", default_value_t = 10_000, value_parser = connections, value_name = "COUNT")]
    pub max_connections: usize,

    /// Requests of one caller that are served in a second, in the long run; per replica.
    #[arg(long, env = "RAYGATE_CALLER_REQUESTS_PER_SECOND", default_value = "50", value_parser = limit, value_name = "COUNT")]
    pub caller_requests_per_second: NonZeroU32,

    /// Requests of one caller that are served at one stroke after a pause; per replica.
    #[arg(long, env = "RAYGATE_CALLER_BURST", default_value = "100", value_parser = limit, value_name = "COUNT")]
    pub caller_burst: NonZeroU32,

    /// Most requests of one caller at once; per replica.
    #[arg(long, env = "RAYGATE_CALLER_CONCURRENT_REQUESTS", default_value = "50", value_parser = limit, value_name = "COUNT")]
    pub caller_concurrent_requests: NonZeroU32,

    /// Most streams of one caller at once; per replica.
    #[arg(long, env = "RAYGATE_CALLER_STREAMS", default_value = "100", value_parser = limit, value_name = "COUNT")]
    pub caller_streams: NonZeroU32,

    /// Requests without credentials that hold, of one address (IPv6: one /64) in a second, in the long run; per replica.
    #[arg(long, env = "RAYGATE_UNAUTHENTICATED_REQUESTS_PER_SECOND", default_value = "20", value_parser = limit, value_name = "COUNT")]
    pub unauthenticated_requests_per_second: NonZeroU32,

    /// Such requests of one address at one stroke after a pause; per replica.
    #[arg(long, env = "RAYGATE_UNAUTHENTICATED_BURST", default_value = "100", value_parser = limit, value_name = "COUNT")]
    pub unauthenticated_burst: NonZeroU32,

    /// How long a client may take to send a request's head.
    #[arg(long, env = "RAYGATE_HEADER_TIMEOUT_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub header_timeout_seconds: u64,

    /// A connection with no request under way and no stream is closed after this long, whatever pings it sends; an answer
    /// that isn't taken keeps it no longer.
    #[arg(long, env = "RAYGATE_IDLE_TIMEOUT_SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub idle_timeout_seconds: u64,

    /// On SIGTERM: how long to go on serving, not ready, so that load balancers turn away.
    #[arg(long, env = "RAYGATE_SHUTDOWN_DELAY_SECONDS", default_value_t = 5, value_name = "SECONDS")]
    pub shutdown_delay_seconds: u64,

    /// After that: how long what is under way may take to end.
    #[arg(long, env = "RAYGATE_DRAIN_SECONDS", default_value_t = 20, value_name = "SECONDS")]
    pub drain_seconds: u64,

    /// Backend `memory`: how long a node takes to become ready.
    #[arg(long, env = "RAYGATE_MEMORY_START_MILLISECONDS", default_value_t = 2000, value_name = "MILLISECONDS")]
    pub memory_start_milliseconds: u64,

    /// Backend `memory`: how long a node takes to end.
    #[arg(long, env = "RAYGATE_MEMORY_STOP_MILLISECONDS", default_value_t = 1000, value_name = "MILLISECONDS")]
    pub memory_stop_milliseconds: u64,

    /// Backend `memory`: how many machines there are.
    #[arg(long, env = "RAYGATE_MEMORY_NODES", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..), value_name = "COUNT")]
    pub memory_nodes: u8,

    /// Backend `memory`: CPUs of each machine.
    #[arg(long, env = "RAYGATE_MEMORY_NODE_CPU", default_value = "256", value_parser = amount, value_name = "QUANTITY")]
    pub memory_node_cpu: Quantity,

    /// Backend `memory`: memory of each machine.
    #[arg(long, env = "RAYGATE_MEMORY_NODE_MEMORY", default_value = "1Ti", value_parser = amount, value_name = "QUANTITY")]
    pub memory_node_memory: Quantity,

    /// Backend `memory`: GPUs of each machine.
    #[arg(long, env = "RAYGATE_MEMORY_NODE_GPU", default_value_t = 8, value_name = "COUNT")]
    pub memory_node_gpu: u32,

    /// Backend `memory`: an image that exists besides Ray's own and common ones; `*` stands for anything (repeatable).
    #[arg(long = "memory-image", env = "RAYGATE_MEMORY_IMAGE", value_delimiter = ',', value_name = "IMAGE")]
    pub memory_images: Vec<String>,

    /// Backend `memory`: a `ConfigMap` or `Secret` that exists, and its keys (repeatable; in the variable separated by spaces).
    #[arg(
        long = "memory-object",
        env = "RAYGATE_MEMORY_OBJECT",
        value_delimiter = ' ',
        value_name = "KIND/NAME[:KEY,KEY]"
    )]
    pub memory_objects: Vec<String>,

    /// Backend `memory`: how long a back-off of ten seconds takes; what is said of it tells the real one.
    #[arg(long, env = "RAYGATE_MEMORY_BACK_OFF_MILLISECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=10_000), value_name = "MILLISECONDS")]
    pub memory_back_off_milliseconds: u64,

    /// How logs are written to standard error.
    #[arg(long, env = "RAYGATE_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// Where the audit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditOutput {
    /// Standard output, after its first line.
    Stdout,
    /// Standard error, among the logs: a reader that stalls holds up whatever logs.
    Stderr,
    /// Nowhere.
    Off,
}

/// What runs the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// `kubernetes` inside a pod, else `memory`.
    Auto,
    /// Inside this process; everything is gone when it ends.
    Memory,
    /// A Kubernetes control plane with KubeRay's operator.
    Kubernetes,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Checks what no single flag can know.
    ///
    /// # Errors
    /// A sentence for the person who starts the service.
    pub fn check(&self) -> Result<(), String> {
        if !self.listen.ip().is_loopback() && !self.insecure_allow_anonymous && self.token_file.is_none() {
            return Err(format!(
                "{} is not a loopback address and there is no authentication: everybody who reaches it could do \
                 everything. Listen on 127.0.0.1, name a --token-file and a --policy-file, or say --insecure-allow-anonymous if you \
                 mean it.",
                self.listen
            ));
        }
        if self.token_file.is_some() && self.insecure_allow_anonymous {
            return Err("--insecure-allow-anonymous and --token-file contradict each other.".into());
        }
        if !self.namespaces.is_empty() && !self.namespaces.contains(&self.default_namespace) {
            return Err(format!(
                "The default namespace {} isn't among the served ones, {}: name another with --default-namespace.",
                self.default_namespace,
                self.namespaces.join(", ")
            ));
        }
        Ok(())
    }

    /// How much is done for one caller.
    #[must_use]
    pub fn limits(&self) -> LimitSettings {
        LimitSettings {
            requests_per_second: self.caller_requests_per_second,
            burst: self.caller_burst,
            concurrent_requests: self.caller_concurrent_requests,
            streams: self.caller_streams,
            unauthenticated_per_second: self.unauthenticated_requests_per_second,
            unauthenticated_burst: self.unauthenticated_burst,
        }
    }
}

fn namespace(text: &str) -> Result<String, String> {
    check_label_name("a namespace", text).map(|()| text.to_owned()).map_err(|wrong| wrong.message)
}

fn quantity(text: &str) -> Result<String, String> {
    amount(text).map(|quantity| quantity.as_str().to_owned())
}

fn amount(text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|wrong| wrong.message)
}

/// At most a million, more than one process can do.
fn limit(text: &str) -> Result<NonZeroU32, String> {
    let most = 1_000_000;
    text.parse()
        .ok()
        .filter(|count: &NonZeroU32| count.get() <= most)
        .ok_or_else(|| format!("a number from 1 to {most}"))
}

fn connections(text: &str) -> Result<usize, String> {
    let most = tokio::sync::Semaphore::MAX_PERMITS;
    text.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(|| format!("a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(flags: &[&str]) -> [u32; 6] {
        let flags = [&["raygate"], flags].concat();
        let limits = Command::try_parse_from(flags).unwrap().serve.limits();
        let LimitSettings {
            requests_per_second,
            burst,
            concurrent_requests,
            streams,
            unauthenticated_per_second,
            unauthenticated_burst,
        } = limits;
        [requests_per_second, burst, concurrent_requests, streams, unauthenticated_per_second, unauthenticated_burst]
            .map(NonZeroU32::get)
    }

    #[test]
    fn each_limit_has_its_flag() {
        assert_eq!(limits(&[]), [50, 100, 50, 100, 20, 100]);
        let flags = [
            "--caller-requests-per-second=1",
            "--caller-burst=2",
            "--caller-concurrent-requests=3",
            "--caller-streams=4",
            "--unauthenticated-requests-per-second=5",
            "--unauthenticated-burst=1000000",
        ];
        assert_eq!(limits(&flags), [1, 2, 3, 4, 5, 1_000_000]);
    }
}
