//! The most steps that a search with a regex may take, computed from the regex alone.
//!
//! The search is linear in the text: at each byte, the engine follows every place in the regex
//! that a match may have reached. Each such place is a step. A counted repetition has as many
//! places as it has copies, so `a.{5000}z` may take five thousand steps for each byte.

use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

/// The length of text that the bound is computed for, in bytes: the default of
/// `limits.string`.
const LONGEST_TEXT: u64 = 1 << 20;

/// The steps for a text of at most 1 MiB.
pub(super) fn most_steps(regex: &Hir) -> u64 {
    let properties = regex.properties();
    if !properties.look_set_prefix().contains(Look::Start) {
        // A match may begin anywhere, so all places may be reached at once.
        return places(regex).saturating_mul(LONGEST_TEXT);
    }
    let longest = properties.maximum_len().and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = longest.unwrap_or(LONGEST_TEXT).clamp(1, LONGEST_TEXT);
    places_of_one(regex).saturating_mul(bytes)
}

/// The steps for each byte of a text, for searches that take so many steps for 1 MiB.
pub(super) fn per_byte(steps: u64) -> u64 {
    steps.div_ceil(LONGEST_TEXT)
}

/// All places in a regex; those that read nothing count too, because they are passed through.
fn places(regex: &Hir) -> u64 {
    match regex.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(literal) => overlaps(&literal.0),
        HirKind::Capture(group) => places(&group.sub),
        HirKind::Repetition(repetition) => {
            places(&repetition.sub).saturating_mul(copies(repetition))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts, places),
    }
}

/// The most places in a literal that are reached at once, which depends on how it overlaps
/// itself: `drop` is only begun again after it has failed, `aaaa` begins at each `a`.
fn overlaps(literal: &[u8]) -> u64 {
    // The failure function of Knuth, Morris and Pratt, and the length of its chains.
    let mut fallbacks: Vec<usize> = vec![0];
    let mut chains: Vec<u64> = vec![0, 1];
    for (at, byte) in literal.iter().enumerate().skip(1) {
        let mut length = fallbacks.last().copied().unwrap_or_default();
        while length > 0 && literal.get(length) != Some(byte) {
            length = length.checked_sub(1).and_then(|last| fallbacks.get(last)).map_or(0, |l| *l);
        }
        if literal.get(length) == Some(byte) && length < at {
            length += 1;
        }
        fallbacks.push(length);
        chains.push(chains.get(length).map_or(1, |chain| chain + 1));
    }
    chains.into_iter().max().unwrap_or(1).max(1)
}

/// The number of times that the engine keeps the repeated part.
fn copies(repetition: &Repetition) -> u64 {
    u64::from(repetition.max.unwrap_or(repetition.min).max(1))
}

fn sum(parts: &[Hir], each: fn(&Hir) -> u64) -> u64 {
    parts.iter().map(each).fold(0, u64::saturating_add)
}

/// The most places that one match can be at, if it begins at one point.
///
/// While only parts of fixed length are read, that is the place of one part. After a part whose
/// length varies, the rest may have begun at many points.
fn places_of_one(regex: &Hir) -> u64 {
    match regex.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) | HirKind::Literal(_) => 1,
        HirKind::Capture(group) => places_of_one(&group.sub),
        HirKind::Repetition(repetition) if characters(&repetition.sub).is_some() => {
            places_of_one(&repetition.sub)
        }
        HirKind::Repetition(_) => places(regex),
        HirKind::Alternation(parts) => sum(parts, places_of_one),
        HirKind::Concat(parts) => {
            let fixed = parts.iter().take_while(|part| characters(part).is_some()).count();
            let (fixed, rest) = parts.split_at(fixed);
            let before = fixed.iter().map(places_of_one).max().unwrap_or(1);
            let after = rest
                .split_first()
                .map_or(0, |(first, rest)| places_of_one(first).saturating_add(sum(rest, places)));
            before.max(after)
        }
    }
}

/// The number of characters that a regex matches, if it is always the same.
fn characters(regex: &Hir) -> Option<u64> {
    match regex.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Class(_) => Some(1),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            u64::try_from(text.chars().count()).ok()
        }
        HirKind::Capture(group) => characters(&group.sub),
        HirKind::Repetition(repetition) => {
            let same = repetition.max == Some(repetition.min);
            let one = characters(&repetition.sub).filter(|_| same)?;
            one.checked_mul(u64::from(repetition.min))
        }
        HirKind::Concat(parts) => {
            parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(characters(part)?))
        }
        HirKind::Alternation(parts) => {
            let mut lengths = parts.iter().map(characters);
            let first = lengths.next()??;
            lengths.all(|length| length == Some(first)).then_some(first)
        }
    }
}

#[cfg(test)]
mod tests;
