//! Changing what a policy bears on: lists, capabilities, requests of the server,
//! and ids that must be the gateway's own.
//!
//! What cannot be filtered with certainty is refused whole.

use std::sync::LazyLock;

use sluice_policy::{Facts, ServerRequest, shows};
use sluice_wire::{
    edit::{self, Edits, Fate, quoted},
    json::{Document, Value},
    look_alike::Governed,
    mcp::{META_RELATED_TASK, TASKS_EXTENSION},
};

use super::{Expected, Shape, server_request};
use crate::{assess, decide, refusal::Refusal, seal::Purpose, visit::Visit};

/// How long a client may keep a list, in milliseconds.
const LONGEST_KEPT: u64 = 60_000;

/// Members of a result that decide here, so that no other may resemble one.
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

/// Whether this policy keeps some request of the server from the client.
pub(super) fn restricts_server_requests(visit: &Visit) -> bool {
    let permits =
        |request| visit.rules().is_some_and(|policy| policy.permits_server_request(request));
    !ServerRequest::ALL.into_iter().all(permits)
}

/// The whole message with its result changed, or `None` if nothing changes.
pub(super) async fn result(
    visit: &Visit,
    expected: &Expected,
    document: &Document,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    if expected.shape == Shape::Plain {
        return Ok(None);
    }
    refuse_look_alikes(result)?;
    if let Shape::Call { method, target } = &expected.shape {
        return call(visit, expected, method, target, document, result).await;
    }
    let mut edits = Edits::new(document);
    match &expected.shape {
        Shape::Plain | Shape::Call { .. } => {}
        Shape::Introduction => introduction(visit, &mut edits, result),
        Shape::Tools => tools(visit, &mut edits, result)?,
        Shape::Resources => list(visit, &mut edits, result, "resources", "uri", permits_resource)?,
        Shape::Templates => {
            list(visit, &mut edits, result, "resourceTemplates", "uriTemplate", permits_resource)?;
        }
        Shape::Prompts => list(visit, &mut edits, result, "prompts", "name", permits_prompt)?,
        Shape::Tasks => tasks(visit, &mut edits, result)?,
        Shape::Task => {
            if let Some(denied) = denied_input(visit, expected, result).await? {
                return Ok(Some(denied));
            }
            task_id(visit, &mut edits, result)?;
        }
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}

fn refuse_look_alikes(result: Value<'_>) -> Result<(), Refusal> {
    for (key, _) in result.members().ok_or_else(|| unfilterable("its result is no object"))? {
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

/// The gateway tells clients when what they may see has changed.
fn introduction<'d>(visit: &Visit, edits: &mut Edits<'d>, result: Value<'d>) {
    let capabilities = result.get("capabilities");
    if visit.is_modern() {
        let extensions = capabilities.and_then(|capabilities| capabilities.get("extensions"));
        let tasks = extensions.and_then(|extensions| extensions.get(TASKS_EXTENSION));
        visit.server.link.state.tools.introduced(tasks.is_some());
    }
    let tools = capabilities.and_then(|capabilities| capabilities.get("tools"));
    let Some(tools) = tools.filter(|tools| tools.members().is_some()) else { return };
    if tools.get("listChanged").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let others = |key: &str, _| if key == "listChanged" { Fate::Drop } else { Fate::Keep };
    edits.replace(tools, edit::object(tools, others, &[("listChanged", "true".into())]));
}

fn permits_resource(visit: &Visit, uri: &str) -> bool {
    visit.lets_pass(|policy| policy.permits_resource(uri))
}

fn permits_prompt(visit: &Visit, name: &str) -> bool {
    visit.lets_pass(|policy| policy.permits_prompt(name))
}

/// Leaves out the tools that this grant cannot have.
fn tools<'d>(visit: &Visit, edits: &mut Edits<'d>, result: Value<'d>) -> Result<(), Refusal> {
    let tools = result.get("tools").ok_or_else(|| unfilterable("it has no `tools`"))?;
    let known = visit.server.link.state.tools.known();
    let mut seen = std::collections::HashSet::new();
    let mut shown = Vec::new();
    for tool in tools.items().ok_or_else(|| unfilterable("`tools` is no list"))? {
        let name = named(tool, "name")?;
        if !seen.insert(name) {
            return Err(unfilterable("two tools have one name"));
        }
        let same = known.as_deref().and_then(|known| known.same(name, tool.raw()));
        let is_shown = if let Some(facts) = same {
            shows(visit.rules(), name, Facts::Known(facts))
        } else {
            // A definition that is new here: the list is to be learnt again.
            visit.server.link.state.tools.suspect();
            let facts = assess::facts(&visit.server.link, tool);
            let facts = facts.ok_or_else(|| unfilterable("a tool has no name"))?;
            shows(visit.rules(), name, Facts::Known(&facts))
        };
        shown.push(is_shown);
    }
    keep(edits, tools, &shown);
    privately(edits, visit, result);
    Ok(())
}

/// Leaves out what this grant cannot have of another list.
fn list<'d>(
    visit: &Visit,
    edits: &mut Edits<'d>,
    result: Value<'d>,
    member: &str,
    name: &str,
    permits: fn(&Visit, &str) -> bool,
) -> Result<(), Refusal> {
    let items = result.get(member).ok_or_else(|| unfilterable("the list is missing"))?;
    let listed = items.items().ok_or_else(|| unfilterable("the list is none"))?;
    let shown: Vec<_> = listed
        .map(|item| Ok(permits(visit, named(item, name)?)))
        .collect::<Result<_, Refusal>>()?;
    keep(edits, items, &shown);
    privately(edits, visit, result);
    Ok(())
}

