//! Use cases against each other: what one finds out is true of what another did meanwhile.

mod rights;

use super::*;
use crate::manager::faulty::{Call, Fault, Faults, Gate};
use crate::manager::{Scope, memory};
use crate::ray::body::Format;
use crate::ray::lens::DELETION_PROTECTION;

/// A service over the embedded backend, with faults to be added, and that backend.
async fn service(access: Access) -> (Arc<Service>, Faults, Backend) {
    let options = memory::Options {
        namespaces: vec!["default".into()],
        pod_start_delay: Duration::from_millis(10),
        pod_stop_delay: Duration::from_millis(10),
        ..memory::Options::default()
    };
    let inner = memory::backend(options);
    let (backend, faults) = Faults::over(&inner);
    let (cache, feeds) = Cache::new(&backend, &[Scope::All]);
    for feed in feeds {
        tokio::spawn(feed);
    }
    let defaults = Defaults { ray_version: "2.52.0".into(), head_cpu: "1".into(), head_memory: "1Gi".into() };
    let settings = Settings {
        defaults,
        max_staleness: Duration::from_mins(1),
        heartbeat: Duration::from_secs(20),
        read_wait: Duration::from_secs(2),
        patience: Duration::from_secs(20),
        settle: Duration::from_secs(1),
    };
    let service = Arc::new(Service::new(backend, cache, Arc::new(access), settings));
    while !service.cache.synced() {
        tokio::task::yield_now().await;
    }
    (service, faults, inner)
}

/// "Not found" is old news of a cluster that came to be while the answer was on its way.
#[tokio::test]
async fn a_late_not_found_hides_no_newer_cluster() {
    let access = Access::open(Vec::new(), "default".into());
    let caller = access.anonymous();
    let (service, faults, _) = service(access).await;
    let gate = Gate::shut();
    faults.add(Call::Get, 1, Fault::AnswerHeld(gate.clone()));

    let (patcher, asking) = (service.clone(), caller.clone());
    let patch = tokio::spawn(async move {
        let body = br#"{"labels": {"a": "b"}}"#;
        patcher.patch(&asking, "demo", (Format::Json, body), &Terms::default()).await.map(|_| ())
    });
    gate.arrived().await;
    service.create(&caller, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();
    gate.pass();
    assert_eq!(patch.await.unwrap().unwrap_err().code, ErrorCode::NotFound);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(service.get(&caller, "demo", Freshness::Known).await.is_ok(), "what was created is there");
}

/// A cluster that comes under protection after it was read for the delete is still there.
#[tokio::test]
async fn a_protection_that_comes_in_between_holds() {
    let access = Access::open(Vec::new(), "default".into());
    let caller = access.anonymous();
    let (service, faults, inner) = service(access).await;
    service.create(&caller, (Format::Json, br#"{"name": "demo"}"#), &Terms::default()).await.map(|_| ()).unwrap();

    let gate = Gate::shut();
    faults.add(Call::Get, 1, Fault::AnswerHeld(gate.clone()));
    let (deleter, asking) = (service.clone(), caller.clone());
    let delete =
        tokio::spawn(async move { deleter.delete(&asking, "demo", false, &Terms::default()).await.map(|_| ()) });
    gate.arrived().await;
    let held = inner.clusters.get("default", "demo").await.unwrap();
    let protection = serde_json::json!({"metadata": {"annotations": {DELETION_PROTECTION: "v1"}}});
    inner.clusters.patch("default", "demo", held.resource_version(), &protection).await.unwrap();
    gate.pass();
    assert_eq!(delete.await.unwrap().unwrap_err().code, ErrorCode::DeletionProtected);
    assert!(inner.clusters.get("default", "demo").await.unwrap().metadata.deletion_timestamp.is_none());
}
