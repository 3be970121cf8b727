//! How much of a server's URL may be shown. Hosted servers have their keys in the path or the
//! query, in forms that cannot be told from names. So a path is shown only if all of it is
//! words that paths of MCP servers usually have, and user and query never are.

use crate::arguments::MASK;

/// The words of a path that are certainly no secrets; `v1` and the like are others.
const PLAIN_WORDS: [&str; 7] = ["", "api", "mcp", "message", "messages", "rpc", "sse"];

/// The URL with a mask instead of its user, its query, and its path unless that is plain.
pub fn mask(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return MASK.to_owned() };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let (path, secret) = match rest.find(['?', '#']).and_then(|at| rest.split_at_checked(at)) {
        Some((path, secret)) => (path, secret),
        None => (rest, ""),
    };
    if !path.split('/').all(is_plain_word) {
        return format!("{scheme}://{host}/{MASK}");
    }
    let sign = secret.get(..1).unwrap_or_default();
    let mask = if sign.is_empty() { "" } else { MASK };
    format!("{scheme}://{host}{path}{sign}{mask}")
}

/// Whether a segment of a path is a word that is certainly no secret.
pub(crate) fn is_plain_word(segment: &str) -> bool {
    let version = segment.strip_prefix('v').unwrap_or_default();
    PLAIN_WORDS.contains(&segment)
        || (matches!(version.len(), 1 | 2) && version.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn only_scheme_host_and_plain_paths_are_shown() {
        for whole in [
            "https://mcp.example.com",
            "https://mcp.example.com/",
            "http://127.0.0.1:4000/mcp",
            "http://[::1]:4000/api/v1/mcp/sse",
        ] {
            assert_eq!(mask(whole), whole);
        }
        for (url, shown) in [
            ("https://h/hush/mcp", "https://h/…"),
            ("https://h/mcp/HUSH", "https://h/…"),
            ("https://h/v123/mcp", "https://h/…"),
            ("https://h/hush?key=hush", "https://h/…"),
            ("https://h/mcp?key=hush", "https://h/mcp?…"),
            ("https://h?hush", "https://h?…"),
            ("https://h/mcp#hush", "https://h/mcp#…"),
            ("https://me:hush@h:1/mcp", "https://…@h:1/mcp"),
            ("https://h/mcp?to=hush@elsewhere/mcp", "https://h/mcp?…"),
            ("https://h\\hush@h", "https://h/…"),
            ("hush", "…"),
        ] {
            assert_eq!(mask(url), shown);
        }
    }
}
