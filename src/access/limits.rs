//! How much this process does for one caller: requests a second, requests at once, streams at once. Who hasn't shown who they are
//! is held to a rate by address.
//!
//! Each process counts for itself, so the numbers are per replica. What is known of a caller is forgotten once it makes no
//! difference any more.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, Reference as _};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[cfg(test)]
mod tests;

/// Most callers, and most addresses, that are counted one by one. Newcomers beyond share one place: a table that grows with
/// whoever comes would be a way to take the memory.
const MOST: usize = 10_000;
/// Of how many newcomers one has the table swept.
const SWEEP_EVERY: usize = 1_000;
/// A caller that a rule hasn't refused for this long is refused newly the next time.
const QUIET: Duration = Duration::from_mins(1);
/// After how many seconds to try again where nobody knows when a place gets free.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The limits. None is over a million, as the flags see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// Requests of a caller that are served in a second, in the long run.
    pub requests_per_second: NonZeroU32,
    /// Requests of a caller that are served at one stroke after a pause.
    pub burst: NonZeroU32,
    /// Requests of a caller that are under way at once.
    pub concurrent_requests: NonZeroU32,
    /// Streams of a caller that are open at once.
    pub streams: NonZeroU32,
    /// Requests without credentials that hold, of an address in a second, in the long run.
    pub unauthenticated_per_second: NonZeroU32,
    /// Such requests of an address at one stroke after a pause.
    pub unauthenticated_burst: NonZeroU32,
}

/// What can be over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A caller's requests in a second.
    RequestRate,
    /// A caller's requests at once.
    ConcurrentRequests,
    /// A caller's streams at once.
    Streams,
    /// An address's requests in a second without credentials that hold.
    UnauthenticatedRate,
}

impl Rule {
    /// The rule's name, for the audit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestRate => "requestRate",
            Self::ConcurrentRequests => "concurrentRequests",
            Self::Streams => "streams",
            Self::UnauthenticatedRate => "unauthenticatedRate",
        }
    }
}

/// Why a request has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// What is over its limit.
    pub rule: Rule,
    /// The limit: a count, or a count a second.
    pub limit: NonZeroU32,
    /// After how many seconds to try again: at least 1, rounded up.
    pub retry_after_seconds: u32,
    /// The rule hasn't refused this caller for a minute, or never: of a flood one refusal is new, however long it lasts.
    pub newly: bool,
}

/// The place of a request or stream among those that go on at once; dropping it frees the place.
#[derive(Debug)]
#[must_use = "dropping it frees the place"]
pub struct Permit {
    _place: OwnedSemaphorePermit,
}

/// What callers and addresses have used up.
pub struct Limits<C: Clock = DefaultClock> {
    settings: LimitSettings,
    clock: C,
    users: Mutex<Table<String, User<C>>>,
    peers: Mutex<Table<IpAddr, Bucket<C>>>,
}

impl Limits {
    /// Nobody has used anything yet.
    #[must_use]
    pub fn new(settings: LimitSettings) -> Self {
        Self::with_clock(settings, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Limits<C> {
    fn with_clock(settings: LimitSettings, clock: C) -> Self {
        let users = Mutex::new(Table::new(User::new(&settings, &clock)));
        let peers = Mutex::new(Table::new(Bucket::unauthenticated(&settings, &clock)));
        Self { settings, clock, users, peers }
    }

    /// What it is set to.
    #[must_use]
    pub fn settings(&self) -> &LimitSettings {
        &self.settings
    }

    /// Counts a request of this user; the permit is held until the answer is there, or its stream begins.
    ///
    /// # Errors
    /// They have sent too many of late, or have too many under way. The latter count as sent too.
    pub fn request(&self, user: &str) -> Result<Permit, Limited> {
        let mut users = lock(&self.users);
        let user = self.user(&mut users, user);
        user.rate.take()?;
        user.requests.take(self.clock.now())
    }

    /// Counts a stream of this user, whose request has been counted; the permit is held as long as it is open.
    ///
    /// # Errors
    /// They have too many open.
    pub fn stream(&self, user: &str) -> Result<Permit, Limited> {
        let mut users = lock(&self.users);
        self.user(&mut users, user).streams.take(self.clock.now())
    }

    /// Counts a request without credentials that hold. An IPv6 address counts as its /64, which one machine may have to itself.
    ///
    /// # Errors
    /// Too many have come from there of late.
    pub fn unauthenticated(&self, peer: IpAddr) -> Result<(), Limited> {
        let fresh = || Bucket::unauthenticated(&self.settings, &self.clock);
        lock(&self.peers).place(&network(peer), fresh, Bucket::is_idle).take()
    }

    fn user<'a>(&self, users: &'a mut Table<String, User<C>>, name: &str) -> &'a mut User<C> {
        users.place(name, || User::new(&self.settings, &self.clock), User::is_idle)
    }
}

/// What an address is counted as. An IPv4 address that a socket for both shows as an IPv6 one is an IPv4 address.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// Held for a few look-ups only, never while anything is awaited.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of each key. It holds those that aren't idle, and less than [`SWEEP_EVERY`] that have become so since.
struct Table<K, V> {
    places: HashMap<K, V>,
    /// Of all that came when there were [`MOST`]. They spend each other's: better than to refuse them all.
    shared: V,
    /// How many have come since it was swept.
    newcomers: usize,
}

impl<K: Hash + Eq, V> Table<K, V> {
    fn new(shared: V) -> Self {
        Self { places: HashMap::new(), shared, newcomers: 0 }
    }

