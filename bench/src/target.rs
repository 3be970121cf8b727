//! Where calls are sent.

use std::{net::SocketAddr, str::FromStr};

use anyhow::Context as _;

/// An endpoint of MCP over HTTP, and the token that opens it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    /// A session that was begun there.
    pub(crate) session: Option<String>,
}

impl FromStr for Target {
    type Err = anyhow::Error;

    /// Reads `http://<ip>:<port>/<path>`; names are not looked up.
    fn from_str(text: &str) -> anyhow::Result<Target> {
        let rest = text.strip_prefix("http://").context("expected `http://<ip>:<port>/<path>`")?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address =
            address.parse().with_context(|| format!("`{address}` is not `<ip>:<port>`"))?;
        Ok(Target { address, path: format!("/{path}"), token: None, session: None })
    }
}
