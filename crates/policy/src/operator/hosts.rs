//! `url_host_in`: whether the host of a URL is in a list.

use std::cell::Cell;

use url::{Host, SyntaxViolation, Url};

use crate::path::Unjudgeable;

/// Host patterns.
#[derive(Debug)]
pub(crate) struct Hosts(Box<[HostPattern]>);

#[derive(Debug)]
pub(crate) enum HostPattern {
    /// Exactly this host.
    Exact(Box<str>),
    /// `*.` and this: at least one more label before it. Stored with its leading dot.
    Below(Box<str>),
}

impl HostPattern {
    /// Parses `api.example.com` or `*.example.com`; `None` if it is not a host.
    pub(crate) fn parse(text: &str) -> Option<HostPattern> {
        match text.strip_prefix("*.") {
            Some(parent) => match normal(parent)? {
                Host::Domain(domain) => Some(HostPattern::Below(format!(".{domain}").into())),
                _ => None,
            },
            None => Some(HostPattern::Exact(normal(text)?.to_string().into())),
        }
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(wanted) => host == &**wanted,
            HostPattern::Below(parent) => host
                .strip_suffix(&**parent)
                .is_some_and(|labels| labels.split('.').all(|label| !label.is_empty())),
        }
    }
}

/// The host in the normalised form of a URL parser.
fn normal(text: &str) -> Option<Host> {
    let host = Host::parse(text).ok()?;
    let usable = !text.contains(['*', '%']) && !host.to_string().ends_with('.');
    usable.then_some(host)
}

impl Hosts {
    pub(crate) fn new(patterns: Vec<HostPattern>) -> Hosts {
        Hosts(patterns.into())
    }

    /// Whether the host of the URL in `text` is one of these.
    pub(crate) fn include(&self, text: &str) -> Result<bool, Unjudgeable> {
        let user_info = Cell::new(false);
        // The parser drops an empty user-info, but reports it as a violation.
        let notice = |violation| {
            user_info.set(user_info.get() || violation == SyntaxViolation::EmbeddedCredentials);
        };
        let url = Url::options().syntax_violation_callback(Some(&notice)).parse(text);
        let url = url.map_err(|_| Unjudgeable::Type)?;
        if user_info.get() {
            return Err(Unjudgeable::Type);
        }
        let Some(host) = url.host_str() else { return Ok(false) };
        // `example.com.` is the same host as `example.com` to some programs, and another one to
        // others.
        if host.ends_with('.') || !(url.is_special() || is_plain(host)) {
            return Err(Unjudgeable::Type);
        }
        Ok(self.0.iter().any(|pattern| pattern.matches(host)))
    }
}

/// Whether a host is spelt as in a web URL, without unusual characters. Other schemes keep a host
/// as it was written: `git://EVIL.example`.
fn is_plain(host: &str) -> bool {
    let odd = |byte: u8| !byte.is_ascii_alphanumeric() && !b".-_[]:".contains(&byte);
    !host.bytes().any(odd) && Host::parse(host).is_ok_and(|normal| normal.to_string() == host)
}

#[cfg(test)]
mod tests {
    use super::{HostPattern, Hosts};
    use crate::path::Unjudgeable;

    fn check(url: &str, expected: Result<bool, Unjudgeable>) {
        let patterns = ["api.example.com", "*.example.org", "127.0.0.1", "[::1]", "bücher.example"];
        let patterns = patterns.map(|text| HostPattern::parse(text).unwrap());
        assert_eq!(Hosts::new(patterns.into()).include(url), expected, "{url}");
    }

    #[test]
    fn hosts_compare_as_urls_are_parsed() {
        for url in [
            "https://api.example.com/x",
            "HTTPS://API.EXAMPLE.COM",
            "http://a.example.org:8080/@x",
            "https://a.b.example.org",
            "http://0x7f.1/",
            "http://[0:0::1]/",
            "https://b%C3%BCcher.example/",
            "https:/\\api.example.com/",
        ] {
            check(url, Ok(true));
        }
        for url in [
            "https://example.com",
            "https://example.org",
            "https://xexample.org",
            "https://api.example.com.evil.net",
            "https://.example.org",
            "mailto:a@example.org",
            "https://evil.net/?api.example.com",
            "data:text/plain,api.example.com",
        ] {
            check(url, Ok(false));
        }
    }

    #[test]
    fn urls_with_user_info_and_other_texts_are_not_judged() {
        for url in [
            "api.example.com",
            "/x",
            "",
            "https://user@api.example.com",
            "https://:pw@api.example.com",
            "https://@api.example.com",
            "https://api.example.com@evil.net",
            "https://api.example.com./",
            "//api.example.com",
            "https://",
            "git://API.example.com/x",
            "redis://0x7f.1/",
            "ssh://api%2eexample.com/",
            "postgresql://evil.net,a.example.org/db",
        ] {
            check(url, Err(Unjudgeable::Type));
        }
    }

    #[test]
    fn only_hosts_are_host_patterns() {
        for text in ["", "*", "*.*.com", "https://x.com", "x.com:80", "x.com/", "a*.com", "x.com."]
        {
            assert!(HostPattern::parse(text).is_none(), "{text}");
        }
    }
}
