//! Converts messages between the eras: a few members change, and all other bytes are kept.

use sluice_wire::{
    edit::{self, Edits, Fate, quote},
    json::{Document, Value},
    mcp::{
        META_CAPABILITIES, META_CLIENT, META_LEVEL, META_SUBSCRIPTION, META_VERSION, Revision,
        TASKS_EXTENSION, is_modern_error_code,
    },
};

pub(super) const MODERN: Revision = Revision::V2026_07_28;
/// The legacy protocol version that is used with servers.
pub(super) const LEGACY: Revision = Revision::V2025_11_25;

/// JSON-RPC error codes that the bridge uses.
pub(super) const UNKNOWN_METHOD: i32 = -32601;
pub(super) const BAD_PARAMS: i32 = -32602;
pub(super) const INTERNAL: i32 = -32603;
const NO_RESOURCE: &str = "-32002";
const HEADER_MISMATCH: &str = "-32020";

/// The client's declaration: part of each modern request, and sent once in the legacy era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    /// An object, as JSON.
    pub(super) capabilities: String,
    /// An object, as JSON; empty if the client does not identify itself.
    pub(super) client: String,
}

impl Declared {
    /// The gateway's own declaration: it has no client capabilities.
    pub(super) fn gateway() -> Declared {
        let version = env!("CARGO_PKG_VERSION");
        Declared {
            capabilities: "{}".into(),
            client: format!(r#"{{"name":"sluicegate","version":"{version}"}}"#),
        }
    }

    /// Reads the declaration from the members with these names.
    pub(super) fn read(from: Option<Value<'_>>, capabilities: &str, client: &str) -> Declared {
        let object = |name: &str| {
            from.and_then(|from| from.get(name)).filter(|value| value.members().is_some())
        };
        Declared {
            capabilities: object(capabilities).map_or("{}", Value::raw).to_owned(),
            client: object(client).map_or("", Value::raw).to_owned(),
        }
    }
}

/// The members of `_meta` that only modern requests have.
fn is_modern_meta(key: &str) -> bool {
    matches!(key, META_VERSION | META_CAPABILITIES | META_CLIENT | META_LEVEL)
}

/// Members that belong to a repeated request.
fn is_of_retry(key: &str) -> bool {
    matches!(key, "inputResponses" | "requestState")
}

/// Converts a legacy request to a modern one, with members added to its parameters.
pub(super) fn modern_request(
    request: Value<'_>,
    id: &str,
    declared: &Declared,
    level: Option<&str>,
    added: &[(&str, String)],
) -> String {
    let params = request.get("params").filter(|params| params.members().is_some());
    let mut says = vec![
        (META_VERSION, quote(MODERN.name())),
        (META_CAPABILITIES, declared.capabilities.clone()),
    ];
    if !declared.client.is_empty() {
        says.push((META_CLIENT, declared.client.clone()));
    }
    says.extend(level.map(|level| (META_LEVEL, quote(level))));
    let own = params.and_then(|params| params.get("_meta"));
    let meta = splice_members(own, is_modern_meta, &says);
    let mut members = added.to_vec();
    members.push(("_meta", meta));
    let params = splice_members(params, |key| key == "_meta" || is_of_retry(key), &members);
    repost(request, id, params)
}

/// Converts a modern request to a legacy one.
pub(super) fn legacy_request(request: Value<'_>, id: &str) -> String {
    let params = request.get("params").filter(|params| params.members().is_some());
    let own = params.and_then(|params| params.get("_meta"));
    let meta = splice_members(own, is_modern_meta, &[]);
    let added = if meta == "{}" { vec![] } else { vec![("_meta", meta)] };
    let params = splice_members(params, |key| key == "_meta" || is_of_retry(key), &added);
    repost(request, id, params)
}

fn repost(request: Value<'_>, id: &str, params: String) -> String {
    let drop = |key: &str| matches!(key, "id" | "params");
    splice_members(Some(request), drop, &[("id", id.to_owned()), ("params", params)])
}

/// An object with some members dropped and others added; a missing object counts as
/// empty.
pub(super) fn splice_members(
    object: Option<Value<'_>>,
    drop: impl Fn(&str) -> bool,
    added: &[(&str, String)],
) -> String {
    if let Some(object) = object.filter(|object| object.members().is_some()) {
        let fate = |key: &str, _| if drop(key) { Fate::Drop } else { Fate::Keep };
        return edit::object(object, fate, added);
    }
    let members: Vec<_> =
        added.iter().map(|(key, json)| format!("{}:{json}", quote(key))).collect();
    format!("{{{}}}", members.join(","))
}

/// Converts a modern answer to a legacy one, with this id.
pub(super) fn legacy_answer(answer: &Document, result: Value<'_>, id: &str) -> String {
    let result = splice_members(Some(result), |key| key == "resultType", &[]);
    replace_in_answer(answer, id, "result", result)
}

/// Converts a legacy answer to a request of this method to a modern one, with this id.
pub(super) fn modern_answer(
    answer: &Document,
    result: Value<'_>,
    id: &str,
    method: &str,
) -> String {
    let mut added = vec![("resultType", quote("complete"))];
    let is_kept = is_cacheable(method);
    if is_kept {
        added.extend(unkept());
    }
    let drop = |key: &str| key == "resultType" || is_kept && matches!(key, "ttlMs" | "cacheScope");
    let result = splice_members(Some(result), drop, &added);
    replace_in_answer(answer, id, "result", result)
}

/// Members that forbid caching: a legacy server does not say how long its result is
/// valid.
pub(super) fn unkept() -> [(&'static str, String); 2] {
    [("ttlMs", "0".into()), ("cacheScope", quote("private"))]
}

fn is_cacheable(method: &str) -> bool {
    method == "resources/read" || method == "server/discover" || method.ends_with("/list")
}

fn replace_in_answer(answer: &Document, id: &str, member: &str, value: String) -> String {
    let mut edits = Edits::new(answer);
    let root = answer.root();
    if let (Some(own), Some(place)) = (root.get("id"), root.get(member)) {
        edits.replace(own, id.to_owned());
        edits.replace(place, value);
    }
    edits.finish()
}

/// Converts an error to the other era, and returns its code there. Only the code for a
/// missing resource differs.
pub(super) fn failure(error: Value<'_>, id: &str, method: &str, to: Revision) -> (String, String) {
    let code = error.get("code").map_or("", Value::raw);
    let is_read = method == "resources/read";
    let code = match code {
        "-32602" if is_read && to < MODERN => NO_RESOURCE.to_owned(),
        NO_RESOURCE if to >= MODERN => BAD_PARAMS.to_string(),
        other => other.to_owned(),
    };
    let error = splice_members(Some(error), |key| key == "code", &[("code", code.clone())]);
    (format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#), code)
}

/// An error of the gateway's own.
pub(super) fn error(id: &str, code: i32, message: &str) -> String {
    let message = quote(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

/// An error that is attributed to the upstream.
pub(super) fn upstream_error(id: &str, message: &str) -> String {
    let message = quote(&format!("upstream: {message}"));
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{INTERNAL},"message":{message},"data":{{"side":"upstream"}}}}}}"#
    )
}

