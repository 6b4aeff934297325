//! What the pods of a cluster may contain.
//!
//! It is judged on the RayCluster as Kubernetes would hold it, with the members of KubeRay 1.5 to 1.7, so that nothing
//! that can be sent goes round it. What isn't allowed by a role's rules is a [`Violation`]. What is closed of the node,
//! of privileges and of capabilities is what the "baseline" of Kubernetes' Pod Security Standards forbids
//! (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).
//!
//! It is no substitute for admission in the namespace: with Ray's autoscaler on, which has a rule of its own, the operator
//! gives the head's pod the right to patch every RayCluster there, past this service.
//!
//! A change is judged by its units: a pod template, or another member that says something of pods, is judged as a
//! whole if it isn't what it was, and else not at all. So whoever may scale may scale a cluster that has what they may
//! not use.

mod at;
mod cluster;
mod container;
mod judge;
mod template;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use at::At;
use judge::Judge;

use super::pattern::{Names, Pattern};

/// What the pods of a cluster may contain, as a policy says it. What isn't said is closed.
///
/// A cluster's name is chosen by whoever creates it: `{cluster}` in a pattern allows what they may call a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodRules {
    /// Paths of hostPath volumes. One with `..`, `.`, `//` or a slash at its end, or that isn't absolute, needs `*`.
    pub host_paths: Vec<Pattern>,
    /// Whether pods may share what is the node's: network, processes, IPC, ports, Windows' HostProcess, and the probes
    /// and handlers that the kubelet sends to a host of the pod's choice.
    pub host_namespaces: bool,
    /// Whether containers may be privileged, or have a profile, a sysctl or a `/proc` that the baseline has not.
    pub privileged: bool,
    /// Capabilities that may be added beside those of the baseline. `ALL` needs to be named as it is, or `*`.
    pub capabilities: Vec<Pattern>,
    /// Types of volumes, as their member is called, beside those that have rules of their own or give nothing away:
    /// emptyDir, configMap, secret, projected, downwardAPI, persistentVolumeClaim, ephemeral, hostPath.
    pub volume_types: Vec<Pattern>,
    /// Service accounts beside the namespace's `default`. A cluster's own is not allowed by its name alone.
    pub service_accounts: Vec<Pattern>,
    /// Images of containers and image volumes. All if nothing is said.
    pub images: Vec<Pattern>,
    /// Labels of nodes that pods may ask for, as `key` or `key=value`; what excludes values, or asks for the key alone,
    /// needs a pattern without `=`. All if nothing is said.
    pub node_selectors: Vec<Pattern>,
    /// Names of nodes that pods may be bound to, past the scheduler.
    pub node_names: Vec<Pattern>,
    /// Keys of taints that pods may tolerate; a toleration of all needs `*`. All if nothing is said.
    pub tolerations: Vec<Pattern>,
    /// Priority classes, of pods and of the cluster, also by the labels that batch schedulers read. A priority as a number needs `*`.
    pub priority_classes: Vec<Pattern>,
    /// Secrets that are read, however they are named. The key `auth_token` of the Secret that has the cluster's name is
    /// always allowed as a variable: the operator makes it.
    pub secrets: Vec<Pattern>,
    /// ConfigMaps that are read.
    pub config_maps: Vec<Pattern>,
    /// PersistentVolumeClaims, what they are copied from, and resource claims. To ask for a volume by name or labels,
    /// or for a copy from another namespace, needs `*`.
    pub claims: Vec<Pattern>,
    /// Secrets that images are pulled with.
    pub image_pull_secrets: Vec<Pattern>,
    /// Types of the head's service. Addresses, a selector and ports of nodes need `*`. `ClusterIP` if nothing is said.
    pub service_types: Vec<Pattern>,
    /// Names of the head's service beside `{cluster}-head-svc`.
    pub service_names: Vec<Pattern>,
    /// Hosts of the ingress. One for every host needs `*`, and so does every annotation of a cluster with an ingress
    /// that may be one for the ingress controller: the operator copies them all, and some add hosts.
    pub ingress_hosts: Vec<Pattern>,
    /// Whether Ray's autoscaler may be on: the operator gives the service account of the head's pod rights on all pods
    /// and RayClusters of the namespace. The account `default` needs to be among `serviceAccounts` for that.
    pub autoscaler: bool,
}

/// The names of the rules, as a policy has them.
pub const RULES: [&str; 19] = [
    "hostPaths",
    "hostNamespaces",
    "privileged",
    "capabilities",
    "volumeTypes",
    "serviceAccounts",
    "images",
    "nodeSelectors",
    "nodeNames",
    "tolerations",
    "priorityClasses",
    "secrets",
    "configMaps",
    "claims",
    "imagePullSecrets",
    "serviceTypes",
    "serviceNames",
    "ingressHosts",
    "autoscaler",
];

impl Default for PodRules {
    fn default() -> Self {
        Self::restricted()
    }
}

