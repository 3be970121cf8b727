//! The effective configuration as `sluice config` prints it, with secrets masked.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_store::{Bridge, Grant, HiddenText, MASK, MaskedTransport, Server};

use super::{Config, HeadExports, value::format_size};
use crate::span;

/// A printable configuration, in the shape of the file.
#[derive(Debug, Serialize)]
pub struct Shown {
    listen: String,
    admin: String,
    data: String,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<ShownTls>,
    limits: ShownLimits,
    audit: ShownAudit,
    upstreams: ShownUpstreams,
    servers: BTreeMap<String, ShownServer>,
    policies: BTreeMap<String, ShownPolicy>,
    grants: BTreeMap<String, ShownGrant>,
}

#[derive(Debug, Serialize)]
struct ShownTls {
    cert: String,
    key: String,
}

#[derive(Debug, Serialize)]
struct ShownLimits {
    body: String,
    answer: String,
    in_flight: String,
    depth: u64,
    nodes: u64,
    string: String,
    calls: u64,
    server_calls: u64,
    streams: u64,
    sessions: u64,
    children: u64,
    subscriptions: u64,
}

#[derive(Debug, Serialize)]
struct ShownAudit {
    durability: &'static str,
    keep: String,
    keep_at_least: String,
    max_size: String,
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heads: Option<ShownHeads>,
}

#[derive(Debug, Serialize)]
struct ShownHeads {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'static str>,
    every: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, &'static str>,
}

#[derive(Debug, Serialize)]
struct ShownUpstreams {
    allow_private: Vec<String>,
}

#[derive(Debug, Serialize, Default)]
struct ShownServer {
    #[serde(skip_serializing_if = "Option::is_none")]
    builtin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'static str>,
    timeout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    anonymous_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_text: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_secrets: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<toml::Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, &'static str>,
}

#[derive(Debug, Serialize, Default)]
struct ShownPolicy {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<String>,
    /// The version of the policy, instead of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The version for each server, if each has its own file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    versions: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct ShownGrant {
    id: String,
    servers: Vec<String>,
    policy: String,
    token: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

impl Shown {
    pub fn of(config: &Config) -> Shown {
        let text = |path: &std::path::Path| path.display().to_string();
        Shown {
            listen: config.listen.to_string(),
            admin: config.admin.to_string(),
            data: text(&config.data),
            allowed_hosts: config.allowed_hosts.clone(),
            allowed_origins: config.allowed_origins.clone(),
            metrics: config.are_metrics_open.then_some("open"),
            tls: config
                .tls
                .as_ref()
                .map(|tls| ShownTls { cert: text(&tls.cert), key: text(&tls.key) }),
            limits: ShownLimits {
                body: format_size(config.limits.body),
                answer: format_size(config.limits.answer),
                in_flight: format_size(config.limits.in_flight),
                depth: config.limits.depth,
                nodes: config.limits.nodes,
                string: format_size(config.limits.string),
                calls: config.limits.calls,
                server_calls: config.limits.server_calls,
                streams: config.limits.streams,
                sessions: config.limits.sessions,
                children: config.limits.children,
                subscriptions: config.limits.subscriptions,
            },
            audit: audit(config),
            upstreams: ShownUpstreams {
                allow_private: config.allow_private.iter().map(ToString::to_string).collect(),
            },
            servers: config.servers.iter().map(|one| (one.name.to_string(), server(one))).collect(),
            policies: policies(config),
            grants: config
                .grants
                .iter()
                .map(|(_, one)| (one.label.to_string(), grant(one)))
                .collect(),
        }
    }
}

fn audit(config: &Config) -> ShownAudit {
    ShownAudit {
        durability: config.audit.durability.name(),
        keep: span::format_span(config.audit.keep),
        keep_at_least: span::format_span(config.audit.keep_at_least),
        max_size: format_size(config.audit.max_size),
        values: config.audit.values.clone(),
        heads: heads(&config.audit.heads),
    }
}

fn heads(heads: &HeadExports) -> Option<ShownHeads> {
    let HeadExports { file, url, headers, every } = heads;
    (file.is_some() || url.is_some()).then(|| ShownHeads {
        file: file.as_ref().map(|file| file.display().to_string()),
        // The path of a webhook is often its only secret.
        url: url.is_some().then_some(MASK),
        every: span::format_span(*every),
        headers: headers.iter().map(|(name, _)| (name.clone(), MASK)).collect(),
    })
}

fn server(server: &Server) -> ShownServer {
    let common = ShownServer {
        timeout: span::format_span(server.timeout),
        anonymous_policy: server.anonymous_policy.as_ref().map(ToString::to_string),
        bridge: match server.bridge {
            Bridge::OwnEra => None,
            Bridge::Modern => Some("modern"),
        },
        hidden_text: match server.hidden_text {
            HiddenText::Strip => None,
            other => Some(other.name()),
        },
        mask_secrets: (!server.mask_secrets).then_some(false),
        ..ShownServer::default()
    };
    let masked = |names: Vec<&str>| names.into_iter().map(|name| (name.to_owned(), MASK)).collect();
    match server.transport.mask() {
        MaskedTransport::Http { url, headers } => {
            ShownServer { url: Some(url), headers: masked(headers), ..common }
        }
        MaskedTransport::Builtin { name, options } => ShownServer {
            builtin: Some(name.to_owned()),
            options: serde_json::from_str(options).ok().as_ref().and_then(super::options::toml),
            ..common
        },
        MaskedTransport::Command { command, env, instances, start } => ShownServer {
            command: Some(command),
            instances: Some(instances.name()),
            start: Some(start.name()),
            env: masked(env),
            ..common
        },
    }
}

fn policies(config: &Config) -> BTreeMap<String, ShownPolicy> {
    let mut shown: BTreeMap<String, ShownPolicy> = BTreeMap::new();
    for policy in &config.policies {
        let one = shown.entry(policy.name.to_string()).or_default();
        one.versions.insert(policy.server.to_string(), policy.version.clone());
    }
    for one in shown.values_mut() {
        let mut versions = one.versions.values();
        let first = versions.next().cloned();
        if versions.all(|version| Some(version) == first.as_ref()) {
            one.servers = std::mem::take(&mut one.versions).into_keys().collect();
            one.version = first;
        }
    }
    shown
}

fn grant(grant: &Grant) -> ShownGrant {
    let moment = |at: sluice_policy::Timestamp| jiff::Timestamp::from_millisecond(at.as_millis());
    ShownGrant {
        id: grant.id.clone(),
        servers: grant.servers.iter().map(ToString::to_string).collect(),
        policy: grant.policy.to_string(),
        token: MASK,
        principal: grant.principal.clone(),
        expires: grant.expires_at.and_then(|at| moment(at).ok()).map(|at| at.to_string()),
    }
}
