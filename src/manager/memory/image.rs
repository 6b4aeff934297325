//! The registries of the world: which images exist, and what containerd says of those that don't.

/// A full reference, as containerd reads an image's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// The registry's host, perhaps with a port.
    host: String,
    path: String,
    /// The tag, or else the digest.
    tag: String,
    digest: Option<String>,
}

/// Tags that images without versions of their own kind are known by.
const TAGS: [&str; 11] =
    ["latest", "stable", "mainline", "slim", "alpine", "debug", "edge", "bookworm", "bullseye", "noble", "jammy"];
/// Repositories of Docker Hub that exist beside Ray's own.
const REPOSITORIES: [&str; 16] = [
    "library/busybox",
    "library/alpine",
    "library/python",
    "library/nginx",
    "library/redis",
    "library/ubuntu",
    "library/debian",
    "library/bash",
    "library/httpd",
    "library/curl",
    "fluent/fluent-bit",
    "curlimages/curl",
    "bitnami/kubectl",
    "grafana/grafana",
    "kuberay/submitter",
    "kuberay/operator",
];
const RAY: [&str; 3] = ["rayproject/ray", "rayproject/ray-ml", "rayproject/ray-llm"];

impl Reference {
    /// Reads an image's name as `ParseNormalizedNamed` of `distribution/reference` does.
    ///
    /// # Errors
    /// What is wrong with it, in that function's words.
    pub(super) fn parse(image: &str) -> Result<Self, String> {
        let invalid = || "invalid reference format".to_owned();
        let (host, rest) = split_host(image);
        let name = rest.split(':').next().unwrap_or_default();
        if name.chars().any(char::is_uppercase) {
            return Err(format!("invalid reference format: repository name ({name}) must be lowercase"));
        }
        let (named, digest) = match rest.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (rest.as_str(), None),
        };
        let (path, tag) = match named.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (named, None),
        };
        let well_formed = is_host(&host)
            && path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest)
            && host.len() + path.len() < 255;
        if !well_formed {
            return Err(invalid());
        }
        let tag = tag.unwrap_or("latest").to_owned();
        Ok(Self { path: path.to_owned(), tag, digest: digest.map(str::to_owned), host })
    }

    /// The host that a pull secret must be good for, if one is needed.
    pub(super) fn is_private(&self) -> bool {
        self.host.starts_with("private.")
    }

    /// Host and path.
    pub(super) fn repository(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// The reference in full: `docker.io/library/busybox:latest`.
    pub(super) fn full(&self) -> String {
        match &self.digest {
            Some(digest) => format!("{}@{digest}", self.repository()),
            None => format!("{}:{}", self.repository(), self.tag),
        }
    }

    /// Pulls the image; what containerd says where it can't. `more` are patterns of images that exist besides, in which
    /// `*` stands for anything.
    pub(super) fn pull(&self, image: &str, more: &[String], logged_in: bool) -> Result<(), String> {
        let Self { host, path, tag, .. } = self;
        let reference = self.full();
        let failed =
            format!("failed to pull and unpack image \"{reference}\": failed to resolve reference \"{reference}\": ");
        if self.is_private() {
            let scope = format!("repository%3A{}%3Apull", path.replace('/', "%2F"));
            let answer = format!(
                "{failed}failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://{host}/oauth2/token?scope={scope}&service={host}: 401 Unauthorized"
            );
            return if logged_in { Ok(()) } else { Err(answer) };
        }
        if self.is_known() || more.iter().any(|pattern| glob(pattern, image) || glob(pattern, &reference)) {
            return Ok(());
        }
        if host.ends_with(".invalid") {
            return Err(format!(
                "{failed}failed to do request: Head \"https://{host}/v2/{path}/manifests/{tag}\": dial tcp: lookup {host} on 10.96.0.10:53: no such host"
            ));
        }
        if host == "docker.io" && !self.is_known_repository() {
            return Err(format!(
                "{failed}pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"
            ));
        }
        Err(format!("rpc error: code = NotFound desc = {failed}{reference}: not found"))
    }

    fn is_known_repository(&self) -> bool {
        let Self { host, path, .. } = self;
        match host.as_str() {
            "docker.io" => RAY.iter().chain(&REPOSITORIES).any(|known| known == path) || path.starts_with("prom/"),
            "quay.io" => ["kuberay/submitter", "kuberay/operator"].contains(&path.as_str()),
            "registry.k8s.io" => ["pause", "busybox"].contains(&path.as_str()),
            _ => false,
        }
    }

    fn is_known(&self) -> bool {
        let of_ray = self.host == "docker.io" && RAY.contains(&self.path.as_str());
        let tag =
            if of_ray { is_ray_tag(&self.tag) } else { TAGS.contains(&self.tag.as_str()) || is_version(&self.tag) };
        self.digest.is_none() && self.is_known_repository() && tag
    }
}

/// Whether it is one of Ray's own images' tags: `2.52.0`, `latest`, `nightly`, with parts like `-py312`, `-gpu`, `-cu128`.
fn is_ray_tag(tag: &str) -> bool {
    let digits =
        |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = tag.split('-');
    let base = parts.next().unwrap_or_default();
    let commit = |text: &str| text.len() == 6 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let base = match base.split('.').collect::<Vec<_>>().as_slice() {
        ["latest" | "nightly"] => true,
        ["latest" | "nightly", rest] => commit(rest),
        ["1" | "2", minor, patch] => digits(minor, 2) && digits(patch, 2),
        ["1" | "2", minor, patch, rest] => digits(minor, 2) && digits(patch, 2) && commit(rest),
        _ => false,
    };
    let numbered = |part: &str, prefix: &str| part.strip_prefix(prefix).is_some_and(|rest| digits(rest, 3));
    base && parts.all(|part| {
        matches!(part, "cpu" | "gpu" | "aarch64" | "extra" | "tpu") || numbered(part, "py") || numbered(part, "cu")
    })
}

fn is_version(tag: &str) -> bool {
    tag.strip_prefix('v').unwrap_or(tag).starts_with(|first: char| first.is_ascii_digit())
}

/// `splitDockerDomain`: what comes before the first slash is a host only where it looks like one.
fn split_host(image: &str) -> (String, String) {
    let hub = "docker.io".to_owned();
    let Some((first, rest)) = image.split_once('/') else {
        return (hub, format!("library/{image}"));
    };
    let is_host = first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase);
    let (host, rest) = match first {
        "docker.io" | "index.docker.io" => (hub, rest),
        _ if is_host => (first.to_owned(), rest),
        _ => (hub, image),
    };
    let official = host == "docker.io" && !rest.contains('/');
    (host, if official { format!("library/{rest}") } else { rest.to_owned() })
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "443"));
    let label = |label: &str| {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !label.is_empty() && known && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(label) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lowercase letters and digits, with one dot, one or two underscores or any number of dashes between them.
fn is_component(part: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators = part.as_bytes().split(plain).filter(|separator| !separator.is_empty());
    let ends = part.as_bytes().first().is_some_and(plain) && part.as_bytes().last().is_some_and(plain);
    ends && separators
        .all(|separator| matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(word);
    first && tag.len() <= 128 && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, value)) = digest.split_once(':') else { return false };
    let letters = algorithm.split(['-', '_', '+', '.']).all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    letters && value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the text is of the pattern, in which `*` stands for anything.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(tail)
}
