//! One file and several who use it, and folders that cannot be written.

use std::{fs, os::unix::fs::PermissionsExt as _, thread};

use sluice_catalog::{Catalog, OpenError};
use sluice_testkit::Folder;

use crate::scratch::Scratch;

#[test]
fn several_may_open_a_new_file_at_once() {
    let folder = Folder::new().unwrap();
    let path = folder.join("catalog.db");
    let counts: Vec<u64> = thread::scope(|scope| {
        let open = || Catalog::open_to_write(&path).unwrap().stats().unwrap().tools;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let alone = Catalog::in_memory().unwrap().stats().unwrap().tools;
    assert_eq!(counts, [alone; 4]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn several_may_import_at_once() {
    let scratch = Scratch::new();
    let path = scratch.folder.join("catalog.db");
    thread::scope(|scope| {
        for number in 0..4 {
            let line = |server: u32| {
                format!(
                    r#"{{"server": "s{number}-{server}", "tools": [{{"name": "get_a"}}, {{"name": "get_b"}}]}}"#
                )
            };
            let lines: Vec<String> = (0..20).map(line).collect();
            let file = scratch.write(&format!("{number}.jsonl"), &lines.join("\n"));
            let path = path.clone();
            scope.spawn(move || {
                let mut catalog = Catalog::open_to_write(&path).unwrap();
                catalog.import(&file, None, &mut |_| {}).unwrap();
            });
        }
    });
    for number in 0..4 {
        for server in 0..20 {
            assert_eq!(scratch.tools(&format!("s{number}-{server}")).len(), 2);
        }
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let folder = Folder::new().unwrap();
    let path = folder.join("catalog.db");
    fs::write(&path, "some text of mine, which is not a database at all").unwrap();
    assert!(matches!(Catalog::open(&path), Err(OpenError::Foreign(_))));
    assert!(fs::read_to_string(&path).unwrap().starts_with("some text"));
}

#[test]
fn where_nothing_can_be_written_what_is_shipped_is_still_found() {
    let folder = Folder::new().unwrap();
    // A folder in the file's place cannot be written by anybody, root included.
    let path = folder.join("catalog.db");
    fs::create_dir(&path).unwrap();
    assert!(matches!(Catalog::open_to_write(&path), Err(OpenError::Unwritable(..))));
    let catalog = Catalog::open(&path).unwrap();
    assert!(catalog.unkept().is_some());
    assert!(catalog.stats().unwrap().tools > 20_000);
}
