//! Rules about names: a public type has its name to itself within a crate, and a
//! function is named by a verb.
//!
//! The checks read source text line by line. They look at shipped code only:
//! `src/`, without `tests.rs`, folders called `tests` and test modules.

use std::{collections::BTreeMap, path::Path};

use super::{children, files_below, read, relative, root};

/// Verbs that end in `ed` in their base form.
const VERBS_IN_ED: &[&str] =
    &["embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "succeed", "weed"];

/// Past participles that do not end in `ed` and are no base form of a verb.
#[rustfmt::skip]
const IRREGULAR: &[&str] = &[
    "begun", "bent", "borne", "bought", "bound", "broken", "brought", "built", "caught", "chosen",
    "dealt", "done", "drawn", "driven", "fallen", "fed", "felt", "forgotten", "fought", "found",
    "frozen", "given", "gone", "grown", "heard", "held", "hidden", "kept", "known", "laid", "led",
    "left", "lent", "lost", "made", "meant", "met", "paid", "proven", "said", "seen", "sent",
    "shaken", "shown", "sold", "spent", "spoken", "spoilt", "stolen", "stood", "struck", "stuck",
    "sworn", "taken", "taught", "thought", "thrown", "told", "torn", "understood", "woken", "won",
    "worn", "written",
];

/// Words after which a participle does not describe a noun.
#[rustfmt::skip]
const PARTICLES: &[&str] = &[
    "again", "alone", "anew", "apart", "as", "at", "away", "back", "by", "first", "for", "from",
    "here", "in", "off", "on", "once", "out", "over", "through", "to", "up", "with",
];

/// Participles that stand for no good name, whatever follows.
const SPOKEN: &[&str] = &[
    "given", "held", "kept", "looked", "made", "noted", "said", "shown", "taken", "told", "turned",
];

#[test]
fn a_public_type_has_its_name_to_itself_within_a_crate() {
    let mut wrong = Vec::new();
    for folder in children(&root().join("crates")) {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for_each_shipped_line(&folder, |place, line| {
            if let Some(name) = public_type(line) {
                places.entry(name.to_owned()).or_default().push(place);
            }
        });
        places.retain(|_, places| places.len() > 1);
        wrong.extend(places.iter().map(|(name, places)| format!("{name}: {}", places.join(", "))));
    }
    assert!(wrong.is_empty(), "types that share a name:\n{}", wrong.join("\n"));
}

#[test]
fn functions_are_named_by_verbs() {
    let mut wrong = Vec::new();
    let others = ["fuzz", "bench", "compat"].map(|folder| root().join(folder));
    for folder in children(&root().join("crates")).into_iter().chain(others) {
        for_each_shipped_line(&folder, |place, line| {
            let is_wrong = |name: &&str| is_participle(name) && !line.contains("-> bool");
            if let Some(name) = function(line).filter(is_wrong) {
                wrong.push(format!("{place}: fn {name}"));
            }
        });
    }
    assert!(wrong.is_empty(), "functions named by a participle:\n{}", wrong.join("\n"));
}

#[test]
fn the_rules_tell_names_apart() {
    for name in ["told", "shown", "opened", "left", "told_apart", "kept_key", "closed_off"] {
        assert!(is_participle(name), "{name}");
    }
    for name in
        ["tell", "read", "seed", "with_limits_opened", "is_kept", "from_found", "known_tool"]
    {
        assert!(!is_participle(name), "{name}");
    }
    assert_eq!(function("    pub(crate) const fn left(self) -> u64 {"), Some("left"));
    assert_eq!(function("pub async fn serve<T>(it: T) {"), Some("serve"));
    assert_eq!(function("// fn told()"), None);
    assert_eq!(public_type("pub(super) struct Place<'d> {"), Some("Place"));
    assert_eq!(public_type("    pub trait Witness {"), Some("Witness"));
    assert_eq!(public_type("struct Place {"), None);
}

/// Whether this is a past participle rather than a verb: alone, before a particle, or one of
/// `SPOKEN` before anything. Other participles may describe a noun, as in `known_tool`.
fn is_participle(name: &str) -> bool {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    let is_one =
        first.ends_with("ed") && !VERBS_IN_ED.contains(&first) || IRREGULAR.contains(&first);
    let next = rest.split('_').next().unwrap_or_default();
    is_one && (rest.is_empty() || PARTICLES.contains(&next) || SPOKEN.contains(&first))
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let mut rest = after_visibility(line.trim_start());
    for qualifier in ["const ", "async "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    rest.strip_prefix("fn ").map(identifier)
}

/// The name of the type that a line declares for others to use.
fn public_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = after_visibility(line);
    if rest.len() == line.len() {
        return None;
    }
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind)).map(identifier);
    // In a macro the name may be a parameter.
    name.filter(|name| !name.is_empty())
}

fn after_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(line, |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    }
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Hands over each line of a crate's source that is not a test's, with its place.
fn for_each_shipped_line(folder: &Path, mut each: impl FnMut(String, &str)) {
    for file in files_below(&folder.join("src"), "rs") {
        let name = relative(&file);
        if name.ends_with("/tests.rs") || name.contains("/tests/") {
            continue;
        }
        let text = read(&file);
        let shipped = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (at, line) in shipped.lines().enumerate() {
            each(format!("{name}:{}", at + 1), line);
        }
    }
}
