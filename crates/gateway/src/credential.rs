//! The headers configured for a server, such as its API key, parsed into a credential.
//! [`Link::send`](crate::link::Link::send) adds it to clients' requests, `assess::fetch` to the
//! gateway's own.
//!
//! A client's own credential never becomes one of these: `authenticate` reads it, and
//! nothing passes it on.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_store::Transport;

/// The credential that the gateway presents to a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The same headers with every request; empty for servers without a credential.
    Static(HeaderMap),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

impl Credential {
    /// Reads the credential from a server's definition, or says what is wrong with it.
    pub(crate) fn read(transport: &Transport) -> Result<Credential, String> {
        let mut headers = HeaderMap::new();
        let Transport::Http { headers: declared, .. } = transport else {
            return Ok(Credential::Static(headers));
        };
        for (name, value) in declared {
            let parsed = HeaderName::try_from(name.as_str())
                .map_err(|_| format!("`{name}` is not a valid header name"))?;
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| {
                format!("the value of header `{name}` has characters that no header can carry")
            })?;
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        Ok(Credential::Static(headers))
    }

    /// Adds the credential to the headers of a request, replacing headers of the same
    /// names.
    pub(crate) fn add_to(&self, request: &mut HeaderMap) {
        let Credential::Static(headers) = self;
        for (name, value) in headers {
            request.insert(name.clone(), value.clone());
        }
    }

    /// The credential as headers alone.
    pub(crate) fn to_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.add_to(&mut headers);
        headers
    }
}
