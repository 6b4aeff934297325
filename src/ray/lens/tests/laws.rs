//! The three laws, over random RayClusters (odd ones too), random documents and random patches.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::RngSeed;

use super::*;
use crate::ray::manifest::Manifest;

/// Fixed seeds and a bounded count; `RAYGATE_LONG` has fresh seeds and many more.
pub(super) fn config(seed: u64) -> ProptestConfig {
    let long = std::env::var_os("RAYGATE_LONG").is_some();
    ProptestConfig {
        cases: if long { 3_000 } else { 128 },
        rng_seed: if long { RngSeed::Random } else { RngSeed::Fixed(seed) },
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::default()
    }
}

/// Some of these members, each with one of its values.
#[expect(clippy::needless_pass_by_value, reason = "callers make the list for it")]
fn some(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let count = members.len();
    let chosen = subsequence((0..count).collect::<Vec<_>>(), 0..=count);
    let values: Vec<_> = members.iter().map(|(_, value)| value.clone()).collect();
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    (chosen, values)
        .prop_map(move |(chosen, values)| {
            chosen.into_iter().map(|at| (names[at].to_owned(), values[at].clone())).collect::<Map<_, _>>().into()
        })
        .boxed()
}

/// One of these values.
fn one(values: &[Value]) -> BoxedStrategy<Value> {
    select(values.to_vec()).boxed()
}

/// A list of some of these values, in their order.
fn list(values: &[Value]) -> BoxedStrategy<Value> {
    let all = values.to_vec();
    let count = all.len();
    subsequence(all, 0..=count).prop_map(Value::from).boxed()
}

/// A map from some of these names to one of these values.
fn map(names: &'static [&'static str], values: &[Value]) -> BoxedStrategy<Value> {
    some(names.iter().map(|name| (*name, one(values))).collect())
}

fn quantities() -> Vec<Value> {
    vec![
        json!("1"),
        json!("1000m"),
        json!(1),
        json!("1.0"),
        json!("2"),
        json!("1Gi"),
        json!("1024Mi"),
        json!("0"),
        json!("1e3"),
        json!("1k"),
    ]
}

