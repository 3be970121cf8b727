//! Audit records: what happened, as the API and exports show it.
//!
//! The JSON is serialised by hand, because every call writes two records. Unknown
//! fields are omitted. Argument values are included only where the operator asks for
//! them.

use std::{borrow::Cow, fmt::Write as _, sync::Arc};

use sluice_policy::Timestamp;
use sluice_wire::json;

use crate::{
    actor::Actor,
    chain::Anchor,
    digest::push_hex,
    id::{Id, new_id},
};

/// Bytes that nearly every record fits into, including its hash.
const USUAL_LENGTH: usize = 1024;
/// The largest number a back-end can hold.
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// The subject of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Decision,
    Outcome,
    Auth,
    Approval,
    Admin,
    Drift,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Decision, Kind::Outcome, Kind::Auth, Kind::Approval, Kind::Admin, Kind::Drift];

    /// Parses the name of a kind.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Decision => "decision",
            Kind::Outcome => "outcome",
            Kind::Auth => "auth",
            Kind::Approval => "approval",
            Kind::Admin => "admin",
            Kind::Drift => "drift",
        }
    }
}

/// The result of a decision or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Allow,
    Deny,
    /// Denied because the tool is hidden.
    Hide,
    /// The call is refused, and waits for approval.
    Hold,
    /// Passed on in shadow mode; an enforcing policy would have denied it.
    ShadowDeny,
    Error,
}

impl Outcome {
    pub const ALL: [Outcome; 6] = [
        Outcome::Allow,
        Outcome::Deny,
        Outcome::Hide,
        Outcome::Hold,
        Outcome::ShadowDeny,
        Outcome::Error,
    ];

    /// Parses the name of an outcome.
    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }

    /// Its name in records, metrics and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Allow => "allow",
            Outcome::Deny => "deny",
            Outcome::Hide => "hide",
            Outcome::Hold => "hold",
            Outcome::ShadowDeny => "shadow_deny",
            Outcome::Error => "error",
        }
    }
}

/// A grant, as records refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRef {
    pub id: Arc<str>,
    pub label: Arc<str>,
}

/// The policy that decided, as records refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRef {
    pub name: Arc<str>,
    pub version: Arc<str>,
}

/// The upstream's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRef {
    pub status: Option<u16>,
    pub is_error: Option<bool>,
    pub micros: u64,
}

/// One record, before it is chained. Texts that many records share are reference-counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: Id,
    pub at: Timestamp,
    pub kind: Kind,
    /// The id that a decision and its outcome share.
    pub request: Option<Id>,
    pub server: Option<Arc<str>>,
    pub grant: Option<GrantRef>,
    pub principal: Option<Arc<str>>,
    pub session: Option<Arc<str>>,
    pub method: Option<Cow<'static, str>>,
    pub tool: Option<Arc<str>>,
    pub outcome: Option<Outcome>,
    /// The target, if it is a resource, prompt or task instead of a tool.
    pub target: Option<String>,
    /// The author of the change: a person, or the gateway itself.
    pub actor: Option<Actor>,
    /// The approval that the call waits for or used.
    pub approval: Option<Arc<str>>,
    pub rule: Option<Arc<str>>,
    pub message: Option<String>,
    pub policy: Option<PolicyRef>,
    /// Sorted.
    pub arg_keys: Vec<String>,
    pub arg_digest: Option<[u8; 32]>,
    /// Argument values that the operator wants recorded, by path: one JSON object.
    pub arg_values: Option<String>,
    pub upstream: Option<UpstreamRef>,
    pub micros: Option<u64>,
    /// Where the chains continue, in the record of a pruning. Only the store sets it.
    pub anchor: Option<Anchor>,
}

impl Record {
    /// A record of an event at this time, with all other fields empty.
    pub fn new(id: Id, at: Timestamp, kind: Kind) -> Record {
        Record {
            id,
            at,
            kind,
            request: None,
            server: None,
            grant: None,
            principal: None,
            session: None,
            method: None,
            tool: None,
            outcome: None,
            target: None,
            actor: None,
            approval: None,
            rule: None,
            message: None,
            policy: None,
            arg_keys: Vec::new(),
            arg_digest: None,
            arg_values: None,
            upstream: None,
            micros: None,
            anchor: None,
        }
    }

    /// The record of a failed authentication.
    pub fn failed_authentication(at: Timestamp, message: String) -> Record {
        Record {
            outcome: Some(Outcome::Deny),
            message: Some(message),
            ..Record::new(new_id(at), at, Kind::Auth)
        }
    }

