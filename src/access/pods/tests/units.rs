//! What of a change is judged.

use super::*;

const HEAD: &str = "/spec/headGroupSpec/template/spec";
const GROUPS: &str = "/spec/workerGroupSpecs";

/// A pod template with a hostPath.
fn forbidden() -> Value {
    json!({"spec": {"containers": [{"name": "ray"}], "volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}})
}

fn group(name: &str, template: &Value) -> Value {
    json!({"groupName": name, "replicas": 1, "template": template})
}

/// The plain cluster with these worker groups.
fn grouped(groups: &[Value]) -> Value {
    having(GROUPS, &groups.into())
}

/// The places of worker groups, by index, at which something is refused.
fn refused_groups(held: &Value, wanted: &Value) -> Vec<usize> {
    let places = changed(&closed(), Some(held), wanted).into_iter().map(|(_, place)| place);
    places.map(|place| place.split('/').nth(3).unwrap().parse().unwrap()).collect()
}

#[test]
fn what_is_as_it_was_is_not_judged() {
    for (pointer, row) in everywhere() {
        let cluster = having(&pointer, &row.value);
        assert_eq!(changed(&closed(), Some(&cluster), &cluster), [], "{pointer}");
        let mut scaled = cluster.clone();
        set(&mut scaled, "/spec/workerGroupSpecs/0/replicas", json!(7));
        set(&mut scaled, "/spec/suspend", json!(true));
        set(&mut scaled, "/spec/headGroupSpec/rayStartParams", json!({"num-cpus": "0"}));
        set(&mut scaled, "/metadata/labels/team", json!("a"));
        assert_eq!(changed(&closed(), Some(&cluster), &scaled), [], "{pointer}");
    }
}

#[test]
fn what_comes_with_a_change_is_judged() {
    for (pointer, row) in everywhere() {
        let cluster = having(&pointer, &row.value);
        assert_eq!(changed(&closed(), Some(&plain()), &cluster), [(row.rule, row.place)], "{pointer}");
        assert_eq!(changed(&closed(), Some(&cluster), &plain()), [], "{pointer} goes away");
    }
}

#[test]
fn a_unit_that_changes_anywhere_is_judged_as_a_whole() {
    for (unit, bad, good, changed_to) in [
        (HEAD, "hostPID", "terminationGracePeriodSeconds", json!(30)),
        ("/spec/headGroupSpec/template", "spec/nodeName", "metadata/labels/a", json!("b")),
        ("/spec/workerGroupSpecs/0/template", "spec/nodeName", "spec/containers/0/command/0", json!("sg")),
        ("/spec/headGroupSpec", "serviceType", "headService/metadata/labels/a", json!("b")),
        ("/spec", "headGroupSpec/serviceType", "headServiceAnnotations/a", json!("b")),
        ("/spec/headGroupSpec", "enableIngress", "ingressOptions/path", json!("/ray")),
        ("/spec/autoscalerOptions", "image", "idleTimeoutSeconds", json!(5)),
        ("/spec/gcsFaultToleranceOptions", "storage/claimName", "redisAddress", json!("redis:6379")),
        ("/spec/authOptions", "secretName", "mode", json!("token")),
        ("/spec/historyServerOptions/collectorOptions", "image", "imagePullPolicy", json!("Always")),
    ] {
        let mut held = plain();
        set(&mut held, &format!("{unit}/{bad}"), json!("forbidden"));
        let mut wanted = held.clone();
        set(&mut wanted, &format!("{unit}/{good}"), changed_to);
        let places: Vec<_> = changed(&closed(), Some(&held), &wanted).into_iter().map(|(_, place)| place).collect();
        assert_eq!(places, [format!("{unit}/{bad}")], "{good}");
    }
}

#[test]
fn units_are_judged_by_themselves() {
    let mut held = plain();
    set(&mut held, &format!("{HEAD}/hostPID"), json!(true));
    set(&mut held, "/spec/autoscalerOptions/image", json!("a"));
    let mut wanted = held.clone();
    set(&mut wanted, "/spec/workerGroupSpecs/0/template/spec/nodeName", json!("n"));
    let place = "/spec/workerGroupSpecs/0/template/spec/nodeName".to_owned();
    assert_eq!(changed(&closed(), Some(&held), &wanted), [("nodeNames", place)]);
}

#[test]
fn a_unit_that_is_null_is_as_if_it_were_not_there() {
    for member in ["/spec/autoscalerOptions", "/spec/headGroupSpec/headService", "/spec/headGroupSpec/ingressOptions"] {
        let mut held = having("/spec/headGroupSpec/serviceType", &json!("NodePort"));
        set(&mut held, "/spec/headGroupSpec/enableIngress", json!(true));
        let mut wanted = held.clone();
        set(&mut wanted, member, Value::Null);
        assert_eq!(changed(&closed(), Some(&held), &wanted), [], "{member}");
    }
}

#[test]
fn a_group_is_known_by_its_name_wherever_it_stands() {
    let (bad, good) = (forbidden(), plain()["spec"]["workerGroupSpecs"][0]["template"].clone());
    let held = grouped(&[group("a", &bad), group("b", &good)]);
    let moved = grouped(&[group("new", &good), group("b", &good), group("a", &bad)]);
    assert_eq!(refused_groups(&held, &moved), [0_usize; 0]);
    let templates_swapped = grouped(&[group("a", &good), group("b", &bad)]);
    assert_eq!(refused_groups(&held, &templates_swapped), [1]);
    let renamed = grouped(&[group("c", &bad), group("b", &good)]);
    assert_eq!(refused_groups(&held, &renamed), [0]);
    let copied = grouped(&[group("a", &bad), group("b", &good), group("c", &bad)]);
    assert_eq!(refused_groups(&held, &copied), [2]);
    // A name that is a number is another than the text of the number.
    let odd = grouped(&[json!({"groupName": 1, "template": bad})]);
    assert_eq!(refused_groups(&odd, &grouped(&[group("1", &bad)])), [0]);
}

#[test]
fn of_groups_of_one_name_each_meets_the_one_at_its_place() {
    let (bad, good) = (forbidden(), plain()["spec"]["workerGroupSpecs"][0]["template"].clone());
    let held = grouped(&[group("a", &good), group("a", &bad)]);
    assert_eq!(refused_groups(&held, &held), [0_usize; 0]);
    assert_eq!(refused_groups(&held, &grouped(&[group("a", &bad), group("a", &good)])), [0]);
    assert_eq!(refused_groups(&held, &grouped(&[group("a", &good), group("a", &bad), group("a", &bad)])), [2]);
    assert_eq!(refused_groups(&held, &grouped(&[group("a", &bad)])), [0]);
    let unnamed = |count| grouped(&vec![json!({"template": bad}); count]);
    assert_eq!(refused_groups(&unnamed(1), &unnamed(2)), [1]);
}

#[test]
fn the_heads_template_in_another_group_is_judged() {
    let mut held = plain();
    set(&mut held, "/spec/headGroupSpec/template", forbidden());
    let mut wanted = held.clone();
    set(&mut wanted, &format!("{GROUPS}/1"), group("copy", &forbidden()));
    assert_eq!(refused_groups(&held, &wanted), [1]);
}

/// The autoscaler's container is one of the head's pod.
#[test]
fn the_autoscalers_mounts_are_of_the_heads_volumes() {
    let options = "/spec/autoscalerOptions";
    let flag = "/spec/enableInTreeAutoscaling";
    let open = with(&json!({"autoscaler": true}));
    let place = format!("{HEAD}/volumes/0/hostPath");
    let refused = [("hostPaths", format!("{place}/path"))];
    let given = having(&place, &json!({"path": "/etc"}));
    let also = |cluster: &Value, pointer: &str, value: &Value| {
        let mut cluster = cluster.clone();
        set(&mut cluster, pointer, value.clone());
        cluster
    };
    let mounts = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let mounting = also(&given, options, &mounts);
    assert_eq!(changed(&open, Some(&given), &mounting), refused);
    assert_eq!(changed(&open, Some(&mounting), &also(&mounting, flag, &json!(true))), refused, "turned on");
    assert_eq!(
        changed(&open, Some(&mounting), &also(&mounting, &format!("{options}/idleTimeoutSeconds"), &json!(5))),
        refused
    );
    assert_eq!(changed(&open, Some(&mounting), &also(&mounting, "/spec/workerGroupSpecs/0/replicas", &json!(5))), []);
    assert_eq!(changed(&open, Some(&mounting), &given), []);
    assert_eq!(changed(&open, Some(&given), &also(&given, flag, &json!(true))), []);
    for none in [json!({"volumeMounts": []}), json!({"idleTimeoutSeconds": 5})] {
        assert_eq!(changed(&open, Some(&given), &also(&given, options, &none)), [], "{none}");
    }
    assert_eq!(changed(&open, Some(&plain()), &also(&plain(), options, &mounts)), []);
}

/// The operator gives the head's service account the rights, whichever it is by then.
#[test]
fn the_autoscaler_is_judged_with_the_heads_account() {
    let flag = "/spec/enableInTreeAutoscaling";
    let account = |name: &str| format!("{HEAD}/{name}");
    let on = having(flag, &json!(true));
    let named = |member: &str, name: &str| {
        let mut cluster = on.clone();
        set(&mut cluster, &account(member), json!(name));
        cluster
    };
    let any_account = with(&json!({"serviceAccounts": ["*"]}));
    assert_eq!(changed(&any_account, Some(&plain()), &on), [("autoscaler", flag.into())]);
    assert_eq!(changed(&any_account, Some(&on), &plain()), []);
    for member in ["serviceAccountName", "serviceAccount"] {
        let (robot, other) = (named(member, "robot"), named(member, "other"));
        assert_eq!(changed(&any_account, Some(&robot), &other), [("autoscaler", account(member))]);
        assert_eq!(changed(&any_account, Some(&robot), &on), [("autoscaler", flag.into())], "the cluster's own");
        assert_eq!(changed(&any_account, Some(&on), &robot), [("autoscaler", account(member))]);
        let mut elsewhere = robot.clone();
        set(&mut elsewhere, &account("terminationGracePeriodSeconds"), json!(30));
        set(&mut elsewhere, "/spec/workerGroupSpecs/0/template/spec/serviceAccountName", json!("other"));
        assert_eq!(changed(&any_account, Some(&robot), &elsewhere), []);
    }
}

#[test]
fn with_the_autoscaler_the_account_of_all_pods_must_be_named_by_the_rules() {
    let flag = "/spec/enableInTreeAutoscaling";
    let allowed = with(&json!({"autoscaler": true, "serviceAccounts": ["robot", "default"]}));
    let refused = with(&json!({"autoscaler": true, "serviceAccounts": ["robot"]}));
    let on = having(flag, &json!(true));
    assert_eq!(found(&refused, &on), []);
    for (pointer, place) in [
        (format!("{HEAD}/serviceAccountName"), format!("{HEAD}/serviceAccountName")),
        (format!("{HEAD}/serviceAccount"), format!("{HEAD}/serviceAccount")),
        // The operator takes the account that is called like the cluster.
        ("/metadata/name".into(), flag.into()),
    ] {
        let mut cluster = on.clone();
        set(&mut cluster, &pointer, json!("default"));
        assert_eq!(found(&refused, &cluster), [("serviceAccounts", place)], "{pointer}");
        assert_eq!(found(&allowed, &cluster), [], "{pointer}");
        assert_eq!(found(&PodRules::unrestricted(), &cluster), [], "{pointer}");
        set(&mut cluster, flag, json!(false));
        assert_eq!(found(&refused, &cluster), [], "{pointer}");
    }
    // The operator doesn't know the old name of the member.
    let mut called_so = on.clone();
    set(&mut called_so, "/metadata/name", json!("default"));
    set(&mut called_so, &format!("{HEAD}/serviceAccount"), json!("robot"));
    assert_eq!(found(&refused, &called_so), [("serviceAccounts", flag.into())]);
    let robot = having(&format!("{HEAD}/serviceAccountName"), &json!("robot"));
    let mut wanted = robot.clone();
    set(&mut wanted, flag, json!(true));
    assert_eq!(changed(&refused, Some(&robot), &wanted), []);
}

#[test]
fn each_label_is_judged_by_itself() {
    let held = having("/metadata/labels/ray.io~1priority-class-name", &json!("high"));
    let mut wanted = held.clone();
    set(&mut wanted, "/metadata/labels/kueue.x-k8s.io~1priority-class", json!("high"));
    let place = "/metadata/labels/kueue.x-k8s.io~1priority-class".to_owned();
    assert_eq!(changed(&closed(), Some(&held), &wanted), [("priorityClasses", place)]);
}

/// A group's own labels are apart from its template.
#[test]
fn a_label_of_a_group_is_judged_with_its_twin() {
    let label = "labels/priorityClassName";
    let held = having(&format!("{GROUPS}/0/{label}"), &json!("high"));
    let good = plain()["spec"]["workerGroupSpecs"][0]["template"].clone();
    let mut moved = held.clone();
    set(&mut moved, &format!("{GROUPS}/1"), held["spec"]["workerGroupSpecs"][0].clone());
    set(&mut moved, &format!("{GROUPS}/0"), group("new", &good));
    set(&mut moved, &format!("{GROUPS}/1/labels/zone"), json!("a"));
    assert_eq!(changed(&closed(), Some(&held), &moved), []);
    set(&mut moved, &format!("{GROUPS}/0/{label}"), json!("high"));
    assert_eq!(refused_groups(&held, &moved), [0]);
}

/// The operator copies the cluster's annotations to the ingress, where they may add hosts.
#[test]
fn annotations_of_a_cluster_with_an_ingress_need_every_host() {
    let rules = with(&json!({"ingressHosts": ["*.example.com"]}));
    let annotation = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let mut off = having("/spec/headGroupSpec/ingressOptions/host", &json!("a.example.com"));
    set(&mut off, &annotation("nginx.ingress.kubernetes.io/server-alias"), json!("other.org"));
    set(&mut off, &annotation("konghq.com/host-aliases"), json!("other.org"));
    for harmless in ["kubernetes.io/ingress.class", "ray.io/ft-enabled", "kubectl.kubernetes.io/restartedAt", "note"] {
        set(&mut off, &annotation(harmless), json!("x"));
    }
    assert_eq!(found(&rules, &off), [], "no ingress");
    let mut on = off.clone();
    set(&mut on, "/spec/headGroupSpec/enableIngress", json!(true));
    let both = ["nginx.ingress.kubernetes.io/server-alias", "konghq.com/host-aliases"]
        .map(|key| ("ingressHosts", annotation(key)));
    assert_eq!(found(&rules, &on), both);
    assert_eq!(changed(&rules, Some(&off), &on), both, "turned on");
    assert_eq!(changed(&rules, Some(&on), &on), []);
    let mut more = on.clone();
    set(&mut more, &annotation("konghq.com/host-aliases"), json!("third.org"));
    assert_eq!(changed(&rules, Some(&on), &more), both[1..]);
    assert_eq!(found(&with(&json!({"ingressHosts": ["*"]})), &on), []);
}

#[test]
fn what_breaks_two_rules_is_told_by_both() {
    let volume = format!("{HEAD}/volumes/0");
    for (value, expected) in [
        (json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}), ["volumeTypes", "secrets"]),
        (json!({"azureFile": {"secretName": "s"}}), ["volumeTypes", "secrets"]),
        (json!({"rbd": {"secretRef": {"name": "s"}}}), ["volumeTypes", "secrets"]),
        (json!({"image": {"reference": "a:1"}}), ["volumeTypes", "images"]),
        (json!({"hostPath": {"path": "/"}, "persistentVolumeClaim": {"claimName": "c"}}), ["hostPaths", "claims"]),
    ] {
        let rules: Vec<_> = found(&closed(), &having(&volume, &value)).into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(rules, expected, "{value}");
    }
    let open = with(&json!({"volumeTypes": ["csi", "image"], "images": []}));
    let secret = having(&volume, &json!({"csi": {"nodePublishSecretRef": {"name": "s"}}}));
    assert_eq!(found(&open, &secret), [("secrets", format!("{volume}/csi/nodePublishSecretRef/name"))]);
    let image = having(&volume, &json!({"image": {"reference": "a:1"}}));
    assert_eq!(found(&open, &image), [("images", format!("{volume}/image/reference"))]);
}

#[test]
fn without_a_name_nothing_is_the_clusters_own() {
    let mut cluster =
        having(&format!("{HEAD}/containers/0/env/0/valueFrom/secretKeyRef"), &json!({"name": "", "key": "auth_token"}));
    set(&mut cluster, "/metadata/name", json!(""));
    assert_eq!(found(&closed(), &cluster).len(), 1);
    assert_eq!(found(&with(&json!({"secrets": ["{cluster}*"]})), &cluster).len(), 1);
}
