//! The configuration of one identity provider, and its validation.

use std::{path::PathBuf, time::Duration};

use url::{Host, Url};
use zeroize::Zeroizing;

/// The largest difference of clocks that may be allowed.
const MOST_SKEW: Duration = Duration::from_mins(5);

/// An identity provider, and this gateway as its client. [`Provider::new`](crate::Provider::new)
/// validates it.
#[derive(Clone)]
pub struct ProviderConfig {
    /// `https`, or `http` on loopback. Compared with the provider's own character by character.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub client_secret: Option<Zeroizing<String>>,
    /// `openid` is always asked for.
    pub scopes: Vec<String>,
    /// The claim that holds the groups; None if they are of no interest. A path into nested claims
    /// has dots: `realm_access.roles`. A claim whose own name has dots is found, too.
    pub groups_claim: Option<String>,
    /// The address that is asked for the groups if the ID token does not hold them, instead of the
    /// one that the provider names. Entra ID names a service that was shut down; use
    /// `https://graph.microsoft.com/v1.0/me/transitiveMemberOf/microsoft.graph.group?$select=id`.
    pub groups_endpoint: Option<String>,
    /// The hosts that a link to the groups may lead to; the access token is sent there. If it is
    /// empty, only the issuer's host is allowed.
    pub groups_endpoint_hosts: Vec<String>,
    /// Where the provider sends the browser: `https`, or `http` on loopback.
    pub redirect_uri: String,
    /// Certificates (PEM) that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How far the clocks of this machine and of the provider may be apart: at most five minutes.
    pub clock_skew: Duration,
    /// The time limit of one request to the provider, and half of that of all pages of groups.
    pub timeout: Duration,
}

/// Why a [`ProviderConfig`] is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "`{key}` is not a valid URL: it must be `https://`, or `http://` on loopback, without user, query and fragment"
    )]
    Url { key: &'static str },
    #[error("`{key}` is empty")]
    Empty { key: &'static str },
    #[error("`scopes` has `{0}`, which is not a scope: a scope is one word of ASCII characters")]
    Scope(String),
    #[error(
        "`groups_endpoint_hosts` has `{0}`, which is not the name of a host, such as `graph.microsoft.com`"
    )]
    Host(String),
    #[error("`clock_skew` is longer than 5 minutes")]
    ClockSkew,
    #[error("`timeout` is not between 1 second and 2 minutes")]
    Timeout,
    #[error("the certificates of `ca_file` cannot be read: {0}")]
    CaFile(String),
    #[error(
        "this machine has no trusted certificates\nhint: install `ca-certificates`, or name a file in `ca_file`"
    )]
    NoCertificates,
}

impl ProviderConfig {
    /// A public client without groups that asks for name and email address.
    pub fn new(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        redirect_uri: impl Into<String>,
    ) -> ProviderConfig {
        ProviderConfig {
            issuer: issuer.into(),
            client_id: client_id.into(),
            client_secret: None,
            scopes: vec!["profile".into(), "email".into()],
            groups_claim: None,
            groups_endpoint: None,
            groups_endpoint_hosts: Vec::new(),
            redirect_uri: redirect_uri.into(),
            ca_file: None,
            clock_skew: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
        }
    }

    /// Checks every value but the certificates, and returns the rules of what may be asked.
    pub(crate) fn check(&self) -> Result<Contacts, ConfigError> {
        let issuer = parse_secure(&self.issuer).filter(|url| url.query().is_none());
        let issuer = issuer.ok_or(ConfigError::Url { key: "issuer" })?;
        parse_secure(&self.redirect_uri).ok_or(ConfigError::Url { key: "redirect_uri" })?;
        if self.client_id.is_empty() {
            return Err(ConfigError::Empty { key: "client_id" });
        }
        if self.client_secret.as_ref().is_some_and(|secret| secret.is_empty()) {
            return Err(ConfigError::Empty { key: "client_secret" });
        }
        if self.groups_claim.as_ref().is_some_and(String::is_empty) {
            return Err(ConfigError::Empty { key: "groups_claim" });
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(ConfigError::Scope(scope.clone()));
        }
        if self.clock_skew > MOST_SKEW {
            return Err(ConfigError::ClockSkew);
        }
        if !(Duration::from_secs(1)..=Duration::from_mins(2)).contains(&self.timeout) {
            return Err(ConfigError::Timeout);
        }
        self.find_contacts(&issuer)
    }

    fn find_contacts(&self, issuer: &Url) -> Result<Contacts, ConfigError> {
        let mut groups_hosts = Vec::new();
        for name in &self.groups_endpoint_hosts {
            let host = Host::parse(name).map_err(|_| ConfigError::Host(name.clone()))?;
            groups_hosts.push(host.to_string());
        }
        if groups_hosts.is_empty() {
            groups_hosts.extend(issuer.host_str().map(str::to_owned));
        }
        let mut contacts = Contacts { is_plain: issuer.scheme() == "http", groups_hosts };
        if let Some(endpoint) = &self.groups_endpoint {
            let url = contacts.parse(endpoint);
            let url = url.ok_or(ConfigError::Url { key: "groups_endpoint" })?;
            contacts.groups_hosts.extend(url.host_str().map(str::to_owned));
        }
        Ok(contacts)
    }
}

