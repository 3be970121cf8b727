//! A scan on one screen, for people.

mod tools;

use anstyle::{AnsiColor, Style};
use sluice_classify::Category;
use sluice_scan::{Bearing, Found, Scan, bearing, verdict};

use super::{NextSteps, note_passed_over};
use crate::output::{
    BAD, FAINT, GOOD, HELD, STRONG, Screen, count_noun, fit, shorten, thousands, visible, wide,
    wrap_lines,
};

/// The width of the bar of categories.
const BAR: usize = 24;
/// Findings and attack patterns shown.
const MOST_FINDINGS: usize = 10;
const MOST_ATTACKS: usize = 3;
/// The number of lines from which a screen need not save any.
const TALL: usize = 32;

/// The options of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) screen: Screen,
    /// Whether every tool gets a line, however many there are.
    pub(crate) all: bool,
}

impl Manner {
    /// Whether the page should save lines.
    fn is_small(self) -> bool {
        self.screen.height < TALL
    }
}

/// The whole page.
pub(crate) fn page(scan: &Scan, next_steps: &NextSteps, manner: Manner) -> String {
    let width = manner.screen.width;
    let mut lines = head(scan, width);
    lines.push(String::new());
    let verdict = verdict(scan, |name| safe_name(name, width / 3));
    lines
        .extend(wrap_lines(&verdict, width).iter().map(|line| format!("{STRONG}{line}{STRONG:#}")));
    lines.extend(note_passed_over(scan).map(|note| format!("{HELD}{note}{HELD:#}")));
    lines.extend(findings(scan, width));
    if !scan.tools.is_empty() {
        lines.extend(tools::draw_groups(scan, manner));
        lines.extend(attacks(scan, manner));
        lines.extend(next(next_steps, manner));
    }
    lines.join("\n") + "\n"
}

/// The colour of a category.
fn colour(category: Category) -> Style {
    match category {
        Category::Financial | Category::Destructive => BAD,
        Category::Execute => HELD,
        Category::Write => AnsiColor::Cyan.on_default().bold(),
        Category::Read => GOOD,
        Category::Other => FAINT,
    }
}

/// The character that draws a category, so that categories differ without colours.
fn glyph(category: Category) -> char {
    match category {
        Category::Financial => '█',
        Category::Destructive => '▓',
        Category::Execute => '▒',
        Category::Write => '░',
        Category::Other => '?',
        Category::Read => '·',
    }
}

fn head(scan: &Scan, width: usize) -> Vec<String> {
    let name = if scan.name.is_empty() { "(a server without a name)" } else { &scan.name };
    let name = fit(&visible(name), width / 2);
    let version = fit(&visible(&scan.version), 20);
    let gap = if version.is_empty() { "" } else { " " };
    let revision = fit(&visible(&scan.revision), 12);
    let mut facts = vec![
        count_noun(scan.tools.len(), "tool"),
        format!("~{} tokens of context", thousands(scan.tokens())),
    ];
    for (number, noun) in [(scan.resources, "resource"), (scan.prompts, "prompt")] {
        facts.extend(number.filter(|number| *number > 0).map(|number| count_noun(number, noun)));
    }
    facts.extend(scan.instructions.as_ref().map(|_| "instructions".to_owned()));
    let mut lines = vec![
        format!("{STRONG}{name}{STRONG:#}{gap}{version}{FAINT} · MCP {revision}{FAINT:#}"),
        fit(&facts.join(" · "), width),
    ];
    lines.extend(bar(scan, width));
    lines
}

/// The share of each category, the worst first.
fn bar(scan: &Scan, width: usize) -> Vec<String> {
    let groups = scan.groups();
    let total = scan.tools.len().max(1);
    let (mut before, mut drawn) = (0, 0);
    let mut line = Vec::new();
    for (category, tools) in &groups {
        before += tools.len();
        let style = colour(*category);
        // Each category gets its share, and at least one column.
        let until = (before * BAR / total).max(drawn + 1);
        let glyphs: String = std::iter::repeat_n(glyph(*category), until - drawn).collect();
        line.push(format!("{style}{glyphs}{style:#}"));
        drawn = until;
    }
    let mut lines = Vec::new();
    let mut taken = drawn;
    for (category, tools) in &groups {
        let style = colour(*category);
        let legend = format!("{} {category}", tools.len());
        taken += 2 + wide(&legend);
        if taken > width {
            lines.push(std::mem::take(&mut line).concat());
            taken = 2 + wide(&legend);
        }
        line.push(format!("  {style}{legend}{style:#}"));
    }
    lines.push(line.concat());
    lines.retain(|line| !line.is_empty());
    lines
}

