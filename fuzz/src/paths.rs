//! `path_within` agrees with the standard library's idea of a path.

use std::path::{Component, Path, PathBuf};

use serde_json::json;

use crate::policy::{holds, with_operator};

/// Takes the first line for a directory and the rest for a path.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (directory, path) = text.split_once('\n').unwrap_or(("/srv/data", text));
    let policy = with_operator("path_within", &json!([directory]));
    assert_eq!(policy.is_some(), resolve(directory).is_some(), "{directory:?}");
    let (Some(policy), Some(directory)) = (policy, resolve(directory)) else { return };
    let expected = resolve(path).map(|path| path.starts_with(&directory));
    assert_eq!(holds(&policy, path), expected, "{path:?} in {}", directory.display());
}

/// The path without `.` and `..`; `None` if it is not to be judged.
fn resolve(text: &str) -> Option<PathBuf> {
    let device = ["//./", "//?/", "/??/"];
    if text.contains(['\0', '\\']) || device.iter().any(|start| text.starts_with(start)) {
        return None;
    }
    let path = Path::new(text);
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) if name.as_encoded_bytes().starts_with(b"~") => return None,
            other => resolved.push(other),
        }
    }
    path.is_absolute().then_some(resolved)
}
