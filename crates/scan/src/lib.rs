//! A scan: connects to a server once, and classifies its tools.
//!
//! [`ask`] connects and reads the server's lists, [`Scan`] is the result, and [`verdict()`] says in
//! words the worst that its tools could do. Tables, JSON and Markdown are left to the binary, and
//! so are masking and hints about its flags.

mod attacks;
mod connect;
mod excerpt;
mod tokens;
mod verdict;
mod wait;

use sluice_classify::{
    Assessment, Category, Definition, Finding, Part, Siblings, classify, findings_in_instructions,
};
use sluice_policy::{SuggestedPolicy, ToolSeen, suggest_policy};
use sluice_wire::json::Value;

pub use attacks::{Bearing, bearing};
pub use connect::{AskError, Leaving, Listing, Place, Target, Trouble, ask};
pub use tokens::estimate as estimate_tokens;
pub use verdict::verdict;
pub use wait::OnWait;

/// The result of a scan.
#[derive(Debug)]
pub struct Scan {
    pub name: String,
    pub version: String,
    /// The negotiated protocol version.
    pub revision: String,
    /// Instructions for every model that uses the server.
    pub instructions: Option<String>,
    pub instruction_findings: Vec<Noted>,
    /// The number of resources, if known.
    pub resources: Option<usize>,
    pub prompts: Option<usize>,
    /// The tools, the most dangerous first.
    pub tools: Vec<Scanned>,
    /// Names that several tools share.
    pub repeated: Vec<String>,
    /// Tools without a name: nobody can call them, so they are skipped.
    pub nameless: usize,
}

/// One tool.
#[derive(Debug)]
pub struct Scanned {
    pub name: String,
    pub assessment: Assessment,
    pub findings: Vec<Noted>,
    /// The estimated cost in tokens of an agent's context.
    pub tokens: usize,
    /// The definition as the server wrote it.
    pub definition: String,
}

/// A finding with some of the text around it.
#[derive(Debug)]
pub struct Noted {
    pub finding: Finding,
    pub excerpt: String,
}

/// The findings in one text.
#[derive(Debug)]
pub struct Found<'s> {
    pub tool: Option<&'s str>,
    pub part: Part,
    pub parameter: Option<&'s str>,
    /// The kind of each finding, in our words.
    pub kinds: Vec<&'s str>,
    /// The excerpt around the first of them.
    pub excerpt: &'s str,
}

/// Why a server's answer cannot be scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    #[error("its answer has no list of tools")]
    NoList,
    #[error("none of its tools has a name")]
    Nameless,
}

impl Scan {
    /// Classifies the answers of a server.
    pub fn of(listing: &Listing) -> Result<Scan, ScanError> {
        let (mut listed, mut nameless) = (Vec::new(), 0);
        for page in &listing.pages {
            let tools = page.root().get("result").and_then(|result| result.get("tools"));
            let tools = tools.and_then(Value::items).ok_or(ScanError::NoList)?;
            for tool in tools {
                match Definition::from_tool(tool) {
                    Some(definition) => listed.push((tool, definition)),
                    None => nameless += 1,
                }
            }
        }
        if listed.is_empty() && nameless > 0 {
            return Err(ScanError::Nameless);
        }
        let definitions: Vec<_> = listed.iter().map(|(_, definition)| *definition).collect();
        let siblings = Siblings::new(&listing.name, &definitions);
        let tools = listed.iter().map(|(tool, of)| Scanned::of(*tool, of, &siblings));
        let mut tools: Vec<_> = tools.collect();
        tools.sort_by(|one, other| {
            let worst = |tool: &Scanned| (tool.assessment.category, !tool.findings.is_empty());
            worst(other).cmp(&worst(one)).then_with(|| one.name.cmp(&other.name))
        });
        let instructions = listing.instructions.clone();
        Ok(Scan {
            name: listing.name.clone(),
            version: listing.version.clone(),
            revision: listing.revision.clone(),
            instruction_findings: instructions.as_deref().map(in_instructions).unwrap_or_default(),
            instructions,
            resources: listing.resources,
            prompts: listing.prompts,
            repeated: find_repeated(&tools),
            nameless,
            tools,
        })
    }

