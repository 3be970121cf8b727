//! The one place that reads environment variables.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Variables that a command inherits: paths, locale, certificates and package managers.
/// None of them is meant to hold a secret.
const FOR_COMMANDS: [&str; 45] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    // Trusted certificates.
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // Hosts that are reached without a proxy.
    "NO_PROXY",
    "no_proxy",
    // Caches and settings of `npx`, `uvx` and `pipx`.
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_USERCONFIG",
    "PIPX_BIN_DIR",
    "PIPX_HOME",
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_TRUSTED_HOST",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_NATIVE_TLS",
    "UV_OFFLINE",
    "UV_PYTHON_INSTALL_DIR",
    "UV_SYSTEM_CERTS",
    "UV_TOOL_BIN_DIR",
    "UV_TOOL_DIR",
    "VOLTA_HOME",
];

/// Addresses of proxies and registries. A value that contains a user name or password is not passed
/// on.
const ADDRESSES: [&str; 16] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "NPM_CONFIG_REGISTRY",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_PROXY",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
];

/// The variables that a process was started with. They may hold secrets, so there is no way to
/// print them all.
pub struct Environment {
    all: BTreeMap<OsString, OsString>,
    /// Names used in `env:NAME`: their values are our secrets.
    secret: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Environment {
        Environment { all: std::env::vars_os().collect(), secret: Mutex::default() }
    }

    /// A variable's value, if it is set.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.all.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable that a configuration or a command line names as a
    /// secret. No command inherits it from then on.
    pub fn secret(&self, name: &str) -> Option<&OsStr> {
        self.secrets().insert(name.to_owned());
        self.get(name)
    }

    fn secrets(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.secret.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The variables that a command started by the gateway inherits: paths, user, locale,
    /// certificates and network settings, but nothing that could be a secret.
    pub fn for_children(&self) -> Vec<(OsString, OsString)> {
        self.select(|name, value| match find_listed(name) {
            Some(Listed::Plain) => true,
            Some(Listed::Address) => !has_credential(value),
            None => false,
        })
    }

    /// Variables that commands do not inherit because their values hold a credential.
    pub fn list_withheld(&self) -> Vec<String> {
        let withheld = |name: &OsStr, value: &OsStr| {
            matches!(find_listed(name), Some(Listed::Address)) && has_credential(value)
        };
        let withheld = self.select(withheld).into_iter();
        withheld.map(|(name, _)| name.display().to_string()).collect()
    }

    /// The variables that a wrapped command inherits: everything that the client has set, except
    /// our own settings.
    pub fn for_wrapped(&self) -> Vec<(OsString, OsString)> {
        self.select(|name, _| !name.as_encoded_bytes().starts_with(b"SLUICE_"))
    }

    /// Variables whose values messages about a wrapped command must not repeat: all that are not
    /// known to be harmless, unless the value names a file.
    pub fn possible_secrets(&self) -> Vec<(String, String)> {
        let harmless = ["PWD", "OLDPWD", "SHLVL", "_"];
        let is_secret = |name: &OsStr, value: &OsStr| {
            let is_harmless =
                find_listed(name).is_some() || harmless.iter().any(|known| name == *known);
            let is_file = || Path::new(value).is_absolute() && Path::new(value).exists();
            !is_harmless && !is_file() || has_credential(value)
        };
        let secret = self.select(is_secret).into_iter();
        secret
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    fn select(&self, is_passed: impl Fn(&OsStr, &OsStr) -> bool) -> Vec<(OsString, OsString)> {
        let secrets = self.secrets();
        let is_secret = |name: &OsStr| name.to_str().is_some_and(|name| secrets.contains(name));
        let passed = self.all.iter().filter(|(name, value)| {
            is_passed(name.as_os_str(), value.as_os_str()) && !is_secret(name)
        });
        passed.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// One of our own settings; an empty variable counts as unset.
    pub fn setting(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// A setting that is a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.setting(name).map(PathBuf::from)
    }
}

/// How a variable on the list is passed to commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Plain,
    /// Passed unless its value holds a credential.
    Address,
}

fn find_listed(name: &OsStr) -> Option<Listed> {
    let name = name.to_str()?;
    // npm accepts its settings in either case.
    let is_npm = |known: &str| known.starts_with("NPM_") && known.eq_ignore_ascii_case(name);
    let is_in = |list: &[&str]| list.iter().any(|known| *known == name || is_npm(known));
    match () {
        () if is_in(&FOR_COMMANDS) || name.starts_with("LC_") => Some(Listed::Plain),
        () if is_in(&ADDRESSES) => Some(Listed::Address),
        () => None,
    }
}

/// Whether an address, or one of several, contains user information.
fn has_credential(value: &OsStr) -> bool {
    // A value that is not UTF-8 may hold one.
    let Some(value) = value.to_str() else { return true };
    value.split_whitespace().any(|one| {
        let rest = one.split_once("://").map_or(one, |(_, rest)| rest);
        rest.split(['/', '?', '#']).next().unwrap_or_default().contains('@')
    })
}

/// An explicit set of variables, instead of those of the process.
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Environment {
        let all = variables.map(|(name, value)| (name.into(), value.into())).into();
        Environment { all, secret: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;

    fn names(passed: Vec<(std::ffi::OsString, std::ffi::OsString)>) -> Vec<String> {
        passed.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn commands_inherit_only_listed_variables() {
        let environment = Environment::from([
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("NODE_EXTRA_CA_CERTS", "/opt/openssl@3/ca.pem"),
            ("https_proxy", "http://proxy.example.com:3128"),
            ("npm_config_registry", "https://npm.example.com/a@b/"),
            ("UV_INDEX", "own=https://pypi.example.com/simple"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("npm_config__auth", "x"),
            ("PIP_PASSWORD", "x"),
            ("SLUICE_TOKEN", "x"),
        ]);
        let passed = [
            "LC_ALL",
            "NODE_EXTRA_CA_CERTS",
            "PATH",
            "UV_INDEX",
            "https_proxy",
            "npm_config_registry",
        ];
        assert_eq!(names(environment.for_children()), passed);
        assert!(environment.list_withheld().is_empty());
        assert!(!names(environment.for_wrapped()).contains(&"SLUICE_TOKEN".to_owned()));
    }

    #[test]
    fn addresses_with_a_credential_are_withheld() {
        let environment = Environment::from([
            ("HTTPS_PROXY", "http://me:secret@proxy.example.com"),
            ("ALL_PROXY", "me:secret@proxy.example.com:1080"),
            ("PIP_EXTRA_INDEX_URL", "https://a.example.com https://token@b.example.com/simple"),
            ("UV_INDEX", "own=https://me:secret@pypi.example.com/simple"),
            ("HTTP_PROXY", "http://proxy.example.com"),
        ]);
        assert_eq!(names(environment.for_children()), ["HTTP_PROXY"]);
        let withheld = ["ALL_PROXY", "HTTPS_PROXY", "PIP_EXTRA_INDEX_URL", "UV_INDEX"];
        assert_eq!(environment.list_withheld(), withheld);
    }

    #[test]
    fn commands_do_not_inherit_variables_used_as_secrets() {
        let environment = Environment::from([("UV_INDEX_URL", "https://x"), ("TZ", "UTC")]);
        assert!(environment.secret("UV_INDEX_URL").is_some());
        assert_eq!(names(environment.for_children()), ["TZ"]);
        assert_eq!(names(environment.for_wrapped()), ["TZ"]);
    }
}
