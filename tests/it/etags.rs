//! Which half of the ETag moves: the revision where users' part of a cluster changes, the digest where its representation
//! does.

use http::Method;
use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, ManagerError};
use serde_json::{Value, json};

use crate::support::{Answer, Api, InProcess, Outcome, eventually};

/// The halves of an ETag: revision and digest.
pub(crate) fn halves(etag: &str) -> Outcome<(String, String)> {
    let halves = etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|tag| tag.split_once('.'));
    let (revision, digest) = halves.ok_or_else(|| format!("a strange ETag: {etag:?}"))?;
    Ok((revision.to_owned(), digest.to_owned()))
}

/// The present ETag of `demo`.
pub(crate) async fn etag(raygate: &Api) -> Outcome<String> {
    let answer = raygate.get("/clusters/demo").await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Ok(answer.header("etag").to_owned())
}

/// The ETag of `demo` once raygate has this version of it, or a newer one.
pub(crate) async fn etag_at(raygate: &Api, version: &str) -> Outcome<String> {
    let wanted: u64 = version.parse()?;
    eventually("the change has arrived", async || {
        let answer = raygate.get("/clusters/demo").await?;
        let held: u64 = answer.json()["resourceVersion"].as_str().unwrap_or_default().parse()?;
        Ok((held >= wanted).then(|| answer.header("etag").to_owned()))
    })
    .await
}

/// Creates `demo`; its ETag.
pub(crate) async fn created(raygate: &Api, document: &Value) -> Outcome<String> {
    let answer = raygate.post("/clusters", document).await?;
    assert_eq!(answer.status, 201, "{answer:?}");
    Ok(answer.header("etag").to_owned())
}

/// Waits until `demo` is ready.
pub(crate) async fn ready(raygate: &Api) -> Outcome<String> {
    eventually("demo is ready", async || {
        let answer = raygate.get("/clusters/demo").await?;
        Ok((answer.json()["status"]["state"] == "READY").then(|| answer.header("etag").to_owned()))
    })
    .await
}

/// Changes a label of `demo` if it still has the revision of this ETag.
pub(crate) async fn edit(raygate: &Api, etag: &str, label: &str) -> Outcome<Answer> {
    let body = json!({"labels": {"edit": label}}).to_string();
    raygate.send(Method::PATCH, "/clusters/demo", &[("if-match", etag)], body).await
}

/// A status that changes: pollers are told, edits are not disturbed.
pub(crate) async fn a_status_moves_the_digest(raygate: &Api) -> Outcome {
    let document = json!({"name": "demo", "workerGroups": {"w": {"replicas": 1}}});
    let new = created(raygate, &document).await?;
    let ready = ready(raygate).await?;
    let ((before, digest), (after, digest_after)) = (halves(&new)?, halves(&ready)?);
    assert_eq!(before, after, "nobody changed it");
    assert_ne!(digest, digest_after, "its status is another");

    let poll = raygate.send(Method::GET, "/clusters/demo", &[("if-none-match", &new)], "").await?;
    assert_eq!(poll.status, 200, "{poll:?}");
    let present = etag(raygate).await?;
    let guarded = edit(raygate, &new, "by-the-oldest-tag").await?;
    assert_eq!(guarded.status, 200, "{guarded:?}");
    let edited = guarded.header("etag").to_owned();
    assert_ne!(halves(&edited)?.0, before, "now somebody did");
    assert_ne!(edited, present);
    edit(raygate, &new, "too-late").await?.problem(412, "PRECONDITION_FAILED");
    Ok(())
}

/// Another cluster under the same name, of the same document: no tag of the first one is good for it.
pub(crate) async fn another_cluster_has_another_revision(raygate: &Api) -> Outcome {
    let document = json!({"name": "demo", "labels": {"team": "a"}, "workerGroups": {"w": {"replicas": 1}}});
    let first = created(raygate, &document).await?;
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
    let second = eventually("the name is free", async || {
        let answer = raygate.post("/clusters", &document).await?;
        Ok((answer.status == 201).then(|| answer.header("etag").to_owned()))
    })
    .await?;
    assert_ne!(halves(&first)?.0, halves(&second)?.0, "the same document, another cluster");

    edit(raygate, &first, "of-the-first").await?.problem(412, "PRECONDITION_FAILED");
    let guard = [("if-match", first.as_str())];
    for method in [Method::PUT, Method::DELETE] {
        let body = if method == Method::PUT { document.to_string() } else { String::new() };
        let answer = raygate.send(method, "/clusters/demo", &guard, body).await?;
        answer.problem(412, "PRECONDITION_FAILED");
    }
    assert_eq!(edit(raygate, &second, "of-the-second").await?.status, 200);
    Ok(())
}

