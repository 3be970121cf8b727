//! What a server may be declared with, whether in the file or over the API.

use axum::http::{HeaderName, HeaderValue};
use url::Url;

/// Headers that the gateway makes itself for every request.
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

/// Where a server is. Nothing of it is shown when it is refused, since
/// passwords are written into such places.
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

/// A header to send to a server, by its name.
pub fn header_name(text: &str) -> Result<HeaderName, String> {
    let name = HeaderName::try_from(text).map_err(|_| format!("`{text}` is no header's name"))?;
    if OWN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("mcp-") {
        return Err(format!("header `{name}` is the gateway's own to set"));
    }
    Ok(name)
}

/// Checks what a header is to hold, which is not shown.
pub fn check_header_value(name: &HeaderName, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("the value for header `{name}` is empty"));
    }
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("the value for header `{name}` has characters no header can have")),
    }
}

/// Words in the name of something that is secret.
const SECRET_WORDS: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "auth", "credential", "bearer"];
/// What stands in the place of what is not shown.
const MASK: &str = "…";
/// A word so long, of letters and digits, is more likely a key than a name.
const LONG_WORD: usize = 32;

/// The name of an environment variable.
pub fn variable_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if is_name { Ok(()) } else { Err(format!("`{text}` is no variable's name")) }
}

/// A command as it is shown: without what its arguments may hold of secrets.
pub fn shown_command(command: &[String]) -> Vec<String> {
    let mut is_secret_next = false;
    let shown = command.iter().map(|argument| {
        let is_flag = argument.starts_with('-');
        let is_secret = std::mem::take(&mut is_secret_next) && !is_flag;
        is_secret_next = is_flag && !argument.contains('=') && sounds_secret(argument);
        if is_secret { MASK.to_owned() } else { shown_argument(argument) }
    });
    shown.collect()
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn shown_argument(argument: &str) -> String {
    if let Some((scheme, rest)) = argument.split_once("://") {
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
        let place =
            rest.rsplit_once('@').map_or(rest.to_owned(), |(_, host)| format!("{MASK}@{host}"));
        return format!("{scheme}://{place}{query}");
    }
    match argument.split_once(['=', ':']) {
        Some((name, value)) if sounds_secret(name) && !value.is_empty() => {
            let separator = if argument.starts_with(&format!("{name}=")) { '=' } else { ':' };
            format!("{name}{separator}{MASK}")
        }
        _ if is_like_a_key(argument) => MASK.to_owned(),
        _ => argument.to_owned(),
    }
}

fn is_like_a_key(word: &str) -> bool {
    word.len() >= LONG_WORD
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=".contains(&byte))
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{check_header_value, header_name, server_url};

    #[test]
    fn server_urls_hold_nothing_but_the_place() {
        for good in ["https://mcp.example.com/mcp", "http://127.0.0.1:9000/", "https://a/?b=c"] {
            assert!(server_url(good).is_ok(), "{good}");
        }
        for wrong in ["ftp://a/", "https://me:pw@a/", "https://me@a/", "https://a/#b", "a/b", ""] {
            assert!(server_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_a_servers_own() {
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
    fn commands_are_shown_without_secrets() {
        let check = |command: &[&str], expected: &[&str]| {
            let command: Vec<_> = command.iter().map(ToString::to_string).collect();
            assert_eq!(super::shown_command(&command), expected);
        };
        check(
            &["npx", "-y", "@scope/server", "/home/me"],
            &["npx", "-y", "@scope/server", "/home/me"],
        );
        check(
            &["x", "--api-key", "a", "--token=b", "--keys", "-v"],
            &["x", "--api-key", "…", "--token=…", "--keys", "-v"],
        );
        check(&["x", "Authorization: Bearer a"], &["x", "Authorization:…"]);
        check(&["x", "postgres://me:pw@host/db?sslkey=a"], &["x", "postgres://…@host/db?…"]);
        check(&["x", "0123456789abcdef0123456789abcdef"], &["x", "…"]);
        for (name, is_good) in
            [("A_1", true), ("_", true), ("1A", false), ("A-B", false), ("", false)]
        {
            assert_eq!(super::variable_name(name).is_ok(), is_good, "{name}");
        }
    }
}
