//! Several wraps and a gateway on one data directory: they count together, and
//! their records are one log.

use super::client::Client;
use crate::{
    sluice::Folder,
    stdio::{SERVER, TOKEN},
};

const LIMITED: &str = r#"{"version":"1","default":"allow","tools":{"echo":{"limits":[
    {"counter":"echoes","window":"day","max":3,"scope":"server","on_deny":"Three a day."}]}}}"#;

fn is_allowed(answer: &serde_json::Value) -> bool {
    let is_denied = answer.to_string().contains("Three a day.");
    assert_ne!(is_denied, answer["result"]["isError"].is_null(), "{answer}");
    !is_denied
}

#[test]
fn limits_and_the_log_are_shared() {
    let folder = Folder::with("policy.json", LIMITED);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.s]\ncommand = [\"{SERVER}\"]\n[policies.p]\nserver = \"s\"\n\
             file = \"policy.json\"\n[grants.g]\nservers = [\"s\"]\npolicy = \"p\"\n\
             token = \"{TOKEN}\"\n"
        ),
    );
    // All three at once make what is not there yet.
    let arguments = ["--name", "s", "--", SERVER];
    let mut clients = [Client::start(&folder, &arguments), Client::start(&folder, &arguments)];
    let up = folder.up(&[]);
    for client in &mut clients {
        client.hello();
        assert!(is_allowed(&client.call("echo")));
    }
    up.run(&["call", "s", "echo", "--token", TOKEN]).exits(0);
    for client in &mut clients {
        assert!(!is_allowed(&client.call("echo")));
    }
    let refused = up.run(&["call", "s", "echo", "--token", TOKEN]).exits(1);
    assert!(refused.err.contains("Three a day."), "{refused:?}");
    for client in clients {
        assert_eq!(client.end(), 0);
    }
    let log = up.run(&["log", "export"]).exits(0).out;
    let of_wrap: Vec<_> = log
        .lines()
        .filter(|line| line.contains("\"wrap:s\"") && line.contains("\"decision\""))
        .collect();
    let count = |what: &str| of_wrap.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("\"allow\""), count("\"deny\"")), (2, 2), "{log}");
    assert!(of_wrap.iter().all(|line| line.contains("\"policy\"")), "{log}");
    up.run(&["log", "verify"]).exits(0);
}

#[test]
fn the_log_is_shown_also_while_no_gateway_runs() {
    let folder = Folder::with("policy.json", LIMITED);
    let mut client = Client::start(&folder, &["--name", "s", "--", SERVER]);
    client.hello();
    assert!(is_allowed(&client.call("echo")));
    // Beside the wrap, which still runs.
    let shown = folder.run(&["--data", "data", "log", "--tool", "echo", "--json"]).exits(0).json();
    assert_eq!(shown["records"][0]["outcome"], "allow", "{shown}");
    assert_eq!(shown["records"][0]["grant"]["id"], "wrap:s", "{shown}");
    assert!(is_allowed(&client.call("echo")));
    assert_eq!(client.end(), 0);
    let exported = folder.run(&["--data", "data", "log", "export"]).exits(0).out;
    assert_eq!(exported.matches("\"kind\":\"decision\"").count(), 2, "{exported}");
    folder.run(&["--data", "data", "log", "verify"]).exits(0);
    let wrong = folder.run(&["--data", "data", "log", "--since", "perhaps"]).exits(2);
    assert!(wrong.err.contains("`since` must be"), "{wrong:?}");
    let other = folder.run(&["--data", "data", "grant", "list"]).exits(2);
    assert!(other.err.contains("no gateway is running"), "{other:?}");
}

/// A log that was tampered with is shown all the same, and found out.
#[test]
fn a_changed_log_is_found_out_also_while_no_gateway_runs() {
    let folder = Folder::with("policy.json", LIMITED);
    let mut client = Client::start(&folder, &["--name", "s", "--", SERVER]);
    client.hello();
    assert!(is_allowed(&client.call("echo")));
    assert_eq!(client.end(), 0);
    let database = rusqlite::Connection::open(folder.path().join("data/sluice.db")).unwrap();
    let change = "UPDATE facets SET tool = 'ECHO' WHERE tool = 'echo'";
    assert!(database.execute(change, []).unwrap() > 0);
    drop(database);
    let key = folder.path().join("data/keys/master");
    std::fs::remove_file(&key).unwrap();
    let shown = folder.run(&["--data", "data", "log"]).exits(0).out;
    assert!(shown.contains("ECHO"), "{shown}");
    folder.run(&["--data", "data", "log", "verify"]).exits(1);
    assert!(!key.exists(), "reading makes no secrets");
}
