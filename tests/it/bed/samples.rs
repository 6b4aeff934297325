//! The operator's own samples through our types and our lens.

use http::Method;
use raygate::ray::cluster::RayCluster;
use raygate::ray::document::Document;
use raygate::ray::lens;
use serde_json::Map;

use super::*;
use crate::samples::{Sample, distinct, folders, in_folder};

/// All RayClusters of all versions, parts of other kinds too.
fn all() -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    for folder in folders()? {
        let (clusters, parts) = in_folder(&folder)?;
        assert!(
            clusters.len() > 15 && parts.len() > 10,
            "{}: {} and {}",
            folder.display(),
            clusters.len(),
            parts.len()
        );
        samples.extend(clusters);
        samples.extend(parts);
    }
    Ok(distinct(samples))
}

/// Nulls say nothing in Kubernetes, and our types drop them.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
#[ignore = "needs the control plane that tests/run starts"]
fn every_sample_survives_our_types() -> Outcome {
    let samples = all()?;
    assert!(samples.len() > 100, "only {}", samples.len());
    for Sample { source, object } in &samples {
        let decoded: RayCluster =
            serde_json::from_value(object.clone()).map_err(|error| format!("{source}: {error}"))?;
        let encoded = serde_json::to_value(&decoded)?;
        // The known loss: an explicit null of a member that we type.
        assert_eq!(without_nulls(&encoded), without_nulls(object), "{source}");
    }
    // The others: what upstream's CRD doesn't know either.
    let lossy = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x", "newer": 1}, "spec": {"rayVersion": null}, "newer": 1});
    let decoded: RayCluster = serde_json::from_value(lossy)?;
    let kept = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}, "spec": {}});
    assert_eq!(serde_json::to_value(&decoded)?, kept);
    Ok(())
}

#[test]
#[ignore = "needs the control plane that tests/run starts"]
fn every_sample_obeys_the_laws() -> Outcome {
    for Sample { source, mut object } in all()? {
        raygate::ray::schema::ray_cluster().apply_defaults(&mut object);
        let seen = lens::view(&object).document;
        let (wanted, faults) = Document::read(serde_json::to_value(&seen)?);
        let same = lens::edit(&object, wanted, faults).map_err(|refusal| format!("{source}: {refusal:?}"))?;
        assert_eq!(same.object, object, "{source}: wanting what is seen changes nothing");

        let mut other = seen.clone();
        other.0.insert("rayVersion".to_owned(), json!("2.99.0"));
        other.0.insert("labels".to_owned(), json!({"added": "here"}));
        let (wanted, faults) = Document::read(serde_json::to_value(&other)?);
        let after = lens::edit(&object, wanted, faults).map_err(|refusal| format!("{source}: {refusal:?}"))?;
        let seen = lens::view(&after.object).document;
        assert_eq!(seen, lens::normal(&other), "{source}: what is wanted is seen");
    }
    Ok(())
}

