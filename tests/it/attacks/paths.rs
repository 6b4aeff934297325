//! Paths and targets that are spelt so that somebody may read them otherwise.

use http::Method;

use super::{SECRET, UNLIMITED, create, held, owned, start, talk};
use crate::support::{Guarded, Outcome};

/// Clusters that alice may not see: one where she may use nothing, one of bob's where he hides his.
async fn with_victims() -> Outcome<Guarded> {
    let guarded = start(&UNLIMITED).await?;
    create(&guarded, "olga", "secret", "other").await?;
    create(&guarded, "bob", "theirs", "shared").await?;
    Ok(guarded)
}

/// The statuses that a target gets from alice.
const TARGETS: &[(&str, &[u16])] = &[
    // Dots that are encoded are dots: `name.namespace`, and is judged as that.
    ("/clusters/secret.other", &[403]),
    ("/clusters/secret%2Eother", &[403]),
    ("/clusters/secret%2eother/manifest", &[403]),
    ("/clusters/%73ecret%2eothe%72/watch", &[403]),
    ("/clusters/any.secret.other", &[403]),
    ("/clusters/theirs%2Eshared", &[404]),
    ("/clusters/theirs%2Eshared/manifest", &[404]),
    ("/clusters/theirs.shared/watch", &[404]),
    ("/clusters/secret.other.default", &[404]),
    ("/clusters/secret.other.", &[404]),
    ("/clusters/secret..other", &[404]),
    ("/clusters/.other", &[404]),
    ("/clusters/secret.OTHER", &[404]),
    ("/clusters/secret.*", &[404]),
    ("/clusters/*.other", &[404]),
    ("/clusters/*", &[404]),
    // Encoded once too often.
    ("/clusters/secret%252Eother", &[404]),
    ("/clusters/secret%25252Eother", &[404]),
    ("/clusters/theirs%252eshared%252fmanifest", &[404]),
    // A slash that is encoded separates nothing.
    ("/clusters/secret.other%2Fmanifest", &[404]),
    ("/clusters%2Fsecret.other", &[404]),
    ("/%63lusters", &[200, 404]),
    // What ends a text elsewhere.
    ("/clusters/secret.other%00", &[404]),
    ("/clusters/secret.other%00.default", &[404]),
    ("/clusters/secret.other%0a", &[404]),
    ("/clusters/secret.other%20", &[404]),
    ("/clusters/secret.other;x", &[404]),
    ("/clusters/demo;/../secret.other", &[404]),
    ("/clusters/secret.other%23.default", &[404]),
    ("/clusters/secret.other%3Fx", &[404]),
    // Segments that mean another place, which nobody resolves here.
    ("/clusters/.", &[404]),
    ("/clusters/..", &[404]),
    ("/clusters/%2e%2e", &[404]),
    ("/clusters/%2e%2e/manifest", &[404]),
    ("/clusters/../clusters/secret.other", &[404]),
    ("/clusters/./secret.other", &[404]),
    ("/clusters/demo/../secret.other", &[404]),
    ("/clusters/demo/%2e%2e/secret.other/manifest", &[404]),
    ("/docs/../clusters/secret.other", &[404]),
    ("/docs/%2e%2e/clusters/secret.other", &[404]),
    ("/docs/..%2fclusters", &[404]),
    ("/docs/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd", &[404]),
    ("/health/../clusters", &[404]),
    // Slashes too many, and the wrong way round.
    ("//clusters", &[404]),
    ("/clusters//", &[404]),
    ("/clusters//secret.other", &[404]),
    ("//other/clusters", &[404]),
    ("/clusters/", &[404]),
    ("/clusters/secret.other/", &[404]),
    ("/clusters\\secret.other", &[400, 404]),
    ("/clusters/..\\secret.other", &[400, 404]),
    ("/clusters/%5c..%5csecret.other", &[404]),
    // Cases, and bytes that are no UTF-8 or one only by a wide reading.
    ("/CLUSTERS", &[404]),
    ("/Clusters/secret.other", &[404]),
    ("/clusters/SECRET.other", &[404]),
    ("/clusters/%C0%AE%C0%AE", &[404]),
    ("/clusters/secret%C0%AEother", &[404]),
    ("/clusters/secret%E0%80%AEother", &[404]),
    ("/clusters/secret%EF%BC%8Eother", &[404]),
    ("/clusters/secret%E3%80%82other", &[404]),
    ("/clusters/%ff%fe", &[404]),
    ("/clusters/secret%u002eother", &[404]),
    ("/clusters/secret%2", &[404]),
    ("/clusters/%", &[404]),
    // Targets in other forms (RFC 9112, section 3.2).
    ("http://localhost/clusters/secret.other", &[403]),
    ("http://raygate.example/clusters/secret%2Eother", &[403]),
    ("http://admin@localhost/clusters/secret.other", &[403]),
    ("http://localhost//clusters/secret.other", &[404]),
    ("http://localhost/../clusters/secret.other", &[404]),
    ("https://localhost/clusters/theirs.shared", &[404]),
    ("/clusters/secret.other#.default", &[400, 403]),
    ("localhost", &[400, 404]),
    ("*", &[400, 404]),
    ("clusters", &[400, 404]),
    ("?namespace=other", &[400, 404]),
    // Parameters that mean another namespace.
    ("/clusters?namespace=other", &[403]),
    ("/clusters?namespace=%6fther", &[403]),
    ("/clusters?namespace=default&namespace=other", &[400]),
    ("/clusters?namespace=default;namespace=other", &[400]),
    ("/clusters?namespace=other%00", &[400]),
    ("/clusters?namespace=default%2Cother", &[400]),
    ("/clusters?namespace=default,other", &[400]),
    ("/clusters?namespace[]=other", &[400]),
    ("/clusters?Namespace=other", &[400]),
    ("/clusters?namespace=../other", &[400]),
    ("/clusters?namespace=oth*", &[400]),
    ("/clusters?namespace=%C0%AF", &[400]),
    ("/watch?namespace=other", &[403]),
    ("/watch?namespace=default&namespace=other", &[400]),
    ("/clusters/demo?namespace=other", &[400]),
];

