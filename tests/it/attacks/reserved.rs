//! Whose a cluster is stands in keys of raygate's own: nobody takes one over, or gives it away, by writing them.

use http::Method;
use serde_json::{Value, json};

use super::{UNLIMITED, start};
use crate::support::{Answer, Guarded, Outcome, faults};

const OWNER: &str = "raygate.dev/owner";

/// The metadata that would make bob the owner, one member each.
fn claims() -> [Value; 4] {
    [
        json!({"annotations": {OWNER: "bob"}}),
        json!({"labels": {OWNER: "81b637d8fcd2c6da6359e6963113a117"}}),
        json!({"annotations": {OWNER: null}}),
        json!({"labels": {OWNER: null}}),
    ]
}

/// Documents with such metadata, wherever a document takes some; the beginning of the pointer to it.
fn documents() -> Vec<(Value, &'static str)> {
    let mut documents = Vec::new();
    for claim in claims() {
        let template = json!({"podTemplate": {"metadata": claim}});
        documents.extend([
            (claim.clone(), ""),
            (json!({"head": claim}), "/head"),
            (json!({"head": template}), "/head/podTemplate/metadata"),
            (json!({"workerGroups": {"w": claim}}), "/workerGroups/w"),
            (json!({"workerGroups": {"w": template}}), "/workerGroups/w/podTemplate/metadata"),
        ]);
    }
    documents
}

async fn send(guarded: &Guarded, method: Method, path: &str, media_type: &str, body: &Value) -> Outcome<Answer> {
    let bearer = guarded.bearer("alice");
    let headers = [("authorization", bearer.as_str()), ("content-type", media_type), ("if-match", "*")];
    // Only a write to something that is there has a guard.
    let headers = if path == "/clusters/mine" { &headers[..] } else { &headers[..2] };
    guarded.send(method, path, headers, body.to_string()).await
}

/// Who owns what Kubernetes holds: by the annotation, the label and what is shown.
async fn owner(guarded: &Guarded, name: &str) -> Outcome<[Value; 3]> {
    let object = super::held(guarded, &format!("{name}.default")).await?;
    let shown = guarded.ask("adam", Method::GET, &format!("/clusters/{name}.default"), "").await?.json();
    let metadata = &object["metadata"];
    Ok([metadata["annotations"][OWNER].clone(), metadata["labels"][OWNER].clone(), shown["owner"].clone()])
}

/// What makes alice the owner: printf alice | sha256sum, the first 32 digits.
fn alices() -> [Value; 3] {
    [json!("alice"), json!("2bd806c97f0e00af1a1fc3328fa763a9"), json!("alice")]
}

#[tokio::test]
async fn no_document_says_whose_it_is() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    guarded.create("alice", &json!({"name": "mine"})).await?;
    assert_eq!(owner(&guarded, "mine").await?, alices());
    for (document, at) in documents() {
        let [mut named, mut whole] = [document.clone(), document.clone()];
        named["name"] = json!("fresh");
        whole["rayVersion"] = json!("2.52.0");
        let json = "application/json";
        let yaml = "application/yaml";
        for (method, path, media_type, body) in [
            (Method::POST, "/clusters", json, &named),
            (Method::POST, "/clusters", yaml, &named),
            (Method::PUT, "/clusters/fresh", json, &document),
            (Method::PUT, "/clusters/mine", json, &whole),
            (Method::PATCH, "/clusters/mine", "application/merge-patch+json", &document),
            (Method::PATCH, "/clusters/mine", yaml, &document),
        ] {
            let answer = send(&guarded, method.clone(), path, media_type, body).await?;
            assert_eq!(owner(&guarded, "mine").await?, alices(), "{method} {path} {document}");
            if answer.status.is_success() {
                // A `null` that takes away what isn't there.
                assert!(document.to_string().contains("null"), "{method} {path} {document}: {answer:?}");
                if path != "/clusters/mine" {
                    assert_eq!(owner(&guarded, "fresh").await?, alices(), "{method} {path} {document}");
                    guarded.ask("adam", Method::DELETE, "/clusters/fresh.default", "").await?;
                    gone(&guarded).await?;
                }
                continue;
            }
            let problem = answer.json();
            assert!([400, 422].contains(&answer.status.as_u16()), "{method} {path} {document}: {problem}");
            let told = faults(&problem);
            assert!(told.iter().all(|(pointer, _)| pointer.starts_with(at)), "{method} {path} {document}: {problem}");
            if !document.to_string().contains("null") {
                assert!(told.iter().all(|(_, code)| code == "RESERVED"), "{method} {path} {document}: {problem}");
            }
        }
    }
    Ok(())
}

