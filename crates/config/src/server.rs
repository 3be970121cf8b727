//! `[servers.NAME]`: the servers behind the gateway.

use std::time::Duration;

use sluice_store::{Bridge, HiddenText, Name, Secret, Server, Source, Transport};
use toml::Spanned;

use super::{
    command,
    loader::Loader,
    secret,
    section::{Section, nearest},
    value,
};
use crate::declare;

const KEYS: &[&str] = &[
    "builtin",
    "options",
    "url",
    "headers",
    "timeout",
    "anonymous_policy",
    "command",
    "env",
    "instances",
    "start",
    "bridge",
    "hidden_text",
    "mask_secrets",
    "pin",
];
/// Reads the transport of one kind of server.
type Read = fn(&Section<'_>, &mut Loader<'_>) -> Option<Transport>;

/// The kinds of servers: the key that selects the kind, the keys that only this kind has, and its
/// reader.
const KINDS: &[(&str, &[&str], Read)] = &[
    ("url", &["headers"], http),
    ("builtin", &["options"], builtin),
    ("command", &["env", "instances", "start"], command::read),
];

/// The built-in servers.
const BUILT_IN: &[&str] = &["demo", "pharo"];
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// A server declaration, which may have problems.
pub(super) struct DeclaredServer {
    pub(super) name: Name,
    /// `None` if the declaration has problems, which were reported.
    pub(super) server: Option<Server>,
    /// The policy for callers without a token, with its position.
    pub(super) anonymous_policy: Option<Spanned<Name>>,
}

/// Reads the servers that the file declares.
pub(super) fn read(root: &Section<'_>, loader: &mut Loader<'_>) -> Vec<DeclaredServer> {
    let sections = root.named_sections("servers", &mut loader.findings);
    sections
        .into_iter()
        .map(|(name, section)| read_section(name.into_inner(), &section, loader))
        .collect()
}

/// Reads the section of one server.
pub(super) fn read_section(
    name: Name,
    section: &Section<'_>,
    loader: &mut Loader<'_>,
) -> DeclaredServer {
    let findings = &mut loader.findings;
    section.check_keys(KEYS, findings);
    section.refuse(&["pin"], "leave it out", findings);
    let timeout = section.read("timeout", value::duration, findings);
    let anonymous_policy = section.read("anonymous_policy", policy_name, findings);
    let bridge = section.read("bridge", bridge, findings);
    let hidden_text = section.read("hidden_text", hidden_text, findings);
    let mask_secrets = section.read("mask_secrets", value::boolean, findings);
    let server = transport(section, loader).map(|transport| Server {
        name: name.clone(),
        transport,
        timeout: timeout.map_or(TIMEOUT, Spanned::into_inner),
        anonymous_policy: anonymous_policy.as_ref().map(|policy| policy.get_ref().clone()),
        bridge: bridge.map_or_else(Bridge::default, Spanned::into_inner),
        hidden_text: hidden_text.map_or_else(HiddenText::default, Spanned::into_inner),
        mask_secrets: mask_secrets.is_none_or(Spanned::into_inner),
        source: Source::File,
    });
    DeclaredServer { name, server, anonymous_policy }
}

/// Reports missing policies for callers without a token. `policies` are the declared ones, as pairs
/// of server and policy.
pub(super) fn check_anonymous(
    servers: &[DeclaredServer],
    policies: &[(Name, Name)],
    loader: &mut Loader<'_>,
) {
    for DeclaredServer { name: server, anonymous_policy, .. } in servers {
        let Some(policy) = anonymous_policy else { continue };
        let (span, policy) = (policy.span(), policy.get_ref());
        if !policies.iter().any(|(on, name)| on == server && name == policy) {
            let message = format!("server `{server}` has no policy named `{policy}`");
            let hint = format!("declare `[policies.{policy}]` with `servers = [\"{server}\"]`");
            loader.findings.add_with_hint(span, message, hint);
        }
    }
}

/// Reads the name of a policy.
pub(super) fn policy_name(value: &toml::de::DeValue<'_>) -> value::Parsed<Name> {
    value.as_str().and_then(|text| Name::new(text).ok()).ok_or_else(|| "a policy's name".into())
}

