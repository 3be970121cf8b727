//! Compares what clients heard, what the server received and what the log says.

use std::collections::{BTreeMap, BTreeSet};

use super::server::ChaosServer;

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Tools whose results have arrived at their callers.
    answered: BTreeSet<String>,
    /// How often each tool was called at the server. Every call has a tool of its own.
    received: BTreeMap<String, usize>,
}

impl Judge {
    pub(super) fn hear(&mut self, answered: BTreeSet<String>) {
        self.answered.extend(answered);
    }

    pub(super) fn receive(&mut self, server: &ChaosServer) {
        for tool in server.take_calls() {
            *self.received.entry(tool).or_default() += 1;
        }
    }

    /// Checks everything. `allowed` are the tools that the log says were allowed.
    pub(super) fn decide(&self, allowed: &BTreeSet<String>, limit: usize) {
        let sorted =
            |kind: &str| self.received.keys().filter(|tool| tool.starts_with(kind)).count();
        let unrecorded: Vec<_> =
            self.received.keys().filter(|tool| !allowed.contains(*tool)).collect();
        assert!(unrecorded.is_empty(), "sent without a record: {unrecorded:?}");
        let repeated: Vec<_> = self.received.iter().filter(|(_, count)| **count > 1).collect();
        assert!(repeated.is_empty(), "sent more than once: {repeated:?}");
        let invented: Vec<_> =
            self.answered.iter().filter(|tool| !self.received.contains_key(*tool)).collect();
        assert!(invented.is_empty(), "answered without having been sent: {invented:?}");
        assert_eq!(sorted("held_"), 0, "held calls were sent");
        let limited = allowed.iter().filter(|tool| tool.starts_with("limited_")).count();
        assert!(limited <= limit && sorted("limited_") <= limited, "{limited} of {limit} allowed");
        println!(
            "{} calls sent, {} answered, {limited} of {limit} limited ones allowed",
            self.received.len(),
            self.answered.len()
        );
        assert!(self.answered.len() > limit, "hardly any call was answered");
    }
}
