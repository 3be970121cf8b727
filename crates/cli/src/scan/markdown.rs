//! A scan to paste into an issue or a change's description.
//!
//! Whatever the server wrote stands in code spans, where neither Markdown nor
//! HTML nor a mention of somebody is understood.

use super::{
    Hold, Scan,
    attacks::bearing,
    page::{counted, thousands},
    verdict::verdict,
};
use crate::output::{fitted, visible};

/// Places of a name and of a quotation.
const NAME: usize = 80;
const QUOTE: usize = 120;
const MOST_ATTACKS: usize = 5;

/// The whole scan.
pub(crate) fn markdown(scan: &Scan, hold: &Hold) -> String {
    let title = match format!("{} {}", scan.name, scan.version).trim() {
        "" => "A server without a name".to_owned(),
        named => code(named, NAME),
    };
    let mut text = format!(
        "## {title}\n\n{}, about {} tokens of an agent's context.\n\n{}\n",
        counted(scan.tools.len(), "tool"),
        thousands(scan.tokens()),
        verdict(scan, |name| code(name, NAME / 2)),
    );
    text += &findings(scan);
    text += &tools(scan);
    text += &attacks(scan);
    text + &next(scan, hold)
}

fn findings(scan: &Scan) -> String {
    if !scan.has_findings() {
        return String::new();
    }
    let mut text = String::from("\n### Findings\n\n");
    for found in scan.found() {
        let of = found.tool.map_or("the server".to_owned(), |name| code(name, NAME));
        text += &format!("- {of}: {}, in its {}", kinds(&found.kinds), found.part);
        if !found.excerpt.trim().is_empty() {
            text += &format!(": {}", code(found.excerpt, QUOTE));
        }
        text.push('\n');
    }
    for name in &scan.repeated {
        text += &format!("- {} is the name of several tools\n", code(name, NAME));
    }
    text
}

/// What was found, in our words; some of them quote the server's.
fn kinds(kinds: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == ',';
    let written = kinds.iter().map(|kind| {
        if kind.chars().all(is_plain) { (*kind).to_owned() } else { code(kind, QUOTE) }
    });
    written.collect::<Vec<_>>().join(", ")
}

fn tools(scan: &Scan) -> String {
    if scan.tools.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n### Tools\n\n| tool | category | risk | tokens | why |\n| --- | --- | --- | ---: | --- |\n",
    );
    for tool in &scan.tools {
        let of = &tool.assessment;
        let why = of.reasons.first().map_or("nothing in its definition says".to_owned(), |one| {
            format!("{}: {}", one.text, code(&one.at.quote, 40))
        });
        text += &format!(
            "| {} | {} | {} | {} | {why} |\n",
            code(&tool.name, NAME),
            of.category,
            of.risk,
            tool.tokens
        );
    }
    text
}

fn attacks(scan: &Scan) -> String {
    let bearing = bearing(scan);
    if bearing.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n### Attacks known on such tools\n\n");
    for one in bearing.iter().take(MOST_ATTACKS) {
        let attack = one.attack;
        text +=
            &format!("- **{}** ({}): {} {}\n", attack.title, one.ids(), attack.text, attack.stops);
    }
    text
}

fn next(scan: &Scan, hold: &Hold) -> String {
    if scan.tools.is_empty() {
        return String::new();
    }
    let effect: String = scan.policy().effect.iter().map(|line| format!("- {line}\n")).collect();
    let commands = [code(&hold.policy, usize::MAX), code(&hold.wrap, usize::MAX)];
    let commands = commands.map(|command| format!("1. {command}\n")).concat();
    format!("\n### To hold it\n\n{commands}\nThe policy to start from:\n\n{effect}")
}

/// A text as a code span that nothing in it can end.
fn code(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Within a table no bar can be told from one that ends the cell.
    let line = fitted(&visible(&line), most).replace('|', "¦");
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
    fn nothing_leaves_its_code_span() {
        let check = |text: &str, expected: &str| assert_eq!(code(text, 40), expected);
        check("plain", "`plain`");
        check("a`b``c", "``` a`b``c ```");
        check("| x |\n# y", "`¦ x ¦ # y`");
        check("<img src=x> @everyone\u{1b}[2J", "`<img src=x> @everyone\\u{1b}[2J`");
        check(" ", "(nothing)");
    }
}
