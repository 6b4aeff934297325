//! Clusters that one may not see: no question is answered otherwise than if they weren't there.

use form_urlencoded::byte_serialize;
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{SECRET, UNLIMITED, create, essence, held, owned, start};
use crate::support::{Answer, Guarded, Outcome};

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The label's value for an owner: the first 32 digits of the name's SHA-256.
fn label(user: &str) -> String {
    Sha256::digest(user).iter().take(16).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[tokio::test]
async fn selectors_find_nothing_that_is_hidden() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "bob", "theirs", "shared").await?;
    let list = async |query: &str| guarded.ask("alice", Method::GET, &format!("/clusters?{query}"), "").await;
    let nothing = list("namespace=shared&labelSelector=nobody%3Dhas").await?;
    assert_eq!((nothing.status.as_u16(), &nothing.json()["items"]), (200, &json!([])), "{nothing:?}");
    let bobs = label("bob");
    for selector in [
        "team=red".to_owned(),
        "team".to_owned(),
        "team in (red,blue)".to_owned(),
        "!nobody".to_owned(),
        "team!=blue".to_owned(),
        String::new(),
        format!("raygate.dev/owner={bobs}"),
        "raygate.dev/owner".to_owned(),
        format!("raygate.dev/owner in ({bobs},{})", label("alice")),
        format!("raygate.dev/owner!={}", label("alice")),
        format!("team=red,raygate.dev/owner={bobs}"),
        format!("raygate.dev/owner>{}", 0),
    ] {
        for namespace in ["shared", "*"] {
            for more in ["", "&owner=bob", "&limit=1", "&owner=me"] {
                let query = format!("namespace={namespace}&labelSelector={}{more}", encoded(&selector));
                let answer = list(&query).await?;
                assert_eq!((answer.status, &answer.body), (nothing.status, &nothing.body), "{query}");
            }
        }
        // Bob has it, so the selector is one that could have told.
        let query = format!("/clusters?namespace=shared&owner=me&labelSelector={}", encoded(&selector));
        let own = guarded.ask("bob", Method::GET, &query, "").await?.json();
        assert!(own["items"].is_array(), "{own}");
    }
    let query = format!("/clusters?namespace=shared&labelSelector={}", encoded(&format!("raygate.dev/owner={bobs}")));
    assert_eq!(guarded.ask("bob", Method::GET, &query, "").await?.json()["items"][0]["name"], "theirs");
    Ok(())
}

#[tokio::test]
async fn selectors_and_queries_are_not_code() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "bob", "theirs", "shared").await?;
    for (parameter, value) in [
        ("labelSelector", "team=red)"),
        ("labelSelector", "team in (red"),
        ("labelSelector", "team=red||true"),
        ("labelSelector", "team=red' or '1'='1"),
        ("labelSelector", "team=red\",\"namespace\":\"other"),
        ("labelSelector", "team=red&fieldSelector=metadata.name=theirs"),
        ("labelSelector", "team=red\r\nAuthorization: Bearer x"),
        ("labelSelector", "team=red\0"),
        ("labelSelector", "team=*"),
        ("labelSelector", "metadata.name=theirs;"),
        ("labelSelector", "../../namespaces/other"),
        ("labelSelector", "${jndi:ldap://evil.example/x}"),
        ("limit", "1e1"),
        ("limit", "99999999999999999999"),
        ("limit", "1 or 1"),
        ("pageToken", "' or 1=1"),
        ("namespace", "other'--"),
        ("namespace", "{name}"),
        ("namespace", "user-*"),
        ("cursor", "1.1"),
        ("fieldSelector", "metadata.name=theirs"),
        ("access_token", "x"),
    ] {
        let path = format!("/clusters?{parameter}={}", encoded(value));
        guarded.ask("alice", Method::GET, &path, "").await?.problem(400, "MALFORMED");
        let path = format!("/watch?{parameter}={}", encoded(value));
        guarded.ask("alice", Method::GET, &path, "").await?.problem(400, "MALFORMED");
    }
    // An owner's name is any text; nobody is called this.
    let path = format!("/clusters?namespace=shared&owner={}", encoded("alice' or owner='bob"));
    assert_eq!(guarded.ask("alice", Method::GET, &path, "").await?.json()["items"], json!([]));
    Ok(())
}

