//! What each rule refuses, wherever it can be said, and what it allows.

mod harmless;
mod laws;
mod patterns;
mod rows;
mod units;

use serde_json::{Value, json};

use super::*;
use harmless::harmless_rows;
use rows::{AUTOSCALER, COLLECTOR, CONTAINERS, NODES, Row, cluster_rows, container_rows, pod_rows};

/// The rules that are no lists.
const SWITCHES: [&str; 3] = ["hostNamespaces", "privileged", "autoscaler"];

/// Rules of which every list is empty and every switch off, those that are open by default too.
fn closed() -> PodRules {
    with(&json!({"images": [], "nodeSelectors": [], "tolerations": [], "serviceTypes": []}))
}

/// Rules as a policy says them.
fn with(policy: &Value) -> PodRules {
    serde_json::from_value(policy.clone()).unwrap()
}

/// A RayCluster called `mine` with a head and a worker group, each with a container, in which nothing is refused.
fn plain() -> Value {
    let template = json!({"metadata": {}, "spec": {"containers": [{"name": "ray", "command": ["sh"]}]}});
    json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "mine", "namespace": "team"},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [{"groupName": "small", "replicas": 1, "template": template}],
        },
    })
}

/// Sets what is at a pointer, and makes what it needs to be there.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut target = object;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let is_list = step.parse::<usize>().is_ok();
        if target.is_null() {
            *target = if is_list { json!([]) } else { json!({}) };
        }
        target = match target {
            Value::Array(items) => {
                let index = step.parse::<usize>().unwrap();
                items.resize(items.len().max(index + 1), Value::Null);
                &mut items[index]
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                &mut other[step.as_str()]
            }
        };
    }
    *target = value;
}

/// The plain cluster with something in it.
fn having(pointer: &str, value: &Value) -> Value {
    let mut cluster = plain();
    set(&mut cluster, pointer, value.clone());
    cluster
}

/// The rule and place of each violation on create, by a user called `ann`.
fn found(rules: &PodRules, wanted: &Value) -> Vec<(&'static str, String)> {
    changed(rules, None, wanted)
}

/// The same on a change.
fn changed(rules: &PodRules, held: Option<&Value>, wanted: &Value) -> Vec<(&'static str, String)> {
    let violations = violations(rules, "ann", held, wanted);
    violations.into_iter().map(|violation| (violation.rule, violation.place)).collect()
}

/// Every row at every place where it can be: the pointer where its value goes, and the row with the place of its
/// violation.
fn everywhere() -> Vec<(String, Row)> {
    let mut all = Vec::new();
    let mut put = |base: &str, row: &Row| {
        all.push((format!("{base}{}", row.pointer), Row { place: format!("{base}{}", row.place), ..row.clone() }));
    };
    for node in NODES {
        for row in pod_rows() {
            put(&format!("{node}/template"), &row);
        }
        for kind in CONTAINERS {
            for row in container_rows() {
                put(&format!("{node}/template/spec/{kind}/1"), &row);
            }
        }
    }
    let begins = |row: &Row, members: &[&str]| members.iter().any(|member| row.pointer.starts_with(member));
    for row in container_rows() {
        if begins(&row, &["/image", "/env", "/securityContext"]) {
            put(AUTOSCALER, &row);
        }
        if begins(&row, &["/image", "/env/"]) {
            put(COLLECTOR, &row);
        }
    }
    for row in cluster_rows() {
        put("", &row);
    }
    all
}

#[test]
fn each_way_of_saying_what_is_closed_is_refused_at_its_place() {
    for (pointer, row) in everywhere() {
        let cluster = having(&pointer, &row.value);
        assert_eq!(found(&closed(), &cluster), [(row.rule, row.place)], "{pointer} = {}", row.value);
    }
}

#[test]
fn opening_its_rule_and_no_other_allows_it() {
    for (pointer, row) in everywhere() {
        let cluster = having(&pointer, &row.value);
        let mut open = serde_json::Map::new();
        let mut others = serde_json::Map::new();
        for rule in RULES {
            let (on, off) =
                if SWITCHES.contains(&rule) { (json!(true), json!(false)) } else { (json!(["*"]), json!([])) };
            open.insert(rule.into(), if rule == row.rule { on.clone() } else { off.clone() });
            others.insert(rule.into(), if rule == row.rule { off } else { on });
        }
        assert_eq!(found(&with(&open.into()), &cluster), [], "{pointer} = {}", row.value);
        assert_eq!(found(&with(&others.into()), &cluster), [(row.rule, row.place)], "{pointer} = {}", row.value);
        assert_eq!(found(&PodRules::unrestricted(), &cluster), [], "{pointer} = {}", row.value);
    }
}

