//! Why a sign-in failed: a text for the person who signs in, and a detail for the log.
//!
//! Neither has secrets, codes or text of tokens.

use std::fmt;

/// Why a sign-in failed.
///
/// `Display` is for the person who signs in; [`SignInError::detail`] is for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The redirect came too long after the sign-in began.
    #[error("this sign-in took too long\nhint: start again")]
    Stale,
    /// The redirect belongs to another sign-in, or somebody made it up.
    #[error(
        "this answer does not belong to the sign-in that this browser began\nhint: start again"
    )]
    WrongState,
    #[error("the address that the browser came back with is malformed\nhint: start again")]
    MalformedRedirect(&'static str),
    /// The redirect came from another provider than the one that was asked (RFC 9207).
    #[error(
        "the answer came from another identity provider than the one that was asked\nhint: start again, and tell your administrator if it happens again"
    )]
    WrongIssuer,
    /// The provider ended the sign-in, or the person did so there.
    #[error("the identity provider refused the sign-in: {}", describe_refusal(code))]
    Refused { code: String, description: String },
    /// The provider does not accept the code: it was used before, or is too old.
    #[error(
        "the identity provider no longer accepts this sign-in: its code was used before or has expired\nhint: start again"
    )]
    CodeRefused { description: String },
    /// The provider does not accept the client that is configured here.
    #[error(
        "the identity provider does not accept this gateway as its client\nhint: an administrator checks `client_id`, `client_secret` and `redirect_uri`"
    )]
    ClientRefused { code: String, description: String },
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("the identity provider's ID token is not valid: {0}")]
    Token(#[from] TokenError),
}

/// Why the provider's metadata, keys or answers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error(
        "the identity provider cannot be reached\nhint: try again later, or ask an administrator"
    )]
    Unreachable { endpoint: Endpoint, why: String },
    #[error("the identity provider does not answer in time\nhint: try again later")]
    TimedOut { endpoint: Endpoint },
    #[error(
        "the identity provider gives answers that cannot be used\nhint: ask an administrator, who finds the reason in the log"
    )]
    BadAnswer { endpoint: Endpoint, why: String },
    /// The discovery document is that of another issuer than the configured one.
    #[error(
        "the identity provider has another issuer than `{configured}`\nhint: an administrator corrects `issuer`, character by character"
    )]
    WrongIssuer { configured: String, found: String },
    #[error("the identity provider does not support {0}, which this gateway needs")]
    Unsupported(&'static str),
    /// The operating system gives no random numbers.
    #[error("this gateway cannot make random numbers\nhint: ask an administrator")]
    NoRandomness,
}

/// Why an ID token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is malformed: {0}")]
    Malformed(&'static str),
    #[error(
        "it is signed by the algorithm `{0}`, which is not accepted\nhint: an administrator chooses RS256, PS256, ES256 or EdDSA at the provider"
    )]
    Algorithm(String),
    #[error(
        "it is signed by a key that the provider does not publish\nhint: try again in a minute"
    )]
    UnknownKey,
    #[error("its signature is wrong")]
    BadSignature,
    #[error("another issuer made it")]
    WrongIssuer,
    #[error("it was made for another client")]
    WrongAudience,
    #[error(
        "it has expired\nhint: an administrator checks the clocks of this machine and of the provider"
    )]
    Expired,
    #[error(
        "it is not valid yet\nhint: an administrator checks the clocks of this machine and of the provider"
    )]
    NotYetValid,
    #[error("it belongs to another sign-in\nhint: start again")]
    WrongNonce,
    #[error("it belongs to another access token")]
    WrongAccessToken,
    #[error("it has no valid `{0}`")]
    MissingClaim(&'static str),
}

/// What was asked of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Discovery,
    Keys,
    Token,
    Userinfo,
    Groups,
}

impl SignInError {
    /// What an administrator needs to know, for the log.
    pub fn detail(&self) -> String {
        match self {
            SignInError::MalformedRedirect(why) => format!("malformed redirect: {why}"),
            SignInError::Refused { code, description } => {
                format!("the provider refused: {}", join(code, description))
            }
            SignInError::CodeRefused { description } => {
                format!("the provider refused the code: {}", join("invalid_grant", description))
            }
            SignInError::ClientRefused { code, description } => {
                format!("the provider refused the client: {}", join(code, description))
            }
            SignInError::Provider(error) => error.detail(),
            other => other.to_string(),
        }
    }
}

impl ProviderError {
    /// What an administrator needs to know, for the log.
    pub fn detail(&self) -> String {
        match self {
            ProviderError::Unreachable { endpoint, why } => {
                format!("no connection to {endpoint}: {why}")
            }
            ProviderError::TimedOut { endpoint } => format!("no answer from {endpoint} in time"),
            ProviderError::BadAnswer { endpoint, why } => {
                format!("bad answer from {endpoint}: {why}")
            }
            ProviderError::WrongIssuer { configured, found } => {
                format!("the configured issuer is `{configured}`, the provider's is `{found}`")
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Endpoint::Discovery => "the discovery document",
            Endpoint::Keys => "the key set",
            Endpoint::Token => "the token endpoint",
            Endpoint::Userinfo => "the userinfo endpoint",
            Endpoint::Groups => "the groups endpoint",
        })
    }
}

fn describe_refusal(code: &str) -> &'static str {
    match code {
        "access_denied" => {
            "it was cancelled, or you may not use this application\nhint: start again, or ask an administrator of the identity provider"
        }
        "login_required"
        | "interaction_required"
        | "consent_required"
        | "account_selection_required" => "you must sign in there first\nhint: start again",
        "server_error" | "temporarily_unavailable" => "it has a fault\nhint: try again later",
        _ => "it does not accept the request\nhint: an administrator finds the reason in the log",
    }
}

fn join(code: &str, description: &str) -> String {
    if description.is_empty() { format!("`{code}`") } else { format!("`{code}`: {description}") }
}

/// Text from outside as it may stand in a log: printable ASCII, and not long.
pub(crate) fn sanitize(text: &str) -> String {
    const MOST: usize = 300;
    let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    text.chars().map(|c| if is_plain(&c) { c } else { ' ' }).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::{SignInError, TokenError, sanitize};

    #[test]
    fn text_from_outside_is_shortened_and_has_no_control_characters() {
        assert_eq!(sanitize("a\u{1b}[31m\nb\u{202e}"), "a [31m b ");
        assert_eq!(sanitize(&"x".repeat(1000)).len(), 300);
    }

    #[test]
    fn the_page_does_not_show_what_the_provider_wrote() {
        let error = SignInError::Refused { code: "<b>".into(), description: "look here".into() };
        assert!(!error.to_string().contains("look here") && !error.to_string().contains("<b>"));
        assert_eq!(error.detail(), "the provider refused: `<b>`: look here");
        let error = SignInError::from(TokenError::BadSignature);
        assert_eq!(
            error.to_string(),
            "the identity provider's ID token is not valid: its signature is wrong"
        );
    }
}
