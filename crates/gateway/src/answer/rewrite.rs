//! Rewriting results: lists and capabilities are filtered by the policy, and the
//! server's ids are replaced by sealed ones.
//!
//! A result that cannot be filtered with certainty is refused as a whole.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use sluice_http::offload;
use sluice_policy::{AccessRequest, Facts, ServerRequest, shows};
use sluice_wire::{
    edit::{self, Edits, Fate, quote},
    json::{Document, Value},
    look_alike::Governed,
    mcp::{META_RELATED_TASK, META_SERVER, TASKS_EXTENSION},
};

use super::{Expected, Shape, definitions, findings, server_request};
use crate::{
    assess,
    exchange::Exchange,
    refusal::Refusal,
    sealed_ids::{seal_state, seal_task},
};

/// How long a client may keep a list, in milliseconds.
const LONGEST_KEPT: u64 = 60_000;

/// Members of a result that matter for filtering. No other member may resemble one of
/// them.
static GOVERNED: LazyLock<Vec<Governed>> = LazyLock::new(|| {
    let names = [
        "tools",
        "resources",
        "resourceTemplates",
        "prompts",
        "tasks",
        "task",
        "taskId",
        "resultType",
        "inputRequests",
        "requestState",
        "cacheScope",
        "ttlMs",
        "capabilities",
    ];
    names.into_iter().map(Governed::new).collect()
});

/// Whether this policy forbids some request of the server to the client.
pub(super) fn restricts_server_requests(exchange: &Exchange) -> bool {
    let permits =
        |request| exchange.rules().is_some_and(|policy| policy.permits_server_request(request));
    !ServerRequest::ALL.into_iter().all(permits)
}

/// The text of a message with its result rewritten. Large lists are filtered elsewhere.
pub(super) async fn message(
    exchange: &Arc<Exchange>,
    expected: &Expected,
    document: Document,
) -> Result<String, Refusal> {
    if let Shape::Plain | Shape::Call { .. } | Shape::Task = expected.shape {
        let result = document.root().get("result").ok_or(Refusal::Internal)?;
        let changed = rewrite_one(exchange, expected, &document, result).await?;
        return Ok(changed.unwrap_or_else(|| document.into_text()));
    }
    let (exchange, shape) = (Arc::clone(exchange), expected.shape.clone());
    let bytes = document.text().len();
    let filtering = move || {
        let changed = filter_list(&exchange, &shape, &document)?;
        Ok(changed.unwrap_or_else(|| document.into_text()))
    };
    offload::by_size(bytes, filtering).await.ok_or(Refusal::Internal)?
}

/// The whole message with its result rewritten, or `None` if nothing changes.
async fn rewrite_one(
    exchange: &Exchange,
    expected: &Expected,
    document: &Document,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    if expected.shape == Shape::Plain {
        return Ok(None);
    }
    refuse_look_alikes(result)?;
    if let Shape::Call { method, target } = &expected.shape {
        return call(exchange, expected, method, target, document, result).await;
    }
    if let Some(denied) = denied_input(exchange, expected, result).await? {
        return Ok(Some(denied));
    }
    let mut edits = Edits::new(document);
    task_id(exchange, &mut edits, result)?;
    Ok((!edits.is_empty()).then(|| edits.finish()))
}