const RESOURCES: &[&str] = &["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "ephemeral-storage"];

fn mounts() -> BoxedStrategy<Value> {
    list(&[
        json!({"name": "a", "mountPath": "/a"}),
        json!({"name": "b", "mountPath": "/b", "readOnly": true}),
        json!({"name": "b", "mountPath": "/b2"}),
        json!({"name": "c", "mountPath": "/c", "subPath": "x", "newer": 1}),
        json!({"name": "nowhere", "mountPath": "/n"}),
        json!({"name": "d", "mountPath": "/d", "mountPropagation": "None"}),
        json!({"name": "f", "mountPath": "/f", "subPath": "s"}),
    ])
}

fn ray_container() -> BoxedStrategy<Value> {
    let rest = some(vec![
        ("image", one(&[json!("rayproject/ray:2.52.0"), json!("mine:1"), json!("other:2")])),
        ("imagePullPolicy", one(&[json!("Always"), json!("Never")])),
        (
            "env",
            list(&[
                json!({"name": "A", "value": "1"}),
                json!({"name": "B"}),
                json!({"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
                json!({"name": "D", "value": "x", "newer": 1}),
                json!({"name": "E", "value": "$(A)"}),
                json!({"name": "RAY_enable_autoscaler_v2", "value": "1"}),
                json!({"name": "RAY_REDIS_ADDRESS", "value": "r:1"}),
                json!({"name": "REDIS_USERNAME", "value": "u"}),
            ]),
        ),
        (
            "resources",
            some(vec![
                ("limits", map(RESOURCES, &quantities())),
                ("requests", map(RESOURCES, &quantities())),
                ("claims", one(&[json!([{"name": "c"}])])),
            ]),
        ),
        ("volumeMounts", mounts()),
        ("envFrom", one(&[json!([]), json!([{"configMapRef": {"name": "m"}}])])),
        (
            "ports",
            list(&[
                json!({"containerPort": 6379}),
                json!({"containerPort": 6379, "protocol": "UDP"}),
                json!({"containerPort": 8265, "name": "dashboard", "protocol": "TCP"}),
            ]),
        ),
        ("volumeDevices", one(&[json!([]), json!([{"name": "f", "devicePath": "/dev/f"}])])),
        ("terminationMessagePolicy", one(&[json!("File"), json!("FallbackToLogsOnError")])),
        ("lifecycle", one(&[json!({}), json!({"preStop": {"exec": {"command": ["true"]}}})])),
        ("newer", one(&[json!({"deep": []})])),
    ]);
    (select(vec!["ray-head", "ray-worker", "main"]), rest)
        .prop_map(|(name, mut rest)| {
            rest["name"] = name.into();
            rest
        })
        .boxed()
}

fn template() -> BoxedStrategy<Value> {
    let others = list(&[
        json!({"name": "side", "image": "s", "volumeMounts": [{"name": "a", "mountPath": "/s"}], "resources": {"limits": {"cpu": "500m"}}}),
        json!({"name": "bare"}),
        json!({"name": "ray-head", "image": "odd"}),
    ]);
    let containers = (ray_container(), others).prop_map(|(ray, others)| {
        let others = others.as_array().cloned().unwrap();
        std::iter::once(ray).chain(others).collect::<Value>()
    });
    let spec = some(vec![
        (
            "volumes",
            list(&[
                json!({"name": "a", "emptyDir": {}}),
                json!({"name": "b", "persistentVolumeClaim": {"claimName": "data"}}),
                json!({"name": "c", "configMap": {"name": "code", "defaultMode": 416}}),
                json!({"name": "d", "csi": {"driver": "x"}}),
                json!({"name": "f", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}),
                json!({"name": "g"}),
            ]),
        ),
        (
            "initContainers",
            one(&[json!([]), json!([{"name": "i", "image": "i", "volumeMounts": [{"name": "b", "mountPath": "/i"}]}])]),
        ),
        (
            "imagePullSecrets",
            one(&[
                json!([]),
                json!([{"name": "r"}]),
                json!([{"name": "r"}, {}]),
                json!([{"name": "r"}, {"name": "r"}]),
            ]),
        ),
        ("nodeSelector", map(&["disk", "zone"], &[json!("a"), json!("b")])),
        ("tolerations", list(&[json!({"key": "spot"}), json!({"operator": "Exists", "newer": true})])),
        ("serviceAccountName", one(&[json!("robot"), json!("")])),
        ("securityContext", one(&[json!({}), json!({"runAsUser": 7})])),
        ("priorityClassName", one(&[json!("high")])),
        ("affinity", one(&[json!({}), json!({"nodeAffinity": {}})])),
        (
            "topologySpreadConstraints",
            one(&[json!([]), json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}])]),
        ),
        ("restartPolicy", one(&[json!("Never"), json!("Always")])),
        ("newer", one(&[json!(1)])),
    ]);
    let spec = (spec, proptest::option::weighted(0.95, containers)).prop_map(|(mut spec, containers)| {
        if let Some(containers) = containers {
            spec["containers"] = containers;
        }
        spec
    });
    let metadata = some(vec![
        ("labels", map(&["app", "ray.io/cluster", "ray.io/mine"], &[json!("x"), json!("y")])),
        ("annotations", map(&["note", "ray.io/ft-enabled"], &[json!("true"), json!("½")])),
        ("finalizers", one(&[json!([]), json!(["a/b"])])),
    ]);
    some(vec![("metadata", metadata), ("spec", spec.boxed())])
}

fn entry(others: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let mut members = vec![
        ("rayStartParams", map(&["num-cpus", "block", "labels", "redis-username"], &[json!("0"), json!("true")])),
        ("labels", map(&["zone", "ray.io/group"], &[json!("a"), json!("b")])),
        ("resources", map(&["CPU", "x"], &[json!("4"), json!("8")])),
        ("newer", one(&[json!([1]), json!({})])),
    ];
    members.extend(others);
    (some(members), template())
        .prop_map(|(mut entry, template)| {
            entry["template"] = template;
            entry
        })
        .boxed()
}

fn group() -> BoxedStrategy<Value> {
    let count = || (0..5_i32).prop_map(Value::from).boxed();
    let others = vec![
        ("replicas", count()),
        ("minReplicas", count()),
        ("maxReplicas", one(&[json!(3), json!(10), json!(-1), json!(2_147_483_647)])),
        ("numOfHosts", one(&[json!(1), json!(0), json!(4)])),
        ("idleTimeoutSeconds", one(&[json!(60)])),
        ("priority", one(&[json!(-3)])),
        ("scaleStrategy", one(&[json!({"workersToDelete": []}), json!({"workersToDelete": ["x"]})])),
        ("suspend", one(&[json!(true)])),
    ];
    (select(vec!["a", "b", "c", "odd/name"]), entry(others))
        .prop_map(|(name, mut entry)| {
            entry["groupName"] = name.into();
            entry
        })
        .boxed()
}

