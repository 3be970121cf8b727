//! The exchange of the authorization code for tokens.

use data_encoding::BASE64;
use http::StatusCode;
use serde_json::Value;
use url::form_urlencoded;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    Endpoint, ProviderConfig, SignInError, claims,
    claims::Claims,
    error::sanitize,
    http_client::{Ask, AskBody, HttpClient, bad_answer},
    metadata::{ClientAuthentication, Metadata},
};

/// What a code was exchanged for.
pub(crate) struct Tokens {
    pub(crate) id_token: Zeroizing<String>,
    pub(crate) access_token: Zeroizing<String>,
}

/// Exchanges a code.
pub(crate) async fn exchange(
    http: &HttpClient,
    config: &ProviderConfig,
    metadata: &Metadata,
    code: &str,
    verifier: &str,
) -> Result<Tokens, SignInError> {
    let ask = Ask {
        endpoint: Endpoint::Token,
        url: &metadata.token_endpoint,
        authorization: authenticate(config, metadata.client_authentication),
        body: Some(AskBody {
            media_type: "application/x-www-form-urlencoded",
            text: write_form(config, metadata.client_authentication, code, verifier),
        }),
    };
    let mut answer = http.send(ask).await?;
    if answer.status != StatusCode::OK {
        let secret = config.client_secret.as_ref().map(|secret| secret.as_str());
        return Err(read_refusal(answer.status, &answer.object, &[Some(code), secret]));
    }
    read_tokens(&mut answer.object)
}

/// The value of `Authorization`.
fn authenticate(
    config: &ProviderConfig,
    method: ClientAuthentication,
) -> Option<Zeroizing<String>> {
    let secret = config.client_secret.as_ref()?;
    if method != ClientAuthentication::Basic {
        return None;
    }
    // Both are form-encoded first (RFC 6749, 2.3.1).
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let secret = Zeroizing::new(encode(secret));
    let pair = Zeroizing::new(format!("{}:{}", encode(&config.client_id), *secret));
    let encoded = Zeroizing::new(BASE64.encode(pair.as_bytes()));
    Some(Zeroizing::new(format!("Basic {}", *encoded)))
}

fn write_form(
    config: &ProviderConfig,
    method: ClientAuthentication,
    code: &str,
    verifier: &str,
) -> Zeroizing<String> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &config.redirect_uri)
        .append_pair("code_verifier", verifier);
    if method != ClientAuthentication::Basic {
        form.append_pair("client_id", &config.client_id);
    }
    if let (ClientAuthentication::Post, Some(secret)) = (method, &config.client_secret) {
        form.append_pair("client_secret", secret);
    }
    Zeroizing::new(form.finish())
}

/// What an error answer means. The description is for the log, unless a secret is in it.
fn read_refusal(status: StatusCode, answer: &Claims, secrets: &[Option<&str>]) -> SignInError {
    let Some(code) = claims::text(answer, "error").map(sanitize) else {
        return bad_answer(Endpoint::Token, format!("status {}", status.as_u16())).into();
    };
    let description = claims::text(answer, "error_description").unwrap_or_default();
    let has_secret = secrets.iter().flatten().any(|secret| description.contains(secret));
    let description = if has_secret { String::new() } else { sanitize(description) };
    if code == "invalid_grant" {
        return SignInError::CodeRefused { description };
    }
    if status.is_server_error() {
        return bad_answer(Endpoint::Token, format!("`{code}`: {description}")).into();
    }
    SignInError::ClientRefused { code, description }
}

fn read_tokens(answer: &mut Claims) -> Result<Tokens, SignInError> {
    let kind = claims::text(answer, "token_type").unwrap_or_default();
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(bad_answer(Endpoint::Token, "`token_type` is not `Bearer`").into());
    }
    let mut take = |name: &'static str| match answer.remove(name) {
        Some(Value::String(token)) if !token.is_empty() => Ok(Zeroizing::new(token)),
        _ => Err(bad_answer(Endpoint::Token, format!("it has no `{name}`"))),
    };
    let tokens = Tokens { id_token: take("id_token")?, access_token: take("access_token")? };
    if let Some(Value::String(token)) = answer.get_mut("refresh_token") {
        token.zeroize();
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::{authenticate, read_refusal, read_tokens, write_form};
    use crate::{ProviderConfig, SignInError, metadata::ClientAuthentication};

    fn config() -> ProviderConfig {
        let mut config = ProviderConfig::new("https://id.example", "a:b", "https://s.example/");
        config.client_secret = Some("p w+%".to_owned().into());
        config
    }

    #[test]
    fn the_client_authenticates_in_one_way_only() {
        let check = |method, header: Option<&str>, end: &str| {
            let sent = authenticate(&config(), method);
            assert_eq!(sent.as_ref().map(|value| value.as_str()), header);
            let form = write_form(&config(), method, "c", "v");
            let expected = format!(
                "grant_type=authorization_code&code=c\
                 &redirect_uri=https%3A%2F%2Fs.example%2F&code_verifier=v{end}"
            );
            assert_eq!(*form, expected);
        };
        // `a%3Ab:p+w%2B%25`
        check(ClientAuthentication::Basic, Some("Basic YSUzQWI6cCt3JTJCJTI1"), "");
        check(ClientAuthentication::Post, None, "&client_id=a%3Ab&client_secret=p+w%2B%25");
        check(ClientAuthentication::None, None, "&client_id=a%3Ab");
    }

    #[test]
    fn errors_say_whose_they_are_without_secrets() {
        let check = |status: u16, answer: Value, expected: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            let error = read_refusal(status, answer.as_object().unwrap(), &[Some("code-1"), None]);
            assert_eq!(error.detail(), expected);
        };
        check(
            400,
            json!({ "error": "invalid_grant" }),
            "the provider refused the code: `invalid_grant`",
        );
        check(
            400,
            json!({ "error": "invalid_grant", "error_description": "code-1 was used" }),
            "the provider refused the code: `invalid_grant`",
        );
        check(
            401,
            json!({ "error": "invalid_client", "error_description": "wrong\nsecret" }),
            "the provider refused the client: `invalid_client`: wrong secret",
        );
        check(
            500,
            json!({ "error": "server_error" }),
            "bad answer from the token endpoint: `server_error`: ",
        );
        check(404, json!({}), "bad answer from the token endpoint: status 404");
    }

    #[test]
    fn an_answer_needs_both_tokens() {
        let read = |mut answer: Value| {
            let read = read_tokens(answer.as_object_mut().unwrap());
            read.map(|_| ()).map_err(|error: SignInError| error.detail())
        };
        let whole = json!({ "token_type": "bearer", "id_token": "i", "access_token": "a" });
        assert_eq!(read(whole.clone()), Ok(()));
        for name in ["token_type", "id_token", "access_token"] {
            let mut answer = whole.clone();
            answer[name] = json!("");
            assert!(read(answer).unwrap_err().contains(name));
        }
    }
}