/// The whole message with its list or introduction filtered, or `None` if nothing changes.
fn filter_list(
    exchange: &Exchange,
    shape: &Shape,
    document: &Document,
) -> Result<Option<String>, Refusal> {
    let result = document.root().get("result").ok_or(Refusal::Internal)?;
    refuse_look_alikes(result)?;
    let mut edits = Edits::new(document);
    let edited = &mut edits;
    match shape {
        Shape::Plain | Shape::Call { .. } | Shape::Task => return Err(Refusal::Internal),
        Shape::Introduction => introduction(exchange, edited, result)?,
        Shape::Tools => tools(exchange, edited, result)?,
        Shape::Resources => list(exchange, edited, result, "resources", "uri", permits_resource)?,
        Shape::Templates => {
            let (member, name) = ("resourceTemplates", "uriTemplate");
            list(exchange, edited, result, member, name, permits_resource)?;
        }
        Shape::Prompts => list(exchange, edited, result, "prompts", "name", permits_prompt)?,
        Shape::Tasks => tasks(exchange, edited, result)?,
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}

fn refuse_look_alikes(result: Value<'_>) -> Result<(), Refusal> {
    for (key, _) in result.members().ok_or_else(|| unfilterable("its result is not an object"))? {
        let key = key.as_str().unwrap_or_default();
        if GOVERNED.iter().any(|governed| governed.resembles(key)) {
            return Err(unfilterable("a member looks like one that matters"));
        }
    }
    Ok(())
}

fn unfilterable(why: &str) -> Refusal {
    Refusal::bad_gateway(format!("the answer cannot be filtered: {why}"))
}

/// Declares `listChanged`: the gateway notifies clients when the tools they may see
/// change. What the server says to the model is checked.
fn introduction<'d>(
    exchange: &Exchange,
    edits: &mut Edits<'d>,
    result: Value<'d>,
) -> Result<(), Refusal> {
    definitions::check_introduction(result)?;
    if let Some(instructions) = result.get("instructions") {
        findings::check_instructions(exchange, edits, instructions);
    }
    let meta = result.get("_meta").and_then(|meta| meta.get(META_SERVER));
    for info in result.get("serverInfo").into_iter().chain(meta) {
        findings::check_info(exchange, edits, info);
    }
    let capabilities = result.get("capabilities");
    if exchange.is_modern() {
        let extensions = capabilities.and_then(|capabilities| capabilities.get("extensions"));
        let tasks = extensions.and_then(|extensions| extensions.get(TASKS_EXTENSION));
        exchange.server.link.state.tools.note_introduction(tasks.is_some());
    }
    let tools = capabilities.and_then(|capabilities| capabilities.get("tools"));
    let Some(tools) = tools.filter(|tools| tools.members().is_some()) else { return Ok(()) };
    if tools.get("listChanged").and_then(Value::as_bool) == Some(true) {
        return Ok(());
    }
    let others = |key: &str, _| if key == "listChanged" { Fate::Drop } else { Fate::Keep };
    edits.replace(tools, edit::object(tools, others, &[("listChanged", "true".into())]));
    Ok(())
}

fn permits_resource(exchange: &Exchange, uri: &str) -> bool {
    exchange.lets_pass(AccessRequest::Resource(uri))
}

fn permits_prompt(exchange: &Exchange, name: &str) -> bool {
    exchange.lets_pass(AccessRequest::Prompt(name))
}

/// Removes the tools that this grant may not use.
fn tools<'d>(exchange: &Exchange, edits: &mut Edits<'d>, result: Value<'d>) -> Result<(), Refusal> {
    let tools = result.get("tools").ok_or_else(|| unfilterable("it has no `tools`"))?;
    let known = exchange.server.link.state.tools.tool_list();
    let mut seen = std::collections::HashSet::new();
    let mut shown = Vec::new();
    let listed = tools.items().ok_or_else(|| unfilterable("`tools` is not a list"))?;
    definitions::check_length(listed.len())?;
    for tool in listed {
        let name = read_name(tool, "name")?;
        if !seen.insert(name) {
            return Err(unfilterable("two tools have one name"));
        }
        let same = known.as_deref().and_then(|known| known.same(name, tool.raw()));
        let is_shown = if let Some(facts) = same {
            shows(exchange.rules(), name, Facts::Known(facts))
        } else {
            // This definition is not in the known list, so the list must be fetched
            // again.
            exchange.server.link.state.tools.mark_stale();
            let facts = assess::facts(&exchange.server.link, tool);
            let facts = facts.ok_or_else(|| unfilterable("a tool has no name"))?;
            shows(exchange.rules(), name, Facts::Known(&facts))
        };
        shown.push(if is_shown { findings::check(exchange, tool, "name") } else { Fate::Drop });
    }
    keep(edits, tools, shown);
    make_private(edits, exchange, result);
    Ok(())
}

/// Removes the items of another list that this grant may not use.
fn list<'d>(
    exchange: &Exchange,
    edits: &mut Edits<'d>,
    result: Value<'d>,
    member: &str,
    name: &'static str,
    permits: fn(&Exchange, &str) -> bool,
) -> Result<(), Refusal> {
    let items = result.get(member).ok_or_else(|| unfilterable("the list is missing"))?;
    let listed = items.items().ok_or_else(|| unfilterable("the list is not an array"))?;
    definitions::check_length(listed.len())?;
    let fate = |item| {
        let is_shown = permits(exchange, read_name(item, name)?);
        Ok(if is_shown { findings::check(exchange, item, name) } else { Fate::Drop })
    };
    let shown = listed.map(fate).collect::<Result<Vec<_>, Refusal>>()?;
    keep(edits, items, shown);
    make_private(edits, exchange, result);
    Ok(())
}

