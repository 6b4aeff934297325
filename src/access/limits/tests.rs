//! On a clock that only moves when it is told to.

use governor::clock::FakeRelativeClock;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

use super::*;

type Turned = Limits<FakeRelativeClock>;

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn settings() -> LimitSettings {
    LimitSettings {
        requests_per_second: number(2),
        burst: number(3),
        concurrent_requests: number(2),
        streams: number(2),
        unauthenticated_per_second: number(1),
        unauthenticated_burst: number(2),
    }
}

fn limits(settings: LimitSettings) -> (Turned, FakeRelativeClock) {
    let clock = FakeRelativeClock::default();
    (Limits::with_clock(settings, clock.clone()), clock)
}

fn wait(clock: &FakeRelativeClock, milliseconds: u64) {
    clock.advance(Duration::from_millis(milliseconds));
}

/// The rule that refuses a request which ends at once, and whether newly.
fn refusal(limits: &Turned, user: &str) -> Option<(Rule, bool)> {
    limits.request(user).err().map(|limited| (limited.rule, limited.newly))
}

/// How many requests that end at once are served before one isn't.
fn served(limits: &Turned, user: &str) -> usize {
    (0..100).take_while(|_| limits.request(user).is_ok()).count()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Lets a thousand users come that have never been there: after that the table has been swept.
fn crowd(limits: &Turned, from: &mut usize) {
    for _ in 0..SWEEP_EVERY {
        drop(limits.request(&format!("one of a crowd, {from}")));
        *from += 1;
    }
}

fn known(limits: &Turned) -> usize {
    lock(&limits.users).places.len()
}

#[test]
fn a_rate_is_a_burst_and_then_even() {
    let (limits, clock) = limits(settings());
    assert_eq!(served(&limits, "ann"), 3);
    wait(&clock, 499);
    assert_eq!(served(&limits, "ann"), 0);
    wait(&clock, 1);
    assert_eq!(served(&limits, "ann"), 1);
    wait(&clock, 3_600_000);
    assert_eq!(served(&limits, "ann"), 3);
}

#[test]
fn a_refusal_says_what_and_how_long() {
    let (limits, clock) = limits(settings());
    let limited =
        |rule, limit, retry_after_seconds, newly| Limited { rule, limit: number(limit), retry_after_seconds, newly };
    let held = [limits.request("ann").unwrap(), limits.request("ann").unwrap()];
    assert_eq!(limits.request("ann").unwrap_err(), limited(Rule::ConcurrentRequests, 2, 1, true));
    // The refused one was a request too.
    assert_eq!(limits.request("ann").unwrap_err(), limited(Rule::RequestRate, 2, 1, true));
    drop(held);
    let _held = [limits.stream("ann").unwrap(), limits.stream("ann").unwrap()];
    assert_eq!(limits.stream("ann").unwrap_err(), limited(Rule::Streams, 2, 1, true));

    let peer = address("192.0.2.1");
    limits.unauthenticated(peer).unwrap();
    wait(&clock, 100);
    limits.unauthenticated(peer).unwrap();
    assert_eq!(limits.unauthenticated(peer).unwrap_err(), limited(Rule::UnauthenticatedRate, 1, 1, true));
}

#[test]
fn seconds_to_wait_are_rounded_up() {
    for (milliseconds, seconds) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2), (59_500, 60)] {
        assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds, "{milliseconds} ms");
    }
}

#[test]
fn streams_and_requests_have_places_of_their_own() {
    let (limits, _) = limits(settings());
    let requests = [limits.request("ann").unwrap(), limits.request("ann").unwrap()];
    let streams = [limits.stream("ann").unwrap(), limits.stream("ann").unwrap()];
    assert!(limits.stream("ann").is_err());
    drop(requests);
    assert!(limits.stream("ann").is_err());
    assert!(limits.request("ann").is_ok());
    drop(streams);
    assert!(limits.stream("ann").is_ok());
}

/// However long it lasts, and though a request gets through now and then.
#[test]
fn a_flood_is_new_once() {
    let (limits, clock) = limits(settings());
    let flood = || {
        let mut new = 0;
        for _ in 0..3_000 {
            wait(&clock, 100);
            new += usize::from(refusal(&limits, "ann") == Some((Rule::RequestRate, true)));
        }
        new
    };
    assert_eq!(flood(), 1);
    wait(&clock, 59_000);
    assert_eq!(flood(), 0);
    wait(&clock, 60_000);
    assert_eq!(flood(), 1);
    // Another rule, and another caller, have floods of their own.
    let _held = [limits.stream("ann"), limits.stream("ann")];
    let newly: Vec<_> = (0..3).map(|_| limits.stream("ann").unwrap_err().newly).collect();
    assert_eq!(newly, [true, false, false]);
    assert_eq!(served(&limits, "bob"), 3);
    assert_eq!(refusal(&limits, "bob"), Some((Rule::RequestRate, false)));
}

