//! What the process counts, read as strictly as OpenMetrics 1.0 says.

use std::collections::{BTreeMap, HashSet};

use crate::support::{Outcome, Raygate};

/// A family: what its metadata say and its samples.
#[derive(Debug, Default)]
struct FamilyRead {
    help: String,
    kind: String,
    unit: Option<String>,
    samples: Vec<String>,
}

/// The families of a text, by name. Fails on every line that isn't one of the format's.
fn families(text: &str) -> Outcome<BTreeMap<String, FamilyRead>> {
    let body = text.strip_suffix("# EOF\n").ok_or("it has no end")?;
    let mut families: BTreeMap<String, FamilyRead> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = HashSet::new();
    for line in body.split_terminator('\n') {
        if let Some(metadata) = line.strip_prefix("# ") {
            let mut words = metadata.splitn(3, ' ');
            let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
                return Err(format!("no metadata: {line}").into());
            };
            if name != current {
                assert!(!families.contains_key(name), "{name} is there twice, or apart");
                name.clone_into(&mut current);
            }
            let family = families.entry(current.clone()).or_default();
            assert!(family.samples.is_empty(), "metadata after samples: {line}");
            let old = match word {
                "HELP" => std::mem::replace(&mut family.help, rest.to_owned()),
                "TYPE" => std::mem::replace(&mut family.kind, rest.to_owned()),
                "UNIT" => family.unit.replace(rest.to_owned()).unwrap_or_default(),
                other => return Err(format!("what is {other}? {line}").into()),
            };
            assert_eq!(old, "", "{word} twice: {line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no sample: {line}"))?;
        let family = families.get_mut(&current).ok_or_else(|| format!("a sample of nothing: {line}"))?;
        let suffix = match family.kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            "gauge" => "",
            other => return Err(format!("{other} is no type of ours: {line}").into()),
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert_eq!(name, format!("{current}{suffix}"), "{line}");
        check_labels(labels.strip_suffix('}').ok_or_else(|| format!("labels have no end: {line}"))?);
        value.parse::<f64>()?;
        assert!(seen.insert(series.to_owned()), "{series} is there twice");
        family.samples.push(line.to_owned());
    }
    Ok(families)
}

/// Each is `name="value"`, and no value needs an escape.
fn check_labels(labels: &str) {
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let parts = label.split_once("=\"").and_then(|(name, rest)| Some((name, rest.strip_suffix('"')?)));
        let (name, value) = parts.unwrap_or_default();
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{label}");
        assert!(!value.is_empty() && !value.contains(['"', '\\']), "{label}");
    }
}

#[tokio::test]
async fn metrics_are_open_metrics() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = raygate.get("/metrics").await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let families = families(std::str::from_utf8(&answer.body)?)?;
    for (name, family) in &families {
        assert!(name.starts_with("raygate_"), "{name}");
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name}: {family:?}");
        assert!(!family.samples.is_empty(), "{name}: {family:?}");
        if let Some(unit) = &family.unit {
            assert!(name.ends_with(&format!("_{unit}")), "{name}: {family:?}");
        }
    }
    for (name, kind) in [
        ("raygate_build", "info"),
        ("raygate_policy_reloads", "counter"),
        ("raygate_audit_lines_lost", "counter"),
        ("raygate_streams_open", "gauge"),
    ] {
        let family = families.get(name).ok_or_else(|| format!("{name} is missing: {families:?}"))?;
        assert_eq!(family.kind, kind, "{name}");
    }
    let version = raygate.get("/version").await?.json()["version"].clone();
    assert_eq!(families["raygate_build"].samples, [format!("raygate_build_info{{version={version}}} 1")]);
    raygate.get("/metrics?name=x").await?.problem(400, "MALFORMED");
    Ok(())
}

#[test]
fn what_is_no_open_metrics_is_found() {
    let good =
        "# HELP a_b A.\n# TYPE a_b counter\na_b_total{c=\"d\",e=\"f\"} 1\n# HELP g G.\n# TYPE g gauge\ng 0\n# EOF\n";
    assert_eq!(families(good).unwrap().len(), 2);
    for bad in [
        good.replace("# EOF\n", ""),
        good.replace("# EOF\n", "\n# EOF\n"),
        good.replace("# TYPE g gauge\n", ""),
        good.replace("\ng 0", "\ng zero"),
        good.replace("\ng 0", "\nh"),
    ] {
        assert!(families(&bad).is_err(), "{bad}");
    }
}
