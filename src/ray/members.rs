//! The members of a document: what each is called, what it takes, where it stands in a RayCluster. One table, from which
//! a document is judged, viewed, built and described.

use super::fault::{FaultCode, Wrong};
use super::name::{
    check_cluster_name, check_label_key, check_label_name, check_label_value, check_metadata_key, is_dns1123_subdomain,
};

/// A rule for a text, or for the name of a member that the client chooses.
pub type Rule = fn(&str) -> Result<(), Wrong>;

/// What a member takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A text.
    Text(Rule),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number of 32 bits, not below this one.
    Whole(i32),
    /// A quantity, not negative; a JSON number is taken for its decimal string.
    Amount,
    /// A quantity that can't be divided.
    WholeAmount,
    /// A list of texts.
    Texts(Rule),
    /// Members whose names the client chooses.
    Map(Rule, &'static Kind),
    /// An object of this name with these members.
    Object(&'static str, &'static [&'static [Member]]),
    /// These members, and those that a RayCluster takes at this place.
    Extended(&'static [Member], &'static str),
    /// What a RayCluster takes at this place.
    Upstream(&'static str),
    /// The name alone, where the value at this place has a member (the second) for it; or that whole value.
    Named(&'static str, &'static str),
    /// A text, or what a RayCluster takes at this place.
    TextOr(&'static str),
}

/// How a member comes from its place and gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As it is; an empty map or list is left out.
    Copied,
    /// As it is, even if empty.
    Whole,
    /// By code of its own.
    Own,
}

/// One member.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its place, members separated by dots: from the RayCluster for a cluster's, from the head's or group's own entry
    /// for theirs, from the volume's entry for a volume's.
    pub place: &'static str,
    /// How it gets there.
    pub how: How,
    /// What it is, for the reader of the API's description.
    pub about: &'static str,
}

const fn copied(name: &'static str, kind: Kind, place: &'static str, about: &'static str) -> Member {
    Member { name, kind, place, how: How::Copied, about }
}

const fn whole(name: &'static str, kind: Kind, place: &'static str, about: &'static str) -> Member {
    Member { name, kind, place, how: How::Whole, about }
}

const fn own(name: &'static str, kind: Kind, place: &'static str, about: &'static str) -> Member {
    Member { name, kind, place, how: How::Own, about }
}

/// The Ray container: the first one (`RayContainerIndex` in KubeRay's `controllers/ray/utils/constant.go`).
macro_rules! container {
    ($member:literal) => {
        concat!("template.spec.containers.0.", $member)
    };
}

const TEXT: Kind = Kind::Text(any);
const TEXTS: Kind = Kind::Map(name, &TEXT);
const LABELS: Kind = Kind::Map(check_metadata_key, &Kind::Text(check_label_value));
const ANNOTATIONS: Kind = Kind::Map(check_metadata_key, &TEXT);
const AMOUNTS: Kind = Kind::Map(name, &Kind::Amount);
const PULL_POLICY: Kind = Kind::Choice(&["Always", "IfNotPresent", "Never"]);

/// What a document's head and groups are called in an API's description.
const HEAD_KIND: Kind = Kind::Object("Head", &[NODE]);
const GROUP_KIND: Kind = Kind::Object("WorkerGroup", &[GROUP, NODE]);
const VOLUME_KIND: Kind = Kind::Object("Volume", &[VOLUME]);

/// A whole document.
pub const DOCUMENT: Kind = Kind::Object("Document", &[CLUSTER]);

/// Members of a cluster.
pub static CLUSTER: &[Member] = &[
    own(
        "name",
        Kind::Text(check_cluster_name),
        "metadata.name",
        "The cluster's name: at most 53 lower-case letters, digits and hyphens, beginning with a letter.",
    ),
    own(
        "namespace",
        Kind::Text(namespace),
        "metadata.namespace",
        "The namespace; left out it is the caller's default namespace.",
    ),
    own("labels", LABELS, "metadata.labels", "Labels of the cluster."),
    own("annotations", ANNOTATIONS, "metadata.annotations", "Annotations of the cluster."),
    copied(
        "rayVersion",
        Kind::Text(image_tag),
        "spec.rayVersion",
        "Ray's version, e.g. `2.52.0`. It can be changed, not removed.",
    ),
    own(
        "image",
        Kind::Text(image),
        "spec.headGroupSpec.template.spec.containers.0.image",
        "The image of all nodes; left out it is `rayproject/ray:{rayVersion}`.",
    ),
    own(
        "suspended",
        Kind::Flag,
        "spec.suspend",
        "Whether the cluster is stopped: its name and spec stay, its nodes go.",
    ),
    own(
        "autoscaling",
        Kind::Extended(AUTOSCALING, "spec.autoscalerOptions"),
        "spec.autoscalerOptions",
        "Ray's autoscaler: `enabled`, and KubeRay's `autoscalerOptions`.",
    ),
    whole(
        "gcsFaultTolerance",
        Kind::Upstream("spec.gcsFaultToleranceOptions"),
        "spec.gcsFaultToleranceOptions",
        "Fault tolerance of the head: KubeRay's `gcsFaultToleranceOptions`.",
    ),
    whole(
        "auth",
        Kind::Upstream("spec.authOptions"),
        "spec.authOptions",
        "Authentication of Ray's own API: KubeRay's `authOptions`.",
    ),
    whole(
        "upgradeStrategy",
        Kind::Upstream("spec.upgradeStrategy"),
        "spec.upgradeStrategy",
        "What a changed template does to running nodes: KubeRay's `upgradeStrategy`.",
    ),
    own(
        "headService",
        Kind::Extended(HEAD_SERVICE, "spec.headGroupSpec.headService"),
        "spec.headGroupSpec.headService",
        "The head's Service: its `type` and `annotations`, and what KubeRay's `headService` takes.",
    ),
    own(
        "ingress",
        Kind::Extended(INGRESS, "spec.headGroupSpec.ingressOptions"),
        "spec.headGroupSpec.ingressOptions",
        "An Ingress to the head's dashboard: `enabled`, and KubeRay's `ingressOptions` where the installed version has them.",
    ),
    copied(
        "managedBy",
        Kind::Choice(&["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"]),
        "spec.managedBy",
        "The controller that cares for the cluster; it can't be changed.",
    ),
    own("deletionProtection", Kind::Flag, "metadata.annotations", "Whether a deletion is refused."),
    own("head", HEAD_KIND, "spec.headGroupSpec", "The head node."),
    own("workerGroups", Kind::Map(group_name, &GROUP_KIND), "spec.workerGroupSpecs", "The worker groups by name."),
];

/// Members of `autoscaling` that are raygate's own.
pub static AUTOSCALING: &[Member] = &[own(
    "enabled",
    Kind::Flag,
    "spec.enableInTreeAutoscaling",
    "Whether Ray's autoscaler sets the groups' `replicas`, between their bounds.",
)];

/// Members of `headService` that are raygate's own.
pub static HEAD_SERVICE: &[Member] = &[
    own(
        "type",
        Kind::Choice(&["ClusterIP", "NodePort", "LoadBalancer"]),
        "spec.headGroupSpec.serviceType",
        "The Service's type.",
    ),
    own("annotations", ANNOTATIONS, "spec.headServiceAnnotations", "The Service's annotations."),
];

/// Members of `ingress` that are raygate's own.
pub static INGRESS: &[Member] =
    &[own("enabled", Kind::Flag, "spec.headGroupSpec.enableIngress", "Whether there is an Ingress.")];

/// Members that only worker groups have.
pub static GROUP: &[Member] = &[
    copied(
        "replicas",
        Kind::Whole(0),
        "replicas",
        "How many replicas are wanted; left out it is the lower bound. Ray's autoscaler, where it is on, owns it.",
    ),
    copied("minReplicas", Kind::Whole(0), "minReplicas", "The lower bound; left out it is 0."),
    copied("maxReplicas", Kind::Whole(0), "maxReplicas", "The upper bound; left out there is none (2147483647)."),
    copied("numOfHosts", Kind::Whole(1), "numOfHosts", "Nodes per replica; left out it is 1."),
    copied(
        "idleTimeoutSeconds",
        Kind::Whole(0),
        "idleTimeoutSeconds",
        "After how many idle seconds the autoscaler takes a replica away.",
    ),
    copied(
        "priority",
        Kind::Whole(i32::MIN),
        "priority",
        "Which group the autoscaler prefers; needs a newer KubeRay than 1.6.",
    ),
    own(
        "image",
        Kind::Text(image),
        container!("image"),
        "The image of this group's nodes; left out it is the cluster's.",
    ),
];

/// Members of every kind of node.
pub static NODE: &[Member] = &[
    own(
        "cpu",
        Kind::Amount,
        container!("resources.limits.cpu"),
        "CPUs: requested and the limit. A quantity, e.g. `2` or `500m`.",
    ),
    own(
        "memory",
        Kind::Amount,
        container!("resources.limits.memory"),
        "Memory: requested and the limit. A quantity, e.g. `4Gi`.",
    ),
    own("gpu", Kind::WholeAmount, container!("resources.limits"), "GPUs, a whole number: requested and the limit."),
    own(
        "gpuResource",
        Kind::Text(gpu_resource),
        container!("resources.limits"),
        "The resource that `gpu` counts; left out it is `nvidia.com/gpu`.",
    ),
    own(
        "resources",
        Kind::Object("Resources", &[RESOURCES]),
        container!("resources"),
        "Every other resource, and those whose request isn't the limit.",
    ),
    copied("imagePullPolicy", PULL_POLICY, container!("imagePullPolicy"), "When the image is pulled."),
    own(
        "imagePullSecrets",
        Kind::Texts(subdomain),
        "template.spec.imagePullSecrets",
        "Names of the Secrets that open the image's registry.",
    ),
    own(
        "env",
        Kind::Map(env_name, &Kind::TextOr("spec.headGroupSpec.template.spec.containers[].env[].valueFrom")),
        container!("env"),
        "Environment variables of the Ray container: a text, or what Kubernetes has under `valueFrom`.",
    ),
    copied("rayStartParams", TEXTS, "rayStartParams", "Options of `ray start`, without the leading dashes."),
    own("labels", LABELS, "template.metadata.labels", "Labels of the pods."),
    own("annotations", ANNOTATIONS, "template.metadata.annotations", "Annotations of the pods."),
    copied("rayLabels", LABELS, "labels", "Labels that Ray's scheduler knows the nodes by; the pods have them too."),
    copied("rayResources", TEXTS, "resources", "Logical resources that Ray's scheduler counts, by name."),
    copied(
        "nodeSelector",
        Kind::Map(check_label_key, &Kind::Text(check_label_value)),
        "template.spec.nodeSelector",
        "Labels that the machine must carry.",
    ),
    copied(
        "tolerations",
        Kind::Upstream("spec.headGroupSpec.template.spec.tolerations"),
        "template.spec.tolerations",
        "Taints of machines that don't keep the pods away.",
    ),
    copied("serviceAccount", Kind::Text(subdomain), "template.spec.serviceAccountName", "The pods' service account."),
    copied("priorityClassName", Kind::Text(subdomain), "template.spec.priorityClassName", "The pods' priority class."),
    copied(
        "securityContext",
        Kind::Upstream("spec.headGroupSpec.template.spec.securityContext"),
        "template.spec.securityContext",
        "The pods' security context.",
    ),
    own(
        "volumes",
        Kind::Map(volume_name, &VOLUME_KIND),
        "template.spec.volumes",
        "Volumes that the Ray container mounts, by name.",
    ),
    own(
        "podTemplate",
        Kind::Upstream("spec.headGroupSpec.template"),
        "template",
        "Whatever else the pod's template holds. An entry of `containers` without an image is the Ray container's.",
    ),
];

/// Members of `resources`.
pub static RESOURCES: &[Member] = &[
    own("requests", AMOUNTS, "requests", "What the scheduler sets aside."),
    own("limits", AMOUNTS, "limits", "What may be used."),
];

/// Where the upstream schema of a volume's sources stands.
macro_rules! source {
    ($name:literal, $field:literal, $named:literal, $about:literal) => {
        own($name, Kind::Named(concat!("spec.headGroupSpec.template.spec.volumes[].", $field), $named), $field, $about)
    };
    ($name:literal, $about:literal) => {
        own($name, Kind::Upstream(concat!("spec.headGroupSpec.template.spec.volumes[].", $name)), $name, $about)
    };
}

/// Members of a volume: one of the first [`SOURCES`] says what it is, the rest how it is mounted.
pub static VOLUME: &[Member] = &[
    source!(
        "claim",
        "persistentVolumeClaim",
        "claimName",
        "A PersistentVolumeClaim: its name, or Kubernetes' `persistentVolumeClaim`."
    ),
    source!("configMap", "configMap", "name", "A ConfigMap: its name, or Kubernetes' `configMap`."),
    source!("secret", "secret", "secretName", "A Secret: its name, or Kubernetes' `secret`."),
    source!("emptyDir", "A folder that lives as long as the pod: Kubernetes' `emptyDir`."),
    source!("ephemeral", "A claim that lives as long as the pod: Kubernetes' `ephemeral`."),
    source!("hostPath", "A path of the machine: Kubernetes' `hostPath`."),
    own("mountPath", Kind::Text(mount_path), "mountPath", "Where the Ray container sees it."),
    own("readOnly", Kind::Flag, "readOnly", "Whether it can only be read."),
    own("subPath", TEXT, "subPath", "The path within the volume that is mounted."),
    own("subPathExpr", TEXT, "subPathExpr", "The same, with environment variables expanded."),
    own(
        "mountPropagation",
        Kind::Choice(&["None", "HostToContainer", "Bidirectional"]),
        "mountPropagation",
        "Which mounts of the machine are seen.",
    ),
    own(
        "recursiveReadOnly",
        Kind::Choice(&["Disabled", "IfPossible", "Enabled"]),
        "recursiveReadOnly",
        "Whether mounts below can only be read too.",
    ),
];

/// How many members of [`VOLUME`] say what the volume is.
pub const SOURCES: usize = 6;

#[expect(clippy::unnecessary_wraps, reason = "the shape of a rule")]
fn any(_: &str) -> Result<(), Wrong> {
    Ok(())
}

fn name(text: &str) -> Result<(), Wrong> {
    if text.is_empty() { Err(Wrong::new(FaultCode::InvalidName, "A name can't be empty.")) } else { Ok(()) }
}

fn namespace(text: &str) -> Result<(), Wrong> {
    check_label_name("a namespace", text)
}

fn volume_name(text: &str) -> Result<(), Wrong> {
    check_label_name("a volume", text)
}

fn group_name(text: &str) -> Result<(), Wrong> {
    if text == "headgroup" {
        return Err(Wrong::new(FaultCode::InvalidName, "`headgroup` is what KubeRay calls the head's own group."));
    }
    check_label_name("a worker group", text)
}

/// An object's name: RFC 1123's subdomain.
fn subdomain(text: &str) -> Result<(), Wrong> {
    if is_dns1123_subdomain(text) {
        return Ok(());
    }
    let message = format!(
        "`{text}` is no name of an object in Kubernetes: lower-case letters, digits, `-` and `.`, beginning and ending \
         with a letter or digit."
    );
    Err(Wrong::new(FaultCode::InvalidName, message))
}

/// Printable ASCII without `=` (Kubernetes' `IsRelaxedEnvVarName`).
fn env_name(text: &str) -> Result<(), Wrong> {
    if !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Ok(());
    }
    let message = format!("`{text}` is no name for an environment variable: printable ASCII characters without `=`.");
    Err(Wrong::new(FaultCode::InvalidName, message))
}

fn image(text: &str) -> Result<(), Wrong> {
    if !text.is_empty() && !text.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(Wrong::new(FaultCode::InvalidValue, "An image's reference is neither empty nor has it spaces."))
}

/// A tag of an image, as the OCI distribution specification has it.
fn image_tag(text: &str) -> Result<(), Wrong> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if (1..=128).contains(&text.len()) && text.bytes().all(inside) && !text.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(Wrong::new(FaultCode::InvalidValue, format!("`{text}` is no version of Ray; write one like `2.52.0`.")))
}

/// Kubernetes refuses a colon in a mount's path.
fn mount_path(text: &str) -> Result<(), Wrong> {
    if !text.is_empty() && !text.contains(':') {
        return Ok(());
    }
    Err(Wrong::new(FaultCode::InvalidValue, "A mount's path is neither empty nor has it a colon."))
}

fn gpu_resource(text: &str) -> Result<(), Wrong> {
    if is_gpu(text) {
        return Ok(());
    }
    let message =
        format!("KubeRay doesn't take `{text}` for a GPU (`…gpu`, `nvidia.com/mig-…`); put it into `resources`.");
    Err(Wrong::new(FaultCode::InvalidValue, message))
}

/// Whether KubeRay counts a resource as Ray's GPU (`IsGPUResourceKey` in its `controllers/ray/utils/resources.go`).
#[must_use]
pub fn is_gpu(resource: &str) -> bool {
    resource.ends_with("gpu") || is_mig(resource).unwrap_or(false)
}

/// `nvidia.com/mig-<slices>g.<memory>gb`.
fn is_mig(resource: &str) -> Option<bool> {
    let (slices, memory) = resource.strip_prefix("nvidia.com/mig-")?.strip_suffix("gb")?.split_once("g.")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Some(digits(slices) && digits(memory))
}