/// The name of an element, of which nothing else may be taken for it.
fn named<'d>(item: Value<'d>, name: &str) -> Result<&'d str, Refusal> {
    let governed = Governed::new(name);
    let members = item.members().ok_or_else(|| unfilterable("an element is no object"))?;
    for (key, _) in members {
        if governed.resembles(key.as_str().unwrap_or_default()) {
            return Err(unfilterable("a member looks like the one that names an element"));
        }
    }
    item.get(name).and_then(Value::as_str).ok_or_else(|| unfilterable("an element has no name"))
}

fn keep<'d>(edits: &mut Edits<'d>, items: Value<'d>, shown: &[bool]) {
    if shown.iter().all(|shown| *shown) {
        return;
    }
    let mut shown = shown.iter();
    edits.replace(items, edit::list(items, |_| shown.next().copied().unwrap_or(false)));
}

/// What was filtered for one grant must not be kept for another, nor for long.
fn privately<'d>(edits: &mut Edits<'d>, visit: &Visit, result: Value<'d>) {
    if !visit.is_modern() {
        return;
    }
    if let Some(scope) = result.get("cacheScope").filter(|scope| scope.as_str() != Some("private"))
    {
        edits.replace(scope, quoted("private"));
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

/// Shows only tasks of this grant, under ids of ours.
fn tasks<'d>(visit: &Visit, edits: &mut Edits<'d>, result: Value<'d>) -> Result<(), Refusal> {
    let tasks = result.get("tasks").ok_or_else(|| unfilterable("it has no `tasks`"))?;
    let mut shown = Vec::new();
    for task in tasks.items().ok_or_else(|| unfilterable("`tasks` is no list"))? {
        let id = named(task, "taskId")?;
        if visit.server.link.state.tools.is_task_of(visit.holder.id(), id) {
            let sealed = quoted(&sealed_task(visit, id)?);
            let own = |key: &str, _| {
                if key == "taskId" { Fate::Become(sealed.clone()) } else { Fate::Keep }
            };
            shown.push(edit::object(task, own, &[]));
        }
    }
    edits.replace(tasks, format!("[{}]", shown.join(",")));
    Ok(())
}

/// The id by which this grant, and no other, can ask for a task.
pub(crate) fn sealed_task(visit: &Visit, id: &str) -> Result<String, Refusal> {
    let parts = [visit.holder.id(), visit.server_name(), id];
    visit.gateway.seal.seal(Purpose::Task, &parts).ok_or(Refusal::Internal)
}

/// Puts our id of a task in the place of the upstream's, wherever a result has it.
fn task_id<'d>(visit: &Visit, edits: &mut Edits<'d>, result: Value<'d>) -> Result<(), Refusal> {
    let in_meta = result.get("_meta").and_then(|meta| meta.get(META_RELATED_TASK));
    for holder in [Some(result), result.get("task"), in_meta].into_iter().flatten() {
        let Some(id) = holder.get("taskId") else { continue };
        let text = id.as_str().ok_or_else(|| unfilterable("`taskId` is no string"))?;
        visit.server.link.state.tools.remember_task(visit.holder.id(), text);
        edits.replace(id, quoted(&sealed_task(visit, text)?));
    }
    Ok(())
}

/// The error that takes the place of a result which asks for what it may not.
/// The request was made and answered: the error is the answer.
async fn denied_input(
    visit: &Visit,
    expected: &Expected,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    let Some(input) = result.get("inputRequests") else { return Ok(None) };
    match server_request::check_input(visit, input).await {
        Ok(()) => Ok(None),
        Err(denied @ Refusal::Denied { .. }) => Ok(Some(denied.to_json(Some(&expected.id)))),
        Err(other) => Err(other),
    }
}

/// A result that may ask the client for something, or begin a task.
async fn call(
    visit: &Visit,
    expected: &Expected,
    method: &str,
    target: &str,
    document: &Document,
    result: Value<'_>,
) -> Result<Option<String>, Refusal> {
    if visit.is_modern()
        && let Some(denied) = denied_input(visit, expected, result).await?
    {
        return Ok(Some(denied));
    }
    let mut edits = Edits::new(document);
    task_id(visit, &mut edits, result)?;
    if let Some(state) = result.get("requestState") {
        let text = state.as_str().ok_or_else(|| unfilterable("`requestState` is no string"))?;
        edits.replace(state, quoted(&decide::sealed_state(visit, method, target, text)?));
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}
