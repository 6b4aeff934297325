//! YAML in and out: read as kubectl reads it, written so that every reader agrees.
//!
//! The scanner is granit-parser's; what a word means is ours, since kubectl's reader (sigs.k8s.io/yaml, on go-yaml v2) is neither
//! YAML 1.1's nor 1.2's. `kubectl.tsv` holds what that reader says, and a test holds us to it.

mod build;
mod places;
mod scalar;
mod scan;
mod write;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::fault::{Fault, FaultCode, Faults};
pub use places::Places;
pub use write::write;

/// How deep a document may be nested, as in JSON.
const DEPTH: usize = 127;

/// A YAML document as JSON, and where in the text its parts stood.
#[derive(Debug)]
pub struct Yaml {
    /// The document; where a key is there twice, the last one.
    pub value: Value,
    /// One fault per key that is there twice. They have no place yet: [`Places::explain`] adds it.
    pub twice: Faults,
    /// Where the parts of the document stood.
    pub places: Places,
}

/// Reads one YAML document as kubectl would; empty documents beside it are skipped.
///
/// # Errors
/// One syntax fault with line and column (from 1).
pub fn read(bytes: &[u8]) -> Result<Yaml, Faults> {
    read_within(bytes, &build::BUDGET).map_err(Faults::from)
}

fn read_within(bytes: &[u8], budget: &build::Budget) -> Result<Yaml, Fault> {
    let text = text(bytes)?;
    match scan::scan(text)? {
        Some(document) => build::build(&document, budget),
        None => Err(Fault::new("", FaultCode::Syntax, "The body is empty; a YAML document is needed.")),
    }
}

/// Where something stands: line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    line: u32,
    column: u32,
}

impl Mark {
    fn new(line: usize, column: usize) -> Self {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }

    /// The fault of what is nested too deeply.
    fn too_deep(self) -> Fault {
        self.fault(&format!("it is nested more than {DEPTH} deep"))
    }

    /// The place behind this much of the text.
    fn behind(text: &str) -> Self {
        let line = text.rsplit('\n').next().unwrap_or(text);
        Self::new(text.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// A syntax fault here; `what` is a clause.
    fn fault(self, what: &str) -> Fault {
        let message =
            format!("This is not YAML that can be read: {what} (line {}, column {}).", self.line, self.column);
        Fault::new("", FaultCode::Syntax, message)
    }
}

/// The body as text, without a byte order mark and free of what no document may contain.
fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let start = Mark::new(1, 1);
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] = bytes {
        return Err(start.fault("it is UTF-16 or UTF-32; this takes UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        Mark::behind(&String::from_utf8_lossy(valid)).fault("it is not UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let control = |c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r');
    match text.split_once(control) {
        Some((before, _)) => Err(Mark::behind(before).fault("control characters are not allowed")),
        None => Ok(text),
    }
}