/// The error for a feature that the other protocol version lacks.
pub(super) fn unbridgeable(what: &str, client: &str, server: &str) -> String {
    format!("{what} cannot be bridged: the client speaks {client}, the server {server}")
}

/// The response to a request.
pub(super) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Whether an error code exists only in the modern era.
pub(super) fn is_modern_error(error: Value<'_>) -> bool {
    error.get("code").map(Value::raw).is_some_and(is_modern_error_code)
}

pub(super) fn is_header_mismatch(error: Value<'_>) -> bool {
    error.get("code").is_some_and(|code| code.raw() == HEADER_MISMATCH)
}

/// A server's capabilities without tasks, which differ too much between the eras to be
/// bridged.
pub(super) fn without_tasks(capabilities: Option<Value<'_>>) -> String {
    let extensions = capabilities.and_then(|capabilities| capabilities.get("extensions"));
    let has_tasks = extensions.is_some_and(|extensions| extensions.get(TASKS_EXTENSION).is_some());
    let rest = has_tasks.then(|| splice_members(extensions, |key| key == TASKS_EXTENSION, &[]));
    let added: Vec<_> = rest.into_iter().map(|rest| ("extensions", rest)).collect();
    let drop = |key: &str| key == "tasks" || has_tasks && key == "extensions";
    splice_members(capabilities, drop, &added)
}

/// The requests that a server can send to its client, and the capability that each needs.
const REQUESTS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// Whether these client capabilities allow a server request.
pub(super) fn lets_ask(capabilities: Value<'_>, method: &str) -> bool {
    let needed = REQUESTS.into_iter().find(|(known, _)| *known == method);
    needed.is_some_and(|(_, needed)| capabilities.get(needed).is_some())
}

/// The method of a server request, if the protocol defines it.
pub(super) fn known_request(method: &str) -> Option<&'static str> {
    REQUESTS.into_iter().map(|(known, _)| known).find(|known| *known == method)
}

