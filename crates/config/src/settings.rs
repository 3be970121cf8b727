//! The settings of the gateway itself.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use sluice_store::Durability;
use toml::Spanned;

use super::{
    head_exports::HeadExports,
    loader::{self, Loader},
    section::Section,
    value::{self, network},
};

/// The largest size that is accepted; bodies and answers are held in memory.
const LARGEST_BODY: u64 = 1 << 30;
/// The deepest nesting; the JSON libraries of clients and servers stop here.
const DEEPEST: u64 = 128;
const MOST_NODES: u64 = 100_000_000;
/// The largest share; more than any process can have open.
const LARGEST_SHARE: u64 = 1_000_000_000;

const LIMITS: &[&str] = &[
    "body",
    "answer",
    "in_flight",
    "depth",
    "nodes",
    "string",
    "calls",
    "server_calls",
    "streams",
    "sessions",
    "children",
    "subscriptions",
];

const AUDIT: &[&str] = &["durability", "keep", "keep_at_least", "max_size", "values", "heads"];

/// The limits of messages, and of what one grant or one server may use at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, in bytes.
    pub body: u64,
    /// The largest answer that must be buffered, in bytes.
    pub answer: u64,
    /// Bytes of long messages that are held at a time.
    pub in_flight: u64,
    /// The deepest nesting of containers.
    pub depth: u64,
    /// The maximum number of values in one message.
    pub nodes: u64,
    /// The longest string, in bytes.
    pub string: u64,
    /// Requests in progress of one grant.
    pub calls: u64,
    /// Requests in progress at one server.
    pub server_calls: u64,
    /// Open streams of one grant.
    pub streams: u64,
    /// Sessions of one grant that the gateway keeps for servers.
    pub sessions: u64,
    /// Processes of one grant, of servers with one for each session.
    pub children: u64,
    /// Subscriptions of one grant.
    pub subscriptions: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 4 << 20,
            answer: 16 << 20,
            in_flight: 128 << 20,
            depth: 64,
            nodes: 100_000,
            string: 1 << 20,
            calls: 1_000,
            server_calls: 4_000,
            streams: 20_000,
            sessions: 1_000,
            children: 32,
            subscriptions: 5_000,
        }
    }
}

/// Settings of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub durability: Durability,
    pub keep: Duration,
    /// Records that are younger are not removed for the size.
    pub keep_at_least: Duration,
    /// The maximum size, in bytes.
    pub max_size: u64,
    /// Paths of the arguments whose values are recorded; other values are not.
    pub values: Vec<String>,
    /// Where signed heads are exported to.
    pub heads: HeadExports,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit {
            durability: Durability::Process,
            keep: Duration::from_hours(90 * 24),
            keep_at_least: Duration::from_hours(7 * 24),
            max_size: 10 << 30,
            values: Vec::new(),
            heads: HeadExports::default(),
        }
    }
}

/// Files for TLS to clients. They are readable; their content is not checked here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The file's settings for the gateway; missing ones are `None` or empty.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) listen: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) data: Option<PathBuf>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) are_metrics_open: bool,
    pub(super) tls: Option<Tls>,
    pub(super) limits: Limits,
    pub(super) audit: Audit,
    pub(super) allow_private: Vec<IpNet>,
}

const ROOT: &[&str] = &[
    "listen",
    "admin",
    "data",
    "allowed_hosts",
    "allowed_origins",
    "metrics",
    "tls",
    "store",
    "limits",
    "audit",
    "upstreams",
    "telemetry",
    "servers",
    "policies",
    "grants",
];

impl Settings {
    pub(super) fn read(root: &Section<'_>, loader: &mut Loader<'_>) -> Settings {
        root.check_keys(ROOT, &mut loader.findings);
        refuse_later(root, loader);
        let data = data(root, loader);
        let tls = tls(root, loader);
        let findings = &mut loader.findings;
        let upstreams = root.table("upstreams", findings);
        let allow_private = upstreams.map_or_else(Vec::new, |section| {
            section.check_keys(&["allow_private"], findings);
            plain(section.list("allow_private", network::range, findings))
        });
        Settings {
            listen: root.read("listen", network::address, findings).map(Spanned::into_inner),
            admin: root.read("admin", network::address, findings).map(Spanned::into_inner),
            data,
            allowed_hosts: plain(root.list("allowed_hosts", network::host, findings)),
            allowed_origins: plain(root.list("allowed_origins", network::origin, findings)),
            are_metrics_open: root.read("metrics", metrics, findings).is_some(),
            tls,
            limits: limits(root, loader),
            audit: audit(root, loader),
            allow_private,
        }
    }
}

