//! Splits names and texts into words with their positions.
//!
//! Words are folded to lower case in a fixed buffer, so that scanning a text
//! allocates nothing; a word too long for the buffer cannot be in the lexicon.

/// The longest word that is looked up, in bytes.
const LONGEST: usize = 32;
/// The maximum number of words examined in a name.
const MOST_IN_NAME: usize = 24;

/// A word, folded to lower case, with its position in the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    bytes: [u8; LONGEST],
    length: u8,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Word {
    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Folds a word; empty if it is too long to be in the lexicon.
    fn fold(text: &str, start: usize) -> Word {
        let mut word = Word {
            bytes: [0; LONGEST],
            length: 0,
            start: place(start),
            end: place(start + text.len()),
        };
        let mut length = 0;
        for c in text.chars().flat_map(char::to_lowercase) {
            let mut encoded = [0; 4];
            let encoded = c.encode_utf8(&mut encoded).as_bytes();
            let Some(room) = word.bytes.get_mut(length..length + encoded.len()) else {
                return Word { length: 0, ..word };
            };
            room.copy_from_slice(encoded);
            length += encoded.len();
        }
        word.length = u8::try_from(length).unwrap_or(0);
        word
    }
}

/// A byte offset. The JSON parser limits texts to far below 4 GiB.
pub(crate) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The words of an identifier, split at characters that are neither letters nor digits, and where
/// upper case begins (`getHTTPLog` is get, http, log).
pub(crate) fn of_name(name: &str) -> impl Iterator<Item = Word> + '_ {
    let mut rest = name.char_indices().peekable();
    let mut after_rest = name.chars();
    after_rest.next();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, c)| !c.is_alphanumeric()).is_some() {
            after_rest.next();
        }
        let (start, first) = rest.next()?;
        let mut previous = first;
        let mut end = start + first.len_utf8();
        loop {
            after_rest.next();
            let Some(&(at, c)) = rest.peek() else { break };
            let begins_word = c.is_uppercase()
                && (previous.is_lowercase()
                    || (previous.is_uppercase()
                        && after_rest.clone().next().is_some_and(char::is_lowercase)));
            if !c.is_alphanumeric() || begins_word {
                break;
            }
            end = at + c.len_utf8();
            previous = c;
            rest.next();
        }
        Some(Word::fold(name.get(start..end).unwrap_or_default(), start))
    })
    .take(MOST_IN_NAME)
}

/// The separator between a word of a sentence and the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    Space,
    /// A comma or a slash: the words on both sides are of the same kind.
    Enumeration,
    /// A colon after a heading, as in `WORKFLOW: …`.
    Colon,
}

/// The words of a text's first sentence, at most `most`.
pub(crate) fn of_sentence(text: &str, most: usize) -> impl Iterator<Item = (Gap, Word)> + '_ {
    let mut at = 0;
    let mut seen = 0;
    std::iter::from_fn(move || {
        let mut gap = Gap::Space;
        let rest = text.get(at..)?;
        let mut chars = rest.char_indices().peekable();
        let start = loop {
            let (offset, c) = chars.next()?;
            if c.is_alphanumeric() {
                break offset;
            }
            let next = chars.peek().map(|(_, next)| *next);
            match c {
                '.' | '!' | '?' if seen > 0 && next.is_none_or(char::is_whitespace) => return None,
                '。' | '！' | '？' if seen > 0 => return None,
                '\n' if seen > 2 => return None,
                ',' | '/' | '、' | '|' | '&' | ';' => gap = Gap::Enumeration,
                ':' | '：' => gap = Gap::Colon,
                _ => {}
            }
        };
        let word = rest.get(start..)?;
        let length = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
        let folded = Word::fold(word.get(..length)?, at + start);
        at += start + length;
        seen += 1;
        Some((gap, folded))
    })
    .take(most)
}

