//! Policies that extend others, and policies for every server.

use std::fs;

use sluice_store::Name;

use super::{Folder, TWO_SERVERS, check, environment};
use crate::Config;

const OWN: &str = r#"{ "version": "1", "default": "deny",
  "extends": "BASE", "tools": { "get": {} } }"#;
const COMPANY: &str =
    r#"{ "version": "1", "default": "allow", "tools": { "drop": { "action": "deny" } } }"#;

fn own(base: &str) -> String {
    OWN.replace("BASE", base)
}

fn policies(keys: &str) -> String {
    format!("{TWO_SERVERS}{keys}\n")
}

#[test]
fn a_file_beside_a_policy_is_read_and_watched() {
    let folder = Folder::with(&policies("[policies.p]\nserver = \"a\"\nfile = \"rules/own.json\""));
    fs::create_dir(folder.join("rules")).unwrap();
    fs::write(folder.join("rules/own.json"), own("./company.json")).unwrap();
    fs::write(folder.join("rules/company.json"), COMPANY).unwrap();
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    let [policy] = &config.policies[..] else { panic!("{:?}", config.policies) };
    let [base] = &policy.base_files[..] else { panic!("{policy:?}") };
    assert_eq!((base.name.as_str(), base.text.as_str()), ("./company.json", COMPANY));
    assert!(config.files.iter().any(|file| file.path == folder.join("rules/company.json")));
    // The versions in force tell an edit of the base.
    let before = policy.version_in_force(&config.policies);
    fs::write(folder.join("rules/company.json"), COMPANY.replace("drop", "wipe")).unwrap();
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    assert_ne!(config.policies[0].version_in_force(&config.policies), before);
}

#[test]
fn problems_of_what_is_extended_are_told_where_a_policy_says_so() {
    let file = policies("[policies.p]\nserver = \"a\"\nfile = \"own.json\"");
    for (base, text, expected) in [
        ("./nosuch.json", "", "2:14 there is no file `./nosuch.json` to extend"),
        ("./own.json", "", "2:14 `extends` leads in a circle: `./own.json` → `./own.json`"),
        (
            "./company.json",
            r#"{ "version": "1", "default": "alow" }"#,
            "2:14 the base `./company.json` has a problem at 1:30: ",
        ),
    ] {
        let folder = Folder::with(&file);
        fs::write(folder.join("own.json"), own(base)).unwrap();
        fs::write(folder.join("company.json"), text).unwrap();
        let error = Config::load(&folder.overrides(), &environment()).unwrap_err();
        let super::LoadError::Problems(files) = error else { panic!("{error:?}") };
        let one = &files[0].problems[0];
        let found = format!("{}:{} {}", one.line, one.column, one.message);
        assert!(found.starts_with(expected), "{found}");
        assert!(files[0].source.name.ends_with("own.json"));
    }
}

#[test]
fn declared_policies_extend_each_other_by_name() {
    let both = |base: &str| {
        policies(&format!(
            "[policies.company]\nservers = [\"*\"]\nfile = \"company.json\"\n\
             [policies.p]\nfiles = {{ a = \"{base}\", b = \"other.json\" }}"
        ))
    };
    let folder = Folder::with(&both("own.json"));
    let tested = OWN.replace("BASE", "company").replace(
        "\"tools\"",
        r#""tests": [{ "name": "t", "call": { "tool": "drop" }, "expect": "deny", "rule": "RULE" }], "tools""#,
    );
    fs::write(folder.join("company.json"), COMPANY).unwrap();
    fs::write(folder.join("own.json"), tested.replace("RULE", "(default deny)")).unwrap();
    fs::write(folder.join("other.json"), r#"{ "version": "1", "default": "deny" }"#).unwrap();
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    assert_eq!(config.policies.len(), 4);
    fs::write(folder.join("own.json"), tested.replace("RULE", "company:/tools/drop/deny_if"))
        .unwrap();
    let error = Config::load(&folder.overrides(), &environment()).unwrap_err();
    let super::LoadError::Problems(files) = error else { panic!("{error:?}") };
    assert!(files[0].problems[0].message.contains("got `deny` by `(default deny)`"), "{files:?}");
    // What only the store may have is no problem here.
    fs::write(folder.join("own.json"), own("in-the-store")).unwrap();
    Config::load(&folder.overrides(), &environment()).unwrap();
    // A circle is.
    fs::write(folder.join("company.json"), own("p")).unwrap();
    fs::write(folder.join("own.json"), own("company")).unwrap();
    Config::load(&folder.overrides(), &environment()).unwrap_err();
}

#[test]
fn a_policy_for_every_server_is_for_those_of_the_store_too() {
    let folder =
        Folder::with(&policies("[policies.company]\nservers = [\"*\"]\nfile = \"policy.json\""));
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    let servers: Vec<_> = config.policies.iter().map(|policy| policy.server.as_str()).collect();
    assert_eq!(servers, ["a", "b"]);
    let added = config.policies_for_all[0].attach(&Name::new("added").unwrap());
    assert_eq!((added.server.as_str(), added.name.as_str()), ("added", "company"));
    assert_eq!(added.version, config.policies[0].version);
    check(
        &policies("[policies.p]\nservers = [\"*\", \"a\"]\nfile = \"policy.json\""),
        &["6:12 `*` stands for every server: name no others beside it"],
    );
    check(
        "[policies.p]\nservers = [\"*\"]\nfile = \"nope.json\"\n",
        &["3:8 cannot read policy file `nope.json`: No such file or directory (os error 2)"],
    );
    let folder = Folder::with("[policies.p]\nservers = [\"*\"]\nfile = \"bad.json\"\n");
    fs::write(folder.join("bad.json"), "{}").unwrap();
    Config::load(&folder.overrides(), &environment()).unwrap_err();
}
