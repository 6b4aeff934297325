//! One event, serialised once and shared by every watcher.

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::cache::{Cursors, Entry};
use crate::ray::name::ClusterKey;
use crate::ray::render::{self, Cluster, Form};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// A cluster that the watcher hasn't been shown.
    Added,
    /// A cluster's newest state.
    Modified,
    /// A cluster is gone, or isn't the watcher's to see any more; its last state.
    Deleted,
    /// Every present cluster has been shown.
    Synced,
    /// Nothing happened; the stream lives.
    Heartbeat,
    /// The picture begins anew: what isn't shown by the next `SYNCED` is gone.
    Resync,
    /// Nothing more comes; `error` says why.
    Error,
}

/// Why a stream ends before it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StreamError {
    /// Which kind of problem, for programs; the codes are those of problems.
    pub code: String,
    /// What happened, in a sentence.
    pub detail: String,
}

/// One event of a watch.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = WatchEvent)]
pub struct Event {
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Where in the stream this is; opaque.
    pub cursor: String,
    /// The cluster, for `ADDED`, `MODIFIED` and `DELETED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// Why nothing more comes, for `ERROR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StreamError>,
}

/// The frame of an event about a cluster: as [`Event`] would be serialised, around the bytes that are there already.
pub(super) fn of(entry: &Entry, form: Form, event: EventType, cursors: &Cursors, sequence: u64) -> Bytes {
    let face = entry.face(form);
    let made = || around(event, cursors, sequence, &face.rendered);
    let frame = match event {
        EventType::Added => &face.added,
        EventType::Modified => &face.modified,
        EventType::Deleted => &face.deleted,
        EventType::Synced | EventType::Heartbeat | EventType::Resync | EventType::Error => return made(),
    };
    frame.get_or_init(made).clone()
}

/// The frame of a cluster that its watcher may not see any more.
pub(super) fn unseen(key: &ClusterKey, uid: &str, cursors: &Cursors, sequence: u64) -> Bytes {
    let cluster = serde_json::to_vec(&render::unseen(key, uid)).unwrap_or_default();
    around(EventType::Deleted, cursors, sequence, &cluster)
}

fn around(event: EventType, cursors: &Cursors, sequence: u64, cluster: &[u8]) -> Bytes {
    let head = format!(r#"{{"type":"{}","cursor":"{}","cluster":"#, name(event), cursors.name(sequence));
    [head.as_bytes(), cluster, b"}"].concat().into()
}

/// The frame of an event about no cluster.
pub(super) fn bare(event: EventType, cursors: &Cursors, sequence: u64) -> Bytes {
    format!(r#"{{"type":"{}","cursor":"{}"}}"#, name(event), cursors.name(sequence)).into()
}

/// The frame that says why nothing more comes.
pub(super) fn error(cursors: &Cursors, sequence: u64, error: &StreamError) -> Bytes {
    let event = Event {
        event_type: EventType::Error,
        cursor: cursors.name(sequence),
        cluster: None,
        error: Some(error.clone()),
    };
    serde_json::to_vec(&event).map(Bytes::from).unwrap_or_default()
}

fn name(event: EventType) -> &'static str {
    match event {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
        EventType::Synced => "SYNCED",
        EventType::Heartbeat => "HEARTBEAT",
        EventType::Resync => "RESYNC",
        EventType::Error => "ERROR",
    }
}
