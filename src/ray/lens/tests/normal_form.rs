//! Each rule of the normal form.

use super::*;

#[test]
fn a_name_alone_is_a_cluster() {
    let wanted =
        json!({"name": "demo", "rayVersion": "2.52.0", "suspended": false, "head": {"cpu": "1", "memory": "4Gi"}});
    assert_eq!(seen(&created(json!({"name": "demo"}))), wanted);
    assert_eq!(seen(&created(wanted.clone())), wanted, "what is seen can be sent again");
}

#[test]
fn what_is_said_otherwise_gets_no_default() {
    let head = json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "memory": "1Gi"});
    assert_eq!(seen(&created(json!({"name": "d", "head": head})))["head"], head);
    let template = json!({"spec": {"containers": [{"name": "ray-head", "resources": {"limits": {"cpu": "3"}}}]}});
    let made = created(json!({"name": "d", "head": {"podTemplate": template}}));
    assert_eq!(seen(&made)["head"], json!({"cpu": "3", "memory": "4Gi"}));
}

#[test]
fn order_is_kept() {
    let groups = json!({"z": {}, "a": {}});
    let made = created(json!({"name": "d", "workerGroups": groups, "head": {"env": {"B": "2", "A": "1"}}}));
    assert_eq!(made["spec"]["workerGroupSpecs"][0]["groupName"], "z");
    assert_eq!(made["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"][0]["name"], "B");
    let after = patched(&made, &json!({"workerGroups": {"m": {}}, "head": {"env": {"0": "x", "B": "3"}}})).unwrap();
    let names = |list: &Value, key: &str| {
        list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&after["spec"]["workerGroupSpecs"], "groupName"), ["z", "a", "m"]);
    assert_eq!(
        names(&after["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"], "name"),
        ["B", "A", "0"]
    );
}

#[test]
fn images_that_derive_are_left_out() {
    let of = |document: Value| seen(&created(document));
    assert_eq!(of(json!({"name": "d", "image": "rayproject/ray:2.52.0"}))["image"], Value::Null);
    assert_eq!(of(json!({"name": "d", "image": "x"}))["image"], "x");
    let groups = of(json!({"name": "d", "image": "x", "workerGroups": {"w": {"image": "x"}, "v": {"image": "y"}}}));
    assert_eq!(
        (&groups["workerGroups"]["w"]["image"], &groups["workerGroups"]["v"]["image"]),
        (&Value::Null, &json!("y"))
    );
}

#[test]
fn what_derives_moves_with_what_it_derives_from() {
    let made = created(json!({"name": "d", "workerGroups": {"w": {}, "own": {"image": "own:1"}}}));
    let image = |object: &Value, entry: &str| {
        object.pointer(&format!("/spec/{entry}/template/spec/containers/0/image")).unwrap().clone()
    };
    let after = patched(&made, &json!({"rayVersion": "2.53.0"})).unwrap();
    assert_eq!(image(&after, "headGroupSpec"), "rayproject/ray:2.53.0");
    assert_eq!(image(&after, "workerGroupSpecs/0"), "rayproject/ray:2.53.0");
    assert_eq!(image(&after, "workerGroupSpecs/1"), "own:1");
    let after = patched(&made, &json!({"image": "mine:2"})).unwrap();
    assert_eq!(
        (image(&after, "headGroupSpec"), image(&after, "workerGroupSpecs/0")),
        (json!("mine:2"), json!("mine:2"))
    );
}

#[test]
fn the_version_can_be_changed_not_removed() {
    let made = created(json!({"name": "d"}));
    let Err(Refusal::Faults(faults)) = put_back(&made, json!({"name": "d"})) else { panic!("it was taken") };
    assert_eq!((faults[0].pointer.as_str(), faults[0].code), ("/rayVersion", FaultCode::Required));
}

