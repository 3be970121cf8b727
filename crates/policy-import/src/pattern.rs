//! Converts regular expressions of the older proxy to our engine's syntax.
//!
//! Both engines are linear-time and nearly the same. In the older one, classes such as `\d` were
//! ASCII only, `\Q…\E` quoted, `\<` was a plain `<`, a `{` without a count was a plain `{`, and
//! inside brackets `[`, `&&`, `~~` and `--` had no special meaning. Patterns that are invalid in
//! both are left to the compiler to refuse.

use std::{iter::Peekable, str::CharIndices};

/// Converts a pattern to our syntax.
pub(super) fn translate(source: &str) -> String {
    let mut translation = Translation {
        source,
        rest: source.char_indices().peekable(),
        out: String::with_capacity(source.len()),
    };
    translation.run();
    translation.out
}

struct Translation<'s> {
    source: &'s str,
    rest: Peekable<CharIndices<'s>>,
    out: String,
}

/// The position of a character in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BracketPosition {
    Member,
    /// After a member, where a dash starts a range.
    AfterMember,
    RangeEnd,
}

impl BracketPosition {
    /// The position after a plain character.
    fn next(self) -> BracketPosition {
        match self {
            BracketPosition::Member | BracketPosition::AfterMember => BracketPosition::AfterMember,
            BracketPosition::RangeEnd => BracketPosition::Member,
        }
    }
}

impl Translation<'_> {
    fn run(&mut self) {
        while let Some((at, letter)) = self.rest.next() {
            match letter {
                '\\' => self.escape(),
                '[' => self.brackets(),
                '{' if !self.counts(at) => self.out.push_str(r"\{"),
                _ => self.out.push(letter),
            }
        }
    }

    /// Whether a `{` at this position starts a count such as `{2,3}`.
    fn counts(&self, at: usize) -> bool {
        let after = self.source.get(at + 1..).unwrap_or_default();
        let Some((count, _)) = after.split_once('}') else { return false };
        let (least, most) = count.split_once(',').unwrap_or((count, ""));
        !least.is_empty() && [least, most].iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }

    fn escape(&mut self) {
        let Some((_, letter)) = self.rest.next() else { return self.out.push('\\') };
        match letter {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
                self.out.extend(["[", negation, ascii(letter), "]"]);
            }
            'b' => self.out.push_str(r"(?-u:\b)"),
            '<' | '>' => self.out.push(letter),
            'Q' => self.quotation(),
            'p' | 'P' => self.property(letter),
            _ => self.out.extend(['\\', letter]),
        }
    }

    /// Converts `\Q…\E`, or `\Q` up to the end.
    fn quotation(&mut self) {
        while let Some((_, letter)) = self.rest.next() {
            if letter == '\\' && self.rest.next_if(|(_, next)| *next == 'E').is_some() {
                return;
            }
            if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') {
                self.out.push('\\');
            }
            self.out.push(letter);
        }
    }

    /// Converts `\p{Greek}`, whose braces are not a count.
    fn property(&mut self, letter: char) {
        self.out.extend(['\\', letter]);
        if self.rest.next_if(|(_, next)| *next == '{').is_some() {
            self.out.push('{');
        }
    }

    /// Converts a class in brackets, after its opening bracket.
    fn brackets(&mut self) {
        self.out.push('[');
        if self.rest.next_if(|(_, next)| *next == '^').is_some() {
            self.out.push('^');
        }
        // A closing bracket right at the start is a member.
        if self.rest.next_if(|(_, next)| *next == ']').is_some() {
            self.out.push_str(r"\]");
        }
        let mut place = BracketPosition::Member;
        while let Some((at, letter)) = self.rest.next() {
            place = match letter {
                ']' => return self.out.push(']'),
                '\\' => self.member_escape(place),
                '-' => self.dash(place),
                '[' if self.source.get(at..).is_some_and(|rest| rest.starts_with("[:")) => {
                    self.named_class();
                    BracketPosition::Member
                }
                '[' | '&' | '~' => {
                    self.out.extend(['\\', letter]);
                    place.next()
                }
                _ => {
                    self.out.push(letter);
                    place.next()
                }
            };
        }
    }

    /// Converts a dash: a range or a member. Two dashes in a row would be a set difference in our
    /// engine.
    fn dash(&mut self, place: BracketPosition) -> BracketPosition {
        let next = self.rest.peek().map(|(_, next)| *next);
        let (dash, place) = match place {
            BracketPosition::AfterMember if next != Some(']') => ("-", BracketPosition::RangeEnd),
            BracketPosition::Member if next == Some('-') => (r"\-", BracketPosition::AfterMember),
            BracketPosition::RangeEnd => (r"\-", BracketPosition::Member),
            BracketPosition::Member | BracketPosition::AfterMember => {
                ("-", BracketPosition::AfterMember)
            }
        };
        self.out.push_str(dash);
        place
    }

    fn member_escape(&mut self, place: BracketPosition) -> BracketPosition {
        let Some((_, letter)) = self.rest.next() else {
            self.out.push('\\');
            return place;
        };
        match letter {
            'd' | 'w' | 's' => self.out.push_str(ascii(letter)),
            'D' | 'W' | 'S' => self.out.extend(["[^", ascii(letter), "]"]),
            '<' | '>' => self.out.push(letter),
            _ => self.out.extend(['\\', letter]),
        }
        if "dwsDWSpP".contains(letter) { BracketPosition::Member } else { place.next() }
    }

    /// Converts `[:alpha:]`, after its opening bracket.
    fn named_class(&mut self) {
        self.out.push('[');
        for (_, letter) in self.rest.by_ref() {
            self.out.push(letter);
            if letter == ']' {
                return;
            }
        }
    }
}

