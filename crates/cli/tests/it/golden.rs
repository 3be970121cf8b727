//! Pages that are compared byte for byte with a file, which `SLUICE_GOLDEN=write`
//! writes anew.

use std::{fs, path::Path};

/// Compares a page with its file in `tests/golden`.
#[track_caller]
pub(crate) fn check(name: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|wish| wish == "write") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        actual == expected,
        "{name} is otherwise; `SLUICE_GOLDEN=write` writes it anew\n{actual}"
    );
}
