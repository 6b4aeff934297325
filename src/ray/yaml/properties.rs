//! The reader and the writer held to each other, to JSON and to hostile texts.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Number, Value};

use super::{read, write};
use crate::ray::json;

/// Pieces that YAML takes for something, in one or the other version.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(
        "y|no|On|null|~|=|<<|0x1F|0o7|07|1_0|1:30|1e3|.5|.inf|-|--|---|...|?|:|: | #|#|,|[|]|{|}|&a|*a|!|!!str|>|'|\"|%|@|`|\\|\\n| |  \
         |a|b|é|日|😀|\t|\n|\n\n|\r|\u{0}|\u{1b}|\u{7f}|\u{85}|\u{a0}|\u{2028}|\u{2029}|\u{feff}|\u{fffe}|\u{fffd}|2001-01-01|/|+|$|x"
            .split('|')
            .chain(["|"])
            .collect::<Vec<_>>(),
    );
    prop_oneof![
        8 => prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
        1 => Just("k".repeat(1100)),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter_map("JSON has it", |float| Number::from_f64(float).map(Value::Number));
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
        1 => float,
        6 => nasty().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((nasty(), inner), 0..5)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Texts that are YAML but for a few changes.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let rows = include_str!("kubectl.tsv").lines().filter(|line| !line.starts_with('#'));
    let texts = rows.filter_map(|row| serde_json::from_str::<String>(row.split('\t').next()?).ok());
    let change = (any::<prop::sample::Index>(), 0_usize..3, nasty());
    let texts = prop::sample::select(texts.collect::<Vec<_>>());
    (texts.clone(), texts, prop::collection::vec(change, 1..4)).prop_map(|(one, other, changes)| {
        let mut bytes = format!("{one}\n{other}").into_bytes();
        for (at, removed, added) in changes {
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, added.into_bytes());
        }
        bytes
    })
}

/// A character as JSON escapes it.
fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |text, unit| format!("{text}\\u{unit:04x}"))
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn what_is_written_is_read_back(value in values()) {
        let text = write(&value);
        let yaml = read(text.as_bytes()).map_err(|faults| TestCaseError::fail(format!("{text}\n{faults:?}")))?;
        prop_assert_eq!(yaml.value.to_string(), value.to_string(), "{}", text);
        prop_assert_eq!(yaml.twice.0, vec![]);
    }

    #[test]
    fn json_is_yaml(value in values(), pretty: bool, ascii: bool) {
        let mut text = if pretty { format!("{value:#}") } else { value.to_string() };
        if ascii {
            text = text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect();
        }
        // No YAML has these as they are; JSON may have them in a string.
        let raw = |c| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
        text = text.chars().map(|c| if raw(c) { escaped(c) } else { c.to_string() }).collect();
        prop_assume!(!text.contains(&"k".repeat(1024)));
        let yaml = read(text.as_bytes()).map_err(|faults| TestCaseError::fail(format!("{text}\n{faults:?}")))?;
        let (json, twice) = json::read(text.as_bytes()).unwrap();
        prop_assert_eq!(yaml.value.to_string(), json.to_string());
        prop_assert_eq!(yaml.twice, twice);
    }

    #[test]
    fn no_text_is_too_strange(bytes in prop_oneof![mutated(), prop::collection::vec(any::<u8>(), 0..64), nasty().prop_map(String::into_bytes)]) {
        match read(&bytes) {
            Err(faults) => prop_assert_eq!(faults.0.len(), 1),
            Ok(mut yaml) => {
                yaml.places.explain(&mut yaml.twice);
                let text = write(&yaml.value);
                let again = read(text.as_bytes()).map_err(|faults| TestCaseError::fail(format!("{text}\n{faults:?}")))?;
                prop_assert_eq!(again.value.to_string(), yaml.value.to_string());
            }
        }
    }
}
