//! What is to be done with a message: judged through its door, and made ready to
//! be sent.

use std::sync::{Arc, LazyLock};

use http::Response;
use sluice_policy::{Policy, ServerRequest};
use sluice_wire::{
    edit::{self, Edits, Fate, quoted},
    json::{Document, Value},
    look_alike::Governed,
    mcp::{Door, META_CAPABILITIES, META_VERSION, Method, TASKS_EXTENSION, Target},
    rpc::{Id, Message},
};

use super::text;
use crate::{
    answer::{Expected, Shape, opened_id},
    assess::{ToolList, Tools},
    body::ClientBody,
    decide::{self, Access, Permit, Stop, ToolCall},
    forward::Outgoing,
    refusal::Refusal,
    response,
    spoken::{argument_text, mirrored, mirrored_target},
    visit::Visit,
};

/// What to do.
pub(super) enum Plan {
    Forward(Box<Step>),
    /// A stream of what changes.
    Listen(Permit),
    /// Answered without asking the server.
    Answer(Response<ClientBody>),
    Result(String),
}

/// A request ready to be sent.
pub(super) struct Step {
    pub(super) permit: Permit,
    pub(super) outgoing: Outgoing,
    /// The message, if it is not sent as it came.
    pub(super) edited: Option<String>,
    /// `None` where no answer is due.
    pub(super) expected: Option<Expected>,
}

/// A request, as far as planning needs it.
struct Asked<'d> {
    document: &'d Document,
    id: Id,
    method: &'static str,
    params: Option<Value<'d>>,
}

/// Parameters that change what happens, so that no other may resemble one.
static GOVERNED: LazyLock<[Governed; 5]> = LazyLock::new(|| {
    ["requestState", "inputResponses", "_meta", "task", "capabilities"].map(Governed::new)
});

/// Members of `_meta` that do.
static GOVERNED_META: LazyLock<[Governed; 2]> =
    LazyLock::new(|| [META_VERSION, META_CAPABILITIES].map(Governed::new));

/// Capabilities of a client, by what a policy calls them.
static DECLARED: LazyLock<Vec<(ServerRequest, Governed)>> = LazyLock::new(|| {
    ServerRequest::ALL.into_iter().map(|request| (request, Governed::new(request.name()))).collect()
});

pub(super) async fn plan<'d>(
    visit: &Arc<Visit>,
    document: &'d Document,
    message: Message<'d>,
) -> Result<Plan, Refusal> {
    match message {
        Message::Request { id, method, params } => {
            request(visit, document, id, method, params).await
        }
        Message::Notification { method, .. } => Box::pin(notification(visit, method)).await,
        Message::Response { id, .. } => reply(visit, document, &id),
        Message::Failure { id, .. } => {
            let id =
                id.ok_or_else(|| Refusal::Request("an answer needs the id of its request".into()))?;
            reply(visit, document, &id)
        }
    }
}

async fn request<'d>(
    visit: &Arc<Visit>,
    document: &'d Document,
    id: Id,
    method: &'d str,
    params: Option<Value<'d>>,
) -> Result<Plan, Refusal> {
    if is_notification(method) {
        return Err(Refusal::Request(format!("`{method}` is a notification and has no id")));
    }
    refuse_look_alikes(params)?;
    let Some(known) = Method::find(method, visit.revision) else {
        let permit = Box::pin(decide::unknown_method(visit, method)).await?;
        let mirrors =
            visit.is_modern().then(|| (method.to_owned(), text(params, "name").map(str::to_owned)));
        let outgoing = Outgoing { mirrors, ..Outgoing::post("") };
        let expected = Some(Expected { id, shape: Shape::Plain });
        let edited = edits(visit, document, params, None)?;
        return Ok(Plan::Forward(Box::new(Step { permit, outgoing, edited, expected })));
    };
    let asked = Asked { document, id, method: known.name, params };
    let target =
        Target::read(known.door, params).map_err(|error| Refusal::Params(error.to_string()))?;
    match (known.door, target) {
        (Door::ToolCall, Target::Tool { name, arguments }) => {
            tool_call(visit, asked, name, arguments).await
        }
        (Door::Task, Target::Task(task)) => Box::pin(task_request(visit, asked, task)).await,
        (Door::Resource | Door::Completion, Target::Resource(uri)) => {
            Box::pin(judged(visit, asked, uri, "/resources", permits_resource)).await
        }
        (Door::Prompt | Door::Completion, Target::Prompt(name)) => {
            Box::pin(judged(visit, asked, name, "/prompts", permits_prompt)).await
        }
        (door, _) => open(visit, asked, door),
    }
}

