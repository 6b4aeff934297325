//! What is refused, with which status, and how the answer says where the fault is.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Answer, Outcome, PATIENCE, Raygate, eventually, faults};

/// Pointers and codes, as [`faults`] gives them.
fn found(faults: &[(&str, &str)]) -> Vec<(String, String)> {
    faults.iter().map(|(pointer, code)| ((*pointer).to_owned(), (*code).to_owned())).collect()
}

/// Posts this text as JSON.
async fn post_text(raygate: &Raygate, text: impl Into<String>) -> Outcome<Answer> {
    let json = [("content-type", "application/json")];
    raygate.send(Method::POST, "/clusters", &json, text.into()).await
}

/// How many clusters there are, wherever.
async fn count(raygate: &Raygate) -> Outcome<usize> {
    let list = raygate.get("/clusters?namespace=*").await?.json();
    Ok(list["items"].as_array().ok_or("no items")?.len())
}

/// The state of a cluster.
async fn state(raygate: &Raygate, reference: &str) -> Outcome<Value> {
    let answer = raygate.get(&format!("/clusters/{reference}")).await?;
    Ok(answer.json()["status"]["state"].clone())
}

async fn is_ready(raygate: &Raygate, reference: &str) -> Outcome {
    eventually("the cluster is ready", async || Ok((state(raygate, reference).await? == "READY").then_some(()))).await
}

#[tokio::test]
async fn name_taken() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "demo"})).await?.status, 201);
    let answer = raygate.post("/clusters", &json!({"name": "demo"})).await?;
    let problem = answer.problem(409, "ALREADY_EXISTS");
    assert_eq!(answer.header("location"), "clusters/demo.default", "{answer:?}");
    assert_eq!(problem["instance"], "/clusters", "{problem}");
    assert_eq!(problem["retryable"], false, "{problem}");
    Ok(())
}

#[tokio::test]
async fn names_have_at_most_53_characters() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let longest = "a".repeat(53);
    let answer = raygate.post("/clusters", &json!({"name": longest})).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("location"), format!("clusters/{longest}.default"));
    let problem = raygate.post("/clusters", &json!({"name": "a".repeat(54)})).await?;
    let problem = problem.problem(422, "INVALID");
    assert_eq!(faults(&problem), found(&[("/name", "INVALID_NAME")]));
    Ok(())
}

#[tokio::test]
async fn names_that_kuberay_does_not_take() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for name in ["Demo", "1demo", "-demo", "demo-", "de.mo", "de_mo", "", "démo", "de mo"] {
        let problem = raygate.post("/clusters", &json!({"name": name})).await?;
        let problem = problem.problem(422, "INVALID");
        assert_eq!(faults(&problem), found(&[("/name", "INVALID_NAME")]), "{name}");
    }
    assert_eq!(count(&raygate).await?, 0);
    Ok(())
}

#[tokio::test]
async fn members_with_values_that_are_not_taken() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let group = |group: Value| json!({"name": "demo", "workerGroups": {"small": group}});
    let replicas = "/workerGroups/small/replicas";
    for (document, pointer, code) in [
        (json!({}), "/name", "REQUIRED"),
        (json!({"name": null}), "/name", "REQUIRED"),
        (group(json!({"replicas": -1})), replicas, "OUT_OF_RANGE"),
        (group(json!({"replicas": 2_147_483_648_u64})), replicas, "OUT_OF_RANGE"),
        (group(json!({"replicas": 3, "maxReplicas": 2})), replicas, "OUT_OF_RANGE"),
        (group(json!({"replicas": 1, "minReplicas": 2})), replicas, "OUT_OF_RANGE"),
        (group(json!({"minReplicas": 3, "maxReplicas": 2})), "/workerGroups/small/maxReplicas", "OUT_OF_RANGE"),
        (group(json!({"gpu": "500m"})), "/workerGroups/small/gpu", "OUT_OF_RANGE"),
        (json!({"name": "demo", "head": {"cpu": "lots"}}), "/head/cpu", "INVALID_QUANTITY"),
        (json!({"name": "demo", "head": {"memory": "-1Gi"}}), "/head/memory", "OUT_OF_RANGE"),
        (json!({"name": "demo", "namespace": "No"}), "/namespace", "INVALID_NAME"),
        (json!({"name": "demo", "labels": {"team": "a b"}}), "/labels/team", "INVALID_VALUE"),
        (json!({"name": "demo", "labels": {"a/b/c": "d"}}), "/labels/a~1b~1c", "INVALID_NAME"),
        (json!({"name": "demo", "workerGroups": {"No": {}}}), "/workerGroups/No", "INVALID_NAME"),
    ] {
        let problem = raygate.post("/clusters", &document).await?.problem(422, "INVALID");
        assert_eq!(faults(&problem), found(&[(pointer, code)]), "{document}");
        let message = problem["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "no words for {document}");
    }
    assert_eq!(count(&raygate).await?, 0);
    Ok(())
}

