//! Facts about the tool that a call names: its category and its input schema.

use std::{collections::HashSet, sync::OnceLock};

use sluice_classify::{Category, Definition, Siblings, classify};
use sluice_wire::json::{Bounds, Document, Value};

use crate::schema::{ArgsSchema, to_serde};

/// The part of a tool's definition that decisions need, prepared once.
#[derive(Debug)]
pub struct ToolFacts {
    name: Box<str>,
    category: Category,
    /// The text of `inputSchema`. Compiling it takes time and memory, and most policies never need
    /// it.
    schema_text: Option<Box<str>>,
    /// The compiled schema, or why there is none.
    schema: OnceLock<Result<ArgsSchema, String>>,
}

impl ToolFacts {
    /// Reads one tool of a `tools/list` result, classified without knowledge of the others; `None`
    /// if it has no name.
    pub fn from_definition(tool: Value<'_>) -> Option<ToolFacts> {
        let definition = Definition::from_tool(tool)?;
        Some(ToolFacts::new(&definition, classify(&definition, &Siblings::default()).category))
    }

    /// The facts of a tool with a known category.
    pub fn new(definition: &Definition<'_>, category: Category) -> ToolFacts {
        ToolFacts {
            name: definition.name.into(),
            category,
            schema_text: definition.input_schema.map(|schema| schema.raw().into()),
            schema: OnceLock::new(),
        }
    }

    /// Reads all tools of a `tools/list` result: the JSON-RPC message, its result, or the bare
    /// list; or of a report that holds each tool's definition beside what it was found to be, as
    /// `sluice scan` and the API write it. `None` if there is no list of named tools, or two of
    /// them share a name.
    pub fn from_list(answer: Value<'_>) -> Option<Vec<ToolFacts>> {
        let result = answer.get("result").unwrap_or(answer);
        let tools = result.get("tools").unwrap_or(result);
        let tools: Vec<Definition<'_>> = tools
            .items()?
            .map(|tool| Definition::from_tool(find_definition(tool)))
            .collect::<Option<_>>()?;
        let names: HashSet<_> = tools.iter().map(|tool| tool.name).collect();
        if names.len() != tools.len() {
            return None;
        }
        let siblings = Siblings::new("", &tools);
        let facts =
            tools.iter().map(|tool| ToolFacts::new(tool, classify(tool, &siblings).category));
        Some(facts.collect())
    }

    /// Reads the definitions of all tools of a server, each a JSON object. `None` like
    /// [`ToolFacts::from_list`].
    pub fn from_definitions<'d>(
        definitions: impl Iterator<Item = &'d str>,
    ) -> Option<Vec<ToolFacts>> {
        let list = format!("[{}]", definitions.collect::<Vec<_>>().join(","));
        let document = Document::parse(list, &loose_bounds()).ok()?;
        ToolFacts::from_list(document.root())
    }

    /// The tool's exact name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool's category.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The text of `inputSchema`.
    pub(crate) fn schema_text(&self) -> Option<&str> {
        self.schema_text.as_deref()
    }

    /// The compiled `inputSchema`, or why there is none.
    pub(crate) fn schema(&self) -> Result<&ArgsSchema, &str> {
        let compiled = self.schema.get_or_init(|| compile(self.schema_text.as_deref()));
        compiled.as_ref().map_err(String::as_str)
    }
}

/// The definition in one item of a list.
fn find_definition(item: Value<'_>) -> Value<'_> {
    let Some(name) = item.get("name").and_then(Value::as_str) else { return item };
    let is_same = |inner: &Value<'_>| inner.get("name").and_then(Value::as_str) == Some(name);
    item.get("definition").filter(is_same).unwrap_or(item)
}

fn compile(text: Option<&str>) -> Result<ArgsSchema, String> {
    let text = text.ok_or("the tool has no `inputSchema`")?;
    let unusable = |why: &dyn std::fmt::Display| format!("the tool's schema cannot be used: {why}");
    let document = Document::parse(text, &loose_bounds()).map_err(|refusal| unusable(&refusal))?;
    ArgsSchema::compile(&to_serde(document.root())).map_err(|why| unusable(&why))
}

/// Bounds for what was parsed before, as a part of its list; they must not be narrower.
fn loose_bounds() -> Bounds {
    Bounds {
        bytes: usize::MAX,
        depth: 256,
        string: usize::MAX,
        members: usize::MAX,
        nodes: usize::MAX,
        ..Bounds::default()
    }
}

/// Whether the definition of the called tool is known.
#[derive(Debug, Clone, Copy)]
pub enum Facts<'t> {
    /// The definition is known.
    Known(&'t ToolFacts),
    /// Only the tool's category is known, as in a policy's own tests.
    OfCategory(Category),
    /// The server's list is known, and the tool is not in it.
    NotInList,
    /// The server's list is not available.
    NoList,
    /// The gateway withholds the tool, because its definition cannot be shown to a client.
    Withheld,
}

impl<'t> Facts<'t> {
    /// Looks `name` up in a server's list, if there is one.
    pub fn find(list: Option<&'t [ToolFacts]>, name: &str) -> Facts<'t> {
        let Some(list) = list else { return Facts::NoList };
        list.iter().find(|tool| tool.name() == name).map_or(Facts::NotInList, Facts::Known)
    }

    pub(crate) fn category(self) -> Option<Category> {
        match self {
            Facts::Known(tool) => Some(tool.category),
            Facts::OfCategory(category) => Some(category),
            Facts::NotInList | Facts::NoList | Facts::Withheld => None,
        }
    }

    /// Whether the tool's whole definition is known.
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Facts::Known(_))
    }

    pub(crate) fn schema(self) -> Result<&'t ArgsSchema, &'t str> {
        match self {
            Facts::Known(tool) => tool.schema(),
            Facts::NotInList => Err("the tool is not in the server's list"),
            Facts::NoList | Facts::OfCategory(_) => Err("the tool's definition is not known"),
            Facts::Withheld => Err("the tool is withheld"),
        }
    }
}