/// What a stream tells until it is in step.
async fn told(guarded: &Guarded, user: &str, path: &str, headers: &[(&'static str, &str)]) -> Outcome<Vec<Value>> {
    let bearer = guarded.bearer(user);
    let headers = [&[("authorization", bearer.as_str())], headers].concat();
    guarded.socket(path, &headers).await?.until(|event| event["type"] == "SYNCED").await
}

#[tokio::test]
async fn streams_tell_nothing_that_is_hidden() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "bob", "theirs", "shared").await?;
    create(&guarded, "bob", "seen", "default").await?;
    let by_owner = format!("&labelSelector={}", encoded(&format!("raygate.dev/owner={}", label("bob"))));
    for selector in ["", "&labelSelector=team%3Dred", &by_owner] {
        let events = told(&guarded, "alice", &format!("/watch?namespace=shared{selector}"), &[]).await?;
        assert_eq!(events.len(), 1, "{events:?}");
        // A cursor that was heard of elsewhere says nothing: the whole story is told, as far as one may hear it.
        for header in [&[][..], &[("last-event-id", "1.0")], &[("last-event-id", "nonsense")]] {
            let events = told(&guarded, "alice", &format!("/watch?namespace=*{selector}"), header).await?;
            assert!(events.iter().all(|event| !event.to_string().contains("theirs")), "{events:?}");
            let added = events.iter().filter(|event| event["cluster"]["name"] == "seen").count();
            assert_eq!(added, 1, "{events:?}");
            assert!(!events.iter().any(|event| event.to_string().contains(SECRET)), "{events:?}");
        }
    }
    Ok(())
}

/// Status, body and headers.
type Told = (u16, Value, Vec<(String, String)>);

/// A request about a cluster: method, the path behind the cluster, headers, body.
type Asked<'a> = (Method, &'a str, &'a [(&'a str, &'a str)], &'a str);

/// What an answer says, with one name in place of the other; what differs from answer to answer left out.
fn told_of(answer: &Answer, name: &str) -> Outcome<Told> {
    let body: Value = if answer.body.is_empty() { Value::Null } else { essence(answer) };
    let body = serde_json::from_str(&body.to_string().replace(name, "NAME"))?;
    let own = ["x-request-id", "date", "age"];
    let headers = answer.headers.iter().filter(|(name, _)| !own.contains(&name.as_str()));
    let mut headers: Vec<_> = headers
        .map(|(key, value)| (key.to_string(), value.to_str().unwrap_or_default().replace(name, "NAME")))
        .collect();
    headers.sort();
    Ok((answer.status.as_u16(), body, headers))
}

