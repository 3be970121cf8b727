//! Sign-in with an identity provider by OpenID Connect: the relying party's side of the protocol.
//!
//! [`Provider::begin`] makes the URL at the provider to which the browser is sent, by the
//! authorization code flow with PKCE. [`Provider::finish`] takes the query with which the browser
//! comes back, exchanges the code, verifies the ID token and finds the groups; its [`Identity`] is
//! the proof of who signed in. Between the two, the caller keeps [`Pending`] for this browser only
//! (for instance encrypted in a cookie), and deletes it at the first redirect that comes back.
//!
//! ```no_run
//! use std::time::SystemTime;
//!
//! use sluice_oidc::{Hints, Identity, Provider, ProviderConfig, SignIn};
//!
//! # async fn sign_in(query: &str, now: SystemTime) -> Result<Identity, Box<dyn std::error::Error>> {
//! let provider = Provider::new(ProviderConfig {
//!     client_secret: Some("the secret".to_owned().into()),
//!     groups_claim: Some("groups".into()),
//!     ..ProviderConfig::new(
//!         "https://id.example.com",
//!         "sluice",
//!         "https://sluice.example.com/sign-in/callback",
//!     )
//! })?;
//! let SignIn { url, pending } = provider.begin(&Hints::default(), now).await?;
//! // The browser is sent to `url`, and comes back with a query.
//! let identity = provider.finish(pending, query, now).await?;
//! # Ok(identity)
//! # }
//! ```
//!
//! This crate knows nothing of pages, cookies, sessions, accounts and roles. It keeps no state but
//! the provider's metadata and keys. The caller passes the time in.
//!
//! What a provider sends is bounded in size, number and time, and redirects are not followed. The
//! texts of [`SignInError`] are for the person who signs in; [`SignInError::detail`] is for the log.

mod cached;
mod claims;
mod config;
mod error;
mod groups;
mod http_client;
mod id_token;
mod identity;
mod jwt;
mod keys;
mod metadata;
mod pending;
mod provider;
mod redirect;
mod token_endpoint;

pub use config::{ConfigError, ProviderConfig};
pub use error::{Endpoint, ProviderError, SignInError, TokenError};
pub use groups::{Groups, GroupsUnavailable};
pub use identity::Identity;
pub use pending::{Hints, Pending, Prompt, SignIn};
pub use provider::Provider;
