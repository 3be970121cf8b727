//! The session cookie, and the token against cross-site request forgery (CSRF) that goes with it.

use axum::http::{HeaderMap, HeaderValue, header};
use sluice_store::{Token, TokenHash};

/// The cookie. Browsers accept this prefix only from the host itself, over HTTPS or on this
/// machine, and without a `Domain`, so that no other host can set it.
pub(crate) const NAME: &str = "__Host-sluice";
/// The header that carries the CSRF token.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// The value of a session cookie.
#[derive(Debug)]
pub(crate) struct CookieValue(Token);

impl CookieValue {
    /// A new random value; `None` if the system provides no randomness.
    pub(crate) fn new() -> Option<CookieValue> {
        Token::random().map(CookieValue)
    }

    pub(crate) fn hash(&self) -> TokenHash {
        self.0.hash()
    }

    /// The header that sets the cookie. It ends with the browser; the gateway ends the session
    /// earlier.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let value = self.0.text();
        let cookie = format!("{NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Strict");
        let mut header = HeaderValue::from_str(&cookie).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    pub(crate) fn csrf_token(&self) -> String {
        derive_csrf_token(self.0.text())
    }
}

/// The header that removes the cookie.
pub(crate) fn removal() -> HeaderValue {
    HeaderValue::from_static("__Host-sluice=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// The value of the session cookie of a request. Two of them are refused: one may be planted.
pub(crate) fn read(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(name, _)| *name == NAME).map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

/// The CSRF token of a session: a page of another site cannot read the cookie, so it cannot
/// compute it.
pub(crate) fn derive_csrf_token(cookie: &str) -> String {
    TokenHash::of(&format!("sluicegate csrf {cookie}")).as_hex()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::{CookieValue, read};

    #[test]
    fn one_session_cookie_among_others_is_found() {
        let headers = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("cookie", line.parse().unwrap());
            }
            headers
        };
        for (lines, expected) in [
            (&["a=b; __Host-sluice=x; c=d"][..], Some("x")),
            (&["a=b", "__Host-sluice=x"], Some("x")),
            (&["sluice=x", "__host-sluice=y"], None),
            (&["__Host-sluice=x; __Host-sluice=y"], None),
            (&["__Host-sluice=x", "__Host-sluice=x"], None),
        ] {
            assert_eq!(read(&headers(lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_cookie_is_kept_from_scripts_and_other_sites() {
        let cookie = CookieValue::new().unwrap();
        let header = cookie.header().unwrap();
        assert!(!format!("{header:?}").contains("sluice"), "it is not logged");
        let text = header.to_str().unwrap();
        for part in ["; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
            assert!(text.contains(part), "{text}");
        }
        assert_ne!(cookie.csrf_token(), CookieValue::new().unwrap().csrf_token());
    }
}
