//! Ray's version, as a cluster says it and as its images' tags do.

use serde_json::Value;

use super::document::Document;
use super::fault::{Warning, WarningCode, escape};

/// A warning for each image of a document whose tag names another version of Ray than `rayVersion`.
#[must_use]
pub fn mismatches(document: &Document) -> Vec<Warning> {
    let Some(wanted) = document.text("rayVersion") else { return Vec::new() };
    let cluster = document.text("image").map(|image| ("/image".to_owned(), image));
    let groups = document.groups().filter_map(|(name, group)| {
        let image = group.get("image").and_then(Value::as_str)?;
        Some((format!("/workerGroups/{}/image", escape(name)), image))
    });
    let differs = |(pointer, image): (String, &str)| {
        let version = tagged_version(image).filter(|version| *version != wanted)?;
        let message = format!(
            "`rayVersion` is {wanted} and the image is one of Ray {version}; KubeRay goes by `rayVersion`, the nodes run \
             what is in the image."
        );
        Some(Warning::new(pointer, WarningCode::VersionMismatch, message))
    };
    cluster.into_iter().chain(groups).filter_map(differs).collect()
}

/// The version that an image's tag begins with, as Ray's own images have it: `2.52.0-py311-gpu`.
fn tagged_version(image: &str) -> Option<&str> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))?;
    let version = tag.split(['-', '_', '+']).next()?;
    let number = |part: &str| !part.is_empty() && part.bytes().next().is_some_and(|first| first.is_ascii_digit());
    let parts: Vec<_> = version.split('.').collect();
    (parts.len() == 3 && parts.iter().all(|part| number(part))).then_some(version)
}

/// The first two numbers of a version of Ray, as KubeRay reads it (`ParseGeneric` in Kubernetes'
/// `k8s.io/apimachinery/pkg/util/version`): two numbers or more, then whatever. `None` for what is no version (`nightly`).
#[must_use]
pub fn major_minor(version: &str) -> Option<(u64, u64)> {
    let (major, rest) = version.strip_prefix('v').unwrap_or(version).split_once('.')?;
    let end = rest.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    if major.starts_with('0') && major != "0" {
        return None;
    }
    Some((number(major)?, number(&rest[..end])?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tags_tell_versions() {
        for (image, version) in [
            ("rayproject/ray:2.52.0", Some("2.52.0")),
            ("rayproject/ray:2.52.0-py311-gpu", Some("2.52.0")),
            ("registry.example:5000/ray:2.9.3", Some("2.9.3")),
            ("rayproject/ray:2.9.3.abcdef-py39@sha256:00", None),
            ("rayproject/ray:2.52.0@sha256:00", Some("2.52.0")),
            ("rayproject/ray:2.53.0rc1", Some("2.53.0rc1")),
            ("registry.example:5000/ray", None),
            ("rayproject/ray:nightly", None),
            ("rayproject/ray:latest-py311", None),
            ("mine/ray:7", None),
            ("mine", None),
        ] {
            assert_eq!(tagged_version(image), version, "{image}");
        }
    }

    #[test]
    fn versions_are_read_as_kuberay_does() {
        for (version, read) in [
            ("2.52.0", Some((2, 52))),
            ("2.52", Some((2, 52))),
            ("v2.9.3", Some((2, 9))),
            ("2.53.0rc1", Some((2, 53))),
            ("2.53rc1", Some((2, 53))),
            ("3.0.0.dev0", Some((3, 0))),
            ("0.1", Some((0, 1))),
            ("nightly", None),
            ("2", None),
            ("2.x", None),
            ("02.52", None),
            (".5", None),
            ("+2.5", None),
            ("2.99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(major_minor(version), read, "{version}");
        }
    }

    #[test]
    fn each_image_of_another_version_is_named() {
        let document = json!({"name": "d", "rayVersion": "2.52.0", "image": "rayproject/ray:2.51.0", "workerGroups": {
            "same": {"image": "rayproject/ray:2.52.0-gpu"},
            "other": {"image": "rayproject/ray:2.50.0"},
            "own": {"image": "mine:latest"},
            "none": {},
        }});
        let found = mismatches(&Document::read(document).0);
        let pointers: Vec<_> = found.iter().map(|warning| warning.pointer.as_str()).collect();
        assert_eq!(pointers, ["/image", "/workerGroups/other/image"]);
        assert!(found[0].message.contains("2.51.0") && found[0].message.contains("2.52.0"), "{}", found[0].message);
    }
}
