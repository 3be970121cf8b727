//! The report as JSON.

use serde_json::{Value, json};
use sluice_classify::Category;
use sluice_stack::{Ability, Configured, Entry, Group, Survey};
use sluice_store::Server;

use super::{drafts, known, scan::Failed};

pub(super) struct StackReport<'a> {
    pub(super) configured: &'a Configured,
    pub(super) survey: &'a Survey<'a>,
    pub(super) failed: &'a [Failed],
    /// Servers in the gateway's own configuration.
    pub(super) declared: &'a [Server],
}

impl StackReport<'_> {
    /// Why the scan of a server failed, if it did.
    pub(super) fn failure(&self, group: &Group<'_>) -> Option<String> {
        let failed = self.failed.iter().find(|failed| failed.identity == group.identity)?;
        Some(failed.error.to_string())
    }

    /// The name of a server in the gateway's own configuration.
    pub(super) fn declared_name(&self, group: &Group<'_>) -> Option<&str> {
        known::declared_name(self.declared, group.entries.first()?)
    }

    /// The problem with the policy of an adopted server.
    pub(super) fn unusable(group: &Group<'_>) -> Option<String> {
        let mut wrapped = group.entries.iter().filter_map(|entry| entry.wrapped.as_ref());
        wrapped.find_map(|wrapped| drafts::unusable(&wrapped.policy)).map(|why| why.to_string())
    }

    pub(super) fn json(&self) -> Value {
        let servers: Vec<Value> =
            self.survey.groups.iter().map(|group| self.group(group)).collect();
        let problems = self.configured.problems.iter().map(|problem| {
            json!({
                "client": problem.client.id(),
                "file": problem.path.display().to_string(),
                "line": problem.at.map(|(line, _)| line),
                "column": problem.at.map(|(_, column)| column),
                "message": problem.message,
            })
        });
        let looked = self.configured.looked.iter().map(
            |(client, path)| json!({ "client": client.id(), "file": path.display().to_string() }),
        );
        json!({
            "servers": servers,
            "gone": self.survey.gone,
            "problems": problems.collect::<Vec<_>>(),
            "looked": looked.collect::<Vec<_>>(),
        })
    }

    fn group(&self, group: &Group<'_>) -> Value {
        let first = group.entries.first();
        json!({
            "name": group.name,
            "identity": group.identity,
            "transport": first.map(|entry| entry.transport.kind()),
            "place": first.map(|entry| entry.transport.to_masked()),
            "advice": group.advice.name(),
            "adopted": group.is_adopted(),
            "registered": group.registered,
            "declared": self.declared_name(group),
            "new": group.is_new,
            "can": group.ability.as_ref().map(ability),
            "problem": self.failure(group),
            "policy_problem": StackReport::unusable(group),
            "configured": group.entries.iter().map(|entry| entry_json(entry)).collect::<Vec<_>>(),
        })
    }
}

fn ability(ability: &Ability) -> Value {
    let counts: serde_json::Map<String, Value> = Category::ALL
        .into_iter()
        .map(|category| (category.name().to_owned(), ability.count(category).into()))
        .collect();
    json!({
        "worst": ability.worst().map(Category::name),
        "counts": counts,
        "findings": ability.findings(),
        "source": ability.source,
        "tools": ability.tools,
        "changes": ability.changes,
    })
}

fn entry_json(entry: &Entry) -> Value {
    let wrapped = entry.wrapped.as_ref();
    json!({
        "name": entry.name,
        "client": entry.client.id(),
        "file": entry.file.display().to_string(),
        "project": entry.scope.folder().map(|folder| folder.display().to_string()),
        "disabled": entry.is_disabled,
        "sets": entry.transport.names(),
        "adopted_as": wrapped.map(|wrapped| &wrapped.name),
        "policy": wrapped.map(|wrapped| &wrapped.policy),
    })
}