/// Calls `look` with each possible stem of `word` until one is known: the word itself, then without
/// the endings of English verbs and plurals.
pub(crate) fn stems<T>(word: &str, mut look: impl FnMut(&str) -> Option<T>) -> Option<T> {
    if let Some(found) = look(word) {
        return Some(found);
    }
    if let Some(stem) = word.strip_suffix("ing") {
        return bare_or_with_e(stem, look);
    }
    if let Some(stem) = word.strip_suffix("ies") {
        return with_ending(stem, "y", look);
    }
    if let Some(found) = word.strip_suffix("es").and_then(&mut look) {
        return Some(found);
    }
    word.strip_suffix('s').and_then(look)
}

/// Tries a stem as it is, with an `e`, and without a doubled last letter.
pub(crate) fn bare_or_with_e<T>(stem: &str, mut look: impl FnMut(&str) -> Option<T>) -> Option<T> {
    if stem.len() < 2 {
        return None;
    }
    if let Some(found) = look(stem) {
        return Some(found);
    }
    if let Some(found) = with_ending(stem, "e", &mut look) {
        return Some(found);
    }
    let mut backwards = stem.chars().rev();
    let doubled = backwards.next() == backwards.next();
    if doubled { look(backwards_trimmed(stem)) } else { None }
}

fn backwards_trimmed(stem: &str) -> &str {
    let mut chars = stem.chars();
    chars.next_back();
    chars.as_str()
}

fn with_ending<T>(stem: &str, ending: &str, mut look: impl FnMut(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; LONGEST + 4];
    let length = stem.len() + ending.len();
    let room = bytes.get_mut(..length)?;
    let (front, back) = room.split_at_mut_checked(stem.len())?;
    front.copy_from_slice(stem.as_bytes());
    back.copy_from_slice(ending.as_bytes());
    look(std::str::from_utf8(bytes.get(..length)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::{Gap, of_name, of_sentence, stems};

    fn check_name(name: &str, expected: &[&str]) {
        let found: Vec<String> = of_name(name).map(|word| word.as_str().to_owned()).collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn names_are_split_at_signs_and_at_upper_case() {
        check_name("delete_repo", &["delete", "repo"]);
        check_name("getHTTPLog", &["get", "http", "log"]);
        check_name("github.delete-Issue/2", &["github", "delete", "issue", "2"]);
        check_name("d1_database_query", &["d1", "database", "query"]);
        check_name("EliminarAñoNuevo", &["eliminar", "año", "nuevo"]);
        check_name("DELETE_ALL", &["delete", "all"]);
        check_name("__", &[]);
        check_name("", &[]);
    }

    #[test]
    fn words_have_their_position() {
        let places: Vec<(u32, u32)> = of_name("_ñoDrop_x").map(|w| (w.start, w.end)).collect();
        assert_eq!(places, [(1, 4), (4, 8), (9, 10)]);
    }

    #[test]
    fn a_sentence_ends_at_its_stop() {
        let words: Vec<(Gap, String)> = of_sentence("Create, v1.2 or drop. Never mind", 20)
            .map(|(gap, word)| (gap, word.as_str().to_owned()))
            .collect();
        let expected = [
            (Gap::Space, "create"),
            (Gap::Enumeration, "v1"),
            (Gap::Space, "2"),
            (Gap::Space, "or"),
            (Gap::Space, "drop"),
        ];
        assert_eq!(words, expected.map(|(gap, word)| (gap, word.to_owned())));
    }

    #[test]
    fn endings_of_words_are_removed() {
        for (word, stem) in [
            ("creating", "create"),
            ("running", "run"),
            ("deletes", "delete"),
            ("copies", "copy"),
            ("pushes", "push"),
            ("adding", "add"),
            ("drop", "drop"),
        ] {
            let known = ["create", "run", "delete", "copy", "push", "add", "drop"];
            let found = stems(word, |form| known.contains(&form).then(|| form.to_owned()));
            assert_eq!(found.as_deref(), Some(stem), "{word}");
        }
    }
}
