//! Between a RayCluster and its document: [`view`] one way, [`build`] the other.

use super::cluster::{HeadGroupSpec, RayCluster, RayClusterSpec, WorkerGroupSpec};
use super::document::{Document, Head, WorkerGroup};
use super::name::is_reserved_key;
use super::template::{GPU, Generated, generate, image, plain_env, short_amount};
use super::values::{Amount, ClusterName, Count, Image, ImageTag, Keyed, LabelValue, NamespaceName, WholeAmount};

/// What a new cluster gets where its document says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// `rayVersion`.
    pub ray_version: String,
    /// `head.cpu`.
    pub head_cpu: String,
    /// `head.memory`.
    pub head_memory: String,
}

/// The document of a RayCluster.
#[must_use]
pub fn view(cluster: &RayCluster) -> Document {
    let spec = cluster.spec.as_ref();
    let head = spec.and_then(|spec| spec.head_group_spec.as_ref());
    let ray_version = spec.and_then(|spec| spec.ray_version.clone());
    let head_image = head.and_then(|head| image(&head.template));
    let derived = ray_version.as_deref().map(ray_image);

    let mut groups = Keyed::default();
    for group in cluster.worker_groups() {
        // Two groups of one name can be stored: the first is shown.
        groups.0.entry(group.group_name.clone()).or_insert_with(|| view_group(group, head_image));
    }
    let users = |key: &str| !is_reserved_key(key);
    let labels = cluster.metadata.labels.iter().flatten().filter(|(key, _)| users(key));
    let annotations = cluster.metadata.annotations.iter().flatten().filter(|(key, _)| users(key));
    Document {
        name: ClusterName(cluster.metadata.name.clone().unwrap_or_default()),
        namespace: cluster.metadata.namespace.clone().map(NamespaceName),
        labels: labels.map(|(key, value)| (key.clone(), LabelValue(value.clone()))).collect(),
        annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
        image: head_image.filter(|image| Some(*image) != derived.as_deref()).map(|image| Image(image.to_owned())),
        ray_version: ray_version.map(ImageTag),
        suspended: Some(spec.and_then(|spec| spec.suspend).unwrap_or(false)),
        head: head.map(view_head),
        worker_groups: groups,
    }
}

fn view_head(head: &HeadGroupSpec) -> Head {
    let template = &head.template;
    Head {
        cpu: short_amount(template, "cpu").map(Amount),
        memory: short_amount(template, "memory").map(Amount),
        gpu: short_amount(template, GPU).map(WholeAmount),
        env: plain_env(template).collect(),
        ray_start_params: head.ray_start_params.clone().into_iter().flatten().collect(),
    }
}

fn view_group(group: &WorkerGroupSpec, head_image: Option<&str>) -> WorkerGroup {
    let template = &group.template;
    WorkerGroup {
        replicas: group.replicas.map(Count),
        min_replicas: group.min_replicas.map(Count),
        max_replicas: group.max_replicas.map(Count),
        image: image(template).filter(|image| Some(*image) != head_image).map(|image| Image(image.to_owned())),
        cpu: short_amount(template, "cpu").map(Amount),
        memory: short_amount(template, "memory").map(Amount),
        gpu: short_amount(template, GPU).map(WholeAmount),
        env: plain_env(template).collect(),
        ray_start_params: group.ray_start_params.clone().into_iter().flatten().collect(),
    }
}

