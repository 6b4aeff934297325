//! Which part of the source may use which, as docs/architecture.md says.

use std::path::{Path, PathBuf};

use crate::support::Outcome;

/// Each part, and the others that it may use. `app.rs` and `main.rs` put the parts together and may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("http", &["operations", "cache", "stream", "access", "audit", "ray", "config", "metrics", "clock"]),
    ("operations", &["access", "cache", "manager", "ray", "stream", "clock"]),
    ("stream", &["cache", "ray", "clock"]),
    ("cache", &["manager", "ray", "clock"]),
    ("access", &["manager", "ray", "clock"]),
    ("audit", &[]),
    ("manager", &["ray", "clock"]),
    ("metrics", &["access"]),
    ("ray", &[]),
    ("clock", &[]),
    ("config", &["access", "ray"]),
    ("telemetry", &["config"]),
];

/// The names that directly follow `root::` in the source, in `use` groups too.
fn used(source: &str, root: &str) -> Vec<String> {
    let lines = source.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    let code = lines.map(|line| line.split(" //").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = |text: &str| text.trim_start().chars().take_while(|letter| is_word(*letter)).collect::<String>();
    let mut names = Vec::new();
    for (at, found) in code.match_indices(&format!("{root}::")) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let rest = code[at + found.len()..].trim_start();
        let Some(group) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let (mut depth, mut begin) = (0, 0);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    names.push(word(&group[begin..at]));
                    begin = at + 1;
                    if letter == '}' {
                        break;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What a file, by its path under `src`, uses and may not.
fn violations(path: &str, source: &str) -> Vec<String> {
    let part = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let part_of = |name: &String| MAY_USE.iter().any(|(part, _)| part == name) || name == "app";
    let mut wrong = Vec::new();
    if !["app", "main", "lib"].contains(&part) {
        let allowed = MAY_USE.iter().find(|(of, _)| *of == part).map(|(_, allowed)| *allowed);
        if allowed.is_none() {
            wrong.push(format!("{path}: no rule says what {part} may use"));
        }
        let by_root = used(source, "crate");
        let by_parent = used(source, "super").into_iter().filter(part_of);
        for name in by_root.into_iter().chain(by_parent) {
            if name != part && !allowed.unwrap_or_default().contains(&name.as_str()) {
                wrong.push(format!("{path}: {part} uses {name}"));
            }
        }
    }
    let client = used(source, "kube").iter().any(|name| name == "Client" || name == "client");
    if client && !path.starts_with("manager/kubernetes") {
        wrong.push(format!("{path}: kube's client"));
    }
    let axum = !used(source, "axum").is_empty() || source.contains("use axum");
    if axum && part != "http" && part != "app" {
        wrong.push(format!("{path}: axum"));
    }
    wrong
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Outcome {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn parts_use_only_what_they_may() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files)?;
    assert!(files.len() > 40, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root)?.to_str().ok_or("a strange path")?.to_owned();
        wrong.extend(violations(&path, &std::fs::read_to_string(&file)?));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn planted_violations_are_found() {
    for (path, source) in [
        ("http/clusters.rs", "use crate::manager::Backend;"),
        ("http/clusters.rs", "fn f() { crate::manager::memory::backend(x) }"),
        ("http/clusters.rs", "use crate::{access::Caller, manager};"),
        ("http/clusters.rs", "use crate::{ray::{fault::{Fault}, name},\n    manager::{Backend}};"),
        ("http/mod.rs", "use super::manager;"),
        ("http/extract.rs", "use super::super::manager::Backend;"),
        ("operations/read.rs", "use crate::http::Problem;"),
        ("operations/read.rs", "use crate::config::Config;"),
        ("stream/mod.rs", "use crate::access::Caller;"),
        ("cache/mod.rs", "use crate::stream;"),
        ("access/mod.rs", "use crate::cache::Cache;"),
        ("manager/memory/store.rs", "use crate::cache::Cache;"),
        ("metrics.rs", "use crate::http::App;"),
        ("manager/life.rs", "pub(in crate::app) fn f() {}"),
        ("ray/name.rs", "use crate::clock;"),
        ("newroom/mod.rs", "//! Nothing."),
        ("app.rs", "use kube::Client;"),
        ("cache/mod.rs", "use kube::{ResourceExt, client::Body};"),
        ("manager/memory/mod.rs", "fn f(client: kube::Client) {}"),
        ("operations/error.rs", "use axum::response::Response;"),
        ("main.rs", "use axum;"),
    ] {
        assert_eq!(violations(path, source).len(), 1, "{path}: {source}");
    }
}

#[test]
fn what_is_allowed_is_let_through() {
    for (path, source) in [
        ("http/clusters.rs", "use crate::{access::Caller, ray::{fault, name}};\nuse super::App;"),
        ("http/mod.rs", "use axum::Router;\nuse crate::http::error;\n// crate::manager is not for us"),
        ("manager/kubernetes/mod.rs", "use kube::{Client, client};\nuse crate::ray::cluster::RayCluster;"),
        ("cache/mod.rs", "use kube::ResourceExt; // not kube::Client\nuse utoipa_axum::x;"),
        ("ray/name.rs", "use super::fault::Wrong;"),
        ("app.rs", "use axum::Router;\nuse crate::manager::memory;"),
    ] {
        assert_eq!(violations(path, source), [""; 0], "{path}: {source}");
    }
}
