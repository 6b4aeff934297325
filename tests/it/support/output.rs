//! What a process writes.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use super::Outcome;

/// What a process writes to one of its outputs: a file, so that nothing of it is lost however its test ends. It stays where
/// `RAYGATE_TEST_OUTPUT` names a folder, whose files tests/secrets reads.
pub(super) struct Output {
    path: PathBuf,
    stays: bool,
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.stays {
            // What isn't there any more is gone too.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Output {
    /// An empty file of this kind.
    pub(super) fn new(kind: &str) -> Outcome<Self> {
        let kept = std::env::var_os("RAYGATE_TEST_OUTPUT").map(PathBuf::from);
        let stays = kept.is_some();
        let path = kept.unwrap_or_else(std::env::temp_dir).join(format!("raygate-{}.{kind}", uuid::Uuid::new_v4()));
        File::create_new(&path)?;
        Ok(Self { path, stays })
    }

    /// What writes to it.
    pub(super) fn writer(&self) -> Outcome<File> {
        Ok(OpenOptions::new().append(true).open(&self.path)?)
    }

    /// All that is there so far.
    pub(super) fn read(&self) -> Outcome<String> {
        Ok(String::from_utf8(std::fs::read(&self.path)?)?)
    }

    /// The lines that are whole.
    pub(super) fn lines(&self) -> Outcome<Vec<String>> {
        let text = self.read()?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().map(str::to_owned).collect())
    }
}
