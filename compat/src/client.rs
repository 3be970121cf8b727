//! `compat-client JOB`: the Rust SDK as a client. It does what the job says and
//! prints what came of it, in the form that all clients here do.

use std::env::args;

use anyhow::{Context as _, bail};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt,
    model::{CallToolRequestParams, JsonObject, ProtocolVersion},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde::Deserialize;
use serde_json::json;

/// What a client is to do.
#[derive(Deserialize)]
struct Job {
    url: String,
    token: String,
    mode: String,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    tool: String,
    arguments: JsonObject,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let job = args().nth(1).context("usage: compat-client JOB")?;
    let job: Job = serde_json::from_str(&job).context("the job cannot be read")?;
    let mode = lifecycle(&job.mode)?;
    let config = StreamableHttpClientTransportConfig::with_uri(job.url).auth_header(job.token);
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = ().serve_with_lifecycle(transport, mode).await?;
    let tools: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    let mut answers = Vec::new();
    for call in job.calls {
        let request = CallToolRequestParams::new(call.tool).with_arguments(call.arguments);
        let result = client.call_tool(request).await?;
        let text: Vec<_> = result.content.iter().filter_map(|block| block.as_text()).collect();
        let text: Vec<_> = text.iter().map(|text| text.text.as_str()).collect();
        answers.push(json!({ "text": text.join("\n"), "error": result.is_error == Some(true) }));
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