impl std::fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Which addresses may be asked.
#[derive(Debug)]
pub(crate) struct Contacts {
    /// The issuer is on loopback without TLS, so its endpoints may be, too.
    is_plain: bool,
    groups_hosts: Vec<String>,
}

impl Contacts {
    /// The URL of an endpoint that the provider names, if it is allowed.
    pub(crate) fn parse(&self, url: &str) -> Option<Url> {
        parse_secure(url).filter(|url| self.is_plain || url.scheme() == "https")
    }

    /// Whether the access token may be sent to the host of a link to groups.
    pub(crate) fn allows_groups_host(&self, url: &Url) -> bool {
        url.host_str().is_some_and(|host| self.groups_hosts.iter().any(|allowed| allowed == host))
    }
}

/// A URL with `https`, or with `http` on loopback; without user and fragment.
fn parse_secure(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let is_secure = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (is_secure && is_bare).then_some(url)
}

fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ConfigError, ProviderConfig};

    fn check(change: impl FnOnce(&mut ProviderConfig), expected: &Result<(), ConfigError>) {
        let mut config = ProviderConfig::new(
            "https://id.example/tenant",
            "c",
            "https://sluice.example/callback",
        );
        change(&mut config);
        assert_eq!(&config.check().map(|_| ()), expected, "{config:?}");
    }

    #[test]
    fn a_configuration_is_validated() {
        check(|_| (), &Ok(()));
        let wrong = || Err(ConfigError::Url { key: "issuer" });
        for issuer in ["http://127.0.0.1:80", "http://localhost", "http://[::1]:1/a"] {
            check(|config| config.issuer = issuer.into(), &Ok(()));
        }
        for issuer in [
            "",
            "id.example",
            "http://id.example",
            "http://10.0.0.1",
            "http://localhost.example",
            "ftp://id.example",
            "https://user@id.example",
            "https://id.example?a",
            "https://id.example#a",
        ] {
            check(|config| config.issuer = issuer.into(), &wrong());
        }
        check(
            |config| config.redirect_uri = "http://sluice.example/".into(),
            &Err(ConfigError::Url { key: "redirect_uri" }),
        );
        check(
            |config| config.groups_endpoint = Some("http://localhost/groups".into()),
            &Err(ConfigError::Url { key: "groups_endpoint" }),
        );
        check(
            |config| config.client_id = String::new(),
            &Err(ConfigError::Empty { key: "client_id" }),
        );
        check(
            |config| config.client_secret = Some(String::new().into()),
            &Err(ConfigError::Empty { key: "client_secret" }),
        );
        check(
            |config| config.groups_claim = Some(String::new()),
            &Err(ConfigError::Empty { key: "groups_claim" }),
        );
        check(|config| config.scopes = vec!["a b".into()], &Err(ConfigError::Scope("a b".into())));
        check(
            |config| config.groups_endpoint_hosts = vec!["a/b".into()],
            &Err(ConfigError::Host("a/b".into())),
        );
        check(|config| config.timeout = Duration::ZERO, &Err(ConfigError::Timeout));
        check(|config| config.clock_skew = Duration::from_secs(301), &Err(ConfigError::ClockSkew));
    }

    #[test]
    fn endpoints_are_as_secure_as_the_issuer() {
        let config = ProviderConfig::new("https://id.example", "c", "https://sluice.example/");
        let contacts = config.check().unwrap();
        assert!(contacts.parse("https://other.example/token").is_some());
        assert!(contacts.parse("http://localhost/token").is_none());
        let local = ProviderConfig::new("http://localhost:1", "c", "https://sluice.example/");
        assert!(local.check().unwrap().parse("http://localhost:2/token").is_some());
        assert!(local.check().unwrap().parse("http://id.example/token").is_none());
    }

    #[test]
    fn links_to_groups_lead_to_the_issuer_or_to_listed_hosts() {
        let mut config = ProviderConfig::new("https://id.example", "c", "https://sluice.example/");
        let allows = |config: &ProviderConfig, url: &str| {
            let contacts = config.check().unwrap();
            contacts.allows_groups_host(&contacts.parse(url).unwrap())
        };
        assert!(allows(&config, "https://ID.example:8443/groups"));
        assert!(!allows(&config, "https://graph.example/groups"));
        assert!(!allows(&config, "https://id.example.evil.example/groups"));
        config.groups_endpoint_hosts = vec!["Graph.example".into()];
        assert!(allows(&config, "https://graph.example/groups"));
        assert!(!allows(&config, "https://id.example/groups"));
        config.groups_endpoint = Some("https://own.example/me?$select=id".into());
        assert!(allows(&config, "https://own.example/me"));
    }
}
