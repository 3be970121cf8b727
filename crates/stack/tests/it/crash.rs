//! What a crash, a damaged backup or another command in the same moment leaves, and
//! that files can be restored all the same.

use std::{fs, path::PathBuf};

use sluice_stack::{Client, HookFile};

use crate::machine::{Machine, NOW, adopt_all, restore_all};

const FILE: &str = ".cursor/mcp.json";
const TEXT: &str = r#"{"n": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;

fn nothing() -> Vec<String> {
    Vec::new()
}

fn folders(machine: &Machine) -> Vec<PathBuf> {
    let mut folders: Vec<_> =
        fs::read_dir(machine.backups()).unwrap().map(|one| one.unwrap().path()).collect();
    folders.sort();
    folders
}

#[test]
fn a_change_or_an_undoing_that_was_cut_short_is_done() {
    // Both leave the file as it was, and a backup that says otherwise.
    for text in [TEXT.to_owned(), TEXT.replace("\"n\": 1", "\"n\": 2")] {
        let machine = Machine::with(FILE, TEXT);
        adopt_all(&machine);
        machine.write(FILE, text.as_bytes());
        assert_eq!(restore_all(&machine), nothing());
        assert_eq!(machine.text(FILE), text);
        assert_eq!(sluice_stack::Undo::all(&machine.backups()).unwrap().0.len(), 0);
    }
}

#[test]
fn a_file_that_was_never_made_needs_no_undoing() {
    let machine = Machine::new();
    fs::create_dir(machine.path(".cursor")).unwrap();
    let hooks = ".cursor/hooks.json";
    let file = HookFile::read(Client::Cursor, &machine.places).unwrap().unwrap();
    file.install("/usr/bin/sluice", &machine.backups(), NOW).unwrap();
    fs::remove_file(machine.path(hooks)).unwrap();
    assert_eq!(restore_all(&machine), nothing());
    assert!(!machine.path(hooks).exists());
    // A hook that somebody has taken out is not a problem either.
    let file = HookFile::read(Client::Cursor, &machine.places).unwrap().unwrap();
    file.install("/usr/bin/sluice", &machine.backups(), NOW).unwrap();
    machine.write(hooks, b"{}");
    assert_eq!(restore_all(&machine), nothing());
    assert_eq!(machine.text(hooks), "{}");
}

#[test]
fn a_file_that_was_made_anew_goes_and_leaves_none_behind() {
    let hooks = ".cursor/hooks.json";
    let machine = Machine::with(hooks, "{}");
    for _ in 0..2 {
        let file = HookFile::read(Client::Cursor, &machine.places).unwrap().unwrap();
        file.install("/usr/bin/sluice", &machine.backups(), NOW).unwrap();
        if folders(&machine).len() == 1 {
            fs::remove_file(machine.path(hooks)).unwrap();
        }
    }
    assert_eq!(restore_all(&machine), nothing());
    assert!(!machine.path(hooks).exists());
}

#[test]
fn a_damaged_backup_stops_no_other() {
    let machine = Machine::with(FILE, TEXT);
    let other = ".claude.json";
    machine.write(other, TEXT.as_bytes());
    adopt_all(&machine);
    let damaged = folders(&machine).into_iter().find(|folder| {
        fs::read_to_string(folder.join("manifest.json")).unwrap().contains(".claude.json")
    });
    let damaged = damaged.unwrap();
    fs::write(damaged.join("original"), "{}").unwrap();
    let said = restore_all(&machine);
    assert!(said.len() == 1 && said[0].contains("does not hold what belongs there"), "{said:?}");
    assert_eq!(machine.text(FILE), TEXT);
    assert_ne!(machine.text(other), TEXT);
    fs::write(damaged.join("manifest.json"), "{").unwrap();
    adopt_all(&machine);
    assert_eq!(restore_all(&machine).len(), 1);
    assert_eq!(machine.text(FILE), TEXT);
}

#[test]
fn each_backup_has_a_folder_of_its_own() {
    let machine = Machine::with(FILE, TEXT);
    for _ in 0..2 {
        adopt_all(&machine);
        machine.write(FILE, TEXT.as_bytes());
    }
    assert_eq!(folders(&machine).len(), 2);
    // A folder that another has just made is not written into.
    let taken = machine.backups().join(format!("{}-002", NOW.replace(':', "")));
    fs::create_dir(&taken).unwrap();
    adopt_all(&machine);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 0);
    assert_eq!(folders(&machine).len(), 4);
}
