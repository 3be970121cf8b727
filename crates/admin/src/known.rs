//! Servers and tools of the catalogue as JSON. The API and `sluice catalog` write
//! the same. These shapes are only written, never read.

use serde::Serialize;
use serde_json::{Map, Value, json};
use sluice_catalog::{
    Catalog, CatalogError, Counts, Evidence, Evident, Hit, SearchResults, Server, Tool, Traits,
    abilities, reasons_for_policy,
};
use sluice_classify::{Category, Risk};
use sluice_policy::{ToolSeen, suggest_entry, suggest_policy};
use utoipa::ToSchema;

use crate::schema::{
    CatalogStanding, DefinitionPart, EvidenceKind, PolicyDocument, ToolCategory, ToolRisk,
    ToolSignal,
};

/// A server at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub struct KnownServer {
    pub slug: String,
    pub name: String,
    #[schema(value_type = CatalogStanding)]
    pub standing: &'static str,
    /// Where its definitions came from.
    pub source: String,
    #[schema(required)]
    pub version: Option<String>,
    #[schema(required)]
    pub description: Option<String>,
    /// Packages, addresses and repository, where a registry has said them.
    #[schema(value_type = Option<Object>, required)]
    pub about: Value,
    /// How many; `null` where its tools are not known.
    #[schema(required)]
    pub tools: Option<u32>,
    /// How many of each category.
    #[schema(value_type = Option<BTreeMap<String, u32>>, required)]
    pub categories: Option<Map<String, Value>>,
    /// The category of its most harmful tool.
    #[schema(value_type = Option<ToolCategory>, required)]
    pub category: Option<&'static str>,
    /// The risk of its most harmful tool.
    #[schema(value_type = Option<ToolRisk>, required)]
    pub risk: Option<&'static str>,
    /// How many signs of poisoning.
    pub findings: u32,
}

/// A server with its tools and the policy to start from.
#[derive(Debug, Serialize, ToSchema)]
pub struct KnownServerPage {
    #[serde(flatten)]
    pub server: KnownServer,
    pub tool_list: Vec<KnownTool>,
    #[schema(value_type = PolicyDocument)]
    pub recommended_policy: Value,
    /// What that policy does, in words.
    pub recommended_effect: Vec<String>,
}

/// A tool at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub struct KnownTool {
    pub name: String,
    #[schema(value_type = ToolCategory)]
    pub category: &'static str,
    #[schema(value_type = ToolRisk)]
    pub risk: &'static str,
    /// How certain the category is.
    #[schema(minimum = 0, maximum = 1)]
    pub confidence: f64,
    #[schema(value_type = Vec<ToolSignal>)]
    pub signals: Vec<&'static str>,
    /// How many signs of poisoning of each kind.
    #[schema(value_type = BTreeMap<String, u32>)]
    pub findings: Map<String, Value>,
}

/// A tool that was found, with its server.
#[derive(Debug, Serialize, ToSchema)]
pub struct KnownHit {
    pub server: String,
    pub slug: String,
    #[serde(flatten)]
    pub tool: KnownTool,
}

/// A search result.
#[derive(Debug, Serialize)]
pub struct KnownFound {
    pub servers: Vec<KnownServer>,
    pub tools: Vec<KnownHit>,
    pub more: bool,
}

/// All that is known of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct KnownToolPage {
    pub server: String,
    pub slug: String,
    pub source: String,
    #[serde(flatten)]
    pub tool: KnownTool,
    #[schema(required)]
    pub description: Option<String>,
    /// What it lets an agent do.
    pub lets_an_agent: Vec<&'static str>,
    /// Why it needs a policy.
    pub needs_a_policy_because: Vec<&'static str>,
    pub evidence: Vec<Seen>,
    /// Ids of the attack patterns that fit it.
    pub attacks: Vec<&'static str>,
    /// The entry for it in a policy under `default: "deny"`.
    #[schema(value_type = Object)]
    pub recommended_entry: Value,
    /// What that entry does, in words.
    pub recommended_effect: &'static str,
    /// Tools of the same kind.
    pub related: Vec<KnownHit>,
}

/// Something that was seen in a definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct Seen {
    #[schema(value_type = EvidenceKind)]
    pub says: &'static str,
    /// An explanation.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[schema(value_type = DefinitionPart)]
    pub part: &'static str,
    /// The parameter that it stands in.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub quote: String,
}

