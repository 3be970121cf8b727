//! A signed JSON Web Token in its compact form. Its claims come out only by verification.

use data_encoding::BASE64URL_NOPAD;
use ring::digest;
use serde_json::Value;

use crate::{
    TokenError, claims,
    claims::Claims,
    error::sanitize,
    keys::{Algorithm, KeySet},
};

/// A token whose signature has not been verified yet.
#[derive(Debug)]
pub(crate) struct Jwt<'t> {
    algorithm: Algorithm,
    key_id: Option<String>,
    payload: &'t str,
    /// Header and payload as they were signed.
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Jwt<'t> {
    pub(crate) fn parse(token: &'t str) -> Result<Jwt<'t>, TokenError> {
        let parts = token.rsplit_once('.').and_then(|(signed, signature)| {
            let (header, payload) = signed.split_once('.')?;
            let are_three = !payload.contains('.');
            are_three.then_some((signed, header, payload, signature))
        });
        let (signed, header, payload, signature) =
            parts.ok_or(TokenError::Malformed("it does not have three parts"))?;
        let header = decode_object(header, "its header is not a JSON object")?;
        let name = claims::text(&header, "alg").unwrap_or_default();
        let algorithm =
            Algorithm::from_name(name).ok_or_else(|| TokenError::Algorithm(sanitize(name)))?;
        // Extensions that must be understood; none are.
        if header.contains_key("crit") {
            return Err(TokenError::Malformed("its header has `crit`"));
        }
        let is_jwt = match header.get("typ") {
            None => true,
            Some(value) => value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("JWT")),
        };
        if !is_jwt {
            return Err(TokenError::Malformed("its type is not `JWT`"));
        }
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes());
        let signature =
            signature.map_err(|_| TokenError::Malformed("its signature is not base64url"))?;
        let key_id = claims::text(&header, "kid").map(str::to_owned);
        Ok(Jwt { algorithm, key_id, payload, signed, signature })
    }

    /// The claims, if a key of the provider has signed them.
    pub(crate) fn verify(&self, keys: &KeySet) -> Result<Claims, TokenError> {
        let message = self.signed.as_bytes();
        keys.verify(self.algorithm, self.key_id.as_deref(), message, &self.signature)?;
        decode_object(self.payload, "its payload is not a JSON object")
    }

    /// The value of `at_hash` that belongs to an access token.
    pub(crate) fn hash_half(&self, access_token: &str) -> String {
        let algorithm = match self.algorithm {
            Algorithm::EdDsa => &digest::SHA512,
            Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &digest::SHA256,
        };
        let digest = digest::digest(algorithm, access_token.as_bytes());
        let (half, _) = digest.as_ref().split_at(algorithm.output_len() / 2);
        BASE64URL_NOPAD.encode(half)
    }
}

