//! The parts of the small model, each from the outside: a name, a command, a pod in, what is said of it out.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::manager::memory::command::{Run, run};
use crate::manager::memory::image::Reference;
use crate::manager::memory::reference::{Object, Objects};
use crate::manager::memory::scheduler::{Nodes, requests};
use crate::ray::quantity::Quantity;

fn container(image: &str, command: &Value) -> Container {
    serde_json::from_value(json!({"name": "main", "image": image, "command": command})).unwrap()
}

/// Exit code and output of a container that ends; `None` of one that doesn't.
fn fate(image: &str, command: &Value) -> Option<(i32, String)> {
    match run(&container(image, command), false) {
        Run::Ends(ending) => Some((ending.exit_code, ending.output)),
        Run::Forever => None,
        Run::Refused(message) => panic!("{message}"),
    }
}

#[test]
fn commands_are_foretold() {
    let shell = |script: &str| fate("busybox:1.36", &json!(["sh", "-c", script]));
    let ends = |code: i32| Some((code, String::new()));
    let table = [
        ("exit 3", ends(3)),
        ("exit", ends(0)),
        ("exit 256", ends(0)),
        ("exit -1", ends(255)),
        ("false", ends(1)),
        ("true; false", ends(1)),
        ("false; true", ends(0)),
        ("false && exit 7", ends(1)),
        ("false || exit 7", ends(7)),
        ("true || exit 7", ends(0)),
        ("cp a b && exit 5", ends(5)),
        ("sh -c 'exit 42'", ends(42)),
        ("sh -c \"sh -c 'exit 42'\"; exit 1", ends(1)),
        ("# a comment; exit 9\nexit 2", ends(2)),
        ("echo 'exit 9'; exit 2", Some((2, "exit 9\n".to_owned()))),
        ("echo a   b; echo c", Some((0, "a b\nc\n".to_owned()))),
        ("nosuch", Some((127, "sh: nosuch: not found\n".to_owned()))),
        // What nobody knows runs for ever where it comes last.
        ("serve", None),
        ("exit $CODE", None),
        ("sleep infinity", None),
        ("sleep 1e300", None),
        ("while true; do sleep 1; done", None),
        ("exit 1 | tee log", None),
        ("exit 1 > log", None),
        ("set -e; false", None),
        ("echo 'no end", None),
        ("", ends(0)),
    ];
    for (script, expected) in table {
        assert_eq!(shell(script), expected, "{script}");
    }
    let slept = |script: &str| match run(&container("busybox", &json!(["sh", "-c", script])), false) {
        Run::Ends(ending) => ending.after,
        run @ (Run::Forever | Run::Refused(_)) => panic!("{run:?}"),
    };
    assert_eq!(slept("sleep 2m; sleep 5; exit 1"), Duration::from_secs(125));
    assert_eq!(fate("rayproject/ray:2.52.0", &json!([])), None);
    assert_eq!(fate("python:3.11", &json!([])), ends(0), "nobody talks to it");
    assert_eq!(fate("nginx", &json!([])), None);
    assert_eq!(run(&container("nginx", &json!(["serve"])), true), run(&container("nginx", &json!(["true"])), false));
    for absent in ["nosuch", "/opt/missing/run", "pyhton", "exit"] {
        let found = run(&container("rayproject/ray:2.52.0", &json!([absent])), false);
        assert!(matches!(&found, Run::Refused(message) if message.contains(absent)), "{found:?}");
    }
}

#[test]
fn images_are_known_by_name_and_tag() {
    let answer = |image: &str| {
        let reference = Reference::parse(image).map_err(|error| format!("parse: {error}"))?;
        reference.pull(image, &["acme/*".to_owned(), "registry.example.com/*/ray:*-x".to_owned()], false)
    };
    let there = [
        "rayproject/ray:2.52.0",
        "docker.io/rayproject/ray:2.52.0-py312-gpu",
        "rayproject/ray:nightly-py310-cu128",
        "rayproject/ray:2.9.3.abc123-py310",
        "rayproject/ray",
        "rayproject/ray-ml:1.13.0",
        "busybox",
        "library/python:3.11",
        "quay.io/kuberay/operator:v1.6.2",
        "acme/anything:at-all",
        "registry.example.com/a/b/ray:1-x",
    ];
    for image in there {
        assert_eq!(answer(image), Ok(()), "{image}");
    }
    let not_found = ["rayproject/ray:9.9.9", "rayproject/ray:2.52", "nginx:doesnotexist", "quay.io/acme/tool:7"];
    let denied = ["acmes/no-such-thing:1.0", "rayproject/rya:2.52.0", "raay"];
    let no_host = ["registry.invalid/ray:1"];
    let unauthorized = ["private.example.com/team/ray:1"];
    let invalid = ["", ":1", "a b", "ray:2.52.0:oops", "ray:", "ray@sha256:12", "-a/b:1", "a//b", "a/b/", "ray:-x"];
    let cases = [
        (&not_found[..], ": not found"),
        (&denied, "insufficient_scope: authorization failed"),
        (&no_host, "lookup registry.invalid on 10.96.0.10:53: no such host"),
        (&unauthorized, "401 Unauthorized"),
        (&invalid, "parse: invalid reference format"),
        (
            &["rayproject/Ray:2.52.0"],
            "parse: invalid reference format: repository name (rayproject/Ray) must be lowercase",
        ),
    ];
    for (images, end) in cases {
        for image in images {
            let error = answer(image).unwrap_err();
            assert!(error.ends_with(end), "{image}: {error}");
        }
    }
    let private = Reference::parse("private.example.com/team/ray:1").unwrap();
    assert_eq!(private.pull("private.example.com/team/ray:1", &[], true), Ok(()));
    let digest = format!("busybox@sha256:{}", "0".repeat(64));
    assert_eq!(Reference::parse(&digest).unwrap().full(), format!("docker.io/library/{digest}"));
}

