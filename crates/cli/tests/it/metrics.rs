//! The metrics, and the examples that use them.

use std::{collections::BTreeSet, fs, path::Path};

use crate::sluice::Folder;

const CONFIG: &str = "[servers.notes]\nbuiltin = \"demo\"\n\
    [servers.gone]\nurl = \"http://127.0.0.1:1/mcp\"\n\
    [policies.p]\nservers = [\"notes\", \"gone\"]\nfile = \"policy.json\"\n\
    [grants.laptop]\nservers = [\"notes\", \"gone\"]\npolicy = \"p\"\ntoken = \"sg_a_token_for_metrics_tests\"\n";
const POLICY: &str = r#"{"version": "1", "default": "deny", "tools": {
    "list_notes": {}, "pay_invoice": {"approval": true}, "delete_note": {"action": "deny"}
}}"#;

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("sluice_")).map(str::to_owned).collect()
}

#[test]
fn the_examples_use_metrics_that_exist_and_count_what_they_say() {
    let folder = Folder::with("policy.json", POLICY);
    folder.write("sluice.toml", CONFIG);
    let up = folder.up(&[]);
    let token = "sg_a_token_for_metrics_tests";
    let call = |server: &str, tool: &str| up.run(&["call", server, tool, "--token", token]).code;
    assert_eq!(call("notes", "list_notes"), 0);
    assert_ne!(call("notes", "delete_note"), 0);
    assert_ne!(call("notes", "pay_invoice"), 0);
    assert_ne!(call("gone", "list_notes"), 0);
    assert_ne!(up.run(&["call", "notes", "list_notes", "--token", "sg_wrong"]).code, 0);
    folder.write("policy.json", "{}");
    up.wait_until("the edit is refused", || {
        up.metrics().contains("sluice_config_reloads_total{result=\"refused\"} 1")
    });
    let metrics = up.metrics();
    for line in [
        r#"sluice_rule_decisions_total{server="notes",grant="laptop",rule="",outcome="allow"} 1"#,
        r#"sluice_rule_decisions_total{server="notes",grant="laptop",rule="/tools/delete_note/deny_if",outcome="deny"} 1"#,
        r#"sluice_rule_decisions_total{server="notes",grant="laptop",rule="/tools/pay_invoice/approval",outcome="hold"} 1"#,
        "sluice_approvals_requested_total 1",
        "sluice_approvals_expired_total 0",
        r#"sluice_config_reloads_total{result="applied"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in:\n{metrics}");
    }
    // Each attempt of the client counts.
    assert!(metrics.contains(r#"sluice_upstream_errors_total{server="gone",kind="unreachable"} "#));
    // The bounds that were reached are not in the metrics before one is.
    let mut there = names(&metrics);
    there.insert("sluice_bound_refusals_total".to_owned());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for example in ["prometheus/alerts.yml", "grafana/dashboard.json"] {
        let text = fs::read_to_string(examples.join(example)).unwrap();
        let missing: Vec<_> =
            names(&text).into_iter().filter(|name| !there.contains(name)).collect();
        assert!(missing.is_empty(), "{example} names {missing:?}, of:\n{metrics}");
        assert!(names(&text).len() >= 10, "{example}");
    }
    let board = fs::read_to_string(examples.join("grafana/dashboard.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    assert!(board["panels"].as_array().unwrap().len() >= 10);
    assert_eq!(up.end(), 0);

    // The held call still waits, as a gateway sees when it starts.
    folder.write("policy.json", POLICY);
    let up = folder.up(&[]);
    up.wait_until("it knows", || up.metrics().contains("\nsluice_approvals_pending 1\n"));
}
