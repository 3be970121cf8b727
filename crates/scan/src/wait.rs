//! Reports, again and again, that a slow server is waited for.

use std::time::Duration;

use sluice_stdio::Overheard;
use tokio::time::Instant;

/// How often it is reported.
const STEP: Duration = Duration::from_millis(250);

/// Told how long a server has been waited for, and the last line that it wrote.
pub type OnWait<'w> = dyn Fn(Duration, Option<&str>) + Sync + 'w;

/// Does some work, and reports how long it takes.
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
