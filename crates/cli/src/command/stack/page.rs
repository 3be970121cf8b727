//! The report on one screen: every server, the most dangerous first, and the next steps.

use std::fmt::Write as _;

use anstyle::Style;
use sluice_classify::Category;
use sluice_stack::{Ability, Advice, Client, Group, HookFile};

use super::{machine::Machine, report::StackReport};
use crate::output::{
    BAD, Cell, FAINT, GOOD, HELD, STRONG, count_noun, shorten, table, visible, wide,
};

/// The maximum width of a line.
const WIDTH: usize = 80;
/// The width of a name.
const NAME: usize = 22;
/// The width of the list of clients.
const CLIENTS: usize = 24;

pub(super) fn draw(report: &StackReport<'_>, machine: &Machine) -> String {
    let groups = &report.survey.groups;
    let mut text = String::new();
    if groups.is_empty() {
        text.push_str(&nothing(report, machine));
    } else {
        text.push_str(&totals(groups));
        text.push('\n');
        text.push_str(&servers(report, machine));
        text.push_str(&news(report));
    }
    text.push_str(&problems(report, machine));
    if !groups.is_empty() {
        text.push_str(&next(report, machine));
    }
    text
}

/// The totals.
fn totals(groups: &[Group<'_>]) -> String {
    let tools: usize = groups.iter().map(|group| tools_of(group)).sum();
    let unknown = groups.iter().filter(|group| group.ability.is_none()).count();
    let known = groups.len() - unknown;
    // Counts only the clients of the servers in the total beside them.
    let counts = |group: &&Group<'_>| known == 0 || group.ability.is_some();
    let mut clients: Vec<Client> = groups.iter().filter(counts).flat_map(Group::clients).collect();
    clients.sort();
    clients.dedup();
    let mut text = if known == 0 {
        format!(
            "{STRONG}Your agents can reach {}{STRONG:#}, from {}.\n",
            count_noun(groups.len(), "server"),
            count_noun(clients.len(), "client"),
        )
    } else {
        format!(
            "{STRONG}Your agents can call {} on {}{STRONG:#}, from {}.\n",
            count_noun(tools, "tool"),
            count_noun(known, "server"),
            count_noun(clients.len(), "client"),
        )
    };
    let mut parts: Vec<String> = Vec::new();
    for category in [Category::Financial, Category::Destructive, Category::Execute, Category::Write]
    {
        let count = groups.iter().filter(|group| group.worst() == Some(category)).count();
        if count > 0 {
            let style = colour(Some(category));
            parts.push(format!("{style}{count} can {}{style:#}", ability_of(category)));
        }
    }
    if known == 0 {
        parts.push(format!("{HELD}What they can do there is not known yet{HELD:#}"));
    } else if unknown > 0 {
        let is = if unknown == 1 { "is" } else { "are" };
        parts.push(format!("{HELD}{unknown} {is} not known yet{HELD:#}"));
    }
    let adopted = groups.iter().filter(|group| group.is_adopted()).count();
    if adopted > 0 {
        let is = if adopted == 1 { "is" } else { "are" };
        parts.push(format!("{GOOD}{adopted} {is} behind Sluicegate{GOOD:#}"));
    }
    if !parts.is_empty() {
        text.push_str(&wrap_parts(&parts));
    }
    text
}

/// Joins the parts of a sentence, and wraps them.
fn wrap_parts(parts: &[String]) -> String {
    let mut lines = vec![String::new()];
    let mut width = 0;
    for (index, part) in parts.iter().enumerate() {
        let plain = wide(&anstream::adapter::strip_str(part).to_string()) + 2;
        if width > 0 && width + plain > WIDTH {
            lines.push(String::new());
            width = 0;
        }
        width += plain;
        if let Some(line) = lines.last_mut() {
            let sign = if index + 1 < parts.len() { ", " } else { "." };
            line.push_str(part);
            line.push_str(sign);
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

/// What tools of a category let an agent do.
fn ability_of(category: Category) -> &'static str {
    match category {
        Category::Financial => "move money",
        Category::Destructive => "destroy data",
        Category::Execute => "run code",
        Category::Write => "write",
        Category::Other => "do other things",
        Category::Read => "read",
    }
}

fn colour(worst: Option<Category>) -> Style {
    match worst {
        Some(Category::Financial | Category::Destructive) => BAD,
        Some(Category::Execute) | None => HELD,
        Some(Category::Write | Category::Other) => Style::new(),
        Some(Category::Read) => GOOD,
    }
}

fn servers(report: &StackReport<'_>, machine: &Machine) -> String {
    let groups = &report.survey.groups;
    let rows: Vec<_> = groups.iter().map(row).collect();
    let drawn = table(["SERVER", "CAN", "TOOLS", "IN", "WHAT TO DO"], &rows);
    let mut lines = drawn.lines();
    let mut text = lines.next().map(|head| format!("{head}\n")).unwrap_or_default();
    for (group, line) in groups.iter().zip(lines) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
        let place =
            group.entries.first().map(|entry| entry.transport.to_masked()).unwrap_or_default();
        // The path contains the user's name, which should not end up in a shared report.
        let home = format!("{}/", machine.places.home.display());
        let place = shorten(&place.replace(&home, "~/"), WIDTH - 2);
        let _ = writeln!(text, "  {FAINT}{place}{FAINT:#}");
        for note in notes(report, group) {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}

fn row(group: &Group<'_>) -> [Cell; 5] {
    let worst = group.worst();
    let can = match (&group.ability, worst) {
        (None, _) => "not known".to_owned(),
        (Some(_), None) => "nothing".to_owned(),
        (Some(ability), Some(worst)) => {
            let count = ability.count(worst);
            if worst == Category::Read {
                ability_of(worst).into()
            } else {
                format!("{} ({count})", ability_of(worst))
            }
        }
    };
    let tools = group.ability.as_ref().map(|ability| ability.tools.len().to_string());
    let (advice, style) = match group.advice {
        Advice::Proceed if group.is_adopted() => ("proceed (adopted)", GOOD),
        Advice::Proceed => ("proceed", GOOD),
        Advice::WithRules => ("connect with rules", STRONG),
        Advice::AskFirst => ("ask first", HELD),
    };
    let style = if group.is_disabled() { FAINT } else { style };
    [
        Cell::with_style(&shorten(&group.name, NAME), STRONG),
        Cell::with_style(&can, colour(worst)),
        Cell::maybe(tools.as_deref()),
        Cell::new(&shorten(&clients(group), CLIENTS)),
        Cell::with_style(advice, style),
    ]
}

fn clients(group: &Group<'_>) -> String {
    let clients = group.clients();
    let titles: Vec<_> = clients.iter().map(|client| client.title()).collect();
    let all = titles.join(", ");
    match titles.as_slice() {
        [first, rest @ ..] if wide(&all) > CLIENTS => format!("{first} +{}", rest.len()),
        _ => all,
    }
}

/// Remarks on unusual properties of a server.
fn notes(report: &StackReport<'_>, group: &Group<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |style: Style, text: &str| {
        notes.push(format!("{style}{}{style:#}", shorten(text, WIDTH - 2)));
    };
    if group.is_disabled() {
        note(FAINT, "disabled in its client");
    }
    if let Some(failure) = report.failure(group) {
        note(BAD, &format!("cannot be asked: {}", failure.lines().next().unwrap_or_default()));
    }
    if let Some(why) = StackReport::unusable(group) {
        note(BAD, &format!("its policy cannot be used: {why}"));
    }
    if let Some(ability) = &group.ability {
        if ability.is_hearsay {
            note(FAINT, "as the catalogue has this package; the server itself was not asked");
        }
        let findings = ability.findings();
        if findings > 0 {
            let signs = count_noun(findings, "sign");
            note(BAD, &format!("{signs} that its definitions were written to mislead"));
        }
        for (what, names) in changes(ability) {
            note(HELD, &format!("{what} since the scan before: {}", names.join(", ")));
        }
    }
    if let Some(name) = report.declared_name(group).filter(|_| !group.is_adopted()) {
        note(HELD, &format!("the gateway here has it as `{name}`, and this goes past that"));
    }
    let adopted = group.entries.iter().filter(|entry| entry.wrapped.is_some()).count();
    if adopted > 0 && adopted < group.entries.len() {
        note(HELD, &format!("adopted in {adopted} of {} places only", group.entries.len()));
    }
    notes
}

fn changes(ability: &Ability) -> Vec<(&'static str, &Vec<String>)> {
    let changes = &ability.changes;
    let all = [("new", &changes.added), ("gone", &changes.removed), ("changed", &changes.changed)];
    all.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

/// Changes since the last run.
fn news(report: &StackReport<'_>) -> String {
    let new: Vec<_> = report
        .survey
        .groups
        .iter()
        .filter(|group| group.is_new)
        .map(|group| visible(&group.name))
        .collect();
    let gone: Vec<_> = report.survey.gone.iter().map(|name| visible(name)).collect();
    let mut text = String::new();
    for (what, names) in [("New", new), ("Gone", gone)] {
        if !names.is_empty() {
            let line = format!("{what} since last time: {}", names.join(", "));
            let _ = writeln!(text, "\n{HELD}{}{HELD:#}", shorten(&line, WIDTH));
        }
    }
    text
}

fn problems(report: &StackReport<'_>, machine: &Machine) -> String {
    let mut text = String::new();
    for problem in &report.configured.problems {
        let at = problem.at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
        let file = visible(&machine.display_path(&problem.path));
        let message = visible(&problem.message);
        let _ = writeln!(text, "\n{BAD}problem{BAD:#}: {} in {file}{at}", problem.client);
        let _ = writeln!(text, "  {message}");
    }
    text
}

/// Whether our hook is installed in every client that supports hooks.
fn is_hooked(machine: &Machine) -> bool {
    let read = |client| HookFile::read(client, &machine.places).ok().flatten();
    HookFile::CLIENTS.into_iter().filter_map(read).all(|file| file.is_installed())
}

/// The next commands to run.
fn next(report: &StackReport<'_>, machine: &Machine) -> String {
    let groups = &report.survey.groups;
    let is_used = |group: &&Group<'_>| !group.is_disabled() && !group.is_adopted();
    // Servers whose scan has just failed are not suggested for another scan.
    let is_unasked = |group: &&Group<'_>| {
        group.ability.as_ref().is_none_or(|ability| ability.is_hearsay)
            && report.failure(group).is_none()
    };
    let unknown: Vec<_> = groups.iter().filter(is_used).filter(is_unasked).collect();
    let is_open = |group: &&Group<'_>| group.ability.is_some() || is_unasked(group);
    let open: Vec<_> = groups.iter().filter(is_used).filter(is_open).collect();
    let mut rows = Vec::new();
    if !unknown.is_empty() {
        let command = if are_of_projects(&unknown) {
            "sluice stack --scan --projects"
        } else {
            "sluice stack --scan"
        };
        rows.push((command, ["ask them what they can do", " (starts commands)"]));
    }
    if !open.is_empty() {
        let command = if are_of_projects(&open) {
            "sluice stack adopt --all --projects"
        } else {
            "sluice stack adopt --all"
        };
        rows.push((command, ["route them through Sluicegate", ", with policies"]));
    }
    if rows.is_empty() && !is_hooked(machine) {
        rows.push(("sluice stack hook --install", ["ask before new servers are used", ""]));
    }
    if rows.is_empty() {
        return format!("\n{GOOD}Nothing is left to do.{GOOD:#}\n");
    }
    let mut text = String::from("\n");
    let width = rows.iter().map(|(command, _)| wide(command)).max().unwrap_or_default();
    for (index, (command, [why, more])) in rows.into_iter().enumerate() {
        let label = if index == 0 { "Next:" } else { "" };
        let more = if 8 + width + wide(why) + wide(more) <= WIDTH { more } else { "" };
        let _ = writeln!(text, "{label:5} {STRONG}{command:width$}{STRONG:#}  {why}{more}");
    }
    text
}

/// Whether all of these are found only in project files.
fn are_of_projects(groups: &[&Group<'_>]) -> bool {
    groups.iter().flat_map(|group| &group.entries).all(|entry| entry.is_of_project)
}

fn nothing(report: &StackReport<'_>, machine: &Machine) -> String {
    let mut text =
        format!("{STRONG}No MCP server is configured on this machine.{STRONG:#}\nLooked in:\n");
    for (client, path) in &report.configured.looked {
        let path = shorten(&machine.display_path(path), WIDTH - 18);
        let _ = writeln!(text, "  {:14}  {FAINT}{path}{FAINT:#}", client.title());
    }
    text.push_str("\nIn a project's folder, its own files are looked at too.\n");
    text
}

fn tools_of(group: &Group<'_>) -> usize {
    group.ability.as_ref().map_or(0, |ability| ability.tools.len())
}
