//! Page tokens: "after this cluster, in this selection". They never expire, hold on every replica, and carry no rights.

use serde_json::Value;

use super::Selection;
use crate::ray::name::{ClusterKey, is_dns1123_label, is_dns1123_subdomain};
use crate::ray::revision::digest;

/// The token of the page that begins after this cluster.
#[must_use]
pub fn write(key: &ClusterKey, selection: &Selection) -> String {
    format!("1~{}~{key}", bound(selection))
}

/// After which cluster the page begins; `None` where the token isn't one of this selection.
#[must_use]
pub fn read(token: &str, selection: &Selection) -> Option<ClusterKey> {
    let mut parts = token.splitn(3, '~');
    let (version, selected, key) = (parts.next()?, parts.next()?, parts.next()?);
    let (name, namespace) = key.rsplit_once('.')?;
    let valid =
        version == "1" && selected == bound(selection) && is_dns1123_subdomain(name) && is_dns1123_label(namespace);
    valid.then(|| ClusterKey::new(namespace, name))
}

/// A selection as one short text, as it was asked for: another one's tokens aren't taken.
fn bound(selection: &Selection) -> String {
    let Selection { namespace, label_selector, owner } = selection;
    let asked = [namespace, label_selector, owner].map(|asked| Value::from(asked.as_deref().unwrap_or_default()));
    digest(Value::from(asked.to_vec()).to_string().as_bytes())
}