#[test]
fn what_is_harmless_is_allowed_by_rules_that_allow_nothing() {
    assert_eq!(found(&closed(), &plain()), []);
    for (pointer, value) in harmless_rows() {
        assert_eq!(found(&closed(), &having(pointer, &value)), [], "{pointer} = {value}");
    }
}

#[test]
fn a_policy_that_says_nothing_is_the_restricted_one() {
    assert_eq!(with(&json!({})), PodRules::restricted());
    assert_eq!(PodRules::default(), PodRules::restricted());
    let spec = "/spec/headGroupSpec/template/spec";
    for (pointer, value) in [
        (format!("{spec}/containers/0/image"), json!("anything/at:all")),
        (format!("{spec}/nodeSelector"), json!({"pool": "gpu"})),
        (format!("{spec}/tolerations"), json!([{"operator": "Exists"}])),
        ("/spec/headGroupSpec/serviceType".into(), json!("ClusterIP")),
    ] {
        assert_eq!(found(&PodRules::restricted(), &having(&pointer, &value)), [], "{pointer}");
    }
    let service = having("/spec/headGroupSpec/serviceType", &json!("NodePort"));
    assert_eq!(found(&PodRules::restricted(), &service).len(), 1);
}

#[test]
fn a_policy_has_the_rules_and_no_others() {
    for rule in RULES {
        let value = if SWITCHES.contains(&rule) { json!(true) } else { json!(["x"]) };
        assert_ne!(with(&json!({rule: value})), PodRules::restricted(), "{rule}");
    }
    let unknown = serde_json::from_value::<PodRules>(json!({"hostpaths": []})).unwrap_err().to_string();
    assert_eq!(unknown.matches('`').count(), 2 * (1 + RULES.len()), "{unknown}");
    assert!(RULES.iter().all(|rule| unknown.contains(&format!("`{rule}`"))), "{unknown}");
    let braces = serde_json::from_value::<PodRules>(json!({"secrets": ["{user}-x"]})).unwrap_err().to_string();
    assert!(braces.contains("{user}-x") && braces.contains("{name}"), "{braces}");
}

