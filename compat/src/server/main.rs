//! `compat-server PORT`: a server of both eras with what the public conformance
//! suite looks for, to be compared with and without the gateway before it.

mod fixtures;
mod jobs;
mod plain;
mod rounds;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use fixtures::Fixtures;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
        CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation,
        InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext, SubscriptionSink},
    task_manager::TaskManager,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::json;
use tokio::sync::{Mutex, watch};

/// How long lists may be kept, as they never change.
const TTL_MS: u64 = 60_000;

/// How long an announcement waits for a subscription that was accepted.
const REGISTRATION_TIMEOUT: Duration = Duration::from_millis(500);

/// The server; one for all sessions.
#[derive(Clone)]
struct CompatServer {
    fixtures: Arc<Fixtures>,
    tasks: TaskManager,
    subscribers: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    /// Subscriptions that were accepted, each before its client learns of it.
    accepted: Arc<AtomicU64>,
    /// How many of them have become subscribers.
    registered: Arc<watch::Sender<u64>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let port = std::env::args().nth(1).context("usage: compat-server PORT")?;
    let server = CompatServer {
        fixtures: Arc::new(Fixtures::load()?),
        tasks: TaskManager::new(),
        subscribers: Arc::default(),
        accepted: Arc::default(),
        registered: Arc::default(),
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

impl CompatServer {
    /// Tells every subscriber that asked for it that a list has changed.
    async fn announce(&self, tool: &str) {
        // A client may call before its subscription, which it knows to be accepted, has become a
        // subscriber. One that was given up in between never does, hence the time limit.
        let accepted = self.accepted.load(Ordering::SeqCst);
        let mut registered = self.registered.subscribe();
        let all = registered.wait_for(|registered| *registered >= accepted);
        let _are_all = tokio::time::timeout(REGISTRATION_TIMEOUT, all).await.is_ok();
        let subscribers: Vec<_> = self.subscribers.lock().await.values().cloned().collect();
        for subscriber in subscribers {
            // A subscriber that has gone, or did not ask, needs no notice.
            let _gone = if tool == "test_trigger_tool_change" {
                subscriber.notify_tool_list_changed().await
            } else {
                subscriber.notify_prompt_list_changed().await
            };
        }
    }

    /// A resource of the template `test://template/{id}/data`.
    fn from_template(uri: &str) -> Option<ResourceContents> {
        let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
        let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        Some(ResourceContents::text(data.to_string(), uri).with_mime_type("application/json"))
    }
}

impl ServerHandler for CompatServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tasks()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("compat-server", env!("CARGO_PKG_VERSION")))
            .with_instructions("For tests: what the conformance suite looks for.")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.fixtures.tool(name).cloned()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(self.fixtures.tools.clone());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        if let Some(answer) = rounds::answer(&self.fixtures, &request, &capabilities) {
            return answer;
        }
        if let Some(answer) =
            jobs::answer(&self.fixtures, &self.tasks, &request, &capabilities).await
        {
            return answer;
        }
        if request.name.starts_with("test_trigger_") {
            self.announce(&request.name).await;
            return Ok(plain::text("subscribers were told").into());
        }
        plain::answer(&self.fixtures, &request, &context, &capabilities).await.map(Into::into)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = ListResourcesResult::with_all_items(self.fixtures.resources.clone());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = ListResourceTemplatesResult::with_all_items(self.fixtures.templates.clone());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let found = self.fixtures.contents.get(uri).cloned().or_else(|| Self::from_template(uri));
        let Some(contents) = found else {
            let about = json!({ "uri": uri });
            return Err(ErrorData::resource_not_found("no such resource", Some(about)));
        };
        let result = ReadResourceResult::new(vec![contents]);
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut subscribers = self.subscribers.lock().await;
        let key = *self.registered.borrow();
        subscribers.insert(key, context.sink().clone());
        self.registered.send_replace(key + 1);
        drop(subscribers);
        context.cancelled().await;
        self.subscribers.lock().await.remove(&key);
        Ok(())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(self.fixtures.prompts.clone());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            return Ok(
                match rounds::find_response(request.input_responses.as_ref(), "user_context") {
                    None => InputRequiredResult::from_input_requests(
                        self.fixtures.asks(&["user_context"]),
                    )
                    .into(),
                    Some(context) => {
                        let words = format!("Prompt with context: {context}");
                        let message =
                            json!({ "role": "user", "content": { "type": "text", "text": words } });
                        prompt(json!({ "resultType": "complete", "messages": [message] }))?
                    }
                },
            );
        }
        let arguments = request.arguments.unwrap_or_default();
        match self.fixtures.messages(&request.name, &arguments) {
            Some(messages) => prompt(messages),
            None => Err(ErrorData::invalid_params("no such prompt", None)),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let all = ["paris", "park", "party"];
        let fits = all.iter().filter(|word| word.starts_with(&request.argument.value));
        let values = fits.map(|word| (*word).to_owned()).collect();
        let info =
            CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(info))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}

fn prompt(answer: serde_json::Value) -> Result<GetPromptResponse, ErrorData> {
    serde_json::from_value::<GetPromptResult>(answer)
        .map(Into::into)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