#[tokio::test]
async fn keys_that_only_others_write() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for member in ["labels", "annotations"] {
        for key in ["raygate.dev/anything", "ray.io/cluster", "ray.io/node-type", "ray.io/kuberay-version"] {
            let problem = raygate.post("/clusters", &json!({"name": "demo", member: {key: "x"}})).await?;
            let problem = problem.problem(422, "INVALID");
            let pointer = format!("/{member}/{}", key.replace('/', "~1"));
            assert_eq!(faults(&problem), found(&[(&pointer, "RESERVED")]));
        }
    }
    let document = json!({"name": "demo", "labels": {"ray.io/mine": "x", "team": "y"}});
    let answer = raygate.post("/clusters", &document).await?;
    assert_eq!(answer.status, 201, "other keys are the user's: {answer:?}");
    assert_eq!(answer.json()["labels"], json!({"ray.io/mine": "x", "team": "y"}));
    Ok(())
}

#[tokio::test]
async fn unknown_members() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (document, pointer, nearest) in [
        (json!({"name": "demo", "workerGroup": {}}), "/workerGroup", "workerGroups"),
        (json!({"name": "demo", "worker_groups": {}}), "/worker_groups", "workerGroups"),
        (json!({"name": "demo", "head": {"memroy": "1Gi"}}), "/head/memroy", "memory"),
        (json!({"name": "demo", "workerGroups": {"s": {"replica": 1}}}), "/workerGroups/s/replica", "replicas"),
    ] {
        let problem = raygate.post("/clusters", &document).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, "UNKNOWN_MEMBER")]), "{problem}");
        let fault = &problem["errors"][0];
        let message = fault["message"].as_str().unwrap_or_default();
        assert!(message.contains(&format!("`{nearest}`")), "{nearest} isn't named: {fault}");
        let allowed = fault["allowed"].as_array().ok_or("nothing is allowed")?;
        assert!(allowed.contains(&json!(nearest)), "{fault}");
    }
    let far = json!({"name": "demo", "zzzzzz": 1});
    let problem = raygate.post("/clusters", &far).await?.problem(400, "MALFORMED");
    let message = problem["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(!message.contains("Did you mean"), "nothing is near: {message}");
    Ok(())
}

#[tokio::test]
async fn wrong_types() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (document, pointer) in [
        (json!([]), ""),
        (json!("demo"), ""),
        (json!(null), ""),
        (json!({"name": 7}), "/name"),
        (json!({"name": "demo", "labels": []}), "/labels"),
        (json!({"name": "demo", "labels": {"team": 1}}), "/labels/team"),
        (json!({"name": "demo", "suspended": "yes"}), "/suspended"),
        (json!({"name": "demo", "head": "big"}), "/head"),
        (json!({"name": "demo", "head": {"cpu": true}}), "/head/cpu"),
        (json!({"name": "demo", "head": {"env": {"A": 1}}}), "/head/env/A"),
        (json!({"name": "demo", "workerGroups": [{}]}), "/workerGroups"),
        (json!({"name": "demo", "workerGroups": {"s": {"replicas": "2"}}}), "/workerGroups/s/replicas"),
        (json!({"name": "demo", "workerGroups": {"s": {"replicas": 1.5}}}), "/workerGroups/s/replicas"),
    ] {
        let problem = raygate.post("/clusters", &document).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, "WRONG_TYPE")]), "{document}");
    }
    assert_eq!(count(&raygate).await?, 0);
    Ok(())
}

