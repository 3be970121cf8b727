//! `sluice policy import`.

use serde_json::json;

use crate::sluice::Folder;

const OLD: &str = r#"version: "1"
tools:
  create_issue:
    rules:
      - name: hourly
        rate_limit: 5/hour
        on_deny: Enough issues for now
"#;

#[test]
fn the_result_is_a_policy_that_checks() {
    let folder = Folder::with("old.yaml", OLD);
    let ran = folder.run(&["policy", "import", "old.yaml"]).exits(0);
    folder.write("new.json", &ran.out);
    folder.run(&["policy", "check", "new.json"]).exits(0);
    let explain = ["policy", "explain", "new.json", "--tool", "create_issue", "--json"];
    let told = folder.run(&explain).exits(0).json();
    assert_eq!(told["outcome"], json!("allow"));
    assert_eq!(told["charges"][0]["max"], json!(5));
    assert_eq!(told["charges"][0]["window"], json!("hour"));
}

#[test]
fn a_policy_of_ours_is_recognised() {
    let text = "version: \"1\"\ndefault: deny\ntools:\n  x: { deny_if: [{ conditions: [] }] }\n";
    let ran = Folder::with("ours.yaml", text).run(&["policy", "import", "ours.yaml"]).exits(1);
    assert!(ran.err.contains("policy of ours already"), "{}", ran.err);
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_column() {
    let folder = Folder::with("old.yaml", "version: \"1\"\ntools:\n  x:\n    rulez: []\n");
    let ran = folder.run(&["policy", "import", "old.yaml"]).exits(1);
    assert!(ran.out.is_empty());
    assert!(ran.err.contains("old.yaml:4:5"), "{}", ran.err);
}
