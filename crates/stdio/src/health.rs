//! Health check of a child. When a request times out, the child gets a `ping`: a child
//! that is only slow with that request answers it.

use std::time::Duration;

use tokio::time::Instant;

use super::timeout::Timeout;

/// Times in a row for which a child has answered nothing, after which it is replaced.
const MOST_SILENCES: u32 = 3;

/// Health of one child.
#[derive(Debug)]
pub(super) struct Health {
    /// How long its answers are waited for; a child without such a time is never replaced.
    timeout: Option<Timeout>,
    /// When it last answered a request. Other messages may come from a part of the child
    /// that still works, for example a heartbeat.
    answered: Instant,
    /// Times for which it has answered nothing since then, and when the last was counted.
    silences: u32,
    counted: Option<Instant>,
    ping: Option<Ping>,
}

/// A `ping` whose time is not over yet, answered or not: there is one at a time.
#[derive(Debug)]
struct Ping {
    sent: Instant,
    /// When the newest request was made that was given up on meanwhile.
    given_up: Option<Instant>,
}

/// The result of a request that timed out, or of a `ping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// It may be that only one request takes long: a `ping` is to be sent, and
    /// [`Health::expire`] called when its time is over.
    Doubtful,
    /// It is to be replaced.
    Dead,
}

impl Health {
    pub(super) fn new(timeout: Option<Timeout>) -> Health {
        let answered = Instant::now();
        Health { timeout, answered, silences: 0, counted: None, ping: None }
    }

    /// How long answers are waited for now.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.as_ref().map(Timeout::get)
    }

    /// The child has answered a request, or reported progress of one.
    pub(super) fn answer(&mut self) {
        self.answered = Instant::now();
        self.silences = 0;
        self.counted = None;
    }

    /// A request that was made at `asked` is not waited for any longer: its time is over,
    /// it was cancelled, its client went away, or it could not even be sent.
    pub(super) fn give_up(&mut self, asked: Instant) -> Verdict {
        let Some(timeout) = self.timeout() else { return Verdict::Fine };
        if self.answered > asked {
            return Verdict::Fine;
        }
        if let Some(ping) = &mut self.ping {
            ping.given_up = ping.given_up.max(Some(asked));
            return Verdict::Fine;
        }
        // The caller's timer started slightly earlier. No interval counts twice.
        let is_timeout = asked.elapsed() >= timeout.mul_f64(0.9);
        if is_timeout && self.counted.is_none_or(|counted| counted <= asked) {
            self.count();
        }
        self.judge(true)
    }

    /// The time is over in which a `ping` was to be answered.
    pub(super) fn expire(&mut self) -> Verdict {
        let Some(ping) = self.ping.take() else { return Verdict::Fine };
        if self.answered <= ping.sent {
            self.count();
        }
        self.judge(ping.given_up.is_some_and(|asked| asked >= self.answered))
    }

    fn count(&mut self) {
        self.silences += 1;
        self.counted = Some(Instant::now());
    }

    fn judge(&mut self, is_doubtful: bool) -> Verdict {
        if self.silences >= MOST_SILENCES {
            return Verdict::Dead;
        }
        if !is_doubtful {
            return Verdict::Fine;
        }
        self.ping = Some(Ping { sent: Instant::now(), given_up: None });
        Verdict::Doubtful
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Health, Timeout, Verdict};

    const TIMEOUT: Duration = Duration::from_mins(1);

    async fn given_up(health: &mut Health, after: Duration) -> Verdict {
        let asked = Instant::now();
        advance(after).await;
        health.give_up(asked)
    }

    #[tokio::test(start_paused = true)]
    async fn three_times_of_silence_in_a_row_are_too_many() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        // The time-out itself is the first.
        assert_eq!(given_up(&mut health, TIMEOUT).await, Verdict::Doubtful);
        assert_eq!(given_up(&mut health, TIMEOUT).await, Verdict::Fine, "a ping is out");
        assert_eq!(health.expire(), Verdict::Doubtful);
        assert_eq!(given_up(&mut health, TIMEOUT).await, Verdict::Fine);
        assert_eq!(health.expire(), Verdict::Dead);
        let mut never = Health::new(None);
        for _ in 0..9 {
            assert_eq!(given_up(&mut never, TIMEOUT).await, Verdict::Fine);
            assert_eq!(never.expire(), Verdict::Fine);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_cancelled_early_lead_there_too() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Doubtful);
        for expected in [Verdict::Doubtful, Verdict::Doubtful, Verdict::Dead] {
            advance(TIMEOUT / 2).await;
            assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Fine);
            assert_eq!(health.expire(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_that_is_answered_proves_health() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        for _ in 0..9 {
            assert_eq!(given_up(&mut health, TIMEOUT).await, Verdict::Doubtful);
            advance(TIMEOUT / 2).await;
            health.answer();
            advance(TIMEOUT / 2).await;
            assert_eq!(health.expire(), Verdict::Fine);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_falls_silent_after_a_ping_is_asked_again() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Doubtful);
        advance(TIMEOUT / 8).await;
        health.answer();
        advance(TIMEOUT / 8).await;
        assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Fine);
        assert_eq!(health.expire(), Verdict::Doubtful);
    }

    #[tokio::test(start_paused = true)]
    async fn one_slow_request_beside_others_does_not_count() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        for _ in 0..9 {
            let asked = Instant::now();
            advance(TIMEOUT / 2).await;
            health.answer();
            advance(TIMEOUT / 2).await;
            assert_eq!(health.give_up(asked), Verdict::Fine);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_silence_counts_once_however_many_give_up() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        let asked = Instant::now();
        advance(TIMEOUT).await;
        let verdicts = [0; 9].map(|_| health.give_up(asked));
        assert_eq!(verdicts.iter().filter(|verdict| **verdict != Verdict::Fine).count(), 1);
        advance(TIMEOUT).await;
        assert_eq!(health.expire(), Verdict::Doubtful, "the second");
        let asked = Instant::now();
        advance(TIMEOUT / 2).await;
        health.answer();
        assert_eq!(health.give_up(asked), Verdict::Fine);
    }
    #[tokio::test(start_paused = true)]
    async fn a_timeout_that_is_changed_counts_at_once() {
        let timeout = Timeout::new(TIMEOUT);
        let mut health = Health::new(Some(timeout.clone()));
        timeout.set(TIMEOUT * 2);
        assert_eq!(health.timeout(), Some(TIMEOUT * 2));
        for _ in 0..9 {
            assert_eq!(given_up(&mut health, TIMEOUT).await, Verdict::Doubtful);
            advance(TIMEOUT / 4).await;
            health.answer();
            assert_eq!(health.expire(), Verdict::Fine, "no silence was counted");
        }
    }
}
