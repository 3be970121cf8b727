//! Checks requests and answers against the OpenAPI document, whose golden file
//! another test compares with the one that is served. Objects may only have the
//! properties that the document names.

use std::{fs, path::PathBuf, sync::LazyLock};

use axum::http::{Method, Uri};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::fixture::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = fs::read_to_string(golden_path()).unwrap();
    serde_json::from_str(&text).unwrap()
});

pub(crate) fn golden_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

/// An operation of the document.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) described: Value,
}

/// All operations of a document.
pub(crate) fn list_operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, described)| Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                described: described.clone(),
            })
        })
        .collect()
}

/// What `value` refers to, or `value` itself.
pub(crate) fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let Some(reference) = value["$ref"].as_str() else { return value };
    let pointer = reference.strip_prefix('#').unwrap();
    document.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

/// Checks an answer, and a body that was accepted, against the document.
pub(crate) fn check(method: &Method, uri: &Uri, sent: &str, reply: &Reply) {
    let context = format!("{method} {uri}: {} {}", reply.status, reply.text);
    let Some(operation) = find_operation(method, uri.path()) else {
        // The page of a held call, and what is answered where nothing is.
        if !uri.path().starts_with("/approvals/") || !reply.status.is_success() {
            assert!([400, 401, 403, 404, 405].contains(&reply.status.as_u16()), "{context}");
            check_json(&json!({"$ref": "#/components/schemas/ProblemDetails"}), reply, &context);
        }
        return;
    };
    let response = &operation.described["responses"][reply.status.as_str()];
    assert!(!response.is_null(), "this status is not described: {context}");
    let response = resolve(&DOCUMENT, response);
    for (name, _) in response["headers"].as_object().into_iter().flatten() {
        assert!(reply.headers.contains_key(name.as_str()), "no header {name}: {context}");
    }
    check_answer(response, reply, &context);
    if reply.status.is_success() {
        check_query(&operation, uri.query().unwrap_or_default(), &context);
        check_request(&operation, sent, &context);
    }
}

fn find_operation(method: &Method, path: &str) -> Option<Operation> {
    let fits = |template: &str| {
        let mut given = path.split('/');
        let is_same = template.split('/').all(|wanted| {
            given.next().is_some_and(|part| wanted.starts_with('{') || wanted == part)
        });
        is_same && given.next().is_none()
    };
    let mut operations = list_operations(&DOCUMENT).into_iter();
    operations.find(|one| one.method == *method && fits(&one.path))
}

fn check_answer(response: &Value, reply: &Reply, context: &str) {
    let Some(described) = response["content"].as_object() else {
        assert!(reply.text.is_empty(), "no body is described: {context}");
        return;
    };
    let media_type = reply.header("content-type").split(';').next().unwrap();
    let described = described.get(media_type);
    let schema = &described.unwrap_or_else(|| panic!("{media_type}: {context}"))["schema"];
    match media_type {
        "application/json" | "application/problem+json" => check_json(schema, reply, context),
        "application/x-ndjson" => {
            let record = build_validator(&json!({"$ref": "#/components/schemas/AuditRecord"}));
            for line in reply.text.lines() {
                assert_valid(&record, &serde_json::from_str(line).unwrap(), context);
            }
        }
        _ => assert_eq!(schema["type"], "string", "{context}"),
    }
}

fn check_json(schema: &Value, reply: &Reply, context: &str) {
    assert_valid(&build_validator(schema), &reply.json(), context);
}

fn check_request(operation: &Operation, sent: &str, context: &str) {
    let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(operation.described["requestBody"].is_null(), sent.is_empty(), "{context}");
    if let Ok(body) = serde_json::from_str(sent) {
        assert_valid(&build_validator(schema), &body, context);
    }
}

fn check_query(operation: &Operation, query: &str, context: &str) {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap();
        let mut parameters = operation.described["parameters"].as_array().into_iter().flatten();
        let is_described = parameters.any(|one| one["in"] == "query" && one["name"] == name);
        assert!(is_described, "`{name}` is not described: {context}");
    }
}

#[track_caller]
fn assert_valid(validator: &Validator, value: &Value, context: &str) {
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?} in {context}");
}

/// A validator for a schema of the document. Formats are checked, and properties
/// that are not described are errors.
fn build_validator(schema: &Value) -> Validator {
    let mut root = json!({"components": {"schemas": DOCUMENT["components"]["schemas"]}});
    root["allOf"] = json!([schema]);
    for schema in root["components"]["schemas"].as_object_mut().unwrap().values_mut() {
        close_inner(schema);
    }
    close(&mut root["allOf"][0]);
    jsonschema::options().should_validate_formats(true).build(&root).unwrap()
}

/// Refuses properties that a schema, or one it refers to, does not name. Those
/// that are part of another schema by `allOf` stay open; the whole is closed.
fn close(schema: &mut Value) {
    close_inner(schema);
    let Some(schema) = schema.as_object_mut() else { return };
    let is_object = ["$ref", "properties", "allOf"].iter().any(|key| schema.contains_key(*key));
    if is_object && !schema.contains_key("additionalProperties") {
        schema.insert("unevaluatedProperties".into(), false.into());
    }
}

fn close_inner(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    for key in ["items", "additionalProperties"] {
        schema.get_mut(key).into_iter().for_each(close);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(close);
    for key in ["oneOf", "anyOf"] {
        schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(close);
    }
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    parts.into_iter().flatten().for_each(close_inner);
}
