//! What KubeRay's operator refuses only when it reconciles: Kubernetes stores such a RayCluster, and then it sits there
//! with an event and without pods. Here it is a fault at once.
//!
//! The rules are those of `ValidateRayClusterMetadata`, `ValidateRayClusterSpec` and `ValidateRayClusterUpgradeOptions` in
//! KubeRay's `ray-operator/controllers/ray/utils/validation.go`, version 1.6.2. This is all of them, and those of our own.
//! *upstream*: the operator refuses it. *clamped upstream*: the operator changes it in silence. *newer*: a later operator
//! refuses it. *ours*: the operator takes it.
//!
//! | Rule | Whose | Judged by |
//! |---|---|---|
//! | the cluster's name: 53 characters, DNS-1035 | upstream | `check_cluster_name` |
//! | a head and every group have a container | upstream | `manifest`, [`check_hidden`] |
//! | bounds are not negative, the lower isn't above the upper | upstream | `members`, `check_bounds` |
//! | `replicas` is within the bounds | clamped upstream | `check_bounds` |
//! | bounds are there unless the autoscaler is on | upstream | none: the CRD's defaults fill them in |
//! | labels of nodes for Ray have Kubernetes' form | upstream | `members` (`rayLabels`) |
//! | no `labels` in `rayStartParams` | upstream | [`check_node`] |
//! | resources in `rayStartParams` or in `rayResources` | upstream | [`check_node`] |
//! | `restartPolicy` with version 2 of the autoscaler | upstream | [`check_node`] |
//! | a group's `idleTimeoutSeconds` needs version 2, is not negative | upstream | [`check_group`], `members` |
//! | a group's `priority` needs version 2 and Ray 2.56.0 | newer | [`check_group`], [`check_hidden`] |
//! | `autoscaling.idleTimeoutSeconds` is not negative | upstream | [`check_autoscaler`] |
//! | how version 2 is turned on by an environment variable | upstream | [`check_autoscaler`] |
//! | the start command that the operator generates | newer | [`check_autoscaler`] |
//! | the ways to fault tolerance exclude each other | upstream | [`check_fault_tolerance`] |
//! | token authentication needs Ray 2.52.0, Kubernetes' tokens 2.55.0 | upstream | [`check_auth`], [`check_hidden`] |
//! | no suspended group where the autoscaler is on | upstream | [`check_hidden`] |
//! | the type of `upgradeStrategy` | upstream | the CRD |
//! | no `upgradeStrategy` on a cluster of a RayJob or RayService | upstream | [`check_hidden`] |
//! | short resources, volumes, what `podTemplate` repeats | ours | `rules` |
//! | a group's name: DNS-1123, only once, not `headgroup` | ours | `members`, `manifest` |
//!
//! Where `rayVersion` is no version (`nightly`), no rule by version applies. What a later operator asks of `networkPolicy`,
//! `tlsOptions`, `historyServerOptions` and of `backend` and `storage` of fault tolerance isn't here: the CRD of 1.6.2 has no
//! such members, so they are unknown.

use serde_json::{Map, Value};

use super::ray_container;
use crate::ray::check::{LONGEST_NAME, join};
use crate::ray::document::Document;
use crate::ray::fault::{Fault, FaultCode, MOST, escape};
use crate::ray::version::major_minor;

/// The variable that turned version 2 of the autoscaler on before there was `autoscaling.version`.
const V2: &str = "RAY_enable_autoscaler_v2";
/// What the operator gives the autoscaler's container.
const START_COMMAND: &str = "KUBERAY_GEN_AUTOSCALER_START_CMD";
/// The annotation that turned fault tolerance on before there was `gcsFaultTolerance`.
const FT_ENABLED: &str = "ray.io/ft-enabled";
/// The annotation that says where Redis holds the cluster's state.
const STORAGE_NAMESPACE: &str = "ray.io/external-storage-namespace";
/// The label of a cluster that another resource of KubeRay made: that one's kind.
const ORIGIN: &str = "ray.io/originated-from-crd";

/// The rules between the members of a document.
pub(in crate::ray) fn check_operator(document: &Document, faults: &mut Vec<Fault>) {
    for mut fault in operator_faults(document) {
        if let Some(place) = fault.pointer.strip_prefix("/head/env/").and_then(|name| place_of_env(document, name)) {
            fault.pointer = place;
        }
        faults.push(fault);
    }
}

/// Where a variable stands that only `podTemplate` has; `name` is its reference token.
fn place_of_env(document: &Document, name: &str) -> Option<String> {
    let template = document.head().get("podTemplate")?;
    let is_it = |item: &Value| item["name"].as_str().is_some_and(|held| escape(held) == name);
    let index = ray_container(template)?.get("env")?.as_array()?.iter().position(is_it)?;
    let container = super::ray_entry(template)?;
    Some(format!("/head/podTemplate/spec/containers/{container}/env/{index}"))
}

