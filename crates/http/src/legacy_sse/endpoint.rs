//! The URL for messages, from the first event of an HTTP+SSE stream.

use http::Uri;
use url::Url;

/// Why the first event of a stream does not name a usable URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("its endpoint is not a URL")]
    Url,
    /// Another origin, which must not get the server's credential.
    #[error("its endpoint is not on the server's own origin")]
    Origin,
}

/// Resolves the URL `named` in a stream of `server`.
pub(super) fn endpoint(server: &Uri, named: &str) -> Result<Uri, EndpointError> {
    let server = Url::parse(&server.to_string()).map_err(|_| EndpointError::Url)?;
    let mut url = server.join(named.trim()).map_err(|_| EndpointError::Url)?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    if url.origin() != server.origin() || !url.origin().is_tuple() || !is_plain {
        return Err(EndpointError::Origin);
    }
    url.set_fragment(None);
    url.as_str().parse().map_err(|_| EndpointError::Url)
}

#[cfg(test)]
mod tests {
    use super::{EndpointError, endpoint};

    fn check(named: &str, expected: Result<&str, EndpointError>) {
        let server = "http://old.example:8080/base/sse?key=1".parse().unwrap();
        let found = endpoint(&server, named).map(|url| url.to_string());
        assert_eq!(found, expected.map(str::to_owned), "{named}");
    }

    #[test]
    fn an_endpoint_is_resolved_against_the_url_of_the_stream() {
        check("/message?sessionId=1", Ok("http://old.example:8080/message?sessionId=1"));
        check("message?s=1#part", Ok("http://old.example:8080/base/message?s=1"));
        check("?s=1", Ok("http://old.example:8080/base/sse?s=1"));
        check("http://old.example:8080/m", Ok("http://old.example:8080/m"));
        check("HTTP://OLD.example:8080/m", Ok("http://old.example:8080/m"));
    }

    #[test]
    fn an_endpoint_at_another_origin_is_refused() {
        for elsewhere in [
            "http://169.254.169.254/latest",
            "http://old.example/m",
            "http://old.example:8081/m",
            "https://old.example:8080/m",
            "//evil.example/m",
            "\\\\evil.example\\m",
            "http://old.example:8080@evil.example/m",
            "http://user:secret@old.example:8080/m",
            "file:///etc/passwd",
            "javascript:alert(1)",
        ] {
            check(elsewhere, Err(EndpointError::Origin));
        }
        check("http://", Err(EndpointError::Url));
    }
}
