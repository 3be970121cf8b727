//! Explains the decision on a supposed call, with a server's own definitions and policies.

use std::time::Duration;

use sluice_classify::Definition;
use sluice_policy::{
    Amount, Call, Explanation, Facts, Format, Policy, Problem, Readings, Timestamp, ToolFacts,
    explain_with_readings, load,
};
use sluice_store::{AttachedPolicy, Name};
use sluice_wire::json::{Bounds, Document};
use tokio::time::timeout;

use super::{
    Ops, Refused, parse_name,
    policies::{NAME_OF_CHECKED, attach},
};
use crate::{clock, live::Tool};

/// How long a server's definitions are waited for.
const LONGEST_LISTING: Duration = Duration::from_secs(5);

/// A call to explain, not yet validated.
pub(crate) struct SupposedCall {
    pub(crate) server: Option<String>,
    /// The name of a policy of the server.
    pub(crate) policy: Option<String>,
    /// A policy that is not in force.
    pub(crate) text: Option<(String, Format)>,
    pub(crate) tool: String,
    /// A JSON object.
    pub(crate) arguments: Option<String>,
    /// The id or label of the grant that the call is made with.
    pub(crate) grant: Option<String>,
    /// An RFC 3339 time.
    pub(crate) at: Option<String>,
    /// JSON numbers, by the name of the counter.
    pub(crate) used: Vec<(String, String)>,
}

/// The policy that judges a supposed call.
enum Judging {
    /// One in force, with the others of the gateway; without it, every call is denied.
    InForce(Option<AttachedPolicy>),
    /// A text, on a server if one is named.
    Text(Option<Name>, String, Format),
}

impl Ops {
    /// Explains the decision on a call. A server whose definitions cannot be had is treated as when
    /// it is called: what depends on them is denied.
    pub(crate) async fn explain_call(&self, call: SupposedCall) -> Result<Explanation, Refused> {
        let server = call.server.as_deref().map(parse_name).transpose()?;
        if let Some(server) = &server {
            self.server(server)?;
        }
        let judging = self.find_judging(&call, server.as_ref()).await?;
        let tools = match &server {
            Some(server) => self.definitions_in_time(server).await,
            None => None,
        };
        let others = self.live.in_force();
        let explain = move || {
            let policy = judging.compile(&others.policies)?;
            explain(policy.as_ref(), &call, tools.as_deref())
        };
        tokio::task::spawn_blocking(explain).await.map_err(|_| Refused::Lost)?
    }

    async fn find_judging(
        &self,
        call: &SupposedCall,
        server: Option<&Name>,
    ) -> Result<Judging, Refused> {
        let grant = match &call.grant {
            Some(grant) => Some(self.grant(grant).await?),
            None => None,
        };
        if let (Some(grant), Some(server)) = (&grant, server)
            && !grant.servers.contains(server)
        {
            let message = format!("grant `{}` may not call server `{server}`", grant.label);
            return Err(Refused::Invalid(message));
        }
        let invalid = |message: &str| Err(Refused::Invalid(message.into()));
        match (&call.text, &call.policy, grant, server) {
            (Some(_), Some(_), ..) => invalid("`policy` and `text` exclude each other"),
            (Some((text, format)), ..) => Ok(Judging::Text(server.cloned(), text.clone(), *format)),
            (None, Some(name), _, Some(server)) => {
                Ok(Judging::InForce(Some(self.policy(server, &parse_name(name)?)?)))
            }
            (None, None, Some(grant), Some(server)) => {
                let policies = self.policies(server)?;
                Ok(Judging::InForce(policies.into_iter().find(|one| one.name == grant.policy)))
            }
            (None, Some(_), _, None) => invalid("`policy` needs `server`"),
            (None, None, Some(_), None) => invalid("`grant` needs `server`, or `text`"),
            (None, None, None, _) => invalid("one of `policy`, `text` and `grant` is needed"),
        }
    }

    /// The definitions of a server's tools, if it lists them soon.
    async fn definitions_in_time(&self, server: &Name) -> Option<Vec<ToolFacts>> {
        let listed = timeout(LONGEST_LISTING, self.tools(server, false)).await;
        let tools = listed.ok()?.ok()?;
        Some(tools.iter().filter_map(read_facts).collect())
    }
}

impl Judging {
    fn compile(&self, others: &[AttachedPolicy]) -> Result<Option<Policy>, Refused> {
        let refuse = |problems: Vec<Problem>| Refused::Problems(problems);
        match self {
            // Without what it extends, a policy is not in force.
            Judging::InForce(policy) => {
                Ok(policy.as_ref().and_then(|policy| policy.compile(others).ok()))
            }
            Judging::Text(None, text, format) => {
                load(text.as_bytes(), *format).map(Some).map_err(refuse)
            }
            Judging::Text(Some(server), text, format) => {
                let name = parse_name(NAME_OF_CHECKED)?;
                let policy = attach(server, &name, text.clone(), *format);
                policy.compile(others).map(Some).map_err(refuse)
            }
        }
    }
}

/// A tool's definition as the policy engine sees it, with the category that the gateway found.
pub(super) fn read_facts(tool: &Tool) -> Option<ToolFacts> {
    let bounds = Bounds { depth: 256, nodes: usize::MAX, string: usize::MAX, ..Bounds::default() };
    let document = Document::parse(tool.definition.as_str(), &bounds).ok()?;
    let definition = Definition::from_tool(document.root())?;
    Some(ToolFacts::new(&definition, tool.assessment.category))
}

fn explain(
    policy: Option<&Policy>,
    supposed: &SupposedCall,
    tools: Option<&[ToolFacts]>,
) -> Result<Explanation, Refused> {
    let arguments = supposed.arguments.as_deref().map(|text| {
        Document::parse(text, &Bounds::default())
            .map_err(|error| Refused::Invalid(format!("`arguments`: {error}")))
    });
    let arguments = arguments.transpose()?;
    let call = Call::new(&supposed.tool, arguments.as_ref().map(Document::root));
    let call = call.map_err(|error| Refused::Invalid(error.to_string()))?;
    let at = supposed.at.as_deref().map(|text| {
        let wrong = "`at` must be a time such as `2027-01-31T12:00:00Z`";
        Timestamp::from_rfc3339(text).ok_or_else(|| Refused::Invalid(wrong.into()))
    });
    let at = at.transpose()?.unwrap_or_else(clock::now);
    let used = supposed.used.iter().map(|(counter, number)| {
        let amount = Amount::from_json(number);
        let wrong = |error| Refused::Invalid(format!("`used`: `{counter}` {error}"));
        Ok((counter.clone(), amount.map_err(wrong)?))
    });
    let readings = Readings::new(used.collect::<Result<Vec<_>, Refused>>()?);
    let facts = Facts::find(tools, &supposed.tool);
    let explained = explain_with_readings(policy, &call, facts, at, &readings);
    explained.map_err(|error| Refused::Invalid(format!("`used`: {error}")))
}
