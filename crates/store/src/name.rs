//! Names of servers, policies and grants.

use std::fmt;

/// A name: 1 to 32 lower-case letters, digits and hyphens, with no hyphen at
/// either end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// The text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name: use 1 to 32 lower-case letters, digits and hyphens, no hyphen at either end"
)]
pub struct NameError(String);

impl Name {
    /// Checks a name.
    pub fn new(text: &str) -> Result<Name, NameError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (1..=32).contains(&text.len())
            && text.bytes().all(fits)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if is_name {
            Ok(Name(text.into()))
        } else {
            Err(NameError(text.chars().take(64).collect()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn only_valid_names_are_accepted() {
        let longest = "a".repeat(32);
        for name in ["a", "7", "pharo-dev", "a--b", &longest] {
            assert!(Name::new(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(33);
        for text in ["", "-a", "a-", "A", "a_b", "a.b", "é", "a b", "a\0", &too_long] {
            assert!(Name::new(text).is_err(), "{text}");
        }
    }
}
