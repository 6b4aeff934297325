//! What the pods of a group are made of, as KubeRay's operator (1.6, `controllers/ray/common/pod.go`) builds it from the
//! group's template. Left out: probes, ports, variables, `/dev/shm` and token authentication, of which no pod fails here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde_json::Value;

use super::scheduler::{Amounts, requests};
use crate::ray::cluster::RayCluster;
use crate::ray::facts::NodeRole;

/// Most containers of a pod here: far more than anybody has, and a bound on what one request can make the process do.
const MOST_CONTAINERS: usize = 256;
/// Most resources that a container may name; the same.
const MOST_RESOURCES: usize = 64;

/// The init container in which a worker waits for its head.
pub(super) const WAIT: &str = "wait-gcs-ready";

/// What the pods of a group are made of.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) spec: PodSpec,
    /// What a machine must have left for one.
    pub(super) requests: Amounts,
}

impl Template {
    /// Builds it.
    ///
    /// # Errors
    /// What the apiserver would say against such a pod.
    pub(super) fn new(cluster: &RayCluster, role: NodeRole, group: &str) -> Result<Self, String> {
        let raw = raw(cluster, role, group);
        let template = PodTemplateSpec::deserialize(raw).map_err(|error| error.to_string())?;
        let annotations = template.metadata.and_then(|metadata| metadata.annotations).unwrap_or_default();
        let overwrites = |value: &String| value.eq_ignore_ascii_case("true");
        let keeps_command = annotations.get("ray.io/overwrite-container-cmd").is_some_and(overwrites);
        let mut spec = template.spec.unwrap_or_default();
        if let Some(ray) = spec.containers.first_mut() {
            let wait = wait_for_head(ray);
            if !keeps_command {
                wrap_command(ray, role);
            }
            if role == NodeRole::Worker {
                spec.init_containers.get_or_insert_default().push(wait);
            }
        }
        if cluster.autoscaling() {
            let options = cluster.spec.as_ref().and_then(|spec| spec.extra.get("autoscalerOptions"));
            add_autoscaler(&mut spec, role, options.unwrap_or(&Value::Null));
        }
        let (count, most) = (containers(&spec).count(), MOST_CONTAINERS);
        if count > most {
            return Err(format!("spec.containers: Too many: {count}: must have at most {most} items"));
        }
        for (path, container) in containers(&spec) {
            let amounts = container.resources.as_ref();
            let amounts = amounts.and_then(|resources| resources.limits.as_ref().or(resources.requests.as_ref()));
            let (amounts, most) = (amounts.map_or(0, BTreeMap::len), MOST_RESOURCES);
            if amounts > most {
                return Err(format!("{path}.resources: Too many: {amounts}: must have at most {most} items"));
            }
            if container.image.as_deref().unwrap_or_default().is_empty() {
                return Err(format!("{path}.image: Required value"));
            }
        }
        let requests = requests(&spec)?;
        Ok(Self { spec, requests })
    }

    /// The containers in the order in which they start, and whether each is an init container.
    pub(super) fn containers(&self) -> impl Iterator<Item = (&Container, bool)> {
        let init = self.spec.init_containers.iter().flatten().map(|container| (container, true));
        init.chain(self.spec.containers.iter().map(|container| (container, false)))
    }
}

fn raw<'a>(cluster: &'a RayCluster, role: NodeRole, group: &str) -> &'a Value {
    let head = cluster.spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref());
    let template = match role {
        NodeRole::Head => head.map(|head| &head.template),
        NodeRole::Worker | NodeRole::Other => {
            cluster.worker_groups().find(|found| found.group_name == group).map(|group| &group.template)
        }
    };
    template.unwrap_or(&Value::Null)
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = (String, &Container)> {
    let init = spec.init_containers.iter().flatten().enumerate();
    let init = init.map(|(index, container)| (format!("spec.initContainers[{index}]"), container));
    let others = spec.containers.iter().enumerate();
    init.chain(others.map(|(index, container)| (format!("spec.containers[{index}]"), container)))
}

fn bash() -> Vec<String> {
    ["/bin/bash", "-c", "--"].map(str::to_owned).to_vec()
}

/// Of the same image as the Ray container, with its variables and mounts. What it runs is the kubelet's to know.
fn wait_for_head(ray: &Container) -> Container {
    Container {
        name: WAIT.to_owned(),
        image: ray.image.clone(),
        image_pull_policy: ray.image_pull_policy.clone(),
        command: Some(bash()),
        env: ray.env.clone(),
        volume_mounts: ray.volume_mounts.clone(),
        resources: Some(amounts("200m", "256Mi")),
        ..Container::default()
    }
}

/// The operator runs `COMMAND ARGS && ulimit …; ray start …` in a shell, and the quotes of a list of words are lost.
fn wrap_command(ray: &mut Container, role: NodeRole) {
    let words = ray.command.iter().flatten().chain(ray.args.iter().flatten());
    let own = words.map(|word| format!(" {word} ")).collect::<Vec<_>>().concat();
    if own.contains("ray start") {
        return;
    }
    let head = if role == NodeRole::Head { " --head" } else { "" };
    let start = format!("ulimit -n 65536; ray start{head} --block");
    ray.command = Some(bash());
    ray.args = Some(vec![if own.is_empty() { start } else { format!("{own} && {start}") }]);
}

/// With autoscaling the head has a second container; with its second version no pod is restarted in place.
fn add_autoscaler(spec: &mut PodSpec, role: NodeRole, options: &Value) {
    if options["version"] == "v2" {
        spec.restart_policy = Some("Never".to_owned());
    }
    if role != NodeRole::Head {
        return;
    }
    let image = options["image"].as_str().map(str::to_owned);
    let resources = ResourceRequirements::deserialize(&options["resources"]);
    spec.containers.push(Container {
        name: "autoscaler".to_owned(),
        image: image.or_else(|| spec.containers.first()?.image.clone()),
        command: Some(bash()),
        args: Some(vec!["ray kuberay-autoscaler".to_owned()]),
        resources: Some(resources.unwrap_or_else(|_| amounts("500m", "512Mi"))),
        ..Container::default()
    });
}

fn amounts(cpu: &str, memory: &str) -> ResourceRequirements {
    let amounts = [("cpu", cpu), ("memory", memory)];
    let amounts = amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    ResourceRequirements { requests: Some(amounts.clone().into()), limits: Some(amounts.into()), claims: None }
}
