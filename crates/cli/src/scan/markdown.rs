//! A scan as Markdown, for issues and pull requests.
//!
//! Text from the server is put into code spans, where neither Markdown nor HTML nor mentions
//! are interpreted.

use sluice_scan::{Scan, bearing, verdict};

use super::{NextSteps, note_passed_over};
use crate::output::{count_noun, fit, thousands, visible};

/// The widths of a name and of a quotation.
const NAME: usize = 80;
const QUOTE: usize = 120;
const MOST_ATTACKS: usize = 5;

/// The whole scan.
pub(crate) fn markdown(scan: &Scan, next_steps: &NextSteps) -> String {
    let title = match format!("{} {}", scan.name, scan.version).trim() {
        "" => "A server without a name".to_owned(),
        named => code(named, NAME),
    };
    let count = count_noun(scan.tools.len(), "tool");
    let tokens = thousands(scan.tokens());
    let mut lines = vec![
        format!("## {title}\n"),
        format!("{count}, about {tokens} tokens of an agent's context.\n"),
        verdict(scan, |name| code(name, NAME / 2)),
    ];
    lines.extend(note_passed_over(scan).map(|note| format!("\n{note}")));
    if scan.has_findings() {
        lines.push("\n### Findings\n".into());
        lines.extend(findings(scan));
    }
    if !scan.tools.is_empty() {
        lines.extend(tools(scan));
        lines.extend(attacks(scan));
        lines.extend(next(scan, next_steps));
    }
    lines.join("\n") + "\n"
}

fn findings(scan: &Scan) -> Vec<String> {
    let found = scan.merge_findings();
    let found = found.iter().map(|found| {
        let of = found.tool.map_or("the server".to_owned(), |name| code(name, NAME));
        let quote = match found.excerpt.trim() {
            "" => String::new(),
            excerpt => format!(": {}", code(excerpt, QUOTE)),
        };
        format!("- {of}: {}, in its {}{quote}", kinds(&found.kinds), found.part)
    });
    let repeated = scan
        .repeated
        .iter()
        .map(|name| format!("- {} is the name of several tools", code(name, NAME)));
    found.chain(repeated).collect()
}

/// The kinds of findings in our words; some of them quote the server.
fn kinds(kinds: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == ',';
    let written = kinds.iter().map(|kind| {
        if kind.chars().all(is_plain) { (*kind).to_owned() } else { code(kind, QUOTE) }
    });
    written.collect::<Vec<_>>().join(", ")
}

fn tools(scan: &Scan) -> Vec<String> {
    let head = "\n### Tools\n\n| tool | category | risk | tokens | why |\n| --- | --- | --- | ---: | --- |";
    let rows = scan.tools.iter().map(|tool| {
        let of = &tool.assessment;
        let why = of.reasons.first().map_or("nothing in its definition says".to_owned(), |one| {
            format!("{}: {}", one.text, code(&one.at.quote, 40))
        });
        let name = code(&tool.name, NAME);
        format!("| {name} | {} | {} | {} | {why} |", of.category, of.risk, tool.tokens)
    });
    std::iter::once(head.to_owned()).chain(rows).collect()
}

fn attacks(scan: &Scan) -> Vec<String> {
    let bearing = bearing(scan);
    let head = (!bearing.is_empty()).then(|| "\n### Known attacks on such tools\n".to_owned());
    let rows = bearing.iter().take(MOST_ATTACKS).map(|one| {
        let attack = one.attack;
        format!("- **{}** ({}): {} {}", attack.title, one.ids(), attack.text, attack.stops)
    });
    head.into_iter().chain(rows).collect()
}

fn next(scan: &Scan, next_steps: &NextSteps) -> Vec<String> {
    let mut lines = vec!["\n### To restrict it\n".to_owned()];
    let commands = [&next_steps.policy, &next_steps.wrap];
    lines.extend(commands.map(|command| format!("1. {}", code(command, usize::MAX))));
    lines.extend(next_steps.missing.map(|missing| format!("\n{missing}")));
    lines.push("\nThe policy to start from:\n".into());
    lines.extend(scan.policy().effect.iter().map(|line| format!("- {line}")));
    lines
}

/// A code span that no character of the text can end.
fn code(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // In a table, a bar would end the cell.
    let line = fit(&visible(&line), most).replace('|', "¦");
    if line.is_empty() {
        return "(nothing)".into();
    }
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    format!("{fence}{gap}{line}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn server_text_stays_in_its_code_span() {
        let check = |text: &str, expected: &str| assert_eq!(code(text, 40), expected);
        check("plain", "`plain`");
        check("a`b``c", "``` a`b``c ```");
        check("| x |\n# y", "`¦ x ¦ # y`");
        check("<img src=x> @everyone\u{1b}[2J", "`<img src=x> @everyone\\u{1b}[2J`");
        check(" ", "(nothing)");
    }
}
