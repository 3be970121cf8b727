//! Whether a child still answers: told by requests that are given up on while nothing at
//! all is heard from it.

use std::time::Duration;

use tokio::time::Instant;

/// Time-outs in a row, with nothing heard in between, after which a child is replaced.
const MOST_TIMEOUTS: u32 = 3;

/// What is known of one child.
#[derive(Debug)]
pub(super) struct Health {
    /// How long its answers are waited for; a child without such a time is never replaced.
    patience: Option<Duration>,
    /// When it last sent a message.
    heard: Instant,
    /// Time-outs since then, and when the last was counted.
    timeouts: u32,
    counted: Option<Instant>,
}

/// What follows from a request that is given up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: somebody went away, or the child has answered others meanwhile.
    Fine,
    /// It may be that only this request takes long: the child is asked for a sign of life.
    Doubtful,
    /// It is to be replaced.
    Dead,
}

impl Health {
    pub(super) fn new(patience: Option<Duration>) -> Health {
        Health { patience, heard: Instant::now(), timeouts: 0, counted: None }
    }

    /// The child has sent a message, whatever it says.
    pub(super) fn hear(&mut self) {
        self.heard = Instant::now();
        self.timeouts = 0;
        self.counted = None;
    }

    /// A request that was made at `asked` is not waited for any longer.
    pub(super) fn give_up(&mut self, asked: Instant) -> Verdict {
        let Some(patience) = self.patience else { return Verdict::Fine };
        // Whoever waits has begun to count a little earlier.
        let is_timeout = asked.elapsed() >= patience.mul_f64(0.9);
        // Many may time out together, and a sign of life needs time to arrive.
        let is_counted = self.counted.is_some_and(|counted| counted.elapsed() < patience / 4);
        if !is_timeout || self.heard > asked || is_counted {
            return Verdict::Fine;
        }
        self.timeouts += 1;
        self.counted = Some(Instant::now());
        if self.timeouts < MOST_TIMEOUTS { Verdict::Doubtful } else { Verdict::Dead }
    }

    /// A request could not even be sent, because the child does not read. Those that
    /// wait for it have been given up on before, or will be.
    pub(super) fn refuse(&mut self) -> Verdict {
        self.counted.map_or(Verdict::Fine, |counted| self.give_up(counted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Health, Verdict};

    const PATIENCE: Duration = Duration::from_mins(1);

    async fn timed_out(health: &mut Health) -> Verdict {
        let asked = Instant::now();
        advance(PATIENCE).await;
        health.give_up(asked)
    }

    #[tokio::test(start_paused = true)]
    async fn three_timeouts_in_a_row_are_too_many() {
        let mut health = Health::new(Some(PATIENCE));
        assert_eq!(timed_out(&mut health).await, Verdict::Doubtful);
        assert_eq!(timed_out(&mut health).await, Verdict::Doubtful);
        health.hear();
        assert_eq!(timed_out(&mut health).await, Verdict::Doubtful, "it was heard meanwhile");
        assert_eq!(timed_out(&mut health).await, Verdict::Doubtful);
        assert_eq!(timed_out(&mut health).await, Verdict::Dead);
        let mut never = Health::new(None);
        for _ in 0..9 {
            assert_eq!(timed_out(&mut never).await, Verdict::Fine);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_slow_request_beside_others_does_not_count() {
        let mut health = Health::new(Some(PATIENCE));
        for _ in 0..9 {
            let asked = Instant::now();
            advance(PATIENCE / 2).await;
            health.hear();
            advance(PATIENCE / 2).await;
            assert_eq!(health.give_up(asked), Verdict::Fine);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_go_away_and_timeouts_of_one_moment_do_not_count() {
        let mut health = Health::new(Some(PATIENCE));
        let asked = Instant::now();
        advance(PATIENCE / 2).await;
        assert_eq!(health.give_up(asked), Verdict::Fine);
        advance(PATIENCE / 2).await;
        let verdicts = [0; 9].map(|_| health.give_up(asked));
        assert_eq!(verdicts.iter().filter(|verdict| **verdict != Verdict::Fine).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_does_not_read_is_found_out_too() {
        let mut health = Health::new(Some(PATIENCE));
        assert_eq!(health.refuse(), Verdict::Fine, "others may have filled the queue");
        assert_eq!(timed_out(&mut health).await, Verdict::Doubtful);
        assert_eq!(health.refuse(), Verdict::Fine);
        for expected in [Verdict::Doubtful, Verdict::Dead] {
            advance(PATIENCE).await;
            assert_eq!(health.refuse(), expected);
        }
    }
}
