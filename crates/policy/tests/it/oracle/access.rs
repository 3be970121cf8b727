//! What is not a tool call: resources, prompts, requests of the server, and methods
//! this gateway does not know.
//!
//! The answers are those under enforcement; what shadow mode makes of them is not the
//! engine's business.

use serde_json::Value;

use super::pattern::{glob, texts};

/// Whether the resource may be read, completed or listed.
pub(crate) fn resource_allowed(policy: &Value, uri: &str) -> bool {
    // An allow list says where resources lie, which a path that climbs out again would
    // belie; that such a URI is denied is a decision taken since the page.
    let listed = policy.get("resources").is_some_and(Value::is_object);
    access(policy, "resources", uri) && !(listed && climbs(uri))
}

/// Whether the prompt may be used, completed or listed.
pub(crate) fn prompt_allowed(policy: &Value, name: &str) -> bool {
    access(policy, "prompts", name)
}

/// Whether the server may ask this (`sampling`, `elicitation`, `roots`) of the client.
pub(crate) fn server_request_allowed(policy: &Value, kind: &str) -> bool {
    match policy.get("server_requests") {
        Some(named) => texts(Some(named)).iter().any(|name| name == kind),
        None => policy["default"] == "allow",
    }
}

/// Whether a method this gateway does not know passes: only if `methods` names it,
/// whatever the default.
pub(crate) fn method_allowed(policy: &Value, method: &str) -> bool {
    texts(policy.get("methods")).iter().any(|pattern| glob(pattern, method))
}

/// What an `access` says about one URI or name; where there is none, the policy's
/// default decides.
fn access(policy: &Value, key: &str, name: &str) -> bool {
    let access = policy.get(key).unwrap_or(&policy["default"]);
    match access.as_str() {
        Some(word) => word == "allow",
        None => texts(access.get("allow")).iter().any(|pattern| glob(pattern, name)),
    }
}

/// Whether a segment of the URI is `..`, however a server may have it spelt: encoded,
/// after a backslash, or with the blanks inside that URL parsers drop.
fn climbs(uri: &str) -> bool {
    let lower = uri.to_lowercase().replace(['\t', '\n', '\r'], "");
    let plain = lower.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    plain.split(['/', '\\', '?', '#']).any(|segment| segment == "..")
}