/// The ASCII members of a class letter, for use in brackets.
fn ascii(letter: char) -> &'static str {
    match letter.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => r"\t\n\x0C\r\x20",
    }
}

#[cfg(test)]
mod tests {
    use sluice_policy::PatternBudget;

    use super::translate;

    fn check(source: &str, expected: &str) {
        let translated = translate(source);
        assert_eq!(translated, expected, "{source}");
        assert!(PatternBudget::default().compile(&translated).is_ok(), "{source} as {translated}");
    }

    #[test]
    fn most_patterns_stay_unchanged() {
        for source in [
            "^feat/",
            r"^a{2,3}b{4}c{5,}$",
            r"\.env$",
            "[a-z0-9-]+",
            r"\p{Greek}\pL",
            "(?i)x|(?P<n>y)",
            "[[:alpha:]_]",
            r"\x{41}\\",
            "é+",
            "[^a-c]",
            "[-a]",
            "[a-]",
        ] {
            check(source, source);
        }
    }

    #[test]
    fn classes_are_ascii() {
        check(r"^\d+$", "^[0-9]+$");
        check(r"\W", "[^0-9A-Za-z_]");
        check(r"[\w.-]", "[0-9A-Za-z_.-]");
        check(r"[\D\s]", r"[[^0-9]\t\n\x0C\r\x20]");
        check(r"\brm\b", r"(?-u:\b)rm(?-u:\b)");
        check(r"\\d", r"\\d");
    }

    #[test]
    fn signs_without_meaning_in_the_older_engine_are_escaped() {
        check("[a[b]", r"[a\[b]");
        check("[]a]", r"[\]a]");
        check("[+--]", r"[+-\-]");
        check("[--/]", r"[\--/]");
        check("[a-z-9]", "[a-z-9]");
        check("[a&&b~~c]", r"[a\&\&b\~\~c]");
        check(r"\<b\>", "<b>");
        check("{a}{", r"\{a}\{");
        check("x{,3}", r"x\{,3}");
        check(r"\Qa.b*\E+", r"a\.b\*+");
        check(r"\Q[<", r"\[<");
    }
}