async fn gone(guarded: &Guarded) -> Outcome {
    crate::support::eventually("the cluster is gone", async || {
        let answer = guarded.ask("adam", Method::GET, "/clusters/fresh.default", "").await?;
        Ok((answer.status == 404).then_some(()))
    })
    .await
}

/// A whole RayCluster with this name and metadata.
fn manifest(name: &str, metadata: &Value, template: &Value) -> Value {
    let mut metadata = metadata.clone();
    metadata["name"] = json!(name);
    let container = json!({"name": "ray", "image": "rayproject/ray:2.52.0"});
    let template = json!({"metadata": template, "spec": {"containers": [container]}});
    let spec = json!({"rayVersion": "2.52.0", "headGroupSpec": {"rayStartParams": {}, "template": template}});
    json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec})
}

#[tokio::test]
async fn no_manifest_says_whose_it_is() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    guarded.create("alice", &json!({"name": "mine"})).await?;
    for media_type in ["application/json", "application/yaml"] {
        for claim in &claims()[..2] {
            let fresh = manifest("fresh", claim, &json!({}));
            for (method, path) in [(Method::POST, "/clusters"), (Method::PUT, "/clusters/fresh")] {
                let answer = send(&guarded, method, path, media_type, &fresh).await?;
                assert_eq!(answer.status, 201, "{claim}: {answer:?}");
                let warnings = answer.json()["warnings"].to_string();
                assert!(warnings.contains("DROPPED") && warnings.contains("raygate.dev~1owner"), "{warnings}");
                assert_eq!(owner(&guarded, "fresh").await?, alices(), "{claim}");
                guarded.ask("adam", Method::DELETE, "/clusters/fresh.default", "").await?;
                gone(&guarded).await?;
            }
            let mine = manifest("mine", claim, &json!({}));
            let answer = send(&guarded, Method::PUT, "/clusters/mine", media_type, &mine).await?;
            assert_eq!(answer.status, 200, "{claim}: {answer:?}");
            assert_eq!(owner(&guarded, "mine").await?, alices(), "{claim}");
            for (method, path, name) in [(Method::POST, "/clusters", "fresh"), (Method::PUT, "/clusters/mine", "mine")]
            {
                let inside = manifest(name, &json!({}), claim);
                let problem = send(&guarded, method, path, media_type, &inside).await?.problem(422, "INVALID");
                let told = faults(&problem);
                assert!(
                    told.iter().all(|(at, _)| at.starts_with("/spec/headGroupSpec/template/metadata/")),
                    "{problem}"
                );
                assert!(told.iter().all(|(_, code)| code == "RESERVED"), "{problem}");
            }
            // A patch is one of the document, which has no such members.
            send(&guarded, Method::PATCH, "/clusters/mine", media_type, &mine).await?.problem(400, "MALFORMED");
            assert_eq!(owner(&guarded, "mine").await?, alices(), "{claim}");
        }
    }
    Ok(())
}

