//! Time as pods know it: shorter than in real life, told in real life's numbers.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_mins(5);

/// How fast time goes for pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) start: Duration,
    pub(super) stop: Duration,
    /// How long a back-off of ten seconds takes.
    pub(super) back_off: Duration,
}

impl Pace {
    /// How long that takes here which takes so long in real life.
    pub(super) fn scaled(&self, real: Duration) -> Duration {
        // Ten seconds are ten million microseconds.
        let unit = u32::try_from(self.back_off.as_micros()).unwrap_or(u32::MAX);
        (real / 10_000_000).saturating_mul(unit)
    }
}

/// The present, by the clock of timers and by the wall's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) timer: Instant,
    pub(super) wall: Timestamp,
}

/// client-go's exponential back-off, in the kubelet's real durations; only the clock is scaled.
#[derive(Default)]
pub(super) struct BackOff {
    /// As real life has it.
    pub(super) delay: Duration,
    pub(super) last: Option<Instant>,
}

impl BackOff {
    fn is_fresh(&self, pace: Pace, event: Instant) -> bool {
        self.last.is_some_and(|last| event.saturating_duration_since(last) <= pace.scaled(2 * LONGEST_BACK_OFF))
    }

    /// Until when it lasts, if it still does.
    pub(super) fn until(&self, pace: Pace, since: Instant, now: Instant) -> Option<Instant> {
        let until = since + pace.scaled(self.delay);
        (self.is_fresh(pace, since) && now < until).then_some(until)
    }

    pub(super) fn next(&mut self, pace: Pace, event: Instant, now: Instant) {
        let fresh = self.is_fresh(pace, event);
        self.delay = if fresh { (2 * self.delay).min(LONGEST_BACK_OFF) } else { FIRST_BACK_OFF };
        self.last = Some(now);
    }
}

/// As Go writes a duration of whole seconds: `40s`, `1m20s`.
pub(super) fn written(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
