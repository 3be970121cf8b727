//! Network values: addresses, URLs and networks.

use std::net::{Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use toml::de::DeValue;
use url::{Host, Url};

use super::{Parsed, Wrong};

const ADDRESS: &str = "an address and a port such as `127.0.0.1:8787`";

/// A listen address from the file.
pub(crate) fn address(value: &DeValue<'_>) -> Parsed<SocketAddr> {
    match value {
        DeValue::Integer(port) => {
            Err(Wrong::with_hint(ADDRESS, format!("write \"127.0.0.1:{port}\"")))
        }
        other => socket_address(other.as_str().ok_or(ADDRESS)?),
    }
}

/// Parses a listen address. Host names are not resolved: the address decides who can reach the
/// listener.
pub(crate) fn socket_address(text: &str) -> Parsed<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = |text: &str| text.parse::<u16>().ok();
    if let Some(port) = text.strip_prefix("localhost:").and_then(port) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    match port(text.strip_prefix(':').unwrap_or(text)) {
        Some(port) => Err(Wrong::with_hint(ADDRESS, format!("write `127.0.0.1:{port}`"))),
        None => Err(ADDRESS.into()),
    }
}

/// A range of addresses.
pub(crate) fn range(value: &DeValue<'_>) -> Parsed<IpNet> {
    const EXPECTED: &str = "a range of addresses such as `10.0.0.0/8`";
    let text = value.as_str().ok_or(EXPECTED)?;
    if let Ok(address) = text.parse() {
        let alone = IpNet::from(std::net::IpAddr::clone(&address));
        return Err(Wrong::with_hint(EXPECTED, format!("write `{alone}`")));
    }
    let range: IpNet = text.parse().map_err(|_| Wrong::from(EXPECTED))?;
    if range.addr() == range.network() {
        Ok(range)
    } else {
        let hint = format!("the range around it is `{}`", range.trunc());
        Err(Wrong::with_hint("a range that begins at its own first address", hint))
    }
}

/// A host as in a `Host` header, with its port if there is one.
pub(crate) fn host(value: &DeValue<'_>) -> Parsed<String> {
    const EXPECTED: &str = "a host such as `gateway.example.com` or `gateway.example.com:8787`";
    let text = value.as_str().ok_or(EXPECTED)?;
    if let Some(host) = Url::parse(text).ok().and_then(|url| Some(url.host_str()?.to_owned())) {
        return Err(Wrong::with_hint(EXPECTED, format!("write `{host}`")));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !text.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let canonical = Host::parse(name).ok().map(|host| host.to_string());
    // Another spelling would never equal the header that clients send.
    let is_host = canonical.is_some_and(|host| host.eq_ignore_ascii_case(name));
    if is_host && is_port && !text.contains('*') {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(EXPECTED.into())
    }
}

/// An origin as in an `Origin` header.
pub(crate) fn origin(value: &DeValue<'_>) -> Parsed<String> {
    const EXPECTED: &str = "an origin such as `https://app.example.com`";
    let text = value.as_str().ok_or(EXPECTED)?;
    let url = Url::parse(text).map_err(|_| Wrong::from(EXPECTED))?;
    let origin = url.origin().ascii_serialization();
    if !url.has_host() || origin == "null" {
        Err(EXPECTED.into())
    } else if origin.eq_ignore_ascii_case(text) {
        Ok(origin)
    } else {
        Err(Wrong::with_hint(EXPECTED, format!("write `{origin}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{check, hints},
        *,
    };

    #[test]
    fn addresses_have_a_port() {
        check(address, r#""127.0.0.1:0""#, Some(([127, 0, 0, 1], 0).into()));
        check(address, r#""[::1]:8787""#, Some("[::1]:8787".parse().unwrap()));
        check(address, r#""localhost:8787""#, Some(([127, 0, 0, 1], 8787).into()));
        for wrong in [r#""127.0.0.1""#, r#""example.com:80""#, r#""localhost:99999""#, "true"] {
            check(address, wrong, None);
        }
        hints(address, r#"":8787""#, "write `127.0.0.1:8787`");
        hints(address, "8787", "write \"127.0.0.1:8787\"");
    }

    #[test]
    fn ranges_begin_at_their_first_address() {
        check(range, r#""10.0.0.0/8""#, Some("10.0.0.0/8".parse().unwrap()));
        check(range, r#""fd00::/8""#, Some("fd00::/8".parse().unwrap()));
        hints(range, r#""10.1.2.3/8""#, "the range around it is `10.0.0.0/8`");
        hints(range, r#""10.1.2.3""#, "write `10.1.2.3/32`");
        check(range, r#""private""#, None);
    }

    #[test]
    fn hosts_and_origins_are_as_headers_name_them() {
        for good in ["gateway.example.com", "gateway.example.com:8787", "10.0.0.7:80", "[::1]:80"] {
            check(host, &format!("{good:?}"), Some(good.into()));
        }
        check(host, r#""Gateway""#, Some("gateway".into()));
        for wrong in ["", "a b", "*.example.com", "example.com:x", "example.com/", "::1", "a:0"] {
            check(host, &format!("{wrong:?}"), None);
        }
        hints(host, r#""https://example.com/x""#, "write `example.com`");
        check(origin, r#""https://app.example.com""#, Some("https://app.example.com".into()));
        check(origin, r#""http://localhost:3000""#, Some("http://localhost:3000".into()));
        hints(origin, r#""https://app.example.com/""#, "write `https://app.example.com`");
        check(origin, r#""app.example.com""#, None);
        check(origin, r#""null""#, None);
        check(origin, r#""file:///tmp""#, None);
    }
}
