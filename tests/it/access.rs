//! Who may do what: tokens, policies, owners, streams whose rights change, and the audit.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error as WsError;

use crate::streams::Lines;
use crate::support::{Guarded, Outcome, eventually};

const PEOPLE: &[(&str, &[&str])] = &[("alice", &[]), ("bob", &[]), ("viv", &["lookers"]), ("olga", &[]), ("adam", &[])];

const POLICY: &str = r#"
version: 1
grants:
- {users: [alice, bob], namespaces: [default, "user-{name}"], role: user}
- {groups: [lookers], namespaces: [default], role: viewer}
- {users: [olga], namespaces: ["*"], role: operator}
- {users: [adam], namespaces: ["*"], role: admin}
privateNamespaces: ["user-*", shared]
"#;

/// The policy without one of its lines.
fn without(line: &str) -> String {
    POLICY.lines().filter(|one| !one.contains(line)).collect::<Vec<_>>().join("\n")
}

async fn start() -> Outcome<Guarded> {
    Guarded::memory(PEOPLE, POLICY, &["--namespace", "default", "--namespace", "user-alice", "--namespace", "shared"])
        .await
}

#[tokio::test]
async fn whoever_says_nothing_is_asked() -> Outcome {
    let guarded = start().await?;
    let answer = guarded.get("/clusters").await?;
    answer.problem(401, "UNAUTHENTICATED");
    assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="raygate""#);
    for credential in ["Bearer nonsense", "Bearer ", "Bearer", "Basic YTpi", "bearer\tx", "Bearer raygate_x y"] {
        let answer = guarded.send(Method::GET, "/clusters", &[("authorization", credential)], "").await?;
        let problem = answer.problem(401, "UNAUTHENTICATED");
        assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="raygate", error="invalid_token""#);
        assert!(!problem.to_string().contains("nonsense"), "{problem}");
    }
    // The scheme's case says nothing (RFC 9110, section 11.1).
    let token = guarded.token("alice");
    let answer = guarded.send(Method::GET, "/clusters", &[("authorization", &format!("bEARER {token}"))], "").await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn whoami_tells_what_one_may() -> Outcome {
    let guarded = start().await?;
    let who = guarded.ask("alice", Method::GET, "/whoami", "").await?.json();
    assert_eq!((&who["name"], &who["authenticator"]), (&json!("alice"), &json!("token")), "{who}");
    assert_eq!(who["defaultNamespace"], "default");
    let namespaces = json!([{"namespace": "default", "role": "user"}, {"namespace": "user-alice", "role": "user"}]);
    assert_eq!(who["namespaces"], namespaces);
    assert!(who["limits"]["requestsPerSecond"].is_u64(), "{who}");
    assert!(!who.to_string().contains(guarded.token("alice")), "{who}");
    Ok(())
}

#[tokio::test]
async fn env_values_are_for_those_who_may_change_them() -> Outcome {
    let guarded = start().await?;
    let document = json!({"name": "demo", "head": {"env": {"A": "raygate-test-secret-1"}}});
    let created = guarded.create("alice", &document).await?;
    assert_eq!((created.status.as_u16(), &created.json()["owner"]), (201, &json!("alice")), "{created:?}");
    for (user, sees) in [("alice", true), ("olga", true), ("adam", true), ("bob", false), ("viv", false)] {
        for path in ["/clusters/demo", "/clusters/demo/manifest", "/clusters"] {
            let text = String::from_utf8(guarded.ask(user, Method::GET, path, "").await?.body.to_vec())?;
            assert_eq!(text.contains("raygate-test-secret-1"), sees, "{user} {path}: {text}");
        }
        let mut socket = guarded.socket("/watch", &[("authorization", &guarded.bearer(user))]).await?;
        let event = socket.event().await?;
        assert_eq!(event.to_string().contains("raygate-test-secret-1"), sees, "{user}: {event}");
    }
    // What was read masked isn't written back.
    let hidden = guarded.ask("viv", Method::GET, "/clusters/demo", "").await?.json()["head"].clone();
    let copy = json!({"name": "copy", "head": hidden});
    guarded.create("alice", &copy).await?.problem(422, "INVALID");
    Ok(())
}

#[tokio::test]
async fn operators_hand_clusters_over() -> Outcome {
    let guarded = start().await?;
    guarded.create("alice", &json!({"name": "demo", "namespace": "default"})).await?;
    let change =
        async |user: &str| guarded.ask(user, Method::PATCH, "/clusters/demo", r#"{"labels": {"a": "b"}}"#).await;
    assert_eq!(change("bob").await?.problem(403, "FORBIDDEN")["detail"], "This cluster isn't yours.");
    let hand =
        async |user: &str, body: &str| guarded.ask(user, Method::POST, "/clusters/demo/owner", body.to_owned()).await;
    for user in ["alice", "bob", "viv"] {
        hand(user, r#"{"owner": "bob"}"#).await?.problem(403, "FORBIDDEN");
    }
    let answer = hand("olga", r#"{"owner": "bob"}"#).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()["owner"]), (200, &json!("bob")), "{answer:?}");
    assert_eq!(change("bob").await?.status, 200);
    change("alice").await?.problem(403, "FORBIDDEN");
    let mine = guarded.ask("bob", Method::GET, "/clusters?owner=me", "").await?.json();
    assert_eq!(mine["items"].as_array().map(Vec::len), Some(1));
    let none = guarded.ask("alice", Method::GET, "/clusters?owner=me", "").await?.json();
    assert_eq!(none["items"], json!([]));
    assert_eq!(hand("olga", r#"{"owner": null}"#).await?.json().get("owner"), None);
    change("bob").await?.problem(403, "FORBIDDEN");
    for (body, status, code) in [
        ("{}", 422, "INVALID"),
        (r#"{"owner": ""}"#, 422, "INVALID"),
        (r#"{"owner": 7}"#, 400, "MALFORMED"),
        (r#"{"owner": "bob", "x": 1}"#, 400, "MALFORMED"),
        (r#"{"owner": "bob", "owner": "eve"}"#, 400, "MALFORMED"),
        ("[]", 400, "MALFORMED"),
    ] {
        hand("olga", body).await?.problem(status, code);
    }
    Ok(())
}

#[tokio::test]
async fn a_better_policy_holds_at_once_and_a_bad_one_never() -> Outcome {
    let guarded = start().await?;
    let status = async |user: &str| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
            guarded.ask(user, Method::GET, "/clusters", "").await?.status.as_u16(),
        )
    };
    assert_eq!(status("viv").await?, 200);
    guarded.files().write_policy("version: 1\ngrants: [{users: [viv], namespaces: [default], role: emperor}]")?;
    eventually("the bad policy is told of", async || {
        let told = guarded.log()?.contains("emperor") && guarded.log()?.contains("policy");
        let counted = guarded.get("/metrics").await?;
        let counted = String::from_utf8_lossy(&counted.body)
            .contains(r#"raygate_policy_reloads_total{file="policy",result="refused"} 1"#);
        Ok((told && counted).then_some(()))
    })
    .await?;
    assert_eq!(status("viv").await?, 200, "the policy from before holds");
    guarded.files().write_policy(&without("lookers"))?;
    eventually("the new policy holds", async || Ok((status("viv").await? == 403).then_some(()))).await?;
    // A token file that isn't right changes nothing either; one without a token locks its user out.
    guarded.files().write_tokens(&["- {id: x}".to_owned()])?;
    eventually("the bad file is told of", async || Ok(guarded.log()?.contains("tokens").then_some(()))).await?;
    assert_eq!(status("alice").await?, 200);
    guarded.files().write_tokens(&guarded.files().lines()[1..])?;
    eventually("the token isn't valid any more", async || Ok((status("alice").await? == 401).then_some(()))).await?;
    assert_eq!(status("bob").await?, 200);
    Ok(())
}

#[tokio::test]
async fn streams_end_with_the_rights_to_them() -> Outcome {
    let guarded = start().await?;
    guarded.create("alice", &json!({"name": "demo"})).await?;
    let open = async |user: &str, path: &str| -> Outcome<_> {
        Ok(guarded.socket(path, &[("authorization", &guarded.bearer(user))]).await?)
    };
    let mut bob = open("bob", "/watch").await?;
    let mut viv = open("viv", "/watch").await?;
    let mut one = open("viv", "/clusters/demo/watch").await?;
    for socket in [&mut bob, &mut viv, &mut one] {
        socket.until(|event| event["type"] == "SYNCED").await?;
    }
    guarded.files().write_policy(&without("lookers"))?;
    assert_eq!((viv.closed().await?, one.closed().await?), (4003, 4003));
    guarded.files().write_tokens(&guarded.files().lines()[2..])?;
    assert_eq!(bob.closed().await?, 4001);
    Ok(())
}

#[tokio::test]
async fn streams_see_what_their_callers_may() -> Outcome {
    let guarded = start().await?;
    let mut alice = guarded.socket("/watch?namespace=*", &[("authorization", &guarded.bearer("alice"))]).await?;
    alice.until(|event| event["type"] == "SYNCED").await?;
    guarded.create("olga", &json!({"name": "theirs", "namespace": "user-alice"})).await?;
    guarded.create("olga", &json!({"name": "shared"})).await?;
    let events = alice.until(|event| event["cluster"]["name"] == "shared").await?;
    assert!(events.iter().all(|event| event["cluster"]["name"] == "shared"), "{events:?}");
    // What is theirs now is seen from now on, and no longer once it isn't.
    let hand = async |owner: Value| {
        let body = json!({"owner": owner}).to_string();
        guarded.ask("olga", Method::POST, "/clusters/theirs.user-alice/owner", body).await
    };
    hand(json!("alice")).await?;
    let events = alice.until(|event| event["cluster"]["name"] == "theirs").await?;
    assert_eq!(events.last().map(|event| &event["type"]), Some(&json!("ADDED")));
    hand(json!("olga")).await?;
    let events = alice.until(|event| event["type"] == "DELETED").await?;
    let last = &events[events.len() - 1]["cluster"];
    assert_eq!((&last["name"], &last["status"]["state"]), (&json!("theirs"), &json!("UNKNOWN")), "{last}");
    assert_eq!((last.get("owner"), last.get("head")), (None, None), "{last}");
    guarded.ask("alice", Method::GET, "/clusters/theirs.user-alice", "").await?.problem(404, "NOT_FOUND");
    Ok(())
}

#[tokio::test]
async fn the_audit_tells_who_changed_what() -> Outcome {
    let guarded = start().await?;
    let created =
        guarded.create("alice", &json!({"name": "demo", "head": {"env": {"A": "raygate-test-secret-1"}}})).await?;
    let patch = r#"{"head": {"env": {"A": "raygate-test-secret-2"}}, "labels": {"team": "x"}}"#;
    guarded.ask("alice", Method::PATCH, "/clusters/demo", patch).await?;
    guarded.ask("bob", Method::DELETE, "/clusters/demo", "").await?.problem(403, "FORBIDDEN");
    guarded.ask("alice", Method::GET, "/clusters/demo", "").await?;
    guarded.ask("alice", Method::GET, "/clusters/demo.shared", "").await?.problem(403, "FORBIDDEN");
    guarded.ask("alice", Method::PATCH, "/clusters/demo", r#"{"nonsense": 1}"#).await?.problem(400, "MALFORMED");
    guarded.ask("alice", Method::PATCH, "/clusters/demo", "{}").await?;
    guarded.get("/clusters").await?.problem(401, "UNAUTHENTICATED");
    let lines = eventually("seven lines", async || {
        let lines = guarded.audit()?;
        Ok((lines.len() >= 7).then_some(lines))
    })
    .await?;
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            [&line["user"], &line["verb"], &line["result"], &line["rule"]].map(|one| one.as_str().unwrap_or("-"))
        })
        .collect();
    let wanted = [
        ["alice", "POST", "CHANGED", "-"],
        ["alice", "PATCH", "CHANGED", "-"],
        ["bob", "DELETE", "REFUSED", "owner"],
        ["alice", "GET", "REFUSED", "namespace"],
        ["alice", "PATCH", "FAILED", "-"],
        ["alice", "PATCH", "UNCHANGED", "-"],
        ["-", "GET", "REFUSED", "noCredential"],
    ];
    assert_eq!(told, wanted);
    for line in &lines[..3] {
        assert_eq!((&line["cluster"], &line["uid"]), (&json!("demo.default"), &created.json()["uid"]), "{line}");
    }
    let changed = json!(["/metadata/labels/team", "/spec/headGroupSpec/template/spec/containers/0/env/0/value",]);
    assert_eq!(lines[1]["changed"], changed, "{}", lines[1]);
    let id = created.header("x-request-id");
    assert_eq!(lines[0]["requestId"], id);
    let text = Value::from(lines).to_string() + &guarded.log()?;
    for secret in ["raygate-test-secret-1", "raygate-test-secret-2", guarded.token("alice"), guarded.token("bob")] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    Ok(())
}

#[tokio::test]
async fn whoever_goes_away_is_in_the_audit_too() -> Outcome {
    let guarded = start().await?;
    let head = format!(
        "POST /clusters HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nX-Request-Id: gone\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"name\":",
        guarded.bearer("alice")
    );
    let mut stream = TcpStream::connect(guarded.address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await?;
    drop(stream);
    let line =
        eventually("its line", async || Ok(guarded.audit()?.into_iter().find(|line| line["requestId"] == "gone")))
            .await?;
    assert_eq!((&line["user"], &line["action"]), (&json!("alice"), &json!("createCluster")), "{line}");
    assert!([json!("FAILED"), json!("UNKNOWN")].contains(&line["result"]), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_websocket_of_a_page_has_its_token_in_a_subprotocol() -> Outcome {
    let guarded = start().await?;
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(guarded.token("viv"));
    let token = format!("base64url.bearer.authorization.k8s.io.{encoded}");
    let both = format!("{token}, raygate.v1");
    let mut socket = guarded.socket("/watch", &[("sec-websocket-protocol", &both)]).await?;
    assert_eq!(socket.headers.get("sec-websocket-protocol").map(http::HeaderValue::as_bytes), Some(&b"raygate.v1"[..]));
    assert_eq!(socket.event().await?["type"], "SYNCED");
    // One that isn't a token, and two that are.
    let twice = format!("{both}, {token}");
    let header = guarded.bearer("viv");
    for headers in [
        &[("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.bm9uc2Vuc2U, raygate.v1")][..],
        &[("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.%%%, raygate.v1")],
        &[("sec-websocket-protocol", twice.as_str())],
        &[("sec-websocket-protocol", both.as_str()), ("authorization", header.as_str())],
    ] {
        match guarded.socket("/watch", headers).await {
            Err(WsError::Http(response)) => assert_eq!(response.status(), 401, "{headers:?}"),
            other => return Err(format!("{headers:?}: {:?}", other.err()).into()),
        }
    }
    Ok(())
}

#[tokio::test]
async fn lines_say_why_they_end() -> Outcome {
    let guarded = start().await?;
    let header = guarded.bearer("viv");
    let mut lines = Lines::ask_with(&guarded, Method::GET, "/watch", &[("authorization", &header)]).await?;
    lines.until(|event| event["type"] == "SYNCED").await?;
    guarded.files().write_policy(&without("lookers"))?;
    let events = lines.until(|event| event["type"] == "ERROR").await?;
    assert_eq!(events.last().map(|last| &last["error"]["code"]), Some(&json!("FORBIDDEN")), "{events:?}");
    assert_eq!(lines.next().await?, None, "nothing more comes");
    Ok(())
}

#[tokio::test]
async fn other_rights_begin_the_picture_anew() -> Outcome {
    let guarded = start().await?;
    guarded.create("alice", &json!({"name": "demo", "head": {"env": {"A": "a-secret"}}})).await?;
    let mut socket = guarded.socket("/watch", &[("authorization", &guarded.bearer("viv"))]).await?;
    let events = socket.until(|event| event["type"] == "SYNCED").await?;
    assert!(!json!(events).to_string().contains("a-secret"));
    guarded.files().write_policy(&POLICY.replace("role: viewer", "role: operator"))?;
    socket.until(|event| event["type"] == "RESYNC").await?;
    let events = socket.until(|event| event["type"] == "SYNCED").await?;
    assert!(json!(events).to_string().contains("a-secret"), "{events:?}");
    Ok(())
}
