//! What Kubernetes refuses, told apart by cause.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::FutureExt as _;
use http::{Method, StatusCode};

use super::between::{between, refusal};
use super::*;
use crate::support::{Answer, Api as Client};

/// Sends a merge patch.
pub(super) async fn patch(raygate: &Client, path: &str, body: &Value) -> Outcome<Answer> {
    raygate.send(Method::PATCH, path, &[], body.to_string()).await
}

/// Creates by `PUT`.
pub(super) async fn put(raygate: &Client, path: &str, body: &Value) -> Outcome<Answer> {
    raygate.send(Method::PUT, path, &[("if-none-match", "*")], body.to_string()).await
}

/// Some change that nothing of ours refuses.
fn change() -> Value {
    json!({"labels": {"team": "b"}})
}

impl Bed {
    /// Merges a patch into the object of this kind and name.
    pub(super) async fn set(&self, kind: &str, name: &str, patch: &Value) -> Outcome {
        self.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()], "").await?;
        Ok(())
    }

    /// Holds an object back from going, or no longer.
    async fn hold(&self, kind: &str, name: &str, held: bool) -> Outcome {
        let finalizers = if held { json!(["example.com/held"]) } else { Value::Null };
        self.set(kind, name, &json!({"metadata": {"finalizers": finalizers}})).await
    }
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_full_quota_refuses_what_is_new() -> Outcome {
    let bed = Bed::new("quota").await?;
    let raygate = bed.raygate(&[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "first"})).await?.status, 201);
    bed.kubectl(&["create", "quota", "few", "--hard=count/rayclusters.ray.io=1"], "").await?;
    eventually("the quota is counted", async || {
        let used = bed.kubectl(&["get", "quota", "few", "-o", "jsonpath={.status.used}"], "").await?;
        Ok(used.contains("\"1\"").then_some(()))
    })
    .await?;

    let second = json!({"name": "second"});
    for answer in [raygate.post("/clusters", &second).await?, put(&raygate, "/clusters/second", &second).await?] {
        let problem = answer.problem(403, "QUOTA_EXCEEDED");
        let detail = problem["detail"].as_str().unwrap_or_default();
        for part in ["quota: few", "requested: ", "used: ", "limited: "] {
            assert!(detail.contains(part), "{part:?} in {detail}");
        }
        assert_eq!(detail.matches("count/rayclusters.ray.io=1").count(), 3, "{detail}");
    }
    assert_eq!(patch(&raygate, "/clusters/first", &change()).await?.status, 200, "what is there may be changed");
    assert_eq!(raygate.delete("/clusters/first").await?.status, 202);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_namespace_that_goes_takes_nothing_new() -> Outcome {
    let bed = Bed::new("terminating").await?;
    let raygate = bed.raygate(&[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "held"})).await?.status, 201);
    bed.hold("raycluster", "held", true).await?;
    bed.kubectl(&["delete", "namespace", &bed.namespace, "--wait=false"], "").await?;

    let new = json!({"name": "new"});
    let refused = eventually("the namespace takes nothing", async || {
        let answer = raygate.post("/clusters", &new).await?;
        Ok((![201, 409].contains(&answer.status.as_u16()) || answer.json()["code"] == "NAMESPACE_TERMINATING")
            .then_some(answer))
    })
    .await?;
    refused.problem(409, "NAMESPACE_TERMINATING");
    put(&raygate, "/clusters/other", &json!({"name": "other"})).await?.problem(409, "NAMESPACE_TERMINATING");

    // Kubernetes takes changes there; but what is there is deleted first of all.
    let answer = eventually("what is there is being deleted", async || {
        let answer = patch(&raygate, "/clusters/held", &change()).await?;
        Ok((answer.status != 200).then_some(answer))
    })
    .await?;
    answer.problem(409, "DELETING");
    assert_eq!(answer.header("retry-after"), "2");
    assert_eq!(raygate.delete("/clusters/held").await?.status, 202);
    bed.hold("raycluster", "held", false).await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_name_that_goes_is_not_free_yet() -> Outcome {
    let bed = Bed::new("deleting").await?;
    let raygate = bed.raygate(&[]).await?;
    let demo = json!({"name": "demo"});
    assert_eq!(raygate.post("/clusters", &demo).await?.status, 201);
    bed.hold("raycluster", "demo", true).await?;
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
    let guard = [("if-match", "*")];
    for answer in [
        raygate.post("/clusters", &demo).await?,
        patch(&raygate, "/clusters/demo", &change()).await?,
        raygate.send(Method::PUT, "/clusters/demo", &guard, demo.to_string()).await?,
    ] {
        answer.problem(409, "DELETING");
        assert_eq!(answer.header("retry-after"), "2", "{answer:?}");
    }
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202, "it is what was asked for");
    bed.hold("raycluster", "demo", false).await?;
    eventually("the name is free", async || {
        let answer = raygate.post("/clusters", &demo).await?;
        Ok((answer.status == 201).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_namespace_that_there_is_not_is_told() -> Outcome {
    let bed = Bed::new("nowhere").await?;
    let raygate = bed.raygate(&[]).await?;
    let nowhere = format!("{}-none", bed.namespace);
    let (path, demo) = (format!("/clusters/demo.{nowhere}"), json!({"name": "demo", "namespace": nowhere}));
    for answer in [raygate.post("/clusters", &demo).await?, put(&raygate, &path, &demo).await?] {
        let problem = answer.problem(404, "NAMESPACE_NOT_FOUND");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(&nowhere)), "{problem}");
    }
    // Of what isn't there Kubernetes says no more than that.
    patch(&raygate, &path, &change()).await?.problem(404, "NOT_FOUND");
    raygate.delete(&path).await?.problem(404, "NOT_FOUND");
    Ok(())
}

/// All reasons that a policy may give, each with a status of its own, and a name's end for each.
const REASONS: [(&str, &str); 3] =
    [("forbidden", "Forbidden"), ("invalid", "Invalid"), ("large", "RequestEntityTooLarge")];

/// A policy for one namespace that refuses whatever has such a name, for that reason.
fn policy(namespace: &str) -> String {
    let validations = REASONS.map(|(end, reason)| {
        let expression = format!("!(object == null ? oldObject : object).metadata.name.endsWith('-{end}')");
        json!({"expression": expression, "message": format!("{end} isn't wanted here"), "reason": reason})
    });
    let meta = json!({"name": namespace});
    let rule = json!({
        "apiGroups": ["ray.io"], "apiVersions": ["v1"], "resources": ["rayclusters"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
    });
    let version = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": meta,
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
    });
    let binding = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
        "spec": {
            "policyName": namespace, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string()
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_policy_refuses_in_its_own_words() -> Outcome {
    let bed = Bed::new("policy").await?;
    let raygate = bed.raygate(&[]).await?;
    for (end, _) in REASONS {
        assert_eq!(raygate.post("/clusters", &json!({"name": format!("old-{end}")})).await?.status, 201);
    }
    let policy = policy(&bed.namespace);
    bed.kubectl(&["create", "-f", "-"], &policy).await?;
    let mut tries = 0;
    eventually("the policy is in force", async || {
        tries += 1;
        let change = json!({"labels": {"try": tries.to_string()}});
        Ok((patch(&raygate, "/clusters/old-invalid", &change).await?.status != 200).then_some(()))
    })
    .await?;

    for (end, reason) in REASONS {
        let (old, new) = (format!("/clusters/old-{end}"), format!("/clusters/new-{end}"));
        let body = json!({"name": format!("new-{end}")});
        for (what, answer) in [
            ("POST", raygate.post("/clusters", &body).await?),
            ("PUT", put(&raygate, &new, &body).await?),
            ("PATCH", patch(&raygate, &old, &change()).await?),
            ("DELETE", raygate.delete(&old).await?),
        ] {
            let problem = answer.problem(422, "ADMISSION_DENIED");
            let said = format!("denied request: {end} isn't wanted here");
            assert!(
                problem["detail"].as_str().is_some_and(|detail| detail.contains(&said)),
                "{what}, {reason}: {problem}"
            );
        }
    }
    bed.kubectl(&["delete", "-f", "-"], &policy).await?;
    Ok(())
}

/// raygate's account, by its own token, with a role of these verbs on RayClusters.
struct Account<'a>(&'a Bed);

impl Account<'_> {
    async fn may(&self, verbs: &[&str]) -> Outcome {
        let namespace = &self.0.namespace;
        let version = "rbac.authorization.k8s.io/v1";
        let meta = json!({"name": "raygate", "namespace": namespace});
        let rules = json!([
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": verbs},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        ]);
        let items = json!([
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules},
            {
                "apiVersion": version, "kind": "RoleBinding", "metadata": meta,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "raygate"},
                "subjects": [{"kind": "ServiceAccount", "name": "raygate", "namespace": namespace}],
            },
        ]);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.0.kubectl(&["apply", "-f", "-"], &list.to_string()).await?;
        Ok(())
    }

    async fn kubeconfig(&self) -> Outcome<Own> {
        let token = self.0.kubectl(&["create", "token", "raygate"], "").await?;
        Own::new(|config| config["users"][0]["user"] = json!({"token": token.trim()}))
    }
}

