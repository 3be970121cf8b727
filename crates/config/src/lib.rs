//! The configuration: `sluice.toml` and `servers.d`, overlaid by flags and the
//! environment.
//!
//! A file is read table by table (`section`, `value`), each part by the module named
//! after it, and all errors in it and its policies are collected (`problem`). The result
//! is valid: names exist, policies compile and pass their own tests, and secrets are
//! resolved. Opening the store, listening, and parsing arguments are left to the binary.
//! `declare` and `span` are rules that the API shares with the file.
//!
//! This crate is large because each table of the file has a module of its own, which reads every
//! key with its position, so that all problems are told at once and in their place.

mod command;
pub mod declare;
mod environment;
mod folder;
mod grant;
mod head_exports;
mod loader;
mod options;
mod policy;
pub mod private;
mod problem;
pub mod secret;
mod section;
mod server;
mod settings;
mod show;
mod source;
pub mod span;
mod syntax;
mod unquoted;
mod value;
mod watched;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use sluice_store::{AttachedPolicy, Grant, Server, TokenHash};

pub use environment::Environment;
pub use folder::{server_file, servers_folder};
pub use head_exports::HeadExports;
pub use policy::PolicyForAll;
pub use problem::FileProblems;
pub use server::TIMEOUT;
pub use settings::{Audit, Limits, Tls};
pub use show::Shown;
pub use source::{MOST_POLICY, Source, read_base_files};
pub use watched::{WatchedFile, digest};

use self::{loader::Loader, policy::DeclaredPolicies, section::Section, settings::Settings};

/// The default configuration file.
const DEFAULT_FILE: &str = "sluice.toml";
/// The largest file in bytes: enough for some hundred thousand grants.
const LONGEST_FILE: u64 = 64 << 20;

/// The settings on the command line; they take precedence over the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The configuration file; by default `sluice.toml`, if it exists.
    pub config: Option<PathBuf>,
    /// Address of the agent listener.
    pub listen: Option<SocketAddr>,
    /// Address of the admin listener.
    pub admin: Option<SocketAddr>,
    /// The data directory.
    pub data: Option<PathBuf>,
}

/// Reads an address to listen on, as a flag gives it.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    value::network::socket_address(text).map_err(|wrong| {
        let hint = wrong.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("it must be {}{hint}", wrong.expected)
    })
}

/// A complete and valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub data: PathBuf,
    /// Host names, some with a port, besides the listeners' own.
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// Whether metrics need no token.
    pub are_metrics_open: bool,
    pub tls: Option<Tls>,
    pub limits: Limits,
    pub audit: Audit,
    pub allow_private: Vec<IpNet>,
    pub servers: Vec<Server>,
    pub policies: Vec<AttachedPolicy>,
    /// Policies that servers from the store have as well; those of the file are in `policies`.
    pub policies_for_all: Vec<PolicyForAll>,
    pub grants: Vec<(TokenHash, Grant)>,
    /// Every file that was read or looked for: a change to one of them changes the configuration.
    pub files: Vec<WatchedFile>,
}

/// Why the configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read configuration file `{}`\nhint: `sluice init` writes one to start from; `--config` names another", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("the configuration has problems")]
    Problems(Vec<FileProblems>),
    #[error(
        "the agent listener and the admin listener cannot share the address `{0}`\nhint: give `--admin` or `--listen` another port"
    )]
    SameAddress(SocketAddr),
    #[error(
        "there is no place for the data directory\nhint: name one with `--data` or `SLUICE_DATA`"
    )]
    NoData,
}

impl Config {
    /// Reads the configuration, or reports everything that is wrong with it.
    pub fn load(overrides: &Overrides, environment: &Environment) -> Result<Config, LoadError> {
        Config::read(overrides, environment).0
    }

