//! What the API needs of the running gateway. The command line implements it
//! over the gateway's handle, so that this crate need not know the data path.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use serde::Serialize;
use sluice_classify::Assessment;
use sluice_policy::Timestamp;
use sluice_store::{AttachedPolicy, Grant, Name, Server, TokenHash};
use utoipa::ToSchema;

/// Something that will be there later.
pub type Eventual<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The running gateway.
pub trait Live: Send + Sync + 'static {
    /// What is in force, from the file and from the store.
    fn in_force(&self) -> Arc<InForce>;

    /// Puts in force what the store holds now, together with the file.
    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>>;

    /// Puts one stored grant in force, or ends what a token was worth.
    fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>);

    /// What was wrong with the last edit of a file; what was in force before it
    /// still is.
    fn problems(&self) -> Vec<FileProblem>;

    /// The process, and the version of its files that is in force; `None` if no
    /// gateway runs.
    fn running(&self) -> Option<Running>;

    /// A server's tools, asked for anew if `fresh`, or why they are not to be had.
    fn tools<'a>(
        &'a self,
        server: &'a Name,
        fresh: bool,
    ) -> Eventual<'a, Result<Vec<Tool>, String>>;

    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub started_at: Timestamp,
    /// Where agents connect to.
    pub listen: SocketAddr,
    /// Where people and commands connect to.
    pub admin: SocketAddr,
    pub config: FileVersion,
}

/// Which content of the configuration's files is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// A digest of the content, which is the same for the same content and tells
    /// nothing of it.
    pub version: String,
    /// When that content was put in force.
    pub loaded_at: Timestamp,
    /// When the files were last read because they had changed; `None` if they have
    /// not since the start.
    pub reloaded_at: Option<Timestamp>,
    /// Whether that was the last content that could be put in force.
    pub is_reload_ok: bool,
}

/// Servers, policies and the file's grants. Stored grants are in the store.
#[derive(Debug, Default)]
pub struct InForce {
    pub servers: Vec<Server>,
    pub policies: Vec<AttachedPolicy>,
    pub file_grants: Vec<Grant>,
}

/// Why what the store holds cannot be put in force.
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
    /// What it can do, and why it is thought so.
    pub assessment: Assessment,
    /// The definition as the server wrote it: one JSON object.
    pub definition: String,
}