#[test]
fn a_container_without_an_image_is_left_alone_and_named() {
    let held = with_head(|head| drop(ray(head).as_object_mut().unwrap().shift_remove("image")));
    let field = "spec.headGroupSpec.template.spec.containers[0].image";
    assert_eq!(view(&held).partial, [field]);
    let after = patched(&held, &json!({"rayVersion": "2.53.0", "head": {"cpu": "1"}})).unwrap();
    let container = &after["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!((container.get("image"), &container["resources"]["limits"]["cpu"]), (None, &json!("1")));
    let after = patched(&held, &json!({"image": "mine:1"})).unwrap();
    assert_eq!(seen(&after)["image"], "mine:1", "one that is named is set");
}

#[test]
fn null_means_the_default() {
    let made = created(
        json!({"name": "d", "suspended": true, "workerGroups": {"w": {"replicas": 2, "minReplicas": 1, "maxReplicas": 4}}}),
    );
    let after =
        patched(&made, &json!({"suspended": null, "workerGroups": {"w": {"replicas": null, "maxReplicas": null}}}))
            .unwrap();
    assert_eq!(after["spec"]["suspend"], false, "resuming needs an explicit false");
    let group = &after["spec"]["workerGroupSpecs"][0];
    assert_eq!((&group["replicas"], &group["maxReplicas"]), (&json!(1), &json!(2_147_483_647)));
}

#[test]
fn empty_maps_and_lists_are_left_out_but_some_say_something() {
    let nothing = json!({"labels": {}, "annotations": {}, "env": {}, "rayStartParams": {}, "nodeSelector": {}, "tolerations": [],
        "imagePullSecrets": [], "volumes": {}, "resources": {"requests": {}, "limits": {}}});
    let made = created(
        json!({"name": "d", "labels": {}, "annotations": {}, "workerGroups": {"w": nothing}, "headService": {}, "ingress": {}}),
    );
    assert_eq!(seen(&made), seen(&created(json!({"name": "d", "workerGroups": {"w": {}}}))));
    for (member, field) in [
        ("auth", "authOptions"),
        ("gcsFaultTolerance", "gcsFaultToleranceOptions"),
        ("autoscaling", "autoscalerOptions"),
        ("upgradeStrategy", "upgradeStrategy"),
    ] {
        let mut held = with_head(|_| ());
        held["spec"][field] = json!({});
        assert_eq!(seen(&held)[member], json!({}), "{member}");
        let (before, wanted) = (with_head(|_| ()), seen(&held));
        if member != "gcsFaultTolerance" {
            assert_eq!(put_back(&before, wanted).unwrap(), held, "{member}");
        }
    }
    let template = json!({"spec": {"affinity": {}, "hostAliases": []}});
    let made = created(json!({"name": "d", "head": {"podTemplate": template}}));
    assert_eq!(seen(&made)["head"]["podTemplate"], template);
    let held = with_head(|head| {
        head["template"]["metadata"] = json!({"labels": {}, "annotations": {}});
        head["template"]["spec"]["nodeSelector"] = json!({});
        *ray(head) = json!({"name": "ray-head", "image": "i", "env": [], "volumeMounts": [], "resources": {"limits": {}, "requests": {}}});
    });
    assert_eq!(seen(&held)["head"], json!({}));
}

#[test]
fn only_amounts_that_one_word_can_say_are_short() {
    let cpu = |resources: Value| seen(&with_head(|head| ray(head)["resources"] = resources))["head"].clone();
    assert_eq!(cpu(json!({"limits": {"cpu": "1"}})), json!({"cpu": "1"}));
    assert_eq!(cpu(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}})), json!({"cpu": "1"}));
    assert_eq!(cpu(json!({"limits": {"cpu": 2}, "requests": {"cpu": "2"}})), json!({"cpu": "2"}));
    for long in [
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
        json!({"requests": {"cpu": "1"}}),
        json!({"limits": {"ephemeral-storage": "1Gi"}}),
        json!({"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": "4"}}),
    ] {
        assert_eq!(cpu(long.clone()), json!({"resources": long}));
    }
}

#[test]
fn writing_a_short_amount_sets_both() {
    let held = with_head(|head| ray(head)["resources"] = json!({"limits": {"cpu": "1"}, "claims": [{"name": "c"}]}));
    let resources =
        |object: &Value| object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"].clone();
    let after = patched(&held, &json!({"head": {"cpu": "2"}})).unwrap();
    assert_eq!(resources(&after), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}, "claims": [{"name": "c"}]}));
    let after = patched(&held, &json!({"head": {"memory": "1Gi"}})).unwrap();
    assert_eq!(resources(&after)["requests"], json!({"memory": "1Gi"}), "a limit alone stays alone");
    let long = json!({"head": {"cpu": null, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}});
    let after = patched(&held, &long).unwrap();
    assert_eq!(seen(&after)["head"]["resources"], long["head"]["resources"]);
    let after = patched(&held, &json!({"head": {"cpu": null}})).unwrap();
    assert_eq!(resources(&after), json!({"claims": [{"name": "c"}]}));
}

