//! `sluice scan` on servers of all kinds, honest, hostile and broken ones.

mod broken;
mod hostile;
mod server;

use serde_json::json;

use self::server::Server;
use crate::{golden, running::Running, sluice::Folder};

#[test]
fn a_scan_fits_one_screen_of_either_width() {
    let server = Server::notes();
    let page = server.scan(&[]).exits(1).out;
    golden::check("scan/notes-80.txt", &page);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let wide = server.scan_with(&[("COLUMNS", "120")], &[]).exits(1).out;
    golden::check("scan/notes-120.txt", &wide);
}

#[test]
fn a_scan_for_programs_and_for_issues_has_everything() {
    let server = Server::notes();
    let scan = server.scan(&["--json"]).exits(1);
    golden::check("scan/notes.json", &scan.out);
    assert_eq!(server.scan(&["--format", "json"]).out, scan.out);
    golden::check("scan/notes-md.txt", &server.scan(&["--format", "markdown"]).exits(1).out);
}

#[test]
fn the_suggested_policy_is_one() {
    let server = Server::notes();
    let scan = server.scan(&["--format", "policy"]).exits(1);
    assert!(scan.err.contains("signs of poisoning: hidden"), "{}", scan.err);
    server.folder.write("policy.json", &scan.out);
    server.folder.run(&["policy", "check", "policy.json"]).exits(0);
    let policy = scan.json();
    assert_eq!(policy["tools"]["get_weather"], json!({"action": "hide"}));
    assert_eq!(policy["tools"]["list_notes"], json!({}));
}

#[test]
fn of_many_tools_the_worst_are_shown_and_the_rest_is_folded() {
    let tool = |name: String, says: &str| json!({"name": name, "description": says});
    let mut tools: Vec<_> = (0..300).map(|n| tool(format!("get_{n:03}"), "Returns it.")).collect();
    tools.push(tool("delete_all".into(), "Deletes everything."));
    let server = Server::new(&json!({"tools": tools, "nextCursor": "2"}));
    let more = json!({"tools": [tool("drop_table".into(), "Drops a table.")]});
    server.folder.write("tools-2.json", &more.to_string());
    let page = server.scan(&[]).exits(0).out;
    assert!(page.lines().count() <= 50, "{page}");
    let at = |name: &str| page.find(name).unwrap_or_else(|| panic!("no {name}: {page}"));
    assert!(at("  delete_all") < at("  drop_table") && at("  drop_table") < at("get_000"));
    assert!(page.contains("--all lists them") && !page.contains("get_299"), "{page}");
    let all = server.scan(&["--all"]).exits(0).out;
    assert!(all.contains("get_299") && !all.contains("--all"), "{all}");
    // A reader may stop early.
    let piped = server.folder.shell("sluice scan --all -- sh notes.sh | head -1");
    assert_eq!(piped.err, "");
}

#[test]
fn a_server_with_nothing_is_scanned_too() {
    let server = Server::new(&json!({"tools": []}));
    let page = server.scan(&[]).exits(0).out;
    assert!(page.contains("offers no tools") && !page.contains("To restrict it"), "{page}");
    server.folder.write("policy.json", &server.scan(&["--format", "policy"]).exits(0).out);
    server.folder.run(&["policy", "check", "policy.json"]).exits(0);
    server.scan(&["--format", "markdown"]).exits(0);
}

#[test]
fn a_server_at_a_url_is_scanned_with_its_credential() {
    let gateway = Running::demo();
    let (_, token) = gateway.grant("scanner", "demo");
    let url = gateway.url("demo");
    let refused = gateway.run(&["scan", "--url", &url]).exits(2);
    assert!(
        refused.err.contains("status 401") && refused.err.contains("hint: give its credential")
    );
    let header = format!("Authorization: Bearer {token}");
    let scan = gateway.run(&["scan", "--url", &url, "--header", &header]).exits(0);
    assert!(
        scan.out.contains("list_notes")
            && scan.out.contains("--header 'Authorization: <your value>'")
    );
    assert!(scan.out.contains("Fill in the masked values"), "{}", scan.out);
    let wrong = gateway.run(&["scan", "--url", "ftp://me:sesame@a/?b=sesame#sesame"]).exits(2);
    assert!(wrong.err.contains("is not the URL") && !wrong.err.contains("sesame"), "{}", wrong.err);
    assert!(!scan.out.contains(&token), "{}", scan.out);
}

#[test]
fn a_policy_is_suggested_for_a_registered_server() {
    let gateway = Running::demo();
    let suggested = gateway.run(&["policy", "suggest", "demo"]).exits(0);
    gateway.write("start.json", &suggested.out);
    gateway.run(&["policy", "put", "demo", "start", "start.json"]).exits(0);
    assert_eq!(suggested.json()["tools"]["delete_note"], json!({"action": "hide"}));
    assert!(suggested.err.contains("1 tool of category financial: held"), "{}", suggested.err);
    let json = gateway.run(&["policy", "suggest", "demo", "--json"]).exits(0).json();
    assert_eq!(json["policy"], suggested.json());
    gateway.run(&["policy", "suggest", "nobody"]).exits(1);
}

#[test]
fn a_terminal_shows_what_is_waited_for_and_nothing_else_does() {
    let server = Server::notes();
    let slow = "sluice scan -- sh -c 'echo fetching >&2; sleep 1; exec sh notes.sh'";
    let seen = server.folder.shell(&format!("script -qec \"{slow}\" /dev/null"));
    assert!(seen.out.contains("waiting for sh -c") && seen.out.contains("· fetching"), "{seen:?}");
    assert!(seen.out.contains("list_notes"), "{seen:?}");
    let piped = server.folder.shell(slow);
    assert_eq!(piped.err, "");
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = Folder::new();
    for wrong in [
        &["scan"][..],
        &["scan", "--url", "http://localhost", "--", "x"],
        &["scan", "--header", "A: b", "--", "x"],
        &["scan", "--json", "--format", "table", "--", "x"],
        &["scan", "--timeout", "soon", "--", "x"],
        &["scan", "--timeout", "0s", "--", "x"],
        &["scan", "--url", "ftp://x"],
    ] {
        let told = folder.run(wrong).exits(2);
        assert!(told.err.contains("error"), "{told:?}");
    }
}