/// The name of an element. No other member may resemble the one that holds it.
fn read_name<'d>(item: Value<'d>, name: &str) -> Result<&'d str, Refusal> {
    let governed = Governed::new(name);
    let members = item.members().ok_or_else(|| unfilterable("an element is not an object"))?;
    for (key, _) in members {
        if governed.resembles(key.as_str().unwrap_or_default()) {
            return Err(unfilterable("a member looks like the one that names an element"));
        }
    }
    item.get(name).and_then(Value::as_str).ok_or_else(|| unfilterable("an element has no name"))
}

fn keep<'d>(edits: &mut Edits<'d>, items: Value<'d>, shown: Vec<Fate>) {
    if shown.iter().all(|fate| *fate == Fate::Keep) {
        return;
    }
    let each = items.items().into_iter().flatten().zip(shown);
    let kept: Vec<_> = each
        .filter_map(|(item, fate)| match fate {
            Fate::Keep => Some(item.raw().into()),
            Fate::Become(json) => Some(Cow::Owned(json)),
            Fate::Drop => None,
        })
        .collect();
    edits.replace(items, format!("[{}]", kept.join(",")));
}

/// A list filtered for one grant must not be cached for another, nor for long.
fn make_private<'d>(edits: &mut Edits<'d>, exchange: &Exchange, result: Value<'d>) {
    if !exchange.is_modern() {
        return;
    }
    if let Some(scope) = result.get("cacheScope").filter(|scope| scope.as_str() != Some("private"))
    {
        edits.replace(scope, quote("private"));
    }
    if let Some(kept) = result.get("ttlMs") {
        let is_short = kept
            .as_number()
            .and_then(|text| text.parse::<u64>().ok())
            .is_some_and(|ms| ms <= LONGEST_KEPT);
        if !is_short {
            edits.replace(kept, LONGEST_KEPT.to_string());
        }
    }
}

/// Keeps only tasks of this grant, under ids of ours.
fn tasks<'d>(exchange: &Exchange, edits: &mut Edits<'d>, result: Value<'d>) -> Result<(), Refusal> {
    let tasks = result.get("tasks").ok_or_else(|| unfilterable("it has no `tasks`"))?;
    let mut shown = Vec::new();
    for task in tasks.items().ok_or_else(|| unfilterable("`tasks` is not a list"))? {
        let id = read_name(task, "taskId")?;
        if exchange.server.link.state.tools.is_task_of(exchange.holder.id(), id) {
            let sealed = quote(&seal_task(exchange, id)?);
            let own = |key: &str, _| {
                if key == "taskId" { Fate::Become(sealed.clone()) } else { Fate::Keep }
            };
            shown.push(edit::object(task, own, &[]));
        }
    }
    edits.replace(tasks, format!("[{}]", shown.join(",")));
    Ok(())
}

/// Replaces the upstream's id of a task by ours, wherever it is in the result.
fn task_id<'d>(
    exchange: &Exchange,
    edits: &mut Edits<'d>,
    result: Value<'d>,
) -> Result<(), Refusal> {
    let in_meta = result.get("_meta").and_then(|meta| meta.get(META_RELATED_TASK));
    for holder in [Some(result), result.get("task"), in_meta].into_iter().flatten() {
        let Some(id) = holder.get("taskId") else { continue };
        let text = id.as_str().ok_or_else(|| unfilterable("`taskId` is not a string"))?;
        exchange.server.link.state.tools.remember_task(exchange.holder.id(), text);
        edits.replace(id, quote(&seal_task(exchange, text)?));
    }
    Ok(())
}

/// The error that replaces a result which asks for forbidden input. The server has
/// already handled the request, so the error is its answer.
async fn denied_input(
    exchange: &Exchange,
    expected: &Expected,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    let Some(input) = result.get("inputRequests") else { return Ok(None) };
    match server_request::check_input(exchange, input).await {
        Ok(()) => Ok(None),
        Err(denied @ Refusal::Denied { .. }) => Ok(Some(denied.to_json(Some(&expected.id)))),
        Err(other) => Err(other),
    }
}

/// A result that may ask the client for something, or begin a task.
async fn call(
    exchange: &Exchange,
    expected: &Expected,
    method: &str,
    target: &str,
    document: &Document,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    if exchange.is_modern()
        && let Some(denied) = denied_input(exchange, expected, result).await?
    {
        return Ok(Some(denied));
    }
    let mut edits = Edits::new(document);
    task_id(exchange, &mut edits, result)?;
    if let Some(state) = result.get("requestState") {
        let text = state.as_str().ok_or_else(|| unfilterable("`requestState` is not a string"))?;
        edits.replace(state, quote(&seal_state(exchange, method, target, text)?));
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}
