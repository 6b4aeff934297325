//! Whose a cluster is: the name in an annotation, and a hash of it, which fits a label, for selectors.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::revision::hex;

/// The key of the annotation and of the label. Version 1 of the format: the annotation holds the name as it is, the label
/// the first 32 hexadecimal digits of its SHA-256. Another format would have another key.
pub const OWNER: &str = "raygate.dev/owner";

/// Whoever asks, in a selection: nobody can be called this.
pub const ME: &str = "me";

/// Longest name of an owner, in bytes.
pub const LONGEST: usize = 253;

/// Who owns this RayCluster; `None` for one that nobody does, as kubectl makes them.
#[must_use]
pub fn owner(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][OWNER].as_str()
}

/// The label's value for a name.
#[must_use]
pub fn label(name: &str) -> String {
    hex(&Sha256::digest(name)[..16])
}

/// The merge patch (RFC 7396) of a RayCluster's metadata that makes this its owner.
#[must_use]
pub fn patch(name: Option<&str>) -> Value {
    json!({"annotations": {OWNER: name}, "labels": {OWNER: name.map(label)}})
}

/// Whether somebody may be called this: some text in one line that can be seen, without blanks around it.
#[must_use]
pub fn is_name(name: &str) -> bool {
    // Nothing that makes one name look like another: breaks of lines, changes of direction, what has no width.
    let inside = |c: char| {
        let unseen =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        !c.is_control() && !unseen
    };
    name != ME && (1..=LONGEST).contains(&name.len()) && name.trim() == name && name.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_read_where_it_was_written() {
        let mut object = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(owner(&object), None);
        super::super::json::merge(&mut object["metadata"], &patch(Some("Ada Lovelace")));
        assert_eq!(owner(&object), Some("Ada Lovelace"));
        // printf 'Ada Lovelace' | sha256sum
        let label = &object["metadata"]["labels"][OWNER];
        assert_eq!(label.as_str().map(str::len), Some(32));
        super::super::json::merge(&mut object["metadata"], &patch(None));
        assert_eq!(object, json!({"metadata": {"labels": {"a": "b"}, "annotations": {}}}));
    }

    #[test]
    fn names_are_one_line_of_text() {
        for name in ["a", "Ada Lovelace", "ada@example.org", "ada:x/y", "ä"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", " a", "a ", "a\nb", "a\u{0}", &"a".repeat(254), "a\u{2028}b", "me", "a\u{200b}", "\u{202e}a"] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