#[tokio::test]
async fn what_is_hidden_answers_like_what_is_not_there() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "bob", "hidden", "shared").await?;
    let before = owned(&held(&guarded, "hidden.shared").await?);
    let tag = guarded.ask("bob", Method::GET, "/clusters/hidden.shared", "").await?.header("etag").to_owned();
    let change = r#"{"labels": {"a": "b"}}"#;
    let asked: &[Asked<'_>] = &[
        (Method::GET, "", &[], ""),
        (Method::HEAD, "", &[], ""),
        (Method::GET, "/manifest", &[], ""),
        (Method::GET, "/manifest", &[("accept", "application/yaml")], ""),
        (Method::GET, "/watch", &[], ""),
        (Method::GET, "", &[("if-none-match", &tag)], ""),
        (Method::GET, "", &[("if-none-match", "*")], ""),
        (Method::PATCH, "", &[], change),
        (Method::PATCH, "", &[], "{}"),
        (Method::PATCH, "", &[("if-match", &tag)], change),
        (Method::PATCH, "", &[("if-match", "\"x\"")], change),
        (Method::PATCH, "", &[], r#"{"nonsense": 1}"#),
        (Method::PUT, "", &[("if-match", "*")], "{}"),
        (Method::PUT, "", &[("if-match", &tag)], "{}"),
        (Method::PUT, "", &[("if-match", "\"x\"")], "{}"),
        (Method::DELETE, "", &[], ""),
        (Method::DELETE, "", &[("if-match", &tag)], ""),
        (Method::POST, "/owner", &[], r#"{"owner": "alice"}"#),
        (Method::POST, "/owner", &[], r#"{"nonsense": "alice"}"#),
        (Method::POST, "", &[], ""),
    ];
    for user in ["alice", "viv"] {
        for (method, way, headers, body) in asked {
            let bearer = guarded.bearer(user);
            let headers = [&[("authorization", bearer.as_str())], *headers].concat();
            let ask = async |name: &str| {
                let path = format!("/clusters/{name}.shared{way}");
                told_of(&guarded.send(method.clone(), &path, &headers, (*body).to_owned()).await?, name)
            };
            let (hidden, absent) = (ask("hidden").await?, ask("absent").await?);
            assert_eq!(hidden, absent, "{user}: {method} {way} {headers:?}");
            assert!((400..500).contains(&hidden.0), "{user}: {method} {way}: {hidden:?}");
        }
    }
    // The one thing that tells is that the name is taken, and no more.
    let body = json!({"name": "hidden", "namespace": "shared"});
    let taken = guarded.create("alice", &body).await?;
    let problem = taken.problem(409, "ALREADY_EXISTS");
    assert_eq!((taken.header("location"), &problem["detail"]), ("", &json!("The name hidden is taken.")), "{taken:?}");
    let put = async |headers: &[(&str, &str)]| {
        let bearer = guarded.bearer("alice");
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        guarded.send(Method::PUT, "/clusters/hidden.shared", &headers, "{}").await
    };
    put(&[("if-none-match", "*")]).await?.problem(412, "PRECONDITION_FAILED");
    let taken = put(&[]).await?;
    taken.problem(409, "ALREADY_EXISTS");
    assert_eq!(taken.header("location"), "", "{taken:?}");
    assert_eq!(owned(&held(&guarded, "hidden.shared").await?), before);
    Ok(())
}

/// The samples of what was decided.
async fn decisions(guarded: &Guarded) -> Outcome<Vec<String>> {
    let text = guarded.get("/metrics").await?;
    let text = String::from_utf8_lossy(&text.body).into_owned();
    Ok(text.lines().filter(|line| line.starts_with("raygate_access_decisions")).map(str::to_owned).collect())
}

#[tokio::test]
async fn counters_do_not_tell_what_is_hidden() -> Outcome {
    let counted = async |name: &str| {
        let guarded = start(&UNLIMITED).await?;
        create(&guarded, "bob", "hidden", "shared").await?;
        for (method, way) in
            [(Method::GET, ""), (Method::GET, "/manifest"), (Method::GET, "/watch"), (Method::DELETE, "")]
        {
            let path = format!("/clusters/{name}.shared{way}");
            guarded.ask("alice", method, &path, "").await?.problem(404, "NOT_FOUND");
        }
        let mut decisions = decisions(&guarded).await?;
        decisions.sort();
        Outcome::Ok(decisions)
    };
    assert_eq!(counted("hidden").await?, counted("absent").await?);
    Ok(())
}

/// A page's names and the token of the next one.
async fn page(guarded: &Guarded, user: &str, query: &str) -> Outcome<(Vec<String>, Option<String>)> {
    let answer = guarded.ask(user, Method::GET, &format!("/clusters?{query}"), "").await?;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    let list = answer.json();
    let items = list["items"].as_array().ok_or("no items")?.iter();
    let names = items.map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect();
    Ok((names, list["nextPageToken"].as_str().map(str::to_owned)))
}

#[tokio::test]
async fn page_tokens_carry_no_rights() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    for name in ["a1", "c1", "e1"] {
        create(&guarded, "alice", name, "shared").await?;
    }
    for name in ["b2", "d2", "f2"] {
        create(&guarded, "bob", name, "shared").await?;
    }
    create(&guarded, "olga", "x", "other").await?;
    let first = "namespace=shared&limit=1";
    let (names, token) = page(&guarded, "alice", first).await?;
    let token = token.ok_or("there is more")?;
    assert_eq!(names, ["a1"]);
    assert!(!token.contains("b2"), "{token}");
    let next = |token: &str| format!("{first}&pageToken={}", encoded(token));
    let (names, _) = page(&guarded, "alice", &next(&token)).await?;
    assert_eq!(names, ["c1"], "what is hidden takes no place");
    // The last page is the last one, whatever hidden comes behind.
    let (names, end) = page(&guarded, "alice", "namespace=shared&limit=3").await?;
    assert_eq!((names.len(), end), (3, None));
    // Another's token is a place in the order, and so is one that is made up.
    let (_, bobs) = page(&guarded, "bob", first).await?;
    let bobs = bobs.ok_or("there is more")?;
    assert_eq!(page(&guarded, "alice", &next(&bobs)).await?.0, ["c1"]);
    for (place, wanted) in
        [("d2.shared", &["e1"][..]), ("a0.shared", &["a1"]), ("zz.shared", &[]), ("x.other", &["a1"])]
    {
        let (kept, _) = token.rsplit_once('~').ok_or("another kind of token: what of it can be made up?")?;
        assert_eq!(page(&guarded, "alice", &next(&format!("{kept}~{place}"))).await?.0, wanted, "{place}");
    }
    let mut forged =
        vec![String::new(), "1".into(), "~~".into(), "1~~a1.shared".into(), token.clone() + "\0", token.repeat(500)];
    forged.extend([token.to_uppercase(), token.replacen('1', "2", 1), format!(" {token}"), token.replace('~', "%7E")]);
    forged.extend(["eyJhbGciOiJub25lIn0.e30.".into(), "../../etc/passwd".into(), token.replace(".shared", ".")]);
    forged.extend((1..token.len() - ".shared".len()).map(|length| token[..length].to_owned()));
    for token in forged {
        let answer = guarded.ask("alice", Method::GET, &format!("/clusters?{}", next(&token)), "").await?;
        answer.problem(400, "MALFORMED");
    }
    for other in ["namespace=*&limit=1", "namespace=shared&owner=bob", "namespace=shared&labelSelector=team", ""] {
        let path = format!("/clusters?{other}&pageToken={}", encoded(&token));
        guarded.ask("alice", Method::GET, &path, "").await?.problem(400, "MALFORMED");
    }
    Ok(())
}
