//! What somebody wants of the pods, against what they may have.

use serde_json::Value;

use super::{ApiError, ErrorCode};
use crate::access::Caller;
use crate::access::pods::Violation;
use crate::ray::fault::{Fault, FaultCode, Faults, MOST};
use crate::ray::mask::hidden_values;
use crate::ray::name::ClusterKey;

/// Whether the caller may have what the pods of `wanted` contain, as far as it differs from what is held; and that
/// nothing in it was read masked. `place` tells where in the body something of the RayCluster stands.
pub(super) fn check(
    caller: &Caller,
    key: &ClusterKey,
    held: Option<&Value>,
    wanted: &Value,
    place: impl Fn(&str) -> String,
) -> Result<(), ApiError> {
    let standing = held.map(hidden_values).unwrap_or_default();
    let masked = hidden_values(wanted).into_iter().filter(|pointer| !standing.contains(pointer)).map(|pointer| {
        let message = "This is what stands in place of a value that its reader may not see, not a value.";
        Fault::new(place(&pointer), FaultCode::InvalidValue, message)
    });
    let masked: Vec<_> = masked.collect();
    if !masked.is_empty() {
        return Err(ApiError::faulty(Faults(masked)));
    }
    let violations = caller.violations(key, held, wanted);
    let Some(first) = violations.first() else { return Ok(()) };
    let detail = match violations.as_slice() {
        [only] => format!("{} (rule `{}`)", only.message, only.rule),
        many => format!("{} things in the pods aren't allowed; `errors` lists them.", many.len()),
    };
    let error = ApiError::new(ErrorCode::PodNotAllowed, detail)
        .rule(first.rule)
        .about(key, held.and_then(|held| held["metadata"]["uid"].as_str()));
    let hint = "The rules are those of your role in this namespace; an operator or admin may be allowed more.";
    let fault = |one: Violation| {
        let message = format!("{} (rule `{}`)", one.message, one.rule);
        Fault::new(place(&one.place), FaultCode::NotAllowed, message).allowing(one.allowed)
    };
    Err(ApiError { faults: violations.into_iter().take(MOST).map(fault).collect(), ..error.hint(hint) })
}
