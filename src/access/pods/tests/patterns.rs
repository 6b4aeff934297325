//! Patterns.

use proptest::prelude::*;

use super::laws::config;
use crate::access::pods::pattern::{Names, Pattern};

fn matches_for(pattern: &str, cluster: &str, user: &str, text: &str) -> bool {
    Pattern::try_from(pattern.to_owned()).unwrap().matches(Names { cluster, user }, text)
}

fn matches(pattern: &str, text: &str) -> bool {
    matches_for(pattern, "mine", "ann", text)
}

#[test]
fn a_star_is_any_run_and_all_else_is_itself() {
    for (pattern, yes, no) in [
        ("", vec![""], vec!["a"]),
        ("*", vec!["", "a", "a/b", "*", "ä"], vec![]),
        ("**", vec!["", "a"], vec![]),
        ("a", vec!["a"], vec!["", "A", "aa", "ba", "ab"]),
        ("a*", vec!["a", "ab", "a/b", "a*"], vec!["", "ba"]),
        ("*a", vec!["a", "ba", "aa"], vec!["ab"]),
        ("a*a", vec!["aa", "aba", "aaa"], vec!["a", "ab"]),
        ("a*b*c", vec!["abc", "a-b-c", "abbcbc"], vec!["ac", "acb", "ab", "abcd"]),
        ("*ab*ab*", vec!["abab", "xabyabz"], vec!["ab", "aba", "abba"]),
        ("ab*ba", vec!["abba", "abxba"], vec!["aba"]),
        ("?.[a]+\\", vec!["?.[a]+\\"], vec!["x.a"]),
        ("ä*ö", vec!["äö", "äüö"], vec!["ao", "ä"]),
    ] {
        for text in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for text in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}

#[test]
fn placeholders_are_literally_what_they_stand_for() {
    assert!(matches("{cluster}-{name}", "mine-ann"));
    assert!(matches("{name}*{cluster}", "ann-x-mine"));
    assert!(!matches("{cluster}", "{cluster}"));
    for user in ["*", "a*", "{cluster}", "**", "{name}"] {
        assert!(matches_for("x-{name}", "mine", user, &format!("x-{user}")), "{user}");
        for other in ["x-", "x-a", "x-ab", "x-mine", "x-ann"] {
            assert!(!matches_for("x-{name}", "mine", user, other), "{user} {other}");
            assert!(!matches_for("x-{cluster}", user, "ann", other), "{user} {other}");
        }
    }
}

#[test]
fn a_placeholder_that_stands_for_nothing_matches_nothing() {
    for (cluster, user) in [("", "ann"), ("mine", "")] {
        for text in ["", "-", "x", "mine-ann", "-ann"] {
            assert!(!matches_for("{cluster}*{name}", cluster, user, text), "{text}");
        }
    }
}

#[test]
fn what_is_in_braces_is_a_placeholder_or_an_error() {
    for text in ["{user}", "{", "a{cluster", "{}", "{Cluster}", "{na*me}", "{{cluster}}", "{ name }"] {
        assert!(Pattern::try_from(text.to_owned()).is_err(), "{text}");
    }
    assert!(matches("a}b", "a}b"));
}

/// Trying each place for each `*` would outlast the universe here.
#[test]
fn many_stars_over_a_long_text_take_no_time() {
    let text = "a".repeat(1_000_000);
    assert!(!matches(&"*a".repeat(5_000).replace("*a*a", "*a*b"), &text));
    assert!(!matches(&format!("{}b", "a*".repeat(5_000)), &text));
    assert!(!matches(&format!("*{}b*", "a*".repeat(5_000)), &text));
    assert!(matches(&"a*".repeat(5_000), &text));
    // A run that nearly fits everywhere.
    assert!(!matches(&format!("*{}b*", "a".repeat(10_000)), &text));
}

/// Which prefixes of the text the pattern's prefixes match, one after the other.
fn by_table(pattern: &str, text: &[char]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for letter in pattern.chars() {
        let before = reached.clone();
        for end in 0..=text.len() {
            reached[end] = match letter {
                '*' => before[end] || (end > 0 && reached[end - 1]),
                _ => end > 0 && before[end - 1] && text[end - 1] == letter,
            };
        }
    }
    reached[text.len()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..config(301) })]

    #[test]
    fn a_pattern_matches_as_its_definition_says(pattern in "[ab*]{0,8}", text in "[ab*]{0,10}") {
        let letters: Vec<_> = text.chars().collect();
        prop_assert_eq!(matches(&pattern, &text), by_table(&pattern, &letters));
    }
}
