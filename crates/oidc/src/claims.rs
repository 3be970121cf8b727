//! Reads single claims.

use std::time::Duration;

use serde_json::{Map, Value};

/// The claims of a token or of an answer about a person.
pub(crate) type Claims = Map<String, Value>;

/// A claim that is a text.
pub(crate) fn text<'c>(claims: &'c Claims, name: &str) -> Option<&'c str> {
    claims.get(name).and_then(Value::as_str)
}

/// A claim that is a time: seconds since 1970, possibly with a fraction.
pub(crate) fn time(claims: &Claims, name: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(claims.get(name)?.as_f64()?).ok()
}

/// A claim that is true. Some providers send booleans as text.
pub(crate) fn is_true(claims: &Claims, name: &str) -> bool {
    match claims.get(name) {
        Some(Value::Bool(is_true)) => *is_true,
        Some(Value::String(text)) => text == "true",
        _ => false,
    }
}

/// The claim at a path. A dot leads into a claim, or is part of its name.
pub(crate) fn find<'c>(claims: &'c Claims, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let (name, rest) = path.split_at(dot);
        find(claims.get(name)?.as_object()?, rest.strip_prefix('.')?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Claims, find, is_true, time};

    fn claims(value: Value) -> Claims {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_path_leads_into_claims_whose_names_may_have_dots() {
        let claims = claims(json!({
            "groups": 1,
            "realm_access": { "roles": 2 },
            "https://id.example/roles": 3,
            "resource_access": { "a.b": { "roles": 4 } },
        }));
        let check = |path, expected: Option<u64>| {
            assert_eq!(find(&claims, path).and_then(Value::as_u64), expected, "{path}");
        };
        check("groups", Some(1));
        check("realm_access.roles", Some(2));
        check("https://id.example/roles", Some(3));
        check("resource_access.a.b.roles", Some(4));
        for path in ["", ".", "groups.", "roles", "realm_access.groups", "groups.roles"] {
            check(path, None);
        }
    }

    #[test]
    fn times_and_booleans_are_read_as_providers_write_them() {
        let claims = claims(json!({
            "exp": 1.5, "iat": "1", "nbf": -1, "far": 1e300, "t": "true", "f": "yes"
        }));
        assert_eq!(time(&claims, "exp").unwrap().as_millis(), 1500);
        assert_eq!(["iat", "nbf", "far", "none"].map(|name| time(&claims, name)), [None; 4]);
        assert!(is_true(&claims, "t"));
        assert!(!is_true(&claims, "f") && !is_true(&claims, "none"));
    }
}
