//! Grants: what one agent may use, and the token that proves its identity.
//!
//! A token is shown once, when it is made; only its hash is stored.

use std::{fmt, time::Duration};

use sluice_policy::Timestamp;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    actor::Actor,
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
    /// The label of its creator; `None` if a file declares the grant.
    pub created_by: Option<String>,
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
    pub(crate) fn into_grant(self, now: Timestamp, creator: &Actor) -> Grant {
        let NewGrant { label, servers, policy, principal, expires_at } = self;
        Grant {
            id: id::new_id(now).to_string(),
            label,
            servers,
            policy,
            principal,
            created_at: now,
            created_by: Some(creator.label.to_string()),
            expires_at,
            revoked_at: None,
        }
    }
}

/// New values for the properties of a grant; `None` keeps the old value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantEdit {
    pub label: Option<Name>,
    pub servers: Option<Vec<Name>>,
    pub policy: Option<Name>,
    pub principal: Patch<String>,
    pub expires_at: Patch<Timestamp>,
}

/// A change to a property that may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Patch<T> {
    #[default]
    Keep,
    Remove,
    Set(T),
}

impl<T> Patch<T> {
    /// The property after the change.
    pub fn apply(self, before: Option<T>) -> Option<T> {
        match self {
            Patch::Keep => before,
            Patch::Remove => None,
            Patch::Set(new) => Some(new),
        }
    }

    /// The same change with another value, if there is a value and it can be converted.
    pub fn try_map<U, E>(self, convert: impl FnOnce(T) -> Result<U, E>) -> Result<Patch<U>, E> {
        Ok(match self {
            Patch::Keep => Patch::Keep,
            Patch::Remove => Patch::Remove,
            Patch::Set(new) => Patch::Set(convert(new)?),
        })
    }
}

impl GrantEdit {
    pub fn apply(self, grant: Grant) -> Grant {
        Grant {
            label: self.label.unwrap_or(grant.label),
            servers: self.servers.unwrap_or(grant.servers),
            policy: self.policy.unwrap_or(grant.policy),
            principal: self.principal.apply(grant.principal),
            expires_at: self.expires_at.apply(grant.expires_at),
            ..grant
        }
    }
}

/// The hashes of a grant's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantTokens {
    pub current: TokenHash,
    /// The token before the last rotation, and when it stops working.
    pub previous: Option<(TokenHash, Timestamp)>,
}

impl GrantTokens {
    /// The tokens after a rotation at `now`.
    pub(crate) fn rotate(self, new: TokenHash, overlap: Duration, now: Timestamp) -> GrantTokens {
        let overlap = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(now.as_millis().saturating_add(overlap));
        GrantTokens { current: new, previous: (until > now).then_some((self.current, until)) }
    }

    /// What each token stands for. The previous one stands for the same grant, which
    /// expires with the token.
    pub fn grants(&self, grant: &Grant) -> Vec<(TokenHash, Grant)> {
        let mut grants = vec![(self.current, grant.clone())];
        if let Some((token, until)) = self.previous {
            let end = grant.expires_at.map_or(until, |end| end.min(until));
            grants.push((token, Grant { expires_at: Some(end), ..grant.clone() }));
        }
        grants
    }
}

/// A grant after a change, with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedGrant {
    pub grant: Grant,
    pub tokens: GrantTokens,
}

/// A grant with a new token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    pub changed: ChangedGrant,
    pub token: Token,
    /// The hashes of the tokens before.
    pub before: GrantTokens,
}

impl Grant {
    /// Whether the grant is valid at this time.
    pub fn is_valid(&self, at: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }

    /// Takes a server out of it, unless it was revoked; returns whether that changes it.
    pub(crate) fn leave_server(&mut self, server: &Name) -> bool {
        let before = self.servers.len();
        if self.revoked_at.is_none() {
            self.servers.retain(|one| one != server);
        }
        self.servers.len() != before
    }
}

/// A token in plain text. `Debug` does not print it, and its memory is overwritten when it is
/// dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new token of a grant; `None` if the system provides no randomness.
    pub(crate) fn new() -> Option<Token> {
        Token::with_prefix("sg_")
    }

    /// A new API token of a person.
    pub(crate) fn for_person() -> Option<Token> {
        Token::with_prefix("sgp_")
    }

    /// A new random text that only its hash is stored of: an invitation, or a session.
    pub fn random() -> Option<Token> {
        Token::with_prefix("")
    }

    /// The prefix tells people and scanners of leaked secrets apart what a token is for.
    fn with_prefix(prefix: &str) -> Option<Token> {
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *random).ok()?;
        Some(Token(format!("{prefix}{}", *Zeroizing::new(hex(&*random)))))
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

impl Drop for Token {
    fn drop(&mut self) {
        self.0.zeroize();
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
