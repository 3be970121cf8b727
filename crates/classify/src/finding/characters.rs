//! Invisible characters, which a model reads but a person does not see.

/// The first run of hidden characters in a text.
pub(super) fn find_hidden(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find(is_hidden)?;
        let rest = text.get(start..)?;
        let length = rest.find(|c| !is_hidden(c)).unwrap_or(rest.len());
        from = start + length;
        // A single joiner only changes how its neighbours are drawn; it hides nothing.
        if !matches!(rest.get(..length), Some("\u{200d}" | "\u{200c}")) {
            return Some((start, from));
        }
    }
}

/// Whether a text has characters that a model reads and a person does not see.
pub fn has_hidden(text: &str) -> bool {
    find_hidden(text).is_some()
}

/// The text without its hidden characters, and without the rest of the terminal sequences that
/// they begin.
pub fn strip_hidden(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((start, end)) = find_hidden(rest) {
        let (before, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        kept.push_str(before.get(..start).unwrap_or_default());
        rest = if before.ends_with(['\u{1b}', '\u{9b}']) {
            after_sequence(before.ends_with('\u{1b}'), after)
        } else {
            after
        };
    }
    kept.push_str(rest);
    kept
}

/// What follows a control sequence such as `[31m`, if one begins the text.
fn after_sequence(has_bracket: bool, text: &str) -> &str {
    let body = if has_bracket { text.strip_prefix('[') } else { Some(text) };
    let Some(body) = body else { return text };
    let parameters = body.find(|c| !matches!(c, ' '..='?')).unwrap_or(body.len());
    let end = body.get(parameters..).unwrap_or_default();
    end.strip_prefix(|c| matches!(c, '@'..='~')).unwrap_or(end)
}

fn is_hidden(c: char) -> bool {
    is_unseen(c) || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// Whether a character is invisible on a screen, or reorders others.
pub fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e01ef}'
    )
}

#[cfg(test)]
mod tests {
    use super::{find_hidden, strip_hidden};

    fn check(text: &str, expected: Option<(usize, usize)>) {
        assert_eq!(find_hidden(text), expected, "{text:?}");
    }

    #[test]
    fn hidden_characters_are_found_with_their_position() {
        check("a\u{200b}\u{200b}b", Some((1, 7)));
        check("safe\u{202e}txt", Some((4, 7)));
        check("tag \u{e0041}\u{e0042}", Some((4, 12)));
        check("bell \u{7}", Some((5, 6)));
        check("\u{1b}[31mred", Some((0, 1)));
    }

    #[test]
    fn hidden_characters_are_removed() {
        let check =
            |text: &str, expected: &str| assert_eq!(strip_hidden(text), expected, "{text:?}");
        check("a\u{200b}\u{200b}b\u{e0041}c", "abc");
        check("\u{1b}[31;1mred\u{1b}[0m and \u{9b}2Jrest\u{1b}", "red and rest");
        check("\u{1b}[12", "");
        check("family: \u{1f468}\u{200d}\u{1f469}\n", "family: \u{1f468}\u{200d}\u{1f469}\n");
        check("a\u{200d}\u{200b}b", "ab");
    }

    #[test]
    fn plain_text_and_emoji_have_no_hidden_characters() {
        check("two\nlines\tand a tab\r\n", None);
        check("family: \u{1f468}\u{200d}\u{1f469}", None);
        check("übung, 学习, नमस्ते", None);
        check("\u{1f468}\u{200d}\u{1f469}\u{200b}", Some((11, 14)));
        check(&"a\u{200d}".repeat(1 << 18), None);
    }
}
