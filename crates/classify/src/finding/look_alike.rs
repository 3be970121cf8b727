//! Tool names that look like the name of another tool.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::{
    fact::Location,
    finding::{Finding, FindingKind},
    reason::Part,
    siblings::Siblings,
    words::place,
};

/// Well-known names, by their skeletons.
static KNOWN: LazyLock<BTreeMap<String, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("../data/known-tools.txt").lines();
    let names = lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    names.map(|name| (skeleton(name), name)).collect()
});

pub(super) fn find(name: &str, siblings: &Siblings<'_>, found: &mut Vec<Finding>) {
    let looks = skeleton(name);
    let other = siblings.looking_like(&looks, name).or_else(|| {
        // Another separator between the same words is a habit, not a disguise.
        KNOWN.get(&looks).copied().filter(|known| plain(known) != plain(name))
    });
    let Some(other) = other else { return };
    let other = other.get(..other.floor_char_boundary(200)).unwrap_or_default();
    let at =
        Location { part: Part::Name, parameter: "", text: name, start: 0, end: place(name.len()) };
    let mut finding = Finding::new(FindingKind::LookAlike, at);
    finding.text = format!("looks like `{other}`");
    found.push(finding);
}

/// The letters and digits of a name, without case.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The visual skeleton of a name: similar-looking letters become equal, and separators are dropped.
pub fn skeleton(name: &str) -> String {
    let folded: String = name
        .chars()
        .take(256)
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .map(glyph)
        .collect();
    folded.replace("rn", "m").replace("vv", "w")
}

/// The Latin letter that a character is easily mistaken for.
fn glyph(c: char) -> char {
    match c {
        'а' | 'α' | 'ɑ' => 'a',
        'в' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ε' | 'є' => 'e',
        'ɡ' => 'g',
        'һ' | 'н' => 'h',
        '1' | 'і' | 'ι' | 'ı' | 'l' | 'ӏ' | '|' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'п' | 'η' => 'n',
        '0' | 'о' | 'ο' | 'σ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' | '5' => 's',
        'т' | 'τ' => 't',
        'υ' => 'u',
        'ν' | 'ѵ' => 'v',
        'ѡ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'ᴢ' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::skeleton;

    #[test]
    fn names_that_look_the_same_have_one_skeleton() {
        for twin in ["rеad_file", "read_fi1e", "readFile", "READ-FILE", "reɑd_fiӏe"] {
            assert_eq!(skeleton(twin), skeleton("read_file"), "{twin}");
        }
        assert_ne!(skeleton("get_user"), skeleton("get_users"));
    }
}