/// Who wrote to which RayCluster of a namespace, as the apiserver's audit log says: verb, name and agent.
async fn writes(namespace: &str) -> Outcome<Vec<(String, String, String)>> {
    let path = std::env::var_os("RAYGATE_BED_AUDIT").ok_or("RAYGATE_BED_AUDIT is not set: tests/run does it")?;
    let text = tokio::fs::read_to_string(path).await?;
    let mut writes = Vec::new();
    for line in text.lines() {
        // The last line may be half written.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if event["objectRef"]["namespace"] == namespace && event["objectRef"]["subresource"].is_null() {
            writes.push((text(&event["verb"]), text(&event["objectRef"]["name"]), text(&event["userAgent"])));
        }
    }
    Ok(writes)
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn every_sample_can_be_put_back_and_nothing_is_written() -> Outcome {
    let bed = Bed::new("samples").await?;
    let raygate = bed.raygate(&[]).await?;
    let memory = Raygate::memory(&["--memory-start-milliseconds", "3600000"]).await?;
    let newest = folders()?.into_iter().next().ok_or("no folder")?;
    let (samples, _) = in_folder(&newest)?;
    for (index, Sample { source, mut object }) in samples.into_iter().enumerate() {
        let name = format!("s{index}");
        object["metadata"]["name"] = json!(name);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.shift_remove("namespace");
        }
        bed.kubectl(&["create", "-f", "-"], &object.to_string()).await.map_err(|error| format!("{source}: {error}"))?;
        put_back(&raygate, &name).await.map_err(|error| format!("{source}: {error}"))?;
        bed.kubectl(&["delete", "raycluster", &name, "--wait=false"], "").await?;

        let answer = memory.post("/clusters", &object).await?;
        assert_eq!(answer.status, 201, "{source}: {answer:?}");
        put_back(&memory, &name).await.map_err(|error| format!("{source} in memory: {error}"))?;
        memory.delete(&format!("/clusters/{name}")).await?;
    }

    // A write that changes something is in the log; so the log would have shown the others.
    bed.kubectl(&["create", "-f", "-"], "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: seen}\n").await?;
    let changed = raygate.send(Method::PATCH, "/clusters/seen", &[], r#"{"labels": {"a": "b"}}"#);
    eventually("raygate knows the cluster", async || {
        Ok((raygate.get("/clusters/seen").await?.status == 200).then_some(()))
    })
    .await?;
    assert_eq!(changed.await?.status, 200);
    let written = eventually("the log tells of it", async || {
        let writes = writes(&bed.namespace).await?;
        Ok(writes.iter().any(|(verb, name, _)| verb == "patch" && name == "seen").then_some(writes))
    })
    .await?;
    let agent = |name: &str, verb: &str| {
        written.iter().find(|(v, n, _)| v == verb && n == name).map(|(.., agent)| agent.clone())
    };
    let ours = agent("seen", "patch").ok_or("no agent")?;
    let by_us: Vec<_> = written.iter().filter(|(_, name, agent)| *agent == ours && name != "seen").collect();
    assert!(by_us.is_empty(), "{by_us:?}");
    Ok(())
}

/// Reads a cluster and puts back what was read, guarded by its ETag; the generation stays.
async fn put_back(raygate: &Raygate, name: &str) -> Outcome {
    let path = format!("/clusters/{name}");
    // The operator rewrites a spec with GCS fault tolerance once, when it adds its finalizer; then all is still.
    eventually("what was read can be put back and the generation stays", async || {
        let generation = async || -> Outcome<Value> {
            Ok(raygate.get(&format!("{path}/manifest")).await?.json()["metadata"]["generation"].clone())
        };
        let read = raygate.get(&path).await?;
        if read.status != 200 {
            return Ok(None);
        }
        let before = generation().await?;
        let answer = raygate.send(Method::PUT, &path, &[("if-match", read.header("etag"))], read.body.clone()).await?;
        if answer.status == 412 {
            return Ok(None);
        }
        if answer.status != 200 {
            return Err(format!("{answer:?}").into());
        }
        Ok((before == generation().await?).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn what_others_wrote_survives() -> Outcome {
    let bed = Bed::new("foreign").await?;
    let raygate = bed.raygate(&[]).await?;
    let add_finalizer = async || {
        let patch = r#"{"metadata": {"finalizers": ["example.com/held"]}}"#;
        bed.kubectl(&["patch", "raycluster", "theirs", "--type=merge", "-p", patch], "").await?;
        let finalizers =
            async || Ok(raygate.get("/clusters/theirs/manifest").await?.json()["metadata"]["finalizers"].clone());
        eventually("raygate sees the finalizer", async || {
            let seen: Outcome<Value> = finalizers().await;
            Ok((seen? == json!(["example.com/held"])).then_some(()))
        })
        .await
    };
    crate::writes::foreign_fields_survive(&raygate, add_finalizer).await?;
    let patch = r#"{"metadata": {"finalizers": null}}"#;
    bed.kubectl(&["patch", "raycluster", "theirs", "--type=merge", "-p", patch], "").await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn unknown_members_are_named() -> Outcome {
    let bed = Bed::new("unknown").await?;
    crate::manifests::unknown_members(&*bed.raygate(&[]).await?).await
}
