//! Decides which failed attempts to authenticate are recorded, so that they neither go unseen nor
//! fill the log, and which sources have failed so often that they must wait.
//!
//! The caller passes the time in and writes the records.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

/// The maximum number of records per source and minute; the last of them counts the rest.
const MOST_RECORDS: u64 = 10;
/// The number of sources counted separately per minute; further ones are counted together.
const MOST_SOURCES: usize = 10_000;

/// The failed attempts of one source in a minute after which it must wait for the next minute.
const MOST_FAILURES: u64 = 20;
/// The same for all sources of one IPv4 network (/24) together.
const MOST_OF_NETWORK: u64 = 100;

/// Counts the failed attempts of each source within one minute.
///
/// A count is never dropped before its minute is over, so failing from many addresses resets no
/// count.
#[derive(Debug, Default)]
pub(crate) struct FailedAttempts {
    /// Minutes since the Unix epoch.
    minute: u64,
    counts: HashMap<Source, u64>,
    /// The counts of IPv4 networks.
    networks: HashMap<Source, u64>,
}

/// The source of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    /// An IPv4 address, or the /64 of an IPv6 address: the smallest range that providers assign to
    /// one customer.
    Address(IpAddr),
    /// The network of an IPv4 address.
    Network(Ipv4Addr),
    /// All further sources together.
    Others,
}

/// What to record about a failed attempt.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "these are the records to write"]
pub(crate) struct Noted {
    /// Whether the attempt itself is recorded.
    pub(crate) is_recorded: bool,
    /// The sums of the previous minute, if a new one has started.
    pub(crate) sums: Vec<Sum>,
    /// How many seconds the source must wait before its next attempt is answered as usual; `None`
    /// if it has not failed too often.
    pub(crate) wait: Option<u64>,
}

/// The number of attempts of one source in a past minute that were not recorded individually.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sum {
    pub(crate) source: Source,
    pub(crate) attempts: u64,
}

impl FailedAttempts {
    /// Counts a failed attempt. `now` is the time since the Unix epoch.
    pub(crate) fn note(&mut self, address: IpAddr, now: Duration) -> Noted {
        let sums = self.sweep(now);
        let count = increment(&mut self.counts, Source::of(address));
        let of_network =
            Source::network_of(address).map_or(0, |network| increment(&mut self.networks, network));
        let is_limited = count > MOST_FAILURES || of_network > MOST_OF_NETWORK;
        let wait = is_limited.then(|| 60 - now.as_secs() % 60);
        // One record is reserved for the sum.
        Noted { is_recorded: count < MOST_RECORDS, sums, wait }
    }

    /// Closes the current minute, if it is over.
    #[must_use = "these are the records to write"]
    pub(crate) fn sweep(&mut self, now: Duration) -> Vec<Sum> {
        let minute = now.as_secs() / 60;
        // Callers read the clock before they take the lock, so a time of the previous minute may
        // arrive late.
        if self.minute == minute || self.minute == minute + 1 {
            return Vec::new();
        }
        self.minute = minute;
        self.finish()
    }

    /// Closes the current minute, even if it is not over.
    #[must_use = "these are the records to write"]
    pub(crate) fn finish(&mut self) -> Vec<Sum> {
        let sum = |(source, count): (Source, u64)| {
            let attempts = count.saturating_sub(MOST_RECORDS - 1);
            (attempts > 0).then_some(Sum { source, attempts })
        };
        self.networks = HashMap::new();
        // The map is replaced, not drained, to free the memory that an attack took.
        let mut sums: Vec<_> =
            std::mem::take(&mut self.counts).into_iter().filter_map(sum).collect();
        sums.sort();
        sums
    }
}

/// Counts an attempt, for the source itself if there is room.
fn increment(counts: &mut HashMap<Source, u64>, source: Source) -> u64 {
    let is_counted_apart = counts.len() < MOST_SOURCES || counts.contains_key(&source);
    let count = counts.entry(if is_counted_apart { source } else { Source::Others }).or_default();
    *count += 1;
    *count
}

