//! Nodes to JSON: aliases and merges copied in, within a budget.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::places::{Below, Place, Places, Word};
use super::scalar::{Scalar, Tag};
use super::scan::{Document, Kind, Node};
use super::{DEPTH, Mark, Yaml};
use crate::ray::fault::{Fault, FaultCode, Faults, escape};

/// How much a document may be beside what is written in it.
pub(super) struct Budget {
    /// Values copied by aliases.
    pub(super) nodes: usize,
    /// Bytes of keys and scalars copied by aliases.
    pub(super) bytes: usize,
    /// Bytes of faults of keys that are there twice; the first is always told.
    pub(super) faults: usize,
}

/// Far more than manifests need, and no more work than a body of the default size without any alias.
pub(super) const BUDGET: Budget = Budget { nodes: 100_000, bytes: 1 << 20, faults: 1 << 20 };

/// What a fault of a key that is there twice takes at least.
const FAULT: usize = 100;

/// How deep merges may nest. Each takes much of the stack, and nobody writes more than two or three.
const MERGES: usize = 16;

/// The longest word that is advised to be quoted.
const WORD: usize = 64;

pub(super) fn build(document: &Document<'_>, budget: &Budget) -> Result<Yaml, Fault> {
    let Budget { nodes, bytes, faults } = *budget;
    let anchors = &document.anchors;
    let mut build =
        Build { anchors, copying: None, merging: 0, nodes, bytes, faults, path: Vec::new(), twice: Vec::new() };
    let (value, place) = build.value(&document.root, 0)?;
    Ok(Yaml { value, twice: Faults(build.twice), places: Places(place) })
}

struct Build<'n> {
    anchors: &'n HashMap<usize, Rc<Node<'n>>>,
    /// The alias that is being copied.
    copying: Option<Mark>,
    /// How many merges within merges it is in.
    merging: usize,
    nodes: usize,
    bytes: usize,
    faults: usize,
    path: Vec<Step>,
    twice: Vec<Fault>,
}

enum Step {
    Item(usize),
    Member(String),
}

impl<'n> Build<'n> {
    fn value(&mut self, node: &Node<'_>, depth: usize) -> Result<(Value, Place), Fault> {
        let mark = node.mark;
        let mut word = None;
        let (value, below) = match &node.kind {
            Kind::Scalar { text, plain, tag } => {
                self.spend(text)?;
                let scalar = Scalar::of(text, *plain, *tag).map_err(|what| mark.fault(&what))?;
                let means = scalar.called().filter(|_| *plain && (1..=WORD).contains(&text.len()));
                word = means.map(|means| Word { text: text.as_ref().into(), means });
                (scalar.value(text).map_err(|what| mark.fault(&what))?, Below::Nothing)
            }
            Kind::List(items) => self.list(items, self.deeper(mark, depth)?)?,
            Kind::Map(children) => self.map(children, self.deeper(mark, depth)?)?,
            Kind::Alias(anchor) => {
                let target = self.target(*anchor, mark)?;
                let (value, place) = self.copying(mark, |build| build.value(target, depth))?;
                word = place.word;
                (value, Below::Nothing)
            }
        };
        Ok((value, Place { mark, word, below }))
    }

    fn target(&self, anchor: usize, mark: Mark) -> Result<&'n Node<'n>, Fault> {
        self.anchors.get(&anchor).map(Rc::as_ref).ok_or_else(|| mark.fault("there is no such anchor"))
    }

    /// Does what an alias asks for; faults of keys have been found where they stand.
    fn copying<T>(&mut self, mark: Mark, copy: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let around = self.copying;
        self.copying = around.or(Some(mark));
        let copied = copy(self);
        self.copying = around;
        copied
    }

    /// One more value or key; what is written in the text costs nothing here, since the text itself is bounded.
    fn spend(&mut self, text: &str) -> Result<(), Fault> {
        let Some(mark) = self.copying else { return Ok(()) };
        let left = (self.nodes.checked_sub(1), self.bytes.checked_sub(text.len()));
        let (Some(nodes), Some(bytes)) = left else {
            return Err(mark.fault("its aliases make too much of it; write out what they stand for"));
        };
        (self.nodes, self.bytes) = (nodes, bytes);
        Ok(())
    }

    fn deeper(&self, mark: Mark, depth: usize) -> Result<usize, Fault> {
        let here = self.copying.unwrap_or(mark);
        if depth == DEPTH { Err(here.too_deep()) } else { Ok(depth + 1) }
    }

