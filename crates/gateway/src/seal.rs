//! Authenticated encryption of values that clients carry for the gateway (session, task
//! and event ids, request state), so that it need not store them.
//!
//! Any replica with the key can open them. Sealing the same parts always gives the same text.

use data_encoding::BASE64URL_NOPAD;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use sluice_store::Key;

/// The purpose of a sealed text; a text sealed for another purpose does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A session: grant, server, our id, the upstream's id.
    Session,
    /// A session with all servers of a grant: grant, our id.
    Stack,
    /// A stream of the oldest transport (HTTP+SSE): grant, server, our id.
    LegacyStream,
    /// A request of a server: grant, server, session, id as JSON.
    ServerRequest,
    /// A task: grant, server, the upstream's id.
    Task,
    /// An event of a stream: grant, server, session, the upstream's id.
    Event,
    /// Events of several servers at `/mcp`: grant, session, their servers and ids.
    StackEvents,
    /// State of an unfinished request: grant, server, method, target, state.
    RequestState,
}

impl Purpose {
    fn name(self) -> &'static [u8] {
        match self {
            Purpose::Session => b"session",
            Purpose::Stack => b"stack",
            Purpose::LegacyStream => b"legacy stream",
            Purpose::ServerRequest => b"server request",
            Purpose::Task => b"task",
            Purpose::Event => b"event",
            Purpose::StackEvents => b"stack events",
            Purpose::RequestState => b"request state",
        }
    }
}

/// Seals and opens.
pub struct Seal {
    key: LessSafeKey,
    nonces: hmac::Key,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// `None` only if the derived key does not have the length that the cipher needs.
    pub fn new(key: &Key) -> Option<Seal> {
        let cipher = UnboundKey::new(&AES_256_GCM, key.derive("seal").as_bytes()).ok()?;
        let nonces = hmac::Key::new(hmac::HMAC_SHA256, key.derive("seal nonces").as_bytes());
        Some(Seal { key: LessSafeKey::new(cipher), nonces })
    }

    /// Seals parts, of which only the last may contain a NUL. `None` if sealing fails.
    pub fn seal(&self, purpose: Purpose, parts: &[&str]) -> Option<String> {
        let mut text = parts.join("\0").into_bytes();
        // The nonce depends on the whole text, so no two different texts share a nonce.
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(purpose.name());
        context.update(b"\0");
        context.update(&text);
        let tag = context.sign();
        let nonce: [u8; NONCE_LEN] = tag.as_ref().first_chunk().copied()?;
        let aad = Aad::from(purpose.name());
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text)
            .ok()?;
        Some(BASE64URL_NOPAD.encode(&[&nonce, &*text].concat()))
    }

    /// Opens a text that was sealed from exactly `N` parts.
    pub fn open<const N: usize>(&self, purpose: Purpose, sealed: &str) -> Option<[String; N]> {
        let mut bytes = BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?;
        let (nonce, rest) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.key.open_in_place(nonce, Aad::from(purpose.name()), rest).ok()?;
        let parts: Vec<_> =
            std::str::from_utf8(text).ok()?.splitn(N, '\0').map(str::to_owned).collect();
        parts.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use sluice_store::Key;

    use super::{Purpose, Seal};

    #[test]
    fn only_sealed_texts_open() {
        let seal = Seal::new(&Key::from_bytes([7; 32])).unwrap();
        let text = seal.seal(Purpose::Session, &["grant", "server", "id\0with nul"]).unwrap();
        assert_eq!(
            seal.open(Purpose::Session, &text),
            Some(["grant", "server", "id\0with nul"].map(String::from))
        );
        assert_eq!(
            seal.seal(Purpose::Session, &["grant", "server", "id\0with nul"]).as_ref(),
            Some(&text)
        );
        assert_eq!(seal.open::<3>(Purpose::Task, &text), None);
        for place in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[place] = if other[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                seal.open::<3>(Purpose::Session, &String::from_utf8(other).unwrap()),
                None,
                "{place}"
            );
        }
        let other = Seal::new(&Key::from_bytes([8; 32])).unwrap();
        assert_eq!(other.open::<3>(Purpose::Session, &text), None);
        for wrong in ["", "a", "not base64!", "AAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(seal.open::<3>(Purpose::Session, wrong), None);
        }
    }
}
