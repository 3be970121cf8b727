//! The token in an `Authorization` header.

/// The token of `Bearer <token>`; `None` for another scheme, or if there is none.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer_token;

    #[test]
    fn only_bearer_tokens_are_tokens() {
        for good in ["Bearer sg_x", "bearer  sg_x", "BEARER sg_x  "] {
            assert_eq!(bearer_token(good), Some("sg_x"), "{good}");
        }
        for wrong in ["Basic sg_x", "Bearer", "Bearer ", "sg_x", " sg_x", "Bearersg_x", ""] {
            assert_eq!(bearer_token(wrong), None, "{wrong}");
        }
    }
}
