//! The query with which the browser comes back from the provider.

use url::form_urlencoded;
use zeroize::Zeroizing;

use crate::{Pending, SignInError, error::sanitize};

/// The longest query that is read.
const MOST_BYTES: usize = 16 * 1024;

/// Finds the authorization code, after checking that the redirect belongs to the sign-in and comes
/// from the provider that was asked.
pub(crate) fn find_code(
    query: &str,
    pending: &Pending,
    issuer_is_required: bool,
) -> Result<Zeroizing<String>, SignInError> {
    let query = query.strip_prefix('?').unwrap_or(query);
    if query.len() > MOST_BYTES {
        return Err(SignInError::MalformedRedirect("it is too long"));
    }
    let state = parameter(query, "state")?;
    if !state.is_some_and(|state| pending.has_state(&state)) {
        return Err(SignInError::WrongState);
    }
    match parameter(query, "iss")? {
        Some(issuer) if *issuer != pending.issuer => return Err(SignInError::WrongIssuer),
        None if issuer_is_required => return Err(SignInError::WrongIssuer),
        _ => {}
    }
    if let Some(code) = parameter(query, "error")? {
        let description = parameter(query, "error_description")?.unwrap_or_default();
        let (code, description) = (sanitize(&code), sanitize(&description));
        return Err(SignInError::Refused { code, description });
    }
    let code = parameter(query, "code")?.filter(|code| !code.is_empty());
    code.ok_or(SignInError::MalformedRedirect("it has neither `code` nor `error`"))
}

/// A parameter, which must not be there twice.
fn parameter(query: &str, name: &str) -> Result<Option<Zeroizing<String>>, SignInError> {
    let mut all = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    let first = all.next().map(|(_, value)| Zeroizing::new(value.into_owned()));
    match all.next() {
        None => Ok(first),
        Some(_) => Err(SignInError::MalformedRedirect("a parameter is there twice")),
    }
}

#[cfg(test)]
mod tests {
    use super::find_code;
    use crate::{Pending, SignInError};

    fn check(query: &str, issuer_is_required: bool, expected: &Result<&str, SignInError>) {
        let pending = Pending {
            issuer: "https://id.example".into(),
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v".into(),
            begun_at: 0,
        };
        let found = find_code(query, &pending, issuer_is_required);
        assert_eq!(found.as_ref().map(|code| code.as_str()), expected.as_ref().copied(), "{query}");
    }

    #[test]
    fn a_redirect_yields_the_code_of_this_sign_in_only() {
        let iss = "iss=https%3A%2F%2Fid.example";
        check("code=a%2Bb&state=s", false, &Ok("a+b"));
        check(&format!("?code=c&state=s&{iss}&session_state=x"), true, &Ok("c"));
        for query in ["", "code=c", "code=c&state=", "code=c&state=t", "error=e&state=t"] {
            check(query, false, &Err(SignInError::WrongState));
        }
        check("code=c&state=s", true, &Err(SignInError::WrongIssuer));
        for issuer in ["", "https://id.example/", "https://other.example"] {
            check(&format!("code=c&state=s&iss={issuer}"), false, &Err(SignInError::WrongIssuer));
            check(&format!("error=e&state=s&iss={issuer}"), false, &Err(SignInError::WrongIssuer));
        }
    }

    #[test]
    fn a_malformed_redirect_is_refused() {
        let twice = SignInError::MalformedRedirect("a parameter is there twice");
        for query in
            ["state=s&state=s&code=c", "state=s&code=c&code=d", "state=s&iss=a&iss=b&code=c"]
        {
            check(query, false, &Err(twice.clone()));
        }
        let neither = SignInError::MalformedRedirect("it has neither `code` nor `error`");
        check("state=s", false, &Err(neither.clone()));
        check("state=s&code=", false, &Err(neither));
        let long = format!("state=s&code={}", "x".repeat(16 * 1024));
        check(&long, false, &Err(SignInError::MalformedRedirect("it is too long")));
    }

    #[test]
    fn a_refusal_is_told_apart() {
        let refused = SignInError::Refused {
            code: "access_denied".into(),
            description: "not  assigned".into(),
        };
        check(
            "state=s&error=access_denied&error_description=not%0A+assigned&code=c",
            false,
            &Err(refused),
        );
    }
}
