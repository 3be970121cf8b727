//! The provider's discovery document.

use serde_json::Value;
use url::Url;

use crate::{
    Endpoint, ProviderConfig, ProviderError, claims,
    claims::Claims,
    config::Contacts,
    error::sanitize,
    http_client::{Ask, HttpClient, bad_answer},
};

/// What is used of a discovery document.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization_endpoint: Url,
    pub(crate) token_endpoint: Url,
    pub(crate) jwks_uri: Url,
    pub(crate) userinfo_endpoint: Option<Url>,
    pub(crate) client_authentication: ClientAuthentication,
    /// Whether every redirect has the parameter `iss` (RFC 9207).
    pub(crate) sends_issuer: bool,
}

/// How the client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuthentication {
    Basic,
    Post,
    None,
}

/// Fetches and checks the discovery document.
pub(crate) async fn discover(
    config: &ProviderConfig,
    contacts: &Contacts,
    http: &HttpClient,
) -> Result<Metadata, ProviderError> {
    let endpoint = Endpoint::Discovery;
    let base = config.issuer.trim_end_matches('/');
    let url = contacts.parse(&format!("{base}/.well-known/openid-configuration"));
    let url = url.ok_or_else(|| bad_answer(endpoint, "its URL is not valid"))?;
    let ask = Ask { endpoint, url: &url, authorization: None, body: None };
    Metadata::check(&http.get(ask).await?, config, contacts)
}

impl Metadata {
    fn check(
        document: &Claims,
        config: &ProviderConfig,
        contacts: &Contacts,
    ) -> Result<Metadata, ProviderError> {
        let found = claims::text(document, "issuer").unwrap_or_default();
        if found != config.issuer {
            let configured = config.issuer.clone();
            return Err(ProviderError::WrongIssuer { configured, found: sanitize(found) });
        }
        if !lists(document, "response_types_supported", "code").unwrap_or(true) {
            return Err(ProviderError::Unsupported("the authorization code flow"));
        }
        // Many providers support PKCE and do not say so.
        if !lists(document, "code_challenge_methods_supported", "S256").unwrap_or(true) {
            return Err(ProviderError::Unsupported("PKCE with S256"));
        }
        let url = |name: &'static str| {
            let url = claims::text(document, name).and_then(|url| contacts.parse(url));
            url.ok_or_else(|| {
                bad_answer(Endpoint::Discovery, format!("it has no valid and secure `{name}`"))
            })
        };
        let has_userinfo = document.contains_key("userinfo_endpoint");
        Ok(Metadata {
            authorization_endpoint: url("authorization_endpoint")?,
            token_endpoint: url("token_endpoint")?,
            jwks_uri: url("jwks_uri")?,
            userinfo_endpoint: has_userinfo.then(|| url("userinfo_endpoint")).transpose()?,
            client_authentication: choose_authentication(document, config)?,
            sends_issuer: claims::is_true(
                document,
                "authorization_response_iss_parameter_supported",
            ),
        })
    }
}

/// Whether a list of the document has a value. None without such a list.
fn lists(document: &Claims, name: &str, value: &str) -> Option<bool> {
    let list = document.get(name)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).any(|one| one == value))
}

fn choose_authentication(
    document: &Claims,
    config: &ProviderConfig,
) -> Result<ClientAuthentication, ProviderError> {
    if config.client_secret.is_none() {
        return Ok(ClientAuthentication::None);
    }
    let supports = |method| lists(document, "token_endpoint_auth_methods_supported", method);
    // Without a list, the default is `client_secret_basic`.
    if supports("client_secret_basic").unwrap_or(true) {
        return Ok(ClientAuthentication::Basic);
    }
    if supports("client_secret_post") == Some(true) {
        return Ok(ClientAuthentication::Post);
    }
    Err(ProviderError::Unsupported("authentication of its clients by a secret"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ClientAuthentication, Metadata};
    use crate::{ProviderConfig, ProviderError};

    fn check(change: &Value, secret: Option<&str>) -> Result<Metadata, ProviderError> {
        let mut config = ProviderConfig::new("https://id.example", "c", "https://s.example/");
        config.client_secret = secret.map(|secret| secret.to_owned().into());
        let mut document = json!({
            "issuer": "https://id.example",
            "authorization_endpoint": "https://id.example/auth?tenant=1",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://keys.example/jwks",
            "response_types_supported": ["code"],
        });
        for (name, value) in change.as_object().unwrap() {
            document[name] = value.clone();
        }
        Metadata::check(document.as_object().unwrap(), &config, &config.check().unwrap())
    }

    #[test]
    fn the_issuer_must_be_the_configured_one_to_the_character() {
        assert!(check(&json!({}), None).is_ok());
        for issuer in ["https://id.example/", "https://ID.example", "https://other.example", ""] {
            let error = check(&json!({ "issuer": issuer }), None).unwrap_err();
            assert!(matches!(error, ProviderError::WrongIssuer { .. }), "{issuer}: {error:?}");
        }
    }

    #[test]
    fn endpoints_must_be_secure() {
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
            for url in [json!("http://id.example/"), json!("javascript:1"), json!(1), json!(null)] {
                let error = check(&json!({ name: url }), None).unwrap_err();
                assert!(error.detail().contains(name), "{error:?}");
            }
        }
    }

    #[test]
    fn what_a_provider_says_it_lacks_is_not_tried() {
        let check_unsupported = |change, expected| {
            let error = check(&change, Some("s")).unwrap_err();
            assert_eq!(error, ProviderError::Unsupported(expected));
        };
        check_unsupported(
            json!({ "response_types_supported": ["id_token"] }),
            "the authorization code flow",
        );
        check_unsupported(
            json!({ "code_challenge_methods_supported": ["plain"] }),
            "PKCE with S256",
        );
        check_unsupported(
            json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt"] }),
            "authentication of its clients by a secret",
        );
    }

    #[test]
    fn the_client_authenticates_as_the_provider_supports() {
        let check = |methods: Value, secret, expected| {
            let metadata = check(&methods, secret).unwrap();
            assert_eq!(metadata.client_authentication, expected);
        };
        let methods = |list: &[&str]| json!({ "token_endpoint_auth_methods_supported": list });
        check(json!({}), Some("s"), ClientAuthentication::Basic);
        check(json!({}), None, ClientAuthentication::None);
        check(
            methods(&["client_secret_post", "client_secret_basic"]),
            Some("s"),
            ClientAuthentication::Basic,
        );
        check(methods(&["client_secret_post"]), Some("s"), ClientAuthentication::Post);
    }
}
