//! Words as they are typed to a shell.

/// A word as a shell takes it for one.
pub(crate) fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn words_stay_one_word() {
        assert_eq!(typed("@a/notes@1.0"), "@a/notes@1.0");
        assert_eq!(typed("it's"), r"'it'\''s'");
        assert_eq!(typed("***"), "'***'");
        assert_eq!(typed(""), "''");
    }
}
