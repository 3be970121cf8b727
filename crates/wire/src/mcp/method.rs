//! The methods that a client may send, and the part of a policy that each is checked
//! against.

use std::sync::LazyLock;

use super::revision::Revision::{self, V2024_11_05, V2025_11_25, V2026_07_28};
use crate::look_alike::Governed;

/// The part of a policy that a method is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodClass {
    /// Handshake, liveness, cancellation, progress, logging: always allowed.
    Always,
    /// `tools/list`: always allowed, and its answer is filtered.
    ToolList,
    /// `tools/call`: checked by the rules for the tool.
    ToolCall,
    /// A resource by its URI.
    Resource,
    /// A list of resources or of templates, whose answer is filtered.
    ResourceList,
    /// A prompt by its name.
    Prompt,
    /// A list of prompts, whose answer is filtered.
    PromptList,
    /// Completing an argument of a prompt or a resource template.
    Completion,
    /// Following a task that a call of the same grant has started.
    Task,
    /// A list of tasks, whose answer is filtered.
    TaskList,
    /// A stream of changes on the server.
    Listen,
}

/// A known method.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    pub name: &'static str,
    pub class: MethodClass,
    /// The first and the last protocol version that have it.
    since: Revision,
    until: Revision,
}

const fn method(
    name: &'static str,
    class: MethodClass,
    since: Revision,
    until: Revision,
) -> Method {
    Method { name, class, since, until }
}

static METHODS: [Method; 24] = [
    method("initialize", MethodClass::Always, V2024_11_05, V2025_11_25),
    method("notifications/initialized", MethodClass::Always, V2024_11_05, V2025_11_25),
    method("server/discover", MethodClass::Always, V2026_07_28, V2026_07_28),
    method("ping", MethodClass::Always, V2024_11_05, V2025_11_25),
    method("notifications/cancelled", MethodClass::Always, V2024_11_05, V2026_07_28),
    method("notifications/progress", MethodClass::Always, V2024_11_05, V2026_07_28),
    method("notifications/roots/list_changed", MethodClass::Always, V2024_11_05, V2025_11_25),
    method("logging/setLevel", MethodClass::Always, V2024_11_05, V2025_11_25),
    method("tools/list", MethodClass::ToolList, V2024_11_05, V2026_07_28),
    method("tools/call", MethodClass::ToolCall, V2024_11_05, V2026_07_28),
    method("resources/list", MethodClass::ResourceList, V2024_11_05, V2026_07_28),
    method("resources/templates/list", MethodClass::ResourceList, V2024_11_05, V2026_07_28),
    method("resources/read", MethodClass::Resource, V2024_11_05, V2026_07_28),
    method("resources/subscribe", MethodClass::Resource, V2024_11_05, V2025_11_25),
    method("resources/unsubscribe", MethodClass::Resource, V2024_11_05, V2025_11_25),
    method("prompts/list", MethodClass::PromptList, V2024_11_05, V2026_07_28),
    method("prompts/get", MethodClass::Prompt, V2024_11_05, V2026_07_28),
    method("completion/complete", MethodClass::Completion, V2024_11_05, V2026_07_28),
    method("subscriptions/listen", MethodClass::Listen, V2026_07_28, V2026_07_28),
    method("tasks/get", MethodClass::Task, V2025_11_25, V2026_07_28),
    method("tasks/result", MethodClass::Task, V2025_11_25, V2025_11_25),
    method("tasks/cancel", MethodClass::Task, V2025_11_25, V2026_07_28),
    method("tasks/update", MethodClass::Task, V2026_07_28, V2026_07_28),
    method("tasks/list", MethodClass::TaskList, V2025_11_25, V2025_11_25),
];

/// The names, to find those that resemble one.
static NAMES: LazyLock<Vec<Governed>> =
    LazyLock::new(|| METHODS.iter().map(|method| Governed::new(method.name)).collect());

impl Method {
    /// Whether a server could confuse a name with that of a known method, of any protocol version.
    /// Such a name does not count as unknown.
    pub fn resembles_known(name: &str) -> bool {
        NAMES.iter().any(|known| known.name() == name || known.resembles(name))
    }

    /// The method with this exact name, if the protocol version has it.
    pub fn find(name: &str, revision: Revision) -> Option<&'static Method> {
        METHODS
            .iter()
            .find(|method| method.name == name && (method.since..=method.until).contains(&revision))
    }
}

#[cfg(test)]
mod tests {
    use super::{METHODS, Method, MethodClass, Revision};

    fn check(name: &str, revision: Revision, expected: Option<MethodClass>) {
        let found = Method::find(name, revision).map(|method| method.class);
        assert_eq!(found, expected, "{name} in {revision:?}");
    }

    #[test]
    fn methods_belong_to_protocol_versions() {
        check("tools/call", Revision::V2024_11_05, Some(MethodClass::ToolCall));
        check("tools/call", Revision::V2026_07_28, Some(MethodClass::ToolCall));
        check("initialize", Revision::V2025_11_25, Some(MethodClass::Always));
        check("initialize", Revision::V2026_07_28, None);
        check("server/discover", Revision::V2025_11_25, None);
        check("tasks/list", Revision::V2025_06_18, None);
        check("tasks/list", Revision::V2025_11_25, Some(MethodClass::TaskList));
        check("tasks/list", Revision::V2026_07_28, None);
    }

    #[test]
    fn method_names_are_exact() {
        for name in ["Tools/call", "tools/call ", "tools/call\0", "tools//call", "", "eval"] {
            check(name, Revision::V2025_11_25, None);
        }
    }

    #[test]
    fn look_alikes_and_methods_of_other_versions_are_not_unknown() {
        for name in ["tools/call", "Tools/Call", "tools/call ", "tool\u{17f}/call", "ping\0x"] {
            assert!(Method::resembles_known(name), "{name:?}");
        }
        for name in ["vendor/eval", "tools/calls", "", "notifications/eval"] {
            assert!(!Method::resembles_known(name), "{name:?}");
        }
    }

    #[test]
    fn no_method_is_listed_twice() {
        for (place, method) in METHODS.iter().enumerate() {
            assert!(METHODS[..place].iter().all(|other| other.name != method.name), "{method:?}");
            assert!(method.since <= method.until, "{method:?}");
        }
    }
}
