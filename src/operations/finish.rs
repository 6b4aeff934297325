//! Finishes what writes have begun: the second half of a restart, and worker groups that are dropped. Every replica does it,
//! of whosever writes; each step is guarded by the resourceVersion, so that of several replicas one takes it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::{Service, jitter, owned};
use crate::clock;
use crate::manager::ManagerError;
use crate::ray::begun;
use crate::ray::facts::NodeFact;
use crate::ray::json;
use crate::ray::name::ClusterKey;
use crate::ray::render::Form;

/// How many clusters the backend is asked about at once.
const AT_ONCE: usize = 8;

/// A cluster that isn't finished is looked at this often, besides whenever something changes.
const RECHECK: Duration = Duration::from_secs(2);

/// A pause after a step that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Since when nothing has been seen of the pods of a dropped group, by its name.
type Quiet = HashMap<String, Instant>;

impl Service {
    /// Finishes what is begun, for ever.
    pub async fn finish(&self) {
        let mut changed = self.cache.changed();
        let (mut sequence, mut followed) = (0, HashSet::new());
        let calls = Semaphore::new(AT_ONCE);
        let mut under_way = FuturesUnordered::new();
        loop {
            changed.mark_unchanged();
            for key in self.unfinished_since(&mut sequence) {
                if followed.insert(key.clone()) {
                    under_way.push(self.follow(key, &calls));
                }
            }
            tokio::select! {
                _ = changed.changed() => {}
                Some(key) = under_way.next() => {
                    followed.remove(&key);
                    // What was begun since it ended has been passed over.
                    if self.cache.get(&key).is_some_and(|entry| entry.unfinished) && followed.insert(key.clone()) {
                        under_way.push(self.follow(key, &calls));
                    }
                }
            }
        }
    }

    /// The clusters that have changed since this number, and that wait to be finished.
    fn unfinished_since(&self, sequence: &mut u64) -> Vec<ClusterKey> {
        let mut found = Vec::new();
        loop {
            let changes = self.cache.since(*sequence);
            *sequence = changes.upto;
            if changes.steps.is_empty() {
                return found;
            }
            let unfinished = changes.steps.iter().filter(|step| !step.gone && step.entry.unfinished);
            found.extend(unfinished.map(|step| step.entry.key.clone()));
        }
    }

    /// Follows a cluster until it is finished, or gone.
    async fn follow(&self, key: ClusterKey, calls: &Semaphore) -> ClusterKey {
        let mut changed = self.cache.changed();
        let mut quiet = Quiet::new();
        let mut looked = None;
        loop {
            // Another replica may do it meanwhile.
            sleep(jitter()).await;
            changed.mark_unchanged();
            let Some(entry) = self.cache.get(&key).filter(|entry| entry.unfinished) else { return key };
            let now = clock::timer();
            if looked.is_some_and(|(sequence, at)| sequence == entry.sequence && now < at + RECHECK) {
                // Something else has changed.
                let _ = timeout(RECHECK, changed.changed()).await;
                continue;
            }
            looked = Some((entry.sequence, now));
            let object: Value = serde_json::from_slice(&entry.face(Form::Clear).object).unwrap_or_default();
            let nodes = self.cache.nodes(&entry.uid);
            hush(&mut quiet, &object, &nodes);
            if next_step(&object, &nodes, &self.settled(&quiet)).is_some() {
                let Ok(_permit) = calls.acquire().await else { return key };
                if let Err(error) = self.take_step(&key, &quiet).await {
                    tracing::warn!(cluster = %key, %error, "what a write has begun can't be finished yet");
                    sleep(PAUSE).await;
                }
            }
            // Whether it changes or not.
            let _ = timeout(RECHECK, changed.changed()).await;
        }
    }

    /// The groups of whose pods nothing has been seen for long enough.
    fn settled(&self, quiet: &Quiet) -> BTreeSet<String> {
        let now = clock::timer();
        let long = quiet.iter().filter(|(_, since)| now.duration_since(**since) >= self.settings.settle);
        long.map(|(group, _)| group.clone()).collect()
    }

