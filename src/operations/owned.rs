//! Clusters, or members of them, that a controller owns: what others write there is lost, or spoils its work.

use serde_json::Value;

use super::{ApiError, ErrorCode};

/// The kinds of KubeRay that make RayClusters of their own.
const MAKERS: [&str; 2] = ["RayJob", "RayService"];

/// The label by which Kueue owns a cluster's suspension (`QueueLabel` in Kueue's `pkg/controller/constants`).
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Whether a write from what is held to what is wanted leaves alone what a controller owns.
///
/// # Errors
/// `SPEC_OWNED`: a RayJob or RayService owns the spec. `SUSPENSION_OWNED`: Kueue decides when the cluster runs.
pub(super) fn check(held: &Value, wanted: &Value) -> Result<(), ApiError> {
    if held["spec"] == wanted["spec"] {
        return Ok(());
    }
    if let Some((kind, name)) = maker(held) {
        let detail = format!("This cluster is the {kind} {name}'s, which owns its spec.");
        let hint = format!("Change the {kind} instead.");
        return Err(ApiError::new(ErrorCode::SpecOwned, detail).hint(hint));
    }
    let suspended = |object: &Value| object["spec"]["suspend"] == true;
    if is_queued(held) && suspended(held) != suspended(wanted) {
        let detail = "Kueue decides when this cluster runs: it is in one of its queues.";
        let hint = format!("Take the label `{QUEUE}` away first, or ask whoever runs the queue.");
        return Err(ApiError::new(ErrorCode::SuspensionOwned, detail).hint(hint));
    }
    Ok(())
}

/// Whether a restart leaves alone what a controller owns.
///
/// # Errors
/// As [`check`].
pub(super) fn check_suspension(held: &Value) -> Result<(), ApiError> {
    let mut other = held.clone();
    other["spec"]["suspend"] = (held["spec"]["suspend"] != true).into();
    check(held, &other)
}

/// Where a controller decides when the cluster runs, a write that says nothing of it leaves it as it is held.
pub(super) fn keep_suspension(held: &Value, wanted: &mut Value) {
    if !is_queued(held) && maker(held).is_none() {
        return;
    }
    let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match held["spec"].get("suspend") {
        Some(suspend) => spec.insert("suspend".to_owned(), suspend.clone()),
        None => spec.shift_remove("suspend"),
    };
}

fn is_queued(held: &Value) -> bool {
    held["metadata"]["labels"].get(QUEUE).is_some()
}

/// The kind and name of the controller that made the cluster, if one did.
fn maker(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let kind = owner["kind"].as_str().filter(|kind| MAKERS.contains(kind))?;
    Some((kind, owner["name"].as_str().unwrap_or_default()))
}
