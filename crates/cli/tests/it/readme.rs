//! The commands of the README, run as they are written.

use std::{fs, path::Path};

use crate::sluice::Folder;

/// Fenced blocks of one kind, in order.
fn blocks<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let fence = format!("\n```{kind}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// The commands of a console block, each with the output shown for it.
fn commands(block: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command, String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => panic!("a console block begins with a command: {line}"),
        }
    }
    found
}

#[test]
fn the_readme_commands_print_what_it_shows() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let [policy] = blocks(&readme, "json")[..] else { panic!("the README has one policy") };
    let folder = Folder::with("policy.json", policy);
    let _up = folder.up(&["--demo"]);
    let mut ran = 0;
    for (command, expected) in blocks(&readme, "console").into_iter().flat_map(commands) {
        let found = folder.shell(&format!("export SLUICE_DATA=data; {command}"));
        let said = found.out + if command.contains("grant create") { "" } else { &found.err };
        assert_eq!(said, expected, "{command}");
        ran += 1;
    }
    assert!(ran >= 10, "only {ran} commands were found");
}