/// The operator deletes what a `scaleStrategy` names, also another's pods.
#[tokio::test]
async fn nobody_has_pods_deleted_by_their_names() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    let with = |name: &str, strategy: Option<&Value>| {
        let mut object = manifest(name, &json!({}), &json!({}));
        let template = object["spec"]["headGroupSpec"]["template"].clone();
        let mut group = json!({"groupName": "w", "replicas": 1, "template": template});
        if let Some(strategy) = strategy {
            group["scaleStrategy"] = strategy.clone();
        }
        object["spec"]["workerGroupSpecs"] = json!([group]);
        object
    };
    let names = json!({"workersToDelete": ["theirs-head"]});
    guarded.create("alice", &with("mine", None)).await?;
    guarded.create("adam", &with("adams", None)).await?;
    for (user, own) in [("alice", "mine"), ("adam", "adams")] {
        for (method, path, name) in [
            (Method::POST, "/clusters".to_owned(), "fresh"),
            (Method::PUT, "/clusters/fresh.default".to_owned(), "fresh"),
            (Method::PUT, format!("/clusters/{own}.default"), own),
        ] {
            let mut body = with(name, Some(&names));
            body["metadata"]["namespace"] = json!("default");
            let bearer = guarded.bearer(user);
            let headers = [("authorization", bearer.as_str()), ("content-type", "application/json"), ("if-match", "*")];
            let headers = if name == own { &headers[..] } else { &headers[..2] };
            let problem = guarded.send(method, &path, headers, body.to_string()).await?.problem(422, "INVALID");
            let told = [("/spec/workerGroupSpecs/0/scaleStrategy".to_owned(), "RESERVED".to_owned())];
            assert_eq!(faults(&problem), told, "{problem}");
        }
        for document in [
            json!({"workerGroups": {"w": {"scaleStrategy": names}}}),
            json!({"workerGroups": {"w": {"podTemplate": {"scaleStrategy": names}}}}),
            json!({"workerGroups": {"w": {"podTemplate": {"spec": {"scaleStrategy": names}}}}}),
        ] {
            let path = format!("/clusters/{own}.default");
            guarded.ask(user, Method::PATCH, &path, document.to_string()).await?.problem(400, "MALFORMED");
        }
        let object = super::held(&guarded, &format!("{own}.default")).await?;
        assert!(!object["spec"].to_string().contains("theirs-head"), "{object}");
    }
    Ok(())
}

#[tokio::test]
async fn the_member_owner_is_read_only() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    for said in [json!("bob"), json!(null), json!({"anything": 1}), json!("alice")] {
        let created = guarded.create("alice", &json!({"name": "fresh", "owner": said})).await?;
        assert_eq!((created.status.as_u16(), &created.json()["owner"]), (201, &json!("alice")), "{created:?}");
        let body = json!({"owner": said, "labels": {"a": "b"}}).to_string();
        let patched = guarded.ask("alice", Method::PATCH, "/clusters/fresh", body).await?;
        assert_eq!((patched.status.as_u16(), &patched.json()["owner"]), (200, &json!("alice")), "{patched:?}");
        assert_eq!(owner(&guarded, "fresh").await?, alices());
        guarded.ask("alice", Method::DELETE, "/clusters/fresh", "").await?;
        gone(&guarded).await?;
    }
    Ok(())
}

#[tokio::test]
async fn nearly_the_key_is_another_key_or_none() -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    for key in
        ["raygate.dev/Owner", "raygate.dev/owner2", "Raygate.dev/owner", "raygate.dev//owner", " raygate.dev/owner"]
    {
        for member in ["labels", "annotations"] {
            let answer = guarded.create("alice", &json!({"name": "fresh", member: {key: "bob"}})).await?;
            answer.problem(422, "INVALID");
        }
    }
    for key in ["x.raygate.dev/owner", "owner", "raygate.dev.example/owner"] {
        let answer = guarded.create("alice", &json!({"name": "fresh", "annotations": {key: "bob"}})).await?;
        assert_eq!((answer.status.as_u16(), &answer.json()["owner"]), (201, &json!("alice")), "{answer:?}");
        guarded.ask("alice", Method::DELETE, "/clusters/fresh", "").await?;
        gone(&guarded).await?;
    }
    Ok(())
}
