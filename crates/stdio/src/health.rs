//! Health check of a child. When a request times out, the child gets a `ping`. One that
//! answers is kept, because it was only slow with that request; one that answers nothing
//! for several time-outs is replaced.

use std::time::Duration;

use tokio::time::Instant;

use super::timeout::Timeout;

/// After this many silent intervals in a row, a child is replaced.
const MOST_SILENCES: u32 = 3;

/// Health of one child.
#[derive(Debug)]
pub(super) struct Health {
    /// The timeout of its answers, which is also the length of an interval; a child
    /// without one is never replaced.
    timeout: Option<Timeout>,
    /// When it last answered a request. Other messages do not count: they may come from a
    /// part of the child that still works, for example a heartbeat.
    answered: Instant,
    /// The silent intervals since then, and when the last one was counted.
    silences: u32,
    counted: Option<Instant>,
    ping: Option<Ping>,
}

/// A `ping` whose timeout has not expired yet, answered or not. There is one at a time.
#[derive(Debug)]
struct Ping {
    sent: Instant,
    /// When the newest request was sent that was given up during the `ping`.
    given_up: Option<Instant>,
}

/// The result of a request that timed out, or of a `ping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// Perhaps only one request is slow: a `ping` must be sent, and [`Health::expire`]
    /// called when its timeout has expired.
    Doubtful,
    /// The child must be replaced.
    Dead,
}

impl Health {
    pub(super) fn new(timeout: Option<Timeout>) -> Health {
        let answered = Instant::now();
        Health { timeout, answered, silences: 0, counted: None, ping: None }
    }

    /// The current timeout of answers.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout.as_ref().map(Timeout::get)
    }

    /// Notes that the child has answered a request, or reported its progress.
    pub(super) fn answer(&mut self) {
        self.answered = Instant::now();
        self.silences = 0;
        self.counted = None;
    }

    /// Notes that a request sent at `asked` is no longer waited for: it timed out, was
    /// cancelled, lost its client, or could not even be sent.
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

    /// Notes that the timeout of a `ping` has expired.
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
    async fn a_child_is_dead_after_three_silent_intervals() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        // The timeout of the request is the first silent interval.
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
    async fn requests_cancelled_early_also_reveal_a_dead_child() {
        let mut health = Health::new(Some(Timeout::new(TIMEOUT)));
        assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Doubtful);
        for expected in [Verdict::Doubtful, Verdict::Doubtful, Verdict::Dead] {
            advance(TIMEOUT / 2).await;
            assert_eq!(given_up(&mut health, TIMEOUT / 8).await, Verdict::Fine);
            assert_eq!(health.expire(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answered_ping_proves_health() {
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
    async fn a_child_that_falls_silent_after_a_ping_is_pinged_again() {
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
    async fn a_silent_interval_counts_once_for_any_number_of_requests() {
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
    async fn a_changed_timeout_applies_at_once() {
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
