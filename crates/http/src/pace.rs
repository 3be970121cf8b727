//! Lets other tasks of a thread run while much data passes through one.

use std::{
    pin::pin,
    task::{Context, Poll, ready},
};

/// How many bytes a task handles before others run. One of many tasks that relay long answers
/// thus delays a short call by fractions of a millisecond.
const TURN: usize = 128 << 10;

/// Counts the bytes that a task has handled since others last ran.
#[derive(Debug, Default)]
pub struct Pace {
    handled: usize,
}

impl Pace {
    /// Notes bytes that were handled.
    pub fn note(&mut self, bytes: usize) {
        self.handled = self.handled.saturating_add(bytes);
    }

    /// Ready while the task may go on. Otherwise it is pending once, and the task is woken after
    /// the others, and after sockets were looked at.
    pub fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.handled < TURN {
            return Poll::Ready(());
        }
        self.handled = 0;
        // Its first poll arranges the wake-up, also if it is then dropped. A plain wake-up would
        // let tasks that are always ready take turns without sockets being looked at.
        ready!(pin!(tokio::task::yield_now()).poll(context));
        Poll::Ready(())
    }

    /// Waits for the next turn, if this one is over.
    pub async fn turn(&mut self) {
        std::future::poll_fn(|context| self.poll_turn(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, TURN};

    #[tokio::test]
    async fn others_run_after_each_turn() {
        let others = tokio::spawn(async {
            let mut ran = 0;
            loop {
                tokio::task::yield_now().await;
                ran += 1;
                if ran == 10 {
                    return;
                }
            }
        });
        let (mut pace, mut handled) = (Pace::default(), 0);
        while !others.is_finished() {
            pace.note(TURN / 4);
            handled += 1;
            assert!(handled <= 100, "the others never ran");
            pace.turn().await;
        }
        assert!(handled >= 20, "it has turns of some length: {handled}");
    }
}
