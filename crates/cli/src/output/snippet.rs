//! Shows a problem in its context, with line and column.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use sluice_classify::steers;
use sluice_policy::Problem;
use terminal_size::Width;

use super::visible;

/// The problem, its line with a caret, and the hint.
pub(crate) fn problem(file: &str, text: &[u8], problem: &Problem) -> String {
    draw(Level::ERROR, file, text, problem)
}

/// A warning in the same form.
pub(crate) fn warning(file: &str, text: &[u8], warning: &Problem) -> String {
    draw(Level::WARNING, file, text, warning)
}

fn draw(level: Level<'_>, file: &str, text: &[u8], problem: &Problem) -> String {
    let (line, caret) = line_of(text, problem.bytes.clone());
    let title = visible(&problem.message);
    let hint = problem.hint.as_deref().map(visible);
    let file = visible(file);
    let snippet = Snippet::source(line)
        .path(&file)
        .line_start(problem.line)
        .annotation(AnnotationKind::Primary.span(caret));
    let group = level.primary_title(&title).element(snippet);
    let report = match &hint {
        Some(hint) => vec![group.element(Level::HELP.message(hint))],
        None => vec![group],
    };
    let renderer = match terminal_size::terminal_size() {
        Some((Width(width), _)) => Renderer::styled().term_width(usize::from(width)),
        None => Renderer::styled(),
    };
    format!("{}\n\n", renderer.render(&report))
}

/// The line on which a range begins, and the part of the range on that line: a problem with a whole
/// object does not print all of it.
fn line_of(text: &[u8], range: Range<usize>) -> (String, Range<usize>) {
    let start = range.start.min(text.len());
    let (before, after) = text.split_at_checked(start).unwrap_or((text, &[]));
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let line_end = start + after.iter().position(|byte| *byte == b'\n').unwrap_or(after.len());
    let end = range.end.clamp(start, line_end);
    let [head, marked, tail] =
        [line_start..start, start..end, end..line_end].map(|part| harmless(text, part));
    let caret = head.len()..head.len() + marked.len();
    (head + &marked + &tail, caret)
}

/// A part of the text with control characters replaced, one character for one.
fn harmless(text: &[u8], part: Range<usize>) -> String {
    let replaced = |character| match character {
        '\t' => '\t',
        steering if steers(steering) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    String::from_utf8_lossy(text.get(part).unwrap_or_default()).chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn only_the_line_of_the_problem_is_shown() {
        let (line, caret) = line_of(b"one\ntwo {\nthree }\n", 8..17);
        assert_eq!((line.as_str(), caret), ("two {", 4..5));
        let (line, caret) = line_of(b"", 0..0);
        assert_eq!((line.as_str(), caret), ("", 0..0));
    }
}
