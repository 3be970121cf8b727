//! Values without quotes, the most frequent mistake in TOML: says what to type instead.

use std::ops::Range;

use toml::de::DeTable;

/// One mistake in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unquoted {
    /// The value, in the whole text.
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) hint: String,
}

/// Explains the value in the line at `place`, if that is what its syntax error comes from. The hint
/// repeats the value unless `is_secret`.
pub(super) fn explain(text: &str, place: usize, is_secret: bool) -> Option<Unquoted> {
    let start = text.get(..place)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?;
    let (key, value) = line.split_once('=')?;
    if key.trim().is_empty() || !parses(&format!("{key} = 0")) {
        return None;
    }
    let offset = start + key.len() + 1 + (value.len() - value.trim_start().len());
    let (key, value) = (key.trim(), cut_comment(value).trim());
    let span = offset..offset + value.len();
    if value.is_empty() {
        let message = format!("`{key}` has no value");
        let hint = format!("write one, such as `{key} = \"…\"`, or take the line away");
        return Some(Unquoted { span, message, hint });
    }
    let (message, typed) = correct(value)?;
    if !parses(&format!("x = {typed}")) {
        return None;
    }
    let is_text = typed.contains('"');
    let typed = if is_secret && is_text { mask(value) } else { typed };
    let hint = format!("write `{key} = {typed}`");
    Some(Unquoted { span, message: message.into(), hint })
}

/// What is wrong with a value, and how to write it.
fn correct(value: &str) -> Option<(&'static str, String)> {
    const QUOTES: &str = "text must be quoted";
    if parses(&format!("x = {value}")) {
        return None;
    }
    if let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let items = items
            .map(|item| if parses(&format!("x = {item}")) { item.to_owned() } else { quote(item) });
        return Some((QUOTES, format!("[{}]", items.collect::<Vec<_>>().join(", "))));
    }
    match value.to_lowercase().as_str() {
        "yes" | "on" | "true" => return Some(("a switch is `true` or `false`", "true".into())),
        "no" | "off" | "false" => return Some(("a switch is `true` or `false`", "false".into())),
        _ => {}
    }
    if value.starts_with(['“', '”', '„', '‘', '’', '«', '`']) {
        return Some(("quotes must be straight: `\"`", quote(value)));
    }
    (!value.starts_with(['"', '\'', '[', '{'])).then(|| (QUOTES, quote(value)))
}

/// The text in straight quotes.
fn quote(text: &str) -> String {
    let bare = text.trim_matches(['“', '”', '„', '‘', '’', '«', '»', '`', '"', '\'']);
    format!("\"{bare}\"")
}

/// Only the scheme of a URL is shown.
fn mask(value: &str) -> String {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| value.starts_with(scheme));
    format!("\"{}…\"", scheme.unwrap_or_default())
}

/// A value without the comment behind it. A `#` within a word may belong to the text.
fn cut_comment(value: &str) -> &str {
    value.split_once(" #").map_or(value, |(value, _)| value)
}

fn parses(text: &str) -> bool {
    DeTable::parse_recoverable(text).1.is_empty()
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[track_caller]
    fn check(line: &str, is_secret: bool, expected: &str) {
        let text = format!("a = 1\n{line}\nb = 2\n");
        let found = explain(&text, 6 + line.len(), is_secret);
        let said = found.map(|one| format!("{}: {}", one.message, one.hint));
        assert_eq!(said.as_deref().unwrap_or("nothing"), expected, "{line}");
    }

    #[test]
    fn a_value_without_quotes_is_shown_with_them() {
        check(
            "listen = 127.0.0.1:80",
            false,
            "text must be quoted: write `listen = \"127.0.0.1:80\"`",
        );
        check("a = 30s  # note", false, "text must be quoted: write `a = \"30s\"`");
        check("a.b=./x", false, "text must be quoted: write `a.b = \"./x\"`");
        check("url = https://a/b?k=c", true, "text must be quoted: write `url = \"https://…\"`");
        check("token = sg_abc", true, "text must be quoted: write `token = \"…\"`");
        check(
            "c = [npx, \"-y\", 5]",
            false,
            "text must be quoted: write `c = [\"npx\", \"-y\", 5]`",
        );
        check("a = “b”", false, "quotes must be straight: `\"`: write `a = \"b\"`");
        check("a = True", true, "a switch is `true` or `false`: write `a = true`");
        check(
            "a =",
            false,
            "`a` has no value: write one, such as `a = \"…\"`, or take the line away",
        );
    }

    #[test]
    fn other_mistakes_are_not_explained_so() {
        for line in ["a = \"b", "a b = c", "a", "= 5", "a = { b = c }", "a = 1", "a = c\"d"] {
            check(line, false, "nothing");
        }
    }
}
