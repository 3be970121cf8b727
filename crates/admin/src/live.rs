//! The interface to the running gateway. The command line implements it over the gateway's handle,
//! so that this crate need not depend on the data path.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use serde::Serialize;
use sluice_classify::Assessment;
use sluice_policy::Timestamp;
use sluice_store::{AttachedPolicy, Grant, Name, Server, TokenHash};
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

    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
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
