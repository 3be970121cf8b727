//! The JSON Schema of the language against the language itself.

use crate::cases::policies;

#[test]
fn the_schema_accepts_what_loads() {
    let schema = jsonschema::validator_for(&sluice_policy::file::json_schema()).unwrap();
    let mut accepted = 0;
    for (file, policy, loads) in policies() {
        if let (true, Err(error)) = (loads, schema.validate(&policy)) {
            panic!("{file}: loads, but the schema says: {error} at {}", error.instance_path());
        }
        accepted += usize::from(loads);
    }
    assert!(accepted >= 200, "only {accepted} policies were compared");
}

/// An editor should warn of most mistakes; those about meaning (counters that
/// disagree, a regex that does not compile) only loading can find.
#[test]
fn the_schema_refuses_most_of_what_does_not_load() {
    let schema = jsonschema::validator_for(&sluice_policy::file::json_schema()).unwrap();
    let wrong: Vec<_> = policies().into_iter().filter(|(_, _, loads)| !loads).collect();
    let missed: Vec<_> = wrong
        .iter()
        .filter(|(_, policy, _)| schema.is_valid(policy))
        .map(|(file, ..)| file)
        .collect();
    assert!(missed.len() * 3 < wrong.len(), "{} of {}: {missed:#?}", missed.len(), wrong.len());
}

#[test]
fn every_key_and_word_is_explained() {
    fn check(place: &str, schema: &serde_json::Value) {
        if let Some(properties) = schema["properties"].as_object() {
            for (key, property) in properties {
                let explained = property["description"].as_str().is_some_and(|text| text.len() > 5);
                // The operands of `allOf` only narrow what is explained elsewhere.
                assert!(explained || place.contains("allOf"), "{place}/{key}");
            }
        }
        let children = schema.as_object().into_iter().flatten();
        children.for_each(|(key, child)| check(&format!("{place}/{key}"), child));
        let items = schema.as_array().into_iter().flatten();
        items.for_each(|child| check(place, child));
    }
    check("", &sluice_policy::file::json_schema());
}
