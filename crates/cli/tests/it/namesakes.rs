//! Names of servers that are used again: what was stored for an earlier server never applies to
//! another one, and nothing is lost by editing a file.

use crate::{sluice::Folder, up::Up};

const ONE: &str = "[servers.files]\nurl = \"http://127.0.0.1:9/one\"\n";
const TWO: &str = "[servers.files]\nurl = \"http://127.0.0.1:9/two\"\n";

fn folder() -> Folder {
    let folder = Folder::with("allow.json", r#"{"version":"1","default":"allow"}"#);
    folder.write("sluice.toml", ONE);
    folder
}

/// Stores a policy and a grant for the server `files`.
fn prepare(up: &Up) {
    up.run(&["policy", "put", "files", "readers", "allow.json"]).exits(0);
    up.run(&["grant", "create", "files", "laptop", "--policy", "readers"]).exits(0);
}

/// How many policies the server `files` has, and how many servers the grant.
fn left(up: &Up) -> (usize, usize) {
    let policies = up.run(&["policy", "list", "--json"]).exits(0).json();
    let grant = up.run(&["grant", "show", "laptop", "--json"]).exits(0).json();
    let count = |list: &serde_json::Value| list.as_array().unwrap().len();
    (count(&policies["policies"]), count(&grant["servers"]))
}

fn is_there(up: &Up) -> bool {
    up.run(&["server", "show", "files"]).code == 0
}

/// Writes the file, and waits until it is in force.
fn reload(up: &Up, folder: &Folder, text: &str) {
    let version = || {
        let status = up.run(&["status", "--json"]).exits(0).json();
        status["config"]["version"].as_str().unwrap().to_owned()
    };
    let before = version();
    folder.write("sluice.toml", text);
    up.wait_until("the edit is in force", || version() != before);
}

#[test]
fn a_server_that_is_edited_or_comes_back_keeps_its_policies_and_grants() {
    let folder = folder();
    let up = folder.up(&[]);
    prepare(&up);
    // Commented out and in again.
    reload(&up, &folder, "# nothing\n");
    assert!(!is_there(&up));
    reload(&up, &folder, ONE);
    assert_eq!(left(&up), (1, 1));
    // Its URL, and then its header.
    reload(&up, &folder, TWO);
    assert_eq!(left(&up), (1, 1));
    let with_header = format!("{TWO}headers = {{ Authorization = \"Bearer one-two-three\" }}\n");
    reload(&up, &folder, &with_header);
    // Away while it gets another credential, and over a restart.
    reload(&up, &folder, "# nothing\n");
    up.end();
    folder.write("sluice.toml", &with_header.replace("three", "four"));
    let up = folder.up(&[]);
    assert_eq!(left(&up), (1, 1));
    up.end();
    // Edited while no gateway runs.
    folder.write("sluice.toml", ONE);
    let up = folder.up(&[]);
    assert_eq!(left(&up), (1, 1));
}

#[test]
fn another_server_of_a_name_finds_nothing_of_the_earlier_one() {
    let folder = folder();
    let up = folder.up(&[]);
    prepare(&up);
    reload(&up, &folder, "# nothing\n");
    reload(&up, &folder, TWO);
    assert_eq!(left(&up), (0, 0));
    assert!(up.log().contains("the stored policies `readers` are removed"), "{}", up.log());
    let log = up.run(&["log", "--records", "--json", "--kind", "admin"]).exits(0).out;
    assert!(log.contains("taken out of the grants `laptop`"), "{log}");
    // A person can take back what it had, on purpose.
    let version = up.run(&["policy", "history", "files", "readers", "--json"]).exits(0).json();
    let version = version["versions"][0]["version"].as_str().unwrap().to_owned();
    up.run(&["policy", "rollback", "files", "readers", &version]).exits(0);
    up.run(&["grant", "edit", "laptop", "--server", "files"]).exits(0);
    assert_eq!(left(&up), (1, 1));
    // The same over restarts.
    up.end();
    folder.write("sluice.toml", "# nothing\n");
    folder.up(&[]).end();
    folder.write("sluice.toml", ONE);
    let up = folder.up(&[]);
    assert_eq!(left(&up), (0, 0));
}

#[test]
fn a_server_that_was_removed_leaves_nothing_even_to_its_like() {
    let folder = folder();
    let add = ["server", "add", "files", "--", "true"];
    folder.write("sluice.toml", "# nothing\n");
    let up = folder.up(&[]);
    up.run(&add).exits(0);
    prepare(&up);
    up.run(&["server", "remove", "files"]).exits(0);
    up.run(&add).exits(0);
    assert_eq!(left(&up), (0, 0));
    // The same without a gateway.
    up.run(&["grant", "revoke", "laptop"]).exits(0);
    prepare(&up);
    up.end();
    let alone =
        |arguments: &[&str]| folder.run(&[&["--data", "data"], arguments].concat()).exits(0);
    alone(&["server", "remove", "files"]);
    alone(&add);
    let up = folder.up(&[]);
    assert_eq!(left(&up), (0, 0));
}

/// What a declared server left can be removed at once.
#[test]
fn a_server_that_is_no_longer_declared_can_be_removed() {
    let folder = folder();
    let up = folder.up(&[]);
    prepare(&up);
    reload(&up, &folder, "# nothing\n");
    up.run(&["server", "remove", "files"]).exits(0);
    up.run(&["server", "remove", "files"]).exits(1);
    reload(&up, &folder, ONE);
    assert_eq!(left(&up), (0, 0));
}