    /// Whether any definition seems written to mislead.
    pub fn has_findings(&self) -> bool {
        self.findings().next().is_some() || !self.repeated.is_empty()
    }

    /// The findings, each with its tool; `None` for the server's own text.
    pub fn findings(&self) -> impl Iterator<Item = (Option<&str>, &Noted)> {
        let of_server = self.instruction_findings.iter().map(|noted| (None, noted));
        let of_tools = self
            .tools
            .iter()
            .flat_map(|tool| tool.findings.iter().map(|noted| (Some(tool.name.as_str()), noted)));
        of_server.chain(of_tools)
    }

    /// The findings, grouped by text.
    pub fn merge_findings(&self) -> Vec<Found<'_>> {
        let mut all: Vec<Found<'_>> = Vec::new();
        for (tool, Noted { finding, excerpt }) in self.findings() {
            let (part, parameter) = (finding.at.part, finding.at.parameter.as_deref());
            let text = finding.text.as_str();
            let is_same = |one: &&mut Found<'_>| {
                (one.tool, one.part, one.parameter) == (tool, part, parameter)
            };
            match all.last_mut().filter(is_same) {
                Some(same) => same.kinds.push(text),
                None => all.push(Found { tool, part, parameter, kinds: vec![text], excerpt }),
            }
        }
        all
    }

    /// The policy to start from.
    pub fn policy(&self) -> SuggestedPolicy {
        suggest_policy(
            self.tools.iter().map(|tool| ToolSeen::from_assessment(&tool.name, &tool.assessment)),
        )
    }

    /// The tools of each category that has any, the worst first.
    pub fn groups(&self) -> Vec<(Category, Vec<&Scanned>)> {
        let of =
            |category| self.tools.iter().filter(move |tool| tool.assessment.category == category);
        let all = Category::ALL.into_iter().rev();
        let groups = all.map(|category| (category, of(category).collect::<Vec<_>>()));
        groups.filter(|(_, tools)| !tools.is_empty()).collect()
    }

    /// The cost of all tools in tokens of an agent's context.
    pub fn tokens(&self) -> usize {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }
}

impl Scanned {
    fn of<'d>(tool: Value<'d>, definition: &Definition<'d>, siblings: &Siblings<'d>) -> Scanned {
        let assessment = classify(definition, siblings);
        let noted = |finding: &Finding| Noted {
            excerpt: excerpt::of_definition(definition, &finding.at),
            finding: finding.clone(),
        };
        Scanned {
            name: definition.name.to_owned(),
            findings: assessment.findings.iter().map(noted).collect(),
            assessment,
            tokens: tokens::estimate(&in_context(tool)),
            definition: tool.raw().to_owned(),
        }
    }
}

fn in_instructions(text: &str) -> Vec<Noted> {
    let found = findings_in_instructions(text).into_iter();
    let noted = found.map(|finding| Noted { excerpt: excerpt::around(text, &finding.at), finding });
    noted.collect()
}

/// The part of a tool's definition that a client puts into its model's context.
fn in_context(tool: Value<'_>) -> String {
    let shown = ["name", "description", "inputSchema"].into_iter().filter_map(|key| {
        let raw = tool.get(key)?.raw();
        // Clients write it without blanks and needless escapes.
        let value = serde_json::from_str::<serde_json::Value>(raw);
        let text = value.map_or_else(|_| raw.to_owned(), |value| value.to_string());
        Some(format!("\"{key}\":{text}"))
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

fn find_repeated(tools: &[Scanned]) -> Vec<String> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    let mut repeated: Vec<String> = names
        .windows(2)
        .filter_map(|pair| match pair {
            [one, other] if one == other => Some((*one).to_owned()),
            _ => None,
        })
        .collect();
    repeated.dedup();
    repeated
}
