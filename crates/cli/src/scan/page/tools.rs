//! The tools of a scan, by category, the most dangerous first.

use sluice_classify::{Category, Part, Risk, SignalKind};
use sluice_scan::{Scan, Scanned};

use super::{Manner, colour, glyph, safe_name};
use crate::output::{BAD, FAINT, Screen, count_noun, fit, thousands, visible, wide};

/// Lines of the page besides the tools, on tall and on small screens.
const AROUND: usize = 23;
const AROUND_SMALL: usize = 17;
/// The minimum number of lines for a group of tools that do more than read.
const FEWEST: usize = 4;
/// The most names that fit on a line.
const NAMED: usize = 20;
/// The confidence in percent below which doubt is shown.
const DOUBTFUL: u8 = 60;

/// All groups.
pub(super) fn draw_groups(scan: &Scan, manner: Manner) -> Vec<String> {
    let groups = scan.groups();
    let Screen { width, height } = manner.screen;
    let is_small = manner.is_small();
    let widths = Widths::of(scan, width);
    let around = if is_small { AROUND_SMALL + groups.len() } else { AROUND + 2 * groups.len() };
    let mut left = if manner.all { usize::MAX } else { height.saturating_sub(around) };
    let mut lines = vec![String::new()];
    lines.extend((!is_small).then(|| widths.head()));
    for (index, (category, tools)) in groups.iter().enumerate() {
        // Each later group needs at least one line.
        let later = groups.len() - index - 1;
        let fewest = if is_harmless(*category) { 1 } else { FEWEST };
        let room = left.saturating_sub(later).max(fewest);
        // Tools with findings come first, and are never folded.
        let marked = tools.iter().take_while(|tool| !tool.findings.is_empty()).count();
        let most = if tools.len() <= room { tools.len() } else { marked.max(room - 1) };
        left = left.saturating_sub(room.min(tools.len()).max(most));
        let (own, rest) = tools.split_at(most);
        if index > 0 && !is_small {
            lines.push(String::new());
        }
        lines.push(heading(*category, tools.len(), width));
        lines.extend(own.iter().map(|tool| line(tool, &widths)));
        lines.extend(fold_names(rest, width));
    }
    lines
}

fn is_harmless(category: Category) -> bool {
    matches!(category, Category::Read | Category::Other)
}

/// The category, its risk, and its treatment in the suggested policy.
fn heading(category: Category, number: usize, width: usize) -> String {
    let style = colour(category);
    let risk = Risk::from(category);
    let title = format!("{} {}", glyph(category), category.name());
    let rest = format!(
        "{risk} risk · {} · suggested: {}",
        count_noun(number, "tool"),
        treatment(category)
    );
    let rest = fit(&rest, width.saturating_sub(wide(&title) + 3));
    format!("{style}{title}{style:#} · {rest}")
}

/// How the suggested policy treats a category, in a few words.
fn treatment(category: Category) -> &'static str {
    match category {
        Category::Read => "allowed",
        Category::Write => "30 calls a minute",
        Category::Execute => "10 calls a minute, arguments checked",
        Category::Destructive => "hidden",
        Category::Financial => "refused, waits for approval",
        Category::Other => "60 calls a minute",
    }
}

/// The width of each column.
struct Widths {
    name: usize,
    tokens: usize,
    signals: usize,
    why: usize,
}

impl Widths {
    fn of(scan: &Scan, width: usize) -> Widths {
        let widest = |of: &dyn Fn(&Scanned) -> usize| scan.tools.iter().map(of).max().unwrap_or(0);
        let name = widest(&|tool| wide(&safe_name(&tool.name, width))).min(width * 3 / 8);
        let tokens = widest(&|tool| thousands(tool.tokens).len()).max("TOKENS".len());
        let signals = widest(&|tool| marks(tool).len()).min(width / 5);
        let signals = if signals == 0 { 0 } else { signals.max("TAKES".len()) };
        // Two blanks before each column, and the sign of a finding.
        let taken = 2 + name + 2 + tokens + 2 + if signals == 0 { 0 } else { signals + 2 };
        Widths { name, tokens, signals, why: width.saturating_sub(taken) }
    }

    /// The column headings.
    fn head(&self) -> String {
        let Widths { name, tokens, signals, .. } = *self;
        let takes = if signals == 0 { String::new() } else { format!("{:<signals$}  ", "TAKES") };
        format!("{FAINT}  {:<name$}  {:>tokens$}  {takes}WHY{FAINT:#}", "TOOL", "TOKENS")
    }
}

fn line(tool: &Scanned, widths: &Widths) -> String {
    let Widths { name: places, tokens, signals, why } = *widths;
    let name = safe_name(&tool.name, places);
    let gap = " ".repeat(places.saturating_sub(wide(&name)));
    let (mark, style) =
        if tool.findings.is_empty() { (' ', anstyle::Style::new()) } else { ('!', BAD) };
    let cost = format!("{:>tokens$}", thousands(tool.tokens));
    let marks = match signals {
        0 => String::new(),
        most => format!("{:<most$}  ", fit(&marks(tool), most)),
    };
    let why = fit(&reason(tool), why);
    let line = format!("{style}{mark} {name}{style:#}{gap}  {FAINT}{cost}{FAINT:#}  {marks}{why}");
    line.trim_end().to_owned()
}

/// The data that a tool takes or reaches, in short words.
fn marks(tool: &Scanned) -> String {
    let words = tool.assessment.signals.iter().map(|signal| match signal.kind {
        SignalKind::FreeFormCode => "code",
        SignalKind::Url => "url",
        SignalKind::FilePath => "path",
        SignalKind::Credentials => "secret",
        SignalKind::Bulk => "bulk",
        SignalKind::Admin => "admin",
        SignalKind::OpenWorld => "outside",
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The best reason, starting with the words that it is based on.
fn reason(tool: &Scanned) -> String {
    if !tool.findings.is_empty() {
        return "suggested: hidden".into();
    }
    let doubt = if tool.assessment.confidence.percent() < DOUBTFUL { "unsure: " } else { "" };
    match tool.assessment.reasons.first() {
        // The text of a hint comes from the protocol, so it is not quoted.
        Some(reason) if reason.at.part == Part::Hint => format!("{doubt}{}", reason.text),
        Some(reason) => {
            let quote = reason.at.quote.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{doubt}“{}”: {}", fit(&visible(&quote), 24), reason.text)
        }
        None => "nothing in its definition says".into(),
    }
}

/// One line of names for the tools without their own line.
fn fold_names(tools: &[&Scanned], width: usize) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    let names = tools.iter().take(NAMED).map(|tool| safe_name(&tool.name, width));
    let names = names.collect::<Vec<_>>().join(", ");
    let tokens: usize = tools.iter().map(|tool| tool.tokens).sum();
    let rest = format!(" ({} tokens; --all lists them)", thousands(tokens));
    let names = fit(&names, width.saturating_sub(2 + wide(&rest)));
    Some(format!("  {names}{FAINT}{rest}{FAINT:#}"))
}
