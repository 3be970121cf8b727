//! The features of the server, read from `fixtures.json`: the names and texts
//! that the conformance suite looks for.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use rmcp::model::{
    CallToolResult, InputRequest, InputRequests, JsonObject, Prompt, Resource, ResourceContents,
    ResourceTemplate, Tool,
};
use serde::Deserialize;
use serde_json::Value;

/// Everything that is the same at each call.
#[derive(Debug, Deserialize)]
pub(crate) struct Fixtures {
    pub(crate) tools: Vec<Tool>,
    /// The answers of tools that do nothing else.
    pub(crate) answers: HashMap<String, CallToolResult>,
    /// The possible requests of `input_required`, by key.
    inputs: HashMap<String, InputRequest>,
    /// The requests that a tool makes of the user while it runs.
    elicitations: HashMap<String, Elicitation>,
    pub(crate) prompts: Vec<Prompt>,
    /// The answers of prompts; `{name}` stands for the argument of that name.
    messages: HashMap<String, Value>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) contents: HashMap<String, ResourceContents>,
}

#[derive(Debug, Deserialize)]
struct Elicitation {
    params: Value,
}

impl Fixtures {
    pub(crate) fn load() -> anyhow::Result<Self> {
        serde_json::from_str(include_str!("fixtures.json")).context("fixtures.json")
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The requests for these keys, in the form of an `input_required` result.
    pub(crate) fn asks(&self, keys: &[&str]) -> InputRequests {
        let ask = |key: &&str| Some(((*key).to_owned(), self.inputs.get(*key)?.clone()));
        keys.iter().filter_map(ask).collect::<BTreeMap<_, _>>()
    }

    pub(crate) fn elicitation(&self, tool: &str) -> Option<Value> {
        self.elicitations.get(tool).map(|elicitation| elicitation.params.clone())
    }

    /// A prompt's answer with its arguments in place.
    pub(crate) fn messages(&self, prompt: &str, arguments: &JsonObject) -> Option<Value> {
        let mut messages = self.messages.get(prompt)?.clone();
        fill(&mut messages, arguments);
        Some(messages)
    }
}

/// Puts arguments in the place of their names, in every string.
fn fill(value: &mut Value, arguments: &JsonObject) {
    match value {
        Value::String(text) => {
            for (name, argument) in arguments {
                let argument = argument.as_str().unwrap_or_default();
                *text = text.replace(&format!("{{{name}}}"), argument);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, arguments)),
        Value::Object(members) => members.values_mut().for_each(|item| fill(item, arguments)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