fn decode_object(part: &str, otherwise: &'static str) -> Result<Claims, TokenError> {
    let bytes = BASE64URL_NOPAD.decode(part.as_bytes()).ok();
    match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(TokenError::Malformed(otherwise)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use data_encoding::BASE64URL_NOPAD;
    use ring::{
        hmac,
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
    };
    use serde_json::{Value, json};

    use super::Jwt;
    use crate::{TokenError, keys::KeySet};

    /// A provider's key, made for one test.
    pub(crate) struct Signer {
        id: String,
        pair: Pair,
    }

    enum Pair {
        P256(EcdsaKeyPair),
        Ed25519(Ed25519KeyPair),
    }

    impl Signer {
        pub(crate) fn p256(id: &str) -> Signer {
            let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
            let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap();
            Signer { id: id.into(), pair: Pair::P256(pair) }
        }

        pub(crate) fn ed25519(id: &str) -> Signer {
            let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
            Signer { id: id.into(), pair: Pair::Ed25519(pair) }
        }

        /// The key as a provider publishes it.
        pub(crate) fn public_key(&self) -> Value {
            match &self.pair {
                Pair::P256(pair) => {
                    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                    let [x, y] = [x, y].map(|number| BASE64URL_NOPAD.encode(number));
                    json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": x, "y": y })
                }
                Pair::Ed25519(pair) => {
                    let x = BASE64URL_NOPAD.encode(pair.public_key().as_ref());
                    json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x })
                }
            }
        }

        pub(crate) fn key_set(&self) -> KeySet {
            KeySet::parse(json!({ "keys": [self.public_key()] }).as_object().unwrap()).unwrap()
        }

        pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
            match &self.pair {
                Pair::P256(pair) => {
                    pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
                }
                Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            }
        }

        /// A token with these claims; null removes a member of the usual header.
        pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
            let alg = if matches!(self.pair, Pair::P256(_)) { "ES256" } else { "EdDSA" };
            let mut whole = json!({ "alg": alg, "kid": self.id, "typ": "JWT" });
            for (name, value) in header.as_object().unwrap() {
                whole[name] = value.clone();
            }
            whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            let signed = encode(&whole, claims);
            let signature = self.sign(signed.as_bytes());
            format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
        }
    }

    fn encode(header: &Value, claims: &Value) -> String {
        let [header, claims] =
            [header, claims].map(|part| BASE64URL_NOPAD.encode(part.to_string().as_bytes()));
        format!("{header}.{claims}")
    }

    fn verify(token: &str, keys: &KeySet) -> Result<Value, TokenError> {
        Jwt::parse(token)?.verify(keys).map(Value::Object)
    }

    #[test]
    fn a_signed_token_yields_its_claims() {
        let claims = json!({ "sub": "alice" });
        for signer in [Signer::p256("1"), Signer::ed25519("1")] {
            let keys = signer.key_set();
            for header in [json!({}), json!({ "typ": null }), json!({ "typ": "jwt", "kid": null })]
            {
                let token = signer.token(&header, &claims);
                assert_eq!(verify(&token, &keys), Ok(claims.clone()));
            }
        }
    }

    #[test]
    fn a_token_that_was_changed_is_refused() {
        let own = Signer::p256("1");
        let token = own.token(&json!({}), &json!({ "sub": "alice" }));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let other = encode(&json!({ "alg": "ES256", "kid": "1" }), &json!({ "sub": "mallory" }));
        let keys = own.key_set();
        let check = |token: String, expected| assert_eq!(verify(&token, &keys), Err(expected));
        check(format!("{other}.{signature}"), TokenError::BadSignature);
        check(format!("{signed}."), TokenError::BadSignature);
        check(format!("{signed}.{}", "A".repeat(86)), TokenError::BadSignature);
        check(
            Signer::p256("1").token(&json!({}), &json!({ "sub": "alice" })),
            TokenError::BadSignature,
        );
        check(
            Signer::p256("2").token(&json!({}), &json!({ "sub": "alice" })),
            TokenError::UnknownKey,
        );
    }

    #[test]
    fn unsigned_and_symmetric_tokens_are_refused() {
        let own = Signer::p256("1");
        let public_key = own.public_key();
        let check = |alg: &str, secret: Option<&[u8]>| {
            let signed = encode(&json!({ "alg": alg, "kid": "1" }), &json!({ "sub": "alice" }));
            let signature = secret.map(|secret| {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes())
            });
            let signature = signature.map(|tag| BASE64URL_NOPAD.encode(tag.as_ref()));
            let token = format!("{signed}.{}", signature.unwrap_or_default());
            let refused = TokenError::Algorithm(alg.into());
            assert_eq!(verify(&token, &own.key_set()), Err(refused));
        };
        for alg in ["none", "None", "NONE", ""] {
            check(alg, None);
        }
        let x = BASE64URL_NOPAD.decode(public_key["x"].as_str().unwrap().as_bytes()).unwrap();
        for secret in [x, public_key.to_string().into_bytes()] {
            check("HS256", Some(&secret));
        }
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let signer = Signer::ed25519("1");
        let keys = signer.key_set();
        let check = |token: &str, expected| {
            assert_eq!(verify(token, &keys), Err(TokenError::Malformed(expected)), "{token}");
        };
        check("", "it does not have three parts");
        check("e30.e30", "it does not have three parts");
        check("+.e30.AA", "its header is not a JSON object");
        check("MQ.e30.AA", "its header is not a JSON object");
        // Five parts, as an encrypted token has.
        check("e30.e30.AA.AA.AA", "it does not have three parts");
        let with = |header, claims| signer.token(&header, &claims);
        check(&with(json!({ "crit": ["b64"] }), json!({})), "its header has `crit`");
        check(&with(json!({ "typ": "at+jwt" }), json!({})), "its type is not `JWT`");
        check(&with(json!({}), json!([])), "its payload is not a JSON object");
        check(&format!("{}=", with(json!({}), json!({}))), "its signature is not base64url");
    }

    #[test]
    fn the_hash_of_an_access_token_is_that_of_the_specification() {
        // The example of OpenID Connect Core, A.3.
        let token = Signer::p256("1").token(&json!({}), &json!({}));
        let hash =
            Jwt::parse(&token).unwrap().hash_half("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y");
        assert_eq!(hash, "77QmUPtjPfzWtF2AnpK9RQ");
    }
}
