//! What the API needs of the running gateway. The command line implements it
//! over the gateway's handle, so that this crate need not know the data path.

use std::{pin::Pin, sync::Arc};

use serde::Serialize;
use sluice_classify::Assessment;
use sluice_store::{AttachedPolicy, Grant, Name, Server, TokenHash};

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

    /// A server's tools, asked for anew if `fresh`, or why they are not to be had.
    fn tools<'a>(
        &'a self,
        server: &'a Name,
        fresh: bool,
    ) -> Eventual<'a, Result<Vec<Tool>, String>>;

    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileProblem {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
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