/// Signs of poisoning, in their own section.
fn findings(scan: &Scan, width: usize) -> Vec<String> {
    let number = scan.findings().count() + scan.repeated.len();
    if number == 0 {
        return Vec::new();
    }
    let count = count_noun(number, "finding");
    let title = format!("{BAD}! {count}: read this before an agent does{BAD:#}");
    let mut lines = vec![String::new(), title];
    let found = scan.merge_findings();
    let repeated = scan
        .repeated
        .iter()
        .map(|name| vec![format!("  {} is the name of several tools", safe_name(name, width / 2))]);
    let all = found.iter().map(|one| (one.kinds.len(), finding(one, width)));
    let mut shown = 0;
    for (number, of) in all.chain(repeated.map(|of| (1, of))) {
        if shown >= MOST_FINDINGS {
            break;
        }
        shown += number;
        lines.extend(of);
    }
    let more = number.saturating_sub(shown);
    if more > 0 {
        lines.push(format!("  {FAINT}… and {more} more; --json has all{FAINT:#}"));
    }
    lines
}

/// The findings in one text, one per line, with the text below.
fn finding(found: &Found<'_>, width: usize) -> Vec<String> {
    let place = match found.parameter {
        Some(parameter) => format!("{} of {}", found.part, safe_name(parameter, 20)),
        None => found.part.to_string(),
    };
    let name = found.tool.map_or("the server".to_owned(), |name| safe_name(name, width / 3));
    let heads = found.kinds.iter().flat_map(|kind| {
        let kind = safe_name(kind, 2 * width);
        wrap_lines(&format!("{name} ({place}): {kind}"), width.saturating_sub(2))
    });
    let mut lines: Vec<String> = heads.map(|line| format!("  {line}")).collect();
    let words = found.excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        lines.push(format!("    {BAD}“{}”{BAD:#}", safe_name(&words, width.saturating_sub(6))));
    }
    lines
}

fn attacks(scan: &Scan, manner: Manner) -> Vec<String> {
    let bearing = bearing(scan);
    let line = |one: &Bearing<'_>| {
        let tools = match one.tools.as_slice() {
            [only] => safe_name(only, 30),
            several => count_noun(several.len(), "tool"),
        };
        format!("{} · {tools} · {}", one.attack.title, one.ids())
    };
    let Some(first) = bearing.first() else { return Vec::new() };
    let width = manner.screen.width;
    let all = bearing.len();
    if manner.is_small() {
        let more = if all > 1 { format!(", 1 of {all}") } else { String::new() };
        let title = format!("Known attack{more}:");
        let line = fit(&line(first), width.saturating_sub(wide(&title) + 1));
        return vec![format!("{STRONG}{title}{STRONG:#} {line}")];
    }
    let more = if all > MOST_ATTACKS {
        format!("{FAINT} · {MOST_ATTACKS} of {all}, --json has all{FAINT:#}")
    } else {
        String::new()
    };
    let title = format!("{STRONG}Known attacks on such tools{STRONG:#}{more}");
    let mut lines = vec![String::new(), title];
    let shown = bearing.iter().take(MOST_ATTACKS);
    lines.extend(shown.map(|one| format!("  {}", fit(&line(one), width.saturating_sub(2)))));
    lines
}

/// The next steps. Commands are never cut, so that they can be copied.
fn next(next_steps: &NextSteps, manner: Manner) -> Vec<String> {
    let command = |command: &String| format!("  {}", visible(command));
    let mut lines = vec![String::new(), format!("{STRONG}To restrict it{STRONG:#}")];
    lines.extend([&next_steps.policy, &next_steps.wrap].map(command));
    lines.extend(next_steps.missing.map(|missing| format!("{HELD}{missing}{HELD:#}")));
    if manner.is_small() {
        let words = "`sluice server add`, `policy put`, `grant create`";
        lines.push(format!("{FAINT}or behind a gateway: {words}{FAINT:#}"));
    } else {
        let words = "or behind a gateway (`sluice up`), for every client:";
        lines.push(format!("{FAINT}{words}{FAINT:#}"));
        lines.extend(next_steps.gateway.iter().map(command));
    }
    lines
}

/// A text of the server, escaped and shortened.
fn safe_name(text: &str, most: usize) -> String {
    if text.is_empty() { "(no name)".into() } else { shorten(text, most) }
}
