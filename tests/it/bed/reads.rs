//! Two processes, and what one of them wrote read from the other at once.

use http::Method;

use super::*;

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn what_one_process_wrote_is_read_from_another() -> Outcome {
    let bed = Bed::new("reads").await?;
    let (one, other) = (bed.raygate(&[]).await?, bed.raygate(&[]).await?);
    let created = one.post("/clusters", &json!({"name": "demo", "suspended": true})).await?;
    assert_eq!(created.status, 201, "{created:?}");
    let mut version = created.json()["resourceVersion"].clone();
    let mut known = [0, 0];
    for round in 0..50 {
        let newer = format!("minResourceVersion={}", version.as_str().ok_or("no version")?);
        let wanted = if round == 0 { Value::Null } else { json!({"round": round.to_string()}) };
        let (one_path, list_path) = (format!("/clusters/demo?{newer}"), format!("/clusters?{newer}"));
        let (cluster, list) = tokio::try_join!(other.get(&one_path), other.get(&list_path))?;
        assert_eq!((cluster.status.as_u16(), list.status.as_u16()), (200, 200), "{cluster:?} {list:?}");
        assert_eq!(cluster.json()["labels"], wanted, "round {round}");
        assert_eq!(list.json()["items"][0]["labels"], wanted, "round {round}");
        known[0] += usize::from(!cluster.header("age").is_empty());
        known[1] += usize::from(!list.header("age").is_empty());

        let body = json!({"labels": {"round": (round + 1).to_string()}}).to_string();
        let written = one.send(Method::PATCH, "/clusters/demo", &[], body).await?;
        assert_eq!(written.status, 200, "{written:?}");
        version = written.json()["resourceVersion"].clone();
    }
    let strong = other.get("/clusters/demo?consistency=strong").await?;
    assert_eq!(strong.json()["labels"], json!({"round": "50"}), "{strong:?}");
    assert_eq!(strong.header("age"), "", "{strong:?}");
    assert!(known.iter().all(|count| *count > 0), "the watch brings it before Kubernetes is asked: {known:?} of 50");
    let deleted = one.delete("/clusters/demo").await?;
    assert!(deleted.status.is_success(), "{deleted:?}");
    if deleted.status == 202 {
        let version = deleted.json()["resourceVersion"].clone();
        let newer = format!("/clusters/demo?minResourceVersion={}", version.as_str().ok_or("no version")?);
        let read = other.get(&newer).await?;
        assert!(read.status == 404 || read.json()["status"]["state"] == "DELETING", "{read:?}");
    }
    Ok(())
}
