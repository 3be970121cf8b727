//! The time that windows and retention go by: the system clock, as far as it can be believed.
//!
//! A system clock that jumps ahead and back would let counters be spent twice, and a log be
//! removed before its time. So the time here never goes backwards, and is compared with how much
//! time has passed by a clock that nobody sets. If the system clock jumps by more than
//! [`DRIFT`], in either direction, it is not followed: time goes on as it passes, until the
//! system clock agrees again, has agreed with itself for [`AGREEMENT`], or a person confirms it.
//! What is known is stored, so a restart does not help a clock that is wrong. If the machine has
//! restarted too, nothing tells how long that took: up to [`LONGEST_STOP`] is believed.

use std::fmt;

/// How far the system clock may be from the time that has passed, in milliseconds.
pub(crate) const DRIFT: i64 = 300_000;
/// How long the machine may have been off before its clock must be confirmed, in milliseconds.
pub(crate) const LONGEST_STOP: i64 = 86_400_000;
/// How long a clock that has jumped must go on before it is followed, in milliseconds.
pub(crate) const AGREEMENT: i64 = 86_400_000;

/// One look at the clocks, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The system clock.
    pub(crate) wall: i64,
    /// The time since the machine has started, which nobody can set.
    pub(crate) passed: i64,
}

/// The time, and the last moment from which it was derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrustedTime {
    now: i64,
    last: Moment,
    jump: Option<Jump>,
}

/// The system clock has jumped and is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Jump {
    /// How far the system clock is ahead.
    ahead: i64,
    /// What it said first.
    since: i64,
}

/// A change of the trust in the system clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockEvent {
    /// It jumped by so many milliseconds.
    Jumped(i64),
    /// It is followed again; it had jumped by so many milliseconds.
    Agrees(i64),
}

impl TrustedTime {
    pub(crate) fn begin(moment: Moment) -> TrustedTime {
        TrustedTime { now: moment.wall, last: moment, jump: None }
    }

    /// Continues from a time that was stored, by this start of the machine or another one.
    pub(crate) fn resume(
        stored: TrustedTime,
        moment: Moment,
        is_same_boot: bool,
    ) -> (TrustedTime, Option<ClockEvent>) {
        let stopped = moment.wall.saturating_sub(stored.last.wall);
        let is_same_boot = is_same_boot && moment.passed >= stored.last.passed;
        let passed = if is_same_boot {
            moment.passed.saturating_sub(stored.last.passed)
        } else if (0..=LONGEST_STOP).contains(&stopped) {
            stopped
        } else {
            0
        };
        let last = Moment { passed: moment.passed.saturating_sub(passed), ..stored.last };
        let mut time = TrustedTime { last, ..stored };
        // The clock had jumped before, and nobody knows how long the machine was off: it agrees
        // if it says that a day has passed since.
        let agreed = stored.jump.filter(|jump| {
            !is_same_boot
                && stopped > LONGEST_STOP
                && moment.wall >= jump.since.saturating_add(AGREEMENT)
        });
        if let Some(Jump { ahead, .. }) = agreed {
            time.last = moment;
            time.confirm();
            return (time, Some(ClockEvent::Agrees(ahead)));
        }
        let event = time.advance(moment);
        (time, event)
    }

    /// Moves on to a moment.
    pub(crate) fn advance(&mut self, moment: Moment) -> Option<ClockEvent> {
        let passed = moment.passed.saturating_sub(self.last.passed);
        if passed < 0 {
            // Only the clock of a test is set back as a whole.
            *self = TrustedTime::begin(moment);
            return None;
        }
        let expected = self.now.saturating_add(passed);
        let ahead = moment.wall.saturating_sub(expected);
        self.last = moment;
        if ahead.abs() <= DRIFT {
            self.now = self.now.max(moment.wall);
            return self.jump.take().map(|jump| ClockEvent::Agrees(jump.ahead));
        }
        self.now = expected;
        match self.jump {
            Some(jump) if ahead.saturating_sub(jump.ahead).abs() <= DRIFT => {
                let has_agreed = moment.wall >= jump.since.saturating_add(AGREEMENT);
                has_agreed.then(|| {
                    self.confirm();
                    ClockEvent::Agrees(jump.ahead)
                })
            }
            _ => {
                self.jump = Some(Jump { ahead, since: moment.wall });
                Some(ClockEvent::Jumped(ahead))
            }
        }
    }

    /// Follows the system clock from now on.
    pub(crate) fn confirm(&mut self) {
        (self.now, self.jump) = (self.last.wall, None);
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// The time since the machine has started, at the last look.
    pub(crate) fn time_since_boot(&self) -> i64 {
        self.last.passed
    }

    /// How far the system clock is ahead, if it is not followed.
    pub(crate) fn distrust(&self) -> Option<i64> {
        self.jump.map(|jump| jump.ahead)
    }

    /// As it is stored.
    pub(crate) fn numbers(&self) -> [i64; 5] {
        let Jump { ahead, since } = self.jump.unwrap_or(Jump { ahead: 0, since: 0 });
        [self.now, self.last.wall, self.last.passed, ahead, since]
    }

    pub(crate) fn from_numbers([now, wall, passed, ahead, since]: [i64; 5]) -> TrustedTime {
        let jump = (ahead != 0).then_some(Jump { ahead, since });
        TrustedTime { now, last: Moment { wall, passed }, jump }
    }
}

impl fmt::Display for ClockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockEvent::Jumped(ahead) => write!(
                f,
                "the system clock is {}: it is not followed, and no record is pruned, until it agrees again, has gone on for a day, or `sluice doctor --trust-clock` confirms it",
                describe_clock(*ahead)
            ),
            ClockEvent::Agrees(ahead) => {
                write!(f, "the system clock is followed again; it was {}", describe_clock(*ahead))
            }
        }
    }
}

