//! Signals and findings encoded as integers: a bit set, and a few bits per count.
//!
//! INVARIANT: the encoded integers are stored in index files, so the order of `SignalKind::ALL` and
//! `FindingKind::ALL` may only grow at its end. A test pins both.

use sluice_classify::{Finding, FindingKind, Signal, SignalKind};

/// Bits per count of one kind of finding; a definition has at most 16 findings.
const BITS: u32 = 5;
const MOST: u32 = (1 << BITS) - 1;

/// The set of signals of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals(u32);

impl Signals {
    /// The set of these signals.
    pub fn of(kinds: impl IntoIterator<Item = SignalKind>) -> Signals {
        Signals(kinds.into_iter().fold(0, |bits, kind| bits | 1 << signal_code(kind)))
    }

    pub fn has(self, kind: SignalKind) -> bool {
        self.0 & (1 << signal_code(kind)) != 0
    }

    /// The kinds, in their order.
    pub fn kinds(self) -> impl Iterator<Item = SignalKind> {
        SignalKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Signals {
        Signals(bits)
    }
}

impl From<&[Signal]> for Signals {
    fn from(signals: &[Signal]) -> Signals {
        Signals::of(signals.iter().map(|signal| signal.kind))
    }
}

/// The number of findings of each kind in a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Findings(u32);

impl Findings {
    pub fn count(self, kind: FindingKind) -> u32 {
        (self.0 >> (BITS * finding_code(kind))) & MOST
    }

    /// The number of all findings.
    pub fn total(self) -> u32 {
        FindingKind::ALL.into_iter().map(|kind| self.count(kind)).sum()
    }

    /// The kinds with at least one finding.
    pub fn kinds(self) -> impl Iterator<Item = FindingKind> {
        FindingKind::ALL.into_iter().filter(move |kind| self.count(*kind) > 0)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Findings {
        Findings(bits)
    }
}

impl From<&[Finding]> for Findings {
    fn from(findings: &[Finding]) -> Findings {
        findings.iter().fold(Findings::default(), |all, finding| {
            if all.count(finding.kind) == MOST {
                return all;
            }
            Findings(all.0 + (1 << (BITS * finding_code(finding.kind))))
        })
    }
}

pub(crate) fn signal_code(kind: SignalKind) -> u32 {
    code(&SignalKind::ALL, &kind)
}

pub(crate) fn finding_code(kind: FindingKind) -> u32 {
    code(&FindingKind::ALL, &kind)
}

/// The index of a value in the list of all values.
pub(crate) fn code<T: PartialEq>(all: &[T], one: &T) -> u32 {
    let place = all.iter().position(|other| other == one).unwrap_or_default();
    u32::try_from(place).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sluice_classify::{Category, FindingKind, Part, SignalKind};

    use super::{Findings, Signals};

    #[test]
    fn the_codes_in_files_keep_their_meaning() {
        let names = |all: &[&str]| all.join(" ");
        assert_eq!(
            names(&SignalKind::ALL.map(SignalKind::name)),
            "free-form-code url file-path credentials bulk admin open-world"
        );
        assert_eq!(
            names(&FindingKind::ALL.map(FindingKind::name)),
            "instruction hidden-characters other-tools secrets look-alike oversized"
        );
        assert_eq!(
            names(&Category::ALL.map(Category::name)),
            "read other write execute destructive financial"
        );
        assert_eq!(
            names(&Part::ALL.map(Part::name)),
            "name title description parameter parameter description enum value hint siblings server instructions offered value"
        );
    }

    #[test]
    fn sets_and_counts_are_decoded_from_their_bits() {
        let signals = Signals::of([SignalKind::Url, SignalKind::OpenWorld]);
        assert_eq!(Signals::from_bits(signals.bits()), signals);
        assert_eq!(signals.kinds().collect::<Vec<_>>(), [SignalKind::Url, SignalKind::OpenWorld]);
        let findings = Findings::from_bits(0b00010_00000_00001);
        assert_eq!(findings.count(FindingKind::OtherTools), 2);
        assert_eq!((findings.total(), findings.kinds().count()), (3, 2));
    }
}
