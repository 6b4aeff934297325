//! Label selectors on lists and watches.

use form_urlencoded::byte_serialize;
use http::Method;
use serde_json::{Value, json};

use crate::streams::Lines;
use crate::support::{Api, Outcome, Raygate, faults};

/// A value as it stands in a query.
fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

async fn create(raygate: &Api, name: &str, labels: Value) -> Outcome {
    let answer = raygate.post("/clusters", &json!({"name": name, "labels": labels})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(())
}

async fn patch(raygate: &Api, name: &str, labels: Value) -> Outcome {
    let body = json!({"labels": labels}).to_string();
    let answer = raygate.send(Method::PATCH, &format!("/clusters/{name}"), &[], body).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Ok(())
}

/// The clusters that the tests select from.
async fn stocked() -> Outcome<Raygate> {
    let raygate = Raygate::memory(&[]).await?;
    create(&raygate, "a", json!({"team": "blue", "tier": "1", "example.com/kind": "x"})).await?;
    create(&raygate, "b", json!({"team": "red", "tier": "12", "empty": ""})).await?;
    create(&raygate, "c", json!({})).await?;
    Ok(raygate)
}

/// Each operator, and who has such labels.
const CASES: [(&str, &[&str]); 22] = [
    ("", &["a", "b", "c"]),
    ("team", &["a", "b"]),
    ("!team", &["c"]),
    ("team=blue", &["a"]),
    ("team==red", &["b"]),
    ("team!=blue", &["b", "c"]),
    ("team in (blue,red)", &["a", "b"]),
    ("team notin (blue)", &["b", "c"]),
    ("tier>1", &["b"]),
    ("tier<12", &["a"]),
    ("empty=", &["b"]),
    ("empty in ()", &["b"]),
    ("team,tier=1", &["a"]),
    ("team in (blue,red),!empty", &["a"]),
    (" team \t= blue ", &["a"]),
    ("example.com/kind=x", &["a"]),
    ("example.com/kind notin (x)", &["b", "c"]),
    ("team=green", &[]),
    ("team=Blue", &[]),
    ("raygate.dev/owner", &[]),
    ("!raygate.dev/owner", &["a", "b", "c"]),
    ("!ray.io/cluster,!kubernetes.io/x", &["a", "b", "c"]),
];

/// What is no selector, however it is written.
fn bad() -> Vec<String> {
    let texts = [
        "=",
        "a,",
        ",a",
        "a=b=c",
        "!a=b",
        "a in",
        "a in (b",
        "a in b)",
        "a in ((b))",
        "a b",
        "a>b",
        "a/b/c",
        "a='b'",
        "a=\"b\"",
        "a=b\0",
        "\0",
        "a=b\0,c",
        "a=b;c",
        "a=b&limit=1",
        "a=b' or '1'='1",
        "a=${b}",
        "a=../b",
        "a=b\nc",
        "ä=b",
        "a=ü",
        "a\u{a0}=b",
        "a=\u{202e}b",
        "{\"a\": \"b\"}",
        "a=b#c",
        "a=%41",
    ];
    let mut bad = texts.map(str::to_owned).to_vec();
    let nested = format!("a in {}b{}", "(".repeat(1000), ")".repeat(1000));
    bad.extend([nested, "(".repeat(4096), "a".repeat(4097), vec!["a"; 101].join(","), format!("{}=b", "a".repeat(64))]);
    bad
}

#[tokio::test]
async fn lists_are_what_is_selected() -> Outcome {
    let raygate = stocked().await?;
    for (selector, wanted) in CASES {
        let answer = raygate.get(&format!("/clusters?labelSelector={}", encoded(selector))).await?;
        assert_eq!(answer.status, 200, "{selector}: {answer:?}");
        let items = answer.json()["items"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = items.iter().filter_map(|item| item["name"].as_str()).collect();
        assert_eq!(names, wanted, "{selector}");
    }
    Ok(())
}

#[tokio::test]
async fn watches_are_what_is_selected() -> Outcome {
    let raygate = stocked().await?;
    for (selector, wanted) in CASES {
        let mut lines =
            Lines::ask(&raygate, Method::GET, &format!("/watch?labelSelector={}", encoded(selector))).await?;
        let events = lines.until(|event| event["type"] == "SYNCED").await?;
        let mut names: Vec<_> = events.iter().filter_map(|event| event["cluster"]["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, wanted, "{selector}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_no_selector_is_refused() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for selector in bad() {
        for path in ["/clusters", "/watch"] {
            let answer = raygate.get(&format!("{path}?labelSelector={}", encoded(&selector))).await?;
            let problem = answer.problem(400, "MALFORMED");
            let wanted = [("?labelSelector".to_owned(), "INVALID_PARAMETER".to_owned())];
            assert_eq!(faults(&problem), wanted, "{path} {selector:?}");
        }
    }
    let answer = raygate.get("/clusters?labelSelector=a&labelSelector=b").await?;
    assert_eq!(faults(&answer.problem(400, "MALFORMED"))[0].0, "?labelSelector");
    // Only collections are selected from.
    create(&raygate, "demo", json!({})).await?;
    raygate.get("/clusters/demo?labelSelector=a").await?.problem(400, "MALFORMED");
    raygate.get("/clusters/demo/watch?labelSelector=a").await?.problem(400, "MALFORMED");
    Ok(())
}

#[tokio::test]
async fn what_is_not_utf8_is_refused() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for selector in ["a%00", "%00", "a=%ff", "%c3%28", "a%3d%e2%80%ae", "a=b%0bc"] {
        let answer = raygate.get(&format!("/clusters?labelSelector={selector}")).await?;
        assert_eq!(faults(&answer.problem(400, "MALFORMED"))[0].0, "?labelSelector", "{selector}");
    }
    Ok(())
}

#[tokio::test]
async fn pages_keep_to_their_selector() -> Outcome {
    let raygate = stocked().await?;
    let page = async |query: &str| raygate.get(&format!("/clusters?limit=1&{query}")).await;
    let first = page("labelSelector=team").await?.json();
    assert_eq!(first["items"][0]["name"], "a", "{first}");
    let token = encoded(first["nextPageToken"].as_str().ok_or("no second page")?);
    let second = page(&format!("labelSelector=team&pageToken={token}")).await?.json();
    assert_eq!(second["items"][0]["name"], "b", "{second}");
    assert!(second["nextPageToken"].is_null(), "c has no such label: {second}");
    for other in
        ["", "labelSelector=&", "labelSelector=tier&", "labelSelector=!team&", "namespace=default&", "namespace=team&"]
    {
        let answer = page(&format!("{other}pageToken={token}")).await?;
        let wanted = [("?pageToken".to_owned(), "INVALID_PARAMETER".to_owned())];
        assert_eq!(faults(&answer.problem(400, "MALFORMED")), wanted, "{other}");
    }
    let plain = page("").await?.json();
    let token = encoded(plain["nextPageToken"].as_str().ok_or("no second page")?);
    page(&format!("labelSelector=team&pageToken={token}")).await?.problem(400, "MALFORMED");
    Ok(())
}

#[tokio::test]
async fn labels_come_and_go_for_a_watcher() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mut socket = raygate.socket("/watch?labelSelector=team%3Dblue", &[]).await?;
    assert_eq!(socket.event().await?["type"], "SYNCED");
    create(&raygate, "other", json!({"team": "red"})).await?;
    create(&raygate, "demo", json!({"team": "blue"})).await?;
    let uid = raygate.get("/clusters/demo").await?.json()["uid"].clone();
    let mut events = socket.until(|event| event["type"] == "ADDED").await?;
    for (labels, last) in [
        (json!({"note": "x"}), "MODIFIED"),
        (json!({"team": "red"}), "DELETED"),
        (json!({"team": "blue"}), "ADDED"),
        (json!({"team": null}), "DELETED"),
    ] {
        patch(&raygate, "demo", labels.clone()).await?;
        let shown = |event: &Value| {
            labels.as_object().into_iter().flatten().all(|(key, value)| event["cluster"]["labels"][key] == *value)
        };
        let seen = socket.until(|event| event["type"] == last && shown(event)).await?;
        events.extend(seen);
    }
    for event in &events {
        assert_eq!((&event["cluster"]["name"], &event["cluster"]["uid"]), (&json!("demo"), &uid), "{event}");
    }
    // Of what no longer matches nothing more is heard, not even its end.
    raygate.delete("/clusters/demo").await?;
    create(&raygate, "last", json!({"team": "blue"})).await?;
    assert_eq!(socket.event().await?["cluster"]["name"], "last");
    Ok(())
}
