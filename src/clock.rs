//! The one place that reads a clock; everything else takes the time as an argument or asks here.

use std::time::Instant;

use jiff::Timestamp;

/// The wall clock's present time, in UTC.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The monotonic clock's present time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// The present time of tokio's timers, which tests can stop and turn.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the timers' clock")]
pub fn timer() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
