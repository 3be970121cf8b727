//! The checks of an ID token's claims, after its signature was verified.

use std::time::Duration;

use serde_json::Value;

use crate::{TokenError, claims, claims::Claims};

/// The longest subject; OpenID Connect allows no longer ones.
const MOST_SUBJECT: usize = 255;

/// What an ID token must fit.
#[derive(Debug, Clone)]
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    /// The value that `at_hash` must have if it is there.
    pub(crate) access_token_hash: Option<String>,
    pub(crate) clock_skew: Duration,
    /// Since 1970.
    pub(crate) now: Duration,
}

/// What the checks have found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) subject: String,
    pub(crate) issued_at: Duration,
    pub(crate) expires_at: Duration,
}

impl Expected<'_> {
    pub(crate) fn check(&self, claims: &Claims) -> Result<Verified, TokenError> {
        if claims::text(claims, "iss") != Some(self.issuer) {
            return Err(TokenError::WrongIssuer);
        }
        self.check_audience(claims)?;
        let (issued_at, expires_at) = self.check_times(claims)?;
        if claims::text(claims, "nonce") != Some(self.nonce) {
            return Err(TokenError::WrongNonce);
        }
        if claims.contains_key("at_hash")
            && claims::text(claims, "at_hash") != self.access_token_hash.as_deref()
        {
            return Err(TokenError::WrongAccessToken);
        }
        let subject = claims::text(claims, "sub").unwrap_or_default();
        if subject.is_empty() || subject.len() > MOST_SUBJECT {
            return Err(TokenError::MissingClaim("sub"));
        }
        Ok(Verified { subject: subject.to_owned(), issued_at, expires_at })
    }

    /// A token for several audiences must say that it was issued to this client.
    fn check_audience(&self, claims: &Claims) -> Result<(), TokenError> {
        let is_own = |value: &Value| value.as_str() == Some(self.client_id);
        let (is_included, are_several) = match claims.get("aud") {
            Some(Value::Array(list)) => (list.iter().any(is_own), list.len() > 1),
            Some(one) => (is_own(one), false),
            None => (false, false),
        };
        let is_party = claims.get("azp").map_or(!are_several, is_own);
        if is_included && is_party { Ok(()) } else { Err(TokenError::WrongAudience) }
    }

    fn check_times(&self, claims: &Claims) -> Result<(Duration, Duration), TokenError> {
        let time = |name| claims::time(claims, name).ok_or(TokenError::MissingClaim(name));
        let (issued_at, expires_at) = (time("iat")?, time("exp")?);
        if self.now >= expires_at.saturating_add(self.clock_skew) {
            return Err(TokenError::Expired);
        }
        let not_before = if claims.contains_key("nbf") { time("nbf")? } else { issued_at };
        if issued_at.max(not_before) > self.now.saturating_add(self.clock_skew) {
            return Err(TokenError::NotYetValid);
        }
        Ok((issued_at, expires_at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Expected, Verified};
    use crate::TokenError;

    /// Checks a token that is valid from 1000 to 1300, with these changes; null removes a claim.
    fn check_at(now: u64, change: &Value, expected: &Result<(), TokenError>) {
        let mut claims = json!({
            "iss": "https://id.example", "aud": "c", "sub": "alice", "nonce": "n",
            "iat": 1000, "exp": 1300,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims = claims.as_object_mut().unwrap();
        claims.retain(|_, value| !value.is_null());
        let rules = Expected {
            issuer: "https://id.example",
            client_id: "c",
            nonce: "n",
            access_token_hash: Some("hash".into()),
            clock_skew: Duration::from_mins(1),
            now: Duration::from_secs(now),
        };
        assert_eq!(&rules.check(claims).map(|_: Verified| ()), expected, "{now} {change}");
    }

    fn check(change: &Value, expected: &Result<(), TokenError>) {
        check_at(1000, change, expected);
    }

    #[test]
    fn a_token_is_for_this_client_only() {
        check(&json!({}), &Ok(()));
        for issuer in [json!("https://id.example/"), json!("https://other.example"), json!(null)] {
            check(&json!({ "iss": issuer }), &Err(TokenError::WrongIssuer));
        }
        check(&json!({ "aud": ["c"] }), &Ok(()));
        check(&json!({ "aud": ["c", "d"], "azp": "c" }), &Ok(()));
        check(&json!({ "azp": "c" }), &Ok(()));
        for wrong in [
            json!({ "aud": "d" }),
            json!({ "aud": "C" }),
            json!({ "aud": null }),
            json!({ "aud": [] }),
            json!({ "aud": ["d", "e"], "azp": "c" }),
            json!({ "aud": ["c", "d"] }),
            json!({ "aud": ["c", "d"], "azp": "d" }),
            json!({ "azp": "d" }),
        ] {
            check(&wrong, &Err(TokenError::WrongAudience));
        }
    }

    #[test]
    fn a_token_is_valid_for_its_time_with_the_allowed_difference_of_clocks() {
        check_at(940, &json!({}), &Ok(()));
        check_at(939, &json!({}), &Err(TokenError::NotYetValid));
        check_at(1359, &json!({}), &Ok(()));
        check_at(1360, &json!({}), &Err(TokenError::Expired));
        check_at(1000, &json!({ "nbf": 1060 }), &Ok(()));
        check_at(1000, &json!({ "nbf": 1061 }), &Err(TokenError::NotYetValid));
        for name in ["iat", "exp"] {
            for value in [json!(null), json!("1100"), json!(-1)] {
                check(&json!({ name: value }), &Err(TokenError::MissingClaim(name)));
            }
        }
        check(&json!({ "nbf": "1000" }), &Err(TokenError::MissingClaim("nbf")));
    }

    #[test]
    fn a_token_belongs_to_this_sign_in() {
        for nonce in [json!("m"), json!(""), json!(null), json!(1)] {
            check(&json!({ "nonce": nonce }), &Err(TokenError::WrongNonce));
        }
        check(&json!({ "at_hash": "hash" }), &Ok(()));
        for hash in [json!("other"), json!(""), json!(1)] {
            check(&json!({ "at_hash": hash }), &Err(TokenError::WrongAccessToken));
        }
    }

    #[test]
    fn a_token_names_somebody() {
        check(&json!({ "sub": "x".repeat(255) }), &Ok(()));
        for subject in [json!(null), json!(""), json!(1), json!("x".repeat(256))] {
            check(&json!({ "sub": subject }), &Err(TokenError::MissingClaim("sub")));
        }
    }
}
