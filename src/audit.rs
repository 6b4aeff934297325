//! The audit: one JSON object a line for each request that changed something, tried to, or was refused something.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use jiff::Timestamp;
use serde::Serialize;

/// How many lines may wait to be written.
const WAITING: usize = 4096;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Something is changed.
    Changed,
    /// It was carried out, and nothing had to change.
    Unchanged,
    /// A rule of access refused it.
    Refused,
    /// It failed for another reason.
    Failed,
    /// Whether something is changed isn't known.
    Unknown,
}

/// One line. No member ever holds a token, the value of an environment variable or a Secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// When it was answered (RFC 3339, UTC).
    pub time: Timestamp,
    /// The version of this format.
    pub audit: u8,
    /// Under which the request stands in the logs and in its answer.
    pub request_id: String,
    /// Who asked; absent where nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Which authenticator vouched for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authenticator: Option<&'static str>,
    /// The name of the credential, which is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// The address that the request came from: a proxy's, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The request's method.
    pub verb: String,
    /// The request's path, its beginning at least.
    pub path: String,
    /// What it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
    /// The cluster that it is about, as `name.namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The cluster's uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// What came of it.
    pub result: Outcome,
    /// The answer's status; absent where nobody was left to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The problem's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The rule of access that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// What it changed of the RayCluster: JSON Pointers (RFC 6901), at most 100; `""` is all of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// A line that couldn't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// Where lines go. A thread writes them, so that a slow reader delays no answer.
pub struct Audit {
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Writes to this.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let writer = Builder::new().name("audit".into()).spawn(move || write(out, &waiting))?;
        Ok(Self { lines: Mutex::new(Some(lines)), writer: Mutex::new(Some(writer)) })
    }

    /// Writes nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { lines: Mutex::new(None), writer: Mutex::new(None) }
    }

    /// Writes a line. One that finds too many waiting is lost, which is logged.
    ///
    /// # Errors
    /// It is lost.
    pub fn record(&self, line: &Line) -> Result<(), Lost> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(lines), Ok(mut text)) = (lines.as_ref(), serde_json::to_vec(line)) else { return Ok(()) };
        text.push(b'\n');
        lines.try_send(text).map_err(|_| {
            tracing::error!(request_id = line.request_id, "a line of the audit is lost: nobody takes them");
            Lost
        })
    }

    /// Writes what waits, and nothing more. Blocks for as long as nobody takes what is written.
    pub fn close(&self) {
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = writer.map(JoinHandle::join) {
            tracing::error!("the audit's writer ended badly");
        }
    }
}

fn write(mut out: impl Write, waiting: &Receiver<Vec<u8>>) {
    while let Ok(line) = waiting.recv() {
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            tracing::error!(%error, "a line of the audit can't be written");
        }
    }
}