#[test]
fn two_spellings_of_one_quantity_are_no_difference() {
    let held = with_head(|head| {
        ray(head)["resources"] =
            json!({"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        let sidecar = json!({"name": "s", "image": "s", "resources": {"limits": {"cpu": "500m"}}});
        head["template"]["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
        head["template"]["spec"]["volumes"] = json!([{"name": "shm", "emptyDir": {"sizeLimit": "1024Mi"}}]);
        ray(head)["volumeMounts"] = json!([{"name": "shm", "mountPath": "/dev/shm"}]);
    });
    let mut wanted = seen(&held);
    wanted["head"]["cpu"] = json!(1);
    wanted["head"]["memory"] = json!("1024Mi");
    wanted["head"]["volumes"]["shm"]["emptyDir"]["sizeLimit"] = json!("1Gi");
    wanted["head"]["podTemplate"]["spec"]["containers"][1]["resources"]["limits"]["cpu"] = json!(0.5);
    assert_eq!(put_back(&held, wanted).unwrap(), held);
}

#[test]
fn gpus_have_one_word_whoever_makes_them() {
    let gpu =
        |limits: Value| seen(&with_head(|head| ray(head)["resources"] = json!({"limits": limits})))["head"].clone();
    assert_eq!(gpu(json!({"nvidia.com/gpu": "1"})), json!({"gpu": "1"}));
    assert_eq!(gpu(json!({"amd.com/gpu": "1"})), json!({"gpu": "1", "gpuResource": "amd.com/gpu"}));
    assert_eq!(gpu(json!({"nvidia.com/mig-1g.5gb": "1"})), json!({"gpu": "1", "gpuResource": "nvidia.com/mig-1g.5gb"}));
    assert_eq!(
        gpu(json!({"nvidia.com/gpu": "1", "amd.com/gpu": "2"})),
        json!({"gpu": "1", "resources": {"limits": {"amd.com/gpu": "2"}}})
    );
    let two = json!({"amd.com/gpu": "1", "intel.com/gpu": "2"});
    assert_eq!(gpu(two.clone()), json!({"resources": {"limits": two}}));
    let document = json!({"name": "d", "namespace": "n", "rayVersion": "1.0.0", "head": {"gpu": "1", "gpuResource": "amd.com/gpu"}});
    assert_eq!(seen(&build(&super::document(document.clone())))["head"], document["head"]);
    assert_eq!(
        faults(json!({"name": "d", "head": {"gpuResource": "amd.com/gpu"}})),
        [("/head/gpuResource".into(), FaultCode::InvalidValue)]
    );
    assert_eq!(
        faults(json!({"name": "d", "head": {"gpu": 1, "gpuResource": "cpu"}})),
        [("/head/gpuResource".into(), FaultCode::InvalidValue)]
    );
}

#[test]
fn a_name_wanted_twice_conflicts() {
    let template = json!({"metadata": {"labels": {"a": "1"}}, "spec": {
        "volumes": [{"name": "v", "csi": {"driver": "d"}}], "nodeSelector": {"n": "1"}, "priorityClassName": "p",
        "containers": [{"name": "ray-head", "env": [{"name": "E", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}],
    }});
    let head = json!({
        "cpu": "1", "labels": {"a": "2", "b": "2"}, "nodeSelector": {"n": "2"}, "priorityClassName": "q", "env": {"E": "2", "F": "2"},
        "volumes": {"v": {"emptyDir": {}, "mountPath": "/v"}}, "resources": {"limits": {"cpu": "2"}}, "podTemplate": template,
    });
    let found = faults(json!({"name": "d", "head": head}));
    let wanted = [
        "/head/env/E",
        "/head/labels/a",
        "/head/nodeSelector/n",
        "/head/podTemplate",
        "/head/priorityClassName",
        "/head/resources/limits",
        "/head/resources/limits/cpu",
        "/head/volumes/v",
    ];
    assert_eq!(found, wanted.map(|pointer| (pointer.to_owned(), FaultCode::ConflictingMembers)));
}

#[test]
fn volumes_are_those_that_the_ray_container_alone_mounts_once() {
    let volumes = |mounts: Value, sidecar: Value| {
        let held = with_head(|head| {
            head["template"]["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
            ray(head)["volumeMounts"] = mounts;
            if !sidecar.is_null() {
                head["template"]["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
            }
        });
        let seen = seen(&held)["head"].clone();
        (seen["volumes"].clone(), seen["podTemplate"]["spec"]["volumes"].clone())
    };
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let shown = (json!({"v": {"emptyDir": {}, "mountPath": "/v"}}), Value::Null);
    let left = (Value::Null, json!([{"name": "v", "emptyDir": {}}]));
    assert_eq!(volumes(mount.clone(), Value::Null), shown);
    assert_eq!(volumes(mount.clone(), json!({"name": "s", "image": "s"})), shown);
    assert_eq!(
        volumes(mount.clone(), json!({"name": "s", "image": "s", "volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
        left
    );
    assert_eq!(volumes(json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w"}]), Value::Null), left);
    assert_eq!(volumes(json!([]), Value::Null), left);
    assert_eq!(volumes(json!([{"name": "v", "mountPath": "/v", "newer": 1}]), Value::Null), left);
}

#[test]
fn a_volume_is_one_thing_with_a_mount() {
    for (volume, pointer, code) in [
        (json!({"mountPath": "/v"}), "", FaultCode::InvalidValue),
        (json!({"emptyDir": {}, "claim": "c", "mountPath": "/v"}), "", FaultCode::InvalidValue),
        (json!({"emptyDir": {}}), "/mountPath", FaultCode::Required),
        (json!({"emptyDir": {}, "mountPath": "a:b"}), "/mountPath", FaultCode::InvalidValue),
        (json!({"claim": 1, "mountPath": "/v"}), "/claim", FaultCode::WrongType),
        (
            json!({"claim": {"claim": "x", "claimName": "y"}, "mountPath": "/v"}),
            "/claim/claim",
            FaultCode::UnknownMember,
        ),
    ] {
        let found = faults(json!({"name": "d", "head": {"volumes": {"v": volume}}}));
        assert_eq!(found, [(format!("/head/volumes/v{pointer}"), code)]);
    }
}

#[test]
fn what_is_generated_is_left_out_as_generated() {
    let made = created(json!({"name": "d", "workerGroups": {"w": {}}}));
    let container = &made["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["name"], &container["terminationMessagePolicy"]),
        (&json!("ray-worker"), &json!("FallbackToLogsOnError"))
    );
    assert_eq!(seen(&made)["workerGroups"]["w"].get("podTemplate"), None);
    let other = with_head(|head| {
        ray(head)["name"] = json!("main");
        ray(head)["terminationMessagePolicy"] = json!("File");
    });
    let template = json!({"spec": {"containers": [{"name": "main", "terminationMessagePolicy": "File"}]}});
    assert_eq!(seen(&other)["head"]["podTemplate"], template);
    let after = patched(&other, &json!({"head": {"cpu": "1"}})).unwrap();
    assert_eq!(seen(&after)["head"]["podTemplate"], template, "it isn't renamed");
}

#[test]
fn the_rest_of_a_template_is_laid_under_the_short_members() {
    let template = json!({"spec": {
        "containers": [{"name": "logs", "image": "fluent-bit:3"}],
        "initContainers": [{"name": "i", "image": "busybox"}], "volumes": [{"name": "csi", "csi": {"driver": "d"}}],
    }});
    let head = json!({"cpu": "1", "env": {"A": "1"}, "volumes": {"v": {"emptyDir": {}, "mountPath": "/v"}}, "podTemplate": template});
    let made = created(json!({"name": "d", "head": head}));
    let spec = &made["spec"]["headGroupSpec"]["template"]["spec"];
    assert_eq!(spec["containers"][0]["name"], "ray-head");
    assert_eq!(spec["containers"][1], json!({"name": "logs", "image": "fluent-bit:3"}));
    assert_eq!(spec["initContainers"], template["spec"]["initContainers"]);
    let names: Vec<_> = spec["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["csi", "v"]);
    let back = seen(&made)["head"]["podTemplate"].clone();
    assert_eq!(back["spec"]["containers"], json!([{"name": "ray-head"}, {"name": "logs", "image": "fluent-bit:3"}]));
    assert_eq!(
        seen(&created(json!({"name": "d", "head": {"podTemplate": back.clone(), "memory": "1Gi"}})))["head"]["podTemplate"],
        back
    );
}

#[test]
fn the_ray_containers_entry_needs_no_name() {
    let template = json!({"spec": {"containers": [{"tty": true}, {"name": "s", "image": "s"}]}});
    let made = created(json!({"name": "d", "workerGroups": {"w": {"podTemplate": template}}}));
    let containers = &made["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["name"], &containers[0]["tty"]), (&json!("ray-worker"), &json!(true)));
    let nameless = json!({"spec": {"containers": [{"image": "s"}]}});
    let found = faults(json!({"name": "d", "head": {"podTemplate": nameless}}));
    assert_eq!(
        found,
        [("/head/podTemplate/spec/containers/0/name".into(), FaultCode::Required)],
        "a sidecar needs one"
    );
}

#[test]
fn a_volume_shared_with_a_sidecar_goes_to_the_template() {
    let sidecar = json!({"name": "logs", "image": "f", "volumeMounts": [{"name": "logs", "mountPath": "/in"}]});
    let head = json!({"volumes": {"logs": {"emptyDir": {}, "mountPath": "/tmp/ray"}}, "podTemplate": {"spec": {"containers": [sidecar]}}});
    let seen = seen(&created(json!({"name": "d", "head": head})))["head"].clone();
    assert_eq!(seen.get("volumes"), None);
    assert_eq!(seen["podTemplate"]["spec"]["volumes"], json!([{"name": "logs", "emptyDir": {}}]));
    assert_eq!(
        seen["podTemplate"]["spec"]["containers"][0],
        json!({"name": "ray-head", "volumeMounts": [{"name": "logs", "mountPath": "/tmp/ray"}]})
    );
}

#[test]
fn a_list_in_a_patch_is_the_whole_list() {
    let sidecars = json!([{"name": "ray-head"}, {"name": "a", "image": "a"}, {"name": "b", "image": "b"}]);
    let made = created(json!({"name": "d", "head": {"podTemplate": {"spec": {"containers": sidecars}}}}));
    let other = json!([{"name": "ray-head"}, {"name": "b", "image": "b"}]);
    let after = patched(&made, &json!({"head": {"podTemplate": {"spec": {"containers": other}}}})).unwrap();
    assert_eq!(seen(&after)["head"]["podTemplate"]["spec"]["containers"], other);
    let mut put = seen(&after);
    put["head"].as_object_mut().unwrap().shift_remove("podTemplate");
    let after = put_back(&after, put).unwrap();
    assert_eq!(after["spec"]["headGroupSpec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_rest_of_a_shared_list_comes_in_the_order_that_is_sent() {
    let csi = |name: &str| json!({"name": name, "csi": {"driver": "d"}});
    let short = json!({"emptyDir": {}, "mountPath": "/s"});
    let template = json!({"spec": {"volumes": [csi("a"), csi("b"), csi("c")]}});
    let made = created(json!({"name": "d", "head": {"volumes": {"s": short}, "podTemplate": template}}));
    let volumes = |order: &[&str]| json!({"head": {"podTemplate": {"spec": {"volumes": order.iter().map(|name| csi(name)).collect::<Vec<_>>()}}}});
    let after = patched(&made, &volumes(&["c", "new", "a"])).unwrap();
    let names = |object: &Value| {
        let volumes = object["spec"]["headGroupSpec"]["template"]["spec"]["volumes"].as_array().unwrap();
        volumes.iter().map(|volume| volume["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let left: Vec<_> = names(&after).into_iter().filter(|name| name != "s").collect();
    assert_eq!(left, ["c", "new", "a"]);
    assert_eq!(seen(&after)["head"]["podTemplate"], volumes(&["c", "new", "a"])["head"]["podTemplate"]);
}

#[test]
fn a_group_without_a_container_gets_one_whole() {
    let mut held = with_head(|_| ());
    held["spec"]["workerGroupSpecs"] =
        json!([{"groupName": "w", "replicas": 0, "minReplicas": 0, "maxReplicas": 1, "template": {}}]);
    assert_eq!(view(&held).partial, ["spec.workerGroupSpecs[0].template.spec.containers[0].image"]);
    let container = |object: &Value| object["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0].clone();
    let after = patched(&held, &json!({"labels": {"a": "b"}})).unwrap();
    assert_eq!(container(&after), Value::Null, "nothing was asked of it");
    let after = patched(&held, &json!({"workerGroups": {"w": {"cpu": "1"}}})).unwrap();
    assert_eq!(
        (&container(&after)["name"], &container(&after)["image"]),
        (&json!("ray-worker"), &json!("rayproject/ray:2.52.0"))
    );
    let after = patched(&held, &json!({"workerGroups": {"w": {"image": "rayproject/ray:2.52.0"}}})).unwrap();
    assert_eq!(container(&after)["image"], "rayproject/ray:2.52.0", "one that is named is set");
}

#[test]
fn the_autoscaler_owns_replicas() {
    let made = created(
        json!({"name": "d", "autoscaling": {"enabled": true}, "workerGroups": {"w": {"replicas": 2, "maxReplicas": 5}}}),
    );
    assert_eq!(made["spec"]["workerGroupSpecs"][0]["replicas"], 2, "taken on create");
    assert_eq!(seen(&made)["workerGroups"]["w"].get("replicas"), None, "hidden later");
    let replicas = |object: &Value| object["spec"]["workerGroupSpecs"][0]["replicas"].clone();
    let set = |count: i32| json!({"workerGroups": {"w": {"replicas": count}}});
    assert_eq!(patched(&made, &set(3)).unwrap_err(), Refusal::AutoscalerOwns("w".into()));
    assert_eq!(patched(&made, &set(2)).unwrap(), made, "the value that is held is no change");
    let after = patched(&made, &json!({"workerGroups": {"w": {"minReplicas": 1}}})).unwrap();
    assert_eq!(replicas(&after), 2, "other members leave it alone");
    let off = patched(&made, &json!({"autoscaling": {"enabled": false}})).unwrap();
    assert_eq!(seen(&off)["workerGroups"]["w"]["replicas"], 2, "it appears with the value that is held");
    let on = patched(&off, &json!({"autoscaling": {"enabled": true}, "workerGroups": {"w": {"replicas": 4}}})).unwrap();
    assert_eq!(replicas(&on), 4, "the write that turns it on may say");
    let new = patched(&made, &json!({"workerGroups": {"n": {"replicas": 1}}})).unwrap();
    assert_eq!(new["spec"]["workerGroupSpecs"][1]["replicas"], 1, "a new group's are taken as on create");
}

#[test]
fn of_two_groups_of_one_name_the_first_is_shown() {
    let mut held = created(json!({"name": "d", "workerGroups": {"w": {"replicas": 1}, "v": {}}}));
    held["spec"]["workerGroupSpecs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"groupName": "w", "replicas": 9, "template": {}}));
    assert_eq!(seen(&held)["workerGroups"]["w"]["replicas"], 1);
    assert_eq!(view(&held).partial, ["spec.workerGroupSpecs[2]"]);
    let refused = Refusal::AmbiguousGroup("w".into());
    assert_eq!(patched(&held, &json!({"workerGroups": {"w": {"replicas": 2}}})).unwrap_err(), refused);
    assert_eq!(patched(&held, &json!({"workerGroups": {"w": null}})).unwrap_err(), refused);
    let after = patched(&held, &json!({"workerGroups": {"v": {"replicas": 2}}})).unwrap();
    assert_eq!(
        (&after["spec"]["workerGroupSpecs"][1]["replicas"], &after["spec"]["workerGroupSpecs"][2]),
        (&json!(2), &held["spec"]["workerGroupSpecs"][2])
    );
}

#[test]
fn what_no_view_can_show_is_named_and_survives() {
    let mut held = created(json!({"name": "d", "workerGroups": {"w": {}}}));
    held["spec"]["newer"] = json!({"x": [1]});
    held["spec"]["headGroupSpec"]["newer"] = json!(1);
    held["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = json!({"workersToDelete": ["a"]});
    held["metadata"]["finalizers"] = json!(["a/b"]);
    held["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"});
    assert_eq!(
        view(&held).partial,
        ["spec.headGroupSpec.newer", "spec.workerGroupSpecs[0].scaleStrategy", "spec.newer"]
    );
    let wanted =
        json!({"name": "d", "rayVersion": "2.53.0", "head": {"cpu": "2"}, "workerGroups": {"w": {"cpu": "7"}}});
    let after = put_back(&held, wanted).unwrap();
    assert_eq!(after["spec"]["rayVersion"], "2.53.0");
    for place in
        ["/spec/newer", "/spec/headGroupSpec/newer", "/spec/workerGroupSpecs/0/scaleStrategy", "/metadata/finalizers"]
    {
        assert_eq!(after.pointer(place), held.pointer(place), "{place}");
    }
    assert_eq!(after["metadata"]["annotations"], json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}));
}

#[test]
fn a_fault_that_was_there_before_stands_in_nobodys_way() {
    let mut held = created(json!({"name": "d", "workerGroups": {"w": {"replicas": 1, "maxReplicas": 2}}}));
    held["spec"]["workerGroupSpecs"][0]["replicas"] = json!(5);
    held["spec"]["workerGroupSpecs"][0]["template"]["spec"]["newer"] = json!(true);
    let mut wanted = seen(&held);
    wanted["head"]["cpu"] = json!("3");
    let (document, faults) = Document::read(wanted.clone());
    let done = edit(&held, document, faults).unwrap();
    let standing: Vec<_> = done.standing.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(standing, ["/workerGroups/w/podTemplate/spec/newer", "/workerGroups/w/replicas"]);
    wanted["workerGroups"]["w"]["maxReplicas"] = json!(3);
    let (document, faults) = Document::read(wanted);
    let Err(Refusal::Faults(new)) = edit(&held, document, faults) else { panic!("it was taken") };
    assert_eq!(new.len(), 1, "the write makes this one its own: {new:?}");
    assert_eq!(new[0].pointer, "/workerGroups/w/replicas");
}

#[test]
fn a_reserved_key_that_is_held_may_be_sent_along() {
    let mut held = created(json!({"name": "d"}));
    held["metadata"]["labels"] = json!({"ray.io/originated-from-crd": "RayJob"});
    let mut wanted = seen(&held);
    assert_eq!(wanted.get("labels"), None);
    wanted["labels"] = json!({"ray.io/originated-from-crd": "RayJob"});
    assert_eq!(put_back(&held, wanted.clone()).unwrap(), held);
    wanted["labels"] = json!({"ray.io/originated-from-crd": "Other"});
    let Err(Refusal::Faults(faults)) = put_back(&held, wanted) else { panic!("it was taken") };
    assert_eq!(faults[0].code, FaultCode::Reserved);
}

#[test]
fn identity_stays() {
    let held = with_head(|_| ());
    for (member, value) in [("name", "other"), ("namespace", "other")] {
        let mut wanted = seen(&held);
        wanted[member] = json!(value);
        let Err(Refusal::Faults(faults)) = put_back(&held, wanted) else { panic!("it was taken") };
        assert_eq!((faults[0].pointer.as_str(), faults[0].code), (&*format!("/{member}"), FaultCode::Immutable));
    }
    let mut wanted = seen(&held);
    wanted.as_object_mut().unwrap().retain(|member, _| member != "name" && member != "namespace");
    assert_eq!(put_back(&held, wanted).unwrap(), held);
}

#[test]
fn a_cluster_without_a_spec_gets_one() {
    let held = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x", "namespace": "y"}});
    let bare = json!({"name": "x", "namespace": "y", "suspended": false, "head": {}});
    assert_eq!(seen(&held), bare);
    assert_eq!(put_back(&held, bare).unwrap(), held);
    let after = patched(&held, &json!({"rayVersion": "2.52.0", "head": {"cpu": "1"}})).unwrap();
    assert_eq!(after["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"], "rayproject/ray:2.52.0");
    assert_eq!(seen(&after)["head"], json!({"cpu": "1"}));
}
