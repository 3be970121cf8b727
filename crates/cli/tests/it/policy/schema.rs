//! `sluice policy schema`, and the copy of it in the repository.

use std::{fs, path::Path};

use crate::sluice::Folder;

/// `UPDATE_GOLDENS=1 cargo test -p sluice-cli schema` writes the file anew.
#[test]
#[expect(clippy::disallowed_methods, reason = "the one setting of this test")]
fn the_committed_schema_is_the_one_the_code_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/policy.schema.json");
    let written = Folder::new().run(&["policy", "schema"]).exits(0).out;
    if std::env::var("UPDATE_GOLDENS").is_ok() {
        fs::write(&path, &written).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == written,
        "schema/policy.schema.json is out of date: UPDATE_GOLDENS=1 cargo test -p sluice-cli schema"
    );
}
