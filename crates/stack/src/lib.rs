//! MCP client configuration files: find, read, rewrite, restore.
//!
//! Every client keeps the servers it may use in a file of its own, in a place and
//! form of its own. Here those files are found ([`Folders`]), read ([`ConfigFile`]),
//! rewritten so that a server is reached through `sluice wrap` ([`ConfigFile::adopt`]),
//! and put back as they were ([`Undo`]). What is a secret in them is held by
//! [`Guarded`], which shows itself only masked. Nothing here starts a server,
//! reads the environment or knows the time.
//!
//! The crate is large because eight clients have three forms of file, and because
//! nothing of what a stranger may put into one is let through unread: masking,
//! backups and hooks are each as long as reading.

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
