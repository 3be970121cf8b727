//! The groups of a person: in the ID token, at the userinfo endpoint, or behind a link.
//!
//! Entra ID sends a link instead of the groups if there are more than fit into a token. Such links
//! are distributed claims (OpenID Connect Core, 5.6.2). They are followed to allowed hosts only,
//! because the access token is sent with the request.

use std::collections::BTreeSet;

use serde_json::Value;
use url::Url;
use zeroize::Zeroizing;

use crate::{
    Endpoint, ProviderConfig, ProviderError, claims,
    claims::Claims,
    config::Contacts,
    error::sanitize,
    http_client::{Ask, AskBody, HttpClient},
};

/// The most groups of a person, and the most pages that they are fetched in.
const MOST_GROUPS: usize = 10_000;
const MOST_PAGES: usize = 100;

/// The longest name of a group, in bytes.
const MOST_NAME: usize = 1024;

/// The groups of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    /// The configuration names no claim for groups.
    NotAsked,
    /// All groups of the person, sorted. An empty list means that the provider said so.
    Known(Vec<String>),
    /// The groups are not known, which is not the same as none.
    Unavailable(GroupsUnavailable),
}

/// Why the groups are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupsUnavailable {
    #[error(
        "the identity provider sends no claim `{0}`\nhint: an administrator adds it to the tokens at the provider, or corrects `groups_claim` and `scopes`"
    )]
    Missing(String),
    #[error("the identity provider's groups are malformed: {0}")]
    Malformed(&'static str),
    #[error(
        "the identity provider sends a link to the groups that leads to `{0}`, which is not allowed\nhint: an administrator adds the host to `groups_endpoint_hosts`, or sets `groups_endpoint`"
    )]
    HostNotAllowed(String),
    #[error("there are more groups than the {MOST_GROUPS} that are read")]
    TooMany,
    #[error("the groups could not be fetched: {0}")]
    Provider(#[from] ProviderError),
}

impl GroupsUnavailable {
    /// What an administrator needs to know, for the log.
    pub fn detail(&self) -> String {
        match self {
            GroupsUnavailable::Provider(error) => error.detail(),
            other => other.to_string(),
        }
    }
}

/// How groups are found, and with what.
pub(crate) struct GroupSearch<'a> {
    pub(crate) http: &'a HttpClient,
    pub(crate) config: &'a ProviderConfig,
    pub(crate) contacts: &'a Contacts,
    pub(crate) access_token: &'a str,
}

/// Where the claims of a token or of userinfo lead.
enum Place<'c> {
    Here(&'c Value),
    Link { url: &'c str, access_token: Option<&'c str> },
    Nowhere,
}

/// Whether claims hold the groups, or a link to them.
pub(crate) fn has_groups(claims: &Claims, path: &str) -> bool {
    !matches!(locate(claims, path), Place::Nowhere)
}

impl GroupSearch<'_> {
    /// Finds the groups in the first claims that have them. `userinfo` is None if it was not asked.
    pub(crate) async fn find(
        &self,
        id_token: &Claims,
        userinfo: Option<&Result<Claims, ProviderError>>,
    ) -> Groups {
        let Some(path) = &self.config.groups_claim else { return Groups::NotAsked };
        let found = self.find_at(path, id_token, userinfo);
        let found = tokio::time::timeout(2 * self.config.timeout, found)
            .await
            .unwrap_or_else(|_| Err(ProviderError::TimedOut { endpoint: Endpoint::Groups }.into()));
        found.map_or_else(Groups::Unavailable, Groups::Known)
    }

    async fn find_at(
        &self,
        path: &str,
        id_token: &Claims,
        userinfo: Option<&Result<Claims, ProviderError>>,
    ) -> Result<Vec<String>, GroupsUnavailable> {
        let place = match (locate(id_token, path), userinfo) {
            (Place::Nowhere, Some(Ok(userinfo))) => locate(userinfo, path),
            (place, _) => place,
        };
        match (place, &self.config.groups_endpoint, userinfo) {
            (Place::Here(value), ..) => read_claim(value),
            (_, Some(url), _) => self.fetch(url, self.access_token, path).await,
            (Place::Link { url, access_token }, None, _) => {
                self.fetch(url, access_token.unwrap_or(self.access_token), path).await
            }
            (Place::Nowhere, None, Some(Err(error))) => Err(error.clone().into()),
            (Place::Nowhere, None, _) => Err(GroupsUnavailable::Missing(path.to_owned())),
        }
    }

    /// Fetches the groups page by page.
    async fn fetch(
        &self,
        first: &str,
        access_token: &str,
        path: &str,
    ) -> Result<Vec<String>, GroupsUnavailable> {
        let mut groups = BTreeSet::new();
        let mut next = Some(first.to_owned());
        for _ in 0..MOST_PAGES {
            let Some(url) = next.take() else { return Ok(groups.into_iter().collect()) };
            let url = self.check_link(&url)?;
            let page = self.http.get(build_request(&url, access_token)).await?;
            groups.extend(read_page(&page, path)?);
            if groups.len() > MOST_GROUPS {
                return Err(GroupsUnavailable::TooMany);
            }
            next = claims::text(&page, "@odata.nextLink").map(str::to_owned);
        }
        if next.is_none() {
            Ok(groups.into_iter().collect())
        } else {
            Err(GroupsUnavailable::TooMany)
        }
    }

    fn check_link(&self, url: &str) -> Result<Url, GroupsUnavailable> {
        let parsed = self.contacts.parse(url);
        let url = parsed.ok_or(GroupsUnavailable::Malformed("the link is not a secure URL"))?;
        if self.contacts.allows_groups_host(&url) {
            return Ok(url);
        }
        Err(GroupsUnavailable::HostNotAllowed(sanitize(url.host_str().unwrap_or_default())))
    }
}