/// Checks that this says which right raygate's account lacks.
fn lacks(answer: &Answer, verb: &str, namespace: &str) {
    let problem = answer.problem(502, "RAYGATE_FORBIDDEN");
    let wanted = format!("lacks a right on Kubernetes: {verb} rayclusters.ray.io in the namespace {namespace} (");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(&wanted)), "{verb}: {problem}");
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_right_that_our_account_lacks_is_named() -> Outcome {
    let bed = Bed::new("rights").await?;
    let account = Account(&bed);
    account.may(&["list", "watch"]).await?;
    let kubeconfig = account.kubeconfig().await?;
    let raygate = bed.raygate_as(&kubeconfig.0, &["--namespace", &bed.namespace]).await?;
    let cluster = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo}\n";
    bed.kubectl(&["create", "-f", "-"], cluster).await?;

    let new = json!({"name": "new"});
    lacks(&raygate.post("/clusters", &new).await?, "create", &bed.namespace);
    for answer in [
        put(&raygate, "/clusters/new", &new).await?,
        patch(&raygate, "/clusters/demo", &change()).await?,
        raygate.delete("/clusters/demo").await?,
    ] {
        lacks(&answer, "get", &bed.namespace);
    }
    account.may(&["list", "watch", "get"]).await?;
    let answer = eventually("the role is in force", async || {
        let answer = patch(&raygate, "/clusters/demo", &change()).await?;
        let still = answer.json()["detail"].as_str().is_some_and(|detail| detail.contains(": get "));
        Ok((!still).then_some(answer))
    })
    .await?;
    lacks(&answer, "patch", &bed.namespace);
    lacks(&raygate.delete("/clusters/demo").await?, "delete", &bed.namespace);
    lacks(&put(&raygate, "/clusters/new", &new).await?, "create", &bed.namespace);

    account.may(&["list", "watch", "get", "create", "patch", "delete"]).await?;
    eventually("nothing is lacking", async || {
        let answer = patch(&raygate, "/clusters/demo", &change()).await?;
        Ok((answer.status == 200).then_some(()))
    })
    .await?;
    assert_eq!(raygate.post("/clusters", &new).await?.status, 201);
    assert_eq!(raygate.delete("/clusters/demo").await?.status, 202);
    Ok(())
}