impl PodRules {
    /// The closed rules: what a policy that says nothing allows.
    #[must_use]
    pub fn restricted() -> Self {
        Self {
            host_paths: Vec::new(),
            host_namespaces: false,
            privileged: false,
            capabilities: Vec::new(),
            volume_types: Vec::new(),
            service_accounts: Vec::new(),
            images: vec![Pattern::any()],
            node_selectors: vec![Pattern::any()],
            node_names: Vec::new(),
            tolerations: vec![Pattern::any()],
            priority_classes: Vec::new(),
            secrets: Vec::new(),
            config_maps: Vec::new(),
            claims: Vec::new(),
            image_pull_secrets: Vec::new(),
            service_types: vec![Pattern::exactly("ClusterIP")],
            service_names: Vec::new(),
            ingress_hosts: Vec::new(),
            autoscaler: false,
        }
    }

    /// The rules that allow everything.
    #[must_use]
    pub fn unrestricted() -> Self {
        let all = || vec![Pattern::any()];
        Self {
            host_paths: all(),
            host_namespaces: true,
            privileged: true,
            capabilities: all(),
            volume_types: all(),
            service_accounts: all(),
            images: all(),
            node_selectors: all(),
            node_names: all(),
            tolerations: all(),
            priority_classes: all(),
            secrets: all(),
            config_maps: all(),
            claims: all(),
            image_pull_secrets: all(),
            service_types: all(),
            service_names: all(),
            ingress_hosts: all(),
            autoscaler: true,
        }
    }
}

/// One thing that isn't allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, one of [`RULES`].
    pub rule: &'static str,
    /// Where: a JSON Pointer (RFC 6901) into the RayCluster.
    pub place: String,
    /// What isn't allowed, in a sentence for whoever sent it.
    pub message: String,
    /// The values or patterns that would be allowed there; may be empty.
    pub allowed: Vec<String>,
}

/// What of the wanted RayCluster the rules don't allow, judged on the units that aren't as they are held (`None`:
/// nothing is held yet). Of very many violations the first hundred are told ([`crate::ray::fault::MOST`]).
#[must_use]
pub fn violations(rules: &PodRules, user: &str, held: Option<&Value>, wanted: &Value) -> Vec<Violation> {
    let cluster = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let mut judge = Judge { rules, names: Names { cluster, user }, found: Vec::new() };
    let nothing = At::root(&Value::Null);
    let (held, wanted) = (At::root(held.unwrap_or(&Value::Null)), At::root(wanted));
    judge.labels(Some(&held), &wanted, "metadata/labels");
    let Some(spec) = wanted.get("spec") else { return judge.found };
    let held_spec = held.get("spec").unwrap_or_else(|| nothing.clone());
    judge.options(&held_spec, &spec);
    judge.autoscaler(&held_spec, &spec);

    if let Some(node) = spec.get("headGroupSpec") {
        let held_node = held_spec.get("headGroupSpec").unwrap_or(nothing);
        let differs = |members: &[&'static str]| differ(&held_node, &node, members);
        judge.labels(Some(&held_node), &node, "labels");
        // The autoscaler's container may mount what the head's template has.
        let mounts = differ(&held_spec, &spec, &["autoscalerOptions", "enableInTreeAutoscaling"])
            && spec.all("autoscalerOptions/volumeMounts/*").pop().is_some();
        if mounts || differs(&["template"]) {
            judge.template(&node);
        }
        if differs(&["headService", "serviceType"]) || differ(&held_spec, &spec, &["headServiceAnnotations"]) {
            judge.service(&node);
        }
        let ingress_differs = differs(&["enableIngress", "ingressOptions"]);
        if ingress_differs {
            judge.ingress(&node);
        }
        judge.ingress_annotations(&held, &wanted, ingress_differs);
    }

    let mut twins = by_name(&held_spec);
    for group in spec.all("workerGroupSpecs/*") {
        let twin = twins.get_mut(&group.value["groupName"].to_string()).and_then(VecDeque::pop_front);
        judge.labels(twin.as_ref(), &group, "labels");
        if twin.is_none_or(|twin| differ(&twin, &group, &["template"])) {
            judge.template(&group);
        }
    }
    judge.found
}

/// The worker groups by name. Of several of one name each meets the one at its place among them.
fn by_name<'v>(spec: &At<'v>) -> HashMap<String, VecDeque<At<'v>>> {
    let mut groups: HashMap<_, VecDeque<_>> = HashMap::new();
    for group in spec.all("workerGroupSpecs/*") {
        groups.entry(group.value["groupName"].to_string()).or_default().push_back(group);
    }
    groups
}

/// Whether one of these members isn't what it is in the other; null is as if it weren't there.
fn differ<'v>(held: &At<'v>, wanted: &At<'v>, members: &[&'v str]) -> bool {
    let value = |at: &At<'v>, member| at.get(member).map(|member| member.value);
    members.iter().any(|member| value(held, member) != value(wanted, member))
}
