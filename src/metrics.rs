//! What the process counts, for Prometheus. Labels have a bounded number of values: names of users, clusters or namespaces are never
//! among them.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::access::{Action, Which};

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels and their values; each value is one of an enum's names.
type Labels<const COUNT: usize> = [(&'static str, &'static str); COUNT];

/// What came of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// It holds from now on.
    Loaded,
    /// It is faulty, and what held before still does.
    Refused,
}

impl Reload {
    const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Refused => "refused",
        }
    }
}

/// What was decided about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It goes on; or it is about a cluster that isn't there, or isn't there for its caller: everybody may read the
    /// metrics, so they don't tell one from the other.
    Allowed,
    /// Nobody knows who asks.
    Unauthenticated,
    /// They may not, and are told so.
    Forbidden,
    /// They ask for more than one caller gets.
    Limited,
}

impl Decision {
    const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Limited => "limited",
        }
    }
}

/// The counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reloads: Family<Labels<2>, Counter>,
    loaded: Family<Labels<1>, Gauge>,
    decisions: Family<Labels<2>, Counter>,
    streams_open: Gauge,
}

/// Counts as an open stream until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the count"]
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Nothing has happened yet but what the audit has lost: the counter of its lines.
    #[must_use]
    pub fn new(audit_lines_lost: Counter) -> Self {
        let mut registry = Registry::with_prefix("raygate");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What the process is", build);
        let reloads = Family::<Labels<2>, Counter>::default();
        registry.register("policy_reloads", "Files of the policy that were read, and what came of it", reloads.clone());
        let loaded = Family::<Labels<1>, Gauge>::default();
        let help = "When what holds of a file of the policy was read";
        registry.register_with_unit("policy_loaded_timestamp", help, Unit::Seconds, loaded.clone());
        let decisions = Family::<Labels<2>, Counter>::default();
        registry.register("access_decisions", "Requests, and what was decided about them", decisions.clone());
        registry.register("audit_lines_lost", "Lines of the audit that could not be written", audit_lines_lost);
        let streams_open = Gauge::default();
        registry.register("streams_open", "Streams that are open", streams_open.clone());
        let metrics = Self { registry, reloads, loaded, decisions, streams_open };
        // Prometheus sees no increase where there was no zero before.
        for file in [Which::Policy, Which::Tokens] {
            for outcome in [Reload::Loaded, Reload::Refused] {
                drop(metrics.reloads.get_or_create(&reload(file, outcome)));
            }
        }
        metrics
    }
}

fn reload(file: Which, outcome: Reload) -> Labels<2> {
    [("file", file.name()), ("result", outcome.name())]
}

impl Metrics {
    /// A file was read at this time.
    pub fn reloaded(&self, file: Which, outcome: Reload, at: Timestamp) {
        self.reloads.get_or_create(&reload(file, outcome)).inc();
        match outcome {
            Reload::Loaded => {
                self.loaded.get_or_create(&[("file", file.name())]).set(at.as_second());
            }
            Reload::Refused => {}
        }
    }

    /// This was decided about a request for that action.
    pub fn decided(&self, decision: Decision, action: Action) {
        self.decisions.get_or_create(&[("decision", decision.name()), ("action", action.name())]).inc();
    }

    /// A stream has begun; it is open until what this answers is dropped.
    pub fn stream_opened(&self) -> OpenStream {
        self.streams_open.inc();
        OpenStream(self.streams_open.clone())
    }

    /// Everything, in the text form of OpenMetrics 1.0; of media type [`MEDIA_TYPE`].
    ///
    /// # Errors
    /// It can't be written down: a fault of this process.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples, sorted, without what the build says.
    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text().unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("raygate_build_info{"));
        let mut samples: Vec<_> = lines.map(str::to_owned).collect();
        samples.sort();
        samples
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_has_not_happened_is_zero_or_not_there() {
        let wanted = [
            "raygate_audit_lines_lost_total 0",
            r#"raygate_policy_reloads_total{file="policy",result="loaded"} 0"#,
            r#"raygate_policy_reloads_total{file="policy",result="refused"} 0"#,
            r#"raygate_policy_reloads_total{file="tokens",result="loaded"} 0"#,
            r#"raygate_policy_reloads_total{file="tokens",result="refused"} 0"#,
            "raygate_streams_open 0",
        ];
        assert_eq!(samples(&Metrics::new(Counter::default())), wanted);
    }

    #[test]
    fn everything_is_counted_under_its_name() {
        let lost = Counter::default();
        let metrics = Metrics::new(lost.clone());
        metrics.reloaded(Which::Policy, Reload::Loaded, at(1_700_000_000));
        metrics.reloaded(Which::Tokens, Reload::Loaded, at(1_700_000_001));
        // A file that is refused leaves the time of the one that holds.
        metrics.reloaded(Which::Policy, Reload::Refused, at(1_700_000_002));
        metrics.reloaded(Which::Policy, Reload::Refused, at(1_700_000_003));
        for decision in
            [Decision::Allowed, Decision::Unauthenticated, Decision::Forbidden, Decision::Limited, Decision::Limited]
        {
            metrics.decided(decision, Action::ListClusters);
        }
        metrics.decided(Decision::Limited, Action::DeleteCluster);
        lost.inc_by(5);
        let wanted = [
            r#"raygate_access_decisions_total{decision="allowed",action="listClusters"} 1"#,
            r#"raygate_access_decisions_total{decision="forbidden",action="listClusters"} 1"#,
            r#"raygate_access_decisions_total{decision="limited",action="deleteCluster"} 1"#,
            r#"raygate_access_decisions_total{decision="limited",action="listClusters"} 2"#,
            r#"raygate_access_decisions_total{decision="unauthenticated",action="listClusters"} 1"#,
            "raygate_audit_lines_lost_total 5",
            r#"raygate_policy_loaded_timestamp_seconds{file="policy"} 1700000000"#,
            r#"raygate_policy_loaded_timestamp_seconds{file="tokens"} 1700000001"#,
            r#"raygate_policy_reloads_total{file="policy",result="loaded"} 1"#,
            r#"raygate_policy_reloads_total{file="policy",result="refused"} 2"#,
            r#"raygate_policy_reloads_total{file="tokens",result="loaded"} 1"#,
            r#"raygate_policy_reloads_total{file="tokens",result="refused"} 0"#,
            "raygate_streams_open 0",
        ];
        assert_eq!(samples(&metrics), wanted);
    }

    #[test]
    fn streams_are_open_until_they_end() {
        let metrics = Metrics::new(Counter::default());
        let open = |count: u32| samples(&metrics).contains(&format!("raygate_streams_open {count}"));
        let (first, second) = (metrics.stream_opened(), metrics.stream_opened());
        assert!(open(2));
        drop(first);
        assert!(open(1));
        drop(second);
        assert!(open(0));
    }
}