    fn list(&mut self, items: &[Rc<Node<'_>>], depth: usize) -> Result<(Value, Below), Fault> {
        self.spend("")?;
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Item(index));
            let (value, place) = self.value(item, depth)?;
            self.path.pop();
            values.push(value);
            places.push(place);
        }
        Ok((Value::Array(values), Below::Items(places)))
    }

    fn map(&mut self, children: &[Rc<Node<'_>>], depth: usize) -> Result<(Value, Below), Fault> {
        self.spend("")?;
        let (mut object, mut places) = (Map::new(), BTreeMap::new());
        let mut merged = HashSet::new();
        for member in children.chunks_exact(2) {
            let [key, node] = member else { continue };
            if is_merge(key) {
                for (name, value) in self.merge(node, depth)? {
                    if merged.contains(&name) || !object.contains_key(&name) {
                        places.insert(name.clone(), Place { mark: key.mark, word: None, below: Below::Nothing });
                        merged.insert(name.clone());
                        object.insert(name, value);
                    }
                }
                continue;
            }
            let name = self.key(key, key.mark)?;
            self.path.push(Step::Member(name.clone()));
            let (value, place) = self.value(node, depth)?;
            if object.contains_key(&name) && !merged.remove(&name) {
                self.found_twice(&name);
            }
            self.path.pop();
            places.insert(name.clone(), Place { mark: key.mark, ..place });
            object.insert(name, value);
        }
        Ok((Value::Object(object), Below::Members(places)))
    }

    fn key(&mut self, key: &Node<'_>, mark: Mark) -> Result<String, Fault> {
        match &key.kind {
            Kind::Scalar { text, plain, tag } => {
                self.spend(text)?;
                Scalar::of(text, *plain, *tag).and_then(|scalar| scalar.key(text)).map_err(|what| mark.fault(&what))
            }
            Kind::Alias(anchor) => {
                let target = self.target(*anchor, mark)?;
                self.copying(mark, |build| build.key(target, mark))
            }
            Kind::List(_) | Kind::Map(_) => Err(mark.fault("a key must be a string, not a list or a map")),
        }
    }

    /// The members that `<<` brings: of one map or several, of which earlier ones win.
    fn merge(&mut self, node: &Node<'_>, depth: usize) -> Result<Map<String, Value>, Fault> {
        if self.merging == MERGES {
            return Err(self.copying.unwrap_or(node.mark).fault("`<<` within `<<` goes too deep"));
        }
        self.merging += 1;
        let mut members = Map::new();
        let sources = match &node.kind {
            Kind::List(sources) => sources.iter().map(Rc::as_ref).collect(),
            Kind::Map(_) | Kind::Alias(_) | Kind::Scalar { .. } => vec![node],
        };
        for source in sources {
            let is_map = match &source.kind {
                Kind::Map(_) => true,
                Kind::Alias(anchor) => matches!(self.target(*anchor, source.mark)?.kind, Kind::Map(_)),
                Kind::List(_) | Kind::Scalar { .. } => false,
            };
            let Value::Object(object) = (if is_map { self.value(source, depth)?.0 } else { Value::Null }) else {
                return Err(source.mark.fault("`<<` takes a map or a list of maps; as a key of its own, quote it"));
            };
            for (name, value) in object {
                members.entry(name).or_insert(value);
            }
        }
        self.merging -= 1;
        Ok(members)
    }

    fn found_twice(&mut self, name: &str) {
        if self.copying.is_some() {
            return;
        }
        let size = |step: &Step| if let Step::Member(name) = step { name.len() } else { 1 };
        let length = FAULT + name.len() + self.path.iter().map(size).sum::<usize>();
        if !self.twice.is_empty() && length > self.faults {
            return;
        }
        self.faults = self.faults.saturating_sub(length);
        let mut pointer = String::new();
        for step in &self.path {
            // Writing to a string doesn't fail.
            let _ = match step {
                Step::Item(index) => write!(pointer, "/{index}"),
                Step::Member(name) => write!(pointer, "/{}", escape(name)),
            };
        }
        let message = format!("`{name}` is here more than once.");
        self.twice.push(Fault::new(pointer, FaultCode::DuplicateKey, message));
    }
}

fn is_merge(key: &Node<'_>) -> bool {
    match &key.kind {
        Kind::Scalar { text, plain, tag } => text == "<<" && (*plain && *tag == Tag::None || *tag == Tag::Merge),
        Kind::List(_) | Kind::Map(_) | Kind::Alias(_) => false,
    }
}
