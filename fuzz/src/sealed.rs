//! Sealed ids (sessions, tasks, requests of servers, states): only what was sealed opens, for the
//! same purpose, under the same key, into the same parts.

use sluice_gateway::{Purpose, Seal};
use sluice_store::Key;

const PURPOSES: [Purpose; 6] = [
    Purpose::Session,
    Purpose::Stack,
    Purpose::LegacyStream,
    Purpose::ServerRequest,
    Purpose::Task,
    Purpose::RequestState,
];

/// Takes the input for an id that a client sends, and for what is sealed in another.
pub fn check(data: &[u8]) {
    let seal = seal_with(7);
    let text = String::from_utf8_lossy(data);
    for purpose in PURPOSES {
        assert!(!opens(&seal, purpose, &text), "{purpose:?} opens {text:?}");
    }
    // The last part may be any text of a server, the others are ours and without a NUL.
    let mut parts = text.splitn(4, '\0');
    let mut part = || parts.next().unwrap_or_default();
    let parts = [part(), part(), part(), part()];
    check_round_trip(&seal, data, parts);
}

fn check_round_trip(seal: &Seal, data: &[u8], parts: [&str; 4]) {
    let purpose = PURPOSES[data.first().map_or(0, |byte| usize::from(*byte)) % PURPOSES.len()];
    let sealed = seal.seal(purpose, &parts).expect("it can be sealed");
    assert_eq!(seal.seal(purpose, &parts).as_ref(), Some(&sealed), "it is always the same");
    assert_eq!(seal.open(purpose, &sealed), Some(parts.map(str::to_owned)));
    assert!(sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    for other in PURPOSES.into_iter().filter(|other| *other != purpose) {
        assert!(!opens(seal, other, &sealed), "{other:?} opens what is for {purpose:?}");
    }
    assert!(!opens(&seal_with(8), purpose, &sealed), "another key opens it");
    for forged in forgeries(&sealed, data) {
        assert!(!opens(seal, purpose, &forged), "{forged} opens like {sealed}");
    }
}

/// The same id with a character changed, cut, added, or written in another way.
fn forgeries(sealed: &str, data: &[u8]) -> Vec<String> {
    let sum = data.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
    let place = sum % sealed.len();
    let (before, after) = (&sealed[..place], &sealed[place + 1..]);
    let other = if sealed[place..].starts_with('A') { 'B' } else { 'A' };
    vec![
        format!("{before}{other}{after}"),
        format!("{before}{after}"),
        format!("{sealed}A"),
        format!("{sealed}="),
        format!("{sealed}\n"),
        format!(" {sealed}"),
        sealed[..place].to_owned(),
        format!("{sealed}{sealed}"),
    ]
}

fn seal_with(byte: u8) -> Seal {
    Seal::new(&Key::from_bytes([byte; 32])).expect("a key of the right length")
}

/// Whether it opens as any number of parts.
fn opens(seal: &Seal, purpose: Purpose, sealed: &str) -> bool {
    seal.open::<1>(purpose, sealed).is_some()
        || seal.open::<2>(purpose, sealed).is_some()
        || seal.open::<4>(purpose, sealed).is_some()
        || seal.open::<5>(purpose, sealed).is_some()
}
