//! A scan on one screen, for people.

mod tools;

use anstyle::{AnsiColor, Style};
use sluice_classify::Category;

use super::{
    Found, Hold, Scan,
    attacks::{Bearing, bearing},
    verdict::verdict,
};
use crate::output::{BAD, FAINT, GOOD, HELD, STRONG, Screen, fitted, visible, wide, wrapped};

/// Places that the bar of categories takes.
const BAR: usize = 24;
/// Findings and attack patterns that are shown.
const MOST_FINDINGS: usize = 10;
const MOST_ATTACKS: usize = 3;
/// Lines of a screen on which none need be saved.
const TALL: usize = 32;

/// How the page is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) screen: Screen,
    /// Whether every tool has its line, however many there are.
    pub(crate) all: bool,
}

impl Manner {
    /// Whether lines are to be saved.
    fn is_small(self) -> bool {
        self.screen.height < TALL
    }
}

/// The whole page.
pub(crate) fn page(scan: &Scan, hold: &Hold, manner: Manner) -> String {
    let width = manner.screen.width;
    let mut text = head(scan, width);
    if !scan.tools.is_empty() {
        text += &bar(scan, width);
    }
    text.push('\n');
    text += &paragraph(&verdict(scan, |name| shown(name, width / 3)), width, STRONG);
    text += &findings(scan, width);
    text += &tools::listed(scan, manner);
    text += &attacks(scan, manner);
    text + &next(hold, scan, manner)
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

/// What a category is drawn with, so that it is told apart without colours.
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

fn head(scan: &Scan, width: usize) -> String {
    let name = if scan.name.is_empty() { "(a server without a name)" } else { &scan.name };
    let name = fitted(&visible(name), width / 2);
    let version = fitted(&visible(&scan.version), 20);
    let gap = if version.is_empty() { "" } else { " " };
    let revision = fitted(&visible(&scan.revision), 12);
    let mut facts = vec![
        counted(scan.tools.len(), "tool"),
        format!("about {} tokens of context", thousands(scan.tokens())),
    ];
    for (number, noun) in [(scan.resources, "resource"), (scan.prompts, "prompt")] {
        facts.extend(number.filter(|number| *number > 0).map(|number| counted(number, noun)));
    }
    facts.extend(scan.instructions.as_ref().map(|_| "instructions".to_owned()));
    let facts = fitted(&facts.join(" · "), width);
    format!("{STRONG}{name}{STRONG:#}{gap}{version}{FAINT} · MCP {revision}{FAINT:#}\n{facts}\n")
}

/// The share of each category, the worst first.
fn bar(scan: &Scan, width: usize) -> String {
    let groups = scan.groups();
    let total = scan.tools.len().max(1);
    let (mut drawn, mut line) = (0, String::new());
    let mut before = 0;
    for (category, tools) in &groups {
        before += tools.len();
        let style = colour(*category);
        // Each has its share, and at least one place.
        let until = (before * BAR / total).max(drawn + 1);
        let glyphs: String = std::iter::repeat_n(glyph(*category), until - drawn).collect();
        line += &format!("{style}{glyphs}{style:#}");
        drawn = until;
    }
    let mut taken = drawn;
    for (category, tools) in &groups {
        let style = colour(*category);
        let legend = format!("{} {category}", tools.len());
        let is_new_line = taken + 2 + wide(&legend) > width;
        taken = if is_new_line { wide(&legend) } else { taken + 2 + wide(&legend) };
        line += if is_new_line { "\n" } else { "  " };
        line += &format!("{style}{legend}{style:#}");
    }
    line + "\n"
}

fn paragraph(text: &str, width: usize, style: Style) -> String {
    wrapped(text, width).iter().map(|line| format!("{style}{line}{style:#}\n")).collect()
}

/// Signs of poisoning, set apart.
fn findings(scan: &Scan, width: usize) -> String {
    let number = scan.findings().count() + scan.repeated.len();
    if number == 0 {
        return String::new();
    }
    let count = counted(number, "finding");
    let mut text = format!("\n{BAD}! {count}: read this before an agent does{BAD:#}\n");
    let found = scan.found();
    let repeated = scan.repeated.iter().map(|name| {
        format!("  {STRONG}{}{STRONG:#} is the name of several tools\n", shown(name, width / 2))
    });
    let all = found.iter().map(|one| finding(one, width)).chain(repeated);
    text.extend(all.take(MOST_FINDINGS));
    let more = (found.len() + scan.repeated.len()).saturating_sub(MOST_FINDINGS);
    if more > 0 {
        text += &format!("  {FAINT}… and {more} more; --json has all{FAINT:#}\n");
    }
    text
}

fn finding(found: &Found<'_>, width: usize) -> String {
    let place = match found.parameter {
        Some(parameter) => format!("{} of {}", found.part, shown(parameter, 20)),
        None => found.part.to_string(),
    };
    let name = found.tool.map_or("the server".to_owned(), |name| shown(name, width / 3));
    let kinds = fitted(&visible(&found.kinds.join(", ")), 2 * width);
    let head = format!("{name} ({place}): {kinds}");
    let lines = wrapped(&head, width.saturating_sub(2));
    let mut text = String::new();
    for line in lines {
        text += &format!("  {line}\n");
    }
    let words = found.excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        text += &format!("    {BAD}“{}”{BAD:#}\n", shown(&words, width.saturating_sub(6)));
    }
    text
}

fn attacks(scan: &Scan, manner: Manner) -> String {
    let bearing = bearing(scan);
    let line = |one: &Bearing<'_>| {
        let tools = match one.tools.as_slice() {
            [only] => shown(only, 30),
            several => counted(several.len(), "tool"),
        };
        format!("{} · {tools} · {}", one.attack.title, one.ids())
    };
    let Some(first) = bearing.first() else { return String::new() };
    if manner.is_small() {
        let line = fitted(&line(first), manner.screen.width.saturating_sub(15));
        return format!("{STRONG}Known attack:{STRONG:#} {line}\n");
    }
    let mut text = format!("\n{STRONG}Attacks known on such tools{STRONG:#}\n");
    for one in bearing.iter().take(MOST_ATTACKS) {
        text += &format!("  {}\n", fitted(&line(one), manner.screen.width.saturating_sub(2)));
    }
    text
}

/// How to go on. Commands are never cut, so that they can be copied.
fn next(hold: &Hold, scan: &Scan, manner: Manner) -> String {
    if scan.tools.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{STRONG}To hold it{STRONG:#}\n");
    for command in [&hold.policy, &hold.wrap] {
        text += &format!("  {}\n", visible(command));
    }
    if manner.is_small() {
        let words = "`sluice server add`, `policy put`, `grant create`";
        return text + &format!("{FAINT}or behind a gateway: {words}{FAINT:#}\n");
    }
    text += &format!("{FAINT}or behind a gateway (`sluice up`), for every client:{FAINT:#}\n");
    for command in &hold.gateway {
        text += &format!("  {}\n", visible(command));
    }
    text
}

/// A text of the server's, made harmless and short.
fn shown(text: &str, most: usize) -> String {
    if text.is_empty() { "(no name)".into() } else { fitted(&visible(text), most) }
}

/// `1 tool`, `2 tools`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number))
}

/// A number as people write it.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{counted, thousands};

    #[test]
    fn numbers_are_written_as_people_do() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(counted(1, "tool"), "1 tool");
    }
}
