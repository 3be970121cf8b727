//! Look-alike keys: keys that another program might confuse with a governed key.
//!
//! A server may compare names without case, trim them, drop NULs or stop at one. In a message with
//! both `Amount` and a governed `amount`, the policy might check one and the server use the other,
//! so callers refuse it.

/// A governed name, prepared for comparing many keys with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governed {
    name: Box<str>,
    folded: Box<str>,
}

impl Governed {
    /// Prepares `name`.
    pub fn new(name: &str) -> Self {
        Governed { name: name.into(), folded: fold(name).collect() }
    }

    /// The name itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `key` is another key that equals this name after case folding,
    /// trimming, and removing NULs or cutting the key at the first of them.
    pub fn resembles(&self, key: &str) -> bool {
        if key == &*self.name {
            return false;
        }
        // Most keys start with another letter, and folding keeps ASCII as ASCII.
        let (first, own) = (key.bytes().next(), self.folded.bytes().next());
        if first
            .is_some_and(|byte| byte.is_ascii_graphic() && Some(byte.to_ascii_lowercase()) != own)
        {
            return false;
        }
        // Nearly all other keys are plain ASCII of another length. Folding ASCII changes no
        // lengths, so these cannot be equal.
        let plain = key.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && !key.starts_with(' ')
            && !key.ends_with(' ');
        if plain {
            return key.eq_ignore_ascii_case(&self.folded);
        }
        let is_this = |key| fold(key).eq(self.folded.chars());
        is_this(key) || key.split_once('\0').is_some_and(|(before, _)| is_this(before))
    }
}

/// `name` without NULs, trimmed, and with case folded. Names that are equal under Unicode's case
/// folding are equal under this one, which needs no allocation.
fn fold(name: &str) -> impl Iterator<Item = char> {
    name.trim_matches(|character| is_blank(character) || character == '\0')
        .chars()
        .filter(|&character| character != '\0')
        // Lower case first, because `ẞ` has no upper case but `ß` has.
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        // The remainder of the Turkish `İ`, which some languages treat as an `i`.
        .filter(|&character| character != '\u{307}')
}

/// The characters that some language's `trim` removes: those of Java and Python remove control
/// characters, and that of JavaScript removes the byte order mark.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control() || character == '\u{feff}'
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
        for key in ["amount\u{1f}", "\u{1}amount", "\u{7f}amount", "\u{feff}amount", "amount\0x"] {
            check("amount", key, true);
        }
        check("Amount", "amount", true);
        check("straße", "STRASSE", true);
        check("start", "\u{17f}tart", true);
        check("\u{17f}tart", "start", true);
        check("kelvin", "\u{212a}elvin", true);
        check("limit", "l\u{131}mit", true);
        check("limit", "L\u{130}MIT", true);
    }

    #[test]
    fn other_keys_are_not_look_alikes() {
        for key in ["amounts", "mount", "", "am ount", "a", "аmount", "\0amount\0x", "x\0amount"] {
            check("amount", key, false);
        }
    }

    /// Names that are equal under Unicode's case folding are equal here.
    #[test]
    fn folding_is_at_least_as_coarse_as_unicodes() {
        let ours = |text: &str| super::fold(text).collect::<String>();
        // Letters only, because the two tables may have different versions of Unicode.
        let letters = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| c.is_alphabetic());
        for character in letters {
            // Blanks and NULs are trimmed before folding.
            let text = format!("a{character}b");
            let folded = unicase::UniCase::new(&*text).to_folded_case();
            assert_eq!(ours(&text), ours(&folded), "{:x}", u32::from(character));
        }
    }
}