    /// Takes the next step of what there is to finish, judged by what Kubernetes says now.
    async fn take_step(&self, key: &ClusterKey, quiet: &Quiet) -> Result<(), ManagerError> {
        let held = match self.backend.clusters.get(&key.namespace, &key.name).await {
            Err(ManagerError::NotFound) => return Ok(()),
            other => other?,
        };
        let mut pods = self.backend.workloads.list(&key.namespace, &key.name).await?;
        pods.retain(|pod| pod.owner_uid == held.uid());
        let Some(patch) = next_step(&held.raw, &pods, &self.settled(quiet)) else {
            self.cache.wrote(&held);
            return Ok(());
        };
        match self.backend.clusters.patch(&key.namespace, &key.name, held.resource_version(), &patch).await {
            Ok(observed) => {
                tracing::info!(cluster = %key, "took a step of what a write has begun");
                self.cache.wrote(&observed);
                Ok(())
            }
            // Somebody else was faster.
            Err(ManagerError::Conflict | ManagerError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Notes since when nothing is seen of the pods of dropped groups.
fn hush(quiet: &mut Quiet, object: &Value, nodes: &[NodeFact]) {
    let dropped = begun::dropped_groups(object);
    let is_quiet = |group: &String| dropped.contains(group) && !has_pods(nodes, group);
    quiet.retain(|group, _| is_quiet(group));
    for group in dropped.iter().filter(|group| is_quiet(group)) {
        quiet.entry(group.clone()).or_insert_with(clock::timer);
    }
}

fn has_pods(nodes: &[NodeFact], group: &str) -> bool {
    nodes.iter().any(|node| begun::is_of_group(node, group))
}

/// What to change of an object with these pods next; nothing where that has to wait. Of the `settled` groups no pod has been
/// seen for long enough.
fn next_step(object: &Value, pods: &[NodeFact], settled: &BTreeSet<String>) -> Option<Value> {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    if begun::has_restart(object) {
        let is_ours = owned::check_suspension(object).is_ok();
        if !begun::is_restarting(object) || !is_ours {
            return Some(begun::restart_end(object, false));
        }
        if begun::is_suspended(object) && pods.is_empty() {
            return Some(begun::restart_end(object, true));
        }
    }
    // A pod that the operator made by what the spec was before may still come until it has seen what it is now.
    let observed = begun::is_observed(object);
    let is_gone = |group: &String| !has_pods(pods, group) && (observed || settled.contains(group));
    let back = begun::wanted_back(object);
    let is_over = |group: &String| back.contains(group) || is_gone(group);
    let over: BTreeSet<_> = begun::dropped_groups(object).into_iter().filter(is_over).collect();
    let after = if over.is_empty() { begun::with_pods_named(object, pods)? } else { begun::taken_out(object, &over) };
    Some(json::difference(object, &after).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ray::facts::NodeRole;

    fn group(name: &str, most: i64) -> Value {
        json!({"groupName": name, "replicas": 0, "minReplicas": 0, "maxReplicas": most})
    }

    fn pod(group: &str) -> NodeFact {
        NodeFact { name: format!("{group}-1"), role: NodeRole::Worker, group: group.into(), ..NodeFact::default() }
    }

    /// Somebody with kubectl, or an older raygate, wants a group back that is being dropped; its pods are there before the
    /// mark is taken away.
    #[test]
    fn a_group_that_is_wanted_back_is_no_longer_marked() {
        let object = json!({
            "metadata": {"generation": 3, "annotations": {begun::DROPPED_GROUPS: r#"["w"]"#}},
            "spec": {"workerGroupSpecs": [group("w", 5)]},
            "status": {"observedGeneration": 3},
        });
        let step = next_step(&object, &[pod("w")], &BTreeSet::new());
        let unmarked = json!({"metadata": {"annotations": null}});
        assert_eq!(
            step.map(|step| step["metadata"].clone()),
            Some(unmarked["metadata"].clone()),
            "it is hidden for ever"
        );
    }

    /// With `upgradeStrategy` `Recreate` each change of the groups makes all pods anew.
    #[test]
    fn a_cluster_starts_again_without_the_groups_that_are_dropped() {
        let object = json!({
            "metadata": {"generation": 3, "annotations": {begun::DROPPED_GROUPS: r#"["w"]"#, begun::RESTART: "v1:x"}},
            "spec": {"suspend": true, "upgradeStrategy": {"type": "Recreate"}, "workerGroupSpecs": [group("w", 0)]},
            "status": {"observedGeneration": 3, "conditions": [{"type": "RayClusterSuspended", "status": "True"}]},
        });
        let step = next_step(&object, &[], &BTreeSet::new()).unwrap();
        assert_eq!(
            (&step["spec"]["suspend"], &step["spec"]["workerGroupSpecs"]),
            (&json!(false), &json!([])),
            "{step}"
        );
    }
}
