//! The beginning of a sign-in, and what must be kept until the browser comes back.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE64URL_NOPAD;
use ring::digest;
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroize as _;

use crate::{ProviderConfig, ProviderError, SignInError, metadata::Metadata};

/// How long a person may take to sign in at the provider.
const LONGEST_SIGN_IN: Duration = Duration::from_mins(10);

/// A sign-in that has begun.
#[derive(Debug)]
pub struct SignIn {
    /// Where the browser is to be sent.
    pub url: String,
    pub pending: Pending,
}

/// What must be kept until the browser comes back: secret, for this browser only, and once.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pending {
    pub(crate) issuer: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// Seconds since 1970.
    pub(crate) begun_at: u64,
}

/// What to tell the provider about the sign-in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Who is probably signing in, such as an email address.
    pub login_hint: Option<String>,
    pub prompt: Option<Prompt>,
}

/// What the provider is to ask, even of a person who is signed in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    Login,
    SelectAccount,
    Consent,
}

impl SignIn {
    pub(crate) fn new(
        config: &ProviderConfig,
        metadata: &Metadata,
        hints: &Hints,
        now: SystemTime,
    ) -> Result<SignIn, ProviderError> {
        let pending = Pending {
            issuer: config.issuer.clone(),
            state: random_text()?,
            nonce: random_text()?,
            verifier: random_text()?,
            begun_at: since_epoch(now).as_secs(),
        };
        let url = pending.url(config, metadata.authorization_endpoint.clone(), hints);
        Ok(SignIn { url: url.into(), pending })
    }
}

impl Pending {
    fn url(&self, config: &ProviderConfig, mut endpoint: Url, hints: &Hints) -> Url {
        let mut scope = String::from("openid");
        for name in config.scopes.iter().filter(|name| *name != "openid") {
            scope.push(' ');
            scope.push_str(name);
        }
        let challenge = digest::digest(&digest::SHA256, self.verifier.as_bytes());
        let mut query = endpoint.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &config.client_id)
            .append_pair("redirect_uri", &config.redirect_uri)
            .append_pair("scope", &scope)
            .append_pair("state", &self.state)
            .append_pair("nonce", &self.nonce)
            .append_pair("code_challenge", &BASE64URL_NOPAD.encode(challenge.as_ref()))
            .append_pair("code_challenge_method", "S256");
        if let Some(hint) = &hints.login_hint {
            query.append_pair("login_hint", hint);
        }
        if let Some(prompt) = hints.prompt {
            query.append_pair("prompt", prompt.as_str());
        }
        drop(query);
        endpoint
    }

    /// Whether the state is that of this sign-in. Digests are compared, so that the time that it
    /// takes says nothing about the state.
    pub(crate) fn has_state(&self, state: &str) -> bool {
        let digest = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
        digest(&self.state).as_ref() == digest(state).as_ref()
    }

    /// Fails if the sign-in has begun too long ago, or will begin later.
    pub(crate) fn check_age(
        &self,
        now: SystemTime,
        clock_skew: Duration,
    ) -> Result<(), SignInError> {
        let (begun_at, now) = (Duration::from_secs(self.begun_at), since_epoch(now));
        let is_fresh = now <= begun_at.saturating_add(LONGEST_SIGN_IN)
            && begun_at <= now.saturating_add(clock_skew);
        if is_fresh { Ok(()) } else { Err(SignInError::Stale) }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.verifier.zeroize();
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("begun_at", &self.begun_at).finish_non_exhaustive()
    }
}

impl Prompt {
    fn as_str(self) -> &'static str {
        match self {
            Prompt::Login => "login",
            Prompt::SelectAccount => "select_account",
            Prompt::Consent => "consent",
        }
    }
}

pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// 256 random bits in 43 characters, as PKCE wants them.
fn random_text() -> Result<String, ProviderError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| ProviderError::NoRandomness)?;
    let text = BASE64URL_NOPAD.encode(&bytes);
    bytes.zeroize();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use url::Url;

    use super::{Hints, Pending, Prompt, random_text};
    use crate::{ProviderConfig, SignInError};

    fn pending(verifier: &str) -> Pending {
        Pending {
            issuer: "https://id.example".into(),
            state: "s".into(),
            nonce: "n".into(),
            verifier: verifier.into(),
            begun_at: 1000,
        }
    }

    #[test]
    fn the_url_has_what_the_provider_needs_and_not_the_verifier() {
        let mut config = ProviderConfig::new("https://id.example", "a b", "https://s.example/c");
        config.scopes = vec!["openid".into(), "email".into()];
        let hints = Hints { login_hint: Some("a&b".into()), prompt: Some(Prompt::SelectAccount) };
        // The example of RFC 7636, appendix B.
        let pending = pending("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let endpoint = Url::parse("https://id.example/auth?tenant=1").unwrap();
        assert_eq!(
            pending.url(&config, endpoint, &hints).as_str(),
            "https://id.example/auth?tenant=1&response_type=code&client_id=a+b\
             &redirect_uri=https%3A%2F%2Fs.example%2Fc&scope=openid+email&state=s&nonce=n\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
             &code_challenge_method=S256&login_hint=a%26b&prompt=select_account"
        );
    }

    #[test]
    fn a_sign_in_must_be_finished_in_ten_minutes() {
        let check = |now, expected| {
            let now = UNIX_EPOCH + Duration::from_secs(now);
            assert_eq!(pending("v").check_age(now, Duration::from_mins(1)), expected);
        };
        check(940, Ok(()));
        check(939, Err(SignInError::Stale));
        check(1600, Ok(()));
        check(1601, Err(SignInError::Stale));
    }

    #[test]
    fn what_is_pending_survives_serialisation_and_is_not_shown() {
        let pending = pending("secret-verifier");
        let text = serde_json::to_string(&pending).unwrap();
        let read: Pending = serde_json::from_str(&text).unwrap();
        assert!(read.has_state("s") && !read.has_state("S") && !read.has_state(""));
        assert_eq!(read.verifier, "secret-verifier");
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn random_texts_are_long_and_differ() {
        let (one, other) = (random_text().unwrap(), random_text().unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }
}
