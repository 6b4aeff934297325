//! Patterns for names: `*` stands for any run of characters, everything else for itself.

use std::fmt;

/// A pattern for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// What stands between the asterisks.
    parts: Vec<String>,
}

impl Pattern {
    /// Reads a pattern. Each of these words in braces stands for its text, in which an asterisk is nothing special.
    #[must_use]
    pub fn new(text: &str, words: &[(&str, &str)]) -> Self {
        let fill = |part: &str| words.iter().fold(part.to_owned(), |part, (word, text)| part.replace(word, text));
        Self { parts: text.split('*').map(fill).collect() }
    }

    /// Whether it stands for this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (Some((first, rest)), Some(last)) = (self.parts.split_first(), self.parts.last()) else { return false };
        if rest.is_empty() {
            return name == first;
        }
        let Some(mut left) = name.strip_prefix(first.as_str()).and_then(|left| left.strip_suffix(last.as_str())) else {
            return false;
        };
        // The first place where a part is found leaves the most for those behind it.
        for part in rest.iter().take(rest.len() - 1) {
            let Some(at) = left.find(part.as_str()) else { return false };
            left = left.get(at + part.len()..).unwrap_or_default();
        }
        true
    }

    /// The one name that it stands for, if there is only one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let [only] = self.parts.as_slice() { Some(only) } else { None }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.parts.join("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisks_stand_for_anything() {
        for (pattern, names, others) in [
            ("team-a", &["team-a"][..], &["team", "team-aa", "", "Team-a"][..]),
            ("*", &["", "x", "a.b"], &[]),
            ("team-*", &["team-", "team-a", "team-*"], &["team", "xteam-a"]),
            ("*-a", &["-a", "x-a"], &["-ab", "a"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab", "ba"]),
            ("a*b*c", &["abc", "axbxc", "abbc", "abcbc"], &["ac", "acb", "ab"]),
            ("**", &["", "x"], &[]),
            ("", &[""], &["x"]),
        ] {
            for name in names {
                assert!(Pattern::new(pattern, &[]).matches(name), "{pattern} is {name}");
            }
            for other in others {
                assert!(!Pattern::new(pattern, &[]).matches(other), "{pattern} isn't {other}");
            }
        }
    }

    #[test]
    fn words_are_filled_in_and_are_no_patterns() {
        let pattern = |user| Pattern::new("user-{name}", &[("{name}", user)]);
        assert!(pattern("alice").matches("user-alice"));
        assert!(!pattern("alice").matches("user-bob"));
        assert!(!pattern("*").matches("user-bob"));
        assert!(pattern("*").matches("user-*"));
    }

    #[test]
    fn long_patterns_are_quick() {
        let pattern = Pattern::new(&"*a".repeat(5000), &[]);
        assert!(!pattern.matches(&format!("{}b", "a".repeat(100_000))));
    }
}