    /// The record as JSON text without its closing brace, so that the chain can append to
    /// it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(USUAL_LENGTH);
        self.write_head(&mut text);
        self.write_call(&mut text);
        self.write_tail(&mut text);
        text
    }

    fn write_head(&self, out: &mut String) {
        out.push_str(r#"{"id":""#);
        out.push_str(self.id.text().as_str());
        out.push_str(r#"","at":""#);
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", self.at);
        out.push_str(r#"","kind":""#);
        out.push_str(self.kind.as_str());
        out.push('"');
        if let Some(request) = self.request {
            out.push_str(r#","request":""#);
            out.push_str(request.text().as_str());
            out.push('"');
        }
    }

    fn write_call(&self, out: &mut String) {
        member(out, r#","server":"#, self.server.as_deref());
        if let Some(GrantRef { id, label }) = &self.grant {
            member(out, r#","grant":{"id":"#, Some(id));
            member(out, r#","label":"#, Some(label));
            out.push('}');
        }
        member(out, r#","principal":"#, self.principal.as_deref());
        member(out, r#","session":"#, self.session.as_deref());
        member(out, r#","method":"#, self.method.as_deref());
        member(out, r#","tool":"#, self.tool.as_deref());
        member(out, r#","outcome":"#, self.outcome.map(Outcome::as_str));
        member(out, r#","target":"#, self.target.as_deref());
        if let Some(Actor { id, label, address }) = &self.actor {
            member(out, r#","actor":{"id":"#, Some(id));
            member(out, r#","label":"#, Some(label));
            member(out, r#","address":"#, address.as_deref());
            out.push('}');
        }
        member(out, r#","approval":"#, self.approval.as_deref());
        member(out, r#","rule":"#, self.rule.as_deref());
        member(out, r#","message":"#, self.message.as_deref());
        if let Some(PolicyRef { name, version }) = &self.policy {
            member(out, r#","policy":{"name":"#, Some(name));
            member(out, r#","version":"#, Some(version));
            out.push('}');
        }
    }

    fn write_tail(&self, out: &mut String) {
        // A decision lists its argument names even if there are none.
        if self.kind == Kind::Decision || !self.arg_keys.is_empty() {
            out.push_str(r#","arg_keys":"#);
            push_keys(out, &self.arg_keys);
        }
        if let Some(digest) = &self.arg_digest {
            out.push_str(r#","arg_digest":""#);
            push_hex(out, digest);
            out.push('"');
        }
        if let Some(values) = &self.arg_values {
            out.push_str(r#","arg_values":"#);
            out.push_str(values);
        }
        if let Some(upstream) = &self.upstream {
            upstream.write(out);
        }
        if let Some(micros) = self.micros {
            out.push_str(r#","micros":"#);
            push_number(out, micros);
        }
        if let Some(anchor) = &self.anchor {
            out.push_str(r#","anchor":"#);
            anchor.push(out);
        }
    }
}

impl UpstreamRef {
    fn write(&self, out: &mut String) {
        out.push_str(r#","upstream":{"#);
        if let Some(status) = self.status {
            out.push_str(r#""status":"#);
            push_number(out, u64::from(status));
            out.push(',');
        }
        if let Some(is_error) = self.is_error {
            out.push_str(if is_error { r#""is_error":true,"# } else { r#""is_error":false,"# });
        }
        out.push_str(r#""micros":"#);
        push_number(out, self.micros);
        out.push('}');
    }
}

/// The names of arguments as a JSON array.
pub(crate) fn push_keys(out: &mut String, keys: &[String]) {
    out.push('[');
    for (index, key) in keys.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        push_string(out, key);
    }
    out.push(']');
}

fn member(out: &mut String, before: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.push_str(before);
        push_string(out, text);
    }
}

fn push_string(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = json::write_string(out, text);
}

fn push_number(out: &mut String, number: u64) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{}", number.min(LARGEST));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use sluice_policy::Timestamp;

    use super::{GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef};
    use crate::{actor::Actor, id::new_id};

    const AT: Timestamp = Timestamp::from_millis(1_794_724_708_123);

    fn read(record: &Record) -> serde_json::Value {
        serde_json::from_str(&format!("{}}}", record.text())).unwrap()
    }

    #[test]
    fn every_member_is_written_and_escaped() {
        let text = |text: &str| Some(Arc::<str>::from(text));
        let name = |text: &str| Arc::<str>::from(text);
        let mut record = Record::new(new_id(AT), AT, Kind::Decision);
        record.request = Some(record.id);
        record.server = text("notes");
        record.grant = Some(GrantRef { id: name("g"), label: name("lap\"top") });
        record.principal = text("a\\b\n\u{1}é");
        record.session = text("s");
        record.method = Some("tools/call".into());
        record.tool = text("add");
        record.outcome = Some(Outcome::Hold);
        record.target = Some("file:///x".into());
        let address = Some("127.0.0.1".into());
        record.actor = Some(Actor { id: name("t1"), label: name("ada"), address });
        record.approval = text("a1");
        record.rule = text("r");
        record.message = Some("m".into());
        record.policy = Some(PolicyRef { name: name("p"), version: name("v") });
        record.arg_keys = vec!["a".into(), "b\"".into()];
        record.arg_digest = Some([0xab; 32]);
        record.arg_values = Some(r#"{"a":[1]}"#.into());
        record.upstream = Some(UpstreamRef { status: Some(200), is_error: Some(true), micros: 5 });
        record.micros = Some(u64::MAX);
        let id = record.id.to_string();
        let expected = json!({
            "id": id, "at": "2026-11-15T06:38:28.123Z", "kind": "decision", "request": id,
            "server": "notes", "grant": {"id": "g", "label": "lap\"top"},
            "principal": "a\\b\n\u{1}é", "session": "s", "method": "tools/call", "tool": "add",
            "outcome": "hold", "target": "file:///x",
            "actor": {"id": "t1", "label": "ada", "address": "127.0.0.1"}, "approval": "a1", "rule": "r", "message": "m", "policy": {"name": "p", "version": "v"},
            "arg_keys": ["a", "b\""], "arg_digest": "ab".repeat(32),
            "arg_values": {"a": [1]},
            "upstream": {"status": 200, "is_error": true, "micros": 5}, "micros": i64::MAX,
        });
        assert_eq!(read(&record), expected);
    }

    #[test]
    fn unknown_fields_are_omitted() {
        let mut record = Record::new(new_id(AT), AT, Kind::Outcome);
        record.upstream = Some(UpstreamRef { status: None, is_error: None, micros: 1 });
        let expected = json!({
            "id": record.id.to_string(), "at": "2026-11-15T06:38:28.123Z", "kind": "outcome",
            "upstream": {"micros": 1},
        });
        assert_eq!(read(&record), expected);
    }
}
