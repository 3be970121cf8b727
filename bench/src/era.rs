//! The two eras of MCP, as far as they differ on the wire here.

use clap::ValueEnum;
use serde::Serialize;

/// The era of a client or server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Era {
    /// With `initialize` and sessions.
    Legacy,
    /// Stateless, with mirrored headers.
    Modern,
}

impl Era {
    /// The newest protocol version of the era.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        }
    }

    /// Its name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}