/// Something before the apiserver's storage that has words of its own, which nothing tells from a lacking right.
#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_refusal_in_unknown_words_is_not_our_accounts() -> Outcome {
    const WORDS: &str = "rayclusters.ray.io \"demo\" is forbidden: there are clusters enough";
    let bed = Bed::new("words").await?;
    let reviewed = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&reviewed);
    let kubeconfig = between(&bed, move |method, path| {
        let refused = path.contains("/rayclusters") && method != Method::GET;
        let unreviewed = path.ends_with("/selfsubjectaccessreviews") && !answers.load(Ordering::Relaxed);
        let instead = if refused {
            Some(refusal(StatusCode::FORBIDDEN, "Forbidden", WORDS))
        } else if unreviewed {
            Some(refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "not now"))
        } else {
            None
        };
        async { instead }.boxed()
    })
    .await?;
    let raygate = bed.raygate_as(&kubeconfig.0, &[]).await?;
    let cluster = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo}\n";
    bed.kubectl(&["create", "-f", "-"], cluster).await?;

    let new = json!({"name": "new"});
    let writes = async || {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>([
            raygate.post("/clusters", &new).await?,
            patch(&raygate, "/clusters/demo", &change()).await?,
            raygate.delete("/clusters/demo").await?,
        ])
    };
    for answer in writes().await? {
        assert_eq!(answer.problem(422, "ADMISSION_DENIED")["detail"], WORDS);
    }
    // Where nobody can say whose refusal it is, it is told as it came.
    reviewed.store(false, Ordering::Relaxed);
    for answer in writes().await? {
        let problem = answer.problem(502, "RAYGATE_FORBIDDEN");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(WORDS)), "{problem}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn a_protection_that_comes_before_the_delete_holds() -> Outcome {
    let bed = Bed::new("protection").await?;
    let direct = Arc::new(bed.raygate(&[]).await?);
    let (deletes, other) = (Arc::new(AtomicU32::new(0)), Arc::clone(&direct));
    let seen = Arc::clone(&deletes);
    // The read is done when the delete comes by.
    let kubeconfig = between(&bed, move |method, _| {
        let (seen, other) = (Arc::clone(&seen), Arc::clone(&other));
        async move {
            if method == Method::DELETE && seen.fetch_add(1, Ordering::Relaxed) == 0 {
                let protected = patch(&other, "/clusters/demo", &json!({"deletionProtection": true})).await;
                if !protected.is_ok_and(|answer| answer.status == 200) {
                    return Some(refusal(StatusCode::IM_A_TEAPOT, "Failed", "the test couldn't protect it"));
                }
            }
            None
        }
        .boxed()
    })
    .await?;
    let raygate = bed.raygate_as(&kubeconfig.0, &[]).await?;
    assert_eq!(raygate.post("/clusters", &json!({"name": "demo"})).await?.status, 201);
    raygate.delete("/clusters/demo").await?.problem(409, "DELETION_PROTECTED");
    assert_eq!(deletes.load(Ordering::Relaxed), 1, "it was on its way, and came too late");
    let held = serde_json::to_value(bed.clusters().get("demo").await?)?;
    assert_eq!(held["metadata"].get("deletionTimestamp"), None, "{held}");
    Ok(())
}
