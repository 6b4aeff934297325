//! What a client sends: a document or a whole RayCluster, as JSON or YAML.

use serde_json::Value;

use super::fault::{Fault, Faults};
use super::json;
use super::yaml::{self, Places, Yaml};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259.
    Json,
    /// YAML, read as kubectl reads it.
    Yaml,
}

/// A body as it was read; by default there is none.
#[derive(Debug, Default)]
pub struct Body {
    /// What it says.
    pub value: Value,
    twice: Vec<Fault>,
    places: Option<Places>,
}

impl Body {
    /// Reads a body.
    ///
    /// # Errors
    /// Where it isn't written in this format.
    pub fn read(format: Format, bytes: &[u8]) -> Result<Self, Faults> {
        match format {
            Format::Json => {
                let (value, twice) = json::read(bytes)?;
                Ok(Self { value, twice: twice.0, places: None })
            }
            Format::Yaml => {
                let Yaml { value, twice, places } = yaml::read(bytes)?;
                Ok(Self { value, twice: twice.0, places: Some(places) })
            }
        }
    }

    /// Whether it is a whole RayCluster, as kubectl takes it, rather than a document.
    #[must_use]
    pub fn is_manifest(&self) -> bool {
        self.value.get("apiVersion").is_some() || self.value.get("kind").is_some()
    }

    /// Whether nothing is wrong with it: neither these faults nor keys that are there twice.
    ///
    /// # Errors
    /// All that is wrong with it; of YAML with line and column.
    pub fn judge(&self, mut found: Vec<Fault>) -> Result<(), Faults> {
        found.extend(self.twice.iter().cloned());
        if found.is_empty() {
            return Ok(());
        }
        let mut faults = Faults(found);
        if let Some(places) = &self.places {
            places.explain(&mut faults);
        }
        Err(faults)
    }
}
