//! The tool definitions and the policies that are shipped for them.

#![cfg(test)]

use serde_json::Value;
use sluice_builtin::Builtin as _;
use sluice_pharo::{Options, Pharo};
use sluice_policy::Format;

/// What the original shows, without what it says to people.
const ORIGINAL: &str = include_str!("tools.json");
const POLICIES: [(&str, &str); 3] = [
    ("pharo", include_str!("../../../../policies/pharo.json")),
    ("pharo-read-only", include_str!("../../../../policies/pharo-read-only.json")),
    ("pharo-careful", include_str!("../../../../policies/pharo-careful.json")),
];

fn tools() -> Vec<Value> {
    let server = Pharo::new(&Options::default()).unwrap();
    assert!(!server.tools().contains('\n'));
    serde_json::from_str(server.tools()).unwrap()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn the_tools_are_those_of_the_original() {
    let original: Vec<Value> = serde_json::from_str(ORIGINAL).unwrap();
    let tools = tools();
    assert_eq!(names(&tools), names(&original));
    for (tool, original) in tools.iter().zip(&original) {
        assert_eq!(tool["title"], original["title"]);
        assert_eq!(tool["outputSchema"], original["outputSchema"]);
        assert!(jsonschema::meta::is_valid(&tool["inputSchema"]), "{tool}");
        let mut schema = tool["inputSchema"].clone();
        for property in schema["properties"].as_object_mut().unwrap().values_mut() {
            assert!(property.as_object_mut().unwrap().remove("description").is_some(), "{tool}");
        }
        assert_eq!(schema, original["inputSchema"]);
    }
}

#[test]
fn annotations_are_honest() {
    for tool in tools() {
        let hints = &tool["annotations"];
        let hint = |name: &str| hints[name].as_bool().unwrap();
        let category = tool["_meta"]["sluicegate/category"].as_str().unwrap();
        // A screenshot is a file on the image's disk.
        let only_reads = category == "read" && tool["name"] != "read_screen";
        assert_eq!(hint("readOnlyHint"), only_reads, "{tool}");
        assert_eq!(hint("destructiveHint"), category != "read", "{tool}");
        // Code that runs can reach anything.
        let runs_code = category == "execute" || tool["name"] == "import_package";
        assert_eq!(hint("openWorldHint"), runs_code, "{tool}");
    }
}

#[test]
fn policies_name_tools_that_there_are_and_pass_their_own_tests() {
    let tools = tools();
    for (name, text) in POLICIES {
        let written: Value = serde_json::from_str(text).unwrap();
        for named in written["tools"].as_object().unwrap().keys() {
            assert!(names(&tools).contains(&named.as_str()), "{name}: {named}");
        }
        let policy = sluice_policy::load(text.as_bytes(), Format::Json).unwrap();
        let results = policy.run_tests();
        assert_eq!(results.len(), written["tests"].as_array().unwrap().len());
        for result in results {
            assert_eq!(result.failure, None, "{name}: {}", result.name);
        }
    }
}

#[test]
fn the_recommended_policy_names_every_tool() {
    let [(_, recommended), ..] = POLICIES;
    let written: Value = serde_json::from_str(recommended).unwrap();
    let tools = tools();
    let named: Vec<_> = written["tools"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(named, names(&tools));
    for tool in &tools {
        let rule = &written["tools"][tool["name"].as_str().unwrap()];
        let is_free = rule.as_object().unwrap().is_empty();
        assert_eq!(is_free, tool["_meta"]["sluicegate/category"] == "read", "{tool}");
    }
}