/// Reads the data directory, relative to the file's folder.
pub(super) fn data(root: &Section<'_>, loader: &mut Loader<'_>) -> Option<PathBuf> {
    let data = root.read("data", value::text, &mut loader.findings)?;
    Some(loader.path(data.get_ref()))
}

/// Who may read the metrics: only `open` can be said, as the default needs no word.
fn metrics(value: &toml::de::DeValue<'_>) -> value::Parsed<()> {
    if value.as_str() == Some("open") { Ok(()) } else { Err("`open`".into()) }
}

fn plain<T>(list: Vec<Spanned<T>>) -> Vec<T> {
    list.into_iter().map(Spanned::into_inner).collect()
}

fn refuse_later(root: &Section<'_>, loader: &mut Loader<'_>) {
    let findings = &mut loader.findings;
    for (name, keys, why) in [
        ("store", &["url", "counters"][..], "leave it out: everything is kept in `data`"),
        ("telemetry", &["otlp"][..], "leave it out; `/metrics` has Prometheus metrics"),
    ] {
        if let Some(section) = root.table(name, findings) {
            section.check_keys(keys, findings);
            section.refuse(keys, why, findings);
        }
    }
}

fn tls(root: &Section<'_>, loader: &mut Loader<'_>) -> Option<Tls> {
    let section = root.table("tls", &mut loader.findings)?;
    section.check_keys(&["cert", "key"], &mut loader.findings);
    if !section.has("cert") && !section.has("key") {
        return None;
    }
    let cert = readable(&section, "cert", loader);
    let key = readable(&section, "key", loader);
    Some(Tls { cert: cert?, key: key? })
}

/// Reads the path of a file, which must be readable.
fn readable(section: &Section<'_>, key: &str, loader: &mut Loader<'_>) -> Option<PathBuf> {
    section.require(key, &mut loader.findings);
    let written = section.read(key, value::text, &mut loader.findings)?;
    let path = loader.path(written.get_ref());
    loader.note(&path);
    if let Err(error) = loader::read(&path, 1) {
        let message = format!("cannot read `{}`: {error}", path.display());
        loader.findings.add(written.span(), message);
    }
    Some(path)
}

fn limits(root: &Section<'_>, loader: &mut Loader<'_>) -> Limits {
    let mut limits = Limits::default();
    let findings = &mut loader.findings;
    let Some(section) = root.table("limits", findings) else { return limits };
    section.check_keys(LIMITS, findings);
    for (key, size) in
        [("body", &mut limits.body), ("answer", &mut limits.answer), ("string", &mut limits.string)]
    {
        set(size, section.read(key, value::size_up_to(LARGEST_BODY), findings));
    }
    set(&mut limits.in_flight, section.read("in_flight", value::size, findings));
    set(&mut limits.depth, section.read("depth", value::count(DEEPEST), findings));
    set(&mut limits.nodes, section.read("nodes", value::count(MOST_NODES), findings));
    for (key, share) in [
        ("calls", &mut limits.calls),
        ("server_calls", &mut limits.server_calls),
        ("streams", &mut limits.streams),
        ("sessions", &mut limits.sessions),
        ("children", &mut limits.children),
        ("subscriptions", &mut limits.subscriptions),
    ] {
        set(share, section.read(key, value::count(LARGEST_SHARE), findings));
    }
    limits
}

fn audit(root: &Section<'_>, loader: &mut Loader<'_>) -> Audit {
    let mut audit = Audit::default();
    let findings = &mut loader.findings;
    let Some(section) = root.table("audit", findings) else { return audit };
    section.check_keys(AUDIT, findings);
    set(&mut audit.durability, section.read("durability", value::durability, findings));
    set(&mut audit.keep, section.read("keep", value::duration, findings));
    set(&mut audit.keep_at_least, section.read("keep_at_least", value::duration, findings));
    set(&mut audit.max_size, section.read("max_size", value::size, findings));
    audit.values = plain(section.list("values", value::argument_path, findings));
    if let Some(section) = section.table("heads", findings) {
        audit.heads = HeadExports::read(&section, loader);
    }
    audit
}

/// Replaces a default by a value that was read.
fn set<T>(place: &mut T, read: Option<Spanned<T>>) {
    if let Some(read) = read {
        *place = read.into_inner();
    }
}
