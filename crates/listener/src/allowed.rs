//! The host names under which a listener may be called, and the pages that may call it.
//!
//! A page in a browser can send requests to a listener on this machine, under a name that the page
//! controls (DNS rebinding) or from a foreign origin. Both are visible in `Host` and `Origin`,
//! which a page cannot choose.

use std::net::Ipv6Addr;

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri};

use crate::authority::{Authority, Host};

/// The host names under which a listener may be called, and the origins of pages that may call it.
/// The default allows nothing.
#[derive(Debug, Clone, Default)]
pub struct AllowedCallers {
    hosts: Vec<AllowedHost>,
    origins: Vec<String>,
}

#[derive(Debug, Clone)]
struct AllowedHost {
    name: HostName,
    /// `None` allows any port.
    port: Option<u16>,
}

#[derive(Debug, Clone)]
enum HostName {
    Name(String),
    V6(Ipv6Addr),
}

/// Why a host cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host such as `gateway.example.com` or `gateway.example.com:8787`")]
pub struct HostError(String);

/// Why a request is refused before anything else in it is checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    #[error("header `{0}` is there twice")]
    Repeated(HeaderName),
    #[error("the host is missing, or not one of the listener's")]
    Host,
    #[error("pages of this origin may not call")]
    Origin,
}

impl AllowedCallers {
    /// A host with a port is allowed with that port only. An origin is written as browsers do:
    /// scheme, host and, if it is not the scheme's default, port.
    pub fn new<H: AsRef<str>>(
        hosts: impl IntoIterator<Item = H>,
        origins: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<AllowedCallers, HostError> {
        let hosts = hosts.into_iter().map(|host| AllowedHost::parse(host.as_ref()));
        let origins = origins.into_iter().map(Into::into).collect();
        Ok(AllowedCallers { hosts: hosts.collect::<Result<_, _>>()?, origins })
    }

    /// Checks the host that a request calls, and the page that it comes from.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), CallerError> {
        let host = find_single(headers, &header::HOST)?;
        let origin = find_single(headers, &header::ORIGIN)?;
        let called = called_authority(uri, host).ok_or(CallerError::Host)?;
        if !self.hosts.iter().any(|host| host.allows(called)) {
            return Err(CallerError::Host);
        }
        match origin {
            Some(origin) if !self.allows_origin(origin, called) => Err(CallerError::Origin),
            _ => Ok(()),
        }
    }

    /// Whether an origin is listed, or is the called listener itself.
    fn allows_origin(&self, origin: &HeaderValue, called: Authority<'_>) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        own.and_then(Authority::parse) == Some(called)
            || self.origins.iter().any(|listed| listed == origin)
    }
}

impl AllowedHost {
    fn parse(text: &str) -> Result<AllowedHost, HostError> {
        // A plain IPv6 address needs no brackets here.
        if let Ok(address) = text.parse() {
            return Ok(AllowedHost { name: HostName::V6(address), port: None });
        }
        let read = Authority::parse(text).ok_or_else(|| HostError(text.to_owned()))?;
        let name = match read.host {
            Host::Name(name) => HostName::Name(name.to_owned()),
            Host::V6(address) => HostName::V6(address),
        };
        Ok(AllowedHost { name, port: read.port })
    }

    fn allows(&self, called: Authority<'_>) -> bool {
        let host = match &self.name {
            HostName::Name(name) => Host::Name(name),
            HostName::V6(address) => Host::V6(*address),
        };
        host == called.host && (self.port.is_none() || self.port == called.port)
    }
}

/// The host that is called. HTTP/2 sends it as `:authority` and may repeat it in `Host`; an
/// HTTP/1.1 client may repeat it in the request line. Both must agree.
fn called_authority<'r>(uri: &'r Uri, host: Option<&'r HeaderValue>) -> Option<Authority<'r>> {
    let line = uri.authority().map(uri::Authority::as_str).map(Authority::parse);
    let host = host.map(|value| value.to_str().ok().and_then(Authority::parse));
    match (line, host) {
        (Some(line), Some(host)) => line.filter(|line| Some(*line) == host),
        (line, host) => line.or(host)?,
    }
}

/// Finds a header that must not occur twice.
fn find_single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, CallerError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    match values.next() {
        Some(_) => Err(CallerError::Repeated(name.clone())),
        None => Ok(value),
    }
}

#[cfg(test)]
mod tests;