pub(super) fn ray_cluster_object() -> BoxedStrategy<Value> {
    let head = entry(vec![
        ("serviceType", one(&[json!("NodePort"), json!("Odd")])),
        ("enableIngress", one(&[json!(true), json!(false)])),
        (
            "headService",
            one(&[
                json!({}),
                json!({"metadata": {"name": "h", "labels": {"ray.io/cluster": "h"}}, "spec": {"ports": []}}),
            ]),
        ),
        ("ingressOptions", one(&[json!({"host": "h"})])),
    ]);
    let spec = some(vec![
        ("rayVersion", one(&[json!("2.52.0"), json!("2.9.3"), json!("no version")])),
        ("suspend", one(&[json!(true), json!(false)])),
        ("enableInTreeAutoscaling", one(&[json!(true), json!(false)])),
        (
            "autoscalerOptions",
            one(&[
                json!({}),
                json!({"version": "v2"}),
                json!({"idleTimeoutSeconds": 60, "resources": {"limits": {"cpu": "500m"}}, "newer": 1}),
            ]),
        ),
        ("gcsFaultToleranceOptions", one(&[json!({}), json!({"redisAddress": "r:1"})])),
        (
            "authOptions",
            one(&[
                json!({}),
                json!({"mode": "token"}),
                json!({"mode": "token", "enableK8sTokenAuth": true, "secretName": "s"}),
            ]),
        ),
        ("upgradeStrategy", one(&[json!({"type": "None"})])),
        ("headServiceAnnotations", map(&["x", "y/z"], &[json!("1")])),
        ("managedBy", one(&[json!("ray.io/kuberay-operator")])),
        ("networkPolicy", one(&[json!({"mode": "DenyAll"})])),
        ("workerGroupSpecs", proptest::collection::vec(group(), 0..4).prop_map(Value::from).boxed()),
    ]);
    let metadata = some(vec![
        ("labels", map(&["team", "ray.io/originated-from-crd"], &[json!("x"), json!("RayJob")])),
        (
            "annotations",
            map(
                &["note", "raygate.dev/anything", DELETION_PROTECTION, "ray.io/ft-enabled"],
                &[json!("v1"), json!("true")],
            ),
        ),
        ("finalizers", one(&[json!(["a/b"])])),
    ]);
    let spec = proptest::option::weighted(
        0.97,
        (spec, proptest::option::weighted(0.97, head)).prop_map(|(mut spec, head)| {
            if let Some(head) = head {
                spec["headGroupSpec"] = head;
            }
            spec
        }),
    );
    (metadata, spec)
        .prop_map(|(mut metadata, spec)| {
            metadata["name"] = "demo".into();
            metadata["namespace"] = "default".into();
            let mut object = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata});
            if let Some(spec) = spec {
                object["spec"] = spec;
            }
            // Kubernetes applies the CRD's defaults whenever an object is read.
            ray_cluster().apply_defaults(&mut object);
            object
        })
        .boxed()
}

fn volume() -> BoxedStrategy<Value> {
    one(&[
        json!({"claim": "data", "mountPath": "/1"}),
        json!({"configMap": {"name": "code", "items": []}, "mountPath": "/2", "readOnly": true}),
        json!({"emptyDir": {"sizeLimit": "1Gi"}, "mountPath": "/3"}),
        json!({"emptyDir": {"sizeLimit": "1024Mi"}, "mountPath": "/3"}),
        json!({"secret": {"secretName": "s"}, "mountPath": "/a"}),
        json!({"hostPath": {"path": "/h", "type": ""}, "mountPath": "/b2"}),
        json!({"claim": {"claimName": "data", "readOnly": true}, "mountPath": "/n", "subPath": "x"}),
    ])
}

