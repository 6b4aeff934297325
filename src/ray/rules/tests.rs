//! KubeRay's rules from the outside: for each what is refused and where, in a document and in a RayCluster, and the
//! nearest thing that isn't.

use serde_json::{Value, json};

use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode};
use crate::ray::json;
use crate::ray::lens::{Refusal, build, edit, view};
use crate::ray::manifest::Manifest;

use FaultCode::{ConflictingMembers, InvalidValue, OutOfRange, Required};

/// A document with this merged into it.
fn document(change: &Value) -> Value {
    let mut document =
        json!({"name": "demo", "rayVersion": "2.54.0", "head": {}, "workerGroups": {"w": {"replicas": 1}}});
    json::merge(&mut document, change);
    document
}

/// The RayCluster of such a document, with this merged into it.
fn cluster(change: &Value, after: &Value) -> Value {
    let (document, _) = Document::read(document(change));
    let mut object = build(&document);
    json::merge(&mut object, after);
    object
}

type Places = Vec<(String, FaultCode)>;

fn places(faults: Vec<Fault>) -> Places {
    let mut places: Vec<_> = faults.into_iter().map(|fault| (fault.pointer, fault.code)).collect();
    places.sort_by(|a, b| a.0.cmp(&b.0));
    places
}

/// The change breaks this one rule, at this place of the document and this place of the RayCluster.
struct Broken {
    change: Value,
    code: FaultCode,
    member: &'static str,
    field: &'static str,
}

fn broken(change: Value, code: FaultCode, member: &'static str, field: &'static str) -> Broken {
    Broken { change, code, member, field }
}

/// A container's entry in the head's `podTemplate` with these variables.
fn template_env(env: &Value) -> Value {
    json!({"podTemplate": {"spec": {"containers": [{"name": "side", "image": "i"}, {"name": "ray-head", "env": env}]}}})
}

const HEAD_ENV: &str = "/spec/headGroupSpec/template/spec/containers/0/env/0";
const FT: &str = "ray.io/ft-enabled";

fn nodes() -> Vec<Broken> {
    let v2 = json!({"enabled": true, "version": "v2"});
    let mut all = Vec::new();
    for (node, at, field) in [
        (json!(["head"]), "/head", "/spec/headGroupSpec"),
        (json!(["workerGroups", "w"]), "/workerGroups/w", "/spec/workerGroupSpecs/0"),
    ] {
        let within = |change: Value| {
            let steps = node.as_array().cloned().unwrap_or_default();
            steps.iter().rev().fold(change, |inner, step| json!({step.as_str().unwrap_or_default(): inner}))
        };
        let places = |place: &str| -> (&'static str, &'static str) {
            (format!("{at}/{place}").leak(), format!("{field}/{place}").leak())
        };
        let (member, there) = places("rayStartParams/labels");
        all.push(broken(within(json!({"rayStartParams": {"labels": ""}})), InvalidValue, member, there));
        for name in ["num-cpus", "num-gpus", "memory", "resources"] {
            let (member, there) = places(&format!("rayStartParams/{name}"));
            let change = json!({"rayStartParams": {name: "0"}, "rayResources": {"CPU": "4"}});
            all.push(broken(within(change), ConflictingMembers, member, there));
        }
        for policy in ["Always", "OnFailure"] {
            let (member, _) = places("podTemplate/spec/restartPolicy");
            let (_, there) = places("template/spec/restartPolicy");
            let mut change = within(json!({"podTemplate": {"spec": {"restartPolicy": policy}}}));
            change["autoscaling"] = v2.clone();
            all.push(broken(change, InvalidValue, member, there));
        }
    }
    all
}

