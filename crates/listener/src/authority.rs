//! The host and the port that a `Host` header, an `:authority` or an origin names.
//!
//! Stricter than RFC 3986: no userinfo, no percent-encoding, no zone, no empty host or port. No
//! client of our listeners sends these.

use std::net::Ipv6Addr;

/// `name`, `name:1`, `1.2.3.4:1` or `[::1]:1`. Two are equal if they name the same
/// host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'t> {
    pub(crate) host: Host<'t>,
    pub(crate) port: Option<u16>,
}

/// A host. A trailing dot makes a different name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Host<'t> {
    /// A name or an IPv4 address, which has one spelling only.
    Name(&'t str),
    V6(Ipv6Addr),
}

impl<'t> Authority<'t> {
    pub(crate) fn parse(text: &'t str) -> Option<Authority<'t>> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, after) = rest.split_once(']')?;
            let port = match after {
                "" => None,
                after => Some(parse_port(after.strip_prefix(':')?)?),
            };
            return Some(Authority { host: Host::V6(address.parse().ok()?), port });
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(parse_port(port)?)),
            None => (text, None),
        };
        is_name(name).then_some(Authority { host: Host::Name(name), port })
    }
}

impl PartialEq for Host<'_> {
    fn eq(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Host::V6(one), Host::V6(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Host<'_> {}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// Accepts digits only: `u16::from_str` would accept a sign too.
fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Authority, Host, Ipv6Addr};

    fn name(host: &str, port: Option<u16>) -> Authority<'_> {
        Authority { host: Host::Name(host), port }
    }

    fn v6(host: Ipv6Addr, port: Option<u16>) -> Authority<'static> {
        Authority { host: Host::V6(host), port }
    }

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        let local = Ipv6Addr::LOCALHOST;
        for (text, expected) in [
            ("localhost", name("localhost", None)),
            ("LOCALHOST", name("localhost", None)),
            ("localhost.", name("localhost.", None)),
            ("127.0.0.1:8787", name("127.0.0.1", Some(8787))),
            ("a-b_c.example:443", name("a-b_c.example", Some(443))),
            ("localhost:0080", name("localhost", Some(80))),
            ("[::1]", v6(local, None)),
            ("[::1]:80", v6(local, Some(80))),
            ("[0:0:0:0:0:0:0:1]", v6(local, None)),
        ] {
            assert_eq!(Authority::parse(text), Some(expected), "{text}");
        }
        assert_ne!(Authority::parse("localhost."), Some(name("localhost", None)));
    }

    #[test]
    fn other_texts_are_not_authorities() {
        for text in [
            "",
            ":80",
            "localhost:",
            "localhost:x",
            "localhost:+80",
            "localhost:-1",
            "localhost:99999",
            "localhost:1:2",
            "localhost:80 ",
            " localhost",
            "local host",
            "localhost/",
            "localhost?x",
            "localhost#x",
            "localhost\\x",
            "localhost,evil.example",
            "user@localhost",
            "user:1@localhost:80",
            "%6cocalhost",
            "löcalhost",
            "*",
            "::1",
            "::1:80",
            "[::1",
            "::1]",
            "[[::1]]",
            "[::1]]",
            "[::1]x",
            "[::1]:",
            "[::1]80",
            "[]",
            "[localhost]",
            "[127.0.0.1]",
            "[::1%25eth0]",
            "x[::1]",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = Authority::parse(&text);
        }

        #[test]
        fn a_parsed_authority_equals_its_text(host in "[a-zA-Z0-9._-]{1,20}", port: Option<u16>) {
            let text = port.map_or(host.clone(), |port| format!("{host}:{port}"));
            let read = Authority::parse(&text).unwrap();
            prop_assert_eq!(read, Authority { host: Host::Name(&host), port });
        }
    }
}
