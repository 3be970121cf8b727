//! Files that are not as files should be, and writing them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use sluice_stack::{BackupError, WriteError};

use crate::machine::{Machine, NOW, adopt_all, files_below, front, plans, restore_all};

const FILE: &str = ".cursor/mcp.json";
const TEXT: &str = r#"{"mcpServers": {"a": {"command": "a"}}}"#;

#[test]
fn a_file_with_more_servers_than_anybody_has_is_a_problem() {
    let config = |count: usize| {
        let servers: Vec<_> = (0..count).map(|n| format!("\"s{n}\": {{}}")).collect();
        format!("{{\"mcpServers\": {{{}}}}}", servers.join(","))
    };
    let machine = Machine::with(".cursor/mcp.json", &config(5000));
    assert_eq!(machine.configured().entries().count(), 5000);
    machine.write(".cursor/mcp.json", config(5001).as_bytes());
    let problems = machine.configured().problems;
    assert_eq!(problems.first().unwrap().message, "it has more than 5000 servers");
}

#[test]
fn of_names_that_stand_twice_the_last_is_taken() {
    let machine = Machine::with(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "1"}, "b": {}, "a": {"command": "2"}, "c": {}}}"#,
    );
    let configured = machine.configured();
    let seen: Vec<_> = configured
        .entries()
        .map(|entry| (entry.name.as_str(), entry.is_repeated, entry.transport.to_masked()))
        .collect();
    let unclear = "neither a command nor a URL".to_owned();
    let expected =
        [("b", false, unclear.clone()), ("a", true, "2".to_owned()), ("c", false, unclear)];
    assert_eq!(seen, expected);
}

#[test]
fn a_broken_file_is_told_and_stops_no_other() {
    let machine = Machine::with(FILE, TEXT);
    machine.write(".gemini/settings.json", b"{\n  \"mcpServers\": {\n    \"x\": }\n}");
    machine.write(".codex/config.toml", b"ok = 1\nmcp_servers = = 2\n");
    machine.write(".config/zed/settings.json", b"\xff\xfe{\0}\0");
    machine.write(".config/Code/User/mcp.json", &vec![b' '; (32 << 20) + 1]);
    fs::create_dir_all(machine.path(".config/Claude/claude_desktop_config.json")).unwrap();
    fs::create_dir_all(machine.path(".codeium/windsurf")).unwrap();
    let looped = machine.path(".codeium/windsurf/mcp_config.json");
    symlink(&looped, &looped).unwrap();
    let configured = machine.configured();
    assert_eq!(configured.entries().count(), 1);
    let told: Vec<_> = configured
        .problems
        .iter()
        .map(|problem| format!("{} {:?} {}", problem.client.id(), problem.at, problem.message))
        .collect();
    let expect =
        |start: &str| assert!(told.iter().any(|one| one.starts_with(start)), "{start}: {told:#?}");
    expect("claude-desktop None it is not a regular file");
    expect("vscode None it is larger than 32 MiB");
    expect("windsurf None it cannot be read:");
    expect("codex Some((2, 15))");
    expect("gemini Some((3, 10))");
    expect("zed None it is not text in UTF-8");
    assert_eq!(told.len(), 6, "{told:#?}");
}

#[test]
fn links_are_followed_and_modes_kept() {
    let machine = Machine::with("dotfiles/mcp.json", TEXT);
    fs::create_dir(machine.path(".cursor")).unwrap();
    symlink("../dotfiles/mcp.json", machine.path(FILE)).unwrap();
    fs::set_permissions(machine.path("dotfiles/mcp.json"), fs::Permissions::from_mode(0o640))
        .unwrap();
    assert_eq!(adopt_all(&machine), Vec::<String>::new());
    assert!(machine.path(FILE).is_symlink());
    assert!(machine.text("dotfiles/mcp.json").contains("wrap"));
    let mode = fs::metadata(machine.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text("dotfiles/mcp.json"), TEXT);
    assert_eq!(files_below(&machine.path("dotfiles")).len(), 1, "nothing is left over");
}

#[test]
fn backups_are_their_users_alone() {
    let machine =
        Machine::with(FILE, r#"{"mcpServers": {"a": {"command": "a", "env": {"K": "CANARY"}}}}"#);
    adopt_all(&machine);
    let files = files_below(&machine.backups());
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
        let folder = fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777;
        assert_eq!(folder, 0o700);
        if file.ends_with("manifest.json") {
            assert!(!fs::read_to_string(&file).unwrap().contains("CANARY"));
        }
    }
}

#[test]
fn a_file_that_was_changed_meanwhile_is_not_written() {
    let machine = Machine::with(FILE, TEXT);
    let configured = machine.configured();
    let file = &configured.files[0];
    let adoption = file.adopt(&plans(&file.entries), &front());
    machine.write(FILE, TEXT.replace("\"a\": {", "\"b\": {").as_bytes());
    let error = file.write(&adoption, &machine.backups(), NOW).unwrap_err();
    assert!(matches!(error, BackupError::File(WriteError::Changed(_))), "{error}");
    assert!(machine.text(FILE).contains("\"b\": {"));
    assert!(files_below(&machine.backups()).is_empty(), "there is no backup of nothing");
    assert_eq!(files_below(&machine.path(".cursor")).len(), 1, "nothing is left over");
}

#[test]
fn a_file_that_is_read_only_is_not_written() {
    let machine = Machine::with(FILE, TEXT);
    fs::set_permissions(machine.path(FILE), fs::Permissions::from_mode(0o444)).unwrap();
    let configured = machine.configured();
    let file = &configured.files[0];
    let adoption = file.adopt(&plans(&file.entries), &front());
    let error = file.write(&adoption, &machine.backups(), NOW).unwrap_err();
    assert!(matches!(error, BackupError::File(WriteError::ReadOnly(_))), "{error}");
    assert_eq!(machine.text(FILE), TEXT);
}

#[test]
fn files_of_projects_and_folders_above_are_found() {
    let machine = Machine::with("code/.mcp.json", TEXT);
    let elsewhere = machine.path("elsewhere").display().to_string();
    let claude = format!(
        r#"{{"projects": {{{elsewhere:?}: {{"mcpServers": {{"p": {{"command": "p"}}}}}}}}}}"#
    );
    machine.write(".claude.json", claude.as_bytes());
    machine.write("elsewhere/.mcp.json", TEXT.replace("\"a\"", "\"e\"").as_bytes());
    fs::create_dir_all(machine.path("code/.git")).unwrap();
    fs::create_dir_all(machine.path("code/deep/er")).unwrap();
    let mut places = machine.places.clone();
    places.folder = machine.path("code/deep/er");
    let configured = sluice_stack::Configured::read(&places, &crate::machine::front());
    let mut names: Vec<_> = configured.entries().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "e", "p"]);
    let project = configured.entries().find(|entry| entry.name == "p").unwrap();
    assert_eq!(project.scope.folder(), Some(machine.path("elsewhere").as_path()));
}
