//! Texts that describe what a tool lets an agent do, and why that needs a policy.

use sluice_classify::{Category, FindingKind, SignalKind};

use crate::entry::Traits;

/// What tools of a category let an agent do.
pub fn ability(category: Category) -> &'static str {
    match category {
        Category::Read => "fetch data, without changing anything",
        Category::Other => "do something that none of the other categories covers",
        Category::Write => "create or change things in a way that can be undone",
        Category::Execute => "run code, or start something whose effect depends on the arguments",
        Category::Destructive => "delete or overwrite things permanently",
        Category::Financial => "move money, or commit to paying",
    }
}

/// Describes what a tool lets an agent do: by its category, then by its signals.
pub fn abilities(traits: &Traits) -> Vec<&'static str> {
    let of_signals = traits.signals.kinds().map(of_signal);
    std::iter::once(ability(traits.category)).chain(of_signals).collect()
}

fn of_signal(kind: SignalKind) -> &'static str {
    match kind {
        SignalKind::FreeFormCode => "choose the code, command or query that is run",
        SignalKind::Url => "choose a URL that it requests",
        SignalKind::FilePath => "choose a path in a file system",
        SignalKind::Credentials => "hand over or handle passwords, keys or tokens",
        SignalKind::Bulk => "act on many things at once",
        SignalKind::Admin => "change permissions, members or settings of a whole system",
        SignalKind::OpenWorld => "reach beyond the server",
    }
}

/// Why a tool needs a policy, the gravest reason first.
pub fn reasons_for_policy(traits: &Traits) -> Vec<&'static str> {
    let of_findings = traits.findings.kinds().map(of_finding);
    let of_signals = traits.signals.kinds().filter_map(danger);
    std::iter::once(of_category(traits.category)).chain(of_findings).chain(of_signals).collect()
}

fn of_category(category: Category) -> &'static str {
    match category {
        Category::Read => {
            "Its results enter the agent's context: private data may leak through another tool, and text in them may steer the agent."
        }
        Category::Other => {
            "Its definition does not say what it does, so it should at least have a limit."
        }
        Category::Write => {
            "An agent that loops, or is steered by an attacker, can change many things before anyone notices."
        }
        Category::Execute => {
            "Its effect depends on the arguments, so an attacker who steers the agent decides what runs."
        }
        Category::Destructive => {
            "Deletions are permanent, and agents often reach for them as a shortcut."
        }
        Category::Financial => "Payments are hard to reverse; a person should approve them first.",
    }
}

fn of_finding(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Instruction => {
            "Its definition addresses the model: read it before an agent does."
        }
        FindingKind::HiddenCharacters => "Its definition contains invisible characters.",
        FindingKind::OtherTools => "Its definition tells the agent how to use other tools.",
        FindingKind::Secrets => "Its definition asks for secrets or private context.",
        FindingKind::LookAlike => {
            "Its name looks like another tool's, so either may be called by mistake."
        }
        FindingKind::Oversized => {
            "Its definition is far larger than its purpose: something may be hidden in it."
        }
    }
}

fn danger(kind: SignalKind) -> Option<&'static str> {
    match kind {
        SignalKind::FreeFormCode => {
            Some("Code in its arguments can do everything that the server's process can.")
        }
        SignalKind::Url => {
            Some("The agent chooses the URL, which may point into a private network.")
        }
        SignalKind::FilePath => {
            Some("The agent chooses the path, which may be outside the intended folder.")
        }
        SignalKind::Credentials => {
            Some("Secrets in arguments end up in logs and in the agent's context.")
        }
        SignalKind::Bulk => Some("One call changes many things."),
        SignalKind::Admin => Some("Permissions stay in effect once they are granted."),
        SignalKind::OpenWorld => None,
    }
}