fn refuse_look_alikes(params: Option<Value<'_>>) -> Result<(), Refusal> {
    let meta = params.and_then(|params| params.get("_meta"));
    for (object, governed) in [(params, &GOVERNED[..]), (meta, &GOVERNED_META[..])] {
        for (key, _) in object.and_then(Value::members).into_iter().flatten() {
            let key = key.as_str().unwrap_or_default();
            if let Some(meant) = governed.iter().find(|governed| governed.resembles(key)) {
                let meant = meant.name();
                return Err(Refusal::Params(format!(
                    "a parameter looks like `{meant}`: send `{meant}` only"
                )));
            }
        }
    }
    Ok(())
}

fn permits_resource(policy: &Policy, uri: &str) -> bool {
    policy.permits_resource(uri)
}

fn permits_prompt(policy: &Policy, name: &str) -> bool {
    policy.permits_prompt(name)
}

/// A request that every policy leaves open.
fn open(visit: &Visit, asked: Asked<'_>, door: Door) -> Result<Plan, Refusal> {
    let permit = decide::open(door).ok_or(Refusal::Internal)?;
    if door == Door::Listen {
        return Ok(Plan::Listen(permit));
    }
    let shape = match asked.method {
        "initialize" | "server/discover" => Shape::Introduction,
        "tools/list" => Shape::Tools,
        "resources/list" => Shape::Resources,
        "resources/templates/list" => Shape::Templates,
        "prompts/list" => Shape::Prompts,
        "tasks/list" => Shape::Tasks,
        _ => Shape::Plain,
    };
    if let Some(empty) = denied_list(visit, &shape) {
        return Ok(Plan::Result(empty));
    }
    step(visit, asked, permit, shape, None)
}

