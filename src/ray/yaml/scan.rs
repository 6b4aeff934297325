//! Text to nodes: the scanner's events as a tree, anchors resolved, one document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, Span, StrInput, StructureStyle, options};

use super::scalar::{Tag, short};
use super::{DEPTH, Mark};
use crate::ray::fault::{Fault, FaultCode};

/// One node of a document.
pub(super) struct Node<'a> {
    pub(super) mark: Mark,
    pub(super) kind: Kind<'a>,
}

/// What a node is.
pub(super) enum Kind<'a> {
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
        tag: Tag,
    },
    List(Vec<Rc<Node<'a>>>),
    /// Key, value, key, value.
    Map(Vec<Rc<Node<'a>>>),
    /// The number of the anchor.
    Alias(usize),
}

/// One document.
pub(super) struct Document<'a> {
    pub(super) root: Rc<Node<'a>>,
    /// The nodes with anchors. Aliases don't hold their nodes: dropping a long chain of them would overflow the stack.
    pub(super) anchors: HashMap<usize, Rc<Node<'a>>>,
}

impl Node<'_> {
    /// A document of nothing at all, which kubectl skips.
    fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true, tag: Tag::None } if text.is_empty())
    }
}

/// A list or map that hasn't ended.
struct Open<'a> {
    mark: Mark,
    anchor: usize,
    /// Whether it is in brackets.
    flow: bool,
    children: Vec<Rc<Node<'a>>>,
}

/// The one document that isn't empty, if there is one.
pub(super) fn scan(text: &str) -> Result<Option<Document<'_>>, Fault> {
    let mut reading = Scan { text, open: Vec::new(), anchors: HashMap::new(), root: None };
    let (mut document, mut documents, mut second) = (None, 0, None);
    let mut breaks = Breaks::new(text);
    let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str_with_options(text, settings());
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| {
            let mark = mark_of(error.marker().line(), error.marker().col());
            let is_depth = *error.kind() == ErrorKind::RecursionLimitExceeded;
            if is_depth { mark.too_deep() } else { mark.fault(&error.info()) }
        })?;
        if let Event::Scalar(_, ScalarStyle::DoubleQuoted, ..) = event {
            breaks.pass(&span)?;
        }
        reading.event(event, &span)?;
        let Some(root) = reading.root.take().filter(|root| !root.is_empty()) else { continue };
        documents += 1;
        if documents == 2 {
            second = Some(root.mark);
        }
        if documents == 1 {
            document = Some(Document { root, anchors: std::mem::take(&mut reading.anchors) });
        }
    }
    breaks.end()?;
    match second {
        Some(Mark { line, column }) => {
            let places = format!("The second begins at line {line}, column {column}.");
            let message = format!("This takes one document, here are {documents}. {places}");
            Err(Fault::new("", FaultCode::Syntax, message))
        }
        None => Ok(document),
    }
}

/// As libyaml scans, on which kubectl's reader is built; blocks and brackets together are counted when the value is built.
fn settings() -> Options {
    options! {
        block_scalar_eof_without_line_feed: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    }
}

/// The scanner counts columns from 0.
fn mark_of(line: usize, column: usize) -> Mark {
    Mark::new(line, column.saturating_add(1))
}

/// A node's tag; one that kubectl's reader ignores in silence is refused.
fn tag_of(event: &Event<'_>, span: &Span, mark: Mark) -> Result<Tag, Fault> {
    let Some(tag) = event.tag() else { return Ok(Tag::None) };
    let name = tag.to_string().replacen("tag:yaml.org,2002:", "!!", 1);
    let known = if event.scalar().is_some() {
        Tag::of_scalar(&name)
    } else {
        let own = if matches!(event, Event::MappingStart(..)) { "!!map" } else { "!!seq" };
        (name == own).then_some(Tag::None)
    };
    let mark = span.tag_start().map_or(mark, |start| mark_of(start.line(), start.col()));
    known.ok_or_else(|| mark.fault(&format!("the tag `{}` isn't taken; write the value without it", short(&name))))
}

struct Scan<'a> {
    text: &'a str,
    open: Vec<Open<'a>>,
    /// What has ended, by the scanner's number: an alias to anything else stands inside of what it names.
    anchors: HashMap<usize, Rc<Node<'a>>>,
    /// A document's node, once it has ended.
    root: Option<Rc<Node<'a>>>,
}

