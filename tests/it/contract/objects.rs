//! Creating, reading and listing objects.

use raygate::manager::{ManagerError, Preconditions, Scope};
use raygate::ray::cluster::RayClusterStatus;
use serde_json::{Value, json};

use super::samples::{assert_error, assert_invalid, assert_refused, assert_unknown, generation, quiet, quiet_with};
use super::{Ground, NOWHERE, Outcome};

pub(crate) async fn created_object_reads_back(ground: &Ground) -> Outcome {
    let mut sent = quiet(&ground.namespace, "demo")?;
    sent.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
    sent.metadata.annotations = Some([("example.com/note".to_owned(), "Two words".to_owned())].into());
    let created = ground.backend.clusters.create(&sent).await?;

    assert_eq!((created.namespace(), created.name()), (ground.namespace.as_str(), "demo"));
    assert!(!created.uid().is_empty() && !created.resource_version().is_empty());
    assert_eq!(generation(&created), 1);
    assert!(created.metadata.creation_timestamp.is_some() && created.metadata.deletion_timestamp.is_none());
    assert_eq!(created.metadata.labels, sent.metadata.labels);
    assert_eq!(created.metadata.annotations, sent.metadata.annotations);
    let mut expected = serde_json::to_value(&sent.spec)?;
    expected["workerGroupSpecs"][0]["minReplicas"] = json!(0);
    expected["workerGroupSpecs"][0]["maxReplicas"] = json!(i32::MAX);
    expected["workerGroupSpecs"][0]["numOfHosts"] = json!(1);
    assert_eq!(created.raw["spec"], expected);

    let read = ground.get("demo").await?;
    assert_eq!(read.raw, created.raw);
    let listed = ground.backend.clusters.list(&Scope::Namespace(ground.namespace.clone()), None).await?;
    assert_eq!(listed.iter().map(|object| &object.raw["spec"]).collect::<Vec<_>>(), [&created.raw["spec"]]);
    let everywhere = ground.backend.clusters.list(&Scope::All, None).await?;
    assert!(everywhere.iter().any(|object| object.uid() == created.uid()));
    Ok(())
}

pub(crate) async fn taken_name_is_refused(ground: &Ground) -> Outcome {
    let first = ground.create_quiet("demo").await?;
    let again = ground.backend.clusters.create(&quiet(&ground.namespace, "demo")?).await;
    assert_error(again, &ManagerError::AlreadyExists);
    assert_eq!(ground.get("demo").await?.raw, first.raw);

    let namesake = ground.backend.clusters.create(&quiet(&ground.elsewhere, "demo")?).await?;
    assert_ne!(namesake.uid(), first.uid());
    Ok(())
}

