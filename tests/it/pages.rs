//! The description, the page to read and try it, and what the process says of itself.

use std::collections::BTreeSet;
use std::path::Path;

use http::Method;
use serde_json::Value;

use crate::support::{Outcome, Raygate};

/// The values of these attributes in a page.
fn attributes<'a>(html: &'a str, names: &[&str]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for name in names {
        for part in html.split(&format!("{name}=\"")).skip(1) {
            values.extend(part.split('"').next());
        }
    }
    values
}

#[tokio::test]
async fn docs_lead_to_the_page() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = raygate.get("/docs").await?;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (308, "docs/"), "{answer:?}");
    let answer = raygate.get("/").await?;
    assert!(answer.status.is_redirection(), "{answer:?}");
    assert_eq!(answer.header("location"), "docs/", "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn page_loads_from_here_alone() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let page = raygate.get("/docs/").await?;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"), "{page:?}");
    let html = String::from_utf8(page.body.to_vec())?;
    let references = attributes(&html, &["src", "href"]);
    assert!(references.len() >= 4, "scripts and styles: {references:?}");
    let mut texts = vec![html.clone()];
    for reference in references {
        assert!(!reference.starts_with('/') && !reference.contains("://"), "{reference} isn't relative");
        let answer = raygate.get(&format!("/docs/{}", reference.trim_start_matches("./"))).await?;
        assert_eq!(answer.status, 200, "{reference}");
        assert!(!answer.body.is_empty(), "{reference}");
        let content_type = answer.header("content-type");
        let wanted = [(".js", "javascript"), (".css", "text/css"), (".png", "image/png")];
        for (_, wanted) in wanted.iter().filter(|(suffix, _)| reference.ends_with(suffix)) {
            assert!(content_type.contains(wanted), "{reference} is {content_type}");
        }
        if reference.ends_with("swagger-initializer.js") {
            let text = String::from_utf8(answer.body.to_vec())?;
            assert!(text.contains("\"../openapi.json\""), "it reads the description: {text}");
            texts.push(text);
        }
    }
    assert_eq!(texts.len(), 2, "the page has an initializer");
    for text in texts {
        for absolute in ["http://", "https://", "\"//", "\"/", "'/"] {
            assert!(!text.contains(absolute), "{absolute} in {text}");
        }
    }
    raygate.get("/docs/absent.js").await?.problem(404, "NOT_FOUND");
    for path in ["/docs/../Cargo.toml", "/docs/%2e%2e/Cargo.toml", "/docs/%2fetc%2fpasswd"] {
        raygate.get(path).await?.problem(404, "NOT_FOUND");
    }
    Ok(())
}

#[tokio::test]
async fn mistyped_path_is_no_page() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for path in ["/doc", "/docs.html", "/index.html", "/favicon.ico", "/openapi.yaml"] {
        let answer = raygate.send(Method::GET, path, &[("accept", "text/html")], "").await?;
        answer.problem(404, "NOT_FOUND");
    }
    Ok(())
}

#[tokio::test]
async fn description_has_every_operation() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let answer = raygate.get("/openapi.json").await?;
    assert_eq!(answer.header("content-type"), "application/json");
    let description = answer.json();
    assert!(description["openapi"].as_str().unwrap_or_default().starts_with("3.1"), "{}", description["openapi"]);
    let mut operations = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().ok_or("no paths")? {
        for (method, operation) in methods.as_object().ok_or("no methods")? {
            operations.insert(format!("{method} {path}"));
            let id = operation["operationId"].as_str().ok_or_else(|| format!("no id: {method} {path}"))?;
            assert!(ids.insert(id.to_owned()), "{id} twice");
        }
    }
    let wanted = [
        "delete /clusters/{ref}",
        "delete /clusters/{ref}/workerGroups/{group}",
        "get /clusters",
        "get /clusters/{ref}",
        "get /clusters/{ref}/manifest",
        "get /clusters/{ref}/watch",
        "get /health",
        "get /metrics",
        "get /openapi.json",
        "get /ready",
        "get /version",
        "get /watch",
        "get /whoami",
        "patch /clusters/{ref}",
        "patch /clusters/{ref}/workerGroups/{group}",
        "post /clusters",
        "post /clusters/{ref}/owner",
        "post /clusters/{ref}/restart",
        "post /clusters/{ref}/start",
        "post /clusters/{ref}/stop",
        "put /clusters/{ref}",
        "put /clusters/{ref}/workerGroups/{group}",
    ];
    assert_eq!(operations.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    Ok(())
}

#[tokio::test]
async fn references_of_the_description_lead_somewhere() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let description = raygate.get("/openapi.json").await?.json();
    let mut references = Vec::new();
    let mut left = vec![&description];
    while let Some(value) = left.pop() {
        if let Some(reference) = value["$ref"].as_str() {
            references.push(reference);
        }
        left.extend(value.as_object().into_iter().flat_map(|members| members.values()));
        left.extend(value.as_array().into_iter().flatten());
    }
    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').ok_or_else(|| format!("{reference} leads away"))?;
        assert!(description.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    Ok(())
}

/// Run with `UPDATE_SNAPSHOTS=1` to take what is served as what is right.
#[tokio::test]
async fn description_is_as_it_was() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let served: Value = raygate.get("/openapi.json").await?.json();
    let served = format!("{served:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots/openapi.json");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        std::fs::write(&path, &served)?;
    }
    let held = std::fs::read_to_string(&path)?;
    let line = held.lines().zip(served.lines()).position(|(held, served)| held != served);
    assert!(
        held == served,
        "the description has changed, first in line {:?}; refresh it if that is right",
        line.map(|line| line + 1)
    );
    Ok(())
}

#[tokio::test]
async fn version_is_said() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let version = raygate.get("/version").await?.json();
    assert_eq!(version["apiVersion"], "v1", "{version}");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_raygate")).arg("--version").output().await?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(said.trim(), format!("raygate {}", version["version"].as_str().unwrap_or_default()));
    Ok(())
}

#[tokio::test]
async fn head_is_get_without_a_body() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (path, status) in [
        ("/clusters", 200),
        ("/clusters/absent", 404),
        ("/health", 200),
        ("/ready", 200),
        ("/version", 200),
        ("/metrics", 200),
        ("/openapi.json", 200),
        ("/docs/", 200),
        ("/docs", 308),
        ("/nothing", 404),
    ] {
        let head = raygate.send(Method::HEAD, path, &[], "").await?;
        assert_eq!(head.status, status, "{path}");
        assert!(head.body.is_empty(), "{path}: {:?}", head.body);
        let get = raygate.get(path).await?;
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    Ok(())
}

/// What is answered fits what is described: a strict reader of the description refuses nothing that it gets.
#[tokio::test]
async fn answers_fit_their_description() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let schemas = raygate.get("/openapi.json").await?.json()["components"]["schemas"].clone();
    let parts = schemas["Cluster"]["allOf"].as_array().cloned().ok_or("a cluster isn't made of parts")?;
    for part in parts {
        let part = match part["$ref"].as_str() {
            Some(reference) => schemas[reference.rsplit('/').next().unwrap_or_default()].clone(),
            None => part,
        };
        assert_ne!(part["additionalProperties"], false, "the other part's members would be refused: {part}");
    }
    let autoscaling = &schemas["Document"]["properties"]["autoscaling"]["properties"];
    assert_eq!(
        (autoscaling["idleTimeoutSeconds"]["type"].as_str(), autoscaling["image"]["type"].as_str()),
        (Some("integer"), Some("string"))
    );
    Ok(())
}
