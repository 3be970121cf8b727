//! The parts of a tool's definition that are classified, and its parameters.

use sluice_wire::json::Value;

/// The maximum number of schemas examined in one definition: more than real ones have, and few
/// enough that a hostile one costs no more.
const MOST_SCHEMAS: usize = 512;
/// The deepest nesting of schemas that is examined.
const DEEPEST: usize = 6;

/// The definition of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Definition<'d> {
    pub name: &'d str,
    pub title: Option<&'d str>,
    pub description: Option<&'d str>,
    pub input_schema: Option<Value<'d>>,
    pub annotations: Option<Value<'d>>,
}

impl<'d> Definition<'d> {
    /// The definition in an entry of a `tools/list` answer; `None` if it has no name.
    pub fn from_tool(tool: Value<'d>) -> Option<Definition<'d>> {
        let text = |key| tool.get(key).and_then(Value::as_str);
        let annotations = tool.get("annotations");
        let hinted_title = annotations.and_then(|hints| hints.get("title")).and_then(Value::as_str);
        Some(Definition {
            name: text("name")?,
            title: text("title").or(hinted_title),
            description: text("description"),
            input_schema: tool.get("inputSchema"),
            annotations,
        })
    }

    /// An annotation that is a boolean.
    pub(crate) fn hint(&self, name: &str) -> Option<bool> {
        self.annotations?.get(name)?.as_bool()
    }

    /// The parameters, including nested ones, within bounds.
    pub(crate) fn parameters(&self) -> Vec<Parameter<'d>> {
        let mut found = Vec::new();
        if let Some(schema) = self.input_schema {
            let mut left = MOST_SCHEMAS;
            collect(schema, DEEPEST, &mut left, &mut found);
        }
        found
    }
}

/// One parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter<'d> {
    pub(crate) name: &'d str,
    pub(crate) schema: Value<'d>,
}

impl<'d> Parameter<'d> {
    pub(crate) fn description(&self) -> Option<&'d str> {
        self.schema.get("description")?.as_str()
    }

    /// Whether it accepts any text: a string without a list of allowed values.
    pub(crate) fn is_free_text(&self) -> bool {
        let kind = self.schema.get("type").and_then(Value::as_str);
        kind.is_none_or(|kind| kind == "string") && self.values().next().is_none()
    }

    /// Whether it accepts a list.
    pub(crate) fn is_list(&self) -> bool {
        self.schema.get("type").and_then(Value::as_str) == Some("array")
    }

    /// The allowed values, if its schema or that of its elements lists them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &'d str> + use<'d> {
        let own = self.schema.get("enum");
        let of_items = self.schema.get("items").and_then(|items| items.get("enum"));
        let listed = own.or(of_items).and_then(Value::items).into_iter().flatten();
        let chosen = self.schema.get("anyOf").or_else(|| self.schema.get("oneOf"));
        let chosen = chosen.and_then(Value::items).into_iter().flatten();
        let chosen = chosen.flat_map(|choice| {
            let named = choice.get("enum").and_then(Value::items).into_iter().flatten();
            named.chain(choice.get("const"))
        });
        listed.chain(chosen).filter_map(Value::as_str).take(MOST_SCHEMAS)
    }
}

impl<'d> Parameter<'d> {
    /// The values that the schema suggests: the default, a constant, examples.
    pub(crate) fn sample_values(&self) -> impl Iterator<Item = &'d str> + use<'d> {
        let examples = self.schema.get("examples").and_then(Value::items).into_iter().flatten();
        let single = ["default", "const"].into_iter();
        let schema = self.schema;
        let single = single.filter_map(move |key| schema.get(key));
        single.chain(examples.take(MOST_SCHEMAS)).filter_map(Value::as_str)
    }
}

/// Adds the properties of a schema and of its nested schemas.
fn collect<'d>(schema: Value<'d>, depth: usize, left: &mut usize, found: &mut Vec<Parameter<'d>>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let properties = schema.get("properties").and_then(Value::members).into_iter().flatten();
    for (name, schema) in properties {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        if let Some(name) = name.as_str() {
            found.push(Parameter { name, schema });
            collect(schema, depth, left, found);
        }
    }
    for key in ["items", "anyOf", "oneOf", "allOf"] {
        let Some(inner) = schema.get(key) else { continue };
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        match inner.items() {
            Some(choices) => {
                for choice in choices.take(*left) {
                    collect(choice, depth, left, found);
                }
            }
            None => collect(inner, depth, left, found),
        }
    }
}
