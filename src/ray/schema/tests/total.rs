//! Whatever stands wherever in a cluster.

use proptest::prelude::*;
use serde_json::Value;

use super::{faults, sample};
use crate::ray::schema::ray_cluster;

/// Every place of a value.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(entries) => entries.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for (name, value) in parts {
        let place = format!("{place}/{name}");
        found.push(place.clone());
        places(value, &place, found);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9./~ -]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let known = vec!["name", "env", "spec", "metadata", "containers", "ports", "containerPort", "limits", "cpu"];
        let key = prop_oneof!["[a-z~/]{0,4}", prop::sample::select(known).prop_map(str::to_owned)];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: proptest::test_runner::RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands wherever: it is judged, every fault is in the value or just under it, and defaults settle at once.
    #[test]
    fn judging_is_total(planted in any_json(), at in any::<prop::sample::Index>()) {
        let mut value = sample();
        let mut found = Vec::new();
        places(&value, "", &mut found);
        *value.pointer_mut(&found[at.index(found.len())]).unwrap() = planted;

        for fault in faults(&value) {
            let parent = fault.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            prop_assert!(value.pointer(parent).is_some(), "{}: {}", fault.pointer, value);
        }
        let before = faults(&value).len();
        ray_cluster().apply_defaults(&mut value);
        prop_assert_eq!(faults(&value).len(), before, "defaults neither mend nor break anything");
        let once = value.clone();
        ray_cluster().apply_defaults(&mut value);
        prop_assert_eq!(value, once);
    }
}
