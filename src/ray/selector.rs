//! Label selectors in Kubernetes' full syntax, as `k8s.io/apimachinery/pkg/labels` reads them.

use super::name::{is_label_value, is_metadata_key};

/// Longest selector, in bytes.
pub const MAX_BYTES: usize = 4096;

/// Most requirements of a selector.
pub const MAX_REQUIREMENTS: usize = 100;

/// What an object's labels must satisfy; empty for all objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
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
    ///
    /// # Errors
    /// Says in Kubernetes' words what can't be read; of one beyond [`MAX_BYTES`] or [`MAX_REQUIREMENTS`] that it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("it has {} bytes, {MAX_BYTES} are the most", text.len()));
        }
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        if tokens.peek().is_empty() {
            return Ok(Self(requirements));
        }
        loop {
            if requirements.len() == MAX_REQUIREMENTS {
                return Err(format!("it has more than {MAX_REQUIREMENTS} requirements"));
            }
            requirements.push(requirement(&mut tokens)?);
            match tokens.take() {
                "" => return Ok(Self(requirements)),
                "," => {}
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    /// Whether an object is meant, of which `value` says each label's value.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(value(&requirement.key)))
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

/// What Kubernetes takes for a space between words.
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// The selector's symbols and words, one after the other; `""` at the end.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start_matches(SPACES);
        let symbol = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"]
            .iter()
            .find_map(|symbol| rest.get(..symbol.len()).filter(|start| start == symbol));
        let word = |rest: &'a str| rest.split(|c: char| SPACES.contains(&c) || "=!,()><".contains(c)).next();
        symbol.or_else(|| word(rest)).unwrap_or_default()
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = self.rest.trim_start_matches(SPACES).get(token.len()..).unwrap_or_default();
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Selector::parse(selector).unwrap();
        selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    /// `TestSelectorMatches` and `TestSetSelector` in apimachinery's `labels/selector_test.go` have these cases' like.
    #[test]
    fn each_operator_is_kubernetes() {
        let labels = [("x", "y"), ("z", "w"), ("n", "7"), ("empty", ""), ("example.com/k", "v"), ("in", "notin")];
        for holds in [
            "",
            " \t\r\n",
            "x=y",
            "x==y",
            "x=y,z=w",
            "x!=z",
            "absent!=y",
            "absent notin (y)",
            "x in (y)",
            "x in(z,y)",
            " x  in ( z , y ) ",
            "x notin (z)",
            "x",
            "!absent",
            "! absent",
            "x,!absent,z",
            "n>6",
            "n<8",
            "empty=",
            "empty==",
            "empty in ()",
            "empty in (,a)",
            "empty in (a,)",
            "empty",
            "x!=",
            "example.com/k=v",
            "in",
            "in=notin",
            "in in (in,notin)",
            "notin notin (notin)",
            "x=y,x=y",
        ] {
            assert!(matches(holds, &labels), "{holds}");
        }
        for fails in [
            "x=z",
            "x==z",
            "x=y,z=y",
            "x!=y",
            "x in (z)",
            "x notin (z,y)",
            "!x",
            "absent",
            "absent=",
            "absent in (,a)",
            "n>7",
            "n<7",
            "x>1",
            "absent>1",
            "absent<1",
            "empty!=",
            "x,absent",
            "X=y",
            "x=Y",
        ] {
            assert!(!matches(fails, &labels), "{fails}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for selector in [
            "=",
            "a=b=c",
            "a in",
            "a in (b",
            "a in b",
            "a in (b c)",
            "a in ((b))",
            "a in (b))",
            "a,",
            ",a",
            "a,,b",
            "!a=b",
            "!",
            "!!a",
            "a=b c",
            "a/b/c",
            "/a",
            "a/",
            "-a",
            "a=-",
            "a=b,=",
            "a>b",
            "a>",
            "a<1.5",
            "a>9223372036854775808",
            "a===b",
            "a=!b",
            "(a)",
            "a)",
            "a='b'",
            "a=\"b\"",
            "a=b;c",
            "a=b&c",
            "a=b\0",
            "\0",
            "a\u{a0}=b",
            "ä=b",
            "a=ä",
            "a=b\u{2028}",
        ] {
            assert!(Selector::parse(selector).is_err(), "{selector:?}");
        }
        let long = "a".repeat(64);
        for selector in [format!("{long}=b"), format!("a={long}"), format!("a in (b,{long})")] {
            assert!(Selector::parse(&selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn size_is_bounded() {
        let many = |count: usize| vec!["a"; count].join(",");
        assert!(Selector::parse(&many(MAX_REQUIREMENTS)).is_ok());
        assert_eq!(Selector::parse(&many(MAX_REQUIREMENTS + 1)).unwrap_err(), "it has more than 100 requirements");
        let long = |count: usize| format!("a{}", " ".repeat(count - 1));
        assert!(Selector::parse(&long(MAX_BYTES)).is_ok());
        assert_eq!(Selector::parse(&long(MAX_BYTES + 1)).unwrap_err(), "it has 4097 bytes, 4096 are the most");
        assert!(Selector::parse(&"(".repeat(MAX_BYTES)).is_err());
    }
}
