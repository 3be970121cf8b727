//! What a server is known to speak: the eras of MCP, and its HTTP transport.
//!
//! Both are learnt from the server's answers, read by every request, and forgotten in one
//! place, [`ServerProtocol::forget`], when the server fails in a way that contradicts them.
//! The value belongs to the server, not to what detects its parts: `bridge` probes for eras,
//! `legacy_sse` for the transport.
//!
//! The HTTP version is not a part of it. TLS negotiates it for each connection (ALPN), so
//! each connection in the pool has its own, and nothing remembered could become outdated.

use std::sync::atomic::{AtomicU8, Ordering};

use sluice_wire::mcp::Era;

/// Whether a server speaks an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Speaks {
    Unknown = 0,
    Yes = 1,
    No = 2,
}

/// The HTTP transport that a server was last seen to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HttpTransport {
    Unknown = 0,
    Streamable = 1,
    /// HTTP+SSE, of 2024-11-05.
    LegacySse = 2,
}

/// What one server is known to speak. Reading and noting take no lock.
#[derive(Debug, Default)]
pub struct ServerProtocol {
    modern: Fact,
    legacy: Fact,
    transport: Fact,
}

/// What a failure shows to be outdated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// A request in this era, which the server spoke, was refused as unknown.
    Era(Era),
    /// A translated request was refused, so the server may speak other eras than before.
    Eras,
    /// The server answered as servers of the other transport do.
    Transport,
    /// The credential has changed. If the server spoke neither era, it may have refused
    /// the credential.
    Credential,
}

/// A number from 0, which means unknown, to 2.
#[derive(Debug, Default)]
struct Fact(AtomicU8);

impl Fact {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores a value if it is new: most answers confirm what is known, and a store would
    /// take the cache line from the other threads.
    fn set(&self, value: u8) {
        if self.get() != value {
            self.0.store(value, Ordering::Relaxed);
        }
    }
}

impl ServerProtocol {
    fn era(&self, era: Era) -> &Fact {
        match era {
            Era::Modern => &self.modern,
            Era::Legacy => &self.legacy,
        }
    }

    /// Whether the server speaks an era.
    pub fn speaks(&self, era: Era) -> Speaks {
        match self.era(era).get() {
            1 => Speaks::Yes,
            2 => Speaks::No,
            _ => Speaks::Unknown,
        }
    }

    /// Notes whether the server speaks an era.
    pub fn note_era(&self, era: Era, speaks: Speaks) {
        self.era(era).set(speaks as u8);
    }

    /// Notes the era that the server speaks, after it was probed in both, the modern one
    /// first.
    pub fn note_probed(&self, era: Era) {
        self.note_era(era, Speaks::Yes);
        if era == Era::Legacy {
            self.note_era(Era::Modern, Speaks::No);
        }
    }

    /// Whether it is known to use streamable HTTP.
    pub fn is_streamable(&self) -> bool {
        self.transport() == HttpTransport::Streamable
    }

    pub(crate) fn transport(&self) -> HttpTransport {
        match self.transport.get() {
            1 => HttpTransport::Streamable,
            2 => HttpTransport::LegacySse,
            _ => HttpTransport::Unknown,
        }
    }

    pub(crate) fn note_transport(&self, transport: HttpTransport) {
        self.transport.set(transport as u8);
    }

    /// Forgets what a failure shows to be outdated, so that it is detected again.
    pub fn forget(&self, outdated: Outdated) {
        match outdated {
            Outdated::Era(era) => self.note_era(era, Speaks::Unknown),
            Outdated::Eras => {
                self.note_era(Era::Modern, Speaks::Unknown);
                self.note_era(Era::Legacy, Speaks::Unknown);
            }
            Outdated::Transport => self.note_transport(HttpTransport::Unknown),
            Outdated::Credential => {
                let is_spoken = |era| self.speaks(era) == Speaks::Yes;
                if !is_spoken(Era::Modern) && !is_spoken(Era::Legacy) {
                    self.forget(Outdated::Eras);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpTransport, Outdated, ServerProtocol, Speaks};
    use sluice_wire::mcp::Era;

    /// Checks what is left of full knowledge after one failure: modern, legacy, transport.
    fn check(known: [Speaks; 2], outdated: Outdated, left: ([Speaks; 2], HttpTransport)) {
        let protocol = ServerProtocol::default();
        protocol.note_era(Era::Modern, known[0]);
        protocol.note_era(Era::Legacy, known[1]);
        protocol.note_transport(HttpTransport::Streamable);
        protocol.forget(outdated);
        let eras = [Era::Modern, Era::Legacy].map(|era| protocol.speaks(era));
        assert_eq!((eras, protocol.transport()), left, "{known:?} {outdated:?}");
    }

    #[test]
    fn a_failure_forgets_only_what_it_contradicts() {
        use HttpTransport::{Streamable, Unknown as Undetected};
        use Speaks::{No, Unknown, Yes};
        check([Yes, Yes], Outdated::Era(Era::Modern), ([Unknown, Yes], Streamable));
        check([No, Yes], Outdated::Era(Era::Legacy), ([No, Unknown], Streamable));
        check([No, Yes], Outdated::Eras, ([Unknown, Unknown], Streamable));
        check([No, Yes], Outdated::Transport, ([No, Yes], Undetected));
    }

    #[test]
    fn a_new_credential_leaves_what_was_confirmed() {
        use Speaks::{No, Unknown, Yes};
        let streamable = HttpTransport::Streamable;
        check([No, Yes], Outdated::Credential, ([No, Yes], streamable));
        check([Yes, No], Outdated::Credential, ([Yes, No], streamable));
        check([No, No], Outdated::Credential, ([Unknown, Unknown], streamable));
        check([No, Unknown], Outdated::Credential, ([Unknown, Unknown], streamable));
    }

    #[test]
    fn a_server_probed_as_legacy_does_not_speak_the_modern_era() {
        let protocol = ServerProtocol::default();
        protocol.note_probed(Era::Modern);
        assert_eq!(protocol.speaks(Era::Modern), Speaks::Yes);
        assert_eq!(protocol.speaks(Era::Legacy), Speaks::Unknown);
        protocol.note_probed(Era::Legacy);
        assert_eq!(protocol.speaks(Era::Modern), Speaks::No);
        assert_eq!(protocol.speaks(Era::Legacy), Speaks::Yes);
    }
}
