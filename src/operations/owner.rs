//! Hand a cluster over.

use serde_json::{Value, json};

use super::error::from_manager;
use super::{ApiError, Service, Terms, Written};
use crate::access::{Action, Caller};
use crate::ray::body::{Body, Format};
use crate::ray::fault::{Fault, FaultCode};
use crate::ray::json;
use crate::ray::owner::{LONGEST, OWNER, is_name, label, owner, patch};

impl Service {
    /// Makes somebody the owner of a cluster: `{"owner": "name"}`; `null` makes it nobody's.
    ///
    /// # Errors
    /// No such cluster; the caller is no operator there; a guard that doesn't hold; a body that says something else.
    pub async fn set_owner(
        &self,
        caller: &Caller,
        reference: &str,
        (format, bytes): (Format, &[u8]),
        terms: &Terms,
    ) -> Result<Written, ApiError> {
        let key = self.resolve(caller, Action::SetOwner, reference)?;
        let wanted = read(&Body::read(format, bytes)?)?;
        self.fresh()?;
        let turn = self.turn(caller, Action::SetOwner, &key).await?;
        loop {
            let failed = |error| from_manager(error, &key);
            let held = self.backend.clusters.get(&key.namespace, &key.name).await.map_err(failed)?;
            self.may(caller, Action::SetOwner, &key, (held.uid(), owner(&held.raw)))?;
            if held.metadata.deletion_timestamp.is_some() {
                return Err(ApiError::deleting(&key));
            }
            terms.guard.check(Some(&held.raw))?;
            let said = |member: &str| held.raw["metadata"][member].get(OWNER).and_then(Value::as_str);
            if said("annotations") == wanted.as_deref() && said("labels") == wanted.as_deref().map(label).as_deref() {
                return Ok(self.written(caller, &held, Vec::new(), terms));
            }
            let patch = json!({"metadata": patch(wanted.as_deref())});
            if let Some(observed) = self.attempt(&key, &held, &patch, terms).await.map_err(failed)? {
                let mut object = held.raw.clone();
                json::merge(&mut object, &patch);
                return Ok(self.written(caller, &observed, json::changes(&held.raw, &object), terms));
            }
            turn.lost().await?;
        }
    }
}

/// The name in the body; `None` for nobody.
fn read(body: &Body) -> Result<Option<String>, ApiError> {
    let mut faults = Vec::new();
    let mut wanted = None;
    match body.value.as_object() {
        None => faults.push(Fault::wrong_type("", "an object", &body.value)),
        Some(members) => {
            for name in members.keys().filter(|name| *name != "owner") {
                faults.push(Fault::unknown(format!("/{name}"), FaultCode::UnknownMember, name, &["owner"]));
            }
            match members.get("owner") {
                None => {
                    faults.push(Fault::new("/owner", FaultCode::Required, "`owner` is required; `null` is nobody."));
                }
                Some(Value::Null) => {}
                Some(Value::String(name)) if is_name(name) => wanted = Some(name.clone()),
                Some(Value::String(_)) => {
                    let message = format!("A name is one line of at most {LONGEST} bytes, without blanks around it.");
                    faults.push(Fault::new("/owner", FaultCode::InvalidName, message));
                }
                Some(other) => faults.push(Fault::wrong_type("/owner", "a string", other)),
            }
        }
    }
    body.judge(faults)?;
    Ok(wanted)
}
