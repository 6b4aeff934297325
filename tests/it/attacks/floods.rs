//! Floods: whoever sends one is held up, and nobody else is.

use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error as WsError;

use super::start;
use crate::support::{Answer, Guarded, Outcome, eventually};

/// Checks that it is a 429 that says when to come again.
fn is_limited(answer: &Answer) -> Outcome {
    let problem = answer.problem(429, "TOO_MANY_REQUESTS");
    assert_eq!(problem["retryable"], true, "{problem}");
    let seconds: u32 = answer.header("retry-after").parse()?;
    assert!((1..=60).contains(&seconds), "{seconds}");
    Ok(())
}

/// Checks that these people, and probes, are served.
async fn are_served(guarded: &Guarded, users: &[&str]) -> Outcome {
    for user in users {
        let answer = guarded.ask(user, Method::GET, "/whoami", "").await?;
        assert_eq!(answer.status, 200, "{user}: {answer:?}");
    }
    for probe in ["/health", "/ready", "/version", "/metrics"] {
        assert_eq!(guarded.get(probe).await?.status, 200, "{probe}");
    }
    Ok(())
}

/// The lines of the audit with this rule.
fn lines(guarded: &Guarded, rule: &str) -> Outcome<Vec<Value>> {
    Ok(guarded.audit()?.into_iter().filter(|line| line["rule"] == rule).collect())
}

/// Checks that of a flood the audit tells once.
async fn is_told_once(guarded: &Guarded, rule: &str, user: Option<&str>) -> Outcome {
    let told = eventually("the flood is told of", async || {
        let told = lines(guarded, rule)?;
        Ok((!told.is_empty()).then_some(told))
    })
    .await?;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0]["user"].as_str(), &told[0]["result"]), (user, &json!("REFUSED")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn who_has_no_token_is_held_up_alone() -> Outcome {
    let flags = ["--unauthenticated-burst", "5", "--unauthenticated-requests-per-second", "1"];
    let guarded = start(&flags).await?;
    let mut limited = 0;
    for index in 0..300 {
        let bad = [("authorization", "Bearer raygate_nonsense")];
        let answer = match index % 3 {
            0 => guarded.get("/clusters").await?,
            1 => guarded.send(Method::POST, "/clusters", &bad, "{}").await?,
            _ => guarded.get("/docs/").await?,
        };
        if answer.status == 429 {
            is_limited(&answer)?;
            limited += 1;
        } else {
            assert_eq!(answer.status, if index % 3 == 2 { 200 } else { 401 }, "{answer:?}");
        }
        if index < 5 {
            assert_eq!(limited, 0, "the burst is served");
        }
        if index % 50 == 0 {
            are_served(&guarded, &["alice", "bob"]).await?;
        }
    }
    assert!(limited > 200, "{limited} of 300");
    is_told_once(&guarded, "unauthenticatedRate", None).await?;
    let all = guarded.audit()?.len();
    assert!(all + limited <= 301, "{all} lines, of {limited} that were held up one");
    Ok(())
}

#[tokio::test]
async fn one_callers_flood_is_theirs() -> Outcome {
    let guarded = start(&["--caller-burst", "20", "--caller-requests-per-second", "1"]).await?;
    let mut limited = 0;
    for index in 0..300 {
        let answer = match index % 2 {
            0 => guarded.ask("bob", Method::GET, "/whoami", "").await?,
            _ => guarded.ask("bob", Method::GET, "/clusters?namespace=other", "").await?,
        };
        if answer.status == 429 {
            is_limited(&answer)?;
            limited += 1;
        } else {
            assert_eq!(answer.status, if index % 2 == 0 { 200 } else { 403 }, "{answer:?}");
        }
        if index < 20 {
            assert_eq!(limited, 0, "the burst is served");
        }
        if index % 50 == 0 {
            are_served(&guarded, &["alice", "viv"]).await?;
        }
    }
    assert!(limited > 200, "{limited} of 300");
    is_told_once(&guarded, "requestRate", Some("bob")).await
}

#[tokio::test]
async fn streams_have_a_number() -> Outcome {
    let guarded = start(&["--caller-streams", "2"]).await?;
    let open = async |user: &str| guarded.socket("/watch", &[("authorization", &guarded.bearer(user))]).await;
    let (first, mut second) = (open("bob").await?, open("bob").await?);
    for _ in 0..20 {
        let Err(WsError::Http(refused)) = open("bob").await else { return Err("a third socket".into()) };
        assert_eq!(refused.status(), 429);
        is_limited(&guarded.ask("bob", Method::GET, "/watch", "").await?)?;
    }
    second.event().await?;
    let mut other = open("alice").await?;
    other.event().await?;
    is_told_once(&guarded, "streams", Some("bob")).await?;
    first.close().await?;
    let mut third = eventually("a place is free again", async || match open("bob").await {
        Ok(socket) => Ok(Some(Open(socket))),
        Err(WsError::Http(_)) => Ok(None),
        Err(error) => Err(error.into()),
    })
    .await?;
    third.0.event().await?;
    Ok(())
}

/// A socket, for who waits for one.
struct Open(crate::support::Socket);

impl std::fmt::Debug for Open {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a socket")
    }
}

#[tokio::test]
async fn requests_under_way_have_a_number() -> Outcome {
    let guarded = start(&["--caller-concurrent-requests", "2"]).await?;
    let mut under_way = Vec::new();
    for _ in 0..2 {
        let mut connection = TcpStream::connect(guarded.address).await?;
        let head =
            format!("POST /clusters HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n", guarded.bearer("bob"));
        let body = "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
        connection.write_all(format!("{head}{body}").as_bytes()).await?;
        under_way.push(connection);
    }
    let refused = eventually("both are under way", async || {
        let answer = guarded.ask("bob", Method::GET, "/whoami", "").await?;
        Ok((answer.status != 200).then_some(answer))
    })
    .await?;
    is_limited(&refused)?;
    are_served(&guarded, &["alice"]).await?;
    is_told_once(&guarded, "concurrentRequests", Some("bob")).await?;
    drop(under_way);
    eventually("bob is served again", async || {
        Ok((guarded.ask("bob", Method::GET, "/whoami", "").await?.status == 200).then_some(()))
    })
    .await
}
