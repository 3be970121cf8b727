//! Tools that answer at once, some after speaking to the client on their way.

use std::time::Duration;

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ContentBlock,
        CreateMessageRequestParams, ElicitRequestParams, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, SamplingMessage,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::fixtures::Fixtures;

/// Long enough for a client to see that messages come one after the other.
const BETWEEN_MESSAGES: Duration = Duration::from_millis(50);

pub(crate) async fn answer(
    fixtures: &Fixtures,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    capabilities: &ClientCapabilities,
) -> Result<CallToolResult, ErrorData> {
    let name = request.name.as_ref();
    if let Some(answer) = fixtures.answers.get(name) {
        return Ok(answer.clone());
    }
    if let Some(params) = fixtures.elicitation(name) {
        return Ok(elicit(&context.peer, params, argument(request, "message")).await);
    }
    match name {
        "test_tool_with_logging" => {
            for step in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
            {
                log(&context.peer, LoggingLevel::Info, step).await;
                tokio::time::sleep(BETWEEN_MESSAGES).await;
            }
        }
        "test_logging_tool" => {
            if let Some(level) = context.meta.log_level() {
                log(&context.peer, level, "asked for by the request").await;
            }
        }
        "test_tool_with_progress" => report_progress(context).await,
        "test_sampling" => return Ok(sample(&context.peer, argument(request, "prompt")).await),
        "test_reconnection" => tokio::time::sleep(BETWEEN_MESSAGES).await,
        "test_missing_capability" if capabilities.sampling.is_none() => {
            let needed = ClientCapabilities::builder().enable_sampling().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        "test_missing_capability" => {}
        "test_custom_header" => return Ok(text(argument(request, "value"))),
        _ => return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None)),
    }
    Ok(text(&format!("{name} is done")))
}

pub(crate) fn text(words: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

fn argument<'a>(request: &'a CallToolRequestParams, name: &str) -> &'a str {
    let argument = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
    argument.and_then(Value::as_str).unwrap_or_default()
}

async fn log(peer: &Peer<RoleServer>, level: LoggingLevel, words: &str) {
    let message = LoggingMessageNotificationParam::new(level, json!(words));
    // A client that has gone needs no log.
    let _gone = peer.notify_logging_message(message).await;
}

async fn report_progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    for progress in [0.0, 50.0, 100.0] {
        let message = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
        // A client that has gone needs no progress.
        let _gone = context.peer.notify_progress(message).await;
        tokio::time::sleep(BETWEEN_MESSAGES).await;
    }
}

async fn sample(peer: &Peer<RoleServer>, prompt: &str) -> CallToolResult {
    let messages = vec![SamplingMessage::user_text(prompt)];
    match peer.create_message(CreateMessageRequestParams::new(messages, 100)).await {
        Ok(result) => text(&format!("LLM response: {}", json!(result.message.content))),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
    }
}

async fn elicit(peer: &Peer<RoleServer>, mut params: Value, message: &str) -> CallToolResult {
    if let (Some(place), false) = (params.get_mut("message"), message.is_empty()) {
        *place = json!(message);
    }
    let asked = match serde_json::from_value::<ElicitRequestParams>(params) {
        Ok(params) => peer.create_elicitation(params).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match asked {
        Ok(result) => {
            let words = json!({ "action": result.action, "content": result.content });
            text(&format!("User response: {words}"))
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
    }
}
