//! A problem drawn at its place in the text.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use sluice_policy::Problem;

use super::visible;

/// The problem, the line it stands on with a caret, and what to do about it.
pub(crate) fn problem(file: &str, text: &[u8], problem: &Problem) -> String {
    // Lossy text is as long as the original up to the first bad byte, and a
    // problem with the encoding is reported at that byte.
    let source = String::from_utf8_lossy(text);
    let span = within_line(&source, problem.bytes.clone());
    let title = visible(&problem.message);
    let hint = problem.hint.as_deref().map(visible);
    let file = visible(file);
    let group = Level::ERROR.primary_title(&title).element(
        Snippet::source(&*source).path(&file).annotation(AnnotationKind::Primary.span(span)),
    );
    let report = match &hint {
        Some(hint) => vec![group.element(Level::HELP.message(hint))],
        None => vec![group],
    };
    format!("{}\n\n", Renderer::styled().render(&report))
}

/// The part of a range on its first line, so that a problem with a whole object
/// does not print all of it.
fn within_line(source: &str, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let start = range.start.min(source.len());
    let rest = source.get(start..).unwrap_or_default();
    let line_end = start + rest.find('\n').unwrap_or(rest.len());
    start..range.end.clamp(start, line_end)
}
