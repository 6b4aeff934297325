//! Patterns of names: `*` is any run of characters, everything else is itself.

use serde::Deserialize;

/// A pattern. `*` stands for any run of characters, also none; `{cluster}` for the cluster's name and `{name}` for the
/// user's. What they stand for is taken literally: a user called `*` is no wildcard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    /// What stands between the `*`s, so at least one.
    runs: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Cluster,
    Name,
}

/// What the placeholders of patterns stand for; nothing where it is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) cluster: &'a str,
    pub(super) user: &'a str,
}

impl TryFrom<String> for Pattern {
    type Error = String;

    /// # Errors
    /// Names what is in braces and no placeholder.
    fn try_from(text: String) -> Result<Self, String> {
        let runs = text.split('*').map(pieces).collect::<Result<_, _>>()?;
        Ok(Self { text, runs })
    }
}

/// The texts and placeholders of what stands between two `*`s.
fn pieces(run: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = run;
    while let Some((before, after)) = rest.split_once('{') {
        let unknown = || format!("`{{{after}` in a pattern: only `{{cluster}}` and `{{name}}` may be in braces");
        let (name, after) = after.split_once('}').ok_or_else(unknown)?;
        let placeholder = match name {
            "cluster" => Piece::Cluster,
            "name" => Piece::Name,
            _ => return Err(unknown()),
        };
        pieces.extend([Piece::Text(before.to_owned()), placeholder]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

impl Pattern {
    /// `*`, which everything matches.
    pub(super) fn any() -> Self {
        Self { text: "*".into(), runs: vec![Vec::new(), Vec::new()] }
    }

    /// What only this text matches.
    pub(super) fn exactly(text: &str) -> Self {
        Self { text: text.into(), runs: vec![vec![Piece::Text(text.into())]] }
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether everything matches.
    pub(super) fn is_any(&self) -> bool {
        !self.text.is_empty() && self.text.bytes().all(|byte| byte == b'*')
    }

    /// With its placeholders filled in; `None`, which nothing matches, if one of them stands for nothing.
    pub(super) fn filled(&self, names: Names<'_>) -> Option<Filled> {
        self.runs.iter().map(|run| literal(run, names)).collect::<Option<_>>().map(Filled)
    }

    /// Whether the text matches; never if a placeholder stands for nothing. The time grows with the sum of the lengths.
    pub(super) fn matches(&self, names: Names<'_>, text: &str) -> bool {
        self.filled(names).is_some_and(|filled| filled.matches(text))
    }
}

/// A pattern whose placeholders are filled in: what stands between its `*`s, so at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filled(Vec<String>);

impl Filled {
    /// The one name that it stands for; `None` if it may stand for others.
    pub(super) fn name(&self) -> Option<&str> {
        if let [only] = self.0.as_slice() { Some(only) } else { None }
    }

    /// As it would be written, each `*` as this.
    pub(super) fn with(&self, star: &str) -> String {
        self.0.join(star)
    }

    /// Whether the text matches. The time grows with the sum of the lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.name().is_some_and(|only| only == text);
        };
        let Some(rest) = text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str())) else {
            return false;
        };
        // The first place where a run fits leaves the most for those that follow.
        middle.iter().try_fold(rest, |rest, run| rest.split_once(run.as_str()).map(|(_, rest)| rest)).is_some()
    }
}

/// A run with its placeholders filled in.
fn literal(run: &[Piece], names: Names<'_>) -> Option<String> {
    let texts = run.iter().map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        Piece::Cluster => Some(names.cluster).filter(|name| !name.is_empty()),
        Piece::Name => Some(names.user).filter(|name| !name.is_empty()),
    });
    texts.collect()
}
