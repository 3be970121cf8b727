//! The features that a policy takes away, compared with no policy.

use sluice_classify::Definition;

use crate::{
    access::Access,
    facts::{Facts, ToolFacts},
    policy::{Policy, ServerRequest},
    standing::shows,
    suggest::ToolSeen,
};

/// The features that a client loses when a server gets a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    /// Tools that are neither listed nor callable any more, in order of their names.
    pub hidden_tools: Vec<String>,
    /// Which of `resources`, `prompts`, `sampling`, `elicitation` and `roots` are
    /// denied, in whole or in part.
    pub denied: Vec<&'static str>,
}

impl Policy {
    /// The features that clients of a server with these tools lose under this policy.
    pub fn restriction<'t>(&self, tools: impl IntoIterator<Item = ToolSeen<'t>>) -> Restriction {
        let hidden = tools.into_iter().filter(|tool| !self.shows_seen(*tool));
        let mut hidden_tools: Vec<String> = hidden.map(|tool| tool.name.to_owned()).collect();
        hidden_tools.sort_unstable();
        hidden_tools.dedup();
        let accesses = [("resources", &self.resources), ("prompts", &self.prompts)];
        let limited = accesses.into_iter().filter(|(_, access)| !matches!(access, Access::Allow));
        let requests = ServerRequest::ALL.into_iter();
        let refused = requests.filter(|request| !self.permits_server_request(*request));
        Restriction {
            hidden_tools,
            denied: limited.map(|(name, _)| name).chain(refused.map(ServerRequest::name)).collect(),
        }
    }

    fn shows_seen(&self, tool: ToolSeen<'_>) -> bool {
        let definition = Definition {
            name: tool.name,
            title: None,
            description: None,
            input_schema: None,
            annotations: None,
        };
        let facts = ToolFacts::new(&definition, tool.category);
        shows(Some(self), tool.name, Facts::Known(&facts))
    }
}

#[cfg(test)]
mod tests {
    use sluice_classify::Category;

    use super::Restriction;
    use crate::{Format, ToolSeen, load, suggest_policy, suggest_policy_by_category};

    fn check(policy: &str, hidden: &[&str], denied: &[&'static str]) {
        let policy = load(policy.as_bytes(), Format::Json).unwrap();
        let tools = [("read", Category::Read), ("drop", Category::Destructive)];
        let seen = tools.map(|(name, category)| ToolSeen { name, category, has_findings: false });
        let hidden_tools = hidden.iter().map(ToString::to_string).collect();
        let denied = denied.to_vec();
        assert_eq!(policy.restriction(seen), Restriction { hidden_tools, denied });
    }

    #[test]
    fn hidden_tools_are_named_in_order() {
        check(r#"{"version":"1","default":"allow"}"#, &[], &[]);
        check(r#"{"version":"1","default":"allow","hide":["*"]}"#, &["drop", "read"], &[]);
        check(&suggest_policy_by_category().policy, &["drop"], &[]);
        let drop = ToolSeen { name: "drop", category: Category::Destructive, has_findings: false };
        check(&suggest_policy([drop]).policy, &["drop", "read"], &[]);
    }

    #[test]
    fn denied_resources_prompts_and_requests_are_named() {
        let all = ["resources", "prompts", "sampling", "elicitation", "roots"];
        check(r#"{"version":"1","default":"deny","tools":{"*":{}}}"#, &[], &all);
        let some = r#"{"version":"1","default":"allow","resources":{"allow":["a://*"]},"server_requests":["roots"]}"#;
        check(some, &[], &["resources", "sampling", "elicitation"]);
    }
}
