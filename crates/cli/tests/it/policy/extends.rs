//! A company-wide base that every server's own policy extends: from files, from the store, under a
//! running gateway.

use crate::sluice::{Folder, Ran};

const TOKEN: &str = "sg_a_token_for_extending_policies";
const COMPANY: &str = r#"{"version":"1","default":"allow","tools":{"delete_note":{"action":"deny","reason":"Notes are kept."}}}"#;
const OWN: &str = r#"{"version":"1","default":"deny",
 "extends":"BASE",
 "tools":{"list_notes":{},"delete_note":{}},
 "tests":[{"name":"kept","call":{"tool":"delete_note"},"expect":"deny","rule":"BASE:/tools/delete_note/deny_if"}]}"#;

fn own(base: &str) -> String {
    OWN.replace("BASE", base)
}

fn first_problem(ran: &Ran) -> String {
    let problem = &ran.json()["problems"][0];
    format!("{}:{} {}", problem["line"], problem["column"], problem["message"].as_str().unwrap())
}

#[test]
fn files_beside_each_other_are_checked_tested_and_explained() {
    let folder = Folder::with("own.json", &own("./company.json"));
    let missing = folder.run(&["policy", "check", "own.json", "--json"]).exits(1);
    let found = first_problem(&missing);
    assert!(found.starts_with("2:12 there is no file `./company.json` to extend"), "{found}");
    folder.write("company.json", COMPANY);
    let checked = folder.run(&["policy", "check", "own.json"]).exits(0);
    assert!(checked.out.contains("1 test passed"), "{checked:?}");
    let tested = folder.run(&["policy", "test", "own.json", "company.json"]).exits(0);
    assert!(tested.out.contains("kept"), "{tested:?}");
    let explain = ["policy", "explain", "own.json", "--tool", "delete_note"];
    let page = folder.run(&explain).exits(0);
    assert!(page.out.contains("denied by ./company.json:/tools/delete_note/deny_if"), "{page:?}");
    assert!(page.out.contains("That rule is of ./company.json, which the policy extends"));
    assert!(page.out.contains("the base `./company.json`:"), "{page:?}");
    let told = folder.run(&[&explain[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((&told["base"], &told["shadow"]), (&"./company.json".into(), &false.into()));
    // What is only in the base is a difference, too.
    folder
        .write("alone.json", &own("./company.json").replace("\"extends\":\"./company.json\",", ""));
    let alone = std::fs::read_to_string(folder.path().join("alone.json")).unwrap();
    let alone = alone.split(",\n \"tests\"").next().unwrap().to_owned() + "}";
    folder.write("alone.json", &alone);
    let diff = folder.run(&["policy", "diff", "alone.json", "own.json", "--json"]).exits(0).json();
    assert_eq!(diff["tools"][0]["tool"], "delete_note", "{diff}");
    assert_eq!(diff["tools"][0]["changes"][0]["rule"], "./company.json:/tools/delete_note/deny_if");
    // In a circle, through a file.
    folder.write("company.json", &own("./own.json"));
    let circle = first_problem(&folder.run(&["policy", "check", "own.json", "--json"]).exits(1));
    assert!(circle.contains("leads in a circle: `./company.json` → `./own.json`"), "{circle}");
    // By name, only a server's policies can be meant.
    folder.write("own.json", &own("company"));
    let named = folder.run(&["policy", "check", "own.json"]).exits(1);
    assert!(named.out.contains("`company` is a policy of a server"), "{named:?}");
    assert!(named.out.contains("--server"), "{named:?}");
}

fn declared() -> Folder {
    let folder = Folder::with("company.json", COMPANY);
    folder.write("own.json", &own("company"));
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n\
             [policies.company]\nservers = [\"*\"]\nfile = \"company.json\"\n\
             [policies.p]\nfiles = {{ notes = \"own.json\" }}\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    folder
}

#[test]
fn an_edit_of_the_base_is_in_force_for_all_that_extend_it() {
    let folder = declared();
    let up = folder.up(&[]);
    let call = |tool: &str, arguments: &str| {
        up.run(&["call", "notes", tool, "--args", arguments, "--token", TOKEN])
    };
    call("list_notes", "{}").exits(0);
    let refused = call("delete_note", r#"{"id":"1"}"#).exits(1);
    assert!(format!("{refused:?}").contains("Notes are kept."), "{refused:?}");
    let version = || {
        let status = up.run(&["status", "--json"]).json();
        let all = status["policies"].as_array().unwrap().clone();
        let own = all.iter().find(|policy| policy["name"] == "p").unwrap();
        own["version"].as_str().unwrap().to_owned()
    };
    let before = version();
    assert_eq!(before.len(), 33, "its own version and that of the base: {before}");
    let stricter = COMPANY
        .replace("{\"delete_note\"", "{\"list_notes\":{\"action\":\"deny\"},\"delete_note\"");
    folder.write("company.json", &stricter);
    up.wait_until("the edit is in force", || call("list_notes", "{}").code == 1);
    assert_ne!(version(), before);
    assert_eq!(version().split_once('+').unwrap().0, before.split_once('+').unwrap().0);
    let log = up.run(&["log", "--json"]).exits(0).out;
    assert!(log.contains("company:/tools/list_notes/deny_if"), "{log}");
    up.wait_until("both are in the records", || {
        let log = up.run(&["log", "--json", "--kind", "admin"]).exits(0).out;
        log.contains(&format!("policy `p` of server `notes` reloaded: version {before}"))
            && log.contains("policy `company` of server `notes` reloaded")
    });
    // An edit with which a policy that extends it fails its tests is not taken.
    folder.write("company.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("it is told of", || up.log().contains("test `kept` fails"));
    call("delete_note", r#"{"id":"1"}"#).exits(1);
    // Neither is one that leaves it without its base.
    folder.write("company.json", COMPANY);
    up.wait_until("it is well again", || call("list_notes", "{}").code == 0);
    let toml = std::fs::read_to_string(folder.path().join("sluice.toml")).unwrap();
    folder.write("sluice.toml", &toml.replace("policies.company", "policies.firm"));
    up.wait_until("it is told of", || up.log().contains("has no policy `company` to extend"));
    call("list_notes", "{}").exits(0);
    call("delete_note", r#"{"id":"1"}"#).exits(1);
    assert_eq!(up.end(), 0);
}

/// It is found before the policy is put, if its name is known.
#[test]
fn a_circle_is_found_by_checking_the_policy_that_closes_it() {
    let folder = declared();
    folder.write("own.json", r#"{"version":"1","default":"deny"}"#);
    let up = folder.up(&[]);
    folder.write("mine.json", r#"{"version":"1","default":"allow","extends":"company"}"#);
    up.run(&["policy", "put", "notes", "mine", "mine.json"]).exits(0);
    folder.write("circle.json", r#"{"version":"1","default":"allow","extends":"mine"}"#);
    let check = |rest: &[&str]| {
        up.run(&[&["policy", "check", "--server", "notes"], rest].concat()).exits(1).out
    };
    let circle = check(&["circle.json", "--name", "company"]);
    assert!(circle.contains("in a circle") && !circle.contains("--name"), "{circle}");
    folder.write("company.yaml", "version: \"1\"\ndefault: allow\nextends: mine\n");
    let circle = check(&["company.yaml"]);
    assert!(
        circle.contains("circle") && circle.contains("another name, give `--name`"),
        "{circle}"
    );
    let other = ["company.yaml", "--server", "notes", "--name", "fourth"];
    up.run(&[&["policy", "check"], &other[..]].concat()).exits(0);
}

#[test]
fn a_policy_of_the_store_extends_others_of_its_server() {
    let folder = declared();
    folder.write("own.json", r#"{"version":"1","default":"deny"}"#);
    let up = folder.up(&[]);
    folder.write("team.json", &own("company").replace("\"list_notes\":{},", ""));
    let server = ["--server", "notes"];
    up.run(&[&["policy", "check", "team.json"], &server[..]].concat()).exits(0);
    up.run(&[&["policy", "test", "team.json"], &server[..]].concat()).exits(0);
    let explain = ["policy", "explain", "team.json", "--tool", "delete_note"];
    let page = up.run(&[&explain[..], &server[..]].concat()).exits(0);
    assert!(page.out.contains("denied by company:/tools/delete_note/deny_if"), "{page:?}");
    let put = |name: &str, file: &str| up.run(&["policy", "put", "notes", name, file]);
    put("team", "team.json").exits(0);
    folder.write(
        "mine.json",
        &own("team").split(",\n \"tests\"").next().map(|text| text.to_owned() + "}").unwrap(),
    );
    put("mine", "mine.json").exits(0);
    // `team` is a base of `mine` now.
    let removed = up.run(&["policy", "remove", "notes", "team"]).exits(1);
    assert!(
        removed.err.contains("policy `team` of server `notes` is extended by `mine`"),
        "{removed:?}"
    );
    folder.write("circle.json", r#"{"version":"1","default":"allow","extends":"mine"}"#);
    let circle = put("team", "circle.json").exits(1);
    assert!(
        circle.err.contains("circle.json:1:44") && circle.err.contains("in a circle"),
        "{circle:?}"
    );
    folder.write("file.json", &own("./company.json"));
    let file = put("team", "file.json").exits(1);
    assert!(file.err.contains("policy in the store can extend policies only"), "{file:?}");
    // A rollback of the base is an edit of it.
    let (id, token) = grant(&up);
    let call = || up.run(&["call", "notes", "list_notes", "--token", &token]).code;
    assert_eq!(call(), 1, "`team` does not list the tool");
    folder.write("team2.json", &own("company"));
    put("team", "team2.json").exits(0);
    assert_eq!(call(), 0);
    let history = up.run(&["policy", "history", "notes", "team", "--json"]).exits(0).json();
    let first = history["versions"][1]["version"].as_str().unwrap().to_owned();
    up.run(&["policy", "rollback", "notes", "team", &first]).exits(0);
    assert_eq!(call(), 1, "{id}");
    // Nor does an edit of a file break it.
    up.run(&["policy", "rollback", "notes", "team", newest(&history)]).exits(0);
    let company = COMPANY.replace("delete_note", "wipe");
    folder.write("company.json", &company);
    let told = "policy `team` of server `notes`: test `kept` fails";
    up.wait_until("the edit is refused", || up.log().contains(told));
    assert_eq!(call(), 0);
    up.run(&["policy", "remove", "notes", "mine"]).exits(0);
    up.run(&["policy", "remove", "notes", "team"]).exits(0);
    assert_eq!(up.end(), 0);
}

/// The newest version in a history.
fn newest(history: &serde_json::Value) -> &str {
    history["versions"][0]["version"].as_str().unwrap()
}

/// The id and token of a grant with the policy `mine`.
fn grant(up: &crate::up::Up) -> (String, String) {
    let made =
        up.run(&["grant", "create", "notes", "me", "--policy", "mine", "--json"]).exits(0).json();
    let text = |key: &str| made[key].as_str().unwrap_or_default().to_owned();
    (text("id"), text("token"))
}

#[test]
fn a_policy_for_every_server_is_for_added_servers_too() {
    let folder = declared();
    let toml = std::fs::read_to_string(folder.path().join("sluice.toml")).unwrap();
    let reachable = "[upstreams]\nallow_private = [\"127.0.0.0/8\"]\n";
    folder.write("sluice.toml", &format!("{reachable}{toml}"));
    let up = folder.up(&[]);
    up.run(&["server", "add", "later", "--url", "http://127.0.0.1:9/mcp"]).exits(0);
    let list = up.run(&["policy", "list", "--json"]).exits(0).json();
    let has = |server: &str, name: &str| {
        let all = list["policies"].as_array().unwrap();
        all.iter().any(|policy| policy["server"] == server && policy["name"] == name)
    };
    assert!(has("later", "company") && has("notes", "company"), "{list}");
    assert!(has("notes", "p") && !has("later", "p"), "{list}");
    assert_eq!(up.end(), 0);
}