/// How far a clock is off, in words.
pub fn describe_clock(ahead: i64) -> String {
    let minutes = ahead.unsigned_abs() / 60_000;
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "min")];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    let side = if ahead < 0 { "behind" } else { "ahead" };
    format!("{} {side}", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{AGREEMENT, ClockEvent, DRIFT, LONGEST_STOP, Moment, TrustedTime, describe_clock};

    const NOON: i64 = 1_794_700_000_000;
    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    fn at(wall: i64, passed: i64) -> Moment {
        Moment { wall: NOON + wall, passed }
    }

    fn time() -> TrustedTime {
        TrustedTime::begin(at(0, 7))
    }

    /// What is stored and read again is the same.
    fn store(time: TrustedTime) -> TrustedTime {
        let read = TrustedTime::from_numbers(time.numbers());
        assert_eq!(read, time);
        read
    }

    #[test]
    fn small_steps_are_followed_but_never_backwards() {
        let mut time = time();
        assert_eq!(time.advance(at(HOUR, 7 + HOUR)), None);
        assert_eq!(time.now(), NOON + HOUR);
        assert_eq!(time.advance(at(HOUR + DRIFT, 7 + HOUR)), None);
        assert_eq!(time.now(), NOON + HOUR + DRIFT);
        assert_eq!(time.advance(at(HOUR + 1, 7 + HOUR)), None);
        assert_eq!(time.now(), NOON + HOUR + DRIFT);
    }

    #[test]
    fn a_jump_is_not_followed_until_the_clock_is_set_right() {
        for jump in [100 * DAY, 2 * HOUR, -2 * HOUR, -10_000 * DAY] {
            let mut time = time();
            assert_eq!(time.advance(at(jump, 7)), Some(ClockEvent::Jumped(jump)));
            assert_eq!(time.advance(at(jump + HOUR, 7 + HOUR)), None);
            assert_eq!((time.now(), time.distrust()), (NOON + HOUR, Some(jump)));
            let right = time.advance(at(2 * HOUR, 7 + 2 * HOUR));
            assert_eq!(right, Some(ClockEvent::Agrees(jump)));
            assert_eq!((time.now(), time.distrust()), (NOON + 2 * HOUR, None));
        }
    }

    #[test]
    fn a_day_of_agreement_or_a_person_confirms_a_jump() {
        for jump in [100 * DAY, -100 * DAY] {
            let mut time = time();
            time.advance(at(jump, 7));
            assert_eq!(time.advance(at(jump + AGREEMENT - 1, 7 + AGREEMENT - 1)), None);
            let agreed = time.advance(at(jump + AGREEMENT, 7 + AGREEMENT));
            assert_eq!(agreed, Some(ClockEvent::Agrees(jump)));
            assert_eq!(time.now(), NOON + jump + AGREEMENT);
            let mut time = self::time();
            time.advance(at(jump, 7));
            time.confirm();
            assert_eq!((time.now(), time.distrust()), (NOON + jump, None));
        }
    }

    #[test]
    fn a_restart_of_the_process_is_no_way_around() {
        let (mut resumed, event) = TrustedTime::resume(store(time()), at(5 * DAY, 1_007), true);
        assert_eq!(event, Some(ClockEvent::Jumped(5 * DAY - 1_000)));
        assert_eq!(resumed.now(), NOON + 1_000);
        // It is told once.
        let again = TrustedTime::resume(store(resumed), at(5 * DAY, 2_007), true);
        assert_eq!((again.0.now(), again.1), (NOON + 2_000, None));
        assert!(resumed.advance(at(2_000, 2_007)).is_some());
        // A long stop of the process alone is known.
        let (resumed, event) = TrustedTime::resume(time(), at(30 * DAY, 7 + 30 * DAY), true);
        assert_eq!((resumed.now(), event), (NOON + 30 * DAY, None));
    }

    #[test]
    fn a_restart_of_the_machine_is_believed_for_a_day() {
        let (resumed, event) = TrustedTime::resume(time(), at(LONGEST_STOP, 3), false);
        assert_eq!((resumed.now(), event), (NOON + LONGEST_STOP, None));
        let (resumed, event) = TrustedTime::resume(time(), at(LONGEST_STOP + 1, 3), false);
        assert_eq!(event, Some(ClockEvent::Jumped(LONGEST_STOP + 1)));
        assert_eq!(resumed.now(), NOON);
        let (resumed, event) = TrustedTime::resume(time(), at(-HOUR, 3), false);
        assert_eq!((resumed.now(), event), (NOON, Some(ClockEvent::Jumped(-HOUR))));
    }

    #[test]
    fn a_machine_that_is_off_for_days_is_believed_at_its_second_start() {
        let (first, _) = TrustedTime::resume(time(), at(7 * DAY, 3), false);
        assert!(first.distrust().is_some());
        let (second, event) = TrustedTime::resume(store(first), at(14 * DAY, 5), false);
        assert_eq!(event, Some(ClockEvent::Agrees(7 * DAY)));
        assert_eq!((second.now(), second.distrust()), (NOON + 14 * DAY, None));
    }

    #[test]
    fn a_jump_is_told_in_words() {
        assert_eq!(describe_clock(100 * DAY + 61 * 60_000), "100 d 1 h 1 min ahead");
        assert_eq!(describe_clock(-HOUR), "1 h behind");
    }
}