pub(crate) async fn absent_object_is_not_found(ground: &Ground) -> Outcome {
    let clusters = &ground.backend.clusters;
    for namespace in [&ground.namespace, NOWHERE] {
        assert_error(clusters.get(namespace, "demo").await, &ManagerError::NotFound);
        let patched = clusters.patch(namespace, "demo", "1", &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_error(patched, &ManagerError::NotFound);
        let deleted = clusters.delete(namespace, "demo", &Preconditions::default()).await;
        assert_error(deleted, &ManagerError::NotFound);
        assert!(clusters.list(&Scope::Namespace(namespace.to_owned()), None).await?.is_empty());
    }
    Ok(())
}

pub(crate) async fn absent_namespace_takes_no_object(ground: &Ground) -> Outcome {
    let created = ground.backend.clusters.create(&quiet(NOWHERE, "demo")?).await;
    assert_error(created, &ManagerError::NamespaceNotFound(NOWHERE.to_owned()));
    Ok(())
}

pub(crate) async fn crd_defaults_appear(ground: &Ground) -> Outcome {
    let defaulted = |raw: &Value, name: &str| {
        let groups = raw["spec"]["workerGroupSpecs"].as_array().cloned().unwrap_or_default();
        let group = groups.into_iter().find(|group| group["groupName"] == name).unwrap_or_default();
        ["replicas", "minReplicas", "maxReplicas", "numOfHosts"].map(|member| group[member].as_i64())
    };
    let created = ground.create_quiet("demo").await?;
    assert_eq!(defaulted(&created.raw, "small"), [Some(1), Some(0), Some(i64::from(i32::MAX)), Some(1)]);

    let template = json!({"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}});
    let mut groups = created.raw["spec"]["workerGroupSpecs"].clone();
    if let Some(groups) = groups.as_array_mut() {
        groups.push(json!({"groupName": "later", "maxReplicas": 5, "template": template}));
    }
    let patched = ground.patch(&created, &json!({"spec": {"workerGroupSpecs": groups}})).await?;
    assert_eq!(defaulted(&patched.raw, "small"), [Some(1), Some(0), Some(i64::from(i32::MAX)), Some(1)]);
    assert_eq!(defaulted(&patched.raw, "later"), [Some(0), Some(0), Some(5), Some(1)]);
    Ok(())
}

pub(crate) async fn crd_defaults_appear_deep_inside(ground: &Ground) -> Outcome {
    let members = json!({
        "ports": [{"containerPort": 6379, "name": "gcs"}, {"containerPort": 6379, "protocol": "UDP"}],
        "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"key": "k"}}}, {"name": "FREE"}],
        "livenessProbe": {"grpc": {"port": 1}},
    });
    let created = ground.backend.clusters.create(&quiet_with(&ground.namespace, "demo", &members)?).await?;
    let container = &created.raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"][0], json!({"containerPort": 6379, "name": "gcs", "protocol": "TCP"}));
    assert_eq!(container["ports"][1], json!({"containerPort": 6379, "protocol": "UDP"}));
    assert_eq!(container["env"][0]["valueFrom"]["secretKeyRef"], json!({"key": "k", "name": ""}));
    assert_eq!(
        container["env"][1],
        json!({"name": "FREE"}),
        "a default is filled in only inside objects that are there"
    );
    assert_eq!(container["livenessProbe"]["grpc"], json!({"port": 1, "service": ""}));
    Ok(())
}

pub(crate) async fn nulls_count_as_left_out(ground: &Ground) -> Outcome {
    let members = json!({
        "command": null,
        "ports": [{"containerPort": 6379, "protocol": null}],
        "resources": {"limits": {"cpu": null, "memory": "1Gi"}},
    });
    let mut sent = quiet_with(&ground.namespace, "demo", &members)?;
    let spec = sent.spec.as_mut().ok_or("no spec")?;
    spec.extra.insert("autoscalerOptions".to_owned(), Value::Null);
    let created = ground.backend.clusters.create(&sent).await?;
    assert_eq!(created.raw["spec"].get("autoscalerOptions"), None);
    let container = &created.raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container.get("command"), None);
    assert_eq!(container["ports"], json!([{"containerPort": 6379, "protocol": "TCP"}]));
    assert_eq!(container["resources"], json!({"limits": {"memory": "1Gi"}}));

    let field = "spec.headGroupSpec.template.spec.containers[0]";
    let clusters = &ground.backend.clusters;
    let nameless = quiet_with(&ground.namespace, "nameless", &json!({"name": null}))?;
    assert_refused(clusters.create(&nameless).await, &format!("{field}.name"), "Required value");
    let entry = quiet_with(&ground.namespace, "entry", &json!({"command": ["a", null]}))?;
    let words = "in body must be of type string: \"null\"";
    assert_refused(clusters.create(&entry).await, &format!("{field}.command[1]"), words);
    let unknown = quiet_with(&ground.namespace, "unknown", &json!({"foo": null}))?;
    assert_unknown(clusters.create(&unknown).await, &[&format!("{field}.foo")]);
    Ok(())
}

pub(crate) async fn unknown_fields_are_refused(ground: &Ground) -> Outcome {
    let clusters = &ground.backend.clusters;
    let mut shallow = quiet(&ground.namespace, "demo")?;
    shallow.spec.as_mut().ok_or("no spec")?.extra.insert("foo".to_owned(), json!({"bar": 1}));
    assert_unknown(clusters.create(&shallow).await, &["spec.foo"]);

    let field = "spec.headGroupSpec.template.spec.containers[0]";
    let members = json!({"ports": [{"containerPort": 1, "prot": "x"}], "imge": "x", "command": {"a": 1}});
    let mut deep = quiet_with(&ground.namespace, "demo", &members)?;
    let fields = [format!("{field}.command.a"), format!("{field}.imge"), format!("{field}.ports[0].prot")];
    assert_unknown(clusters.create(&deep).await, &fields.each_ref().map(String::as_str));

    // They are all that is told, whatever else is wrong.
    let spec = deep.spec.as_mut().ok_or("no spec")?;
    spec.extra.insert("autoscalerOptions".to_owned(), json!({"upscalingMode": 5}));
    assert_unknown(clusters.create(&deep).await, &fields.each_ref().map(String::as_str));
    assert!(clusters.list(&Scope::Namespace(ground.namespace.clone()), None).await?.is_empty());
    Ok(())
}

pub(crate) async fn invalid_values_are_refused_deep_inside(ground: &Ground) -> Outcome {
    let cases = [
        (json!({"image": 5}), "image", "in body must be of type string: \"integer\""),
        (json!({"stdin": "yes"}), "stdin", "in body must be of type boolean: \"string\""),
        (json!({"env": "A=1"}), "env", "in body must be of type array: \"string\""),
        (json!({"env": [{"value": "1"}]}), "env[0].name", "Required value"),
        (json!({"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}), "env[2]", "Duplicate value: {\"name\":\"A\"}"),
        (
            json!({"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}),
            "ports[1]",
            "Duplicate value: {\"containerPort\":1,\"protocol\":\"TCP\"}",
        ),
        (json!({"ports": [{"containerPort": 1.5}]}), "ports[0].containerPort", "must be of type integer: \"number\""),
        (
            json!({"ports": [{"containerPort": u64::MAX}]}),
            "ports[0].containerPort",
            "must be of type integer: \"number\"",
        ),
        (json!({"resources": {"limits": {"cpu": "much"}}}), "resources.limits.cpu", "in body should match '^("),
        (json!({"resources": {"limits": {"cpu": ""}}}), "resources.limits.cpu", "Invalid value: \"\": "),
        (json!({"resources": {"limits": {"cpu": 0.5}}}), "resources.limits.cpu", "type integer,string: \"number\""),
        (
            json!({"resources": {"claims": [{"name": "a"}, {"name": "a"}]}}),
            "resources.claims[1]",
            "Duplicate value: {\"name\":\"a\"}",
        ),
    ];
    let clusters = &ground.backend.clusters;
    for (members, place, words) in cases {
        let field = format!("spec.headGroupSpec.template.spec.containers[0].{place}");
        assert_refused(clusters.create(&quiet_with(&ground.namespace, "demo", &members)?).await, &field, words);
    }
    let mut fast = quiet(&ground.namespace, "demo")?;
    let spec = fast.spec.as_mut().ok_or("no spec")?;
    spec.extra.insert("autoscalerOptions".to_owned(), json!({"upscalingMode": "Fast"}));
    let words = "Unsupported value: \"Fast\": supported values: \"Default\", \"Aggressive\", \"Conservative\"";
    assert_refused(clusters.create(&fast).await, "spec.autoscalerOptions.upscalingMode", words);
    let mut foreign = quiet(&ground.namespace, "demo")?;
    foreign.spec.as_mut().ok_or("no spec")?.extra.insert("managedBy".to_owned(), json!("me"));
    let words = "Invalid value: \"me\": the managedBy field value must be either 'ray.io/kuberay-operator' or";
    assert_refused(clusters.create(&foreign).await, "spec.managedBy", words);
    Ok(())
}

pub(crate) async fn unknown_to_us_is_kept(ground: &Ground) -> Outcome {
    let template = json!({
        "metadata": {"annotations": {"example.com/kept": ""}},
        "spec": {
            "containers": [{
                "name": "ray-head",
                "image": "rayproject/ray:2.52.0",
                "args": [],
                "resources": {"limits": {"cpu": 4, "memory": "1024Mi"}},
                "env": [{"name": "EMPTY", "value": ""}],
            }],
            "nodeSelector": {},
            "tolerations": [{"operator": "Exists"}],
        },
    });
    let mut sent = quiet(&ground.namespace, "demo")?;
    let spec = sent.spec.as_mut().ok_or("no spec")?;
    spec.extra.insert("autoscalerOptions".to_owned(), json!({"idleTimeoutSeconds": 60, "env": []}));
    let head = spec.head_group_spec.as_mut().ok_or("no head")?;
    head.template = template.clone();
    head.extra.insert("serviceType".to_owned(), json!("ClusterIP"));

    let created = ground.backend.clusters.create(&sent).await?;
    let spec = &created.raw["spec"];
    assert_eq!(spec["headGroupSpec"]["template"], template);
    assert_eq!(spec["headGroupSpec"]["serviceType"], "ClusterIP");
    assert_eq!(spec["autoscalerOptions"], json!({"idleTimeoutSeconds": 60, "env": []}));
    Ok(())
}

pub(crate) async fn status_is_the_operators(ground: &Ground) -> Outcome {
    let mut sent = quiet(&ground.namespace, "demo")?;
    let extra = [("state".to_owned(), json!("ready"))].into_iter().collect();
    sent.status = Some(RayClusterStatus { extra, ..RayClusterStatus::default() });
    let created = ground.backend.clusters.create(&sent).await?;
    assert_ne!(created.raw["status"]["state"], "ready");

    let patched = ground.patch(&created, &json!({"status": {"state": "ready"}})).await?;
    assert_eq!(patched.raw, created.raw);
    Ok(())
}

pub(crate) async fn invalid_object_is_refused_with_its_cause(ground: &Ground) -> Outcome {
    let clusters = &ground.backend.clusters;
    let mut headless = quiet(&ground.namespace, "headless")?;
    headless.spec.as_mut().ok_or("no spec")?.head_group_spec = None;
    assert_invalid(clusters.create(&headless).await, "spec.headGroupSpec");

    let mut hollow = quiet(&ground.namespace, "hollow")?;
    let head = hollow.spec.as_mut().and_then(|spec| spec.head_group_spec.as_mut()).ok_or("no head")?;
    head.template = json!({"spec": {}});
    assert_invalid(clusters.create(&hollow).await, "spec.headGroupSpec.template.spec.containers");

    assert_invalid(clusters.create(&quiet(&ground.namespace, "Not_A_Name")?).await, "metadata.name");

    let mut labelled = quiet(&ground.namespace, "labelled")?;
    labelled.metadata.labels = Some([("team".to_owned(), "two words".to_owned())].into());
    assert_invalid(clusters.create(&labelled).await, "metadata.labels");

    assert!(clusters.list(&Scope::Namespace(ground.namespace.clone()), None).await?.is_empty());

    // Kubernetes requires no spec, and stores names that KubeRay's operator leaves alone.
    let mut bare = quiet(&ground.namespace, "ba.re")?;
    bare.spec = None;
    assert_eq!(clusters.create(&bare).await?.raw.get("spec"), None);
    Ok(())
}

pub(crate) async fn label_selector_picks(ground: &Ground) -> Outcome {
    let labels = [("a", json!({"team": "blue", "tier": "1"})), ("b", json!({"team": "red"})), ("c", json!({}))];
    for (name, labels) in labels {
        let mut cluster = quiet(&ground.namespace, name)?;
        cluster.metadata.labels = Some(serde_json::from_value(labels)?);
        ground.backend.clusters.create(&cluster).await?;
    }
    let cases: [(&str, &[&str]); 18] = [
        ("", &["a", "b", "c"]),
        ("team=blue", &["a"]),
        ("team==red", &["b"]),
        (" team = blue ", &["a"]),
        ("team!=blue", &["b", "c"]),
        ("team", &["a", "b"]),
        ("!team", &["c"]),
        ("team in (blue, red)", &["a", "b"]),
        ("team in (green)", &[]),
        ("team notin (blue)", &["b", "c"]),
        ("team,!tier", &["b"]),
        ("team in (blue,red),tier=1", &["a"]),
        ("team=", &[]),
        ("team in (,red)", &["b"]),
        ("team notin ()", &["a", "b", "c"]),
        ("tier>0", &["a"]),
        ("tier<1", &[]),
        ("example.com/other!=x,team notin (x,y)", &["a", "b", "c"]),
    ];
    let scope = Scope::Namespace(ground.namespace.clone());
    for (selector, expected) in cases {
        let listed = ground.backend.clusters.list(&scope, Some(selector)).await?;
        let names: Vec<&str> = listed.iter().map(raygate::manager::Observed::name).collect();
        assert_eq!(names, expected, "{selector}");
    }
    Ok(())
}

pub(crate) async fn unreadable_selector_is_refused(ground: &Ground) -> Outcome {
    let scope = Scope::Namespace(ground.namespace.clone());
    for selector in ["=", "a=b=c", "a in", "a in (b", "a,", ",a", "!a=b", "a=b c", "a/b/c", "a=-", "a>b"] {
        let answer = ground.backend.clusters.list(&scope, Some(selector)).await;
        assert!(matches!(answer, Err(ManagerError::Invalid { .. })), "{selector}: {answer:?}");
    }
    Ok(())
}
