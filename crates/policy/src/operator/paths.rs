//! `path_within`: whether a path, resolved by its text alone, is in a directory.

use smallvec::SmallVec;

use crate::path::Unjudgeable;

/// Absolute directories, split into segments.
#[derive(Debug)]
pub(crate) struct Directories(Box<[Box<[Box<str>]>]>);

impl Directories {
    /// The segments of a directory, or `None` if it cannot be judged as a path.
    pub(crate) fn segments(directory: &str) -> Option<Box<[Box<str>]>> {
        let segments = resolve(directory)?;
        Some(segments.into_iter().map(Box::from).collect())
    }

    pub(crate) fn new(directories: Vec<Box<[Box<str>]>>) -> Directories {
        Directories(directories.into())
    }

    /// Whether `path` lies in one of the directories, or is one.
    pub(crate) fn hold(&self, path: &str) -> Result<bool, Unjudgeable> {
        let segments = resolve(path).ok_or(Unjudgeable::Type)?;
        let within = |directory: &[Box<str>]| {
            segments.len() >= directory.len()
                && directory.iter().zip(&segments).all(|(wanted, segment)| **wanted == **segment)
        };
        Ok(self.0.iter().any(|directory| within(directory)))
    }
}

/// The segments of an absolute path after resolving `.`, `..` and `//`; `None` for any spelling
/// that another program might resolve differently.
fn resolve(path: &str) -> Option<SmallVec<[&str; 16]>> {
    let device = ["//./", "//?/", "/??/"].iter().any(|start| path.starts_with(start));
    if !path.starts_with('/') || path.contains(['\0', '\\']) || device {
        return None;
    }
    let mut segments = SmallVec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            home if home.starts_with('~') => return None,
            name => segments.push(name),
        }
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::Directories;
    use crate::path::Unjudgeable;

    fn check(path: &str, expected: Result<bool, Unjudgeable>) {
        let segments = |directory| Directories::segments(directory).unwrap();
        let directories = Directories::new(vec![segments("/srv/data/"), segments("/tmp")]);
        assert_eq!(directories.hold(path), expected, "{path}");
    }

    #[test]
    fn paths_are_compared_by_whole_segments() {
        for path in ["/srv/data", "/srv/data/a", "/tmp//x/./y", "/etc/../tmp/a", "/../tmp"] {
            check(path, Ok(true));
        }
        for path in ["/", "/srv", "/srv/database", "/tmp/../etc", "/TMP/a", "/srv/data/../x"] {
            check(path, Ok(false));
        }
    }

    #[test]
    fn ambiguous_paths_are_not_judged() {
        for path in [
            "",
            "tmp/a",
            "./tmp",
            "~/a",
            "/tmp/~root/x",
            "/tmp/\0",
            "/tmp\\a",
            "C:\\x",
            "//./tmp",
            "//?/tmp",
            "/??/tmp",
            "file:///tmp",
        ] {
            check(path, Err(Unjudgeable::Type));
        }
    }
}
