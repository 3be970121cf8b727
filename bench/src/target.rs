//! The target of calls.

use std::{net::SocketAddr, str::FromStr};

use anyhow::Context as _;

/// An MCP endpoint over HTTP, and its token.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    /// An open session.
    pub(crate) session: Option<String>,
}

impl FromStr for Target {
    type Err = anyhow::Error;

    /// Parses `http://<ip>:<port>/<path>`; host names are not resolved.
    fn from_str(text: &str) -> anyhow::Result<Target> {
        let rest = text.strip_prefix("http://").context("expected `http://<ip>:<port>/<path>`")?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address =
            address.parse().with_context(|| format!("`{address}` is not `<ip>:<port>`"))?;
        Ok(Target { address, path: format!("/{path}"), token: None, session: None })
    }
}