#[tokio::test]
async fn no_spelling_of_a_target_reaches_what_one_may_not_have() -> Outcome {
    let guarded = with_victims().await?;
    let bearer = guarded.bearer("alice");
    for (target, statuses) in TARGETS {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n");
        let said = talk(&guarded, format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
        let [said] = said.as_slice() else { return Err(format!("{target}: {said:?}").into()) };
        assert!(statuses.contains(&said.status), "{target}: {said:?}");
        assert!(!said.body.contains(SECRET), "{target}: {said:?}");
        if said.status == 200 {
            assert!(!said.body.contains("theirs"), "{target}: {said:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_spelling_of_a_target_goes_without_a_token() -> Outcome {
    let guarded = with_victims().await?;
    let more = ["/clusters", "/whoami", "/watch", "/metrics/../clusters", "/docs/..;/clusters", "/health;/clusters"];
    for target in TARGETS.iter().map(|(target, _)| *target).chain(more) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let said = talk(&guarded, request.as_bytes()).await?;
        let [said] = said.as_slice() else { return Err(format!("{target}: {said:?}").into()) };
        assert!([400, 401, 404].contains(&said.status), "{target}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn no_spelling_of_a_target_changes_what_one_may_not_change() -> Outcome {
    let guarded = with_victims().await?;
    let before = [held(&guarded, "secret.other").await?, held(&guarded, "theirs.shared").await?];
    let bearer = guarded.bearer("alice");
    let body = r#"{"labels": {"alice": "was-here"}}"#;
    for method in ["PATCH", "PUT", "DELETE", "POST"] {
        for (target, _) in TARGETS {
            let length = body.len();
            let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n");
            let rest = format!("If-Match: *\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
            let said = talk(&guarded, format!("{head}{rest}Connection: close\r\n\r\n{body}").as_bytes()).await?;
            let [said] = said.as_slice() else { return Err(format!("{method} {target}: {said:?}").into()) };
            assert!((400..500).contains(&said.status), "{method} {target}: {said:?}");
            assert!(!said.body.contains(SECRET), "{method} {target}: {said:?}");
        }
    }
    let after = [held(&guarded, "secret.other").await?, held(&guarded, "theirs.shared").await?];
    assert_eq!(before.map(|object| owned(&object)), after.map(|object| owned(&object)));
    Ok(())
}

#[tokio::test]
async fn encoded_dots_are_dots_for_those_who_may() -> Outcome {
    let guarded = with_victims().await?;
    for (user, target) in [("bob", "/clusters/theirs%2Eshared"), ("olga", "/clusters/secret%2eother")] {
        let answer = guarded.ask(user, Method::GET, target, "").await?;
        assert_eq!(answer.status, 200, "{user} {target}: {answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn methods_are_what_they_are_called() -> Outcome {
    let guarded = with_victims().await?;
    create(&guarded, "alice", "demo", "default").await?;
    let before = held(&guarded, "demo.default").await?;
    let bearer = guarded.bearer("alice");
    for method in ["get", "Delete", "PURGE", "TRACE", "PROPFIND", "OPTIONS", "X", "CONNECT"] {
        let head = format!("{method} /clusters/demo HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n");
        let said = talk(&guarded, format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
        assert!(said.iter().all(|said| (400..500).contains(&said.status)), "{method}: {said:?}");
    }
    assert_eq!(owned(&held(&guarded, "demo.default").await?), owned(&before));
    Ok(())
}