#[tokio::test]
async fn endless_faults_are_told_in_part() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let members: serde_json::Map<_, _> = (0..50_000).map(|index| (format!("x{index}"), json!(1))).collect();
    for document in [
        json!(members),
        json!({"name": "demo", "head": {"env": members}}),
        json!({"name": "demo", "head": {"podTemplate": members}}),
    ] {
        let answer = raygate.post("/clusters", &document).await?;
        let problem = answer.problem(400, "MALFORMED");
        assert!(problem["errors"].as_array().is_some_and(|errors| (90..=100).contains(&errors.len())));
        assert!(answer.body.len() < 200_000, "{} bytes", answer.body.len());
    }
    Ok(())
}

#[tokio::test]
async fn duplicate_keys() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (text, pointers) in [
        (r#"{"name": "demo", "name": "other"}"#, &["/name"][..]),
        (r#"{"name": "demo", "head": {"cpu": 1, "cpu": 1}}"#, &["/head/cpu"]),
        (r#"{"name": "demo", "labels": {"a/b": "c", "a\/b": "d"}}"#, &["/labels/a~1b"]),
        (r#"{"name": "a", "name": "b", "workerGroups": {"s": {}, "s": {}}}"#, &["/name", "/workerGroups/s"]),
    ] {
        let problem = post_text(&raygate, text).await?.problem(400, "MALFORMED");
        let wanted: Vec<_> = pointers.iter().map(|pointer| (*pointer, "DUPLICATE_KEY")).collect();
        assert_eq!(faults(&problem), found(&wanted), "{text}");
    }
    assert_eq!(count(&raygate).await?, 0);
    Ok(())
}

#[tokio::test]
async fn duplicate_key_hides_no_other_fault() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let text = r#"{"name": "Demo", "head": {"cpu": 1, "cpu": 2}, "colour": 1}"#;
    let problem = post_text(&raygate, text).await?.problem(400, "MALFORMED");
    let wanted = [("/colour", "UNKNOWN_MEMBER"), ("/head/cpu", "DUPLICATE_KEY"), ("/name", "INVALID_NAME")];
    assert_eq!(faults(&problem), found(&wanted), "{problem}");
    Ok(())
}

#[tokio::test]
async fn bodies_that_are_not_json() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (text, place) in [
        ("{\"name\": \"demo\",\n}", "line 2 column 1"),
        ("{\"name\": \"demo\"", "line 1 column 15"),
        ("name: demo", "line 1 column 2"),
        ("{\"name\": \"demo\"} {}", "line 1 column 18"),
    ] {
        let problem = post_text(&raygate, text).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[("", "SYNTAX")]), "{text}");
        let message = problem["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(place), "{message} for {text}");
    }
    for empty in ["", " \n"] {
        let problem = post_text(&raygate, empty).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[("", "SYNTAX")]), "{problem}");
        assert!(problem["detail"].as_str().unwrap_or_default().contains("empty"), "{problem}");
    }
    let json = [("content-type", "application/json")];
    let answer = raygate.send(Method::POST, "/clusters", &json, &b"{\"name\": \"\xff\"}"[..]).await?;
    assert_eq!(faults(&answer.problem(400, "MALFORMED")), found(&[("", "SYNTAX")]), "not UTF-8");
    Ok(())
}

