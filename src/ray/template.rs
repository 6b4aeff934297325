//! A pod template, kept raw, and what we read of it.

use serde_json::{Map, Value, json};

use super::quantity::Quantity;

/// Resource name of the GPUs that a document's `gpu` means.
pub const GPU: &str = "nvidia.com/gpu";

/// The Ray container: the first one (`RayContainerIndex` in KubeRay's `controllers/ray/utils/constant.go`).
#[must_use]
pub fn ray_container(template: &Value) -> Option<&Value> {
    template.pointer("/spec/containers/0")
}

/// The Ray container's image.
#[must_use]
pub fn image(template: &Value) -> Option<&str> {
    ray_container(template)?.get("image")?.as_str()
}

/// An amount of a resource, where it can be said in one word: a limit alone, or a request equal to it by value.
#[must_use]
pub fn short_amount(template: &Value, resource: &str) -> Option<String> {
    let resources = ray_container(template)?.get("resources")?;
    let amount = |kind: &str| resources.get(kind).and_then(|amounts| amounts.get(resource)).and_then(amount_text);
    let limit = amount("limits")?;
    let Some(request) = amount("requests") else {
        return Some(limit);
    };
    let same = Quantity::parse(&request).ok()? == Quantity::parse(&limit).ok()?;
    same.then_some(limit)
}

/// A quantity as Kubernetes stores it in a custom resource: a string or a number.
fn amount_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The Ray container's environment variables that have a plain value, in order.
pub fn plain_env(template: &Value) -> impl Iterator<Item = (String, String)> {
    let entries = ray_container(template).and_then(|container| container.get("env")).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| {
        let name = entry.get("name")?.as_str()?;
        // No value and no source: Kubernetes takes it for the empty string.
        let value = match entry.get("value") {
            Some(value) => value.as_str()?,
            None if entry.get("valueFrom").is_none() => "",
            None => return None,
        };
        Some((name.to_owned(), value.to_owned()))
    })
}

/// What a generated template is made of.
pub struct Generated<'a> {
    /// The Ray container's name.
    pub container: &'a str,
    /// Its image.
    pub image: &'a str,
    /// Resource → amount, both requested and the limit.
    pub amounts: Vec<(&'a str, &'a str)>,
    /// Environment variables in order.
    pub env: Vec<(&'a str, &'a str)>,
}

/// A pod template with one container, made of what a document says. `FallbackToLogsOnError` lets the kubelet itself put
/// a crashed container's last words into its status.
#[must_use]
pub fn generate(parts: &Generated<'_>) -> Value {
    let mut container = Map::new();
    container.insert("name".into(), parts.container.into());
    container.insert("image".into(), parts.image.into());
    if !parts.env.is_empty() {
        let env: Vec<_> = parts.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        container.insert("env".into(), env.into());
    }
    if !parts.amounts.is_empty() {
        let amounts: Map<_, _> =
            parts.amounts.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).into())).collect();
        container.insert("resources".into(), json!({"limits": amounts, "requests": amounts}));
    }
    container.insert("terminationMessagePolicy".into(), "FallbackToLogsOnError".into());
    json!({"spec": {"containers": [container]}})
}