/// A list of which nothing may be seen, answered without asking for it.
fn denied_list(visit: &Visit, shape: &Shape) -> Option<String> {
    let rules = visit.rules();
    let (member, is_denied) = match shape {
        Shape::Tools => ("tools", rules.is_none()),
        Shape::Resources => ("resources", rules.is_none_or(Policy::denies_resources)),
        Shape::Templates => ("resourceTemplates", rules.is_none_or(Policy::denies_resources)),
        Shape::Prompts => ("prompts", rules.is_none_or(Policy::denies_prompts)),
        _ => return None,
    };
    let modern = if visit.is_modern() {
        r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#
    } else {
        ""
    };
    (is_denied && !visit.is_shadow()).then(|| format!(r#"{{"{member}":[]{modern}}}"#))
}

/// A resource, prompt or completion.
async fn judged(
    visit: &Visit,
    asked: Asked<'_>,
    target: &str,
    rule: &'static str,
    permits: fn(&Policy, &str) -> bool,
) -> Result<Plan, Refusal> {
    let is_permitted = visit.rules().is_some_and(|policy| permits(policy, target));
    let state = opened_state(visit, &asked, target)?;
    let permit =
        decide::access(visit, Access { method: asked.method.into(), target, rule, is_permitted })
            .await?;
    let shape = match mirrored_target(asked.method) {
        Some(_) => Shape::Call { method: asked.method, target: target.to_owned() },
        None => Shape::Plain,
    };
    step(visit, asked, permit, shape, state.as_ref())
}

async fn task_request(visit: &Visit, asked: Asked<'_>, task: &str) -> Result<Plan, Refusal> {
    let own = decide::opened_task(visit, task);
    let access = Access {
        method: asked.method.into(),
        target: task,
        rule: "(unknown task)",
        is_permitted: own.is_some(),
    };
    let permit = decide::access(visit, access).await.map_err(|refusal| match refusal {
        Refusal::Denied { .. } => no_such_task(visit, &asked),
        other => other,
    })?;
    // Also in shadow mode nobody reaches a task that is not theirs.
    let own = own.ok_or_else(|| no_such_task(visit, &asked))?;
    step(visit, asked, permit, Shape::Task, Some(&("taskId", own)))
}

/// What the server itself would say of a task that does not exist, so that
/// nobody can tell one from the task of another.
fn no_such_task(visit: &Visit, asked: &Asked<'_>) -> Refusal {
    let unknown = || Refusal::Params("there is no such task".into());
    if !visit.is_modern() {
        return unknown();
    }
    if visit.server.link.state.tools.lacks_tasks() {
        return Refusal::UnknownMethod { method: asked.method.to_owned(), is_modern: true };
    }
    let declared = asked.params.and_then(|params| params.get("_meta")?.get(META_CAPABILITIES));
    let extension = declared.and_then(|declared| declared.get("extensions")?.get(TASKS_EXTENSION));
    if extension.is_some() { unknown() } else { Refusal::TasksUndeclared }
}

async fn tool_call(
    visit: &Arc<Visit>,
    asked: Asked<'_>,
    tool: &str,
    arguments: Option<Value<'_>>,
) -> Result<Plan, Refusal> {
    let list = definitions(visit, tool).await;
    check_mirrored(visit, list.as_deref(), tool, arguments)?;
    let state = opened_state(visit, &asked, tool)?;
    let (call, params) = (ToolCall { tool, arguments }, asked.params);
    match decide::tool_call(visit, call, list.as_deref()).await {
        Ok(permit) => {
            let shape = Shape::Call { method: asked.method, target: tool.to_owned() };
            step(visit, asked, permit, shape, state.as_ref())
        }
        Err(Stop::NotCalled(why)) => Ok(Plan::Result(why.result(visit.revision.era(), params)?)),
        Err(Stop::Refused(refusal)) => Err(refusal),
    }
}

/// The server's list of tools, where the decision may depend on it.
async fn definitions(visit: &Visit, tool: &str) -> Option<Arc<ToolList>> {
    let link = &visit.server.link;
    let is_needed = visit.policy.as_ref().is_some_and(|in_force| in_force.needs_definitions);
    let bounds = visit.gateway.settings.answer_bounds();
    if is_needed || visit.is_modern() {
        return Box::pin(Tools::list(link, &bounds, tool)).await;
    }
    let known = link.state.tools.known();
    if known.is_none() {
        link.state.tools.learn_once(link, &bounds);
    }
    known
}

/// Headers that repeat arguments must say what the arguments do.
fn check_mirrored(
    visit: &Visit,
    list: Option<&ToolList>,
    tool: &str,
    arguments: Option<Value<'_>>,
) -> Result<(), Refusal> {
    if !visit.is_modern() {
        return Ok(());
    }
    for repeated in list.map_or(&[][..], |list| list.mirrored(tool)) {
        let said = argument_text(arguments, &repeated.argument);
        if mirrored(&visit.headers, &*repeated.header) != said {
            let (header, argument) = (&repeated.header, &repeated.argument);
            return Err(Refusal::HeaderMismatch(format!(
                "header `{header}` is not what argument `{argument}` says"
            )));
        }
    }
    Ok(())
}

/// The server's own state of an unfinished request, if the client brings one.
fn opened_state(
    visit: &Visit,
    asked: &Asked<'_>,
    target: &str,
) -> Result<Option<(&'static str, String)>, Refusal> {
    let Some(state) = asked.params.and_then(|params| params.get("requestState")) else {
        return Ok(None);
    };
    let sealed =
        state.as_str().ok_or_else(|| Refusal::Params("`requestState` must be a string".into()))?;
    let opened = decide::opened_state(visit, asked.method, target, sealed)?;
    Ok(Some(("requestState", opened)))
}

/// Makes a permitted request ready.
fn step(
    visit: &Visit,
    asked: Asked<'_>,
    permit: Permit,
    shape: Shape,
    replaced: Option<&(&'static str, String)>,
) -> Result<Plan, Refusal> {
    let named = mirrored_target(asked.method);
    // What is replaced in the body is replaced in the header that repeats it.
    let target = match replaced {
        Some((name, value)) if named == Some(*name) => Some(value.as_str()),
        _ => named.and_then(|name| text(asked.params, name)),
    };
    let mirrors = visit.is_modern().then(|| (asked.method.to_owned(), target.map(str::to_owned)));
    let outgoing = Outgoing { mirrors, ..Outgoing::post("") };
    let edited = edits(visit, asked.document, asked.params, replaced)?;
    let expected = Some(Expected { id: asked.id, shape });
    Ok(Plan::Forward(Box::new(Step { permit, outgoing, edited, expected })))
}

/// The message with a parameter replaced, and without what the policy does not
/// let the server ask for; `None` if it goes as it came.
fn edits(
    visit: &Visit,
    document: &Document,
    params: Option<Value<'_>>,
    replaced: Option<&(&'static str, String)>,
) -> Result<Option<String>, Refusal> {
    let mut edits = Edits::new(document);
    let params = params.and(document.root().get("params"));
    if let Some((name, value)) = replaced {
        let place = params.and_then(|params| params.get(name)).ok_or(Refusal::Internal)?;
        edits.replace(place, quoted(value));
    }
    let declared = if visit.is_modern() {
        params.and_then(|params| params.get("_meta")).and_then(|meta| meta.get(META_CAPABILITIES))
    } else {
        params.and_then(|params| params.get("capabilities"))
    };
    if let Some(declared) = declared
        && let Some(rest) = without_denied(visit, declared)
    {
        edits.replace(declared, rest);
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}

/// A client's capabilities without those the policy takes away; `None` if all stay.
fn without_denied(visit: &Visit, declared: Value<'_>) -> Option<String> {
    let is_denied = |key: &str| {
        let of = |(_, name): &&(_, Governed)| name.name() == key || name.resembles(key);
        DECLARED.iter().find(of).is_some_and(|(request, _)| {
            !visit.lets_pass(|policy| policy.permits_server_request(*request))
        })
    };
    let has_denied = declared.members()?.any(|(key, _)| key.as_str().is_some_and(is_denied));
    let fate = |key: &str, _| if is_denied(key) { Fate::Drop } else { Fate::Keep };
    has_denied.then(|| edit::object(declared, fate, &[]))
}

async fn notification(visit: &Visit, method: &str) -> Result<Plan, Refusal> {
    let Some(known) = Method::find(method, visit.revision) else {
        return match decide::unknown_method(visit, method).await {
            Ok(permit) => Ok(announced(visit, permit, method)),
            Err(Refusal::UnknownMethod { .. }) if is_notification(method) => Ok(ignore()),
            Err(Refusal::UnknownMethod { method, is_modern: false }) => Err(needs_id(&method)),
            Err(other) => Err(other),
        };
    };
    if !is_notification(method) {
        return Err(needs_id(method));
    }
    // These name a request by an id, which means something only within a session.
    let is_of_session = matches!(known.name, "notifications/cancelled" | "notifications/progress");
    if is_of_session && visit.session.is_none() {
        return Ok(ignore());
    }
    let permit = decide::open(known.door).ok_or(Refusal::Internal)?;
    Ok(announced(visit, permit, method))
}

fn announced(visit: &Visit, permit: Permit, method: &str) -> Plan {
    let mirrors = visit.is_modern().then(|| (method.to_owned(), None));
    let outgoing = Outgoing { mirrors, ..Outgoing::post("") };
    Plan::Forward(Box::new(Step { permit, outgoing, edited: None, expected: None }))
}

/// Whether a method is named as notifications are. A receiver ignores those that
/// it does not know; any other method was meant as a request.
pub(crate) fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

pub(crate) fn needs_id(method: &str) -> Refusal {
    Refusal::Request(format!("`{method}` is a request and needs an id"))
}

/// A message that is taken and goes no further.
fn ignore() -> Plan {
    Plan::Answer(response::accepted())
}

/// A client's answer to a request of the server. One that nobody waits for, because
/// it is late or of another session, is ignored, as the protocol has it.
fn reply(visit: &Visit, document: &Document, id: &Id) -> Result<Plan, Refusal> {
    let own = opened_id(visit, id).filter(|_| !visit.is_modern());
    let Some(own) = own else { return Ok(ignore()) };
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id").ok_or(Refusal::Internal)?, own);
    let permit = decide::open(Door::Always).ok_or(Refusal::Internal)?;
    let edited = Some(edits.finish());
    Ok(Plan::Forward(Box::new(Step {
        permit,
        outgoing: Outgoing::post(""),
        edited,
        expected: None,
    })))
}