#[tokio::test]
async fn nesting_a_thousand_deep() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (open, close) in [("{\"head\":", "}"), ("[", "]")] {
        for depth in [1_000, 100_000] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let problem = post_text(&raygate, text).await?.problem(400, "MALFORMED");
            assert_eq!(faults(&problem), found(&[("", "SYNTAX")]), "{open} {depth} deep");
        }
    }
    assert_eq!(raygate.get("/health").await?.status, 200, "it lives on");
    Ok(())
}

#[tokio::test]
async fn body_of_exactly_one_mebibyte_is_taken() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let padded = |name: &str, length: usize| {
        let document = json!({"name": name}).to_string();
        format!("{document}{}", " ".repeat(length - document.len()))
    };
    let answer = post_text(&raygate, padded("most", 1_048_576)).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    post_text(&raygate, padded("more", 1_048_577)).await?.problem(413, "TOO_LARGE");
    assert_eq!(raygate.get("/clusters/more").await?.status, 404);
    Ok(())
}

/// Sends a head and this body, not caring whether all of it is taken, and reads the status that comes.
async fn status_of_large(raygate: &Raygate, head: &str, body: Vec<u8>) -> Outcome<String> {
    let (mut reader, mut writer) = TcpStream::connect(raygate.address).await?.into_split();
    let head =
        format!("POST /clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}\r\n\r\n");
    let sending = tokio::spawn(async move {
        writer.write_all(head.as_bytes()).await?;
        writer.write_all(&body).await?;
        Ok::<_, std::io::Error>(writer)
    });
    let mut answer = Vec::new();
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if timeout(PATIENCE, reader.read_buf(&mut answer)).await?? == 0 {
            break;
        }
    }
    sending.abort();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn far_too_large_body_has_an_answer_too() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let size = 8 << 20;
    let status = status_of_large(&raygate, &format!("Content-Length: {size}"), vec![b' '; size]).await?;
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large");

    let mut chunks = Vec::new();
    for _ in 0..128 {
        chunks.extend_from_slice(b"10000\r\n");
        chunks.extend_from_slice(&vec![b' '; 0x10000]);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(b"0\r\n\r\n");
    let status = status_of_large(&raygate, "Transfer-Encoding: chunked", chunks).await?;
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large", "without a length that says so");
    Ok(())
}

#[tokio::test]
async fn unknown_paths() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for path in ["/nothing", "/cluster", "/clusters/", "/clusters/x/y", "/Clusters", "/watch/", "/v1/clusters", "//"] {
        let problem = raygate.get(path).await?.problem(404, "NOT_FOUND");
        assert_eq!(problem["instance"], path, "{problem}");
        assert_eq!(problem["detail"], "There is nothing under this path.", "{problem}");
    }
    raygate.post("/nothing", &json!({})).await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn wrong_methods() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (method, path, allowed) in [
        (Method::DELETE, "/clusters", &["GET", "HEAD", "POST"][..]),
        (Method::PUT, "/clusters", &["GET", "HEAD", "POST"]),
        (Method::OPTIONS, "/clusters", &["GET", "HEAD", "POST"]),
        (Method::POST, "/clusters/demo", &["DELETE", "GET", "HEAD", "PATCH", "PUT"]),
        (Method::POST, "/clusters/demo/manifest", &["GET", "HEAD"]),
        (Method::POST, "/watch", &["GET", "HEAD"]),
        (Method::DELETE, "/clusters/demo/watch", &["GET", "HEAD"]),
        (Method::POST, "/health", &["GET", "HEAD"]),
        (Method::DELETE, "/openapi.json", &["GET", "HEAD"]),
    ] {
        let answer = raygate.send(method.clone(), path, &[], "").await?;
        answer.problem(405, "METHOD_NOT_ALLOWED");
        let allow: BTreeSet<_> = answer.header("allow").split(',').map(str::trim).collect();
        // CONNECT is how a WebSocket comes over HTTP/2 (RFC 8441).
        let allow: Vec<_> = allow.into_iter().filter(|method| *method != "CONNECT").collect();
        assert_eq!(allow, allowed, "{method} {path}");
    }
    Ok(())
}

