//! The verdict: the worst that an agent with all of a server's tools could do, in words.

use std::fmt::Write as _;

use sluice_classify::{Category, SignalKind};

use super::{Scan, Scanned};

/// The number of tools named as examples.
const NAMED: usize = 3;

/// One ability, and the tools that provide it.
struct Ability<'s> {
    verb: &'static str,
    tools: Vec<&'s str>,
}

/// The verdict in one or two sentences; `show` formats the names of tools.
pub fn verdict(scan: &Scan, show: impl Fn(&str) -> String) -> String {
    let named = |tools: &[&str]| list_some(tools, &show);
    let able = abilities(scan);
    if able.is_empty() {
        return "This server offers no tools.".into();
    }
    let parts: Vec<String> =
        able.iter().map(|one| format!("{} ({})", one.verb, named(&one.tools))).collect();
    let mut text = match worst(scan) {
        Category::Read | Category::Other => {
            format!("An agent with these tools could only {}.", join_with_and(&parts))
        }
        _ => format!("At worst, an agent with these tools could {}.", join_with_and(&parts)),
    };
    if let Some(inlets) = inlets(scan) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            " Untrusted text reaches it through {}, and may steer the other tools.",
            named(&inlets)
        );
    }
    text
}

fn worst(scan: &Scan) -> Category {
    scan.tools.first().map_or(Category::Read, |tool| tool.assessment.category)
}

fn abilities<'s>(scan: &'s Scan) -> Vec<Ability<'s>> {
    let is_harmless = worst(scan) < Category::Write;
    let mut able = Vec::new();
    let mut add = |verb, tools: Vec<&'s Scanned>| {
        if !tools.is_empty() {
            let tools = tools.iter().map(|tool| tool.name.as_str()).collect();
            able.push(Ability { verb, tools });
        }
    };
    for (category, tools) in scan.groups() {
        let taking = |kind| move |tool: &&Scanned| takes(tool, kind);
        match category {
            Category::Financial => add("move money", tools),
            Category::Destructive => add("delete or overwrite permanently", tools),
            Category::Execute => {
                let (given, others) = tools.into_iter().partition(taking(SignalKind::FreeFormCode));
                add("run code that it is given", given);
                add("start actions chosen by its arguments", others);
            }
            Category::Write => add("change things", tools),
            Category::Other => {
                let (known, unknown) =
                    tools.into_iter().partition(|tool| !tool.assessment.reasons.is_empty());
                add("do things that no definition explains", unknown);
                add("work on what it is given", if is_harmless { known } else { Vec::new() });
            }
            // Reading is mentioned only if there is nothing worse.
            Category::Read if is_harmless => {
                let (files, others): (Vec<_>, Vec<_>) =
                    tools.into_iter().partition(taking(SignalKind::FilePath));
                let (pages, others) = others.into_iter().partition(taking(SignalKind::Url));
                add("read files", files);
                add("fetch addresses", pages);
                add("look things up", others);
            }
            Category::Read => {}
        }
    }
    able
}

fn takes(tool: &Scanned, kind: SignalKind) -> bool {
    tool.assessment.signals.iter().any(|signal| signal.kind == kind)
}

/// Tools that bring in text from others, if other tools could be misused by it.
fn inlets(scan: &Scan) -> Option<Vec<&str>> {
    if worst(scan) < Category::Write {
        return None;
    }
    let reads = |tool: &&Scanned| {
        tool.assessment.category == Category::Read
            && (takes(tool, SignalKind::Url) || takes(tool, SignalKind::OpenWorld))
    };
    let inlets: Vec<&str> =
        scan.tools.iter().filter(reads).map(|tool| tool.name.as_str()).collect();
    (!inlets.is_empty()).then_some(inlets)
}

/// Some names, and the number of further ones.
fn list_some(tools: &[&str], show: impl Fn(&str) -> String) -> String {
    let shown = tools.iter().take(NAMED).map(|name| show(name)).collect::<Vec<_>>().join(", ");
    match tools.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn join_with_and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
