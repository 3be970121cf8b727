//! `compat-client JOB`: the Rust SDK as a client, by URL or by command. It runs the
//! job and prints the results in the format shared by all clients here.

use std::{
    env::args,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context as _, bail};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, Implementation, JsonObject, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion, RequestMetaObject,
    },
    service::{NotificationContext, RequestContext, RunningService},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

/// The job of a client. The server is reached by URL and token, or by command.
#[derive(Deserialize)]
struct Job {
    url: Option<String>,
    #[serde(default)]
    token: String,
    #[serde(default)]
    command: Vec<String>,
    mode: String,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    tool: String,
    arguments: JsonObject,
}

/// Accepts all requests of the server, and keeps the notifications of the call that runs.
#[derive(Clone, Default)]
struct Handler {
    heard: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Handler {
    #[expect(clippy::disallowed_methods, reason = "what is heard is timed by the real clock")]
    fn hear(&self, kind: String) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((kind, Instant::now()));
    }

    /// The notifications since the previous call of this, and their ages.
    fn take(&self) -> Vec<Value> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = |(kind, at): (String, Instant)| json!({ "kind": kind, "seconds": at.elapsed().as_secs_f64() });
        heard.drain(..).map(ago).collect()
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("sluice-compat", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = json!(request);
        let fields = request.pointer("/requestedSchema/properties").and_then(Value::as_object);
        let content: JsonObject = fields
            .into_iter()
            .flat_map(JsonObject::keys)
            .map(|name| (name.clone(), json!("compat")))
            .collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.hear(format!("progress {}", params.progress));
    }

    async fn on_logging_message(
        &self,
        _params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.hear("log".to_owned());
    }
}

// One thread: messages that arrive before an answer are handled before it.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let job = args().nth(1).context("usage: compat-client JOB")?;
    let job: Job = serde_json::from_str(&job).context("the job cannot be read")?;
    let mode = lifecycle(&job.mode)?;
    let handler = Handler::default();
    if let Some(url) = &job.url {
        let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .auth_header(job.token.as_str());
        let transport = StreamableHttpClientTransport::from_config(config);
        return carry_out(
            handler.clone().serve_with_lifecycle(transport, mode).await?,
            &handler,
            job.calls,
        )
        .await;
    }
    let (program, arguments) = job.command.split_first().context("the job names no server")?;
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let streams =
        child.stdout.take().zip(child.stdin.take()).context("the command has no streams")?;
    carry_out(handler.clone().serve_with_lifecycle(streams, mode).await?, &handler, job.calls)
        .await?;
    child.wait().await?;
    Ok(())
}

/// Lists and calls, and prints the results.
async fn carry_out(
    client: RunningService<RoleClient, Handler>,
    handler: &Handler,
    calls: Vec<Call>,
) -> anyhow::Result<()> {
    let tools: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    let mut answers = Vec::new();
    for call in calls {
        let mut request = CallToolRequestParams::new(call.tool).with_arguments(call.arguments);
        // How a request of the modern era asks for log messages.
        let level = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        request.meta = Some(serde_json::from_value::<RequestMetaObject>(level)?);
        handler.take();
        let result = client.call_tool(request).await?;
        let heard = handler.take();
        let text: Vec<_> = result.content.iter().filter_map(|block| block.as_text()).collect();
        let text: Vec<_> = text.iter().map(|text| text.text.as_str()).collect();
        let error = result.is_error == Some(true);
        answers.push(json!({ "text": text.join("\n"), "error": error, "heard": heard }));
    }
    let revision = client.peer_info().map(|info| json!(info.protocol_version));
    println!("{}", json!({ "revision": revision, "tools": tools, "answers": answers }));
    client.cancel().await?;
    Ok(())
}

fn lifecycle(mode: &str) -> anyhow::Result<ClientLifecycleMode> {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    Ok(match mode {
        "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        "legacy" => ClientLifecycleMode::Initialize,
        "modern" => ClientLifecycleMode::Discover { preferred_versions },
        other => bail!("unknown mode `{other}`"),
    })
}
