//! One identity provider: begins and finishes sign-ins.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use zeroize::Zeroizing;

use crate::{
    ConfigError, Endpoint, Hints, Identity, Pending, ProviderConfig, ProviderError, SignIn,
    SignInError, TokenError,
    cached::Cached,
    claims,
    claims::Claims,
    config::Contacts,
    groups::{GroupSearch, has_groups},
    http_client::{Ask, HttpClient, bad_answer},
    id_token::{Expected, Verified},
    jwt::Jwt,
    keys::KeySet,
    metadata::{self, Metadata},
    pending::since_epoch,
    redirect,
    token_endpoint::{self, Tokens},
};

/// The longest name or address of a person, in bytes.
const MOST_TEXT: usize = 1024;

/// One identity provider. Clones share its metadata and keys.
#[derive(Debug, Clone)]
pub struct Provider {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ProviderConfig,
    contacts: Contacts,
    http: HttpClient,
    metadata: Cached<Metadata>,
    keys: Cached<KeySet>,
}

impl Provider {
    /// A provider with a valid configuration. This does not connect yet.
    pub fn new(config: ProviderConfig) -> Result<Provider, ConfigError> {
        let contacts = config.check()?;
        let http = HttpClient::new(&config)?;
        let (metadata, keys) = (Cached::default(), Cached::default());
        Ok(Provider { shared: Arc::new(Shared { config, contacts, http, metadata, keys }) })
    }

    /// Begins a sign-in: where to send the browser, and what to keep until it comes back.
    pub async fn begin(&self, hints: &Hints, now: SystemTime) -> Result<SignIn, ProviderError> {
        let metadata = self.shared.metadata().await?;
        SignIn::new(&self.shared.config, &metadata, hints, now)
    }

    /// Finishes a sign-in by the query with which the browser came back to the redirect URI.
    ///
    /// What the userinfo endpoint adds is absent if that endpoint fails; of groups, the reason is
    /// in the result.
    pub async fn finish(
        &self,
        pending: Pending,
        query: &str,
        now: SystemTime,
    ) -> Result<Identity, SignInError> {
        let shared = &*self.shared;
        if pending.issuer != shared.config.issuer {
            return Err(SignInError::WrongIssuer);
        }
        pending.check_age(now, shared.config.clock_skew)?;
        let metadata = shared.metadata().await?;
        let code = redirect::find_code(query, &pending, metadata.sends_issuer)?;
        let tokens = token_endpoint::exchange(
            &shared.http,
            &shared.config,
            &metadata,
            &code,
            &pending.verifier,
        );
        let tokens = tokens.await?;
        let (claims, verified) =
            shared.verify(&tokens, &metadata, &pending.nonce, since_epoch(now)).await?;
        Ok(shared.identify(&metadata, &tokens, claims, verified).await)
    }
}

impl Shared {
    async fn metadata(&self) -> Result<Arc<Metadata>, ProviderError> {
        self.metadata.get(metadata::discover(&self.config, &self.contacts, &self.http)).await
    }

    async fn fetch_keys(&self, metadata: &Metadata) -> Result<KeySet, ProviderError> {
        let endpoint = Endpoint::Keys;
        let ask = Ask { endpoint, url: &metadata.jwks_uri, authorization: None, body: None };
        KeySet::parse(&self.http.get(ask).await?)
    }

    /// Verifies the ID token: its signature, and then its claims.
    async fn verify(
        &self,
        tokens: &Tokens,
        metadata: &Metadata,
        nonce: &str,
        now: Duration,
    ) -> Result<(Claims, Verified), SignInError> {
        let token = Jwt::parse(&tokens.id_token)?;
        let claims = self.verify_signature(&token, metadata).await?;
        let expected = Expected {
            issuer: &self.config.issuer,
            client_id: &self.config.client_id,
            nonce,
            access_token_hash: Some(token.hash_half(&tokens.access_token)),
            clock_skew: self.config.clock_skew,
            now,
        };
        let verified = expected.check(&claims)?;
        Ok((claims, verified))
    }

    /// Verifies a signature. If no key fits, the keys may have changed, even under their ids, so they
    /// are fetched once more.
    async fn verify_signature(
        &self,
        token: &Jwt<'_>,
        metadata: &Metadata,
    ) -> Result<Claims, SignInError> {
        let keys = self.keys.get(self.fetch_keys(metadata)).await?;
        let error = match token.verify(&keys) {
            Err(error @ (TokenError::UnknownKey | TokenError::BadSignature)) => error,
            verified => return Ok(verified?),
        };
        let newer = self.keys.refetch(&keys, self.fetch_keys(metadata)).await?;
        let newer = newer.ok_or(error)?;
        Ok(token.verify(&newer)?)
    }

    async fn identify(
        &self,
        metadata: &Metadata,
        tokens: &Tokens,
        id_token: Claims,
        verified: Verified,
    ) -> Identity {
        let userinfo = self.ask_userinfo(metadata, tokens, &id_token, &verified.subject).await;
        let search = GroupSearch {
            http: &self.http,
            config: &self.config,
            contacts: &self.contacts,
            access_token: &tokens.access_token,
        };
        let groups = search.find(&id_token, userinfo.as_ref()).await;
        let mut all = userinfo.and_then(Result::ok).unwrap_or_default();
        // The address and whether it is verified belong together.
        if id_token.contains_key("email") {
            all.remove("email_verified");
        }
        // What is signed takes precedence.
        all.extend(id_token);
        let text = |name| {
            let text = claims::text(&all, name);
            text.filter(|text| !text.is_empty() && text.len() <= MOST_TEXT).map(str::to_owned)
        };
        let email = text("email");
        Identity {
            issuer: self.config.issuer.clone(),
            subject: verified.subject,
            email_verified: email.is_some() && claims::is_true(&all, "email_verified"),
            email,
            name: text("name"),
            preferred_username: text("preferred_username"),
            groups,
            issued_at: UNIX_EPOCH + verified.issued_at,
            expires_at: UNIX_EPOCH + verified.expires_at,
        }
    }

    /// The claims of the userinfo endpoint, if the ID token lacks some that are wanted.
    async fn ask_userinfo(
        &self,
        metadata: &Metadata,
        tokens: &Tokens,
        id_token: &Claims,
        subject: &str,
    ) -> Option<Result<Claims, ProviderError>> {
        let url = metadata.userinfo_endpoint.as_ref()?;
        let lacks = |scope: &str, claim| {
            self.config.scopes.iter().any(|one| one == scope) && !id_token.contains_key(claim)
        };
        let groups = self.config.groups_claim.as_ref();
        let lacks_groups = groups.is_some_and(|path| !has_groups(id_token, path));
        if !(lacks_groups || lacks("email", "email") || lacks("profile", "name")) {
            return None;
        }
        let endpoint = Endpoint::Userinfo;
        let token = Zeroizing::new(format!("Bearer {}", *tokens.access_token));
        let answer = self.http.get(Ask { endpoint, url, authorization: Some(token), body: None });
        Some(answer.await.and_then(|userinfo| {
            // Another person's claims must not be mixed in.
            if claims::text(&userinfo, "sub") == Some(subject) {
                return Ok(userinfo);
            }
            Err(bad_answer(endpoint, "it is about another person than the ID token"))
        }))
    }
}