#[test]
fn addresses_of_one_network_share() {
    let same = [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
    ];
    let other = [
        ("2001:db8:0:1::1", "2001:db8:0:2::1"),
        ("192.0.2.1", "192.0.2.2"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),
        ("::1", "127.0.0.1"),
    ];
    let all = same.map(|pair| (pair, true)).into_iter().chain(other.map(|pair| (pair, false)));
    for ((first, second), shared) in all {
        let (limits, _) = limits(settings());
        while limits.unauthenticated(address(first)).is_ok() {}
        assert_eq!(limits.unauthenticated(address(second)).is_err(), shared, "{first} and {second}");
    }
}

#[test]
fn addresses_are_no_callers() {
    let (limits, _) = limits(settings());
    while limits.unauthenticated(address("192.0.2.1")).is_ok() {}
    assert_eq!(served(&limits, "192.0.2.1"), 3);
}

#[test]
fn the_table_is_bounded_and_newcomers_beyond_share() {
    let (limits, _) = limits(settings());
    let mut from = 0;
    for _ in 0..20 {
        crowd(&limits, &mut from);
        assert!(known(&limits) <= MOST);
    }
    assert_eq!(known(&limits), MOST);
    while limits.request("late").is_ok() {}
    assert_eq!(refusal(&limits, "later"), Some((Rule::RequestRate, false)));
    // Who was there before has their own.
    assert_eq!(served(&limits, "one of a crowd, 0"), 2);
}

#[test]
fn addresses_are_bounded_too() {
    let (limits, clock) = limits(settings());
    let peer = |number: u128| IpAddr::from(Ipv6Addr::from_bits(number << 64));
    for number in 0..15_000 {
        assert!(limits.unauthenticated(peer(number)).is_ok() || number >= 10_000);
        assert!(lock(&limits.peers).places.len() <= MOST);
    }
    wait(&clock, 60_000);
    for number in 20_000..21_000 {
        assert!(limits.unauthenticated(peer(number)).is_ok() || number < 20_999);
    }
    assert!(lock(&limits.peers).places.len() <= SWEEP_EVERY);
}

#[test]
fn who_has_gone_is_forgotten() {
    let (limits, clock) = limits(settings());
    let mut from = 0;
    for _ in 0..12 {
        crowd(&limits, &mut from);
    }
    // One request of three that two a second bring back.
    wait(&clock, 1_500);
    crowd(&limits, &mut from);
    assert!(known(&limits) <= SWEEP_EVERY, "{}", known(&limits));
    assert_eq!(served(&limits, "late"), 3);
    assert_eq!(served(&limits, "later"), 3);
}

#[test]
fn who_is_still_there_is_not_forgotten() {
    let (limits, clock) = limits(settings());
    let mut from = 0;
    let _request = limits.request("requests").unwrap();
    let _streams = [limits.stream("streams").unwrap(), limits.stream("streams").unwrap()];
    while limits.request("refused").is_ok() {}
    wait(&clock, 59_000);
    for _ in 0..3 {
        drop(limits.request("spent").unwrap());
    }
    crowd(&limits, &mut from);
    // Their buckets are as they were, and so are their places and what has been told of them.
    assert_eq!(refusal(&limits, "spent"), Some((Rule::RequestRate, true)));
    assert!(limits.stream("streams").is_err());
    let _second = limits.request("requests").unwrap();
    assert_eq!(refusal(&limits, "requests"), Some((Rule::ConcurrentRequests, true)));
    let refused: Vec<_> = (0..4).filter_map(|_| refusal(&limits, "refused")).collect();
    assert_eq!(refused, [(Rule::RequestRate, false)]);
}

// ---- over random sequences

/// Fixed seeds and a bounded count; `RAYGATE_LONG` has fresh seeds and many more.
fn config(seed: u64) -> ProptestConfig {
    let long = std::env::var_os("RAYGATE_LONG").is_some();
    ProptestConfig {
        cases: if long { 3_000 } else { 128 },
        rng_seed: if long { RngSeed::Random } else { RngSeed::Fixed(seed) },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What a user does, or the time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Request,
    Stream,
    EndRequest,
    EndStream,
    Wait(u64),
}

/// More requests than anything else, so that every limit is met.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Request),
        3 => Just(Step::Stream),
        3 => Just(Step::EndRequest),
        1 => Just(Step::EndStream),
        3 => (0_u64..1_500).prop_map(Step::Wait),
        1 => (0_u64..90_000).prop_map(Step::Wait),
    ]
}

/// Rates are divisors of a thousand: a token comes after whole milliseconds.
fn any_settings() -> impl Strategy<Value = LimitSettings> {
    let rate = proptest::sample::select(vec![1, 2, 5, 10]).prop_map(number);
    let small = || (1_u32..=4).prop_map(number);
    (rate, (1_u32..=6).prop_map(number), small(), small()).prop_map(|(rate, burst, concurrent_requests, streams)| {
        LimitSettings { requests_per_second: rate, burst, concurrent_requests, streams, ..settings() }
    })
}