/// The same rules; a variable of the head has its place under `/head/env`, wherever the document says it. It stops beyond
/// [`MOST`] faults.
pub(in crate::ray) fn operator_faults(document: &Document) -> Vec<Fault> {
    let cluster = Cluster::of(document);
    let mut faults = Vec::new();
    check_autoscaler(&cluster, &mut faults);
    check_fault_tolerance(&cluster, &mut faults);
    check_auth(document, &mut faults);
    check_node(&cluster, document.head(), "/head", &mut faults);
    for (name, group) in document.groups().filter(|(name, _)| name.len() <= LONGEST_NAME) {
        if faults.len() > MOST {
            break;
        }
        let at = format!("/workerGroups/{}", escape(name));
        check_group(&cluster, group, &at, &mut faults);
        check_node(&cluster, group, &at, &mut faults);
    }
    faults
}

/// What several rules ask of a document.
struct Cluster<'a> {
    document: &'a Document,
    /// The variables of the head's Ray container in order, each with its value if that is a text.
    env: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Cluster<'a> {
    fn of(document: &'a Document) -> Self {
        let head = document.head();
        let list = head.get("podTemplate").and_then(ray_container).and_then(|ray| ray.get("env")?.as_array());
        let list = list.into_iter().flatten().filter_map(|item| Some((item["name"].as_str()?, item["value"].as_str())));
        let own = head.get("env").and_then(Value::as_object).into_iter().flatten();
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        Self { document, env: list.chain(own).collect() }
    }

    fn has_env(&self, wanted: &str) -> bool {
        self.env.iter().any(|(name, _)| *name == wanted)
    }

    /// Whether the first variable of that name turns version 2 of the autoscaler on.
    fn is_v2_by_env(&self) -> bool {
        let said = self.env.iter().find(|(name, _)| *name == V2).and_then(|(_, value)| *value);
        matches!(said, Some("1" | "true"))
    }

    /// `IsAutoscalingV2Enabled`, which doesn't ask whether the autoscaler is on.
    fn is_v2(&self) -> bool {
        self.autoscaling("version").is_some_and(|version| version == "v2")
    }

    fn autoscaling(&self, member: &str) -> Option<&'a Value> {
        self.document.0.get("autoscaling")?.get(member)
    }
}

/// A text of a map of texts that isn't empty.
fn said<'a>(node: &'a Map<String, Value>, map: &str, name: &str) -> Option<&'a str> {
    node.get(map)?.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// Version 2 of the autoscaler is turned on by its options or by a variable, and only where the autoscaler is on
/// (`ValidateRayClusterSpec`). The variable of the start command is the operator's own (after 1.6.2).
fn check_autoscaler(cluster: &Cluster<'_>, faults: &mut Vec<Fault>) {
    if cluster.autoscaling("idleTimeoutSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        let message = "A time can't be negative; 0 is the least.";
        faults.push(Fault::new("/autoscaling/idleTimeoutSeconds", FaultCode::OutOfRange, message));
    }
    if cluster.document.autoscaling() {
        if cluster.autoscaling("version").is_some() && cluster.has_env(V2) {
            let message = format!("`autoscaling.version` and `{V2}` both say the version; say it by the first alone.");
            faults.push(Fault::new(format!("/head/env/{V2}"), FaultCode::ConflictingMembers, message));
        }
    } else if cluster.is_v2_by_env() {
        let message = format!(
            "`{V2}` can't be set where the autoscaler is off; use `autoscaling` with `enabled` and `version: v2`."
        );
        faults.push(Fault::new(format!("/head/env/{V2}"), FaultCode::InvalidValue, message));
    }
    let env = cluster.autoscaling("env").and_then(Value::as_array).into_iter().flatten().enumerate();
    for (index, _) in env.filter(|(_, item)| item["name"] == START_COMMAND).take(1) {
        let message = format!("KubeRay itself sets `{START_COMMAND}`; leave it out.");
        faults.push(Fault::new(format!("/autoscaling/env/{index}"), FaultCode::InvalidValue, message));
    }
}

