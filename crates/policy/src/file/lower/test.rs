//! Lowers the policy's own tests.

use sluice_classify::Category;
use sluice_wire::json::{Bounds, Document, Reason, Refusal};

use super::{Lowering, text};
use crate::{decision::Outcome, file::node::Node, selftest::SelfTest, time::Timestamp};

/// The maximum number of calls in all tests of a policy, because they run whenever it is loaded.
const MOST_CALLS: u32 = 100_000;

impl Lowering<'_> {
    pub(super) fn tests(&mut self, nodes: &[Node]) -> Box<[SelfTest]> {
        let mut calls: u32 = 0;
        let mut tests = Vec::new();
        for node in nodes {
            let Some(test) = self.test(node) else { continue };
            let before = calls;
            calls = calls.saturating_add(test.times);
            if before <= MOST_CALLS && calls > MOST_CALLS {
                let message = format!("`tests` make more than {MOST_CALLS} calls in all");
                self.problems.add(node.span, message);
            }
            tests.push(test);
        }
        tests.into()
    }

    fn test(&mut self, node: &Node) -> Option<SelfTest> {
        let call = node.get("call")?;
        let at = match call.get("at") {
            Some(at) => self.time(at)?,
            None => Timestamp::from_millis(0),
        };
        let times = call.get("times").and_then(Node::as_whole).unwrap_or(1);
        Some(SelfTest {
            name: text(node, "name")?.into(),
            tool: text(call, "tool")?.into(),
            args: match call.get("args") {
                Some(args) => Some(self.arguments(args)?),
                None => None,
            },
            times: u32::try_from(times).unwrap_or(1),
            at,
            category: text(call, "category").and_then(Category::from_name),
            expect: Outcome::from_name(text(node, "expect")?)?,
            rule: text(node, "rule").map(Box::from),
            offset: node.span.start,
        })
    }

    fn time(&mut self, node: &Node) -> Option<Timestamp> {
        let text = node.as_str()?;
        let time = Timestamp::from_rfc3339(text);
        if time.is_none() {
            let message = format!("`at` must be an RFC 3339 time, found `{text}`");
            self.problems.add_with_hint(node.span, message, "write `2026-01-31T12:00:00Z`".into());
        }
        time
    }

    /// The arguments in the form that a call would have.
    fn arguments(&mut self, node: &Node) -> Option<Document> {
        match Document::parse(node.to_string(), &Bounds::default()) {
            Ok(document) => Some(document),
            // Duplicate keys are reported by the check.
            Err(Refusal { reason: Reason::DuplicateKey(_), .. }) => None,
            Err(refusal) => {
                let message = format!("`args` could not be sent as they are: {}", refusal.reason);
                self.problems.add(node.span, message);
                None
            }
        }
    }
}
