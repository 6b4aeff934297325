//! What holds of every RayCluster.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::*;

/// Fixed seeds and a bounded count; `RAYGATE_LONG` has fresh seeds and many more.
pub(super) fn config(seed: u64) -> ProptestConfig {
    let long = std::env::var_os("RAYGATE_LONG").is_some();
    ProptestConfig {
        cases: if long { 5_000 } else { 256 },
        rng_seed: if long { RngSeed::Random } else { RngSeed::Fixed(seed) },
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::default()
    }
}

/// Something in a pod template: where below it, and what; and if it isn't allowed its rule and place.
type Fragment = (String, Value, Option<(&'static str, String)>);

/// A container with something in it, or something else of a pod.
fn fragment() -> impl Strategy<Value = Fragment> {
    let spot = (select(CONTAINERS.to_vec()), 0..4_usize);
    let in_container = (spot, select(container_rows())).prop_map(|((kind, index), row)| {
        let container = format!("/spec/{kind}/{index}");
        let violation = (row.rule, format!("{container}{}", row.place));
        (format!("{container}{}", row.pointer), row.value, Some(violation))
    });
    let in_pod = select(pod_rows()).prop_map(|row| (row.pointer, row.value, Some((row.rule, row.place))));
    let template = "/spec/headGroupSpec/template";
    let harmless: Vec<_> = harmless_rows()
        .into_iter()
        .filter_map(|(pointer, value)| Some((pointer.strip_prefix(template)?.to_owned(), value, None)))
        .collect();
    prop_oneof![1 => in_container, 1 => in_pod, 2 => select(harmless)]
}

/// A RayCluster whose head and groups each have one fragment, perhaps of the cluster too; and what of it isn't allowed.
fn planted() -> impl Strategy<Value = (Value, Vec<(&'static str, String)>)> {
    let outside = proptest::option::weighted(0.3, select(cluster_rows()));
    (fragment(), vec(fragment(), 0..5), outside).prop_map(|(head, groups, outside)| {
        let mut cluster = plain();
        let mut expected = Vec::new();
        let groups = groups.into_iter().enumerate();
        let groups = groups.map(|(index, fragment)| (format!("/spec/workerGroupSpecs/{index}"), fragment));
        for (node, (pointer, value, violation)) in groups.chain([("/spec/headGroupSpec".into(), head)]) {
            if node != "/spec/headGroupSpec" {
                set(&mut cluster, &format!("{node}/groupName"), node.as_str().into());
            }
            set(&mut cluster, &format!("{node}/template{pointer}"), value);
            expected.extend(violation.map(|(rule, place)| (rule, format!("{node}/template{place}"))));
        }
        if let Some(row) = outside {
            set(&mut cluster, &row.pointer, row.value);
            expected.push((row.rule, row.place));
        }
        // What is harmless without the autoscaler isn't with it.
        let account = "/spec/headGroupSpec/template/spec/serviceAccountName";
        let is_on = cluster["spec"].get("enableInTreeAutoscaling").is_some();
        if is_on && cluster.pointer(account) == Some(&json!("default")) {
            expected.push(("serviceAccounts", account.into()));
        }
        expected.sort();
        (cluster, expected)
    })
}

/// Any JSON, with names that mean something here.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1.5),
        json!(""),
        json!("*"),
        json!("mine"),
        json!("In"),
        json!([]),
        json!({}),
    ]);
    let names = vec![
        "metadata",
        "name",
        "labels",
        "annotations",
        "spec",
        "headGroupSpec",
        "workerGroupSpecs",
        "template",
        "containers",
        "volumes",
        "securityContext",
        "env",
        "valueFrom",
        "secretKeyRef",
        "hostPath",
        "path",
        "ports",
        "hostPort",
        "affinity",
        "nodeAffinity",
        "nodeSelector",
        "tolerations",
        "headService",
        "ingressOptions",
        "enableIngress",
        "autoscalerOptions",
        "enableInTreeAutoscaling",
        "serviceAccountName",
        "projected",
        "sources",
        "ephemeral",
        "a/b~c",
        "0",
        "",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let members = vec((select(names.clone()), inner.clone()), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// The pointers of everything in a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        pointers(item, &format!("{at}/{index}"), all);
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        pointers(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
    }
}

/// A RayCluster in which some of what it has became something else.
fn broken() -> impl Strategy<Value = Value> {
    (planted(), vec((any::<Index>(), anything()), 0..4)).prop_map(|((mut cluster, _), changes)| {
        for (index, value) in changes {
            let mut all = Vec::new();
            pointers(&cluster, "", &mut all);
            if let Some(target) = cluster.pointer_mut(&all[index.index(all.len())]) {
                *target = value;
            }
        }
        cluster
    })
}

proptest! {
    #![proptest_config(config(302))]

    /// On create all that was planted is found and nothing else; on a change what wasn't there before.
    #[test]
    fn what_was_planted_is_found((cluster, expected) in planted(), (other, _) in planted()) {
        let mut all = found(&closed(), &cluster);
        all.sort();
        prop_assert_eq!(&all, &expected);
        let restricted = found(&PodRules::restricted(), &cluster);
        let open = ["images", "nodeSelectors", "tolerations"];
        let closed_by_default = expected.iter().filter(|(rule, _)| !open.contains(rule)).count();
        prop_assert_eq!(restricted.len(), closed_by_default);
        prop_assert!(changed(&closed(), Some(&other), &cluster).iter().all(|violation| expected.contains(violation)));
    }

    #[test]
    fn rules_that_allow_everything_refuse_nothing(cluster in broken(), held in broken(), odd in anything()) {
        prop_assert_eq!(found(&PodRules::unrestricted(), &cluster), []);
        prop_assert_eq!(changed(&PodRules::unrestricted(), Some(&held), &cluster), []);
        prop_assert_eq!(found(&PodRules::unrestricted(), &odd), []);
    }

    /// Every place of a violation is one of the RayCluster, and what is held only takes violations away.
    #[test]
    fn what_is_found_is_there(cluster in broken(), held in broken()) {
        let all = found(&closed(), &cluster);
        for (rule, place) in &all {
            prop_assert!(cluster.pointer(place).is_some(), "{rule} {place}");
        }
        let new = changed(&closed(), Some(&held), &cluster);
        prop_assert!(new.iter().all(|violation| all.contains(violation)));
        prop_assert_eq!(changed(&closed(), Some(&cluster), &cluster), []);
    }

    #[test]
    fn any_json_can_be_judged(wanted in anything(), held in anything()) {
        prop_assert_eq!(changed(&closed(), Some(&wanted), &wanted), []);
        let all = found(&closed(), &wanted);
        prop_assert!(changed(&closed(), Some(&held), &wanted).iter().all(|violation| all.contains(violation)));
    }
}
