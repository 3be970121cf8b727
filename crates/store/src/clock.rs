//! The source of the current time; tests can set it.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use sluice_policy::Timestamp;

use crate::trusted_time::Moment;

/// Counts while the machine sleeps too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PASSED: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PASSED: ClockId = ClockId::Monotonic;

/// Where the current time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    #[default]
    System,
    /// A fixed time in milliseconds since the Unix epoch, set by a test. As much time passes as
    /// it is moved on.
    Fixed(Arc<AtomicI64>),
    /// A system clock that a test sets, beside the time that passes.
    Jumping { wall: Arc<AtomicI64>, passed: Arc<AtomicI64> },
}

impl Clock {
    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this module's job is to read the clock")]
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
                let millis = since_epoch.ok().and_then(|time| i64::try_from(time.as_millis()).ok());
                Timestamp::from_millis(millis.unwrap_or_default())
            }
            Clock::Fixed(millis) | Clock::Jumping { wall: millis, .. } => {
                Timestamp::from_millis(millis.load(Ordering::Relaxed))
            }
        }
    }

    /// The time now, and the time that has passed since the machine was started.
    pub(crate) fn look(&self) -> Moment {
        let wall = self.now().as_millis();
        let passed = match self {
            Clock::System => read_passed(),
            Clock::Fixed(_) => wall,
            Clock::Jumping { passed, .. } => passed.load(Ordering::Relaxed),
        };
        Moment { wall, passed }
    }

    /// What identifies this start of the machine, if that is known.
    pub(crate) fn boot(&self) -> Option<String> {
        match self {
            Clock::System => {
                let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
                Some(id.trim().to_owned()).filter(|id| !id.is_empty())
            }
            Clock::Fixed(_) | Clock::Jumping { .. } => Some("test".to_owned()),
        }
    }
}

/// Milliseconds since the machine was started.
fn read_passed() -> i64 {
    let passed = clock_gettime(PASSED);
    passed.tv_sec.saturating_mul(1000).saturating_add(passed.tv_nsec / 1_000_000)
}
