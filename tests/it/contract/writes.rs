//! Patching objects.

use raygate::manager::{ManagerError, Observed};
use raygate::ray::cluster::RayCluster;
use serde_json::{Value, json};

use super::samples::{assert_error, assert_invalid, assert_refused, assert_unknown, generation, group, version};
use super::{Ground, Outcome};

pub(crate) async fn fresh_patch_goes_through_and_keeps_the_rest(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let patch = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"suspend": true}});
    let patched = ground.patch(&created, &patch).await?;

    let mut expected = created.raw["spec"].clone();
    merge(&mut expected, &patch["spec"]);
    assert_eq!(patched.raw["spec"], expected);
    assert_eq!(patched.raw["metadata"]["labels"], json!({"team": "blue"}));
    assert_eq!(patched.uid(), created.uid());
    assert!(version(patched.resource_version())? > version(created.resource_version())?);
    assert_eq!(ground.get("demo").await?.raw, patched.raw);
    Ok(())
}

fn merge(object: &mut Value, patch: &Value) {
    for (name, value) in patch.as_object().into_iter().flatten() {
        if let Some(object) = object.as_object_mut() {
            object.insert(name.clone(), value.clone());
        }
    }
}

pub(crate) async fn null_removes_a_member(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let labels = json!({"metadata": {"labels": {"team": "blue", "tier": "1"}}, "spec": {"suspend": false}});
    let labelled = ground.patch(&created, &labels).await?;
    let patch = json!({
        "metadata": {"labels": {"team": null}},
        "spec": {"suspend": null, "rayVersion": null, "enableInTreeAutoscaling": null},
    });
    let patched = ground.patch(&labelled, &patch).await?;
    assert_eq!(patched.raw["metadata"]["labels"], json!({"tier": "1"}));
    assert_eq!(patched.raw["spec"].get("suspend"), None);
    assert_eq!(patched.raw["spec"].get("rayVersion"), None);
    assert_eq!(patched.raw["spec"].get("enableInTreeAutoscaling"), None);
    Ok(())
}

pub(crate) async fn stale_patch_conflicts(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let winner = ground.patch(&created, &json!({"metadata": {"labels": {"who": "winner"}}})).await?;
    let loser = ground.patch(&created, &json!({"metadata": {"labels": {"who": "loser"}}})).await;
    assert_error(loser, &ManagerError::Conflict);
    assert_eq!(ground.get("demo").await?.raw, winner.raw);

    let second = ground.patch(&winner, &json!({"metadata": {"labels": {"who": "second"}}})).await?;
    assert_eq!(second.raw["metadata"]["labels"]["who"], "second");
    Ok(())
}

pub(crate) async fn patch_without_a_change_keeps_the_version(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    for patch in [json!({}), json!({"spec": {"rayVersion": "2.52.0"}}), json!({"metadata": {"labels": {"no": null}}})] {
        let patched = ground.patch(&created, &patch).await?;
        assert_eq!(patched.raw, created.raw, "{patch}");
    }
    Ok(())
}

pub(crate) async fn generation_counts_changes_of_the_spec(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let labelled = ground.patch(&created, &json!({"metadata": {"labels": {"team": "blue"}}})).await?;
    assert_eq!(generation(&labelled), 1);
    let suspended = ground.patch(&labelled, &json!({"spec": {"suspend": true}})).await?;
    assert_eq!(generation(&suspended), 2);
    let both = json!({"metadata": {"labels": {"team": "red"}}, "spec": {"suspend": false}});
    assert_eq!(generation(&ground.patch(&suspended, &both).await?), 3);
    Ok(())
}

/// A backend may refuse such a patch or ignore it; what it must not do is carry it out.
pub(crate) async fn identity_stays(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let patches = [
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"namespace": ground.elsewhere}}),
        json!({"metadata": {"uid": "3f0cf1ef-8f4a-4a56-a4c7-0c0b6b0f2a10"}}),
        json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
        json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
        json!({"metadata": {"generation": 7}}),
        json!({"kind": "RayJob"}),
    ];
    for patch in patches {
        // Refused or not: only what is stored counts.
        let _ = ground.patch(&created, &patch).await;
        assert_eq!(ground.get("demo").await?.raw, created.raw, "{patch}");
    }
    assert_error(ground.get("other").await, &ManagerError::NotFound);
    Ok(())
}