    /// The place of this key. One that is idle is like a fresh one, so nobody misses it.
    fn place<Q>(&mut self, key: &Q, fresh: impl FnOnce() -> V, is_idle: impl Fn(&V) -> bool) -> &mut V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if !self.places.contains_key(key) {
            self.newcomers += 1;
            if self.newcomers >= SWEEP_EVERY {
                self.newcomers = 0;
                self.places.retain(|_, place| !is_idle(place));
            }
            if self.places.len() < MOST {
                self.places.insert(key.to_owned(), fresh());
            }
        }
        self.places.get_mut(key).unwrap_or(&mut self.shared)
    }
}

/// What a user has used up.
struct User<C: Clock> {
    rate: Bucket<C>,
    requests: Cap<C>,
    streams: Cap<C>,
}

impl<C: Clock + Clone> User<C> {
    fn new(settings: &LimitSettings, clock: &C) -> Self {
        Self {
            rate: Bucket::new(Rule::RequestRate, settings.requests_per_second, settings.burst, clock),
            requests: Cap::new(Rule::ConcurrentRequests, settings.concurrent_requests),
            streams: Cap::new(Rule::Streams, settings.streams),
        }
    }

    fn is_idle(&self) -> bool {
        let now = self.rate.limiter.clock().now();
        self.rate.is_idle() && self.requests.is_idle(now) && self.streams.is_idle(now)
    }
}

/// A bucket of tokens that fills at an even rate.
struct Bucket<C: Clock> {
    rule: Rule,
    rate: NonZeroU32,
    limiter: RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>,
    /// How long an empty one takes to be full.
    fills_in: Duration,
    taken: Option<C::Instant>,
    refusals: Refusals<C>,
}

impl<C: Clock + Clone> Bucket<C> {
    fn new(rule: Rule, rate: NonZeroU32, burst: NonZeroU32, clock: &C) -> Self {
        let quota = Quota::per_second(rate).allow_burst(burst);
        let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
        let fills_in = quota.burst_size_replenished_in();
        Self { rule, rate, limiter, fills_in, taken: None, refusals: Refusals::default() }
    }

    fn unauthenticated(settings: &LimitSettings, clock: &C) -> Self {
        let (rate, burst) = (settings.unauthenticated_per_second, settings.unauthenticated_burst);
        Self::new(Rule::UnauthenticatedRate, rate, burst, clock)
    }

    fn take(&mut self) -> Result<(), Limited> {
        let taken = self.limiter.check();
        let now = self.limiter.clock().now();
        match taken {
            Ok(()) => {
                self.taken = Some(now);
                Ok(())
            }
            Err(until) => {
                let retry_after_seconds = whole_seconds(until.wait_time_from(now));
                let newly = self.refusals.add(now);
                Err(Limited { rule: self.rule, limit: self.rate, retry_after_seconds, newly })
            }
        }
    }

    /// Whether it is certainly full again, and has been quiet.
    fn is_idle(&self) -> bool {
        let now = self.limiter.clock().now();
        passed::<C>(self.taken, now, self.fills_in) && self.refusals.are_over(now)
    }
}

/// So many at once.
struct Cap<C: Clock> {
    rule: Rule,
    limit: NonZeroU32,
    free: Arc<Semaphore>,
    refusals: Refusals<C>,
}

impl<C: Clock> Cap<C> {
    fn new(rule: Rule, limit: NonZeroU32) -> Self {
        Self { rule, limit, free: Arc::new(Semaphore::new(limit.get() as usize)), refusals: Refusals::default() }
    }

    fn take(&mut self, now: C::Instant) -> Result<Permit, Limited> {
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
            let newly = self.refusals.add(now);
            let retry_after_seconds = RETRY_AFTER_SECONDS;
            return Err(Limited { rule: self.rule, limit: self.limit, retry_after_seconds, newly });
        };
        Ok(Permit { _place: place })
    }

    /// Whether all places are free, and it has been quiet.
    fn is_idle(&self, now: C::Instant) -> bool {
        self.free.available_permits() == self.limit.get() as usize && self.refusals.are_over(now)
    }
}

/// When a rule last refused.
struct Refusals<C: Clock>(Option<C::Instant>);

impl<C: Clock> Default for Refusals<C> {
    fn default() -> Self {
        Self(None)
    }
}

impl<C: Clock> Refusals<C> {
    /// Counts one; whether it is the first one after a pause.
    fn add(&mut self, now: C::Instant) -> bool {
        let newly = self.are_over(now);
        self.0 = Some(now);
        newly
    }

    fn are_over(&self, now: C::Instant) -> bool {
        passed::<C>(self.0, now, QUIET)
    }
}

/// Whether this long has passed since then, or it never was.
fn passed<C: Clock>(since: Option<C::Instant>, now: C::Instant, long: Duration) -> bool {
    since.is_none_or(|since| Duration::from(now.duration_since(since)) >= long)
}

/// Rounded up, at least 1.
fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
