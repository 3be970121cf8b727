//! Names of servers, policies and grants.

use std::fmt;

/// A name: 1 to 32 lower-case letters, digits and hyphens, with no hyphen at
/// either end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// The text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a valid name: use 1 to 32 lower-case letters, digits and hyphens, no hyphen at either end{}",
    suggest(.text)
)]
pub struct NameError {
    text: String,
}

/// A valid name that is like the text, if there is one.
fn suggest(text: &str) -> String {
    let fit = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9') => letter,
        _ => '-',
    };
    let name: String = text.chars().map(fit).collect();
    let name = name.trim_matches('-');
    if name != text && Name::new(name).is_ok() {
        format!(", such as `{name}`")
    } else {
        String::new()
    }
}

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
            Err(NameError { text: text.chars().take(64).collect() })
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
        for (text, name) in [("My Laptop", "my-laptop"), ("a_b", "a-b"), ("Readers", "readers")] {
            let said = Name::new(text).unwrap_err().to_string();
            assert!(said.ends_with(&format!(", such as `{name}`")), "{said}");
        }
        assert!(Name::new("---").unwrap_err().to_string().ends_with("at either end"));
    }
}