/// A rule's patterns, where a value is put, values that they allow, and values that they don't.
#[test]
fn patterns_allow_what_they_match() {
    let spec = |rest: &str| format!("/spec/headGroupSpec/template/spec/{rest}");
    let terms = |rest: &str| {
        spec(&format!(
            "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/{rest}"
        ))
    };
    let volume = |rest: &str| spec(&format!("volumes/0/{rest}"));
    let variable = |rest: &str| spec(&format!("containers/0/env/0/valueFrom/{rest}"));
    let is_in = |values: &[&str]| json!({"key": "pool", "operator": "In", "values": values});
    let has = |operator: &str| json!({"key": "pool", "operator": operator, "values": ["a"]});
    #[rustfmt::skip]
    let table = [
        ("hostPaths", json!(["/data/*", "/mnt"]), volume("hostPath/path"),
            vec![json!("/data/x"), json!("/data/x/y"), json!("/mnt")],
            vec![json!("/data"), json!("/data/"), json!("/data/../etc"), json!("/data/x/.."), json!("/data//x"), json!("/data/./x"),
                json!("/data/x/"), json!("/mnt/"), json!("//mnt"), json!("mnt"), json!(""), json!("/"), json!("/data/x/../../etc")]),
        ("hostPaths", json!(["*"]), volume("hostPath/path"), vec![json!("/a/../b"), json!("/"), json!("")], vec![]),
        ("hostPaths", json!(["/"]), volume("hostPath/path"), vec![json!("/")], vec![json!("/etc")]),
        ("hostPaths", json!(["/home/{name}"]), volume("hostPath/path"), vec![json!("/home/ann")], vec![json!("/home/bob"), json!("/home/{name}")]),
        ("capabilities", json!(["SYS_PTRACE"]), spec("containers/0/securityContext/capabilities/add/0"),
            vec![json!("SYS_PTRACE"), json!("KILL")], vec![json!("SYS_ADMIN"), json!("ALL"), json!("sys_ptrace")]),
        ("capabilities", json!(["A*"]), spec("containers/0/securityContext/capabilities/add/0"),
            vec![json!("AUDIT_CONTROL")], vec![json!("ALL"), json!("all")]),
        ("capabilities", json!(["a*"]), spec("containers/0/securityContext/capabilities/add/0"), vec![], vec![json!("all"), json!("ALL")]),
        ("capabilities", json!(["ALL"]), spec("containers/0/securityContext/capabilities/add/0"), vec![json!("ALL")], vec![json!("BPF")]),
        ("volumeTypes", json!(["nfs"]), spec("volumes/0"),
            vec![json!({"nfs": {}}), json!({"emptyDir": {}})], vec![json!({"csi": {}}), json!({"nfs": {}, "rbd": {}}), json!({"NFS": {}})]),
        ("serviceAccounts", json!(["ray-*"]), spec("serviceAccountName"), vec![json!("ray-a"), json!("default"), json!("")], vec![json!("ray"), json!("mine")]),
        ("images", json!(["rayproject/ray:*", "team/*"]), spec("containers/0/image"),
            vec![json!("rayproject/ray:2.52.0"), json!("team/a/b"), json!("")], vec![json!("rayproject/ray"), json!("other/team/a"), json!(7)]),
        ("nodeSelectors", json!(["zone", "pool=cpu*"]), spec("nodeSelector"),
            vec![json!({"zone": "a", "pool": "cpu-1"}), json!({"pool": "cpu"})], vec![json!({"pool": "gpu"}), json!({"zones": "a"}), json!({"pool": null})]),
        ("nodeSelectors", json!(["pool=a", "pool=b"]), terms("matchExpressions/0"),
            vec![is_in(&["a", "b"])], vec![is_in(&["a", "c"]), is_in(&[]), has("NotIn"), has("Exists"), has("Gt"), has("in"), json!({"key": "pool", "values": ["a"]})]),
        ("nodeSelectors", json!(["pool"]), terms("matchExpressions/0"), vec![is_in(&["a"]), has("NotIn"), has("DoesNotExist"), has("Lt")], vec![json!({"key": "x"})]),
        ("nodeSelectors", json!(["metadata.name=a"]), terms("matchFields/0"),
            vec![json!({"key": "metadata.name", "operator": "In", "values": ["a"]})], vec![json!({"key": "metadata.name", "operator": "In", "values": ["b"]})]),
        ("nodeNames", json!(["n*"]), spec("nodeName"), vec![json!("n1"), json!("")], vec![json!("m1")]),
        ("tolerations", json!(["gpu", "spot-*"]), spec("tolerations/0"),
            vec![json!({"key": "gpu", "operator": "Exists"}), json!({"key": "spot-1", "value": "x"})],
            vec![json!({"operator": "Exists"}), json!({"key": "", "operator": "Exists"}), json!({"key": "cpu"})]),
        ("priorityClasses", json!(["low"]), spec("priorityClassName"), vec![json!("low"), json!("")], vec![json!("high")]),
        ("priorityClasses", json!(["low", "1*"]), spec("priority"), vec![json!(null)], vec![json!(1), json!(0), json!(1_000_000)]),
        ("secrets", json!(["{cluster}-*", "{name}"]), volume("secret/secretName"),
            vec![json!("mine-tls"), json!("ann")], vec![json!("mine"), json!("yours-tls"), json!("bob"), json!("")]),
        ("secrets", json!(["x"]), variable("secretKeyRef"),
            vec![json!({"name": "x", "key": "k"}), json!({"name": "mine", "key": "auth_token"})],
            vec![json!({"name": "mine", "key": "other"}), json!({"key": "auth_token"}), json!({"name": "", "key": "auth_token"}), json!({"name": "yours", "key": "auth_token"})]),
        ("configMaps", json!(["x*"]), variable("configMapKeyRef/name"), vec![json!("xy")], vec![json!("y"), json!("")]),
        ("claims", json!(["data"]), volume("persistentVolumeClaim/claimName"), vec![json!("data")], vec![json!("other")]),
        ("claims", json!(["data"]), volume("ephemeral/volumeClaimTemplate/spec"),
            vec![json!({"dataSource": {"name": "data"}}), json!({"volumeName": "", "storageClassName": "fast"})],
            vec![json!({"dataSourceRef": {"name": "x"}}), json!({"volumeName": "data"}), json!({"selector": {}}), json!({"dataSourceRef": {"name": "data", "namespace": "b"}})]),
        ("imagePullSecrets", json!(["pull"]), spec("imagePullSecrets/0/name"), vec![json!("pull")], vec![json!("secret")]),
        ("serviceTypes", json!(["ClusterIP", "Node*"]), "/spec/headGroupSpec/serviceType".into(), vec![json!("NodePort"), json!("")], vec![json!("LoadBalancer")]),
        ("serviceTypes", json!(["NodePort"]), "/spec/headGroupSpec/headService/spec".into(),
            vec![json!({"type": "NodePort", "ports": [{"nodePort": 0}], "selector": {}, "externalIPs": []})],
            vec![json!({"ports": [{"port": 1}, {"nodePort": 30_000}]}), json!({"externalIPs": ["192.0.2.1"]}), json!({"type": "ClusterIP"})]),
        ("serviceTypes", json!([""]), "/spec/headGroupSpec/headService/spec".into(),
            vec![], vec![json!({"type": "ClusterIP"}), json!({"loadBalancerIP": "192.0.2.1"})]),
        ("serviceNames", json!(["{name}-*"]), "/spec/headGroupSpec/headService/metadata/name".into(),
            vec![json!("ann-x"), json!("mine-head-svc"), json!("")], vec![json!("yours-head-svc"), json!("mine")]),
        ("ingressHosts", json!(["*.{name}.example.com"]), "/spec/headGroupSpec/ingressOptions".into(),
            vec![json!({"host": "a.ann.example.com", "tls": [{"hosts": ["b.ann.example.com"]}]}), json!({"host": ""})],
            vec![json!({"host": "a.bob.example.com"}), json!({"host": "*.example.com"}), json!({"tls": [{"hosts": ["example.com"]}]})]),
    ];
    for (rule, patterns, pointer, allowed, refused) in table {
        let rules = with(&json!({rule: patterns}));
        for value in allowed {
            assert_eq!(found(&rules, &having(&pointer, &value)), [], "{rule} {patterns}: {value}");
        }
        for value in refused {
            let refused: Vec<_> = found(&rules, &having(&pointer, &value)).into_iter().map(|(rule, _)| rule).collect();
            assert_eq!(refused, [rule], "{rule} {patterns}: {value}");
        }
    }
}

