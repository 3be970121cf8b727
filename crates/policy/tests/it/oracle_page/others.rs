//! Tests of what is not a tool call, of shadow mode's lists, and of arguments that are
//! no object.

use crate::oracle::{
    Facts, listed_in_view, method_allowed, prompt_allowed, resource_allowed, server_request_allowed,
};
use serde_json::json;

use super::{judge, known, line};

#[test]
fn resources_and_prompts_follow_their_access_else_the_default() {
    let (allow, deny) = (json!({ "default": "allow" }), json!({ "default": "deny" }));
    assert!(resource_allowed(&allow, "file:///a") && prompt_allowed(&allow, "p"));
    assert!(!resource_allowed(&deny, "file:///a") && !prompt_allowed(&deny, "p"));
    let policy = json!({ "default": "deny", "resources": "allow", "prompts": { "allow": ["greet_*", "bye"] } });
    assert!(resource_allowed(&policy, "file:///a"));
    assert!(prompt_allowed(&policy, "greet_all") && prompt_allowed(&policy, "bye"));
    assert!(!prompt_allowed(&policy, "byes") && !prompt_allowed(&policy, "Bye"));
    let policy = json!({ "default": "allow", "resources": { "allow": ["file:///srv/*"] }, "prompts": "deny" });
    assert!(
        resource_allowed(&policy, "file:///srv/a/b") && !resource_allowed(&policy, "file:///etc/a")
    );
    assert!(!prompt_allowed(&policy, "p"));
}

#[test]
fn server_requests_pass_if_named_else_by_the_default() {
    assert!(server_request_allowed(&json!({ "default": "allow" }), "sampling"));
    assert!(!server_request_allowed(&json!({ "default": "deny" }), "sampling"));
    let policy = json!({ "default": "allow", "server_requests": ["roots"] });
    assert!(
        server_request_allowed(&policy, "roots") && !server_request_allowed(&policy, "elicitation")
    );
}

#[test]
fn unknown_methods_pass_only_if_named_under_either_default() {
    assert!(!method_allowed(&json!({ "default": "allow" }), "x/y"));
    let policy = json!({ "default": "deny", "methods": ["x/*", "z"] });
    assert!(method_allowed(&policy, "x/y") && method_allowed(&policy, "z"));
    assert!(!method_allowed(&policy, "y/x") && !method_allowed(&policy, "zz"));
}

#[test]
fn lists_leave_out_unavailable_tools() {
    let mut policy = json!({ "default": "deny", "hide": ["h", "@destructive"], "tools": { "t": {}, "d": { "action": "deny" }, "h": {} } });
    let shown =
        |policy: &serde_json::Value, tool: &str| listed_in_view(policy, tool, &known("other"));
    assert!(shown(&policy, "t") && shown(&policy, "d"));
    assert!(!shown(&policy, "h") && !shown(&policy, "unlisted"));
    assert!(!listed_in_view(&policy, "t", &known("destructive")));
    assert!(!listed_in_view(&policy, "t", &Facts::NoList));
    policy["mode"] = json!("shadow");
    assert!(shown(&policy, "unlisted") && !shown(&policy, "h"));
    assert!(!listed_in_view(&policy, "t", &Facts::NoList));
    let policy =
        json!({ "default": "deny", "mode": "shadow", "hide": ["h"], "tools": { "@read": {} } });
    assert!(listed_in_view(&policy, "t", &Facts::NoList));
}

#[test]
fn shadow_mode_is_judged_as_under_enforcement() {
    let policy = json!({ "default": "deny", "mode": "shadow" });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "deny (default deny)");
}

#[test]
fn arguments_that_are_no_object_are_refused_without_a_rule() {
    assert_eq!(line(&judge(&json!({ "default": "allow" }), "t", json!([]))), "deny");
}
