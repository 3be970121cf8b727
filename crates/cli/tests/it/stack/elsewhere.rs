//! Programs with other names, and data directories in other places.

use std::{fs, os::unix::fs::symlink};

use super::{Home, furnished};
use crate::sluice::{BINARY, Ran};

fn run(home: &Home, program: &str, arguments: &[&str]) -> Ran {
    Ran::from(home.command(program).arg("stack").args(arguments).output().unwrap())
}

#[test]
fn clients_start_the_link_that_the_program_was_called_by() {
    let home = furnished();
    let versioned = home.path("opt/sluice-9.9").display().to_string();
    fs::create_dir_all(home.path("opt")).unwrap();
    fs::copy(BINARY, &versioned).unwrap();
    symlink(&versioned, home.path("bin/gate")).unwrap();
    let link = home.path("bin/gate").display().to_string();
    let before = home.text(".cursor/mcp.json");
    // By its name on the path, by the path of the link, and by its own.
    for (program, written) in [("gate", &link), (&link, &link), (&versioned, &versioned)] {
        let typed = format!("{program} stack adopt notes --yes");
        Ran::from(home.command("sh").args(["-c", &typed]).output().unwrap()).exits(0);
        let adopted = home.text(".cursor/mcp.json");
        assert!(adopted.contains(&format!("\"command\": \"{written}\"")), "{adopted}");
        let again = run(&home, &link, &["adopt", "notes", "--yes"]).exits(0);
        assert!(again.err.contains("already"), "{}", again.err);
        // Another program knows what it is, and does not put itself before it too.
        let other = home.stack(&["adopt", "notes", "--yes"]).exits(1);
        assert!(other.err.contains("is a `sluice wrap`"), "{}", other.err);
        home.stack(&["restore"]).exits(0);
        assert_eq!(home.text(".cursor/mcp.json"), before);
    }
}

#[test]
fn a_server_adopted_with_another_data_directory_is_named_with_it() {
    let home = furnished();
    let before = home.text(".cursor/mcp.json");
    home.stack(&["adopt", "notes", "--yes"]).exits(0);
    let data = home.path(".local/share/sluice").display().to_string();
    home.write("code/sluice.toml", "data = \"other\"\n");
    let adopted = home.text(".cursor/mcp.json");
    let refused = home.stack(&["restore"]).exits(1);
    assert!(!refused.err.contains("nothing to restore"), "{}", refused.err);
    assert!(refused.err.contains("notes: in Cursor, it was adopted with another data directory"));
    let hint = format!("hint: `sluice --data {data} stack restore`");
    assert!(refused.err.contains(&hint), "{}", refused.err);
    assert_eq!(home.text(".cursor/mcp.json"), adopted);
    let json = home.stack(&["restore", "--json"]).exits(1).json();
    assert_eq!(json["elsewhere"][0]["data"], data.as_str(), "{json}");
    let line = ["--data", &data, "stack", "restore"];
    Ran::from(home.command(BINARY).args(line).output().unwrap()).exits(0);
    assert_eq!(home.text(".cursor/mcp.json"), before);
    let nothing = home.stack(&["restore"]).exits(0);
    assert!(nothing.err.contains("nothing to restore"), "{}", nothing.err);
}