/// The RayCluster that a document asks for.
#[must_use]
pub fn build(document: &Document, namespace: &str, defaults: &Defaults) -> RayCluster {
    let ray_version = document.ray_version.as_ref().map_or(defaults.ray_version.as_str(), |version| &version.0);
    let image = document.image.as_ref().map_or_else(|| ray_image(ray_version), |image| image.0.clone());
    let absent = Head::default();
    let head = document.head.as_ref().unwrap_or(&absent);

    let mut cluster = RayCluster::new(namespace, &document.name.0);
    if !document.labels.is_empty() {
        let labels = document.labels.0.iter().map(|(key, value)| (key.clone(), value.0.clone()));
        cluster.metadata.labels = Some(labels.collect());
    }
    if !document.annotations.is_empty() {
        let annotations = document.annotations.0.iter().map(|(key, value)| (key.clone(), value.clone()));
        cluster.metadata.annotations = Some(annotations.collect());
    }
    cluster.spec = Some(RayClusterSpec {
        ray_version: Some(ray_version.to_owned()),
        suspend: document.suspended,
        head_group_spec: Some(build_head(head, &image, defaults)),
        worker_group_specs: Some(
            document.worker_groups.0.iter().map(|(name, group)| build_group(name, group, &image)).collect(),
        ),
        ..RayClusterSpec::default()
    });
    cluster
}

fn build_head(head: &Head, image: &str, defaults: &Defaults) -> HeadGroupSpec {
    let cpu = head.cpu.as_ref().map_or(defaults.head_cpu.as_str(), |amount| &amount.0);
    let memory = head.memory.as_ref().map_or(defaults.head_memory.as_str(), |amount| &amount.0);
    let gpu = head.gpu.as_ref().map(|amount| (GPU, amount.0.as_str()));
    HeadGroupSpec {
        ray_start_params: Some(head.ray_start_params.0.clone()),
        template: generate(&Generated {
            container: "ray-head",
            image,
            amounts: [("cpu", cpu), ("memory", memory)].into_iter().chain(gpu).collect(),
            env: pairs(&head.env),
        }),
        ..HeadGroupSpec::default()
    }
}

fn build_group(name: &str, group: &WorkerGroup, image: &str) -> WorkerGroupSpec {
    let least = group.min_replicas.unwrap_or(Count(0));
    let cpu = group.cpu.as_ref().map(|amount| ("cpu", amount.0.as_str()));
    let memory = group.memory.as_ref().map(|amount| ("memory", amount.0.as_str()));
    let gpu = group.gpu.as_ref().map(|amount| (GPU, amount.0.as_str()));
    WorkerGroupSpec {
        group_name: name.to_owned(),
        replicas: Some(group.replicas.unwrap_or(least).0),
        min_replicas: Some(least.0),
        max_replicas: group.max_replicas.map(|count| count.0),
        ray_start_params: Some(group.ray_start_params.0.clone()),
        template: generate(&Generated {
            container: "ray-worker",
            image: group.image.as_ref().map_or(image, |image| &image.0),
            amounts: cpu.into_iter().chain(memory).chain(gpu).collect(),
            env: pairs(&group.env),
        }),
        ..WorkerGroupSpec::default()
    }
}

fn pairs<R>(members: &Keyed<String, R>) -> Vec<(&str, &str)> {
    members.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The image that a version of Ray means.
fn ray_image(version: &str) -> String {
    format!("rayproject/ray:{version}")
}

/// Where a field of the RayCluster that a document became (Kubernetes' notation, as in a refusal's causes) stands in the
/// document, as a JSON Pointer; the empty pointer, the whole document, where no member stands for it.
#[must_use]
pub fn document_pointer(field: &str, document: &Document) -> String {
    let members: Vec<&str> = field.split(['.', '[']).map(|member| member.trim_end_matches(']')).collect();
    let group = |index: &str| {
        let name = index.parse().ok().and_then(|index| document.worker_groups.0.get_index(index));
        name.map_or_else(|| "/workerGroups".to_owned(), |(name, _)| format!("/workerGroups/{name}"))
    };
    match members.as_slice() {
        ["metadata", "name", ..] => "/name".into(),
        ["metadata", member @ ("labels" | "annotations"), ..] => format!("/{member}"),
        ["spec", "rayVersion"] => "/rayVersion".into(),
        ["spec", "headGroupSpec", ..] => "/head".into(),
        ["spec", "workerGroupSpecs", index, member @ ("replicas" | "minReplicas" | "maxReplicas")] => {
            format!("{}/{member}", group(index))
        }
        ["spec", "workerGroupSpecs", index, ..] => group(index),
        _ => String::new(),
    }
}
