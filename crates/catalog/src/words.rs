//! Tokenizes names and descriptions for the full-text index.
//!
//! Words are split here rather than by SQLite, because names are also split at
//! capitals, and because queries and indexed text must be split in the same way.
//! SQLite then sees words of letters and digits with blanks between them.
//!
//! INVARIANT: rows are removed from the index with the words that this module
//! generates for a tool. A change here needs another `layout::VERSION` and a new
//! index.

use sluice_classify::{Category, SignalKind};

use crate::bits::{Signals, code, signal_code};

/// Bytes of a description that are indexed.
const SEARCHED: usize = 600;
/// The longest word, in bytes.
const LONGEST_WORD: usize = 60;

/// The prefix of the index word for a tool's whole name.
const WHOLE_NAME: char = '\u{e200}';

/// Adds the words of a text.
pub(crate) fn add(text: &str, out: &mut String) {
    for_each(text, |word| {
        out.push_str(word);
        out.push(' ');
    });
}

/// Calls `with` for each word of a text: runs of letters and digits in lower case, also split
/// before a capital that follows a lower-case letter. In scripts without blanks between words, each
/// character is a word.
fn for_each(text: &str, mut with: impl FnMut(&str)) {
    let mut word = String::new();
    let mut previous_small = false;
    for character in text.chars() {
        let in_word = is_of_word(character);
        let alone = is_written_without_blanks(character);
        let begins = previous_small && character.is_uppercase();
        if (alone || begins || !in_word) && !word.is_empty() {
            with(&word);
            word.clear();
        }
        if !in_word || word.len() >= LONGEST_WORD {
            previous_small = false;
            continue;
        }
        previous_small = !character.is_uppercase();
        if character.is_ascii() {
            word.push(character.to_ascii_lowercase());
        } else {
            word.extend(character.to_lowercase().filter(|small| is_of_word(*small)));
        }
        if alone {
            with(&word);
            word.clear();
        }
    }
    if !word.is_empty() {
        with(&word);
    }
}

/// The words of a text.
pub(crate) fn of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for_each(text, |word| found.push(word.to_owned()));
    found
}

fn is_of_word(character: char) -> bool {
    // Characters of the private use area are reserved for our marks.
    character.is_alphanumeric() && !('\u{e000}'..='\u{f8ff}').contains(&character)
}

/// Chinese, Japanese and Korean.
fn is_written_without_blanks(character: char) -> bool {
    !character.is_ascii()
        && matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        && character.is_alphanumeric()
}

/// The index words of a tool: from its name, its server and its traits.
pub(crate) fn of_tool(
    server: &str,
    tool: &str,
    description: Option<&str>,
    category: Category,
    signals: Signals,
) -> String {
    let mut text = String::with_capacity(64);
    text.push(category_mark(category));
    text.push(' ');
    for kind in signals.kinds() {
        text.push(signal_mark(kind));
        text.push(' ');
    }
    text.push(WHOLE_NAME);
    for_each(tool, |word| text.push_str(word));
    text.push(' ');
    add(tool, &mut text);
    add(server, &mut text);
    add(beginning(description.unwrap_or_default()), &mut text);
    text
}

/// The index word for a whole name that consists of exactly these words, however they are joined.
pub(crate) fn whole_name(words: &[String]) -> String {
    format!("{WHOLE_NAME}{}", words.concat())
}

/// The index words of a server.
pub(crate) fn of_server(name: &str, description: Option<&str>) -> String {
    let mut text = String::with_capacity(64);
    add(name, &mut text);
    add(beginning(description.unwrap_or_default()), &mut text);
    text
}

fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SEARCHED)).unwrap_or_default()
}

/// The index word of a category.
pub(crate) fn category_mark(category: Category) -> char {
    mark(0, code(&Category::ALL, &category))
}

/// The index word of a signal.
pub(crate) fn signal_mark(kind: SignalKind) -> char {
    mark(1, signal_code(kind))
}

fn mark(of: u32, code: u32) -> char {
    char::from_u32(0xe000 + of * 0x100 + code).unwrap_or('\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_are_split_into_words() {
        for (name, expected) in [
            ("createPullRequest", "create pull request"),
            ("get_S3-object.v2", "get s3 object v2"),
            ("HTTPRequest", "httprequest"),
            ("长亭 IP 情报", "长 亭 ip 情 报"),
            ("Größe", "größe"),
            ("a\u{e000}b\u{0}\"*", "a b"),
            ("", ""),
        ] {
            assert_eq!(of(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn words_are_bounded() {
        assert!(of(&"x".repeat(10_000)).iter().all(|word| word.len() <= 64));
    }
}