impl<'a> Scan<'a> {
    fn event(&mut self, event: Event<'a>, span: &Span) -> Result<(), Fault> {
        let mark = mark_of(span.start.line(), span.start.col());
        let tag = tag_of(&event, span, mark)?;
        if event.is_node() {
            self.read_alike(&event, span, mark)?;
        }
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_written = span.byte_range().is_some_and(|range| !range.is_empty());
                let plain = style == ScalarStyle::Plain;
                // The scanner gives what isn't there as `~`.
                let text = if plain && !is_written { Cow::Borrowed("") } else { text };
                self.close(mark, anchor, Kind::Scalar { text, plain, tag });
            }
            Event::SequenceStart(style, anchor, _) | Event::MappingStart(style, anchor, _) => {
                self.open.push(Open { mark, anchor, flow: style == StructureStyle::Flow, children: Vec::new() });
            }
            Event::SequenceEnd => self.end(Kind::List),
            Event::MappingEnd => self.end(Kind::Map),
            Event::Alias(anchor) if self.anchors.contains_key(&anchor) => self.close(mark, 0, Kind::Alias(anchor)),
            Event::Alias(_) => {
                let name = short(span.slice(self.text).unwrap_or_default());
                return Err(mark.fault(&format!("`{name}` stands inside of what it names")));
            }
            Event::UnresolvedAlias(name) => return Err(mark.fault(&format!("there is no anchor `{}`", short(&name)))),
            Event::Anchor(_, name) => {
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
                    return Err(mark.fault("the name of an anchor is made of letters, digits, `-` and `_`"));
                }
            }
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Comment(..) => (),
            _ => return Err(mark.fault("this part of YAML isn't known here")),
        }
        Ok(())
    }

    fn end(&mut self, kind: fn(Vec<Rc<Node<'a>>>) -> Kind<'a>) {
        if let Some(Open { mark, anchor, children, .. }) = self.open.pop() {
            self.close(mark, anchor, kind(children));
        }
    }

    /// Refuses what kubectl's reader refuses, or reads otherwise than the scanner.
    fn read_alike(&self, event: &Event<'_>, span: &Span, mark: Mark) -> Result<(), Fault> {
        let Some((before, behind)) = span.start.byte_offset().and_then(|at| self.text.split_at_checked(at)) else {
            return Ok(());
        };
        if !self.open.last().is_some_and(|open| open.flow) {
            let indents = |byte: &u8| matches!(byte, b' ' | b'\t' | b'-' | b'?');
            let line = before.as_bytes().rsplit(|byte| !indents(byte)).next().unwrap_or_default();
            let around = before.get(..before.len() - line.len()).unwrap_or_default();
            let is_start = around.is_empty() || around.ends_with(['\n', '\r']);
            return if is_start && line.contains(&b'\t') {
                Err(mark.fault("a tab can't indent; write spaces"))
            } else {
                Ok(())
            };
        }
        // What isn't there begins at its colon or right behind it.
        let value = behind.trim_start_matches(':');
        let is_behind_colon = before.ends_with(':') || value.len() < behind.len();
        if is_behind_colon && value.starts_with([',', ']', '}']) {
            return Err(mark.fault("a colon needs a space or a value behind it"));
        }
        if behind.starts_with('?') && matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..)) {
            return Err(mark.fault("a word in brackets can't begin with `?`; quote it"));
        }
        Ok(())
    }

    /// A node that is complete goes into what is around it.
    fn close(&mut self, mark: Mark, anchor: usize, kind: Kind<'a>) {
        let node = Rc::new(Node { mark, kind });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut() {
            Some(around) => around.children.push(node),
            None => self.root = Some(node),
        }
    }
}

/// The characters that end a line for kubectl's reader and not for the scanner. Inside of double quotes they are text (JSON
/// has them there); anywhere else, in a comment too, the two would see different documents.
struct Breaks<'a> {
    text: &'a str,
    left: std::iter::Peekable<Box<dyn Iterator<Item = usize> + 'a>>,
}

impl<'a> Breaks<'a> {
    fn new(text: &'a str) -> Self {
        let found = text.match_indices(['\u{85}', '\u{2028}', '\u{2029}']).map(|(at, _)| at);
        let found: Box<dyn Iterator<Item = usize> + 'a> = Box::new(found);
        Self { text, left: found.peekable() }
    }

    /// Goes behind a scalar in double quotes.
    fn pass(&mut self, quoted: &Span) -> Result<(), Fault> {
        let Some(range) = quoted.byte_range() else { return Ok(()) };
        while let Some(at) = self.left.next_if(|at| *at < range.end) {
            if at < range.start {
                return Err(self.fault(at));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.left.next().map_or(Ok(()), |at| Err(self.fault(at)))
    }

    fn fault(&self, at: usize) -> Fault {
        let before = self.text.get(..at).unwrap_or_default();
        Mark::behind(before).fault("U+0085, U+2028 and U+2029 are taken in double quotes alone; escape them there")
    }
}
