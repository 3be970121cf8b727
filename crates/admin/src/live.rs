//! The interface to the running gateway. The command line implements it over the gateway's handle,
//! so that this crate need not depend on the data path.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use serde::Serialize;
use sluice_classify::Assessment;
use sluice_policy::Timestamp;
use sluice_store::{AttachedPolicy, Grant, Name, Secret, Server, TokenHash};
use utoipa::ToSchema;

/// A boxed future.
pub type Eventual<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The running gateway.
pub trait Live: Send + Sync + 'static {
    /// The active configuration, from the file and from the store.
    fn in_force(&self) -> Arc<InForce>;

    /// Applies the current content of the store, together with the file.
    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>>;

    /// Applies one stored grant, or invalidates its token.
    fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>);

    /// Stores when grants were last used; until then only the gateway knows.
    fn store_uses(&self) -> Eventual<'_, ()>;

    /// The problems of the last reload of a file, if it failed. The previous configuration is still
    /// active then.
    fn problems(&self) -> Vec<FileProblem>;

    /// The process, and the active version of its files; `None` if no gateway runs.
    fn running(&self) -> Option<Running>;

    /// The tools of a server, fetched again if `fresh`, or why they cannot be listed.
    fn tools<'a>(
        &'a self,
        server: &'a Name,
        fresh: bool,
    ) -> Eventual<'a, Result<Vec<Tool>, String>>;

    /// How signed heads are exported to each place.
    fn head_exports(&self) -> Vec<HeadExport>;

    /// Fails, with the reason and a hint, if every connection to a stored server with this URL
    /// would be refused because of its address.
    fn check_address<'a>(&'a self, url: &'a Secret) -> Eventual<'a, Result<(), String>>;

    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// The export of signed heads to one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadExport {
    /// The key of the place in `[audit.heads]`: `file` or `url`.
    pub target: &'static str,
    /// When the last one was exported since the start.
    pub exported_at: Option<Timestamp>,
    /// How many exports failed since the start.
    pub failures: u64,
    /// Why the last one failed, if it did.
    pub last_error: Option<String>,
}

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub started_at: Timestamp,
    /// The address of the agent listener.
    pub listen: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    pub config: FileVersion,
}

/// The active version of the configuration's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// A keyed digest of the content: equal for equal content, and reveals nothing about it.
    pub version: String,
    /// When that content became active.
    pub loaded_at: Timestamp,
    /// When the files were last reloaded because of a change; `None` if they have not changed since
    /// the start.
    pub reloaded_at: Option<Timestamp>,
    /// Whether that reload succeeded.
    pub is_reload_ok: bool,
}

/// Servers, policies and the file's grants. Stored grants are in the store.
#[derive(Debug, Default)]
pub struct InForce {
    pub servers: Vec<Server>,
    pub policies: Vec<AttachedPolicy>,
    pub file_grants: Vec<Grant>,
    /// Policies that are not in force, because of what they extend.
    pub problems: Vec<FileProblem>,
}

/// Why the content of the store cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TakeError(pub String);

/// A place in a file that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FileProblem {
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it, if that is known.
    #[schema(required)]
    pub hint: Option<String>,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    /// Its classification, with the reasons.
    pub assessment: Assessment,
    /// The definition as the server wrote it: one JSON object.
    pub definition: String,
}
