//! Quotes words for a shell.

/// Quotes a word so that a shell reads it as one word.
pub(crate) fn quote_for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quote_for_shell;

    #[test]
    fn quoted_words_stay_one_word() {
        assert_eq!(quote_for_shell("@a/notes@1.0"), "@a/notes@1.0");
        assert_eq!(quote_for_shell("it's"), r"'it'\''s'");
        assert_eq!(quote_for_shell("***"), "'***'");
        assert_eq!(quote_for_shell(""), "''");
    }
}