/// Writes to `demo` as Ray's autoscaler does: the replicas of its first group and the nodes that are to go.
pub(crate) trait Autoscaler {
    /// Writes one member of the first group; the resourceVersion that it became.
    async fn write(&self, member: &str, value: Value) -> Outcome<String>;
}

/// What the autoscaler writes is its own while it is on; while it is off it is a change like any other.
pub(crate) async fn the_autoscaler_owns_what_it_writes(raygate: &Api, autoscaler: &impl Autoscaler) -> Outcome {
    let document = json!({
        "name": "demo", "autoscaling": {"enabled": true},
        "workerGroups": {"w": {"replicas": 1, "minReplicas": 0, "maxReplicas": 5}},
    });
    let mut tag = created(raygate, &document).await?;
    let writes = [
        ("replicas", json!(3)),
        ("scaleStrategy", json!({"workersToDelete": ["demo-w-worker-x"]})),
        ("scaleStrategy", json!({"workersToDelete": []})),
    ];
    for (member, value) in writes {
        let version = autoscaler.write(member, value.clone()).await?;
        let now = etag_at(raygate, &version).await?;
        assert_eq!(halves(&now)?.0, halves(&tag)?.0, "on: {member}: {value}");
        assert_ne!(now, tag, "what is shown is another: {member}: {value}");
    }
    assert_eq!(edit(raygate, &tag, "past-the-autoscaler").await?.status, 200);

    let off = json!({"autoscaling": {"enabled": false}}).to_string();
    let answer = raygate.send(Method::PATCH, "/clusters/demo", &[], off).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    tag = answer.header("etag").to_owned();
    for (member, value) in [("replicas", json!(2)), ("scaleStrategy", json!({"workersToDelete": ["demo-w-worker-y"]}))]
    {
        let version = autoscaler.write(member, value.clone()).await?;
        let now = etag_at(raygate, &version).await?;
        assert_ne!(halves(&now)?.0, halves(&tag)?.0, "off: {member}: {value}");
        edit(raygate, &tag, "too-late").await?.problem(412, "PRECONDITION_FAILED");
        tag = now;
    }
    Ok(())
}

/// Past raygate, in the embedded backend.
struct Embedded(Backend);

impl Autoscaler for Embedded {
    async fn write(&self, member: &str, value: Value) -> Outcome<String> {
        loop {
            let held = self.0.clusters.get("default", "demo").await?;
            let mut groups = held.raw["spec"]["workerGroupSpecs"].clone();
            groups[0][member] = value.clone();
            let patch = json!({"spec": {"workerGroupSpecs": groups}});
            match self.0.clusters.patch("default", "demo", held.resource_version(), &patch).await {
                Err(ManagerError::Conflict) => {}
                other => return Ok(other?.resource_version().to_owned()),
            }
        }
    }
}

fn embedded() -> Backend {
    backend(Options { namespaces: vec!["default".into()], ..Options::default() })
}

#[tokio::test]
async fn a_status_that_changes_spoils_no_edit_in_memory() -> Outcome {
    let raygate = InProcess::open(&embedded()).await?;
    a_status_moves_the_digest(&raygate).await?;
    raygate.end().await
}

#[tokio::test]
async fn a_tag_is_no_good_for_another_cluster_of_the_name_in_memory() -> Outcome {
    let raygate = InProcess::open(&embedded()).await?;
    another_cluster_has_another_revision(&raygate).await?;
    raygate.end().await
}

#[tokio::test]
async fn an_autoscaler_that_is_on_spoils_no_edit_in_memory() -> Outcome {
    let backend = embedded();
    let raygate = InProcess::open(&backend).await?;
    the_autoscaler_owns_what_it_writes(&raygate, &Embedded(backend)).await?;
    raygate.end().await
}