/// Whether the answer to a request of this method may ask for input.
pub(super) fn may_want_input(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Sets the subscription id of a notification, or removes it.
pub(super) fn tag_subscription(notification: Value<'_>, subscription: Option<&str>) -> String {
    let params = notification.get("params");
    let own = params.and_then(|params| params.get("_meta"));
    let added: Vec<_> =
        subscription.map(|id| (META_SUBSCRIPTION, id.to_owned())).into_iter().collect();
    let meta = splice_members(own, |key| key == META_SUBSCRIPTION, &added);
    let meta: Vec<_> = (meta != "{}").then_some(("_meta", meta)).into_iter().collect();
    let params = splice_members(params, |key| key == "_meta", &meta);
    let params: Vec<_> = (params != "{}").then_some(("params", params)).into_iter().collect();
    splice_members(Some(notification), |key| key == "params", &params)
}

/// Log levels, the most verbose first.
pub(super) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The severity of a level: the higher, the fewer messages pass.
pub(super) fn severity(level: &str) -> Option<u8> {
    LEVELS.iter().position(|name| *name == level).and_then(|place| u8::try_from(place).ok())
}

#[cfg(test)]
mod tests {
    use sluice_wire::json::{Bounds, Document};

    use super::*;

    fn read(text: &str) -> Document {
        Document::parse(text, &Bounds::default()).unwrap()
    }

    #[test]
    fn only_the_necessary_members_of_a_request_change() {
        let legacy = r#"{"jsonrpc":"2.0","method":"tools/call","x":1.0,"id":7,"params":{"name":"n","arguments":{"a": 1.50},"_meta":{"progressToken":3}}}"#;
        let declared = Declared { capabilities: "{}".into(), client: String::new() };
        let modern = modern_request(read(legacy).root(), "7", &declared, Some("info"), &[]);
        let expected = r#"{"jsonrpc":"2.0","method":"tools/call","x":1.0,"id":7,"params":{"name":"n","arguments":{"a": 1.50},"_meta":{"progressToken":3,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"}}}"#;
        assert_eq!(modern, expected);
        assert_eq!(legacy_request(read(&modern).root(), "7"), legacy);
    }

    #[test]
    fn parameters_are_added_to_and_removed_from_a_request_without_any() {
        let declared = Declared::gateway();
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let modern = modern_request(read(bare).root(), "\"a\"", &declared, None, &[]);
        assert!(modern.contains(r#""id":"a","params":{"_meta":{"#), "{modern}");
        let legacy = legacy_request(read(&modern).root(), "2");
        assert_eq!(legacy, r#"{"jsonrpc":"2.0","method":"tools/list","id":2,"params":{}}"#);
    }

    #[test]
    fn answers_change_their_id_and_kind() {
        let modern = r#"{"jsonrpc":"2.0","id":"r","result":{"resultType":"complete","tools":[ 1 ],"x":2.0}}"#;
        let answer = read(modern);
        let result = answer.root().get("result").unwrap();
        let legacy = legacy_answer(&answer, result, "1");
        assert_eq!(legacy, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[ 1 ],"x":2.0}}"#);
        let answer = read(&legacy);
        let result = answer.root().get("result").unwrap();
        assert_eq!(
            modern_answer(&answer, result, "\"r\"", "tools/list"),
            r#"{"jsonrpc":"2.0","id":"r","result":{"tools":[ 1 ],"x":2.0,"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#
        );
    }

    #[test]
    fn a_missing_resource_has_another_code_in_each_era() {
        let check = |code: &str, method: &str, to, expected: &str| {
            let error = read(&format!(r#"{{"code":{code},"message":"m","data":{{"uri":"a:b"}}}}"#));
            assert_eq!(failure(error.root(), "1", method, to).1, expected);
        };
        check("-32602", "resources/read", LEGACY, "-32002");
        check("-32602", "tools/call", LEGACY, "-32602");
        check("-32002", "resources/read", MODERN, "-32602");
        check("-32601", "resources/read", MODERN, "-32601");
    }

    #[test]
    fn tasks_are_not_offered_across_eras() {
        let check = |capabilities: &str, expected: &str| {
            assert_eq!(without_tasks(Some(read(capabilities).root())), expected);
        };
        check(r#"{"tools":{},"tasks":{"list":{}}}"#, r#"{"tools":{}}"#);
        check(
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}},"x":1}"#,
            r#"{"x":1,"extensions":{"a/b":{}}}"#,
        );
        check(r#"{"extensions":{"a/b":{}}}"#, r#"{"extensions":{"a/b":{}}}"#);
    }

    #[test]
    fn a_subscription_is_named_in_one_era_only() {
        let news = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let modern = tag_subscription(read(news).root(), Some("\"l\""));
        assert!(
            modern.contains(r#""params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}"#)
        );
        assert_eq!(tag_subscription(read(&modern).root(), None), news);
    }
}
