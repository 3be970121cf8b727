//! Generates the JSON Schema of policies from the grammar.

use serde_json::{Map, Value as Json, json};

use super::grammar::{Field, OPERATORS, POLICY, Record, Takes, Type};

/// The JSON Schema of policies, for editors.
pub fn json_schema() -> Json {
    let mut definitions = Definitions(Map::new());
    let mut root = definitions.object(&POLICY);
    if let Json::Object(members) = &mut root {
        members.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.insert("title".into(), json!("Sluicegate policy"));
        members.insert("$defs".into(), Json::Object(definitions.0));
    }
    root
}

/// The records used so far, by name.
struct Definitions(Map<String, Json>);

impl Definitions {
    fn object(&mut self, record: &'static Record) -> Json {
        let properties: Map<_, _> = record
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), self.property(field)))
            .collect();
        let required: Vec<_> =
            record.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        let mut object = json!({
            "description": record.doc,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        if record.name == "condition"
            && let Json::Object(members) = &mut object
        {
            members.insert("allOf".into(), operator_values());
        }
        object
    }

    fn property(&mut self, field: &'static Field) -> Json {
        let of = self.of(&field.of);
        match of {
            // This draft allows a reference beside other keywords.
            Json::Object(mut members) => {
                members.insert("description".into(), json!(field.doc));
                Json::Object(members)
            }
            other => other,
        }
    }

    fn of(&mut self, of: &'static Type) -> Json {
        match of {
            Type::Text => json!({ "type": "string" }),
            Type::Form(form) => {
                json!({ "type": "string", "pattern": form.pattern, "examples": [form.example] })
            }
            Type::Boolean => json!({ "type": "boolean" }),
            Type::True => json!({ "const": true }),
            Type::Number { least } => json!({ "type": "number", "minimum": least }),
            Type::Whole { least, most } => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Type::Choice(choices) => words(choices.iter().map(|choice| (choice.name, choice.doc))),
            Type::Operator => words(OPERATORS.iter().map(|operator| (operator.name, operator.doc))),
            Type::OperatorValue => json!({}),
            Type::Object => json!({ "type": "object" }),
            Type::List(of) => json!({ "type": "array", "items": self.of(of) }),
            Type::Map { keys, values } => json!({
                "type": "object",
                "propertyNames": { "pattern": keys.pattern },
                "additionalProperties": self.of(values),
            }),
            Type::Record(record) => self.reference(record),
            Type::Either(types) => {
                let types: Vec<_> = types.iter().map(|of| self.of(of)).collect();
                json!({ "anyOf": types })
            }
        }
    }

    fn reference(&mut self, record: &'static Record) -> Json {
        if !self.0.contains_key(record.name) {
            // Inserted before its content, so that the order is that of first use.
            self.0.insert(record.name.into(), Json::Null);
            let object = self.object(record);
            self.0.insert(record.name.into(), object);
        }
        json!({ "$ref": format!("#/$defs/{}", record.name) })
    }
}

/// Each word with its own description, which `enum` cannot hold.
fn words(words: impl Iterator<Item = (&'static str, &'static str)>) -> Json {
    let each: Vec<_> =
        words.map(|(name, doc)| json!({ "const": name, "description": doc })).collect();
    json!({ "type": "string", "oneOf": each })
}

/// The type of `value` for each operator.
fn operator_values() -> Json {
    OPERATORS
        .iter()
        .map(|operator| {
            let scalar = json!({ "type": ["string", "number", "boolean"] });
            let value = match operator.takes {
                Takes::Scalar(_) => scalar,
                Takes::Scalars(_) => json!({ "type": "array", "items": scalar }),
                Takes::Number(_) => json!({ "type": "number" }),
                Takes::Boolean(_) => json!({ "type": "boolean", "default": true }),
                Takes::Text(_) | Takes::Pattern => json!({ "type": "string" }),
                Takes::Directories => {
                    json!({ "type": "array", "items": { "type": "string", "pattern": "^/" } })
                }
                Takes::Hosts => {
                    json!({ "type": "array", "items": { "type": "string", "pattern": "^[^/]+$" } })
                }
            };
            let mut then = json!({ "properties": { "value": value } });
            if !matches!(operator.takes, Takes::Boolean(_))
                && let Json::Object(members) = &mut then
            {
                members.insert("required".into(), json!(["value"]));
            }
            json!({
                "if": { "properties": { "op": { "const": operator.name } }, "required": ["op"] },
                "then": then,
            })
        })
        .collect()
}
