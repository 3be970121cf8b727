//! The one place that reads the environment.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

const FOR_CHILDREN: [&str; 12] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

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

    /// What a command that is started here may know of it: where programs and
    /// files are, who the user is, and in which language. Nothing that could be
    /// a secret.
    pub(crate) fn for_children(&self) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &OsStr| {
            let name = name.to_str().unwrap_or_default();
            FOR_CHILDREN.contains(&name) || name.starts_with("LC_")
        };
        self.0
            .iter()
            .filter(|(name, _)| is_passed(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// What a command may know of it that its client meant to start: everything
    /// that the client has set, except what is addressed to us.
    pub(crate) fn for_wrapped(&self) -> Vec<(OsString, OsString)> {
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(b"SLUICE_");
        let others = self.0.iter().filter(|(name, _)| !is_ours(name));
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
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
