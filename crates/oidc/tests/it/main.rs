//! Sign-ins at a real OpenID provider: `oidc-provider` from npm, on loopback.
//!
//! [`provider`] installs and starts it, [`browser`] plays the part of the person's browser, and
//! [`hostile`] is a server that answers what no provider should.

#![cfg(test)]

mod browser;
mod groups;
mod hostile;
mod keys;
mod provider;
mod refusals;
mod sign_in;
mod tls;
mod transport;
