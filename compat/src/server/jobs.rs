//! Tools that run as tasks where the client knows the tasks extension.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        CreateTaskResult, InputRequests, JsonObject,
    },
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::{Value, json};

use crate::{fixtures::Fixtures, rounds};

/// Whether a tool runs as a task: where the client allows it, or nowhere else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Support {
    Never,
    Optional,
    Required,
}

const JOBS: &[(&str, Support)] = &[
    ("greet", Support::Never),
    ("slow_compute", Support::Optional),
    ("protocol_error_job", Support::Optional),
    ("failing_job", Support::Required),
    ("confirm_delete", Support::Required),
    ("multi_input", Support::Required),
    ("test_tool_with_task", Support::Required),
];

/// The work of one job, with the input it requests on the way.
struct Job {
    name: String,
    arguments: JsonObject,
    asks: InputRequests,
    visitor: Value,
}

/// The answer of a tool of this file, or none if the tool is not of this file.
pub(crate) async fn answer(
    fixtures: &Fixtures,
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    capabilities: &ClientCapabilities,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let (_, support) = JOBS.iter().find(|(name, _)| *name == request.name)?;
    if *support == Support::Required && !capabilities.supports_tasks() {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(needed)));
    }
    let visitor = rounds::find_response(request.input_responses.as_ref(), "user_name");
    if request.name == "test_tool_with_task" && visitor.is_none() {
        return Some(Ok(rounds::ask(fixtures, &["user_name"], None)));
    }
    let job = Job {
        name: request.name.to_string(),
        arguments: request.arguments.clone().unwrap_or_default(),
        asks: fixtures.asks(match request.name.as_ref() {
            "confirm_delete" => &["delete"],
            "multi_input" => &["first", "second"],
            _ => &[],
        }),
        visitor: visitor.cloned().unwrap_or_default(),
    };
    if *support == Support::Never || !capabilities.supports_tasks() {
        return Some(job.work().await.map(Into::into));
    }
    let task = tasks.spawn(TaskOptions::default(), |context| Box::pin(job.run(context)));
    Some(Ok(CallToolResponse::Task(CreateTaskResult::new(task))))
}

impl Job {
    /// The whole of it as a task: first what it asks for, then its work, until
    /// somebody cancels it.
    async fn run(self, context: TaskContext) -> Result<CallToolResult, TaskExit> {
        let mut asked = self.asks.iter();
        match (asked.next(), asked.next()) {
            (Some((key, request)), None) => {
                context.request_input(key, request.clone()).await?;
            }
            (Some((key, request)), Some((other_key, other))) => {
                tokio::try_join!(
                    context.request_input(key, request.clone()),
                    context.request_input(other_key, other.clone()),
                )?;
            }
            (None, _) => {}
        }
        tokio::select! {
            () = context.cancelled() => Err(TaskExit::Cancelled),
            result = self.work() => result.map_err(TaskExit::Error),
        }
    }

    async fn work(&self) -> Result<CallToolResult, ErrorData> {
        tokio::time::sleep(self.duration()).await;
        match self.name.as_str() {
            "protocol_error_job" => {
                Err(ErrorData::internal_error("this job fails on purpose", None))
            }
            "failing_job" => Ok(CallToolResult::error(vec![ContentBlock::text(
                "this job fails on purpose, as a tool",
            )])),
            _ => Ok(CallToolResult::success(vec![ContentBlock::text(self.words())])),
        }
    }

    fn duration(&self) -> Duration {
        let asked_for = self.arguments.get("seconds").and_then(Value::as_f64);
        match self.name.as_str() {
            "slow_compute" => Duration::from_secs_f64(asked_for.unwrap_or(1.0).clamp(0.0, 600.0)),
            "failing_job" | "protocol_error_job" | "test_tool_with_task" => {
                Duration::from_millis(200)
            }
            _ => Duration::ZERO,
        }
    }

    fn words(&self) -> String {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or("friend").to_owned()
        };
        match self.name.as_str() {
            "greet" => format!("Hello, {}!", text(&json!(self.arguments), "/name")),
            "test_tool_with_task" => {
                format!("Hello, {}! (async)", text(&self.visitor, "/content/name"))
            }
            name => format!("{name} is done"),
        }
    }
}
