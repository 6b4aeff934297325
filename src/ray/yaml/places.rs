//! Where the parts of a document stood, for faults to say so.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Mark;
use crate::ray::fault::{FaultCode, Faults};

/// Where in the text the parts of a document stood.
#[derive(Debug)]
pub struct Places(pub(super) Place);

/// Where one value stood: a member where its key did.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) mark: Mark,
    pub(super) word: Option<Word>,
    pub(super) below: Below,
}

/// A plain word that isn't the string it looks like.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) text: Box<str>,
    pub(super) means: &'static str,
}

/// The places of a value's members or items; what came by an alias or a merge has none of its own.
#[derive(Debug)]
pub(super) enum Below {
    Nothing,
    Items(Vec<Place>),
    Members(BTreeMap<String, Place>),
}

impl Place {
    fn child(&self, token: &str) -> Option<&Self> {
        match &self.below {
            Below::Nothing => None,
            Below::Items(items) => items.get(token.parse::<usize>().ok()?),
            Below::Members(members) => members.get(&token.replace("~1", "/").replace("~0", "~")),
        }
    }
}

impl Places {
    /// Adds to faults of the document where they stand in the text, and to a wrong type the advice to quote a word that YAML
    /// doesn't read as a string. What isn't in the text stands where the nearest thing around it does.
    pub fn explain(&self, faults: &mut Faults) {
        for fault in &mut faults.0 {
            let mut place = &self.0;
            let found = fault.pointer.split('/').skip(1).all(|token| {
                let child = place.child(token);
                place = child.unwrap_or(place);
                child.is_some()
            });
            let Mark { line, column } = place.mark;
            let sentence = fault.message.ends_with('.');
            if sentence {
                fault.message.pop();
            }
            let stop = if sentence { "." } else { "" };
            // Writing to a string doesn't fail.
            let _ = write!(fault.message, " (line {line}, column {column}){stop}");
            if let (true, FaultCode::WrongType, Some(Word { text, means })) = (found, fault.code, &place.word) {
                let _ = write!(fault.message, " YAML reads {text} as {means}; for a string, write \"{text}\".");
            }
        }
    }
}