/// Reads the era in which a legacy server is presented.
fn bridge(value: &toml::de::DeValue<'_>) -> value::Parsed<Bridge> {
    match value.as_str() {
        Some("modern") => Ok(Bridge::Modern),
        _ => Err("`modern`".into()),
    }
}

/// Reads what happens to hidden text in definitions.
fn hidden_text(value: &toml::de::DeValue<'_>) -> value::Parsed<HiddenText> {
    let named = |name| HiddenText::ALL.into_iter().find(|text| text.name() == name);
    value.as_str().and_then(named).ok_or_else(|| "`strip`, `withhold` or `pass`".into())
}

fn transport(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Transport> {
    let span = section.span.clone();
    let kinds: Vec<_> = KINDS.iter().filter(|(kind, ..)| section.has(kind)).copied().collect();
    match kinds[..] {
        [(kind, _, read)] => {
            for (owner, keys, _) in KINDS.iter().filter(|(owner, ..)| *owner != kind) {
                for key in *keys {
                    refuse_with(section, key, owner, loader);
                }
            }
            read(section, loader)
        }
        [] => {
            let hint = "give its `url`, its `command`, or `builtin = \"demo\"`";
            loader.findings.add_with_hint(span, "nothing says where this server is", hint);
            None
        }
        _ => {
            let message = "a server has one of `url`, `command` and `builtin`, not several";
            loader.findings.add(span, message);
            None
        }
    }
}

/// Reports a key that belongs to another kind of server.
fn refuse_with(section: &Section<'_>, key: &str, owner: &str, loader: &mut Loader<'_>) {
    if let Some((span, value)) = section.entry(key) {
        loader.findings.hide(value.span());
        loader.findings.add(span, format!("`{key}` is only for servers with `{owner}`"));
    }
}

fn builtin(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Transport> {
    let findings = &mut loader.findings;
    let options = match section.entry("options") {
        Some(_) => section.table("options", findings).and_then(|options| json(&options, findings)),
        None => Some("{}".to_owned()),
    };
    let name = section.read("builtin", value::text, findings)?;
    let word = name.get_ref();
    if BUILT_IN.contains(&word.as_str()) {
        return Some(Transport::Builtin { name: name.into_inner(), options: options? });
    }
    let hint = match nearest(word, BUILT_IN) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", BUILT_IN.join(", ")),
    };
    findings.add_with_hint(name.span(), format!("no built-in server is `{word}`"), hint);
    None
}

/// Converts a table of options to one JSON object.
fn json(options: &Section<'_>, findings: &mut super::problem::Findings) -> Option<String> {
    let mut members = serde_json::Map::new();
    for (key, (_, value)) in options.entries() {
        match super::options::json(value.get_ref()) {
            Some(json) => {
                members.insert(key.to_owned(), json);
            }
            None => findings.add(value.span(), "an option must be something JSON can write"),
        }
    }
    serde_json::to_string(&members).ok()
}

fn http(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Transport> {
    let headers = headers(section, loader);
    let (_, value) = section.entry("url")?;
    let path = section.path_to("url");
    let text = secret::resolve(&path, value, loader)?;
    match declare::server_url(text.get_ref().expose()) {
        Ok(url) => Some(Transport::Http { url: Secret::new(url.into()), headers }),
        Err(message) => {
            let message = format!("`{path}` {message}");
            loader.findings.add(value.span(), message);
            None
        }
    }
}

/// Reads the headers of requests to a server.
pub(super) fn headers(section: &Section<'_>, loader: &mut Loader<'_>) -> Vec<(String, Secret)> {
    let Some(section) = section.table("headers", &mut loader.findings) else { return Vec::new() };
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for (key, (span, value)) in section.entries() {
        let secret = secret::resolve(&section.path_to(key), value, loader);
        let name = match declare::header_name(key) {
            Ok(name) if headers.iter().any(|(known, _)| known == name.as_str()) => {
                loader.findings.add(span, format!("header `{name}` is there twice"));
                continue;
            }
            Ok(name) => name,
            Err(message) => {
                loader.findings.add(span, message);
                continue;
            }
        };
        let Some(secret) = secret else { continue };
        match declare::check_header_value(&name, secret.get_ref().expose()) {
            Ok(()) => headers.push((name.to_string(), secret.into_inner())),
            Err(message) => loader.findings.add(value.span(), message),
        }
    }
    headers
}