#[test]
fn objects_are_read_as_they_are_written() {
    let objects: Objects =
        ["Secret/a:x,y", "configmap/b"].into_iter().map(|text| text.parse::<Object>().unwrap()).collect();
    for wrong in ["", "Secret", "Secret/", "Secret/:a", "Pod/a"] {
        assert!(wrong.parse::<Object>().is_err(), "{wrong}");
    }
    let mounts = |volume: Value| {
        objects.can_mount(&serde_json::from_value(json!({"containers": [], "volumes": [volume]})).unwrap())
    };
    assert!(mounts(json!({"name": "v", "secret": {"secretName": "a", "items": [{"key": "x", "path": "p"}]}})));
    assert!(!mounts(json!({"name": "v", "secret": {"secretName": "a", "items": [{"key": "z", "path": "p"}]}})));
    assert!(mounts(json!({"name": "v", "configMap": {"name": "b"}})));
    assert!(!mounts(json!({"name": "v", "configMap": {"name": "a"}})));
    assert!(mounts(json!({"name": "v", "configMap": {"name": "a", "optional": true}})));
    assert!(!mounts(json!({"name": "v", "projected": {"sources": [{"secret": {"name": "b"}}]}})));
    assert!(mounts(json!({"name": "v", "emptyDir": {}})));
    assert!(mounts(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})));
}

fn pod(spec: Value) -> PodSpec {
    serde_json::from_value(spec).unwrap()
}

#[test]
fn scheduler_says_which_machines_refuse_and_why() {
    let mut nodes = Nodes::new(3, &Quantity::from(4), &Quantity::from(1 << 30), 2);
    let mut place = |spec: Value| {
        let spec = pod(spec);
        let wanted = requests(&spec).unwrap();
        nodes.place(&spec, &wanted)
    };
    let one = |resources: Value| json!({"containers": [{"name": "a", "resources": resources}]});
    let refused = |reasons: &str, verdicts: &str| {
        Err(format!(
            "0/3 nodes are available: {reasons}. no new claims to deallocate, preemption: 0/3 nodes are available: {verdicts}."
        ))
    };
    let hopeless = "3 Preemption is not helpful for scheduling";
    // A limit alone is asked for too, and an init container counts where it wants more than all others.
    assert_eq!(place(one(json!({"limits": {"cpu": "4001m"}}))), refused("3 Insufficient cpu", hopeless));
    let init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "b", "resources": {"requests": {"memory": "2Gi"}}}]});
    assert_eq!(place(init), refused("3 Insufficient memory", hopeless));
    let tpu = one(json!({"limits": {"google.com/tpu": "1"}}));
    assert_eq!(place(tpu), refused("3 Insufficient google.com/tpu", hopeless));
    let mut picky = one(json!({"requests": {"cpu": "5"}}));
    picky["nodeSelector"] = json!({"kubernetes.io/hostname": "memory-node-2"});
    let reasons = "1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector";
    assert_eq!(place(picky), refused(reasons, hopeless));

    // As much as there is fits, evenly; what is taken refuses further ones, which hope.
    let whole = || one(json!({"requests": {"cpu": "4"}}));
    assert_eq!([place(whole()), place(whole()), place(whole())], [Ok(0), Ok(1), Ok(2)]);
    let full = "3 No preemption victims found for incoming pod";
    assert_eq!(place(one(json!({"requests": {"cpu": "1m"}}))), refused("3 Insufficient cpu", full));
    let wanted = requests(&pod(whole())).unwrap();
    nodes.release(1, &wanted);
    nodes.set_lost(0, true);
    assert_eq!(nodes.place(&pod(whole()), &wanted), Ok(1));
    let reasons = "1 node(s) had untolerated taint(s), 2 Insufficient cpu";
    let verdicts = "1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod";
    assert_eq!(nodes.place(&pod(whole()), &wanted), refused(reasons, verdicts));
}

#[test]
fn nothing_that_people_write_makes_it_panic() {
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let odd = r#"[a-z0-9 ;&|'"\\$(){}<>#=:/@._*\n€-]{0,40}|(sh -c |sleep |exit )[0-9a-z'" ]{0,20}"#;
    let outcome = runner.run(&(odd, odd), |(image, script)| {
        for command in [json!(["sh", "-c", script]), json!([script]), json!([])] {
            run(&container(&image, &command), false);
            run(&container(&image, &command), true);
        }
        if let Ok(reference) = Reference::parse(&image) {
            let full = reference.full();
            prop_assert_eq!(Reference::parse(&full).map(|again| again.full()), Ok(full), "read twice it is the same");
            let _ = reference.pull(&image, std::slice::from_ref(&script), false);
        }
        let _ = script.parse::<Object>();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn shells_in_shells_have_an_end() {
    let mut script = "exit 3".to_owned();
    for _ in 0..12 {
        script = format!("sh -c {}", serde_json::to_string(&script).unwrap());
    }
    assert_eq!(fate("busybox", &json!(["sh", "-c", script])), None);
}
