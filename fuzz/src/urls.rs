//! `url_host_in` agrees with the `url` crate, used as anyone would.

use serde_json::json;
use url::{Host, Url};

use crate::policy::{holds, with_operator};

/// Takes the first line for a host pattern and the rest for a URL.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, url) = text.split_once('\n').unwrap_or(("*.example.com", text));
    let Some(policy) = with_operator("url_host_in", &json!([pattern])) else { return };
    assert_eq!(holds(&policy, url), is_expected(pattern, url), "{url:?} under {pattern:?}");
}

/// Whether the host fits the pattern; `None` if the URL is not to be judged.
fn is_expected(pattern: &str, text: &str) -> Option<bool> {
    let url = Url::parse(text).ok()?;
    if has_user_info(text, &url) {
        return None;
    }
    let Some(host) = url.host() else { return Some(false) };
    let name = host.to_string();
    let is_normal = Host::parse(&name).is_ok_and(|host| host.to_string() == name);
    let odd = name.chars().any(|c| !c.is_ascii_alphanumeric() && !".-_[]:".contains(c));
    let web = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp" | "file");
    if name.ends_with('.') || !(web || is_normal && !odd) {
        return None;
    }
    let normal = |text: &str| Host::parse(text).expect("a pattern that loads").to_string();
    Some(match pattern.strip_prefix("*.") {
        None => name == normal(pattern),
        Some(parent) => {
            let parent = format!(".{}", normal(parent));
            let labels = name.len().saturating_sub(parent.len());
            let below =
                name.ends_with(&parent) && !name.get(..labels).unwrap_or_default().is_empty();
            below && !name.starts_with('.') && !name.contains("..")
        }
    })
}

/// Whether an `@` stands in the authority, which the parser drops if nothing
/// stands before it.
fn has_user_info(text: &str, url: &Url) -> bool {
    let text: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let Some((_, rest)) = text.split_once(':') else { return false };
    let web = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp");
    let (rest, ends): (_, &[char]) = if web {
        (rest.trim_start_matches(['/', '\\']), &['/', '\\', '?', '#'])
    } else if url.scheme() == "file" {
        return false;
    } else {
        (rest.strip_prefix("//").unwrap_or_default(), &['/', '?', '#'])
    };
    rest.split(ends).next().is_some_and(|authority| authority.contains('@'))
}