#[tokio::test]
async fn media_types_that_are_not_taken() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let document = json!({"name": "demo"}).to_string();
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/xml", ""] {
        let answer = raygate.send(Method::POST, "/clusters", &[("content-type", media_type)], document.clone()).await?;
        answer.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    let missing = format!(
        "POST /clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{document}",
        document.len()
    );
    let answer = raygate.raw(missing.as_bytes()).await?;
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
    assert_eq!(count(&raygate).await?, 0);
    let with_parameter = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(raygate.send(Method::POST, "/clusters", &with_parameter, document).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn answers_that_the_client_does_not_take() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for accept in ["text/html", "application/xml, text/*", "application/json;q=0, */*", "application/json; q=0.0"] {
        for path in ["/clusters", "/clusters/demo", "/clusters/demo/manifest"] {
            if path.ends_with("/manifest") && accept.contains("*/*") {
                // It can be had as YAML.
                continue;
            }
            let answer = raygate.send(Method::GET, path, &[("accept", accept)], "").await?;
            answer.problem(406, "NOT_ACCEPTABLE");
        }
        let answer = raygate.send(Method::POST, "/clusters", &[("accept", accept)], r#"{"name": "demo"}"#).await?;
        answer.problem(406, "NOT_ACCEPTABLE");
    }
    assert_eq!(count(&raygate).await?, 0, "what can't be answered isn't done");
    let answer = raygate.send(Method::GET, "/watch", &[("accept", "application/json")], "").await?;
    answer.problem(406, "NOT_ACCEPTABLE");
    for accept in ["*/*", "application/*", "text/html, application/json;q=0.1", "text/html, */*;q=0.8"] {
        let answer = raygate.send(Method::GET, "/clusters", &[("accept", accept)], "").await?;
        assert_eq!(answer.status, 200, "{accept}");
    }
    Ok(())
}

#[tokio::test]
async fn unknown_query_parameters() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (method, path, pointer) in [
        (Method::GET, "/clusters?limitt=3", "?limitt"),
        (Method::POST, "/clusters?dry=1", "?dry"),
        (Method::GET, "/clusters/demo?namespace=default", "?namespace"),
        (Method::DELETE, "/clusters/demo?force=true", "?force"),
        (Method::GET, "/clusters/demo/manifest?x", "?x"),
        (Method::GET, "/clusters/demo/watch?namespace=default", "?namespace"),
        (Method::GET, "/watch?limit=1", "?limit"),
        (Method::GET, "/version?x=1", "?x"),
        (Method::GET, "/health?x=1", "?x"),
        (Method::GET, "/ready?x=1", "?x"),
        (Method::GET, "/openapi.json?x=1", "?x"),
    ] {
        let body = if method == Method::POST { r#"{"name": "demo"}"# } else { "" };
        let problem = raygate.send(method, path, &[], body).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, "UNKNOWN_PARAMETER")]), "{path}");
    }
    let problem = raygate.get("/clusters?limitt=3").await?.json();
    let message = problem["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("`limit`"), "{problem}");
    assert_eq!(
        problem["errors"][0]["allowed"],
        json!(["namespace", "labelSelector", "owner", "limit", "pageToken", "minResourceVersion", "consistency"]),
        "{problem}"
    );
    let problem = raygate.get("/clusters?a=1&limit=2&b=3").await?.problem(400, "MALFORMED");
    assert_eq!(faults(&problem), found(&[("?a", "UNKNOWN_PARAMETER"), ("?b", "UNKNOWN_PARAMETER")]));
    Ok(())
}

