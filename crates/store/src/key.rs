//! The key that secrets are encrypted with, and the encryption itself: AES-256-GCM with a
//! random nonce in front. The place where a secret is stored is authenticated with it, so a
//! secret cannot be moved to another row.

use std::fmt;

use ring::{aead, hmac};
use zeroize::{Zeroize as _, Zeroizing};

const NONCE: usize = aead::NONCE_LEN;

/// A key of 32 bytes. `Debug` does not print it. The bytes are in one place, which is overwritten
/// when the key is dropped.
#[derive(Clone)]
pub struct Key(Box<[u8; 32]>);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Key {
    /// A key whose bytes are stored elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(Box::new(bytes))
    }

    /// Derives a key for one purpose. It reveals nothing about this one.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Key {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &*self.0), purpose.as_bytes());
        let mut bytes = Box::new([0; 32]);
        for (to, from) in bytes.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        Key(bytes)
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Seals a text for one place; `None` if the system provides no randomness.
    pub(crate) fn seal(&self, place: &str, text: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).ok()?;
        let mut secret = text.as_bytes().to_vec();
        let bound = aead::Aad::from(place.as_bytes());
        let unique = aead::Nonce::assume_unique_for_key(nonce);
        self.cipher()?.seal_in_place_append_tag(unique, bound, &mut secret).ok()?;
        Some([&nonce[..], &secret].concat())
    }

    /// Opens a text that was sealed for the same place with the same key.
    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, secret) = sealed.split_first_chunk::<NONCE>()?;
        let mut secret = Zeroizing::new(secret.to_vec());
        let bound = aead::Aad::from(place.as_bytes());
        let unique = aead::Nonce::assume_unique_for_key(*nonce);
        let text = self.cipher()?.open_in_place(unique, bound, &mut secret).ok()?;
        str::from_utf8(text).ok().map(str::to_owned)
    }

    fn cipher(&self) -> Option<aead::LessSafeKey> {
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &*self.0).ok()?;
        Some(aead::LessSafeKey::new(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_secret_opens_only_with_its_key_and_in_its_place() {
        let key = Key::from_bytes([7; 32]);
        let sealed = key.seal("here", "hush").unwrap();
        assert_eq!(key.open("here", &sealed).as_deref(), Some("hush"));
        assert_eq!(key.open("there", &sealed), None);
        assert_eq!(key.derive("other").open("here", &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(key.open("here", &changed), None);
            assert_eq!(key.open("here", &sealed[..place]), None);
        }
        assert_ne!(key.seal("here", "hush").unwrap(), sealed);
        assert!(!sealed.windows(4).any(|window| window == b"hush"));
    }

    #[test]
    fn keys_are_derived_by_purpose_and_debug_output_hides_them() {
        let key = Key::from_bytes([7; 32]);
        assert_eq!(key.derive("a").as_bytes(), key.derive("a").as_bytes());
        assert_ne!(key.derive("a").as_bytes(), key.derive("b").as_bytes());
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