fn autoscaler() -> Vec<Broken> {
    let idle = |change: Value| {
        let mut all = change;
        all["workerGroups"] = json!({"w": {"idleTimeoutSeconds": 60}});
        let field = "/spec/workerGroupSpecs/0/idleTimeoutSeconds";
        broken(all, InvalidValue, "/workerGroups/w/idleTimeoutSeconds", field)
    };
    let env = "/head/env/RAY_enable_autoscaler_v2";
    let on = |env: &str| json!({"head": {"env": {"RAY_enable_autoscaler_v2": env}}});
    let mut both = on("false");
    both["autoscaling"] = json!({"enabled": true, "version": "v1"});
    vec![
        idle(json!({})),
        idle(json!({"autoscaling": {"enabled": true}})),
        idle(json!({"autoscaling": {"enabled": true, "version": "v1"}})),
        idle(json!({"autoscaling": {"enabled": true}, "head": {"env": {"RAY_enable_autoscaler_v2": "True"}}})),
        broken(
            json!({"autoscaling": {"enabled": true, "idleTimeoutSeconds": -1}}),
            OutOfRange,
            "/autoscaling/idleTimeoutSeconds",
            "/spec/autoscalerOptions/idleTimeoutSeconds",
        ),
        broken(on("1"), InvalidValue, env, HEAD_ENV),
        broken(on("true"), InvalidValue, env, HEAD_ENV),
        broken(both, ConflictingMembers, env, HEAD_ENV),
        broken(
            json!({"head": template_env(&json!([{"name": "A", "value": "1"}, {"name": "RAY_enable_autoscaler_v2", "value": "1"}]))}),
            InvalidValue,
            "/head/podTemplate/spec/containers/1/env/1",
            "/spec/headGroupSpec/template/spec/containers/0/env/1",
        ),
        broken(
            json!({"autoscaling": {"env": [{"name": "A"}, {"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]}}),
            InvalidValue,
            "/autoscaling/env/1",
            "/spec/autoscalerOptions/env/1",
        ),
    ]
}

fn fault_tolerance() -> Vec<Broken> {
    let with = |mut change: Value| {
        change["gcsFaultTolerance"] = json!({"redisAddress": "redis:6379"});
        change
    };
    let env = |name: &str| json!({"head": {"env": {name: "x"}}});
    let (start, there) = ("/head/rayStartParams/", "/spec/headGroupSpec/rayStartParams/");
    let param = |name: &str| json!({"head": {"rayStartParams": {name: "x"}}});
    let param_places = |name: &str| -> (&'static str, &'static str) {
        (format!("{start}{name}").leak(), format!("{there}{name}").leak())
    };
    let (password, password_field) = param_places("redis-password");
    let (user, user_field) = param_places("redis-username");
    let mut all = vec![
        broken(with(param("redis-password")), ConflictingMembers, password, password_field),
        broken(with(env("REDIS_PASSWORD")), ConflictingMembers, "/head/env/REDIS_PASSWORD", HEAD_ENV),
        broken(with(env("RAY_REDIS_ADDRESS")), ConflictingMembers, "/head/env/RAY_REDIS_ADDRESS", HEAD_ENV),
        broken(
            with(json!({"annotations": {"ray.io/external-storage-namespace": "a"}})),
            ConflictingMembers,
            "/annotations/ray.io~1external-storage-namespace",
            "/metadata/annotations/ray.io~1external-storage-namespace",
        ),
        broken(env("RAY_REDIS_ADDRESS"), InvalidValue, "/head/env/RAY_REDIS_ADDRESS", HEAD_ENV),
        broken(
            json!({"annotations": {FT: "false"}, "head": {"env": {"RAY_REDIS_ADDRESS": {"secretKeyRef": {"name": "s", "key": "k"}}}}}),
            InvalidValue,
            "/head/env/RAY_REDIS_ADDRESS",
            HEAD_ENV,
        ),
        broken(param("redis-username"), InvalidValue, user, user_field),
        broken(with(param("redis-username")), InvalidValue, user, user_field),
        broken(env("REDIS_USERNAME"), InvalidValue, "/head/env/REDIS_USERNAME", HEAD_ENV),
    ];
    for said in ["true", "false", "x"] {
        let (member, field) = ("/annotations/ray.io~1ft-enabled", "/metadata/annotations/ray.io~1ft-enabled");
        all.push(broken(with(json!({"annotations": {FT: said}})), ConflictingMembers, member, field));
    }
    all
}

fn auth() -> Vec<Broken> {
    let (mode, mode_field) = ("/auth/mode", "/spec/authOptions/mode");
    let (tokens, tokens_field) = ("/auth/enableK8sTokenAuth", "/spec/authOptions/enableK8sTokenAuth");
    let token = |version: &str| json!({"rayVersion": version, "auth": {"mode": "token"}});
    let kubernetes =
        |version: &str| json!({"rayVersion": version, "auth": {"mode": "token", "enableK8sTokenAuth": true}});
    let mut named = kubernetes("2.55.0");
    named["auth"]["secretName"] = json!("mine");
    vec![
        broken(token("2.51.9"), InvalidValue, mode, mode_field),
        broken(token("2.9.3"), InvalidValue, mode, mode_field),
        broken(token("1.99.0-py311"), InvalidValue, mode, mode_field),
        broken(kubernetes("2.54.1"), InvalidValue, tokens, tokens_field),
        broken(json!({"auth": {"enableK8sTokenAuth": true}}), InvalidValue, tokens, tokens_field),
        broken(json!({"auth": {"mode": "disabled", "enableK8sTokenAuth": true}}), InvalidValue, tokens, tokens_field),
        broken(named, ConflictingMembers, "/auth/secretName", "/spec/authOptions/secretName"),
        broken(
            json!({"upgradeStrategy": {"type": "Sometimes"}}),
            InvalidValue,
            "/upgradeStrategy/type",
            "/spec/upgradeStrategy/type",
        ),
    ]
}

fn all() -> Vec<Broken> {
    [nodes(), autoscaler(), fault_tolerance(), auth()].into_iter().flatten().collect()
}

#[test]
fn each_rule_is_told_at_its_place_in_a_document() {
    for Broken { change, code, member, .. } in all() {
        let found = places(Document::read(document(&change)).1);
        assert_eq!(found, [(member.to_owned(), code)], "{change}");
    }
}

#[test]
fn each_rule_is_told_at_its_place_in_a_ray_cluster() {
    for Broken { change, code, field, .. } in all() {
        let found = places(Manifest::read(cluster(&change, &json!({}))).1);
        assert_eq!(found, [(field.to_owned(), code)], "{change}");
    }
}

#[test]
fn what_the_operator_takes_is_taken() {
    for change in [
        json!({"head": {"rayStartParams": {"num-cpus": "0", "block": "true"}, "rayLabels": {"zone": "a"}}}),
        json!({"head": {"rayStartParams": {"num-cpus": ""}, "rayResources": {"CPU": "4"}}}),
        json!({"head": {"rayStartParams": {"num-cpus": "0"}, "rayResources": {}}}),
        json!({"head": {"rayStartParams": {"num-cpus": "0"}}, "workerGroups": {"w": {"rayResources": {"CPU": "4"}}}}),
        json!({"autoscaling": {"enabled": true, "version": "v2", "idleTimeoutSeconds": 0}, "workerGroups": {"w": {"idleTimeoutSeconds": 0}}}),
        // The version alone matters, not whether the autoscaler is on.
        json!({"autoscaling": {"version": "v2"}, "workerGroups": {"w": {"idleTimeoutSeconds": 60}}}),
        json!({"autoscaling": {"enabled": true}, "head": {"env": {"RAY_enable_autoscaler_v2": "1"}}, "workerGroups": {"w": {"idleTimeoutSeconds": 60}}}),
        json!({"head": {"env": {"RAY_enable_autoscaler_v2": "0"}}}),
        json!({"workerGroups": {"w": {"env": {"RAY_enable_autoscaler_v2": "1", "REDIS_USERNAME": "x"}}}}),
        json!({"autoscaling": {"enabled": true, "version": "v2"}, "head": {"podTemplate": {"spec": {"restartPolicy": "Never"}}}}),
        json!({"autoscaling": {"enabled": true, "version": "v1"}, "head": {"podTemplate": {"spec": {"restartPolicy": "Always"}}}}),
        json!({"autoscaling": {"enabled": false, "version": "v2"}, "head": {"podTemplate": {"spec": {"restartPolicy": "Always"}}}}),
        json!({"gcsFaultTolerance": {"redisAddress": "r:1", "redisUsername": {"value": "u"}}, "annotations": {FT: ""}}),
        json!({"annotations": {FT: "True", "ray.io/external-storage-namespace": "a"}, "head": {"env": {"RAY_REDIS_ADDRESS": "r:1", "REDIS_PASSWORD": "x"}, "rayStartParams": {"redis-password": "x"}}}),
        json!({"head": {"env": {"REDIS_PASSWORD": "x"}}}),
        json!({"rayVersion": "2.52.0", "auth": {"mode": "token", "secretName": "mine"}}),
        json!({"rayVersion": "2.52", "auth": {"mode": "token"}}),
        json!({"rayVersion": "3.0.0.dev0", "auth": {"mode": "token", "enableK8sTokenAuth": true}}),
        json!({"rayVersion": "2.55.0-py311", "auth": {"mode": "token", "enableK8sTokenAuth": true, "secretName": ""}}),
        json!({"rayVersion": "2.40.0", "auth": {"mode": "disabled", "enableK8sTokenAuth": false}}),
        json!({"rayVersion": "2.40.0", "auth": {}}),
        json!({"upgradeStrategy": {"type": "None"}}),
    ] {
        assert_eq!(Document::read(document(&change)).1, [], "{change}");
        assert_eq!(Manifest::read(cluster(&change, &json!({}))).1, [], "{change}");
    }
}

/// `authOptions.mode is 'token' but RayVersion format is invalid` (validation.go).
#[test]
fn tokens_need_a_version_that_can_be_read() {
    let change = json!({"rayVersion": "nightly", "auth": {"mode": "token", "enableK8sTokenAuth": true}});
    let places = places(Document::read(document(&change)).1);
    assert_eq!(places.len(), 2, "{places:?}");
    assert_eq!(Document::read(document(&json!({"rayVersion": "nightly", "auth": {"mode": "disabled"}}))).1, []);
}

#[test]
fn priorities_are_for_a_newer_ray() {
    let v2 = json!({"version": "v2"});
    let found = |version: &str, autoscaling: &Value, priority: i32| {
        let change =
            json!({"rayVersion": version, "autoscaling": autoscaling, "workerGroups": {"w": {"priority": priority}}});
        places(Document::read(document(&change)).1).len()
    };
    assert_eq!([found("2.56.0", &v2, 1), found("nightly", &v2, -1)], [0, 0]);
    assert_eq!([found("2.55.9", &v2, 1), found("2.56.0", &json!({}), 1), found("2.55.9", &json!({}), -1)], [1, 1, 2]);
    assert_eq!(found("2.40.0", &json!({}), 0), 0, "0 is none");
}

#[test]
fn all_are_told_at_once() {
    let change = json!({
        "rayVersion": "2.40.0", "auth": {"mode": "token"}, "annotations": {FT: "true"},
        "gcsFaultTolerance": {"redisAddress": "r:1"},
        "head": {"env": {"REDIS_PASSWORD": "x"}, "rayStartParams": {"labels": "a=b"}},
        "workerGroups": {"w": {"idleTimeoutSeconds": 1}, "v": {"idleTimeoutSeconds": 1}},
    });
    let found: Vec<_> = places(Document::read(document(&change)).1).into_iter().map(|(at, _)| at).collect();
    let wanted = [
        "/annotations/ray.io~1ft-enabled",
        "/auth/mode",
        "/head/env/REDIS_PASSWORD",
        "/head/rayStartParams/labels",
        "/workerGroups/v/idleTimeoutSeconds",
        "/workerGroups/w/idleTimeoutSeconds",
    ];
    assert_eq!(found, wanted);
}

/// What no document shows, in a RayCluster: the document that it is made of, what is merged into it, and the fault.
fn hidden() -> Vec<(Value, Value, FaultCode, &'static str)> {
    let group = |rest: Value| {
        let mut group = json!({"groupName": "w", "template": {"spec": {"containers": [{"name": "r", "image": "i"}]}}});
        json::merge(&mut group, &rest);
        json!({"spec": {"workerGroupSpecs": [group]}})
    };
    let unversioned = json!({"spec": {"rayVersion": null}});
    vec![
        (
            json!({"autoscaling": {"enabled": true}}),
            group(json!({"suspend": true})),
            InvalidValue,
            "/spec/workerGroupSpecs/0/suspend",
        ),
        (
            json!({}),
            group(json!({"template": {"spec": {"containers": []}}})),
            Required,
            "/spec/workerGroupSpecs/0/template/spec/containers/0",
        ),
        (json!({"auth": {"mode": "token"}}), unversioned, Required, "/spec/rayVersion"),
    ]
}

#[test]
fn what_no_document_shows_is_judged_in_a_ray_cluster() {
    for (change, after, code, field) in hidden() {
        let found = places(Manifest::read(cluster(&change, &after)).1);
        assert_eq!(found, [(field.to_owned(), code)], "{after}");
    }
    let taken = cluster(&json!({}), &hidden()[0].1);
    assert_eq!(Manifest::read(taken).1, [], "suspended without the autoscaler");
}

/// What a document's patch does to a RayCluster.
fn patched(object: &Value, patch: &Value) -> Result<Places, Places> {
    let mut wanted = Value::Object(view(object).document.0);
    json::merge(&mut wanted, patch);
    let (wanted, faults) = Document::read(wanted);
    match edit(object, wanted, faults) {
        Ok(edit) => Ok(places(edit.standing)),
        Err(Refusal::Faults(faults)) => Err(places(faults)),
        Err(other @ (Refusal::AmbiguousGroup(_) | Refusal::AutoscalerOwns(_) | Refusal::GroupTerminating(_))) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn a_write_is_judged_by_what_it_changes() {
    for Broken { change, code, member, .. } in all() {
        // The CRD keeps it out.
        if member == "/upgradeStrategy/type" {
            continue;
        }
        let held = cluster(&change, &json!({}));
        let standing = patched(&held, &json!({"labels": {"a": "b"}}));
        // A variable that only `podTemplate` had is one of `env` once it is stored.
        let member =
            if member.contains("podTemplate/spec/containers") { "/head/env/RAY_enable_autoscaler_v2" } else { member };
        assert_eq!(standing, Ok(vec![(member.to_owned(), code)]), "{change}");
        let clean = cluster(&json!({}), &json!({}));
        assert!(patched(&clean, &change).is_err(), "{change}");
    }
    let on = cluster(
        &json!({"autoscaling": {"enabled": true, "version": "v2"}, "workerGroups": {"w": {"idleTimeoutSeconds": 60}}}),
        &json!({}),
    );
    let off = patched(&on, &json!({"autoscaling": {"version": "v1"}}));
    assert_eq!(off, Err(vec![("/workerGroups/w/idleTimeoutSeconds".to_owned(), InvalidValue)]));
    let old = cluster(&json!({"rayVersion": "2.40.0", "auth": {"mode": "token"}}), &json!({}));
    assert!(patched(&old, &json!({"rayVersion": "2.41.0"})).is_ok_and(|standing| standing.len() == 1));
    assert_eq!(patched(&old, &json!({"rayVersion": "2.52.0"})), Ok(Vec::new()));
}

#[test]
fn a_write_may_not_break_a_rule_on_what_it_cannot_see() {
    let suspended = cluster(&json!({}), &hidden()[0].1);
    let on = json!({"autoscaling": {"enabled": true}});
    assert_eq!(patched(&suspended, &on), Err(vec![("/workerGroups/w".to_owned(), InvalidValue)]));
    assert!(patched(&cluster(&json!({}), &json!({})), &on).is_ok());
    let running = cluster(&on, &hidden()[0].1);
    assert!(patched(&running, &json!({"labels": {"a": "b"}})).is_ok(), "it was so before");

    let made =
        |origin: &str| cluster(&json!({}), &json!({"metadata": {"labels": {"ray.io/originated-from-crd": origin}}}));
    let strategy = json!({"upgradeStrategy": {"type": "Recreate"}});
    for origin in ["RayJob", "RayService"] {
        assert_eq!(patched(&made(origin), &strategy), Err(vec![("/upgradeStrategy".to_owned(), InvalidValue)]));
        let mut wanted = cluster(&strategy, &json!({}));
        let (manifest, faults) = Manifest::read(wanted.take());
        let refused = manifest.replace(&made(origin), faults);
        assert!(matches!(refused, Err(Refusal::Faults(faults)) if faults[0].pointer == "/spec/upgradeStrategy/type"));
    }
    assert!(patched(&made("RayCluster"), &strategy).is_ok());
    let unversioned = cluster(&json!({"image": "mine:1", "rayVersion": null}), &json!({}));
    let token = patched(&unversioned, &json!({"auth": {"mode": "token"}}));
    assert_eq!(token, Err(vec![("/rayVersion".to_owned(), Required)]));
}