    /// Like [`Config::load`], but also returns every file that it read, even on failure: a
    /// change to one of them may fix the configuration.
    pub fn read(
        overrides: &Overrides,
        environment: &Environment,
    ) -> (Result<Config, LoadError>, Vec<WatchedFile>) {
        let path = overrides.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let main = WatchedFile::note(&path);
        let text = match file_text(overrides) {
            Ok((_, text)) => text,
            Err(error) => return (Err(error), vec![main]),
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut loader = Loader::new(&folder, environment);
        loader.files.push(main);
        let read =
            syntax::with_root(&text, &mut loader, |root, loader| read_all(root, overrides, loader));
        let files = std::mem::take(&mut loader.files);
        let Some(read) = read.filter(|_| loader.findings.is_empty()) else {
            let source = Source { name: path.display().to_string(), text };
            return (Err(LoadError::Problems(loader.findings.into_files(source))), files);
        };
        (read.overlaid(overrides, environment, files.clone()), files)
    }
}

/// Reads only the data directory, for commands that only need to find a running gateway: the rest
/// of the file may need secrets that they do not have.
pub fn data_directory(
    overrides: &Overrides,
    environment: &Environment,
) -> Result<PathBuf, LoadError> {
    if let Some(data) = overrides.data.clone().or_else(|| environment.path("SLUICE_DATA")) {
        return Ok(data);
    }
    let (path, text) = file_text(overrides)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut loader = Loader::new(&folder, environment);
    let data = syntax::with_root(&text, &mut loader, settings::data).flatten();
    if loader.findings.is_empty() {
        return data.or_else(|| home_data(environment)).ok_or(LoadError::NoData);
    }
    let source = Source { name: path.display().to_string(), text };
    Err(LoadError::Problems(loader.findings.into_files(source)))
}

/// The file's path and text; the text is empty if the default file does not exist.
fn file_text(overrides: &Overrides) -> Result<(PathBuf, Vec<u8>), LoadError> {
    let path = overrides.config.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    match loader::read(&path, LONGEST_FILE + 1) {
        Ok(text) if text.len() as u64 > LONGEST_FILE => {
            let long = io::Error::other(format!("it is longer than {} MiB", LONGEST_FILE >> 20));
            Err(LoadError::Unreadable(path, long))
        }
        Ok(text) => Ok((path, text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && overrides.config.is_none() => {
            Ok((path, Vec::new()))
        }
        Err(error) => Err(LoadError::Unreadable(path, error)),
    }
}

/// The contents of the file, before overrides.
struct Read {
    settings: Settings,
    servers: Vec<Server>,
    policies: Vec<AttachedPolicy>,
    policies_for_all: Vec<PolicyForAll>,
    grants: Vec<(TokenHash, Grant)>,
}

fn read_all(root: &Section<'_>, overrides: &Overrides, loader: &mut Loader<'_>) -> Read {
    let settings = Settings::read(root, loader);
    let mut servers = server::read(root, loader);
    if let Some(data) = data_path(overrides, loader.environment, settings.data.as_ref()) {
        let added = folder::read(&data, &servers, loader);
        servers.extend(added);
    }
    let names: Vec<_> = servers.iter().map(|one| one.name.clone()).collect();
    let policies = policy::read(root, &names, loader);
    server::check_anonymous(&servers, &policies.names, loader);
    let grants = grant::read(root, &names, loader);
    let servers = servers.into_iter().filter_map(|one| one.server).collect();
    let DeclaredPolicies { attached: policies, everywhere: policies_for_all, .. } = policies;
    Read { settings, servers, policies, policies_for_all, grants }
}

impl Read {
    /// Merges the flags, the environment, the file and the defaults, in this order of precedence.
    fn overlaid(
        self,
        overrides: &Overrides,
        environment: &Environment,
        files: Vec<WatchedFile>,
    ) -> Result<Config, LoadError> {
        let Read { settings, servers, policies, policies_for_all, grants } = self;
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = overrides.listen.or(settings.listen).unwrap_or(at(8787));
        let admin = overrides.admin.or(settings.admin).unwrap_or(at(8788));
        if listen == admin && listen.port() != 0 {
            return Err(LoadError::SameAddress(listen));
        }
        let data = data_path(overrides, environment, settings.data.as_ref());
        let data = data.ok_or(LoadError::NoData)?;
        Ok(Config {
            listen,
            admin,
            data,
            allowed_hosts: settings.allowed_hosts,
            allowed_origins: settings.allowed_origins,
            are_metrics_open: settings.are_metrics_open,
            tls: settings.tls,
            limits: settings.limits,
            audit: settings.audit,
            allow_private: settings.allow_private,
            servers,
            policies,
            policies_for_all,
            grants,
            files,
        })
    }
}

/// The data directory, from the first source that names it.
fn data_path(
    overrides: &Overrides,
    environment: &Environment,
    of_file: Option<&PathBuf>,
) -> Option<PathBuf> {
    let named = overrides.data.clone().or_else(|| environment.path("SLUICE_DATA"));
    named.or_else(|| of_file.cloned()).or_else(|| home_data(environment))
}

/// The default folder for users' data. A relative `XDG_DATA_HOME` is ignored, as its specification
/// demands.
fn home_data(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name| environment.path(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/share")))
        .map(|folder| folder.join("sluice"))
}

#[cfg(test)]
mod tests;
