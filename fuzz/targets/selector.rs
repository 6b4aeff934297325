//! A label selector.

use raygate::ray::selector::{MAX_BYTES, Selector};

/// What the labels of three objects are.
const OBJECTS: [&[(&str, &str)]; 3] =
    [&[], &[("a", "b"), ("n", "7"), ("e", "")], &[("a", "c"), ("x.io/y", "z"), ("in", "in")]];

/// Saying a selector twice selects the same; with its opposite beside it a key selects nothing.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    assert!(text.len() <= MAX_BYTES);
    for labels in OBJECTS {
        let value = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let matches = selector.matches(value);
        if let Ok(twice) = Selector::parse(&format!("{text},{text}")) {
            assert_eq!(twice.matches(value), matches, "{text}");
        }
        for opposite in ["a,!a", "a=b,a!=b", "e in (),e notin ()"] {
            let Ok(none) = Selector::parse(&format!("{text},{opposite}")) else { continue };
            assert!(!none.matches(value), "{text},{opposite}");
        }
    }
}
