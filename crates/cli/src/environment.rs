//! The one place that reads the environment.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// The variables a process was started with. They may hold secrets, so that
/// there is no way to print them all.
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub(crate) fn of_process() -> Environment {
        Environment(std::env::vars_os().collect())
    }

    /// A variable's value, if it is set.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A setting of ours: a variable that is empty counts as not set.
    pub(crate) fn setting(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// A setting that is a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.setting(name).map(PathBuf::from)
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Environment {
        Environment(variables.map(|(name, value)| (name.into(), value.into())).into())
    }
}