#[tokio::test]
async fn query_parameters_that_can_not_be_read() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for (query, pointer) in [
        ("limit=0", "?limit"),
        ("limit=1001", "?limit"),
        ("limit=-1", "?limit"),
        ("limit=ten", "?limit"),
        ("limit=", "?limit"),
        ("limit=1&limit=2", "?limit"),
        ("pageToken=", "?pageToken"),
        ("pageToken=nonsense", "?pageToken"),
        ("pageToken=%ff%00", "?pageToken"),
        ("namespace=Not%20One", "?namespace"),
        ("namespace=", "?namespace"),
    ] {
        let problem = raygate.get(&format!("/clusters?{query}")).await?.problem(400, "MALFORMED");
        assert_eq!(faults(&problem), found(&[(pointer, "INVALID_PARAMETER")]), "{query}");
    }
    for query in ["limit=1", "limit=1000"] {
        assert_eq!(raygate.get(&format!("/clusters?{query}")).await?.status, 200, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn five_faults_are_five_entries() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let mixed = json!({
        "name": "Demo", "rayVersion": 7, "colour": "blue", "head": {"cpu": "lots"},
        "workerGroups": {"small": {"replicas": -1}},
    });
    let problem = raygate.post("/clusters", &mixed).await?.problem(400, "MALFORMED");
    let wanted = [
        ("/colour", "UNKNOWN_MEMBER"),
        ("/head/cpu", "INVALID_QUANTITY"),
        ("/name", "INVALID_NAME"),
        ("/rayVersion", "WRONG_TYPE"),
        ("/workerGroups/small/replicas", "OUT_OF_RANGE"),
    ];
    assert_eq!(faults(&problem), found(&wanted), "{problem}");

    let semantic = json!({
        "name": "Demo", "labels": {"ray.io/cluster": "x"}, "head": {"cpu": "lots", "gpu": "0.5"},
        "workerGroups": {"small": {"replicas": -1}},
    });
    let problem = raygate.post("/clusters", &semantic).await?.problem(422, "INVALID");
    let wanted = [
        ("/head/cpu", "INVALID_QUANTITY"),
        ("/head/gpu", "OUT_OF_RANGE"),
        ("/labels/ray.io~1cluster", "RESERVED"),
        ("/name", "INVALID_NAME"),
        ("/workerGroups/small/replicas", "OUT_OF_RANGE"),
    ];
    assert_eq!(faults(&problem), found(&wanted), "{problem}");
    Ok(())
}

#[tokio::test]
async fn what_was_read_can_be_sent_back() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let document = json!({
        "name": "first", "labels": {"team": "a"}, "annotations": {"note": "b"}, "rayVersion": "2.52.0",
        "head": {"cpu": "1", "memory": "2Gi", "env": {"A": "raygate-test-secret"}, "rayStartParams": {"num-cpus": "0"}},
        "workerGroups": {"small": {
            "replicas": 1, "minReplicas": 0, "maxReplicas": 3, "numOfHosts": 1, "cpu": "1", "memory": "2Gi",
        }},
    });
    let answer = raygate.post("/clusters", &document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    is_ready(&raygate, "first").await?;
    let first = raygate.get("/clusters/first").await?.json();
    let mut again = first.clone();
    again["name"] = json!("second");
    for member in ["owner", "partial", "warnings"] {
        again[member] = json!({"anything": [1, 2]});
    }
    let answer = raygate.post("/clusters", &again).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    let second = answer.json();
    for (member, value) in document.as_object().ok_or("no object")? {
        if member != "name" {
            assert_eq!(&first[member], value, "{member}");
            assert_eq!(&second[member], value, "{member}");
        }
    }
    assert_eq!(second["name"], "second");
    assert_ne!(second["uid"], first["uid"]);
    assert_ne!(second["status"], first["status"], "its status is its own");
    Ok(())
}

#[tokio::test]
async fn namespaces_that_do_not_exist() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let document = json!({"name": "demo", "namespace": "nowhere"});
    raygate.post("/clusters", &document).await?.problem(404, "NAMESPACE_NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn namespaces_that_are_not_served() -> Outcome {
    let raygate = Raygate::memory(&["--namespace", "a", "--default-namespace", "a"]).await?;
    let answer = raygate.post("/clusters", &json!({"name": "demo"})).await?;
    assert_eq!(answer.header("location"), "clusters/demo.a", "{answer:?}");
    let document = json!({"name": "demo", "namespace": "b"});
    raygate.post("/clusters", &document).await?.problem(403, "FORBIDDEN");
    for path in [
        "/clusters/demo.b",
        "/clusters/demo.b/manifest",
        "/clusters/demo.b/watch",
        "/clusters?namespace=b",
        "/watch?namespace=b",
    ] {
        raygate.get(path).await?.problem(403, "FORBIDDEN");
    }
    raygate.delete("/clusters/demo.b").await?.problem(403, "FORBIDDEN");
    assert_eq!(raygate.get("/clusters/demo").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn names_that_can_not_exist_are_not_found() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for reference in
        ["DEMO", "de_mo", "-demo", "demo.UP", "demo.", ".default", "%ff", "a%2Fb", "a%20b", "absent", "a.b"]
    {
        for path in [format!("/clusters/{reference}"), format!("/clusters/{reference}/manifest")] {
            let problem = raygate.get(&path).await?.problem(404, "NOT_FOUND");
            assert_ne!(problem["detail"], "There is nothing under this path.", "{path}");
        }
        raygate.get(&format!("/clusters/{reference}/watch")).await?.problem(404, "NOT_FOUND");
        raygate.delete(&format!("/clusters/{reference}")).await?.problem(404, "NOT_FOUND");
    }
    Ok(())
}

#[tokio::test]
async fn name_that_is_being_deleted() -> Outcome {
    let raygate = Raygate::memory(&["--memory-stop-milliseconds", "3600000"]).await?;
    raygate.post("/clusters", &json!({"name": "demo"})).await?;
    is_ready(&raygate, "demo").await?;
    for _ in 0..2 {
        let answer = raygate.delete("/clusters/demo").await?;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.json()["status"]["state"], "DELETING", "{answer:?}");
        assert_eq!(state(&raygate, "demo").await?, "DELETING");
    }
    let answer = raygate.post("/clusters", &json!({"name": "demo"})).await?;
    let problem = answer.problem(409, "DELETING");
    assert_eq!(problem["retryable"], true, "{problem}");
    let after: u32 = answer.header("retry-after").parse()?;
    assert!((1..=60).contains(&after), "{after}");
    Ok(())
}

#[tokio::test]
async fn request_ids() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    for path in ["/health", "/clusters/absent", "/nothing"] {
        let answer = raygate.send(Method::GET, path, &[("x-request-id", "mine-1.2/3")], "").await?;
        assert_eq!(answer.header("x-request-id"), "mine-1.2/3", "{path}");
    }
    let given = [("x-request-id", "mine")];
    let answer = raygate.send(Method::GET, "/clusters/absent", &given, "").await?;
    assert_eq!(answer.problem(404, "NOT_FOUND")["requestId"], "mine");
    for bad in ["", "a b", "t\tb", &"x".repeat(129)] {
        let answer = raygate.send(Method::GET, "/clusters/absent", &[("x-request-id", bad)], "").await?;
        answer.problem(404, "NOT_FOUND");
        assert_ne!(answer.header("x-request-id"), bad);
        assert_eq!(answer.header("x-request-id").len(), 36, "a UUID instead: {answer:?}");
    }
    let answer = raygate.send(Method::GET, "/health", &[("x-request-id", &"x".repeat(128))], "").await?;
    assert_eq!(answer.header("x-request-id"), "x".repeat(128));
    let (one, other) = (raygate.get("/health").await?, raygate.get("/health").await?);
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
    Ok(())
}

