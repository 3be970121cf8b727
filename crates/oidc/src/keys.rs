//! The provider's public keys, and the verification of signatures with them.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::Value;

use crate::{Endpoint, ProviderError, TokenError, claims, claims::Claims, http_client::bad_answer};

/// The most keys that are read of a key set.
const MOST_KEYS: usize = 100;

/// The algorithms of signatures that are accepted. All are asymmetric, so that a public key can
/// never be taken for a shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

/// The keys that a provider signs with.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The one algorithm that the key is for, if the provider says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// The point, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Algorithm {
    /// The algorithm of a header's `alg`.
    pub(crate) fn from_name(name: &str) -> Option<Algorithm> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "PS256" => Some(Algorithm::Ps256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" | "Ed25519" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of other kinds and for other purposes are passed over.
    pub(crate) fn parse(document: &Claims) -> Result<KeySet, ProviderError> {
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| bad_answer(Endpoint::Keys, "it has no list `keys`"))?;
        if keys.len() > MOST_KEYS {
            return Err(bad_answer(Endpoint::Keys, format!("it has more than {MOST_KEYS} keys")));
        }
        let keys: Vec<_> =
            keys.iter().filter_map(Value::as_object).filter_map(Key::parse).collect();
        if keys.is_empty() {
            return Err(bad_answer(Endpoint::Keys, "it has no RSA, P-256 or Ed25519 key"));
        }
        Ok(KeySet { keys })
    }

    /// Verifies a signature with the key that has the id, or with any key that fits if there is no
    /// id.
    pub(crate) fn verify(
        &self,
        algorithm: Algorithm,
        key_id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenError> {
        let has_id = |key: &&Key| match (key_id, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            _ => true,
        };
        let mut fitting = self.keys.iter().filter(|key| key.fits(algorithm)).filter(has_id);
        let is_named = key_id.is_some() && fitting.clone().next().is_some();
        if fitting.any(|key| key.verify(algorithm, message, signature)) {
            return Ok(());
        }
        // Without an id, the key may be a new one.
        Err(if is_named { TokenError::BadSignature } else { TokenError::UnknownKey })
    }
}

impl Key {
    fn parse(key: &Claims) -> Option<Key> {
        let text = |name| claims::text(key, name);
        let bytes = |name| BASE64URL_NOPAD.decode(text(name)?.as_bytes()).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa(RsaPublicKeyComponents {
                n: without_leading_zeros(&bytes("n")?),
                e: without_leading_zeros(&bytes("e")?),
            }),
            ("EC", Some("P-256")) => Material::P256([&[4], &*bytes("x")?, &*bytes("y")?].concat()),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let owned = |name| text(name).map(str::to_owned);
        Some(Key { id: owned("kid"), algorithm: owned("alg"), material })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_kind = matches!(
            (&self.material, algorithm),
            (Material::Rsa(_), Algorithm::Rs256 | Algorithm::Ps256)
                | (Material::P256(_), Algorithm::Es256)
                | (Material::Ed25519(_), Algorithm::EdDsa)
        );
        let own = self.algorithm.as_deref();
        is_kind && own.is_none_or(|name| Algorithm::from_name(name) == Some(algorithm))
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verify_with = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match &self.material {
            Material::Rsa(key) => {
                let parameters = match algorithm {
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                key.verify(parameters, message, signature).is_ok()
            }
            Material::P256(key) => verify_with(&signature::ECDSA_P256_SHA256_FIXED, key),
            Material::Ed25519(key) => verify_with(&signature::ED25519, key),
        }
    }
}

/// A number as ring wants it.
fn without_leading_zeros(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Algorithm, KeySet};
    use crate::{TokenError, jwt::tests::Signer};

    fn set(keys: &[Value]) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).as_object().unwrap()).unwrap()
    }

    fn with(mut key: Value, name: &str, value: &str) -> Value {
        key[name] = value.into();
        key
    }

    #[test]
    fn a_signature_is_verified_by_the_key_that_it_names() {
        let (old, new) = (Signer::p256("1"), Signer::p256("2"));
        let keys = set(&[old.public_key(), new.public_key()]);
        let signature = new.sign(b"text");
        let check = |key_id, message: &[u8], expected| {
            assert_eq!(keys.verify(Algorithm::Es256, key_id, message, &signature), expected);
        };
        check(Some("2"), b"text", Ok(()));
        check(None, b"text", Ok(()));
        check(Some("2"), b"texts", Err(TokenError::BadSignature));
        check(Some("1"), b"text", Err(TokenError::BadSignature));
        check(Some("3"), b"text", Err(TokenError::UnknownKey));
        check(None, b"texts", Err(TokenError::UnknownKey));
    }

    #[test]
    fn a_key_is_used_only_for_what_it_is_for() {
        let signer = Signer::ed25519("1");
        let signature = signer.sign(b"text");
        let check = |key: Value, algorithm, expected| {
            let other = Signer::p256("other").public_key();
            let verified = set(&[key, other]).verify(algorithm, Some("1"), b"text", &signature);
            assert_eq!(verified, expected);
        };
        let key = || signer.public_key();
        check(key(), Algorithm::EdDsa, Ok(()));
        check(with(key(), "alg", "Ed25519"), Algorithm::EdDsa, Ok(()));
        check(key(), Algorithm::Es256, Err(TokenError::UnknownKey));
        check(with(key(), "alg", "ES256"), Algorithm::EdDsa, Err(TokenError::UnknownKey));
        check(with(key(), "alg", "HS256"), Algorithm::EdDsa, Err(TokenError::UnknownKey));
        check(with(key(), "use", "enc"), Algorithm::EdDsa, Err(TokenError::UnknownKey));
        check(with(key(), "crv", "X25519"), Algorithm::EdDsa, Err(TokenError::UnknownKey));
    }

    #[test]
    fn a_key_set_needs_a_usable_key_and_has_a_bound() {
        let check = |document: Value, expected: &str| {
            let error = KeySet::parse(document.as_object().unwrap()).unwrap_err();
            assert!(error.detail().ends_with(expected), "{error:?}");
        };
        check(json!({}), "it has no list `keys`");
        check(
            json!({ "keys": [1, {}, { "kty": "oct", "k": "AA" }, { "kty": "RSA", "n": "+" }] }),
            "it has no RSA, P-256 or Ed25519 key",
        );
        check(json!({ "keys": vec![1; 101] }), "it has more than 100 keys");
    }
}