impl Source {
    /// The network of an IPv4 address: its /24, or for programs on this machine all of 127.0.0.0/8.
    fn network_of(address: IpAddr) -> Option<Source> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        let host_bits = if address.is_loopback() { 24 } else { 8 };
        let network = address.to_bits() >> host_bits << host_bits;
        Some(Source::Network(Ipv4Addr::from_bits(network)))
    }

    fn of(address: IpAddr) -> Source {
        Source::Address(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) if address.is_loopback() => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Address(IpAddr::V6(address)) if !address.is_loopback() => {
                write!(f, "{address}/64")
            }
            Source::Address(address) => write!(f, "{address}"),
            Source::Network(network) => write!(f, "the network of {network}"),
            Source::Others => f.write_str("other addresses"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Duration = Duration::from_hours(490_908);
    const MINUTE: Duration = Duration::from_mins(1);

    fn v4(number: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    /// Notes `times` failures of an address, and returns how many were recorded.
    fn fail(attempts: &mut FailedAttempts, address: IpAddr, times: u64, now: Duration) -> usize {
        let noted = (0..times).map(|_| attempts.note(address, now));
        noted.filter(|noted| noted.is_recorded).count()
    }

    fn show(sums: Vec<Sum>) -> Vec<String> {
        sums.into_iter().map(|sum| format!("{} {}", sum.source, sum.attempts)).collect()
    }

    #[test]
    fn nine_attempts_are_recorded_and_the_rest_are_summed() {
        let mut attempts = FailedAttempts::default();
        assert_eq!(fail(&mut attempts, v4(1), 9, NOON), 9);
        assert_eq!(fail(&mut attempts, v4(1), 91, NOON + Duration::from_secs(59)), 0);
        assert_eq!(fail(&mut attempts, v4(2), 9, NOON), 9);
        let noted = attempts.note(v4(1), NOON + MINUTE);
        assert!(noted.is_recorded);
        assert_eq!(show(noted.sums), ["10.0.0.1 91"]);
        assert_eq!(attempts.sweep(NOON + MINUTE), []);
        assert_eq!(attempts.finish(), []);
    }

    #[test]
    fn a_minute_ends_by_the_clock_or_at_shutdown() {
        let mut attempts = FailedAttempts::default();
        fail(&mut attempts, v4(1), 12, NOON);
        assert_eq!(attempts.sweep(NOON + Duration::from_secs(59)), []);
        assert_eq!(show(attempts.sweep(NOON + MINUTE)), ["10.0.0.1 3"]);
        assert_eq!(attempts.sweep(NOON + MINUTE), []);
        fail(&mut attempts, v4(1), 10, NOON + MINUTE);
        assert_eq!(show(attempts.finish()), ["10.0.0.1 1"]);
        assert_eq!(attempts.finish(), []);
    }

    #[test]
    fn an_attempt_that_comes_late_does_not_end_the_new_minute() {
        let mut attempts = FailedAttempts::default();
        for _ in 0..20 {
            let _ = attempts.note(v4(1), NOON + MINUTE);
            let _ = attempts.note(v4(1), NOON + Duration::from_secs(59));
        }
        assert_eq!(show(attempts.finish()), ["10.0.0.1 31"]);
    }

    #[test]
    fn many_addresses_cannot_reset_a_count() {
        let mut attempts = FailedAttempts::default();
        assert_eq!(fail(&mut attempts, v4(1), 100, NOON), 9);
        for number in 2..60_000 {
            let _ = attempts.note(v4(number), NOON);
        }
        // Sources counted before get no further record; those without room share theirs.
        assert_eq!(fail(&mut attempts, v4(1), 100, NOON), 0);
        assert_eq!(fail(&mut attempts, v4(60_000), 100, NOON), 0);
        assert_eq!(attempts.counts.len(), MOST_SOURCES + 1);
        assert_eq!(show(attempts.finish()), ["10.0.0.1 191", "other addresses 50090"]);
    }

    #[test]
    fn records_of_one_minute_are_bounded_whatever_the_addresses() {
        let mut attempts = FailedAttempts::default();
        let recorded = (0..300_000).filter(|n| attempts.note(v4(n % 30_000), NOON).is_recorded);
        let recorded = recorded.count() + attempts.finish().len();
        assert_eq!(recorded, (MOST_SOURCES + 1) * 10);
    }

    #[test]
    fn a_source_or_a_network_that_fails_too_often_must_wait_for_the_next_minute() {
        let mut attempts = FailedAttempts::default();
        let late = NOON + Duration::from_secs(50);
        let waits = |attempts: &mut FailedAttempts, address| attempts.note(address, late).wait;
        for _ in 0..MOST_FAILURES {
            assert_eq!(waits(&mut attempts, v4(1)), None);
        }
        assert_eq!(waits(&mut attempts, v4(1)), Some(10));
        assert_eq!(waits(&mut attempts, v4(2)), None);
        for host in 3..200 {
            let _ = attempts.note(v4(host), late);
        }
        // The network is exhausted, and its neighbour is not.
        assert_eq!(waits(&mut attempts, v4(250)), Some(10));
        assert_eq!(waits(&mut attempts, v4(256)), None);
        assert_eq!(attempts.note(v4(250), NOON + MINUTE).wait, None);
        // Many addresses do not make room for one that must wait.
        for number in 0..60_000 {
            let _ = attempts.note(v4(0x1_0000 + number), NOON + MINUTE);
        }
        assert!(attempts.note(v4(0x2_0000), NOON + MINUTE).wait.is_some());
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let mut attempts = FailedAttempts::default();
        let network = 0x2001_0db8_0000_0001_u128 << 64;
        let recorded = (0..100_u128)
            .map(|host| IpAddr::V6(Ipv6Addr::from_bits(network | host << 40 | host)))
            .filter(|address| attempts.note(*address, NOON).is_recorded);
        assert_eq!(recorded.count(), 9);
        let other = IpAddr::V6(Ipv6Addr::from_bits(((network >> 64) + 1) << 64));
        assert_eq!(fail(&mut attempts, other, 1, NOON), 1);
        assert_eq!(show(attempts.finish()), ["2001:db8:0:1::/64 91"]);
    }

    #[test]
    fn an_ipv4_address_is_one_source_however_it_arrives() {
        let mut attempts = FailedAttempts::default();
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(fail(&mut attempts, v4(1), 5, NOON) + fail(&mut attempts, mapped, 5, NOON), 9);
        let local = Ipv6Addr::LOCALHOST.into();
        assert_eq!(fail(&mut attempts, local, 10, NOON), 9);
        assert_eq!(show(attempts.finish()), ["10.0.0.1 1", "::1 1"]);
    }
}
