//! Keys that some other program would take for the key that matters.
//!
//! A server may compare names without case, trim them, or stop at a NUL. A
//! message that holds `Amount` beside a governed `amount` could be judged by one
//! and executed by the other, so callers refuse it.

use std::borrow::Cow;

use unicase::UniCase;

/// A name that matters, prepared for comparing many keys with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governed {
    name: Box<str>,
    folded: Box<str>,
}

impl Governed {
    /// Prepares `name`.
    pub fn new(name: &str) -> Self {
        Governed { name: name.into(), folded: fold(name).into() }
    }

    /// The name itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `key` is another key that equals this name after case folding,
    /// trimming and removing NULs.
    pub fn resembles(&self, key: &str) -> bool {
        if key == &*self.name {
            return false;
        }
        // Nearly every key is plain ASCII of another length; folding ASCII
        // changes no lengths, so that is settled without looking further.
        let plain = key.is_ascii()
            && !key.contains('\0')
            && !key.starts_with(char::is_whitespace)
            && !key.ends_with(char::is_whitespace);
        if plain { key.eq_ignore_ascii_case(&self.folded) } else { fold(key) == *self.folded }
    }
}

/// `name` without NULs, trimmed, with Unicode case folded.
fn fold(name: &str) -> String {
    let without_nul: Cow<'_, str> =
        if name.contains('\0') { name.replace('\0', "").into() } else { name.into() };
    UniCase::new(without_nul.trim()).to_folded_case()
}

#[cfg(test)]
mod tests {
    use super::Governed;

    fn check(governed: &str, key: &str, expected: bool) {
        assert_eq!(Governed::new(governed).resembles(key), expected, "{governed:?} / {key:?}");
    }

    #[test]
    fn the_name_itself_is_not_its_own_look_alike() {
        check("amount", "amount", false);
        check("Straße", "Straße", false);
    }

    #[test]
    fn case_blanks_and_nuls_make_look_alikes() {
        for key in ["Amount", "AMOUNT", " amount", "amount\t", "amount\0", "\0 aMount \u{a0}\0"] {
            check("amount", key, true);
        }
        check("Amount", "amount", true);
        check("straße", "STRASSE", true);
        check("start", "\u{17f}tart", true);
        check("\u{17f}tart", "start", true);
        check("kelvin", "\u{212a}elvin", true);
    }

    #[test]
    fn other_keys_do_not() {
        for key in ["amounts", "mount", "", "am ount", "a", "аmount"] {
            check("amount", key, false);
        }
    }
}
