//! MCP protocol versions and their two eras.

/// How client and server identify themselves and keep state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// `initialize`, sessions, and requests in both directions.
    Legacy,
    /// Stateless: every request identifies its client.
    Modern,
}

/// One protocol version, named by its date; later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    /// The version of a request without the version header, as specified by the protocol version
    /// that introduced the header.
    pub const UNSAID: Revision = Revision::V2025_03_26;

    /// The date that names it.
    pub fn name(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The protocol version of this date.
    pub fn from_name(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// The protocol versions of the modern era.
    pub fn modern() -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Modern)
    }

    /// Its era.
    pub fn era(self) -> Era {
        if self >= Revision::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }
}

#[cfg(test)]
mod tests {
    use super::{Era, Revision};

    #[test]
    fn protocol_versions_are_ordered_and_named() {
        assert!(Revision::ALL.is_sorted());
        for revision in Revision::ALL {
            assert_eq!(Revision::from_name(revision.name()), Some(revision));
        }
        assert_eq!(Revision::from_name("2025-06-19"), None);
        let modern = Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Modern);
        assert_eq!(modern.collect::<Vec<_>>(), [Revision::V2026_07_28]);
    }
}
