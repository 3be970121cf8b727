//! Reports periodically that a slow server has not answered yet.

use std::time::Duration;

use sluice_stdio::Overheard;
use tokio::time::Instant;

/// The interval between reports.
const STEP: Duration = Duration::from_millis(250);

/// Called with the waiting time so far, and the server's last line of output.
pub type OnWait<'w> = dyn Fn(Duration, Option<&str>) + Sync + 'w;

/// Runs some work, and reports how long it takes.
pub(crate) async fn wait_for<T>(
    on_wait: Option<&OnWait<'_>>,
    overheard: Option<&Overheard>,
    work: impl Future<Output = T>,
) -> T {
    let Some(on_wait) = on_wait else { return work.await };
    let begun = Instant::now();
    let mut steps = tokio::time::interval_at(begun + STEP, STEP);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = steps.tick() => {
                let last = overheard.and_then(|overheard| overheard.lines().pop());
                on_wait(begun.elapsed(), last.as_deref());
            }
        }
    }
}
