//! What is known of the tool a call names.

use std::collections::HashSet;

use sluice_classify::Category;
use sluice_wire::json::Value;

use crate::schema::{ArgsSchema, to_serde};

/// What judging needs of a tool's definition, prepared once per definition.
#[derive(Debug)]
pub struct ToolFacts {
    name: Box<str>,
    category: Category,
    /// Why there is no schema, where there is none.
    schema: Result<ArgsSchema, String>,
}

impl ToolFacts {
    /// Reads one tool of a `tools/list` answer; `None` if it has no name.
    pub fn from_definition(tool: Value<'_>) -> Option<ToolFacts> {
        let category = sluice_classify::from_hints(tool.get("annotations"));
        let schema = match tool.get("inputSchema") {
            Some(schema) => ArgsSchema::compile(&to_serde(schema))
                .map_err(|why| format!("the tool's schema cannot be used: {why}")),
            None => Err("the tool has no `inputSchema`".into()),
        };
        Some(ToolFacts { name: tool.get("name")?.as_str()?.into(), category, schema })
    }

    /// Reads all tools of a `tools/list` answer: the JSON-RPC message, its
    /// result, or the bare list. `None` if there is no list of named tools, or
    /// two of them have one name.
    pub fn from_list(answer: Value<'_>) -> Option<Vec<ToolFacts>> {
        let result = answer.get("result").unwrap_or(answer);
        let tools = result.get("tools").unwrap_or(result);
        let tools: Vec<_> =
            tools.items()?.map(ToolFacts::from_definition).collect::<Option<_>>()?;
        let names: HashSet<_> = tools.iter().map(ToolFacts::name).collect();
        (names.len() == tools.len()).then_some(tools)
    }

    /// The tool's exact name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the tool can do.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The compiled `inputSchema`, or why there is none.
    pub(crate) fn schema(&self) -> Result<&ArgsSchema, &str> {
        self.schema.as_ref().map_err(String::as_str)
    }
}

/// Whether the definition of the tool that is called is known.
#[derive(Debug, Clone, Copy)]
pub enum Facts<'t> {
    /// This is it.
    Known(&'t ToolFacts),
    /// The server's list was had, and the tool is not in it.
    NotInList,
    /// No list could be had.
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
