//! A body in YAML.

use raygate::ray::body::{Body, Format};
use raygate::ray::document::Document;
use raygate::ray::yaml;

/// What was read and written anew reads the same; faults find their places.
pub(crate) fn run(data: &[u8]) {
    let Ok(read) = yaml::read(data) else { return };
    let text = yaml::write(&read.value);
    let again = yaml::read(text.as_bytes()).map(|again| (again.value, again.twice.0));
    assert_eq!(again, Ok((read.value, Vec::new())), "{text}");
    let Ok(body) = Body::read(Format::Yaml, data) else { return };
    let (_, faults) = Document::read(body.value.clone());
    let told = faults.len();
    assert!(body.judge(faults).err().is_none_or(|judged| judged.0.len() >= told));
}
