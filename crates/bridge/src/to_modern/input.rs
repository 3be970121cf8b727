//! Input that a modern server asks for: the bridge sends server requests to the legacy
//! client.

use std::time::Duration;

use sluice_wire::{
    edit::quote,
    json::{Document, Value},
};

use super::{LegacyRequest, ToModern};
use crate::{
    message::{MODERN, known_request, lets_ask, splice_members, unbridgeable},
    response::ResponseWriter,
};

/// How long people may take to answer.
const INPUT_TIMEOUT: Duration = Duration::from_mins(10);
/// The most input requests in one result.
const MOST: usize = 32;

impl ToModern {
    /// Asks the client for all input that a result requests. Returns the members to
    /// repeat the request with, or why that is not possible.
    pub(super) async fn gather_input(
        &self,
        asked: &LegacyRequest,
        result: Value<'_>,
        output: &mut ResponseWriter,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let mut added = Vec::new();
        let wanted: Vec<_> =
            result.get("inputRequests").and_then(Value::members).into_iter().flatten().collect();
        if wanted.len() > MOST {
            return Err(format!("the server wants more than {MOST} things at once"));
        }
        for (_, request) in &wanted {
            check(asked, *request)?;
        }
        let mut waiting = Vec::new();
        for (key, request) in wanted {
            let asking = self.memory.ask(&asked.caller.key);
            let envelope = [("jsonrpc", quote("2.0")), ("id", asking.id.clone())];
            let drop = |key: &str| matches!(key, "jsonrpc" | "id" | "result" | "error");
            output.say(&splice_members(Some(request), drop, &envelope)).await;
            waiting.push((key.raw().to_owned(), method(request).to_owned(), asking));
        }
        if !waiting.is_empty() {
            let mut answers = Vec::new();
            for (key, method, mut asking) in waiting {
                let answer = tokio::select! {
                    answer = &mut asking.answer => answer.ok(),
                    () = tokio::time::sleep(INPUT_TIMEOUT) => None,
                    () = output.wait_for_disconnect() => None,
                };
                let answer =
                    answer.ok_or_else(|| format!("the client did not answer `{method}`"))?;
                answers.push(format!("{key}:{}", result_of_answer(&method, &answer)?));
            }
            added.push(("inputResponses", format!("{{{}}}", answers.join(","))));
        }
        if let Some(state) = result.get("requestState") {
            added.push(("requestState", state.raw().to_owned()));
        }
        Ok(added)
    }
}

/// Checks that the client has declared the capability for a request.
fn check(asked: &LegacyRequest, request: Value<'_>) -> Result<(), String> {
    let method = method(request);
    let capabilities = Document::parse(&*asked.declared.capabilities, &asked.caller.bounds);
    let may_ask = capabilities.is_ok_and(|capabilities| lets_ask(capabilities.root(), method));
    if may_ask {
        return Ok(());
    }
    let wish = known_request(method)
        .map_or_else(|| "a request of the server".into(), |known| format!("`{known}`"));
    let what = format!("{wish}, which the client has not declared,");
    Err(unbridgeable(&what, &asked.revision, MODERN.name()))
}

fn method(request: Value<'_>) -> &str {
    request.get("method").and_then(Value::as_str).unwrap_or_default()
}

/// The result in a client's answer. An error cannot be passed on to a modern server.
fn result_of_answer(method: &str, answer: &Document) -> Result<String, String> {
    let root = answer.root();
    if let Some(result) = root.get("result") {
        return Ok(result.raw().to_owned());
    }
    let said = root.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    let said: String = said.unwrap_or_default().chars().take(200).collect();
    Err(format!("the client refused `{method}`: {said}"))
}