#[test]
fn messages_are_sentences_that_stay_short_and_say_what_would_be_allowed() {
    for (pointer, row) in everywhere() {
        for violation in violations(&closed(), "ann", None, &having(&pointer, &row.value)) {
            assert!(violation.message.ends_with('.') && violation.message.contains(row.rule), "{violation:?}");
        }
    }
    let rules = with(&json!({"images": ["team/*", "{name}/*"]}));
    let long = having("/spec/workerGroupSpecs/0/template/spec/containers/0/image", &json!("ä".repeat(9_000)));
    let violations = violations(&rules, "ann", None, &long);
    assert_eq!(violations[0].allowed, ["team/*", "{name}/*"]);
    assert!(violations[0].message.chars().count() < 200 && violations[0].message.contains("`image`"));
}

#[test]
fn very_many_violations_are_told_by_the_first_hundred() {
    let containers: Vec<_> = (0..1_000).map(|_| json!({"securityContext": {"privileged": true}})).collect();
    let cluster = having("/spec/headGroupSpec/template/spec/containers", &containers.into());
    assert_eq!(found(&closed(), &cluster).len(), 100);
}

/// The product of a long key and its values would be 100 GB of text here.
#[test]
fn a_long_key_over_many_values_costs_no_more_than_its_bytes() {
    let values = vec![json!("v"); 200_000];
    let expression = json!({"key": "k".repeat(500_000), "operator": "In", "values": values});
    let terms = "/spec/headGroupSpec/template/spec/affinity/nodeAffinity\
                 /requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0";
    assert_eq!(found(&with(&json!({"nodeSelectors": ["k*=v"]})), &having(terms, &expression)).len(), 1);
    assert_eq!(found(&with(&json!({"nodeSelectors": ["k*"]})), &having(terms, &expression)).len(), 0);
}
