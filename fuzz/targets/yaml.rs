//! A body in YAML, and any JSON written as YAML.

use raygate::ray::body::{Body, Format};
use raygate::ray::document::Document;
use raygate::ray::json;
use raygate::ray::yaml;
use serde_json::Value;

/// What is written reads the same, and faults find their places.
pub(crate) fn run(data: &[u8]) {
    if let Ok((value, _)) = json::read(data) {
        comes_back(&value);
    }
    let Ok(body) = Body::read(Format::Yaml, data) else { return };
    comes_back(&body.value);
    let (_, faults) = Document::read(body.value.clone());
    let told = faults.len();
    assert!(body.judge(faults).err().is_none_or(|judged| judged.0.len() >= told));
}

fn comes_back(value: &Value) {
    let text = yaml::write(value);
    let again = yaml::read(text.as_bytes()).map(|again| (again.value, again.twice.0));
    assert_eq!(again, Ok((value.clone(), Vec::new())), "{text}");
}
