//! One event, serialised once and shared by every watcher.

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::cache::Entry;
use crate::ray::render::Cluster;

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
}

/// The frame of an event about a cluster: as [`Event`] would be serialised, around the bytes that are there already.
pub(super) fn of(entry: &Entry, event: EventType, epoch: &str, sequence: u64) -> Bytes {
    let made = || {
        let head = format!(r#"{{"type":"{}","cursor":"{epoch}.{sequence}","cluster":"#, name(event));
        [head.as_bytes(), &entry.rendered, b"}"].concat().into()
    };
    let frame = match event {
        EventType::Added => &entry.added,
        EventType::Modified => &entry.modified,
        EventType::Deleted => &entry.deleted,
        EventType::Synced | EventType::Heartbeat | EventType::Resync => return made(),
    };
    frame.get_or_init(made).clone()
}

/// The frame of an event about no cluster.
pub(super) fn bare(event: EventType, epoch: &str, sequence: u64) -> Bytes {
    format!(r#"{{"type":"{}","cursor":"{epoch}.{sequence}"}}"#, name(event)).into()
}

fn name(event: EventType) -> &'static str {
    match event {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
        EventType::Synced => "SYNCED",
        EventType::Heartbeat => "HEARTBEAT",
        EventType::Resync => "RESYNC",
    }
}
