//! Keeps a fault that repeats thousands of times a second from filling the log: of each
//! place in the code, only so many warnings and errors are written in a while; the others
//! are counted, and one line says how many were left out.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::clock;

/// Lines of one place in the code within [`WINDOW`].
const MOST_LINES: u32 = 10;
/// How often lines that were left out are reported.
const WINDOW: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LineLimit {
    places: Arc<Places>,
    reporting: OnceLock<()>,
}

#[derive(Debug, Default)]
struct Places(Mutex<HashMap<Identifier, Lines>>);

/// The lines of one place in the current window.
#[derive(Debug)]
struct Lines {
    since: Instant,
    written: u32,
    left_out: u64,
    /// The message of the last line that was left out.
    message: String,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Lines>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line; returns whether it is to be written.
    fn admit(&self, event: &Event<'_>, now: Instant) -> bool {
        let mut places = self.lock();
        let fresh = || Lines { since: now, written: 0, left_out: 0, message: String::new() };
        let lines = places.entry(event.metadata().callsite()).or_insert_with(fresh);
        if now.duration_since(lines.since) >= WINDOW && lines.left_out == 0 {
            *lines = fresh();
        }
        if lines.written < MOST_LINES {
            lines.written += 1;
            return true;
        }
        lines.left_out += 1;
        event.record(&mut MessageReader(&mut lines.message));
        false
    }

    /// What was left out in windows that are over, which begin again.
    fn take_left_out(&self, now: Instant) -> Vec<(u64, String)> {
        let mut left_out = Vec::new();
        self.lock().retain(|_, lines| {
            if now.duration_since(lines.since) < WINDOW {
                return true;
            }
            if lines.left_out > 0 {
                left_out.push((lines.left_out, std::mem::take(&mut lines.message)));
            }
            false
        });
        left_out
    }

    fn report(&self, now: Instant) {
        for (count, like) in self.take_left_out(now) {
            tracing::warn!(count, like, "log lines were left out");
        }
    }
}

impl<S: Subscriber> Layer<S> for LineLimit {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        // Finer levels are switched on by someone who wants to see all of them.
        if *event.metadata().level() > Level::WARN || self.places.admit(event, clock::instant()) {
            return true;
        }
        self.reporting.get_or_init(|| {
            let places = Arc::clone(&self.places);
            let report = move || {
                loop {
                    thread::sleep(WINDOW / 2);
                    places.report(clock::instant());
                }
            };
            // Without the thread, only the counts are missing.
            let _ = thread::Builder::new().name("log".into()).spawn(report);
        });
        false
    }
}

/// Reads the message of an event.
struct MessageReader<'m>(&'m mut String);

impl Visit for MessageReader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use tracing::{Event, Subscriber};
    use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

    use super::{LineLimit, MOST_LINES, WINDOW, clock};

    struct Counter(Arc<AtomicU32>);

    impl<S: Subscriber> Layer<S> for Counter {
        fn on_event(&self, _event: &Event<'_>, _context: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn lines_of_one_place_are_limited_and_counted() {
        let (limit, written) = (LineLimit::default(), Arc::new(AtomicU32::new(0)));
        let places = Arc::clone(&limit.places);
        let subscriber =
            tracing_subscriber::registry().with(limit).with(Counter(Arc::clone(&written)));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..1000 {
                tracing::error!(number, "it fails");
            }
            assert_eq!(written.load(Ordering::Relaxed), MOST_LINES);
            tracing::warn!("something else");
            assert_eq!(written.load(Ordering::Relaxed), MOST_LINES + 1);
        });
        assert_eq!(places.take_left_out(clock::instant()), []);
        let left_out = places.take_left_out(clock::instant() + WINDOW);
        assert_eq!(left_out, [(1000 - u64::from(MOST_LINES), "it fails".to_owned())]);
        assert_eq!(places.take_left_out(clock::instant() + WINDOW), []);
    }
}
