//! The filter of a `subscriptions/listen` request or acknowledgement: kinds of lists, resource
//! URIs and task ids. Denied resources are removed.

use sluice_policy::AccessRequest;
use sluice_wire::{edit::quote, json::Value};

use crate::exchange::Exchange;

/// The change notification of each kind of list, and the name of its subscription.
pub(crate) const LISTS: [(&str, &str); 3] = [
    ("notifications/tools/list_changed", "toolsListChanged"),
    ("notifications/resources/list_changed", "resourcesListChanged"),
    ("notifications/prompts/list_changed", "promptsListChanged"),
];

/// The members of `params.notifications` that the gateway understands. All others are
/// dropped: no policy could judge them, and the acknowledgement tells the client which
/// members were accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    /// The kinds of lists, by the names in [`LISTS`].
    lists: Vec<&'static str>,
    /// URIs of resources; `None` if the member is absent.
    resources: Option<Vec<String>>,
    /// Ids of tasks; `None` if the member is absent.
    tasks: Option<Vec<String>>,
}

impl Filter {
    /// Reads an object, without the resources that the policy denies. `tasks` converts the
    /// list of task ids.
    pub(super) fn read(
        exchange: &Exchange,
        wanted: Value<'_>,
        tasks: impl FnOnce(Vec<&str>) -> Vec<String>,
    ) -> Filter {
        let is_wanted = |name: &str| wanted.get(name).and_then(Value::as_bool) == Some(true);
        let permits = |uri: &&str| exchange.lets_pass(AccessRequest::Resource(uri));
        let uris = texts(wanted, "resourceSubscriptions");
        Filter {
            lists: LISTS.iter().map(|(_, name)| *name).filter(|name| is_wanted(name)).collect(),
            resources: uris
                .map(|uris| uris.into_iter().filter(permits).map(str::to_owned).collect()),
            tasks: texts(wanted, "taskIds").map(tasks),
        }
    }

    /// The resources and tasks that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().chain(&self.tasks).flatten().map(String::as_str)
    }

    pub(crate) fn to_json(&self) -> String {
        let list = |name: &str, texts: &Option<Vec<String>>| {
            let texts: Vec<_> = texts.as_ref()?.iter().map(|text| quote(text)).collect();
            Some(format!(r#""{name}":[{}]"#, texts.join(",")))
        };
        let members: Vec<_> =
            [list("resourceSubscriptions", &self.resources), list("taskIds", &self.tasks)]
                .into_iter()
                .flatten()
                .chain(self.lists.iter().map(|name| format!(r#""{name}":true"#)))
                .collect();
        format!("{{{}}}", members.join(","))
    }
}

/// The texts in a list; `None` if there is no list of this name.
fn texts<'d>(object: Value<'d>, name: &str) -> Option<Vec<&'d str>> {
    Some(object.get(name)?.items()?.filter_map(Value::as_str).collect())
}
