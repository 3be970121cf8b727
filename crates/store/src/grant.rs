//! Grants: what one agent may use, and the token that proves its identity.
//!
//! A token is shown once, when it is made; only its hash is stored.

use std::fmt;

use sluice_policy::Timestamp;

use crate::{
    digest::{from_hex, hex, sha256},
    id,
    name::Name,
};

/// A grant as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub id: String,
    pub label: Name,
    pub servers: Vec<Name>,
    /// Looked up by name on each of the servers.
    pub policy: Name,
    /// The person or agent it is issued to.
    pub principal: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// The properties of a new grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    pub label: Name,
    pub servers: Vec<Name>,
    pub policy: Name,
    pub principal: Option<String>,
    pub expires_at: Option<Timestamp>,
}

impl NewGrant {
    /// The grant, created now.
    pub(crate) fn into_grant(self, now: Timestamp) -> Grant {
        let NewGrant { label, servers, policy, principal, expires_at } = self;
        Grant {
            id: id::new_id(now).to_string(),
            label,
            servers,
            policy,
            principal,
            created_at: now,
            expires_at,
            revoked_at: None,
        }
    }
}

/// A grant with a new token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    pub grant: Grant,
    pub token: Token,
    /// The hash of the previous token.
    pub old: TokenHash,
}

impl Grant {
    /// Whether the grant is valid at this time.
    pub fn is_valid(&self, at: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }
}

/// A token in plain text. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new token; `None` if the system provides no randomness.
    pub(crate) fn new() -> Option<Token> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        Some(Token(format!("sg_{}", hex(&random))))
    }

    /// The text to hand out, once.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Its hash, the only part of it that is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a token's whole text. Tokens are long and random, so a hash suffices to
/// look one up and does not reveal the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token that a client sent.
    pub fn of(token: &str) -> TokenHash {
        TokenHash(sha256(token.as_bytes()))
    }

    /// Reads 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<TokenHash> {
        from_hex(text).map(TokenHash)
    }

    /// Lower-case hexadecimal digits.
    pub fn as_hex(&self) -> String {
        hex(&self.0)
    }

    /// A number for sharding that is evenly distributed.
    pub fn shard(&self) -> u8 {
        let [first, ..] = self.0;
        first
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> TokenHash {
        TokenHash(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, TokenHash};

    #[test]
    fn tokens_differ_and_debug_output_hides_them() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_ne!(one.text(), other.text());
        assert_eq!(one.text().len(), 67);
        assert!(!format!("{one:?}").contains(one.text()));
        assert_eq!(one.hash(), TokenHash::of(one.text()));
    }

    #[test]
    fn a_hash_is_lower_case_hexadecimal() {
        let hash = TokenHash::of("abc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.as_hex(), expected);
        assert_eq!(TokenHash::from_hex(expected), Some(hash));
        assert_eq!(hash.shard(), 0xba);
    }
}
