//! stub
use serde::Deserialize;
use serde_json::Value;
/// What the pods of a cluster may contain.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct PodRules {
    #[serde(skip)]
    all: bool,
}
impl PodRules {
    /// closed
    #[must_use]
    pub fn restricted() -> Self {
        Self::default()
    }
    /// open
    #[must_use]
    pub fn unrestricted() -> Self {
        Self { all: true }
    }
}
/// One thing that isn't allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// rule
    pub rule: &'static str,
    /// place
    pub place: String,
    /// message
    pub message: String,
    /// allowed
    pub allowed: Vec<String>,
}
/// violations
#[must_use]
pub fn violations(_rules: &PodRules, _user: &str, _held: Option<&Value>, _wanted: &Value) -> Vec<Violation> {
    Vec::new()
}
