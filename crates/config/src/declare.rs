//! The settings of a server that both the file and the API can declare.

use http::{HeaderName, HeaderValue};
use url::Url;

/// Headers that the gateway sets itself on every request.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Parses a server's URL. Errors do not quote it, because it may contain a password.
pub fn server_url(text: &str) -> Result<Url, &'static str> {
    let url =
        Url::parse(text).map_err(|_| "must be a URL such as `https://mcp.example.com/mcp`")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with `https://` or `http://`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or a password");
    }
    if url.fragment().is_some() {
        return Err("must not have a fragment (`#…`)");
    }
    Ok(url)
}

/// Parses the name of a header to send to a server.
pub fn header_name(text: &str) -> Result<HeaderName, String> {
    let name =
        HeaderName::try_from(text).map_err(|_| format!("`{text}` is not a valid header name"))?;
    if OWN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("mcp-") {
        return Err(format!("header `{name}` is the gateway's own to set"));
    }
    Ok(name)
}

/// Checks the value of a header. Errors do not quote it.
pub fn check_header_value(name: &HeaderName, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("the value for header `{name}` is empty"));
    }
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("the value for header `{name}` has characters no header can have")),
    }
}

/// Checks the name of an environment variable.
pub fn variable_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if is_name { Ok(()) } else { Err(format!("`{text}` is not a valid variable name")) }
}

#[cfg(test)]
mod tests {
    use super::{check_header_value, header_name, server_url};

    #[test]
    fn server_urls_have_no_credentials_or_fragment() {
        for good in ["https://mcp.example.com/mcp", "http://127.0.0.1:9000/", "https://a/?b=c"] {
            assert!(server_url(good).is_ok(), "{good}");
        }
        for wrong in ["ftp://a/", "https://me:pw@a/", "https://me@a/", "https://a/#b", "a/b", ""] {
            assert!(server_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn own_headers_of_the_gateway_and_invalid_ones_are_refused() {
        assert!(header_name("Authorization").is_ok());
        for wrong in ["Host", "MCP-Session-Id", "a b", ""] {
            assert!(header_name(wrong).is_err(), "{wrong}");
        }
        let name = header_name("x-key").unwrap();
        assert!(check_header_value(&name, "v").is_ok());
        for wrong in ["", "a\nb"] {
            let refused = check_header_value(&name, wrong).unwrap_err();
            assert!(!refused.contains('\n'), "{refused}");
        }
    }

    #[test]
    fn variables_have_plain_names() {
        for (name, is_good) in
            [("A_1", true), ("_", true), ("1A", false), ("A-B", false), ("", false)]
        {
            assert_eq!(super::variable_name(name).is_ok(), is_good, "{name}");
        }
    }
}