/// What a user holds, oldest first.
#[derive(Default)]
struct Holdings {
    requests: Vec<Permit>,
    streams: Vec<Permit>,
}

impl Holdings {
    /// Does a step that isn't a wait; its refusal, if it is one.
    fn step(&mut self, limits: &Turned, clock: &FakeRelativeClock, user: &str, step: Step) -> Option<Limited> {
        match step {
            Step::Request => limits.request(user).map(|permit| self.requests.push(permit)).err(),
            Step::Stream => limits.stream(user).map(|permit| self.streams.push(permit)).err(),
            Step::EndRequest => {
                self.requests.truncate(self.requests.len().saturating_sub(1));
                None
            }
            Step::EndStream => {
                self.streams.truncate(self.streams.len().saturating_sub(1));
                None
            }
            Step::Wait(milliseconds) => {
                wait(clock, milliseconds);
                None
            }
        }
    }
}

fn size(number: NonZeroU32) -> usize {
    number.get().try_into().unwrap()
}

proptest! {
    #![proptest_config(config(0x11_6175))]

    /// What is served stays within the limits, what is refused was over one, and every place comes back.
    #[test]
    fn limits_hold(settings in any_settings(), steps in prop::collection::vec(step(), 1..120)) {
        let (limits, clock) = limits(settings);
        let mut held = Holdings::default();
        let (rate, burst) = (u64::from(settings.requests_per_second.get()), u64::from(settings.burst.get()));
        // A bucket of thousandths of a token, which gets `rate` of them each millisecond.
        let mut bucket = burst * 1_000;
        let (mut now, mut served) = (0_u64, Vec::new());
        for step in steps {
            let (requests, streams) = (held.requests.len(), held.streams.len());
            let refused = held.step(&limits, &clock, "ann", step).map(|limited| limited.rule);
            let expected = match step {
                Step::Request if bucket < 1_000 => Some(Rule::RequestRate),
                Step::Request => {
                    bucket -= 1_000;
                    let full = requests == size(settings.concurrent_requests);
                    if !full {
                        served.push(now);
                    }
                    full.then_some(Rule::ConcurrentRequests)
                }
                Step::Stream => (streams == size(settings.streams)).then_some(Rule::Streams),
                Step::EndRequest | Step::EndStream => None,
                Step::Wait(milliseconds) => {
                    now += milliseconds;
                    bucket = (bucket + milliseconds * rate).min(burst * 1_000);
                    None
                }
            };
            prop_assert_eq!(refused, expected, "{:?} at {} ms", step, now);
            prop_assert!(held.requests.len() <= size(settings.concurrent_requests));
            prop_assert!(held.streams.len() <= size(settings.streams));
        }
        for (first, from) in served.iter().enumerate() {
            for (last, to) in served.iter().enumerate().skip(first) {
                let count = u64::try_from(last - first + 1).unwrap();
                prop_assert!(count * 1_000 <= burst * 1_000 + rate * (to - from), "{count} from {from} to {to} ms");
            }
        }
        held = Holdings::default();
        for _ in 0..size(settings.concurrent_requests) {
            wait(&clock, 1_000);
            held.requests.push(limits.request("ann").unwrap());
        }
        for _ in 0..size(settings.streams) {
            held.streams.push(limits.stream("ann").unwrap());
        }
        wait(&clock, 1_000);
        prop_assert_eq!(limits.request("ann").unwrap_err().rule, Rule::ConcurrentRequests);
        prop_assert_eq!(limits.stream("ann").unwrap_err().rule, Rule::Streams);
    }

    /// Who waits as long as a refusal says is served.
    #[test]
    fn the_wait_that_is_said_is_enough(settings in any_settings(), before in 0_u64..1_000) {
        let (limits, clock) = limits(settings);
        while limits.request("ann").is_ok() {}
        wait(&clock, before);
        if let Err(limited) = limits.request("ann") {
            wait(&clock, u64::from(limited.retry_after_seconds) * 1_000);
            prop_assert!(limits.request("ann").is_ok());
        }
    }

    /// Nothing that others do, nor a sweep, changes what a user gets.
    #[test]
    fn others_make_no_difference(
        settings in any_settings(),
        steps in prop::collection::vec((step(), any::<bool>()), 1..120),
        crowds in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let crowds: Vec<_> = crowds.iter().map(|at| at.index(steps.len())).collect();
        let run = |alone: bool| {
            let (limits, clock) = limits(settings);
            let (mut ann, mut bob, mut from) = (Holdings::default(), Holdings::default(), 0);
            let mut outcomes = Vec::new();
            for (at, (step, by_bob)) in steps.iter().enumerate() {
                if crowds.contains(&at) && !alone {
                    crowd(&limits, &mut from);
                }
                if matches!(step, Step::Wait(_)) || !by_bob {
                    outcomes.push(ann.step(&limits, &clock, "ann", *step));
                } else if !alone {
                    bob.step(&limits, &clock, "bob", *step);
                }
            }
            outcomes
        };
        prop_assert_eq!(run(true), run(false));
    }
}
