//! `[grants.NAME]`: a token, the servers that it is for, and a policy.

use std::collections::HashMap;

use sluice_policy::Timestamp;
use sluice_store::{Grant, Name, TokenHash};
use toml::Spanned;

use super::{
    loader::Loader, policy::server_list, secret, section::Section, server::policy_name, value,
};

/// The minimum length of a token; shorter ones could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Reads the grants that the file declares, each with its token's hash.
pub(super) fn read(
    root: &Section<'_>,
    servers: &[Name],
    loader: &mut Loader<'_>,
) -> Vec<(TokenHash, Grant)> {
    let mut owners: HashMap<TokenHash, Name> = HashMap::new();
    let mut grants = Vec::new();
    for (name, section) in root.named_sections("grants", &mut loader.findings) {
        let name = name.into_inner();
        let hash = token_hash(&section, loader);
        if let Some(hash) = &hash
            && let Some(owner) = owners.insert(*hash.get_ref(), name.clone())
        {
            let message = format!("grant `{name}` has the same token as grant `{owner}`");
            loader.findings.add_with_hint(hash.span(), message, "give each grant its own token");
        }
        let grant = grant(name, &section, servers, loader);
        grants.extend(hash.map(Spanned::into_inner).zip(grant));
    }
    grants
}

fn grant(
    label: Name,
    section: &Section<'_>,
    servers: &[Name],
    loader: &mut Loader<'_>,
) -> Option<Grant> {
    let servers = server_list(section, servers, loader);
    let findings = &mut loader.findings;
    section.check_keys(
        &["servers", "policy", "token", "token_sha256", "principal", "expires"],
        findings,
    );
    section.require("policy", findings);
    let policy = section.read("policy", policy_name, findings);
    let principal = section.read("principal", value::text, findings);
    let expires_at = section.read("expires", value::moment, findings);
    Some(Grant {
        id: format!("file:{label}"),
        label,
        servers,
        policy: policy?.into_inner(),
        principal: principal.map(Spanned::into_inner),
        created_at: Timestamp::from_millis(0),
        expires_at: expires_at.map(Spanned::into_inner),
        created_by: None,
        revoked_at: None,
    })
}

fn token_hash(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Spanned<TokenHash>> {
    match (section.entry("token"), section.entry("token_sha256")) {
        (Some((_, value)), None) => {
            let token = secret::resolve(&section.path_to("token"), value, loader)?;
            let text = token.get_ref().expose();
            if text.len() >= SHORTEST_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Some(Spanned::new(token.span(), TokenHash::of(text)));
            }
            let message = format!(
                "a token has at least {SHORTEST_TOKEN} characters, all visible ASCII, no spaces"
            );
            let hint = "make one with `echo sg_$(openssl rand -hex 32)`";
            loader.findings.add_with_hint(token.span(), message, hint);
        }
        (None, Some((_, value))) => {
            let hash = value.get_ref().as_str().and_then(TokenHash::from_hex);
            if let Some(hash) = hash {
                return Some(Spanned::new(value.span(), hash));
            }
            // The value may be the token itself, so it is masked.
            loader.findings.hide(value.span());
            let message = format!(
                "`{}` must be the SHA-256 of the whole token, as 64 lower-case hexadecimal digits",
                section.path_to("token_sha256")
            );
            let hint = "make it with `printf %s \"$TOKEN\" | sha256sum`";
            loader.findings.add_with_hint(value.span(), message, hint);
        }
        (Some((_, token)), Some(_)) => {
            loader.findings.hide(token.span());
            let message = "a grant has either `token` or `token_sha256`, not both";
            loader.findings.add(section.span.clone(), message);
        }
        (None, None) => {
            let hint = "give `token` (`env:NAME` or `file:PATH`) or `token_sha256`";
            let message = format!("`{}` is missing", section.path_to("token"));
            loader.findings.add_with_hint(section.span.clone(), message, hint);
        }
    }
    None
}