pub(crate) async fn invalid_patch_is_refused_with_its_cause(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let with = |member: &str, value: Value| {
        let mut group = group("small", 1);
        if let Some(group) = group.as_object_mut() {
            group.insert(member.to_owned(), value);
        }
        json!({"spec": {"workerGroupSpecs": [group]}})
    };
    let template = json!({"spec": {"containers": [{"name": "ray"}]}});
    let cases = [
        (json!({"spec": {"headGroupSpec": null}}), "spec.headGroupSpec"),
        (json!({"spec": {"headGroupSpec": {"template": null}}}), "spec.headGroupSpec.template"),
        (json!({"spec": {"suspend": "yes"}}), "spec.suspend"),
        (json!({"spec": {"rayVersion": 2}}), "spec.rayVersion"),
        (json!({"spec": {"managedBy": "ray.io/kuberay-operator"}}), "spec.managedBy"),
        (json!({"spec": {"workerGroupSpecs": {}}}), "spec.workerGroupSpecs"),
        (json!({"spec": {"workerGroupSpecs": [{"template": template}]}}), "spec.workerGroupSpecs[0].groupName"),
        (json!({"spec": {"workerGroupSpecs": [{"groupName": "x"}]}}), "spec.workerGroupSpecs[0].template"),
        (with("replicas", json!("two")), "spec.workerGroupSpecs[0].replicas"),
        (with("minReplicas", json!(1.5)), "spec.workerGroupSpecs[0].minReplicas"),
        (with("template", json!({"spec": {"containers": 1}})), "spec.workerGroupSpecs[0].template.spec.containers"),
        (json!({"metadata": {"labels": {"two words": "x"}}}), "metadata.labels"),
    ];
    for (patch, field) in cases {
        assert_invalid(ground.patch(&created, &patch).await, field);
        assert_unchanged(ground, &created, &patch).await?;
    }
    Ok(())
}

pub(crate) async fn unknown_fields_of_a_patch_are_refused(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let head = |template: Value| json!({"spec": {"headGroupSpec": {"template": template}}});
    let cases = [
        (json!({"foo": 1}), vec!["foo"]),
        (json!({"spec": {"foo": {"bar": 1}}}), vec!["spec.foo"]),
        (json!({"metadata": {"labelz": {"a": "b"}}}), vec!["metadata.labelz"]),
        (json!({"status": {"foo": 1}}), vec!["status.foo"]),
        (head(json!({"spec": {"dnsPolicyy": "x"}})), vec!["spec.headGroupSpec.template.spec.dnsPolicyy"]),
        (
            head(json!({"spec": {"containers": [{"name": "a", "env": [{"name": "A", "valu": "x"}]}]}})),
            vec!["spec.headGroupSpec.template.spec.containers[0].env[0].valu"],
        ),
        (
            json!({"spec": {"foo": 1, "bar": 2, "suspend": "x"}, "metadata": {"labelz": 1}}),
            vec!["metadata.labelz", "spec.bar", "spec.foo"],
        ),
    ];
    for (patch, fields) in cases {
        assert_unknown(ground.patch(&created, &patch).await, &fields);
        assert_unchanged(ground, &created, &patch).await?;
    }
    // A null takes away, and what isn't there can be taken away.
    let patched = ground.patch(&created, &json!({"spec": {"foo": null}})).await?;
    assert_eq!(patched.raw, created.raw);

    let newer = ground.patch(&created, &json!({"metadata": {"labels": {"a": "b"}}})).await?;
    assert_unknown(ground.patch(&created, &json!({"spec": {"foo": 1}})).await, &["spec.foo"]);
    assert_eq!(ground.get("demo").await?.raw, newer.raw);
    Ok(())
}

pub(crate) async fn undecodable_metadata_is_refused(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    for metadata in [json!({"labels": {"a": 1}}), json!({"finalizers": "x"}), json!({"annotations": [1]})] {
        let answer = ground.patch(&created, &json!({"metadata": metadata})).await;
        let refused = matches!(&answer, Err(ManagerError::Invalid { causes, .. }) if causes.is_empty());
        assert!(refused, "{metadata}: {answer:?}");
        assert_unchanged(ground, &created, &metadata).await?;
    }
    Ok(())
}

pub(crate) async fn manager_of_a_cluster_stays(ground: &Ground) -> Outcome {
    let created = ground.create_quiet("demo").await?;
    let managed = |by: Value| json!({"spec": {"managedBy": by}});
    let answer = ground.patch(&created, &managed(json!("ray.io/kuberay-operator"))).await;
    assert_refused(
        answer,
        "spec.managedBy",
        "Invalid value: \"ray.io/kuberay-operator\": the managedBy field is immutable",
    );
    // Rules aren't looked at while something else is wrong.
    let answer = ground.patch(&created, &json!({"spec": {"managedBy": "me", "suspend": "x"}})).await;
    match answer {
        Err(ManagerError::Invalid { message, causes }) => {
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, ["spec.suspend"]);
            assert!(message.contains("some validation rules were not checked"), "{message}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    let freed = ground.patch(&created, &managed(Value::Null)).await?;
    assert_eq!(freed.raw["spec"].get("managedBy"), None, "what is taken away isn't changed");
    Ok(())
}

async fn assert_unchanged(ground: &Ground, object: &Observed<RayCluster>, patch: &Value) -> Outcome {
    assert_eq!(ground.get(object.name()).await?.raw, object.raw, "{patch}");
    Ok(())
}
