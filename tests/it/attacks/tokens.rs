//! What is no token, and where a token is none.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use serde_json::Value;

use super::{PEOPLE, POLICY, UNLIMITED, start};
use crate::support::Files;
use crate::support::{Guarded, Outcome, eventually};

/// A line of the token file as a value.
fn line(text: &str) -> Outcome<Value> {
    Ok(serde_json::from_str(text.strip_prefix("- ").ok_or("no item")?)?)
}

#[tokio::test]
async fn what_is_nearly_a_token_is_none() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let token = guarded.token("adam").to_owned();
    let stored = guarded.files().lines().iter().map(|text| line(text)).collect::<Outcome<Vec<_>>>()?;
    let adam = stored.iter().find(|line| line["user"] == "adam").ok_or("no adam")?;
    let hash = adam["hash"].as_str().ok_or("no hash")?.to_owned();
    let bare = token.strip_prefix("raygate_").ok_or("another prefix")?.to_owned();
    let last = token.chars().next_back().ok_or("empty")?;
    let swapped: String = token
        .chars()
        .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect();
    let mut near = vec![
        hash.trim_start_matches("sha256:").to_owned(),
        hash,
        bare.clone(),
        format!("RAYGATE_{bare}"),
        format!("Raygate_{bare}"),
        token.to_uppercase(),
        token.to_lowercase(),
        swapped,
        format!("{token}="),
        format!("{token}x"),
        format!("x{token}"),
        format!("{token}{token}"),
        format!("{token}\u{e9}"),
        format!("\"{token}\""),
        format!("Bearer {token}"),
        token[..token.len() - 1].to_owned(),
        format!("{} {}", &token[..20], &token[20..]),
        format!("{}\t{}", &token[..20], &token[20..]),
        token.replace('_', "%5F"),
        adam["id"].as_str().ok_or("no id")?.to_owned(),
        "adam".to_owned(),
        "raygate_".to_owned(),
        "raygate_".to_owned() + &"A".repeat(43),
        "null".to_owned(),
        "undefined".to_owned(),
        "*".to_owned(),
        "A".repeat(60_000),
    ];
    // The last of 43 characters of base64url has two bits that say nothing: another one with the same bytes.
    near.extend(
        "AEIMQUYcgkosw048BFJNRVZdhlptx159CGKOSWaeimquy26-DHLPTXbfjnrvz37_"
            .chars()
            .filter(|c| *c != last)
            .map(|c| format!("{}{c}", &token[..token.len() - 1])),
    );
    for near in near {
        let answer = guarded.send(Method::GET, "/whoami", &[("authorization", &format!("Bearer {near}"))], "").await?;
        answer.problem(401, "UNAUTHENTICATED");
        assert!(!String::from_utf8_lossy(&answer.body).contains(&token[8..]), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_elsewhere_is_none() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let token = guarded.token("adam").to_owned();
    for name in ["access_token", "token", "authorization", "Authorization", "bearer", "auth", "api_key"] {
        for path in ["/whoami", "/clusters", "/watch"] {
            let path = format!("{path}?{name}={token}");
            guarded.get(&path).await?.problem(401, "UNAUTHENTICATED");
            // Nor is it one where there is another.
            let answer = guarded.ask("alice", Method::GET, &path, "").await?;
            answer.problem(400, "MALFORMED");
            assert!(!String::from_utf8_lossy(&answer.body).contains(&token), "{answer:?}");
        }
    }
    let (user, basic) = (format!("adam:{token}"), format!("{token}:"));
    let basic = [user, basic].map(|pair| format!("Basic {}", BASE64_STANDARD.encode(pair)));
    for (name, value) in [
        ("cookie", format!("token={token}")),
        ("cookie", format!("authorization=Bearer {token}; access_token={token}")),
        ("x-api-key", token.clone()),
        ("x-auth-token", token.clone()),
        ("x-access-token", token.clone()),
        ("proxy-authorization", format!("Bearer {token}")),
        ("sec-websocket-protocol", token.clone()),
        ("sec-websocket-protocol", format!("bearer, {token}")),
        ("sec-websocket-protocol", format!("base64url.bearer.authorization.k8s.io.{token}")),
        ("authorization", basic[0].clone()),
        ("authorization", basic[1].clone()),
        ("authorization", token.clone()),
        ("authorization", format!("Token {token}")),
        ("authorization", format!("Bearer={token}")),
        ("authorization", format!("Bearer\t{token}")),
        ("authorization", format!("Bearer:{token}")),
        ("authorization", format!("Digest username=\"adam\", response=\"{token}\"")),
        ("authorization", String::new()),
        ("authorization", "Bearer".into()),
        ("authorization", "Bearer ".into()),
        ("authorization", "Bearer    ".into()),
        ("referer", format!("http://localhost/?access_token={token}")),
    ] {
        let answer = guarded.send(Method::GET, "/whoami", &[(name, &value)], "").await?;
        answer.problem(401, "UNAUTHENTICATED");
        assert!(!String::from_utf8_lossy(&answer.body).contains(&token), "{answer:?}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let answer = guarded.send(Method::POST, "/clusters", &form, format!("access_token={token}")).await?;
    answer.problem(401, "UNAUTHENTICATED");
    let body = format!("{{\"name\": \"x\", \"access_token\": \"{token}\"}}");
    guarded.send(Method::POST, "/clusters", &[], body).await?.problem(401, "UNAUTHENTICATED");
    let told = guarded.log()? + &Value::from(guarded.audit()?).to_string();
    assert!(!told.contains(&token), "it is in a log");
    Ok(())
}

/// A raygate whose token file has these lines beside the usual.
async fn with_lines(more: impl Fn(&[String]) -> Outcome<Vec<String>>) -> Outcome<Guarded> {
    let files = Files::new(PEOPLE, POLICY)?;
    let lines = more(files.lines())?;
    files.write_tokens(&lines)?;
    Guarded::start(files, &["--backend", "memory"]).await
}

#[tokio::test]
async fn a_token_ends_with_its_time() -> Outcome {
    let guarded = with_lines(|lines| {
        let aged = lines.iter().map(|text| {
            let mut line = line(text)?;
            if line["user"] == "alice" {
                line["expireTime"] = "2020-01-01T00:00:00Z".into();
            }
            Ok(format!("- {line}"))
        });
        aged.collect()
    })
    .await?;
    let expired = guarded.ask("alice", Method::GET, "/whoami", "").await?;
    let problem = expired.problem(401, "UNAUTHENTICATED");
    assert_eq!(problem["detail"], "This token has expired.");
    assert_eq!(expired.header("www-authenticate"), r#"Bearer realm="raygate", error="invalid_token""#);
    assert_eq!(guarded.ask("bob", Method::GET, "/whoami", "").await?.status, 200);
    eventually("the audit tells of it", async || {
        Ok(guarded.audit()?.iter().any(|line| line["rule"] == "credentialExpired").then_some(()))
    })
    .await
}

#[tokio::test]
async fn nothing_is_no_token_even_if_its_hash_is_there() -> Outcome {
    // printf '' | sha256sum; printf ' ' | sha256sum
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let blank = "36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068";
    let guarded = with_lines(|lines| {
        let more = [("e1", empty), ("e2", blank)]
            .map(|(id, hash)| format!("- {{\"id\": \"{id}\", \"user\": \"adam\", \"hash\": \"sha256:{hash}\"}}"));
        Ok([lines, &more].concat())
    })
    .await?;
    for value in ["", "Bearer", "Bearer ", "Bearer  ", "Bearer \t"] {
        let answer = guarded.send(Method::GET, "/whoami", &[("authorization", value)], "").await?;
        answer.problem(401, "UNAUTHENTICATED");
    }
    for protocol in ["base64url.bearer.authorization.k8s.io.", "raygate.v1, base64url.bearer.authorization.k8s.io."] {
        let answer = guarded.send(Method::GET, "/whoami", &[("sec-websocket-protocol", protocol)], "").await?;
        answer.problem(401, "UNAUTHENTICATED");
    }
    guarded.get("/whoami").await?.problem(401, "UNAUTHENTICATED");
    assert_eq!(guarded.ask("adam", Method::GET, "/whoami", "").await?.status, 200);
    Ok(())
}
