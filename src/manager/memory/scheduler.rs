//! The machines that pods run on, and a scheduler in kube-scheduler's words (1.35): CPUs, memory, GPUs, node selectors
//! and machines that are lost.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::ray::quantity::Quantity;

/// The resource name of GPUs.
const GPU: &str = "nvidia.com/gpu";

/// Amounts by resource, in units of 10⁻⁹.
pub(super) type Amounts = BTreeMap<String, i128>;

/// One machine.
struct Node {
    labels: BTreeMap<String, String>,
    capacity: Amounts,
    used: Amounts,
    pods: usize,
    /// Tainted as unreachable: takes no pod.
    lost: bool,
}

/// All machines.
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// So many machines of one kind, `memory-node-1` and so on.
    pub(super) fn new(count: usize, cpu: &Quantity, memory: &Quantity, gpus: u32) -> Self {
        let gpus = i128::from(gpus) * 1_000_000_000;
        let capacity = [("cpu", cpu.nanos()), ("memory", memory.nanos()), (GPU, gpus)];
        let capacity: Amounts = capacity.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
        let node = |number: usize| {
            let name = name(number);
            let labels = [
                ("kubernetes.io/hostname", name.as_str()),
                ("kubernetes.io/os", "linux"),
                ("kubernetes.io/arch", "amd64"),
            ];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            Node { labels, capacity: capacity.clone(), used: Amounts::new(), pods: 0, lost: false }
        };
        Self((0..count).map(node).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Marks a machine as lost, or as back.
    pub(super) fn set_lost(&mut self, node: usize, lost: bool) {
        if let Some(node) = self.0.get_mut(node) {
            node.lost = lost;
        }
    }

    /// Gives the pod to the machine with the fewest pods of those that can take it; what the scheduler says where none
    /// can.
    pub(super) fn place(&mut self, pod: &PodSpec, wanted: &Amounts) -> Result<usize, String> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut best: Option<(usize, usize)> = None;
        for (index, node) in self.0.iter().enumerate() {
            let refusal = node.refusal(pod, wanted);
            if refusal.reasons.is_empty() {
                let found = (node.pods, index);
                best = Some(best.map_or(found, |best| best.min(found)));
                continue;
            }
            for reason in refusal.reasons {
                *reasons.entry(reason).or_default() += 1;
            }
            let verdict = if refusal.for_good {
                "Preemption is not helpful for scheduling"
            } else {
                "No preemption victims found for incoming pod"
            };
            *verdicts.entry(verdict).or_default() += 1;
        }
        let Some((_, index)) = best else {
            let (all, reasons, verdicts) = (self.0.len(), listed(reasons), listed(verdicts));
            return Err(format!(
                "0/{all} nodes are available: {reasons}. no new claims to deallocate, preemption: 0/{all} nodes are available: {verdicts}."
            ));
        };
        if let Some(node) = self.0.get_mut(index) {
            node.pods += 1;
            for (resource, amount) in wanted {
                *node.used.entry(resource.clone()).or_default() += amount;
            }
        }
        Ok(index)
    }

    /// Takes the pod's share back.
    pub(super) fn release(&mut self, node: usize, wanted: &Amounts) {
        if let Some(node) = self.0.get_mut(node) {
            node.pods = node.pods.saturating_sub(1);
            for (resource, amount) in wanted {
                *node.used.entry(resource.clone()).or_default() -= amount;
            }
        }
    }
}

/// The name of a machine.
pub(super) fn name(number: usize) -> String {
    format!("memory-node-{}", number + 1)
}

/// Why a machine can't take a pod.
#[derive(Default)]
struct Refusal {
    reasons: Vec<String>,
    /// Whether it couldn't even if it were empty.
    for_good: bool,
}

impl Node {
    /// As the scheduler's filters do it: the first that refuses has the word.
    fn refusal(&self, pod: &PodSpec, wanted: &Amounts) -> Refusal {
        let for_good = |reason: &str| Refusal { reasons: vec![reason.to_owned()], for_good: true };
        if self.lost {
            return for_good("node(s) had untolerated taint(s)");
        }
        let mut selector = pod.node_selector.iter().flatten();
        if !selector.all(|(key, value)| self.labels.get(key) == Some(value)) {
            return for_good("node(s) didn't match Pod's node affinity/selector");
        }
        let mut refusal = Refusal::default();
        for (resource, wanted) in wanted.iter().filter(|(_, wanted)| **wanted > 0) {
            let capacity = self.capacity.get(resource).copied().unwrap_or_default();
            let used = self.used.get(resource).copied().unwrap_or_default();
            if *wanted > capacity - used {
                refusal.reasons.push(format!("Insufficient {resource}"));
                refusal.for_good |= *wanted > capacity;
            }
        }
        refusal
    }
}

/// `2 Insufficient cpu, 1 node(s) …`, in the order of the words with their numbers, as Go sorts them.
fn listed<T: std::fmt::Display>(counts: BTreeMap<T, usize>) -> String {
    let mut words: Vec<String> = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
    words.sort();
    words.join(", ")
}

/// What the pod asks for: the sum of its containers, or what one of its init containers needs where that is more. What
/// has a limit alone asks for that.
///
/// # Errors
/// An amount that isn't one.
pub(super) fn requests(pod: &PodSpec) -> Result<Amounts, String> {
    let mut total = Amounts::new();
    for container in &pod.containers {
        for (resource, amount) in container_requests(container)? {
            *total.entry(resource).or_default() += amount;
        }
    }
    for container in pod.init_containers.iter().flatten() {
        for (resource, amount) in container_requests(container)? {
            let total = total.entry(resource).or_default();
            *total = (*total).max(amount);
        }
    }
    // The machines have enough of it, whatever is asked.
    total.remove("ephemeral-storage");
    Ok(total)
}

fn container_requests(container: &Container) -> Result<Amounts, String> {
    let Some(resources) = &container.resources else { return Ok(Amounts::new()) };
    let mut amounts = Amounts::new();
    for (resource, amount) in resources.limits.iter().chain(&resources.requests).flatten() {
        let amount = Quantity::parse(&amount.0).map_err(|wrong| wrong.message)?;
        amounts.insert(resource.clone(), amount.nanos());
    }
    Ok(amounts)
}
