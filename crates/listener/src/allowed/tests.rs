//! One table for both listeners: the URL called, the origin of the call, and the verdict.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use super::{AllowedCallers, CallerError, HostError};

const HOSTS: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "gate.example.com:443",
    "[fd00::1]",
    "[fd00::2]:8787",
    "Mixed.Example",
];
const ORIGINS: [&str; 2] = ["https://app.example.com", "http://[fd00::3]:3000"];

/// Checks a request with these headers; `uri` is its request line.
fn check(uri: &str, headers: &[(HeaderName, &[u8])], expected: &Result<(), CallerError>) {
    let allowed = AllowedCallers::new(HOSTS, ORIGINS).unwrap();
    let mut sent = HeaderMap::new();
    for (name, value) in headers {
        sent.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    let uri: Uri = uri.parse().unwrap();
    assert_eq!(allowed.check(&uri, &sent), *expected, "{uri} {sent:?}");
}

fn check_host(host: &str, expected: &Result<(), CallerError>) {
    check("/mcp", &[(header::HOST, host.as_bytes())], expected);
}

fn check_origin(host: &str, origin: &str, expected: &Result<(), CallerError>) {
    let headers = [(header::HOST, host.as_bytes()), (header::ORIGIN, origin.as_bytes())];
    check("/mcp", &headers, expected);
}

#[test]
fn a_listener_answers_to_its_own_hosts() {
    for host in [
        "localhost",
        "LocalHost",
        "LOCALHOST:80",
        "localhost:65535",
        "127.0.0.1",
        "127.0.0.1:8788",
        "[::1]",
        "[::1]:80",
        "[0:0::1]:80",
        "gate.example.com:443",
        "GATE.example.com:443",
        "[fd00::1]",
        "[FD00::1]:8787",
        "[fd00::2]:8787",
        "mixed.example",
    ] {
        check_host(host, &Ok(()));
    }
}

#[test]
fn a_listener_refuses_other_hosts() {
    for host in [
        "",
        ":80",
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "localhost.",
        "localhost.:80",
        "127.0.0.1.nip.io",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "::1",
        "[::1",
        "[[::1]]",
        "[::1]x",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "[localhost]",
        "[127.0.0.1]",
        "fd00::1",
        "[fd00::2]",
        "[fd00::2]:80",
        "gate.example.com",
        "gate.example.com:80",
        "gate.example.com:+443",
        "localhost:",
        "localhost:x",
        "localhost:99999",
        "localhost:80:80",
        "user@localhost",
        "user:pass@localhost:80",
        "localhost@evil.example",
        "localhost/x",
        "localhost,evil.example",
        "localhost evil.example",
    ] {
        check_host(host, &Err(CallerError::Host));
    }
    check("/mcp", &[], &Err(CallerError::Host));
    check("/mcp", &[(header::HOST, b"localhost\xff")], &Err(CallerError::Host));
}

#[test]
fn the_request_line_and_the_host_header_name_one_host() {
    for (line, host, is_allowed) in [
        ("https://localhost:80/mcp", None, true),
        ("https://localhost:80/mcp", Some("localhost:80"), true),
        ("https://localhost:80/mcp", Some("LOCALHOST:80"), true),
        ("https://[::1]/mcp", Some("[0::1]"), true),
        ("https://localhost:80/mcp", Some("localhost"), false),
        ("https://localhost:80/mcp", Some("localhost:81"), false),
        ("https://localhost/mcp", Some("127.0.0.1"), false),
        ("https://localhost/mcp", Some("evil.example"), false),
        ("https://localhost/mcp", Some(""), false),
        ("https://evil.example/mcp", Some("localhost"), false),
        ("https://evil.example/mcp", Some("evil.example"), false),
        ("https://evil.example/mcp", None, false),
        ("https://user@localhost/mcp", None, false),
        ("https://user@localhost/mcp", Some("localhost"), false),
        ("https://localhost@evil.example/mcp", None, false),
    ] {
        let host = host.map(|host| (header::HOST, host.as_bytes()));
        let expected = if is_allowed { Ok(()) } else { Err(CallerError::Host) };
        check(line, host.as_slice(), &expected);
    }
}

#[test]
fn pages_call_from_the_listener_itself_or_from_a_listed_origin() {
    for (host, origin) in [
        ("localhost:8788", "http://localhost:8788"),
        ("localhost:8788", "https://localhost:8788"),
        ("LOCALHOST:8788", "http://localhost:8788"),
        ("localhost", "https://localhost"),
        ("[::1]:8788", "http://[::1]:8788"),
        ("localhost", "https://app.example.com"),
        ("127.0.0.1:8788", "http://[fd00::3]:3000"),
    ] {
        check_origin(host, origin, &Ok(()));
    }
}

#[test]
fn pages_of_other_origins_are_refused() {
    for origin in [
        "",
        "null",
        "file://",
        "localhost:8788",
        "//localhost:8788",
        "http:localhost:8788",
        "ftp://localhost:8788",
        "chrome-extension://localhost:8788",
        "http://localhost",
        "http://localhost:9999",
        "http://localhost:8788/",
        "http://localhost:8788.evil.example",
        "http://localhost.:8788",
        "http://user@localhost:8788",
        "http://localhost:8788@evil.example",
        "http://localhost:8788,https://app.example.com",
        "http://localhost:8788 https://app.example.com",
        // Names of the listener too, but not the one that is called.
        "http://127.0.0.1:8788",
        "http://[::1]:8788",
        "http://gate.example.com:443",
        "https://evil.example",
        "http://app.example.com",
        "https://app.example.com:1",
        "https://app.example.com/",
        "https://app.example.com.evil.example",
        "https://evil.app.example.com",
    ] {
        check_origin("localhost:8788", origin, &Err(CallerError::Origin));
    }
    let headers: [(_, &[u8]); 2] =
        [(header::HOST, b"localhost"), (header::ORIGIN, b"http://localhost\xff")];
    check("/mcp", &headers, &Err(CallerError::Origin));
}

#[test]
fn a_foreign_host_is_told_before_a_foreign_origin() {
    check_origin("evil.example", "http://evil.example", &Err(CallerError::Host));
}

#[test]
fn a_repeated_header_is_refused_even_if_it_says_the_same() {
    for name in [header::HOST, header::ORIGIN] {
        let one: &[u8] = b"http://localhost";
        let headers = [(header::HOST, &b"localhost"[..]), (name.clone(), one), (name.clone(), one)];
        check("/mcp", &headers, &Err(CallerError::Repeated(name)));
    }
}

#[test]
fn without_a_list_nobody_is_let_in() {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    let allowed = AllowedCallers::default();
    assert_eq!(allowed.check(&Uri::from_static("/"), &headers), Err(CallerError::Host));
}

#[test]
fn a_host_that_could_never_be_called_is_not_taken() {
    for wrong in ["", "*.example.com", "https://example.com", "a b", "a:x", "user@a", "[::1"] {
        let taken = AllowedCallers::new([wrong], ORIGINS);
        assert_eq!(taken.unwrap_err(), HostError(wrong.to_owned()));
    }
}