/// The names of a page, `namespace/name`, and the token of the next one.
async fn page(raygate: &Raygate, query: &str) -> Outcome<(Vec<String>, Option<String>)> {
    let answer = raygate.get(&format!("/clusters?{query}")).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let list = answer.json();
    assert_eq!(list["unreachable"], json!([]), "{list}");
    let items = list["items"].as_array().ok_or("no items")?;
    let name = |item: &Value| {
        format!("{}/{}", item["namespace"].as_str().unwrap_or_default(), item["name"].as_str().unwrap_or_default())
    };
    Ok((items.iter().map(name).collect(), list["nextPageToken"].as_str().map(str::to_owned)))
}

/// Deletes a cluster and waits until it is gone.
async fn remove(raygate: &Raygate, reference: &str) -> Outcome {
    raygate.delete(&format!("/clusters/{reference}")).await?;
    eventually("the cluster is gone", async || {
        Ok((raygate.get(&format!("/clusters/{reference}")).await?.status == 404).then_some(()))
    })
    .await
}

#[tokio::test]
async fn pages_neither_repeat_nor_skip() -> Outcome {
    let raygate = Raygate::memory(&["--namespace", "a", "--namespace", "b", "--default-namespace", "a"]).await?;
    // 13 clusters in `a`, 12 in `b`, made in an order that is neither by name nor by namespace.
    for index in 0..25_u32 {
        let number = index * 7 % 25;
        let namespace = if number < 13 { "a" } else { "b" };
        let document = json!({"name": format!("c{number:02}"), "namespace": namespace});
        let answer = raygate.post("/clusters", &document).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let (first, token) = page(&raygate, "namespace=*&limit=10").await?;
    let wanted = ["a/c00", "a/c01", "a/c02", "a/c03", "a/c04", "a/c05", "a/c06", "a/c07", "a/c08", "a/c09"];
    assert_eq!(first, wanted);
    let token = token.ok_or("there is more")?;

    // Behind the page: one comes and one goes. On its edge: the last one goes. Ahead: one comes and one goes.
    raygate.post("/clusters", &json!({"name": "c000", "namespace": "a"})).await?;
    raygate.post("/clusters", &json!({"name": "c111", "namespace": "a"})).await?;
    for gone in ["c03.a", "c09.a", "c12.a"] {
        remove(&raygate, gone).await?;
    }
    let next = format!("namespace=*&limit=10&pageToken={token}");
    let (second, token) = page(&raygate, &next).await?;
    let wanted = ["a/c10", "a/c11", "a/c111", "b/c13", "b/c14", "b/c15", "b/c16", "b/c17", "b/c18", "b/c19"];
    assert_eq!(second, wanted);
    let token = token.ok_or("there is more")?;
    let (third, end) = page(&raygate, &format!("namespace=*&limit=10&pageToken={token}")).await?;
    assert_eq!(third, ["b/c20", "b/c21", "b/c22", "b/c23", "b/c24"]);
    assert_eq!(end, None);
    let (same, _) = page(&raygate, &next).await?;
    assert_eq!(same, second, "a token can be used again");
    let (whole, end) = page(&raygate, &format!("namespace=*&limit=5&pageToken={token}")).await?;
    assert_eq!((whole.len(), end), (5, None), "a page that is exactly full is the last one");
    Ok(())
}

#[tokio::test]
async fn page_tokens_belong_to_their_selection() -> Outcome {
    let raygate = Raygate::memory(&["--namespace", "a", "--namespace", "b", "--default-namespace", "a"]).await?;
    for name in ["x", "y"] {
        raygate.post("/clusters", &json!({"name": name, "namespace": "a"})).await?;
    }
    let (_, token) = page(&raygate, "namespace=*&limit=1").await?;
    let token = token.ok_or("there is more")?;
    for selection in ["", "namespace=a&", "namespace=b&"] {
        let answer = raygate.get(&format!("/clusters?{selection}pageToken={token}")).await?;
        assert_eq!(faults(&answer.problem(400, "MALFORMED")), found(&[("?pageToken", "INVALID_PARAMETER")]));
    }
    assert_eq!(page(&raygate, &format!("namespace=*&pageToken={token}")).await?.0, ["a/y"]);
    Ok(())
}
