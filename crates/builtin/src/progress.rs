//! Progress notifications of a call.

use sluice_wire::json::{Quoted, Value};
use tokio::sync::mpsc;

/// Sends the progress of one call, if the caller has asked for it.
#[derive(Debug, Default)]
pub struct Progress {
    asked: Option<Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    /// The progress token, as JSON.
    token: String,
    reports: mpsc::Sender<String>,
}

impl Progress {
    /// For a caller that has not asked for progress.
    pub fn none() -> Progress {
        Progress::default()
    }

    /// Sends progress notifications to `reports`, if the request's parameters ask for them.
    pub(super) fn of(params: Option<Value<'_>>, reports: mpsc::Sender<String>) -> Progress {
        let token = params
            .and_then(|params| params.get("_meta"))
            .and_then(|meta| meta.get("progressToken"))
            .filter(|token| token.as_str().is_some() || token.as_number().is_some());
        Progress { asked: token.map(|token| Subscriber { token: token.to_string(), reports }) }
    }

    /// Whether the caller has asked for progress.
    pub fn is_wanted(&self) -> bool {
        self.asked.is_some()
    }

    /// Reports that `done` of `total` is done. A caller that does not read misses it: the call does
    /// not wait.
    pub fn report(&self, done: u64, total: u64, message: &str) {
        let Some(Subscriber { token, reports }) = &self.asked else { return };
        let message = Quoted(message);
        let _ = reports.try_send(format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\
             \"progressToken\":{token},\"progress\":{done},\"total\":{total},\"message\":{message}}}}}"
        ));
    }
}