fn node(others: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let mut members = vec![
        ("cpu", one(&quantities())),
        ("memory", one(&quantities())),
        ("gpu", one(&[json!("1"), json!(2)])),
        (
            "resources",
            some(vec![
                ("limits", map(&["ephemeral-storage", "google.com/tpu", "intel.com/gpu"], &quantities())),
                ("requests", map(&["ephemeral-storage", "google.com/tpu"], &quantities())),
            ]),
        ),
        ("imagePullPolicy", one(&[json!("IfNotPresent")])),
        ("imagePullSecrets", one(&[json!([]), json!(["r"]), json!(["r", "q"])])),
        (
            "env",
            map(&["E", "A", "Z", "C"], &[json!(""), json!("1"), json!({"fieldRef": {"fieldPath": "status.podIP"}})]),
        ),
        ("rayStartParams", map(&["num-cpus", "x"], &[json!("0")])),
        ("labels", map(&["app", "b"], &[json!("x")])),
        ("annotations", map(&["note", "m"], &[json!("x")])),
        ("rayLabels", map(&["zone"], &[json!("b")])),
        ("rayResources", map(&["CPU"], &[json!("8")])),
        ("nodeSelector", map(&["disk", "b"], &[json!("a")])),
        ("tolerations", list(&[json!({"key": "spot"}), json!({"key": "b"})])),
        ("serviceAccount", one(&[json!("robot"), json!("other")])),
        ("priorityClassName", one(&[json!("low")])),
        ("securityContext", one(&[json!({}), json!({"fsGroup": 1})])),
        (
            "volumes",
            some(vec![
                ("b", volume()),
                ("nowhere", volume()),
                (
                    "e",
                    volume()
                        .prop_map(|mut volume| {
                            volume["mountPath"] = json!("/e");
                            volume
                        })
                        .boxed(),
                ),
            ]),
        ),
        (
            "podTemplate",
            one(&[
                json!({}),
                json!({"spec": {"hostNetwork": true}}),
                json!({"metadata": {"finalizers": ["x/y"]}, "spec": {"affinity": {}}}),
                json!({"spec": {"containers": [{"name": "main", "tty": true}, {"name": "side", "image": "s"}]}}),
                json!({"spec": {"containers": [{"name": "bare", "image": "b"}, {"name": "side", "image": "s"}]}}),
                json!({"spec": {"containers": [{"name": "ray-head", "ports": [{"containerPort": 1}], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
                "volumes": [{"name": "d", "csi": {"driver": "y"}}]}}),
                json!({"spec": {"initContainers": [{"name": "i", "image": "i", "volumeMounts": [{"name": "b", "mountPath": "/i"}]}]}}),
                json!({"spec": {"containers": [{"name": "ray-worker", "envFrom": [{"secretRef": {"name": "x"}}], "env": [{"name": "E", "value": "1"}, {"name": "Q", "value": "2"}], "ports": [{"containerPort": 6379, "protocol": "UDP"}]}]}}),
                json!({"spec": {"containers": [{"name": "ray-head", "resources": {"limits": {"google.com/tpu": "4"}, "claims": [{"name": "c"}]}}], "volumes": [{"name": "q", "emptyDir": {}}]}}),
                json!({"spec": {"containers": [{"name": "ray-head", "volumeMounts": [{"name": "a", "mountPath": "/zz"}, {"name": "a", "mountPath": "/a"}]}], "volumes": [{"name": "a", "emptyDir": {}}, {"name": "g", "emptyDir": {}}]}}),
                json!({"metadata": {"labels": {"ray.io/cluster": "z", "pl": "x"}, "annotations": {"raygate.dev/q": "1"}}}),
            ]),
        ),
    ];
    members.extend(others);
    some(members)
}

/// What people write: without the name.
fn wanted() -> BoxedStrategy<Value> {
    let count = || (1..3_i32).prop_map(Value::from).boxed();
    let group = || {
        node(vec![
            ("replicas", count()),
            ("minReplicas", one(&[json!(0), json!(1)])),
            ("maxReplicas", one(&[json!(3), json!(9)])),
            ("numOfHosts", count()),
            ("image", one(&[json!("mine:1"), json!("own:3")])),
        ])
    };
    some(vec![
        ("labels", map(&["team", "b"], &[json!("x")])),
        ("annotations", map(&["note", "c"], &[json!("x")])),
        ("rayVersion", one(&[json!("2.52.0"), json!("2.53.0")])),
        ("image", one(&[json!("mine:1"), json!("rayproject/ray:2.53.0")])),
        ("suspended", one(&[json!(true), json!(false)])),
        (
            "autoscaling",
            one(&[
                json!({}),
                json!({"enabled": true}),
                json!({"enabled": true, "version": "v2"}),
                json!({"enabled": false, "upscalingMode": "Default"}),
            ]),
        ),
        ("gcsFaultTolerance", one(&[json!({"redisAddress": "q:2"})])),
        ("auth", one(&[json!({"mode": "disabled"}), json!({})])),
        (
            "headService",
            one(&[
                json!({}),
                json!({"type": "ClusterIP", "annotations": {"x": "2"}}),
                json!({"metadata": {"name": "n"}}),
            ]),
        ),
        ("ingress", one(&[json!({"enabled": true}), json!({})])),
        ("deletionProtection", one(&[json!(true), json!(false)])),
        ("head", node(Vec::new())),
        ("workerGroups", some(vec![("c", group()), ("a", group()), ("new", group())])),
    ])
}

/// A merge patch: members of a document, some of them taken away.
pub(super) fn patch() -> BoxedStrategy<Value> {
    let removals = subsequence(
        vec![
            "/labels",
            "/image",
            "/suspended",
            "/autoscaling",
            "/auth",
            "/headService",
            "/ingress",
            "/head/cpu",
            "/head/env",
            "/head/podTemplate",
            "/head/volumes",
            "/head/volumes/a",
            "/head/resources",
            "/head/nodeSelector",
            "/workerGroups/a",
            "/workerGroups/b",
            "/workerGroups/a/image",
            "/workerGroups/a/replicas",
            "/head/gpu",
            "/head/gpuResource",
            "/head/memory",
            "/head/volumes/b",
            "/head/env/A",
            "/head/env/C",
            "/head/resources/limits",
            "/head/podTemplate/spec/volumes",
            "/head/podTemplate/spec/containers",
            "/head/podTemplate/spec/initContainers",
            "/head/podTemplate/metadata",
            "/head/imagePullSecrets",
            "/autoscaling/enabled",
            "/headService/type",
            "/ingress/enabled",
            "/workerGroups/a/maxReplicas",
            "/workerGroups/c",
            "/workerGroups/a/podTemplate",
            "/workerGroups/a/volumes",
            "/workerGroups/a/env",
            "/deletionProtection",
        ],
        0..9,
    );
    (wanted(), removals)
        .prop_map(|(mut patch, removals)| {
            for removal in removals {
                let tokens: Vec<_> = removal.split('/').skip(1).collect();
                put(&mut patch, &tokens, Value::Null);
            }
            patch
        })
        .boxed()
}

/// Takes away the members that a wanted document may leave to their owner.
fn without_replicas(mut document: Document, and: &Document) -> Document {
    for group in document.0.get_mut("workerGroups").and_then(Value::as_object_mut).into_iter().flatten() {
        if and.group(group.0).is_none_or(|group| !group.contains_key("replicas"))
            && let Some(group) = group.1.as_object_mut()
        {
            group.shift_remove("replicas");
        }
    }
    document
}

/// After a write that was taken, what is wanted is seen, and putting that back changes nothing.
fn obeys(held: &Value, wanted: Value) -> Result<(), TestCaseError> {
    let (wanted, faults) = Document::read(wanted);
    let Ok(done) = edit(held, wanted.clone(), faults) else { return Ok(()) };
    let mut named = wanted.clone();
    for member in ["name", "namespace"] {
        named.0.insert(member.to_owned(), held["metadata"][member].clone());
    }
    let (expected, after) = (normal(&named), view(&done.object).document);
    // Hidden while the autoscaler is on, and shown as held once it is off.
    let after = if view(held).document.autoscaling() { without_replicas(after, &named) } else { after };
    let expected = without_replicas(expected, &after);
    prop_assert!(is_same(&after, &expected), "seen {:?}\nwanted {:?}\nin {}", after, expected, done.object);
    let again = edit(&done.object, view(&done.object).document, Vec::new());
    prop_assert_eq!(again.map(|edit| edit.object), Ok(done.object.clone()));
    Ok(())
}

/// Equal but for the spelling of quantities, and for the order of entries that other members hold too: one that moves
/// between such a member and `podTemplate` keeps its place in the RayCluster.
fn is_same(one: &Document, other: &Document) -> bool {
    fn same(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let shared = |name: &str| matches!(name, "env" | "volumes" | "volumeMounts");
                let both = |name: &str, one: &Value, other: &Value| {
                    if shared(name) { same(&sorted(one), &sorted(other)) } else { same(one, other) }
                };
                one.len() == other.len()
                    && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| both(name, value, other)))
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
            }
            _ => is_same_quantity(one, other),
        }
    }
    fn sorted(list: &Value) -> Value {
        let Some(items) = list.as_array() else { return list.clone() };
        let mut items = items.clone();
        items.sort_by_key(|item| (item["name"].to_string(), item["mountPath"].to_string()));
        items.into()
    }
    same(&Value::Object(one.0.clone()), &Value::Object(other.0.clone()))
}

