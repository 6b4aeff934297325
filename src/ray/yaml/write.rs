//! JSON to YAML that YAML 1.1 and 1.2 read the same.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The longest key that stands before its colon; readers look no further than 1024 characters.
const SIMPLE_KEY: usize = 1000;

/// Writes a value as a YAML document in block style, with the keys in their order.
#[must_use]
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => node(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => node(&mut out, value, 0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            scalar(&mut out, value, 2);
        }
    }
    out
}

/// A map or list that isn't empty; the first line is begun and at `indent`.
fn node(out: &mut String, value: &Value, indent: usize) {
    let mut first = true;
    let mut begin = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                begin(out);
                key(out, name, indent);
                match member {
                    // As kubectl has it: a list stands as deep as its key.
                    Value::Array(items) if !items.is_empty() => below(out, member, indent),
                    Value::Object(members) if !members.is_empty() => below(out, member, indent + 2),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => {
                        out.push(' ');
                        scalar(out, member, indent + 2);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                begin(out);
                out.push_str("- ");
                match item {
                    Value::Array(items) if !items.is_empty() => node(out, item, indent + 2),
                    Value::Object(members) if !members.is_empty() => node(out, item, indent + 2),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => scalar(out, item, indent + 2),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(out, value, indent + 2),
    }
}

fn below(out: &mut String, value: &Value, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    node(out, value, indent);
}

fn key(out: &mut String, name: &str, indent: usize) {
    let written = if is_plain(name) { name.to_owned() } else { quoted(name) };
    if written.len() > SIMPLE_KEY {
        out.push_str("? ");
        out.push_str(&written);
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    } else {
        out.push_str(&written);
    }
    out.push(':');
}

/// What fits behind a key or a dash, and the end of its line; lines of a block stand at `indent`.
fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&written(number)),
        Value::String(text) if is_plain(text) => out.push_str(text),
        Value::String(text) if is_block(text) => return block(out, text, indent),
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// YAML 1.1 wants a point in a float and a sign in its exponent.
fn written(number: &Number) -> String {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{mantissa}{point}e{sign}{exponent}")
}

/// Whether every reader reads a string without quotes as the same string.
fn is_plain(text: &str) -> bool {
    let start = text.trim_start_matches('-');
    let begins = match start.chars().next() {
        Some('.' | '+' | '0'..='9') => start.len() == text.len() && !may_be_number(text),
        Some('_' | '/' | '(' | '$' | '^' | ';' | '\\') => start.len() == text.len(),
        Some(first) => first.is_alphabetic(),
        None => false,
    };
    begins
        && !is_word(text)
        && !text.starts_with("---")
        && !text.starts_with("...")
        && text.chars().all(|c| is_printable(c) && c != '\t' && c != '\n')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
}

/// Made only of what numbers, dates, times and versions are made of, in one or the other YAML.
fn may_be_number(text: &str) -> bool {
    let numeric = |c: char| c.is_ascii_hexdigit() || "_.:+- xXoOtTzZ".contains(c);
    text.chars().all(numeric) || is_word(text.trim_start_matches(['+', '-', '.']))
}

/// The words that are something else than a string, in one or the other YAML.
fn is_word(text: &str) -> bool {
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a text can stand in a document as it is, for every reader.
fn is_printable(c: char) -> bool {
    match c {
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        '\t' | '\n' => true,
        _ => !c.is_control(),
    }
}

/// Whether a text of several lines comes back exactly from a literal block.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with(['\n', ' '])
        && text.chars().all(is_printable)
        && text.split('\n').all(|line| !line.starts_with('\t') && (line.is_empty() || !line.trim().is_empty()))
}

fn block(out: &mut String, text: &str, indent: usize) {
    let body = text.strip_suffix('\n');
    out.push_str(match body {
        None => "|-\n",
        Some(body) if body.ends_with('\n') => "|+\n",
        Some(_) => "|\n",
    });
    for line in body.unwrap_or(text).split('\n') {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// In double quotes, with the escapes that JSON has too.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            // Writing to a string doesn't fail.
            c => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
