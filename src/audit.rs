//! The audit: one JSON object a line for each request that changed something, tried to, or was refused something.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use futures::future::OptionFuture;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use tokio::sync::oneshot;

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

/// Where lines go. A thread writes them, so that a slow reader delays no answer.
pub struct Audit {
    lines: Mutex<Lines>,
    /// Comes when the thread has written all.
    written: Mutex<Option<oneshot::Receiver<()>>>,
    lost: Counter,
}

enum Lines {
    Off,
    Open(SyncSender<Vec<u8>>),
    Closed,
}

impl Audit {
    /// Writes to this.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let (done, written) = oneshot::channel();
        let lost = Counter::default();
        let unwritten = lost.clone();
        // Nobody joins the thread: one whose reader takes nothing would hold the process up.
        Builder::new().name("audit".into()).spawn(move || {
            write(out, &waiting, &unwritten);
            // Whoever waited may have given up.
            let _ = done.send(());
        })?;
        Ok(Self { lines: Mutex::new(Lines::Open(lines)), written: Mutex::new(Some(written)), lost })
    }

    /// Writes nothing.
    #[must_use]
    pub fn off() -> Self {
        let lines = Mutex::new(Lines::Off);
        Self { lines, written: Mutex::new(None), lost: Counter::default() }
    }

    /// Counts the lines that are lost.
    #[must_use]
    pub fn lost(&self) -> Counter {
        self.lost.clone()
    }

    /// Writes a line. One that finds too many waiting, or the audit closed, is lost, which is logged and counted.
    pub fn record(&self, line: &Line) {
        let recorded = match &*self.lines.lock().unwrap_or_else(PoisonError::into_inner) {
            Lines::Off => true,
            Lines::Open(lines) => serde_json::to_vec(line).is_ok_and(|mut text| {
                text.push(b'\n');
                lines.try_send(text).is_ok()
            }),
            Lines::Closed => false,
        };
        if !recorded {
            self.lost.inc();
            tracing::error!(request_id = line.request_id, "a line of the audit is lost: nobody takes them");
        }
    }

    /// Takes no further lines, and waits until those that wait are written: for as long as nobody takes what is written.
    pub async fn close(&self) {
        self.shut();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = OptionFuture::from(written).await {
            tracing::error!("the audit's writer ended badly");
        }
    }

    fn shut(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*lines, Lines::Open(_)) {
            *lines = Lines::Closed;
        }
    }
}

fn write(mut out: impl Write, waiting: &Receiver<Vec<u8>>, lost: &Counter) {
    while let Ok(line) = waiting.recv() {
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            lost.inc();
            tracing::error!(%error, "a line of the audit can't be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            time: Timestamp::UNIX_EPOCH,
            audit: 1,
            request_id: "mine".into(),
            user: None,
            authenticator: None,
            token_id: None,
            peer: None,
            verb: "POST".into(),
            path: "/clusters".into(),
            action: None,
            cluster: None,
            uid: None,
            result: Outcome::Unknown,
            status: None,
            code: None,
            rule: None,
            changed: Vec::new(),
        }
    }

    #[tokio::test]
    async fn what_waits_is_written_before_it_closes() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let audit = Audit::to(writer).unwrap();
        audit.record(&line());
        audit.close().await;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
        let wanted = r#"{"time":"1970-01-01T00:00:00Z","audit":1,"requestId":"mine","verb":"POST","path":"/clusters","result":"UNKNOWN"}"#;
        assert_eq!(text, format!("{wanted}\n"));
        assert_eq!(audit.lost().get(), 0);
        audit.record(&line());
        assert_eq!(audit.lost().get(), 1, "it is closed");
        audit.close().await;
    }

    #[tokio::test]
    async fn lines_that_cannot_be_written_are_counted() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let audit = Audit::to(writer).unwrap();
        audit.record(&line());
        audit.record(&line());
        audit.close().await;
        assert_eq!(audit.lost().get(), 2);
    }

    #[tokio::test]
    async fn lines_that_nobody_takes_are_counted() {
        let (reader, writer) = std::io::pipe().unwrap();
        let audit = Audit::to(writer).unwrap();
        let mut long = line();
        // More than a pipe holds: the first line is never written, and so many wait for it.
        long.path = "x".repeat(2 * 1024 * 1024);
        audit.record(&long);
        for _ in 0..=WAITING + 1 {
            audit.record(&line());
        }
        assert!([2, 3].contains(&audit.lost().get()), "{:?}", audit.lost());
        drop(reader);
    }

    #[tokio::test]
    async fn one_that_is_off_loses_nothing() {
        let audit = Audit::off();
        audit.record(&line());
        audit.close().await;
        audit.record(&line());
        assert_eq!(audit.lost().get(), 0);
    }
}
