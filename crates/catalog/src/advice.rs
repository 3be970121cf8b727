//! Texts that describe what a tool lets an agent do, and why that needs a policy.

use sluice_classify::{Category, FindingKind, SignalKind};

use crate::entry::Traits;

/// What tools of a category let an agent do.
pub fn ability(category: Category) -> &'static str {
    match category {
        Category::Read => "fetch data, without changing anything",
        Category::Other => "do something that none of the other categories covers",
        Category::Write => "create or change things in a way that can be undone",
        Category::Execute => "run code, or start something whose effect hangs on the arguments",
        Category::Destructive => "delete or overwrite things for good",
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
        SignalKind::Url => "choose an address that it may reach",
        SignalKind::FilePath => "choose a path in a file system",
        SignalKind::Credentials => "hand over or handle passwords, keys or tokens",
        SignalKind::Bulk => "act on many things at once",
        SignalKind::Admin => "change rights, members or settings of a whole system",
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
            "What it reads goes into the agent's context: private data may leave by another tool, and text in it may steer the agent."
        }
        Category::Other => {
            "Its definition does not say what it does to the world, so a limit is the least it should have."
        }
        Category::Write => {
            "An agent that repeats itself, or is steered, changes many things before anybody looks."
        }
        Category::Execute => {
            "What it does hangs on the arguments, so whoever steers the agent decides what is run."
        }
        Category::Destructive => {
            "What it takes away does not come back, and an agent may choose it as the quickest way."
        }
        Category::Financial => {
            "Money that has moved is hard to get back; a person should see it first."
        }
    }
}

fn of_finding(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Instruction => {
            "Its definition speaks to the model: read it before any agent does."
        }
        FindingKind::HiddenCharacters => "Its definition has characters that people cannot see.",
        FindingKind::OtherTools => "Its definition tells the agent how to use other tools.",
        FindingKind::Secrets => "Its definition asks for secrets or private context.",
        FindingKind::LookAlike => {
            "Its name looks like another tool's, which may be called by mistake."
        }
        FindingKind::Oversized => {
            "Its definition is far larger than its purpose: something may be hidden in it."
        }
    }
}

fn danger(kind: SignalKind) -> Option<&'static str> {
    match kind {
        SignalKind::FreeFormCode => {
            Some("Free text that is run can do whatever its process may do.")
        }
        SignalKind::Url => {
            Some("An address of the agent's choosing may lead into the private network.")
        }
        SignalKind::FilePath => {
            Some("A path of the agent's choosing may lead out of the intended folder.")
        }
        SignalKind::Credentials => {
            Some("Secrets in arguments end up in logs and in the agent's context.")
        }
        SignalKind::Bulk => Some("One call changes many things."),
        SignalKind::Admin => Some("Rights that are given once stay given."),
        SignalKind::OpenWorld => None,
    }
}