/// Fault tolerance is asked for by `gcsFaultTolerance` or the old annotation, and what the first says is said nowhere else
/// (`ValidateRayClusterSpec`).
fn check_fault_tolerance(cluster: &Cluster<'_>, faults: &mut Vec<Fault>) {
    let members = &cluster.document.0;
    let annotation = |name: &str| said(members, "annotations", name);
    let param = |name: &str| said(cluster.document.head(), "rayStartParams", name).is_some();
    let mut conflict = |pointer: String, instead: &str| {
        let message = format!("With `gcsFaultTolerance` this can't be set; use `gcsFaultTolerance.{instead}`.");
        faults.push(Fault::new(pointer, FaultCode::ConflictingMembers, message));
    };
    let options = members.contains_key("gcsFaultTolerance");
    if options {
        if annotation(STORAGE_NAMESPACE).is_some() {
            conflict(join("/annotations", STORAGE_NAMESPACE), "externalStorageNamespace");
        }
        if param("redis-password") {
            conflict("/head/rayStartParams/redis-password".to_owned(), "redisPassword");
        }
        for (name, instead) in [("REDIS_PASSWORD", "redisPassword"), ("RAY_REDIS_ADDRESS", "redisAddress")] {
            if cluster.has_env(name) {
                conflict(format!("/head/env/{name}"), instead);
            }
        }
        if annotation(FT_ENABLED).is_some() {
            let message = format!("`{FT_ENABLED}` and `gcsFaultTolerance` exclude each other; use the second alone.");
            faults.push(Fault::new(join("/annotations", FT_ENABLED), FaultCode::ConflictingMembers, message));
        }
    } else if cluster.has_env("RAY_REDIS_ADDRESS")
        && annotation(FT_ENABLED).is_none_or(|enabled| !enabled.eq_ignore_ascii_case("true"))
    {
        let message = "This turns fault tolerance on behind KubeRay's back; use `gcsFaultTolerance.redisAddress`.";
        faults.push(Fault::new("/head/env/RAY_REDIS_ADDRESS", FaultCode::InvalidValue, message));
    }
    let param = param("redis-username").then_some("/head/rayStartParams/redis-username");
    let env = cluster.has_env("REDIS_USERNAME").then_some("/head/env/REDIS_USERNAME");
    for pointer in param.into_iter().chain(env) {
        let message = "A user of Redis can't be set here; use `gcsFaultTolerance.redisUsername`.";
        faults.push(Fault::new(pointer, FaultCode::InvalidValue, message));
    }
}

/// Which versions of Ray have which way of authentication (`ValidateRayClusterSpec`).
fn check_auth(document: &Document, faults: &mut Vec<Fault>) {
    let auth = |member: &str| document.0.get("auth")?.get(member);
    let token = auth("mode").is_some_and(|mode| mode == "token");
    if token && is_older_or_unknown(document, (2, 52)) {
        let message = "`token` needs a `rayVersion` of 2.52.0 or later.";
        faults.push(Fault::new("/auth/mode", FaultCode::InvalidValue, message).allowing(["disabled"]));
    }
    if auth("enableK8sTokenAuth") != Some(&Value::Bool(true)) {
        return;
    }
    let mut wrong = |message: &str| {
        let fault = Fault::new("/auth/enableK8sTokenAuth", FaultCode::InvalidValue, message);
        faults.push(fault.allowing([false]));
    };
    if !token {
        return wrong("Kubernetes' tokens need `auth.mode` to be `token`.");
    }
    if is_older_or_unknown(document, (2, 55)) {
        wrong("Kubernetes' tokens need a `rayVersion` of 2.55.0 or later.");
    }
    if auth("secretName").and_then(Value::as_str).is_some_and(|name| !name.is_empty()) {
        let message = "With `enableK8sTokenAuth` there is no Secret; leave its name out.";
        faults.push(Fault::new("/auth/secretName", FaultCode::ConflictingMembers, message));
    }
}

/// Whether `rayVersion` is a version before this one.
fn is_older(document: &Document, than: (u64, u64)) -> bool {
    document.text("rayVersion").and_then(major_minor).is_some_and(|version| version < than)
}

/// The same, or none that can be read: the operator refuses that as well where it asks for tokens.
fn is_older_or_unknown(document: &Document, than: (u64, u64)) -> bool {
    document.text("rayVersion").is_some_and(|text| major_minor(text).is_none_or(|version| version < than))
}

/// What only version 2 of the autoscaler knows of a group (`validateWorkerGroupIdleTimeout`, and after 1.6.2
/// `validateWorkerGroupPriority`).
fn check_group(cluster: &Cluster<'_>, group: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    let mut wrong = |member: &str, message: &str| {
        faults.push(Fault::new(join(at, member), FaultCode::InvalidValue, message));
    };
    let v2 = cluster.is_v2() || cluster.is_v2_by_env();
    if !v2 && group.contains_key("idleTimeoutSeconds") {
        wrong("idleTimeoutSeconds", "A group's own time needs `autoscaling.version` to be `v2`.");
    }
    if !group.get("priority").is_some_and(is_priority) {
        return;
    }
    if !v2 {
        wrong("priority", "A group's priority needs `autoscaling.version` to be `v2`.");
    }
    if is_older(cluster.document, (2, 56)) {
        wrong("priority", "A group's priority needs a `rayVersion` of 2.56.0 or later.");
    }
}

