//! Kubernetes quantities (`resource.Quantity`): spelled as they were written, compared by value.

use super::fault::{FaultCode, Wrong};

/// A valid Kubernetes quantity, in the spelling it came in.
#[derive(Debug, Clone)]
pub struct Quantity {
    text: String,
    /// The value in units of 10⁻⁹: Kubernetes keeps nothing finer.
    nanos: i128,
}

impl Quantity {
    /// Reads a quantity: `<signed number><suffix>`, the suffix binary (`Ki`…`Ei`), decimal (`n`…`E`) or an exponent
    /// (`e3`), as `ParseQuantity` in Kubernetes' apimachinery does. What Kubernetes would round up or cap in silence is
    /// refused.
    ///
    /// # Errors
    /// Says what a quantity looks like.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let nanos = nanos(text).ok_or_else(|| {
            Wrong::new(
                FaultCode::InvalidQuantity,
                format!("`{text}` is no quantity; write a number and perhaps a unit, like `2`, `500m`, `4Gi`."),
            )
        })?;
        Ok(Self { text: text.to_owned(), nanos })
    }

    /// The spelling it came in.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its value, in units of 10⁻⁹.
    #[must_use]
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Whether it is less than nothing.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Self { text: number.to_string(), nanos: i128::from(number) * NANO }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

const NANO: i128 = 1_000_000_000;

fn nanos(text: &str) -> Option<i128> {
    let digits_end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (negative, number) = match number.as_bytes().first()? {
        b'-' => (true, number.get(1..)?),
        b'+' => (false, number.get(1..)?),
        _ => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    // Nothing that Kubernetes can hold has more digits than its largest value with nine decimals.
    if digits.is_empty() || digits.len() > 28 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mantissa: i128 = digits.parse().ok()?;
    let decimals = u32::try_from(fraction.len()).ok()?;

    let (multiplier, exponent) = unit(suffix)?;
    let scaled = mantissa.checked_mul(multiplier)?;
    let power = 9 + exponent - i64::from(decimals);
    let magnitude = if power >= 0 {
        scaled.checked_mul(10_i128.checked_pow(u32::try_from(power).ok()?)?)?
    } else {
        let divisor = 10_i128.checked_pow(u32::try_from(-power).ok()?)?;
        // Finer than 10⁻⁹: Kubernetes would round it up in silence.
        (scaled % divisor == 0).then(|| scaled / divisor)?
    };
    // Kubernetes caps at 2⁶³ − 1 in silence.
    (magnitude <= i128::from(i64::MAX) * NANO).then_some(if negative { -magnitude } else { magnitude })
}

/// What a suffix multiplies by: a power of two, and a power of ten.
fn unit(suffix: &str) -> Option<(i128, i64)> {
    let decimal = |exponent: i64| Some((1, exponent));
    match suffix {
        "Ki" => Some((1 << 10, 0)),
        "Mi" => Some((1 << 20, 0)),
        "Gi" => Some((1 << 30, 0)),
        "Ti" => Some((1 << 40, 0)),
        "Pi" => Some((1 << 50, 0)),
        "Ei" => Some((1 << 60, 0)),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            if (-100..=100).contains(&exponent) { decimal(exponent) } else { None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_one_value_are_equal() {
        let same = [
            ["1", "1000m", "1.0"],
            ["1Gi", "1024Mi", "1073741824"],
            ["1k", "1e3", "1E3"],
            ["0", "0Ki", "-0"],
            [".5", "500m", "0.50"],
            ["1.5Gi", "1536Mi", "+1536Mi"],
        ];
        for row in same {
            assert!(row.iter().all(|text| parse(text) == parse(row[0])), "{row:?}");
        }
        assert_ne!(parse("1G"), parse("1Gi"));
        assert_ne!(parse("1m"), parse("1M"));
        assert_ne!(parse("-1"), parse("1"));
    }

    #[test]
    fn the_spelling_is_kept() {
        assert_eq!(parse("1024Mi").as_str(), "1024Mi");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            " ",
            "abc",
            "1 Gi",
            "1GiB",
            "1gi",
            "Gi",
            "--1",
            "1.2.3",
            "1e",
            "1e1.5",
            ".",
            "0x10",
            "½",
            "1Gi ",
            "e3",
            "1e999",
            "99999999999999999999",
            "0.0000000001",
            "8Ei",
            "1-2",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn whole_and_negative_are_told() {
        assert!(parse("2").is_whole() && parse("2000m").is_whole() && !parse("1500m").is_whole());
        assert!(parse("-1").is_negative() && !parse("0").is_negative());
    }
}
