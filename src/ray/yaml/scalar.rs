//! What a word means: go-yaml v2's resolution, as of the version that sigs.k8s.io/yaml uses.

use serde_json::{Number, Value};

/// A tag of a scalar. Those that go-yaml ignores in silence are refused by [`Tag::of_scalar`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    Str,
    Int,
    Float,
    Bool,
    Null,
    Merge,
}

impl Tag {
    pub(super) fn of_scalar(name: &str) -> Option<Self> {
        match name {
            "!!str" => Some(Self::Str),
            "!!int" => Some(Self::Int),
            "!!float" => Some(Self::Float),
            "!!bool" => Some(Self::Bool),
            "!!null" => Some(Self::Null),
            "!!merge" => Some(Self::Merge),
            _ => None,
        }
    }
}

/// A scalar, resolved.
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(Number),
    Float(f64),
    Text,
}

impl Scalar {
    /// What a scalar is, or why it can't be that.
    pub(super) fn of(text: &str, plain: bool, tag: Tag) -> Result<Self, String> {
        let untagged = || if plain || tag != Tag::None { word(text) } else { Self::Text };
        let named = match (tag, untagged()) {
            (Tag::None, scalar)
            | (Tag::Int, scalar @ Self::Integer(_))
            | (Tag::Float, scalar @ Self::Float(_))
            | (Tag::Bool, scalar @ Self::Bool(_))
            | (Tag::Null, scalar @ Self::Null) => return Ok(scalar),
            (Tag::Float, Self::Integer(number)) => {
                return number.as_f64().map(Self::Float).ok_or_else(|| format!("`{text}` is not a number"));
            }
            (Tag::Str, _) => return Ok(Self::Text),
            (Tag::Int, _) => "a whole number",
            (Tag::Float, _) => "a number",
            (Tag::Bool, _) => "true or false",
            (Tag::Null, _) => "null",
            (Tag::Merge, _) => "a merge key",
        };
        Err(format!("`{}` is not {named}, which its tag says it is", short(text)))
    }

    /// The value in JSON, which has no infinity.
    pub(super) fn value(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Null => Ok(Value::Null),
            Self::Bool(bool) => Ok(Value::Bool(bool)),
            Self::Integer(number) => Ok(Value::Number(number)),
            Self::Float(float) => match Number::from_f64(float) {
                Some(number) => Ok(Value::Number(number)),
                None => Err(format!("`{text}` is a number that JSON doesn't have; write a string in quotes")),
            },
            Self::Text => Ok(Value::String(text.to_owned())),
        }
    }

    /// The key in JSON, as sigs.k8s.io/yaml makes a string of it.
    pub(super) fn key(self, text: &str) -> Result<String, String> {
        match self {
            Self::Null => Err("null can't be a key; write it in quotes".to_owned()),
            Self::Bool(bool) => Ok(bool.to_string()),
            Self::Integer(number) => Ok(number.to_string()),
            Self::Float(float) => {
                float_key(float).ok_or_else(|| format!("`{}` can't be a key; write it in quotes", short(text)))
            }
            Self::Text => Ok(text.to_owned()),
        }
    }

    /// How it is called in a sentence; nothing for text.
    pub(super) fn called(&self) -> Option<&'static str> {
        match self {
            Self::Null => Some("null"),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Integer(_) | Self::Float(_) => Some("a number"),
            Self::Text => None,
        }
    }
}

/// At most so much of a text as a sentence can bear.
pub(super) fn short(text: &str) -> &str {
    text.char_indices().nth(64).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// go-yaml's `resolve` for a scalar without a tag and quotes.
fn word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => number(text).unwrap_or(Scalar::Text),
    }
}

fn number(text: &str) -> Option<Scalar> {
    match text.as_bytes().first()? {
        b'.' if underscores_part_digits(text) => float(&text.replace('_', "")),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).map(Scalar::Integer).or_else(|| float(&digits)).or_else(|| signed_binary(&digits))
        }
        _ => None,
    }
}

fn underscores_part_digits(text: &str) -> bool {
    let mut parts = text.split('_').peekable();
    std::iter::from_fn(|| parts.next().map(|part| (part, parts.peek().copied()))).all(|(part, next)| match next {
        None => true,
        Some(next) => part.ends_with(|c: char| c.is_ascii_digit()) && next.starts_with(|c: char| c.is_ascii_digit()),
    })
}

/// Go's `ParseInt` and `ParseUint` with base 0: `0640`, `0o640`, `0x1F` and `0b11` say their base.
fn integer(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = unsigned.as_bytes();
    let (base, digits) = match (bytes.first()?, bytes.get(1).map(u8::to_ascii_lowercase)) {
        (b'0', Some(b'x')) => (16, unsigned.get(2..)?),
        (b'0', Some(b'o')) => (8, unsigned.get(2..)?),
        (b'0', Some(b'b')) => (2, unsigned.get(2..)?),
        (b'0', Some(_)) => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    match text.as_bytes().first()? {
        b'-' => 0_i64.checked_sub_unsigned(size).map(Number::from),
        b'+' => i64::try_from(size).ok().map(Number::from),
        _ => Some(Number::from(size)),
    }
}

/// go-yaml's float: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`. One out of range is a string to it.
fn float(text: &str) -> Option<Scalar> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let mantissa = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_float =
        all_digits(whole) && all_digits(fraction) && all_digits(exponent) && !(whole.is_empty() && fraction.is_empty());
    let float = is_float.then(|| text.parse::<f64>().ok()).flatten()?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// A quirk of go-yaml: `0b-11` is -3.
fn signed_binary(text: &str) -> Option<Scalar> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(|number| Scalar::Integer(number.into()))
}

/// As kubectl's reader writes it: Go's `FormatFloat(key, 'g', -1, 32)`. What 32 bits can't hold, it changes; that is refused.
fn float_key(key: f64) -> Option<String> {
    let scientific = format!("{key:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    match exponent.parse::<i32>().ok()? {
        _ if digits > 6 => None,
        -4..6 => Some(key.to_string()),
        exponent @ -37..38 => {
            let sign = if exponent < 0 { '-' } else { '+' };
            Some(format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()))
        }
        _ => None,
    }
}
