//! Where violations are gathered, and the few ways of judging a value.

use super::at::At;
use super::pattern::{Names, Pattern};
use super::{PodRules, Violation};
use crate::ray::fault::MOST;

/// Judges values by the rules, and keeps what it found.
pub(super) struct Judge<'a> {
    pub(super) rules: &'a PodRules,
    pub(super) names: Names<'a>,
    pub(super) found: Vec<Violation>,
}

impl Judge<'_> {
    /// Keeps a violation; no more than a person reads.
    pub(super) fn refuse(&mut self, rule: &'static str, at: &At<'_>, message: String, allowed: Vec<String>) {
        if self.found.len() < MOST {
            self.found.push(Violation { rule, place: at.pointer(), message, allowed });
        }
    }

    /// Whether one of the patterns matches.
    pub(super) fn fits(&self, patterns: &[Pattern], text: &str) -> bool {
        patterns.iter().any(|pattern| pattern.matches(self.names, text))
    }

    /// A text that must match one of the patterns; `what` is its member.
    pub(super) fn listed(&mut self, rule: &'static str, patterns: &[Pattern], what: &str, at: &At<'_>, text: &str) {
        if !self.fits(patterns, text) {
            self.not_among(rule, patterns, what, at, text);
        }
    }

    /// The same for a member that may be left out, or be empty.
    pub(super) fn named(&mut self, rule: &'static str, patterns: &[Pattern], what: &str, at: Option<&At<'_>>) {
        if let Some(at) = at.filter(|at| !at.text().is_empty()) {
            self.listed(rule, patterns, what, at, &at.text());
        }
    }

    /// The same for the name in a reference, which is one also without a name.
    pub(super) fn reference(&mut self, rule: &'static str, patterns: &[Pattern], member: &str, from: &At<'_>) {
        let name = from.get(member);
        let text = name.as_ref().map(At::text).unwrap_or_default();
        self.listed(rule, patterns, member, name.as_ref().unwrap_or(from), &text);
    }

    /// Says that a text isn't among the patterns.
    pub(super) fn not_among(&mut self, rule: &'static str, patterns: &[Pattern], what: &str, at: &At<'_>, text: &str) {
        let message = if text.is_empty() {
            format!("An empty `{}` isn't among the `{rule}` that you may use.", clip(what))
        } else {
            format!("`{}` {} isn't among the `{rule}` that you may use.", clip(what), clip(text))
        };
        self.refuse(rule, at, message, written(patterns));
    }

    /// What only `*` among the patterns allows.
    pub(super) fn needs_any(&mut self, rule: &'static str, patterns: &[Pattern], what: &str, at: &At<'_>) {
        if !has_any(patterns) {
            let message = format!("{what} needs `*` among the `{rule}` that you may use.");
            self.refuse(rule, at, message, vec!["*".into()]);
        }
    }

    /// A switch that must be off: whatever is neither absent nor null nor false is on.
    pub(super) fn off(&mut self, rule: &'static str, allowed: bool, what: &str, at: Option<&At<'_>>) {
        if let Some(at) = at.filter(|at| !allowed && *at.value != false) {
            self.refuse(rule, at, format!("You may not use `{what}` (`{rule}`)."), Vec::new());
        }
    }

    /// A member that takes these values only unless `privileged` is allowed.
    pub(super) fn unprivileged(&mut self, what: &str, at: Option<&At<'_>>, harmless: &[&str]) {
        let Some(at) = at.filter(|_| !self.rules.privileged) else { return };
        let text = at.text();
        if !text.is_empty() && !harmless.contains(&&*text) {
            let message = format!("You may not use `{what}` {} (`privileged`).", clip(&text));
            self.refuse("privileged", at, message, harmless.iter().map(|&value| value.into()).collect());
        }
    }
}

/// Whether everything is allowed.
pub(super) fn has_any(patterns: &[Pattern]) -> bool {
    patterns.iter().any(Pattern::is_any)
}

/// The patterns as they are written.
pub(super) fn written(patterns: &[Pattern]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

/// At most 80 characters of a text, for a message.
pub(super) fn clip(text: &str) -> String {
    const LONGEST: usize = 80;
    let clipped: String = text.chars().take(LONGEST).collect();
    if clipped.len() == text.len() { clipped } else { clipped + "…" }
}
