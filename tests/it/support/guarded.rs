//! A raygate that asks who is calling.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::Method;
use raygate::access::NewToken;
use serde_json::Value;

use super::{Answer, Outcome, Raygate};

/// A running raygate with a token file and a policy file.
pub(crate) struct Guarded {
    raygate: Raygate,
    files: Files,
}

/// The two files, in a folder of their own that goes with them.
pub(crate) struct Files {
    folder: PathBuf,
    tokens: BTreeMap<String, String>,
    lines: Vec<String>,
}

impl Drop for Files {
    fn drop(&mut self) {
        // What isn't there any more is gone too.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Files {
    /// A folder with a token for each of these people, and this policy.
    pub(crate) fn new(people: &[(&str, &[&str])], policy: &str) -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("raygate-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder)?;
        let mut files = Self { folder, tokens: BTreeMap::new(), lines: Vec::new() };
        for (user, groups) in people {
            let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
            let NewToken { token, line } = NewToken::make(user, &groups, 1, None)?;
            files.tokens.insert((*user).to_owned(), token);
            files.lines.push(line);
        }
        files.write_tokens(&files.lines)?;
        files.write_policy(policy)?;
        Ok(files)
    }

    /// Where the token file is.
    pub(crate) fn token_path(&self) -> PathBuf {
        self.folder.join("tokens.yaml")
    }

    /// Where the policy file is.
    pub(crate) fn policy_path(&self) -> PathBuf {
        self.folder.join("policy.yaml")
    }

    /// The lines of the token file as it was first.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Puts another token file in place, whole.
    pub(crate) fn write_tokens(&self, lines: &[String]) -> Outcome {
        let text = if lines.is_empty() { "[]".to_owned() } else { lines.join("\n") };
        replace(&self.token_path(), &text)
    }

    /// Puts another policy file in place, whole.
    pub(crate) fn write_policy(&self, policy: &str) -> Outcome {
        replace(&self.policy_path(), policy)
    }
}

fn replace(path: &Path, text: &str) -> Outcome {
    let next = path.with_extension("next");
    std::fs::write(&next, text)?;
    Ok(std::fs::rename(next, path)?)
}

impl Deref for Guarded {
    type Target = Raygate;

    fn deref(&self) -> &Raygate {
        &self.raygate
    }
}

impl Guarded {
    /// Starts the embedded backend with a token for each of these people (name, groups) and this policy; its files are looked
    /// at each second.
    pub(crate) async fn memory(people: &[(&str, &[&str])], policy: &str, arguments: &[&str]) -> Outcome<Self> {
        let delays = ["--memory-start-milliseconds", "20", "--memory-stop-milliseconds", "20"];
        let files = Files::new(people, policy)?;
        Self::start(files, &[&["--backend", "memory"], &delays[..], arguments].concat()).await
    }

    /// Starts over these files, with these further arguments.
    pub(crate) async fn start(files: Files, arguments: &[&str]) -> Outcome<Self> {
        let (tokens, policy) = (files.token_path().display().to_string(), files.policy_path().display().to_string());
        let usual = ["--token-file", &tokens, "--policy-file", &policy, "--reload-seconds", "1"];
        let raygate = Raygate::start(&[&usual, arguments].concat()).await?;
        raygate.ready().await?;
        Ok(Self { raygate, files })
    }

    /// Its files.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// The token of one of the people, empty for anybody else.
    pub(crate) fn token(&self, user: &str) -> &str {
        self.files.tokens.get(user).map(String::as_str).unwrap_or_default()
    }

    /// What is sent as `Authorization` for one of the people.
    pub(crate) fn bearer(&self, user: &str) -> String {
        format!("Bearer {}", self.token(user))
    }

    /// Sends a request of one of the people.
    pub(crate) async fn ask(&self, user: &str, method: Method, path: &str, body: impl Into<Bytes>) -> Outcome<Answer> {
        self.send(method, path, &[("authorization", &self.bearer(user))], body).await
    }

    /// Has one of the people create a cluster.
    pub(crate) async fn create(&self, user: &str, document: &Value) -> Outcome<Answer> {
        self.ask(user, Method::POST, "/clusters", document.to_string()).await
    }
}