/// Plants a member at every object that no document shows, and says where.
fn plant(object: &mut Value) -> Vec<String> {
    let mut places = vec!["/metadata/finalizers".to_owned()];
    object["metadata"]["finalizers"] = json!(["kept/by-another"]);
    let mut spots = vec!["/spec".to_owned(), "/spec/headGroupSpec".to_owned()];
    let groups = object["spec"]["workerGroupSpecs"].as_array().map_or(0, Vec::len);
    spots.extend((0..groups).map(|index| format!("/spec/workerGroupSpecs/{index}")));
    for spot in spots {
        if let Some(members) = object.pointer_mut(&spot).and_then(Value::as_object_mut) {
            members.insert("planted".to_owned(), json!({"by": ["another", null]}));
            places.push(format!("{spot}/planted"));
        }
    }
    places
}

proptest! {
    #![proptest_config(config(11))]

    /// The first law: to want what is seen writes nothing and is never refused.
    #[test]
    fn wanting_what_is_seen_changes_nothing(object in ray_cluster_object()) {
        let (wanted, faults) = Document::read(seen(&object));
        let done = edit(&object, wanted, faults);
        prop_assert_eq!(done.map(|edit| edit.object), Ok(object.clone()));
        let seen = view(&object).document;
        prop_assert!(is_same(&normal(&seen), &normal(&normal(&seen))), "the normal form is one");
    }

    /// The second law, for a document that is put.
    #[test]
    fn what_is_put_is_seen(object in ray_cluster_object(), mut wanted in wanted()) {
        if wanted.get("rayVersion").is_none() {
            wanted["rayVersion"] = json!("2.54.0");
        }
        obeys(&object, wanted)?;
    }

    /// The second law, for a patch.
    #[test]
    fn what_is_patched_is_seen(object in ray_cluster_object(), patch in patch()) {
        let mut wanted = seen(&object);
        json::merge(&mut wanted, &patch);
        obeys(&object, wanted)?;
    }

    /// The second law, from one built document to another.
    #[test]
    fn what_is_put_over_what_was_put_is_seen(before in wanted(), after in wanted()) {
        let named = |mut wanted: Value| {
            wanted["name"] = json!("demo");
            wanted["namespace"] = json!("default");
            wanted["rayVersion"] = json!("2.52.0");
            wanted
        };
        let (before, faults) = Document::read(named(before));
        if faults.is_empty() {
            obeys(&build(&before), named(after))?;
        }
    }

    /// The third law: what no view can show survives every write.
    #[test]
    fn what_cannot_be_seen_survives(mut object in ray_cluster_object(), patch in patch()) {
        let places = plant(&mut object);
        let partial = view(&object).partial;
        let mut wanted = seen(&object);
        json::merge(&mut wanted, &patch);
        let (wanted, faults) = Document::read(wanted);
        let Ok(done) = edit(&object, wanted.clone(), faults) else { return Ok(()) };
        for place in places {
            let group = place.strip_prefix("/spec/workerGroupSpecs/").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
            let name = group.map(|index| object["spec"]["workerGroupSpecs"][index]["groupName"].as_str().unwrap());
            // A group that is taken away goes with all it has.
            if name.is_some_and(|name| wanted.group(name).is_none()) {
                continue;
            }
            let stays = match name {
                Some(name) => {
                    let planted = |object: &Value| {
                        let groups = object["spec"]["workerGroupSpecs"].as_array().cloned().unwrap_or_default();
                        groups.into_iter().filter(|group| group["groupName"] == name).map(|group| group["planted"].clone()).collect::<Vec<_>>()
                    };
                    prop_assert_eq!(planted(&done.object), planted(&object), "{}", place);
                    continue;
                }
                None => done.object.pointer(&place),
            };
            prop_assert_eq!(stays, object.pointer(&place), "{}", place);
            if place.ends_with("planted") {
                let field = place.trim_start_matches('/').replace('/', ".");
                prop_assert!(partial.contains(&field), "{} isn't named in {:?}", field, partial);
            }
        }
    }

    /// A label alone changes a label alone, and is never refused.
    #[test]
    fn a_label_changes_a_label(object in ray_cluster_object()) {
        // A spec without a head can't be stored, so every write makes it whole.
        prop_assume!(object["spec"].get("headGroupSpec").is_some());
        let mut wanted = object.clone();
        put(&mut wanted, &["metadata", "labels", "new"], json!("x"));
        prop_assert_eq!(patched(&object, &json!({"labels": {"new": "x"}})), Ok(wanted));
    }

    /// Reserved keys of pod templates are neither lost nor changed.
    #[test]
    fn reserved_keys_stay(object in ray_cluster_object(), patch in patch()) {
        let Ok(after) = patched(&object, &patch) else { return Ok(()) };
        let reserved = |object: &Value, member: &str| -> Map<String, Value> {
            let keys = &object["spec"]["headGroupSpec"]["template"]["metadata"][member];
            let keys = keys.as_object().cloned().unwrap_or_default();
            keys.into_iter().filter(|(key, _)| is_reserved_key(key)).collect()
        };
        for member in ["labels", "annotations"] {
            prop_assert_eq!(reserved(&after, member), reserved(&object, member));
        }
    }

    /// A write changes no template but those it was asked to change.
    #[test]
    fn what_is_not_asked_for_stays(object in ray_cluster_object(), count in 0..3_i32) {
        let Some(group) = object["spec"]["workerGroupSpecs"].as_array().and_then(|groups| groups.first()).cloned() else { return Ok(()) };
        let patch = json!({"workerGroups": {group["groupName"].as_str().unwrap(): {"minReplicas": count}}});
        let Ok(after) = patched(&object, &patch) else { return Ok(()) };
        // A spec without a head can't be stored, so every write makes it whole.
        prop_assume!(object["spec"].get("headGroupSpec").is_some());
        let mut wanted = object.clone();
        let before = &view(&object).document;
        let name = group["groupName"].as_str().unwrap();
        let held = before.group(name).and_then(|group| group.get("minReplicas")).cloned();
        if held != Some(json!(count)) {
            wanted["spec"]["workerGroupSpecs"][0]["minReplicas"] = json!(count);
        }
        let mut after = after;
        let lone = before.group(name).is_some_and(|group| !group.contains_key("replicas"));
        if lone && !before.autoscaling() {
            // Left out it is the lower bound, so it moves with that.
            wanted["spec"]["workerGroupSpecs"][0]["replicas"] = Value::Null;
            after["spec"]["workerGroupSpecs"][0]["replicas"] = Value::Null;
        }
        prop_assert_eq!(after, wanted);
    }
}

proptest! {
    #![proptest_config(config(12))]

    /// The first law for a whole RayCluster.
    #[test]
    fn putting_back_what_is_held_changes_nothing(object in ray_cluster_object()) {
        // Kubernetes stores no empty maps there.
        prop_assume!(["labels", "annotations"].iter().all(|member| object["metadata"][member] != json!({})));
        let (manifest, faults) = Manifest::read(object.clone());
        prop_assert_eq!(manifest.replace(&object, faults).map(|edit| edit.object), Ok(object.clone()));
    }

    /// The second law for a whole RayCluster.
    #[test]
    fn what_is_put_whole_is_seen(held in ray_cluster_object(), wanted in ray_cluster_object()) {
        let (manifest, faults) = Manifest::read(wanted.clone());
        let Ok(done) = manifest.replace(&held, faults) else { return Ok(()) };
        let (mut seen, mut wanted) = (view(&done.object).document, view(&wanted).document);
        for document in [&mut seen, &mut wanted] {
            // A reserved annotation stays as it is held.
            document.0.shift_remove("deletionProtection");
        }
        prop_assert!(is_same(&seen, &wanted), "seen {:?}\nwanted {:?}", seen, wanted);
    }
}
