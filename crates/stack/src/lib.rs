//! MCP client configuration files: find, read, rewrite, restore.
//!
//! Every client keeps its servers in a file with its own location and format. This
//! crate finds those files ([`Folders`]), reads them ([`ConfigFile`]), rewrites them so
//! that a server is reached through `sluice wrap` ([`ConfigFile::adopt`]), and restores
//! them ([`Undo`]). Secrets are held by [`Guarded`], which prints only a masked form.
//! Nothing here starts a server, reads the environment or knows the time.
//!
//! The crate is large because eight clients have three file formats, and because the
//! files are untrusted input that contains secrets: masking, backups and hooks are each
//! as long as reading.

mod adopt;
mod backup;
mod client;
mod diff;
mod digest;
mod disk;
mod entry;
mod file;
mod guarded;
mod hook;
mod json;
mod locations;
mod memory;
mod package;
mod restore;
mod set_up;
mod splice;
mod survey;
mod tables;
mod wrapped;

pub use adopt::{AdoptError, Adoption, Front, Plan};
pub use backup::{Backup, BackupError, Manifest};
pub use client::Client;
pub use digest::{Fingerprints, sha256};
pub use disk::{ReadProblem, WriteError};
pub use entry::{Entry, Scope, Transport, Wrapped};
pub use file::{ConfigFile, FileState, Problem};
pub use guarded::Guarded;
pub use hook::{Answer, HookCall, HookError, HookFile, HookQuestion, Hooked};
pub use locations::{Candidate, Folders, Os};
pub use memory::{Ability, Changes, Memory, Remembered, SeenEntry, Tool};
pub use package::{Package, Registry};
pub use restore::{Left, Outcome, Undo};
pub use set_up::{Access, SetUp};
pub use survey::{Advice, Configured, Group, Survey};
