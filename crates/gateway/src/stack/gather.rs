//! Scatter-gather: asks all servers of a grant concurrently for their parts of an answer. A
//! server that misses the deadline or fails is left out.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};

use super::Stack;
use crate::snapshot::ServerState;

/// How long a server may take for its part of an answer.
pub(super) const PART_TIMEOUT: Duration = Duration::from_secs(3);

/// The parts of all servers.
#[derive(Debug)]
pub(super) struct Parts<T> {
    /// In the grant's order.
    pub(super) answered: Vec<(Arc<ServerState>, T)>,
    /// The servers whose part is left out.
    pub(super) missing: Vec<Arc<str>>,
}

/// Asks all servers; `None` from one means that its part is unavailable.
///
/// A late server may finish its part in the background; clients with a stream are then
/// told to list again. Until then it is not asked again.
pub(super) async fn gather_parts<T, F>(
    stack: &Arc<Stack>,
    ask: impl Fn(Arc<Stack>, Arc<ServerState>) -> F,
) -> Parts<T>
where
    T: Send + 'static,
    F: Future<Output = Option<T>> + Send + 'static,
{
    let mut waiting = JoinSet::new();
    for (place, server) in stack.servers.iter().enumerate() {
        let pair = (Arc::clone(&stack.holder.reference.id), Arc::clone(&server.link.name));
        if stack.gateway.sessions.stacks.is_late(&pair) {
            continue;
        }
        let asked = ask(Arc::clone(stack), Arc::clone(server));
        let gateway = Arc::clone(&stack.gateway);
        waiting.spawn(async move {
            let answer = asked.await;
            gateway.sessions.stacks.note_end(&pair, answer.is_some());
            (place, answer)
        });
    }
    let mut answers: Vec<Option<T>> = stack.servers.iter().map(|_| None).collect();
    let mut is_done = vec![false; answers.len()];
    let deadline = Instant::now() + PART_TIMEOUT;
    while let Ok(Some(next)) = tokio::time::timeout_at(deadline, waiting.join_next()).await {
        let Ok((place, answer)) = next else { continue };
        if let (Some(slot), Some(done)) = (answers.get_mut(place), is_done.get_mut(place)) {
            (*slot, *done) = (answer, true);
        }
    }
    if !waiting.is_empty() {
        note_late(stack, &is_done);
        waiting.detach_all();
    }
    sort_parts(stack, answers)
}

fn note_late(stack: &Stack, is_done: &[bool]) {
    for (server, _) in stack.servers.iter().zip(is_done).filter(|(_, is_done)| !**is_done) {
        let grant = Arc::clone(&stack.holder.reference.id);
        stack.gateway.sessions.stacks.note_late((grant, Arc::clone(&server.link.name)));
    }
}

fn sort_parts<T>(stack: &Stack, answers: Vec<Option<T>>) -> Parts<T> {
    let mut parts = Parts { answered: Vec::new(), missing: Vec::new() };
    for (server, answer) in stack.servers.iter().zip(answers) {
        match answer {
            Some(answer) => parts.answered.push((Arc::clone(server), answer)),
            None => parts.missing.push(Arc::clone(&server.link.name)),
        }
    }
    if !parts.missing.is_empty() {
        tracing::warn!(
            grant = stack.holder.id(),
            request = %stack.request,
            missing = parts.missing.join(", "),
            "servers are left out of an answer"
        );
    }
    parts
}
