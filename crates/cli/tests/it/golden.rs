//! Terminal pages as they were when somebody last read them.
//!
//! `SLUICE_GOLDEN=write` writes what is shown now; read the difference.

use std::{fs, path::Path};

/// Compares what is shown with the file `tests/golden/<name>`.
#[track_caller]
pub(crate) fn check(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == actual, "`{name}` has changed; it is now:\n{actual}");
}