fn build_request<'u>(url: &'u Url, access_token: &str) -> Ask<'u> {
    // These two of Microsoft's are functions that are called by POST.
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let is_function = ["getMemberObjects", "getMemberGroups"].contains(&last);
    let body = is_function.then(|| AskBody {
        media_type: "application/json",
        text: Zeroizing::new(r#"{"securityEnabledOnly":false}"#.to_owned()),
    });
    let authorization = Some(Zeroizing::new(format!("Bearer {access_token}")));
    Ask { endpoint: Endpoint::Groups, url, authorization, body }
}

fn locate<'c>(claims: &'c Claims, path: &str) -> Place<'c> {
    if let Some(value) = claims::find(claims, path).filter(|value| !value.is_null()) {
        return Place::Here(value);
    }
    find_link(claims, path).unwrap_or(Place::Nowhere)
}

/// The link of a distributed claim, which has the name of the outermost claim of the path.
fn find_link<'c>(claims: &'c Claims, path: &str) -> Option<Place<'c>> {
    let names = claims.get("_claim_names")?.as_object()?;
    let outermost = path.split('.').next().unwrap_or_default();
    let source = names.get(path).or_else(|| names.get(outermost))?.as_str()?;
    let source = claims.get("_claim_sources")?.as_object()?.get(source)?.as_object()?;
    let access_token = claims::text(source, "access_token");
    Some(Place::Link { url: claims::text(source, "endpoint")?, access_token })
}

/// A claim is one name, or a list of names.
fn read_claim(value: &Value) -> Result<Vec<String>, GroupsUnavailable> {
    let groups: BTreeSet<_> = match value {
        Value::Array(list) => list.iter().map(read_name).collect::<Result<_, _>>()?,
        one => BTreeSet::from([read_name(one)?]),
    };
    if groups.len() > MOST_GROUPS {
        return Err(GroupsUnavailable::TooMany);
    }
    Ok(groups.into_iter().collect())
}

/// A page has the claim, or a list `value` of names or of objects with an `id`, as Microsoft's have.
fn read_page(page: &Claims, path: &str) -> Result<Vec<String>, GroupsUnavailable> {
    if let Some(Value::Array(list)) = page.get("value") {
        return list.iter().map(|one| read_name(one.get("id").unwrap_or(one))).collect();
    }
    let missing = GroupsUnavailable::Malformed("the answer has neither the claim nor `value`");
    read_claim(claims::find(page, path).ok_or(missing)?)
}

fn read_name(value: &Value) -> Result<String, GroupsUnavailable> {
    let name = value.as_str().filter(|name| !name.is_empty() && name.len() <= MOST_NAME);
    name.map(str::to_owned).ok_or(GroupsUnavailable::Malformed("a group is not a short text"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{GroupsUnavailable, Place, locate, read_claim, read_page};

    #[test]
    fn a_claim_is_a_name_or_a_list_of_names() {
        let check = |value: Value, expected: Result<&[&str], &'static str>| {
            let expected = match expected {
                Ok(names) => Ok(names.iter().map(|&name| name.to_owned()).collect()),
                Err(why) => Err(GroupsUnavailable::Malformed(why)),
            };
            assert_eq!(read_claim(&value), expected, "{value}");
        };
        check(json!([]), Ok(&[]));
        check(json!(["b", "a", "b"]), Ok(&["a", "b"]));
        check(json!("ops team"), Ok(&["ops team"]));
        for wrong in [
            json!(["a", 1]),
            json!({}),
            json!(true),
            json!(""),
            json!([""]),
            json!("x".repeat(1025)),
        ] {
            check(wrong, Err("a group is not a short text"));
        }
        let many: Vec<_> = (0..10_001).map(|at| at.to_string()).collect();
        assert_eq!(read_claim(&json!(many)), Err(GroupsUnavailable::TooMany));
    }

    #[test]
    fn a_page_is_read_as_providers_send_it() {
        let check = |page: Value, expected: Option<&[&str]>| {
            let read = read_page(page.as_object().unwrap(), "groups").ok();
            let expected = expected.map(|names| names.iter().map(|&n| n.to_owned()).collect());
            assert_eq!(read, expected, "{page}");
        };
        check(json!({ "value": ["a"] }), Some(&["a"]));
        check(json!({ "value": [{ "id": "a", "displayName": "x" }] }), Some(&["a"]));
        check(json!({ "value": [] }), Some(&[]));
        check(json!({ "groups": ["a"] }), Some(&["a"]));
        for wrong in [json!({}), json!({ "value": "a" }), json!({ "value": [{ "name": "a" }] })] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_link_is_found_by_the_name_of_the_claim() {
        let claims = json!({
            "null": null,
            "_claim_names": { "groups": "src1", "realm_access": "src1", "other": "src2" },
            "_claim_sources": { "src1": { "endpoint": "https://id.example/groups" } },
        });
        let is_link = |path| {
            let place = locate(claims.as_object().unwrap(), path);
            matches!(place, Place::Link { url: "https://id.example/groups", access_token: None })
        };
        assert!(is_link("groups") && is_link("realm_access.roles"));
        for path in ["other", "roles", "null", "src1"] {
            assert!(matches!(locate(claims.as_object().unwrap(), path), Place::Nowhere), "{path}");
        }
    }
}
