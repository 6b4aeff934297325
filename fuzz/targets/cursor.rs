//! The token of a page.

use raygate::operations::{Selection, page_token};

/// What is taken is what is given out, and for this selection alone.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The first line is the selection's.
    let (selector, token) = text.split_once('\n').unwrap_or(("", text));
    let selection = Selection { label_selector: Some(selector.to_owned()), ..Selection::default() };
    let other = Selection { namespace: Some("*".to_owned()), ..selection.clone() };
    if let Some(key) = page_token::read(token, &selection) {
        assert_eq!(page_token::write(&key, &selection), token);
        assert_eq!(page_token::read(token, &other), None);
    }
    // One that would be given out is taken.
    if let Some((_, key)) = token.rsplit_once('~')
        && let Some(after) = page_token::read(&format!("{}{key}", prefix(&selection)), &selection)
    {
        assert_eq!(after.to_string(), key);
    }
}

/// What the tokens of a selection begin with.
fn prefix(selection: &Selection) -> String {
    let token = page_token::write(&raygate::ray::name::ClusterKey::new("b", "a"), selection);
    token.trim_end_matches("a.b").to_owned()
}
