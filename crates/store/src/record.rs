//! Audit records: what happened, in the words of the contract.
//!
//! A record's text is written by hand: every call writes two. What is not known
//! is left out. Values of arguments are in it only where the operator asks for them.

mod line;

use std::{borrow::Cow, sync::Arc};

use sluice_policy::Timestamp;

use crate::id::Id;

pub(crate) use line::{Line, Own, push_number};

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Decision,
    Outcome,
    Auth,
    Approval,
    Admin,
    Drift,
}

impl Kind {
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

/// A grant, as records name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRef {
    pub id: Arc<str>,
    pub label: Arc<str>,
}

/// The policy that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRef {
    pub name: Arc<str>,
    pub version: Arc<str>,
}

/// What came back from the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRef {
    pub status: Option<u16>,
    pub is_error: Option<bool>,
    pub micros: u64,
}

/// One record, before it is chained. Texts that many records have in common are
/// shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: Id,
    pub at: Timestamp,
    pub kind: Kind,
    /// The request a decision and its outcome have in common.
    pub request: Option<Id>,
    pub server: Option<Arc<str>>,
    pub grant: Option<GrantRef>,
    pub principal: Option<Arc<str>>,
    pub session: Option<Arc<str>>,
    pub method: Option<Cow<'static, str>>,
    pub tool: Option<Arc<str>>,
    /// `allow`, `deny`, `hide`, `approve`, `shadow_deny` or `error`.
    pub outcome: Option<&'static str>,
    pub rule: Option<Arc<str>>,
    pub message: Option<String>,
    pub policy: Option<PolicyRef>,
    /// Sorted.
    pub arg_keys: Vec<String>,
    pub arg_digest: Option<[u8; 32]>,
    /// Values of arguments that the operator wants recorded, by path: one JSON
    /// object.
    pub arg_values: Option<String>,
    pub upstream: Option<UpstreamRef>,
    pub micros: Option<u64>,
}

impl Record {
    /// A record of something at a moment, with nothing else said yet.
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
            rule: None,
            message: None,
            policy: None,
            arg_keys: Vec::new(),
            arg_digest: None,
            arg_values: None,
            upstream: None,
            micros: None,
        }
    }

    /// The record as one line of JSON, open at its end for what chains it.
    pub(crate) fn line(&self) -> Line {
        self.line_on(Line::default())
    }

    /// The same, written where another line was before.
    pub(crate) fn line_on(&self, blank: Line) -> Line {
        let mut line = blank;
        line.begin(self.at);
        self.write_head(&mut line);
        self.write_call(&mut line);
        self.write_tail(&mut line);
        line
    }

    fn write_head(&self, out: &mut Line) {
        out.push(r#"{"id":""#);
        out.id(self.id);
        out.push(r#"","at":""#);
        out.moment(self.at);
        out.push(r#"","kind":""#);
        out.push(self.kind.as_str());
        out.push("\"");
        if let Some(request) = self.request {
            out.push(r#","request":""#);
            out.id(request);
            out.push("\"");
        }
    }

    fn write_call(&self, out: &mut Line) {
        member(out, r#","server":"#, self.server.as_deref());
        if let Some(GrantRef { id, label }) = &self.grant {
            member(out, r#","grant":{"id":"#, Some(id));
            member(out, r#","label":"#, Some(label));
            out.push("}");
        }
        member(out, r#","principal":"#, self.principal.as_deref());
        varying(out, r#","session":"#, self.session.as_deref());
        member(out, r#","method":"#, self.method.as_deref());
        member(out, r#","tool":"#, self.tool.as_deref());
        member(out, r#","outcome":"#, self.outcome);
        member(out, r#","rule":"#, self.rule.as_deref());
        varying(out, r#","message":"#, self.message.as_deref());
        if let Some(PolicyRef { name, version }) = &self.policy {
            member(out, r#","policy":{"name":"#, Some(name));
            member(out, r#","version":"#, Some(version));
            out.push("}");
        }
    }

    fn write_tail(&self, out: &mut Line) {
        // A decision says so even when there were no arguments.
        if self.kind == Kind::Decision || !self.arg_keys.is_empty() {
            out.push(r#","arg_keys":["#);
            for (place, key) in self.arg_keys.iter().enumerate() {
                out.push(if place == 0 { "" } else { "," });
                out.string(key);
            }
            out.push("]");
        }
        if let Some(digest) = &self.arg_digest {
            out.push(r#","arg_digest":""#);
            out.digest(digest);
            out.push("\"");
        }
        if let Some(values) = &self.arg_values {
            out.push(r#","arg_values":"#);
            out.varying(|text| text.push_str(values));
        }
        if let Some(upstream) = &self.upstream {
            upstream.write(out);
        }
        if let Some(micros) = self.micros {
            out.push(r#","micros":"#);
            out.number(micros);
        }
    }
}

impl UpstreamRef {
    fn write(&self, out: &mut Line) {
        out.push(r#","upstream":{"#);
        if let Some(status) = self.status {
            out.push(r#""status":"#);
            out.number(u64::from(status));
            out.push(",");
        }
        if let Some(is_error) = self.is_error {
            out.push(if is_error { r#""is_error":true,"# } else { r#""is_error":false,"# });
        }
        out.push(r#""micros":"#);
        out.number(self.micros);
        out.push("}");
    }
}

fn member(out: &mut Line, before: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.push(before);
        out.string(text);
    }
}

/// The same of what is hardly ever twice the same.
fn varying(out: &mut Line, before: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.push(before);
        out.varying(|out| line::push_string(out, text));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use sluice_policy::Timestamp;

    use super::{GrantRef, Kind, PolicyRef, Record, UpstreamRef};
    use crate::id::new_id;

    const AT: Timestamp = Timestamp::from_millis(1_794_724_708_123);

    fn read(record: &Record) -> serde_json::Value {
        let text = record.line().lend(|text| format!("{text}}}"));
        serde_json::from_str(&text).unwrap()
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
        record.outcome = Some("allow");
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
            "outcome": "allow", "rule": "r", "message": "m", "policy": {"name": "p", "version": "v"},
            "arg_keys": ["a", "b\""], "arg_digest": "ab".repeat(32),
            "arg_values": {"a": [1]},
            "upstream": {"status": 200, "is_error": true, "micros": 5}, "micros": u64::MAX,
        });
        assert_eq!(read(&record), expected);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut record = Record::new(new_id(AT), AT, Kind::Outcome);
        record.upstream = Some(UpstreamRef { status: None, is_error: None, micros: 1 });
        let expected = json!({
            "id": record.id.to_string(), "at": "2026-11-15T06:38:28.123Z", "kind": "outcome",
            "upstream": {"micros": 1},
        });
        assert_eq!(read(&record), expected);
    }
}
