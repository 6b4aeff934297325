//! Label selectors in Kubernetes' full syntax, as `k8s.io/apimachinery/pkg/labels` reads them.

use serde_json::Value;

use crate::manager::{Cause, ManagerError};
use crate::ray::name::{is_label_value, is_metadata_key};

/// What an object's labels must satisfy; empty for all objects.
pub(super) struct Selector(Vec<Requirement>);

struct Requirement {
    key: String,
    test: Test,
}

enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Reads a selector.
    pub(super) fn parse(text: &str) -> Result<Self, ManagerError> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        if tokens.peek().is_empty() {
            return Ok(Self(requirements));
        }
        loop {
            let requirement = requirement(&mut tokens).map_err(|fault| invalid(text, &fault))?;
            requirements.push(requirement);
            match tokens.take() {
                "" => return Ok(Self(requirements)),
                "," => {}
                other => {
                    return Err(invalid(text, &format!("found '{other}', expected: ',' or 'end of string'")));
                }
            }
        }
    }

    /// Whether an object with these labels is meant.
    pub(super) fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels.get(&requirement.key).and_then(Value::as_str)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let absent = tokens.peek() == "!";
    if absent {
        tokens.take();
    }
    let key = tokens.take();
    if !is_metadata_key(key) {
        return Err(format!("found '{key}', expected: a label's key"));
    }
    let key = key.to_owned();
    if absent {
        return Ok(Requirement { key, test: Test::Absent });
    }
    if matches!(tokens.peek(), "" | ",") {
        return Ok(Requirement { key, test: Test::Exists });
    }
    let test = match tokens.take() {
        "=" | "==" => Test::In(vec![value(tokens)?]),
        "!=" => Test::NotIn(vec![value(tokens)?]),
        "in" => Test::In(values(tokens)?),
        "notin" => Test::NotIn(values(tokens)?),
        ">" => Test::Above(number(tokens)?),
        "<" => Test::Below(number(tokens)?),
        other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, >, <")),
    };
    Ok(Requirement { key, test })
}

/// One value, which may be empty.
fn value(tokens: &mut Tokens<'_>) -> Result<String, String> {
    let value = if matches!(tokens.peek(), "" | "," | ")") { "" } else { tokens.take() };
    if is_label_value(value) { Ok(value.to_owned()) } else { Err(format!("'{value}' can't be a label's value")) }
}

fn number(tokens: &mut Tokens<'_>) -> Result<i64, String> {
    let value = value(tokens)?;
    value.parse().map_err(|_| format!("'{value}' is no integer"))
}

/// A list in parentheses; `()` holds the empty value.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    if tokens.take() != "(" {
        return Err("expected: '('".to_owned());
    }
    let mut values = Vec::new();
    loop {
        values.push(value(tokens)?);
        match tokens.take() {
            "," => {}
            ")" => return Ok(values),
            other => return Err(format!("found '{other}', expected: ',' or ')'")),
        }
    }
}

fn invalid(text: &str, fault: &str) -> ManagerError {
    ManagerError::Invalid {
        message: format!("unable to parse requirement: {fault}"),
        causes: vec![Cause { field: "labelSelector".to_owned(), message: format!("{text}: {fault}") }],
    }
}

/// The selector's symbols and words, one after the other; `""` at the end.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let symbol = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"]
            .iter()
            .find_map(|symbol| rest.get(..symbol.len()).filter(|start| start == symbol));
        let word = |rest: &'a str| rest.split(|c: char| c.is_whitespace() || "=!,()><".contains(c)).next();
        symbol.or_else(|| word(rest)).unwrap_or_default()
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = self.rest.trim_start().get(token.len()..).unwrap_or_default();
        token
    }
}
