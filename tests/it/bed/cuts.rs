//! Every write over a connection that is cut: the client learns what became of it, or that nobody knows.

use http::Method;
use kube::api::DeleteParams;
use raygate::manager::faulty::Gate;

use super::*;
use crate::faults::{Write, writes};
use crate::support::{Cut, Cutting};

/// A raygate behind a proxy that cuts, and the control plane.
struct Trial {
    bed: Bed,
    proxy: Cutting,
    /// The way through the proxy.
    _kubeconfig: Own,
    raygate: Raygate,
}

impl Trial {
    async fn new(subject: &str) -> Outcome<Self> {
        let bed = Bed::new(subject).await?;
        let proxy = Cutting::before(config().await?).await?;
        let kubeconfig = Own::new(|config| {
            config["clusters"][0]["cluster"] = json!({"server": format!("http://{}", proxy.address)});
        })?;
        let path = kubeconfig.0.display().to_string();
        let flags = ["--backend", "kubernetes", "--kubeconfig", &path, "--namespace", &bed.namespace];
        let raygate = Raygate::start(&[&flags[..], &["--default-namespace", &bed.namespace]].concat()).await?;
        raygate.ready().await?;
        Ok(Self { bed, proxy, _kubeconfig: kubeconfig, raygate })
    }

    /// What Kubernetes holds under this name.
    async fn held(&self, name: &str) -> Outcome<Option<Value>> {
        Ok(self.bed.clusters().get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    /// What happens to the next request by which this write reaches the apiserver.
    fn cut(&self, write: &Write, name: &str, cut: Cut) {
        let path = format!("/apis/ray.io/v1/namespaces/{}/rayclusters", self.bed.namespace);
        let (method, end) = match (&write.method, write.before.is_some()) {
            (_, false) => (Method::POST, "/rayclusters".to_owned()),
            (&Method::DELETE, true) if write.is_of_the_cluster() => (Method::DELETE, format!("/{name}")),
            _ => (Method::PATCH, format!("/{name}")),
        };
        self.proxy.cut(method, &path, &end, vec![cut]);
    }

    /// Takes the cluster away.
    async fn clean(&self, name: &str) -> Outcome {
        drop(self.bed.clusters().delete(name, &DeleteParams::background()).await);
        eventually("the cluster is gone", async || Ok(self.held(name).await?.is_none().then_some(()))).await
    }
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn what_was_done_is_told_though_the_connection_was_cut() -> Outcome {
    let trial = Trial::new("lost").await?;
    for write in writes() {
        let name = write.name;
        eventually("it is done", async || {
            write.prepare(&trial.raygate, name).await?;
            trial.cut(&write, name, Cut::AnswerLost);
            let answer = write.send(&trial.raygate, name, "").await?;
            assert!(trial.proxy.is_done(), "{name}: {answer:?}");
            let statuses = trial.proxy.settled().await?;
            let done = matches!(statuses[..], [200..300]);
            if done {
                write.told(&trial.raygate, name, &answer, trial.held(name).await?.as_ref()).await?;
            } else {
                // The operator has written in between: what is lost is that it wasn't done.
                assert_eq!(statuses, [409], "{name}");
                answer.problem(504, "OUTCOME_UNKNOWN");
                assert!(!(write.is_done)(trial.held(name).await?.as_ref()), "{name}");
            }
            trial.clean(name).await?;
            Ok(done.then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// It is done, or nobody knows; nothing else.
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn nothing_wrong_is_told_where_a_connection_is_cut_on_the_way() -> Outcome {
    let trial = Trial::new("cut").await?;
    for write in writes() {
        let name = write.name;
        write.prepare(&trial.raygate, name).await?;
        trial.cut(&write, name, Cut::AtOnce);
        let answer = write.send(&trial.raygate, name, "").await?;
        assert!(trial.proxy.is_done(), "{name}: {answer:?}");
        if answer.status == 504 {
            answer.problem(504, "OUTCOME_UNKNOWN");
        } else {
            write.told(&trial.raygate, name, &answer, trial.held(name).await?.as_ref()).await?;
        }
        trial.proxy.settled().await?;
        trial.clean(name).await?;
    }
    Ok(())
}

/// Nobody can know; and what comes late isn't lost on readers.
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn what_is_done_only_later_is_told_as_unknown() -> Outcome {
    let trial = Trial::new("late").await?;
    for write in writes() {
        let name = write.name;
        write.prepare(&trial.raygate, name).await?;
        let gate = Gate::shut();
        trial.cut(&write, name, Cut::Late(gate.clone()));
        write.send(&trial.raygate, name, "").await?.problem(504, "OUTCOME_UNKNOWN");
        assert!(!(write.is_done)(trial.held(name).await?.as_ref()), "{name}");
        gate.pass();
        let statuses = trial.proxy.settled().await?;
        // Of a change somebody else, who is the operator, may have written in between.
        if statuses == [409] {
            assert!(!(write.is_done)(trial.held(name).await?.as_ref()), "{name}");
        } else {
            assert!(matches!(statuses[..], [200..300]), "{name}: {statuses:?}");
            assert!((write.is_done)(trial.held(name).await?.as_ref()), "{name}");
        }
        trial.clean(name).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_create_that_its_process_did_not_survive_is_found_by_its_key() -> Outcome {
    let trial = Trial::new("killed").await?;
    let other = trial.bed.raygate(&[]).await?;
    let body = json!({"name": "demo", "head": {"cpu": "10m", "memory": "1Gi"}}).to_string();
    let key = [("idempotency-key", "once")];
    let gate = Gate::shut();
    let path = format!("/apis/ray.io/v1/namespaces/{}", trial.bed.namespace);
    trial.proxy.cut(Method::POST, &path, "/rayclusters", vec![Cut::Held(gate.clone())]);
    let Trial { bed, raygate, .. } = trial;
    {
        let mut asked = std::pin::pin!(raygate.send(Method::POST, "/clusters", &key, body.clone()));
        tokio::select! {
            answer = &mut asked => return Err(format!("{answer:?}").into()),
            () = gate.arrived() => {}
        }
    }
    raygate.kill().await?;
    let answer = other.send(Method::POST, "/clusters", &key, body.clone()).await?;
    assert_eq!((answer.status.as_u16(), answer.header("idempotency-replayed")), (200, "true"), "{answer:?}");
    let all = bed.clusters().list(&ListParams::default()).await?;
    let uids: Vec<_> = all.items.iter().filter_map(|one| one.metadata.uid.clone()).collect();
    assert_eq!(json!(uids), json!([answer.json()["uid"]]));
    Ok(())
}
