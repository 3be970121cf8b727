//! This machine and its user: the folders of clients' files, and the stored state.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use sluice_catalog::Catalog;
use sluice_stack::{Configured, Fingerprints, Folders, Front, Memory, Os};
use sluice_store::Server;

use crate::{
    clock,
    data::{self, DataDirectory},
};
use sluice_config::{Config, Environment, Overrides};

/// The largest state file, in bytes.
const LONGEST: u64 = 64 << 20;

pub(super) struct Machine {
    pub(super) places: Folders,
    pub(super) environment: Environment,
    /// The data directory, created when something is written to it.
    pub(super) data: PathBuf,
}

impl Machine {
    pub(super) fn of_process(data: Option<PathBuf>) -> anyhow::Result<Machine> {
        let environment = Environment::of_process();
        let overrides = Overrides { data, ..Overrides::default() };
        let data = sluice_config::data_directory(&overrides, &environment)?;
        Ok(Machine {
            places: places(&environment)?,
            // Clients start `sluice` in other working directories.
            data: std::path::absolute(data)?,
            environment,
        })
    }

    /// The servers of the gateway's configuration. The list is empty if the configuration cannot be
    /// read, which `sluice config` explains.
    pub(super) fn declared_servers(&self) -> Vec<Server> {
        let overrides = Overrides { data: Some(self.data.clone()), ..Overrides::default() };
        Config::load(&overrides, &self.environment).map(|config| config.servers).unwrap_or_default()
    }

    /// The catalogue of this machine, or the shipped one.
    pub(super) fn catalog(&self) -> Option<Catalog> {
        let own = self.directory().ok();
        let own = own.and_then(|own| Catalog::open(&data::catalog_file(own.path())).ok());
        own.or_else(|| Catalog::in_memory().ok())
    }

    /// How clients start Sluicegate from here.
    pub(super) fn front(&self) -> anyhow::Result<Front> {
        let real = std::env::current_exe().context("this program's own path is not known")?;
        let text = |path: PathBuf| {
            path.into_os_string().into_string().ok().context("a path is not valid UTF-8")
        };
        let program = find_own_path(&self.environment, &real).unwrap_or_else(|| real.clone());
        Ok(Front {
            program: text(program)?,
            real: text(real)?,
            data: text(self.data.clone())?,
            fingerprints: self.has_key().then(|| self.fingerprints()).transpose()?,
        })
    }

    /// The servers that clients on this machine are configured to use.
    pub(super) fn read_configured(&self) -> anyhow::Result<Configured> {
        Ok(Configured::read(&self.places, &self.front()?))
    }

    /// Whether the key for fingerprints exists. A command that only reads does not create it.
    fn has_key(&self) -> bool {
        self.data.join("keys/master").exists()
    }

    /// The keyed fingerprints by which servers are recognised later.
    pub(super) fn fingerprints(&self) -> anyhow::Result<Fingerprints> {
        let key = self.directory()?.master_key()?;
        Ok(Fingerprints::new(key.derive("accepted servers").as_bytes()))
    }

    /// The state of the last run.
    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        let path = self.memory_file();
        if !path.exists() {
            return Ok(Memory::default());
        }
        sluice_config::private::check(&path)?;
        let text = crate::input::read(&path.display().to_string(), LONGEST)?;
        serde_json::from_slice(&text).with_context(|| {
            format!("`{}` does not hold what belongs there\nhint: remove it; servers are then to be scanned again", path.display())
        })
    }

    /// Updates the stored state. It is read again first, because other processes may change it.
    pub(super) fn remember<T>(
        &self,
        change: impl FnOnce(&mut Memory) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let folder = self.directory()?.stack()?;
        let lock = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder));
        let lock = lock.with_context(|| format!("cannot lock `{}`", folder.display()))?;
        let mut memory = self.memory()?;
        let changed = change(&mut memory)?;
        let text = serde_json::to_string_pretty(&memory)?;
        data::write_private(&self.memory_file(), &text)?;
        drop(lock);
        Ok(changed)
    }

    pub(super) fn directory(&self) -> anyhow::Result<DataDirectory> {
        Ok(DataDirectory::open(&self.data)?)
    }

    pub(super) fn backups(&self) -> PathBuf {
        self.data.join("stack/backups")
    }

    fn memory_file(&self) -> PathBuf {
        self.data.join("stack/memory.json")
    }

    /// A path for display, with `~` for the home directory.
    pub(super) fn display_path(&self, path: &Path) -> String {
        match path.strip_prefix(&self.places.home) {
            Ok(rest) if !rest.as_os_str().is_empty() => format!("~/{}", rest.display()),
            _ => path.display().to_string(),
        }
    }
}

/// The path by which this program was started. A symbolic link stays valid when its target is
/// replaced by another version.
fn find_own_path(environment: &Environment, real: &Path) -> Option<PathBuf> {
    let word = PathBuf::from(std::env::args_os().next()?);
    let real = std::fs::canonicalize(real).ok()?;
    // A process can be started with any name, so the path is compared.
    let is_this = |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|path| path == real);
    if word.components().count() > 1 {
        return std::path::absolute(word).ok().filter(is_this);
    }
    let folders: Vec<PathBuf> = std::env::split_paths(environment.get("PATH")?).collect();
    let paths = folders.into_iter().filter(|folder| folder.is_absolute());
    paths.map(|folder| folder.join(&word)).find(|path| path.is_file()).filter(is_this)
}

/// The time now, to the second.
pub(super) fn now() -> String {
    let moment = jiff::Timestamp::from_second(clock::now().as_millis() / 1000);
    moment.unwrap_or_default().to_string()
}

fn places(environment: &Environment) -> anyhow::Result<Folders> {
    let home = environment
        .path("HOME")
        .filter(|home| home.is_absolute())
        .ok_or_else(|| anyhow!("there is no home folder to look in\nhint: set `HOME`"))?;
    let os = if cfg!(target_os = "macos") { Os::MacOs } else { Os::Linux };
    let absolute = |name| environment.path(name).filter(|path| path.is_absolute());
    let config = match os {
        Os::MacOs => home.join("Library/Application Support"),
        _ => absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
    };
    Ok(Folders {
        os,
        config,
        claude: absolute("CLAUDE_CONFIG_DIR"),
        codex: absolute("CODEX_HOME"),
        folder: std::env::current_dir().context("the current folder is gone")?,
        home,
    })
}
