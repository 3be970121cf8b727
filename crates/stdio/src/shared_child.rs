//! Starts a shared child on demand: one start for all concurrent callers, with backoff if it
//! keeps failing.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::child::Child;

/// A child that ran this long did not fail at the start.
const STEADY: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Why there is no child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StartError {
    /// It could not be started, or its handshake failed; text for people.
    Failed(Arc<str>),
    /// It runs, and speaks only the legacy era.
    Legacy,
    /// It runs, and speaks only the modern era.
    Modern,
}

pub(super) type Started = Result<Arc<Child>, StartError>;

#[derive(Debug, Default)]
pub(super) struct SharedChild {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Exits and failed starts since it last ran for long.
    failures: u32,
    last: Option<(Arc<str>, Instant)>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Starting(watch::Receiver<Option<Started>>),
    Running(Arc<Child>),
}

impl SharedChild {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running child, if there is one.
    pub(super) fn running(&self) -> Option<Arc<Child>> {
        match &self.state().phase {
            Phase::Running(child) if child.over().is_none() => Some(Arc::clone(child)),
            _ => None,
        }
    }

    /// The child, started by `start` if none is running. The start continues even if all
    /// callers are gone.
    pub(super) async fn get<F>(self: &Arc<SharedChild>, start: impl FnOnce() -> F) -> Started
    where
        F: Future<Output = Started> + Send + 'static,
    {
        let mut starting = {
            let mut state = self.state();
            state.notice_end();
            match &state.phase {
                Phase::Running(child) => return Ok(Arc::clone(child)),
                Phase::Starting(starting) => starting.clone(),
                Phase::Idle => {
                    state.check_pause()?;
                    let (done, starting) = watch::channel(None);
                    state.phase = Phase::Starting(starting.clone());
                    let (slot, starting_now) = (Arc::clone(self), start());
                    tokio::spawn(async move {
                        let started = starting_now.await;
                        slot.state().take(&started);
                        done.send_replace(Some(started));
                    });
                    starting
                }
            }
        };
        let failed = || StartError::Failed("the server could not be started".into());
        let started = starting.wait_for(Option::is_some).await.map_err(|_| failed())?;
        (*started).clone().unwrap_or_else(|| Err(failed()))
    }
}

impl State {
    /// Notes that the child has ended, if it has.
    fn notice_end(&mut self) {
        let Phase::Running(child) = &self.phase else { return };
        let Some((why, at)) = child.over() else { return };
        if at.duration_since(child.began) > STEADY {
            self.failures = 0;
        }
        self.failures += 1;
        self.last = Some((why, at));
        self.phase = Phase::Idle;
    }

    /// Refuses to start again before the backoff is over.
    fn check_pause(&self) -> Result<(), StartError> {
        let Some((why, at)) = &self.last else { return Ok(()) };
        let left = pause(self.failures).saturating_sub(at.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        let left = left.as_millis().div_ceil(1000);
        let text = format!("{why}; it is not started again within {left} s");
        Err(StartError::Failed(text.into()))
    }

    fn take(&mut self, started: &Started) {
        self.phase = match started {
            Ok(child) => Phase::Running(Arc::clone(child)),
            Err(StartError::Failed(why)) => {
                self.failures += 1;
                self.last = Some((Arc::clone(why), Instant::now()));
                Phase::Idle
            }
            Err(StartError::Legacy | StartError::Modern) => Phase::Idle,
        };
    }
}

/// The backoff after so many failures in a row. The first failure may have been caused by
/// one call, so it has none.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 2).min(10)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use super::{SharedChild, StartError, pause};

    #[test]
    fn the_backoff_grows_up_to_a_limit() {
        let seconds = [0, 1, 2, 3, 4, 9, 1000].map(|failures| pause(failures).as_secs());
        assert_eq!(seconds, [0, 0, 1, 2, 4, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_failing_is_started_less_and_less_often() {
        let slot = Arc::new(SharedChild::default());
        let starts = Arc::new(AtomicU32::new(0));
        let attempt = || {
            let starts = Arc::clone(&starts);
            slot.get(move || async move {
                starts.fetch_add(1, Ordering::Relaxed);
                Err(StartError::Failed("no".into()))
            })
        };
        for _ in 0..10 {
            assert!(attempt().await.is_err());
        }
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        let Err(StartError::Failed(why)) = attempt().await else { panic!() };
        assert_eq!(&*why, "no; it is not started again within 1 s");
        tokio::time::advance(Duration::from_secs(2)).await;
        let _ = attempt().await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }
}