/// 0 is as good as none.
fn is_priority(value: &Value) -> bool {
    value.as_i64().is_some_and(|priority| priority != 0)
}

/// What is wrong between the members of one node (`validateRayGroupResources`, `validateRayGroupLabels`,
/// `ValidateRayClusterSpec`).
fn check_node(cluster: &Cluster<'_>, node: &Map<String, Value>, at: &str, faults: &mut Vec<Fault>) {
    let params = join(at, "rayStartParams");
    if node.get("rayStartParams").is_some_and(|params| params.get("labels").is_some()) {
        let message = "KubeRay doesn't take labels as an option; use `rayLabels`.";
        faults.push(Fault::new(join(&params, "labels"), FaultCode::InvalidValue, message));
    }
    if node.get("rayResources").and_then(Value::as_object).is_some_and(|resources| !resources.is_empty()) {
        for name in ["num-cpus", "num-gpus", "memory", "resources"] {
            if said(node, "rayStartParams", name).is_some() {
                let message = format!("`{name}` and `rayResources` both say what there is; use one of them.");
                faults.push(Fault::new(join(&params, name), FaultCode::ConflictingMembers, message));
            }
        }
    }
    let policy = node.get("podTemplate").and_then(|template| template.pointer("/spec/restartPolicy")?.as_str());
    if cluster.document.autoscaling() && cluster.is_v2() && !matches!(policy, None | Some("" | "Never")) {
        let message = "With `autoscaling.version` v2 a pod is never restarted; leave this out.";
        let fault = Fault::new(format!("{at}/podTemplate/spec/restartPolicy"), FaultCode::InvalidValue, message);
        faults.push(fault.allowing(["Never"]));
    }
}

/// The rules on what a RayCluster has and its document can't show, with places in the RayCluster.
pub(in crate::ray) fn check_hidden(object: &Value, faults: &mut Vec<Fault>) {
    let spec = &object["spec"];
    let groups = || spec["workerGroupSpecs"].as_array().into_iter().flatten();
    let mut wrong = |pointer: String, code: FaultCode, message: String| {
        if faults.len() <= MOST {
            faults.push(Fault::new(pointer, code, message));
        }
    };
    if spec["rayVersion"].as_str().is_none_or(str::is_empty) {
        let needs_it = [
            (spec["authOptions"]["mode"] == "token", "Token authentication needs a version of Ray, 2.52.0 or later."),
            (
                groups().any(|group| is_priority(&group["priority"])),
                "A group's priority needs a version of Ray, 2.56.0 or later.",
            ),
        ];
        for (_, message) in needs_it.into_iter().filter(|(needs_it, _)| *needs_it) {
            wrong("/spec/rayVersion".to_owned(), FaultCode::Required, message.to_owned());
        }
    }
    let origin = object["metadata"]["labels"][ORIGIN].as_str();
    if let Some(origin @ ("RayJob" | "RayService")) = origin
        && spec["upgradeStrategy"]["type"].is_string()
    {
        let message = format!("A {origin} made this cluster, and how it is upgraded is said there.");
        wrong("/spec/upgradeStrategy/type".to_owned(), FaultCode::InvalidValue, message);
    }
    for (index, group) in groups().enumerate() {
        let (at, name) = (format!("/spec/workerGroupSpecs/{index}"), group["groupName"].as_str().unwrap_or_default());
        if spec["enableInTreeAutoscaling"] == true && group["suspend"] == true {
            let message = format!("The group `{name}` is suspended, and with the autoscaler on none can be.");
            wrong(format!("{at}/suspend"), FaultCode::InvalidValue, message);
        }
        if group["template"]["spec"]["containers"].as_array().is_some_and(Vec::is_empty) {
            let message = format!("The group `{name}` needs a container.");
            wrong(format!("{at}/template/spec/containers/0"), FaultCode::Required, message);
        }
    }
}

/// What a write makes wrong of what a document can't show; what was wrong before isn't told.
pub(in crate::ray) fn newly_hidden(before: &Value, after: &Value) -> Vec<Fault> {
    let hidden = |object: &Value| {
        let mut faults = Vec::new();
        check_hidden(object, &mut faults);
        faults
    };
    let known = hidden(before);
    let is_known = |fault: &Fault| known.iter().any(|known| known.message == fault.message);
    hidden(after).into_iter().filter(|fault| !is_known(fault)).collect()
}
