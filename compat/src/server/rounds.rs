//! Tools that need more than one request: they ask for input, and the client
//! calls again with what it was asked for.

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        InputRequiredResult, InputResponses, RequestStateCodec,
    },
};
use serde_json::{Value, json};

use crate::fixtures::Fixtures;

/// Nothing secret is sealed here; the key only has to be long enough.
const KEY: &[u8] = b"a key for tests that everybody may know";

/// A tool, the keys it asks for in each round, and whether it keeps its state
/// with the client.
struct Rounds {
    tool: &'static str,
    asks: &'static [&'static [&'static str]],
    sealed: bool,
}

const ROUNDS: &[Rounds] = &[
    Rounds {
        tool: "test_input_required_result_elicitation",
        asks: &[&["user_name"]],
        sealed: false,
    },
    Rounds {
        tool: "test_input_required_result_sampling",
        asks: &[&["capital_question"]],
        sealed: false,
    },
    Rounds {
        tool: "test_input_required_result_list_roots",
        asks: &[&["client_roots"]],
        sealed: false,
    },
    Rounds {
        tool: "test_input_required_result_request_state",
        asks: &[&["confirm"]],
        sealed: true,
    },
    Rounds {
        tool: "test_input_required_result_tampered_state",
        asks: &[&["confirm"]],
        sealed: true,
    },
    Rounds {
        tool: "test_input_required_result_multiple_inputs",
        asks: &[&["user_name", "greeting", "client_roots"]],
        sealed: true,
    },
    Rounds {
        tool: "test_input_required_result_multi_round",
        asks: &[&["step1"], &["step2"]],
        sealed: true,
    },
];

/// The answer of a tool of this file, or none if the tool is not of this file.
pub(crate) fn answer(
    fixtures: &Fixtures,
    request: &CallToolRequestParams,
    capabilities: &ClientCapabilities,
) -> Option<Result<CallToolResponse, ErrorData>> {
    match request.name.as_ref() {
        "test_streaming_elicitation" => Some(Ok(ask(fixtures, &["streaming_elicitation"], None))),
        "test_input_required_result_capabilities" => {
            Some(Ok(ask_what_can_be_given(fixtures, request, capabilities)))
        }
        name => {
            let rounds = ROUNDS.iter().find(|rounds| rounds.tool == name)?;
            Some(next_round(fixtures, request, rounds))
        }
    }
}

/// A client's response for a key. A value that is not an object cannot answer any request and
/// counts as absent.
pub(crate) fn find_response<'a>(
    responses: Option<&'a InputResponses>,
    key: &str,
) -> Option<&'a Value> {
    responses?.get(key).filter(|response| response.is_object())
}

pub(crate) fn ask(fixtures: &Fixtures, keys: &[&str], state: Option<String>) -> CallToolResponse {
    InputRequiredResult::new(Some(fixtures.asks(keys)), state).into()
}

fn ask_what_can_be_given(
    fixtures: &Fixtures,
    request: &CallToolRequestParams,
    capabilities: &ClientCapabilities,
) -> CallToolResponse {
    let can = [
        (capabilities.elicitation.is_some(), "user_name"),
        (capabilities.sampling.is_some(), "greeting"),
        (capabilities.roots.is_some(), "client_roots"),
    ];
    let keys: Vec<&str> = can.iter().filter(|(can, _)| *can).map(|(_, key)| *key).collect();
    if keys.is_empty() || request.input_responses.is_some() {
        complete(request.input_responses.as_ref())
    } else {
        ask(fixtures, &keys, None)
    }
}

fn next_round(
    fixtures: &Fixtures,
    request: &CallToolRequestParams,
    rounds: &Rounds,
) -> Result<CallToolResponse, ErrorData> {
    let codec = RequestStateCodec::try_new(KEY).map_err(internal)?;
    // INVARIANT: state that does not open is refused before anything else.
    let round = match request.request_state.as_deref() {
        Some(state) => codec.open_json::<usize>(state).map_err(refuse)?,
        None => 0,
    };
    let responses = request.input_responses.as_ref();
    let asked = rounds.asks.get(round).copied().unwrap_or_default();
    let answered = (!rounds.sealed || request.request_state.is_some())
        && asked.iter().all(|key| find_response(responses, key).is_some());
    let next = if answered { round + 1 } else { round };
    match rounds.asks.get(next) {
        None => Ok(complete(responses)),
        Some(keys) => {
            let state =
                rounds.sealed.then(|| codec.seal_json(&next)).transpose().map_err(internal)?;
            Ok(ask(fixtures, keys, state))
        }
    }
}

/// Repeats the given responses, so that a comparison shows whether they arrived.
fn complete(responses: Option<&InputResponses>) -> CallToolResponse {
    let text = format!("state-ok, given: {}", json!(responses));
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn refuse(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::invalid_params(format!("requestState was refused: {error}"), None)
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