impl From<&Server> for KnownServer {
    fn from(server: &Server) -> KnownServer {
        let about = server.about.as_deref().and_then(|text| serde_json::from_str(text).ok());
        KnownServer {
            slug: server.slug.clone(),
            name: server.name.clone(),
            standing: server.standing.name(),
            source: server.source.clone(),
            version: server.version.clone(),
            description: server.description.clone(),
            about: about.unwrap_or_default(),
            tools: server.tools(),
            categories: server.counts.map(categories),
            category: server.worst().map(Category::name),
            risk: server.worst().map(|worst| Risk::from(worst).name()),
            findings: server.findings,
        }
    }
}

fn categories(counts: Counts) -> Map<String, Value> {
    Category::ALL
        .map(|category| (category.name().to_owned(), json!(counts.of(category))))
        .into_iter()
        .collect()
}

impl KnownTool {
    fn new(name: &str, traits: &Traits) -> KnownTool {
        let findings = traits.findings;
        KnownTool {
            name: name.to_owned(),
            category: traits.category.name(),
            risk: traits.risk().name(),
            confidence: f64::from(traits.confidence) / 100.0,
            signals: traits.signals.kinds().map(sluice_classify::SignalKind::name).collect(),
            findings: findings
                .kinds()
                .map(|kind| (kind.name().to_owned(), json!(findings.count(kind))))
                .collect(),
        }
    }
}

impl From<&Tool> for KnownTool {
    fn from(tool: &Tool) -> KnownTool {
        KnownTool::new(&tool.name, &tool.traits)
    }
}

impl From<&Hit> for KnownHit {
    fn from(hit: &Hit) -> KnownHit {
        let tool = KnownTool::new(&hit.tool, &hit.traits);
        KnownHit { server: hit.server.clone(), slug: hit.slug.clone(), tool }
    }
}

impl From<&SearchResults> for KnownFound {
    fn from(found: &SearchResults) -> KnownFound {
        KnownFound {
            servers: found.servers.iter().map(KnownServer::from).collect(),
            tools: found.tools.iter().map(KnownHit::from).collect(),
            more: found.more,
        }
    }
}

impl From<&Evidence> for Seen {
    fn from(evidence: &Evidence) -> Seen {
        let (says, text) = match &evidence.what {
            Evident::Reason(category, text) => (category.name(), Some(text.clone())),
            Evident::Signal(kind) => (kind.name(), None),
            Evident::Finding(kind) => (kind.name(), Some(kind.text().to_owned())),
        };
        Seen {
            says,
            text,
            part: evidence.part.name(),
            parameter: evidence.parameter.clone(),
            quote: evidence.quote.clone(),
        }
    }
}

impl KnownServerPage {
    /// All that is known of a server.
    pub fn read(catalog: &Catalog, server: &Server) -> Result<KnownServerPage, CatalogError> {
        let tools = catalog.tools(server)?;
        let suggested = suggest_policy(tools.iter().map(to_tool_seen));
        Ok(KnownServerPage {
            server: server.into(),
            tool_list: tools.iter().map(KnownTool::from).collect(),
            recommended_policy: serde_json::from_str(&suggested.policy).unwrap_or_default(),
            recommended_effect: suggested.effect,
        })
    }
}

impl KnownToolPage {
    /// All that is known of a tool.
    pub fn read(
        catalog: &Catalog,
        server: &Server,
        tool: &Tool,
    ) -> Result<KnownToolPage, CatalogError> {
        let suggested = suggest_entry(to_tool_seen(tool));
        let related = catalog.related_tools(server, tool)?;
        Ok(KnownToolPage {
            server: server.name.clone(),
            slug: server.slug.clone(),
            source: server.source.clone(),
            tool: tool.into(),
            description: tool.description.clone(),
            lets_an_agent: abilities(&tool.traits),
            needs_a_policy_because: reasons_for_policy(&tool.traits),
            evidence: tool.evidence.iter().map(Seen::from).collect(),
            attacks: tool.traits.attacks().iter().map(|attack| attack.id.as_str()).collect(),
            recommended_entry: suggested.entry,
            recommended_effect: suggested.effect,
            related: related.iter().map(KnownHit::from).collect(),
        })
    }
}

/// A tool as a suggestion takes it.
pub fn to_tool_seen(tool: &Tool) -> ToolSeen<'_> {
    let has_findings = tool.traits.findings.total() > 0;
    ToolSeen { name: &tool.name, category: tool.traits.category, has_findings }
}
