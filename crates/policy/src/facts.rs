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
    /// list. `None` if there is no list of named tools, or two of them share a name.
    pub fn from_list(answer: Value<'_>) -> Option<Vec<ToolFacts>> {
        let result = answer.get("result").unwrap_or(answer);
        let tools = result.get("tools").unwrap_or(result);
        let tools: Vec<Definition<'_>> =
            tools.items()?.map(Definition::from_tool).collect::<Option<_>>()?;
        let names: HashSet<_> = tools.iter().map(|tool| tool.name).collect();
        if names.len() != tools.len() {
            return None;
        }
        let siblings = Siblings::new("", &tools);
        let facts =
            tools.iter().map(|tool| ToolFacts::new(tool, classify(tool, &siblings).category));
        Some(facts.collect())
    }

    /// The tool's exact name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool's category.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The compiled `inputSchema`, or why there is none.
    pub(crate) fn schema(&self) -> Result<&ArgsSchema, &str> {
        let compiled = self.schema.get_or_init(|| compile(self.schema_text.as_deref()));
        compiled.as_ref().map_err(String::as_str)
    }
}

fn compile(text: Option<&str>) -> Result<ArgsSchema, String> {
    let text = text.ok_or("the tool has no `inputSchema`")?;
    let unusable = |why: &dyn std::fmt::Display| format!("the tool's schema cannot be used: {why}");
    // It was parsed before, as a part of its list. These bounds must not be narrower.
    let bounds = Bounds {
        bytes: usize::MAX,
        depth: 256,
        string: usize::MAX,
        members: usize::MAX,
        nodes: usize::MAX,
        ..Bounds::default()
    };
    let document = Document::parse(text, &bounds).map_err(|refusal| unusable(&refusal))?;
    ArgsSchema::compile(&to_serde(document.root())).map_err(|why| unusable(&why))
}

/// Whether the definition of the called tool is known.
#[derive(Debug, Clone, Copy)]
pub enum Facts<'t> {
    /// The definition is known.
    Known(&'t ToolFacts),
    /// The server's list is known, and the tool is not in it.
    NotInList,
    /// The server's list is not available.
    NoList,
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
            Facts::NotInList | Facts::NoList => None,
        }
    }

    pub(crate) fn schema(self) -> Result<&'t ArgsSchema, &'t str> {
        match self {
            Facts::Known(tool) => tool.schema(),
            Facts::NotInList => Err("the tool is not in the server's list"),
            Facts::NoList => Err("the tool's definition is not known"),
        }
    }
}
