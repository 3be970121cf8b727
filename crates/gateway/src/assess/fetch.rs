//! Fetching a server's list of tools with the gateway's own MCP client.

use sluice_http::SendError;
use sluice_upstream::client::ClientError;
use sluice_wire::json::{Bounds, Document};

use crate::link::Link;

/// Fetches all pages of a server's list of tools.
pub(super) async fn pages(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let fetched = tokio::time::timeout(link.timeout, fetch(link, bounds)).await;
    fetched.unwrap_or_else(|_| Err(explain(link, "it did not answer in time".into())))
}

/// Why there is no list, with the last stderr lines if the server is a command.
fn explain(link: &Link, why: String) -> String {
    match link.state.last_words() {
        Some(words) => format!("{why}: \"{words}\""),
        None => why,
    }
}

async fn fetch(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let said = |error: ClientError| match error {
        // The reason already contains those lines.
        ClientError::Send(SendError::NotStarted(why)) => why,
        error => explain(link, error.to_string()),
    };
    let headers = link.own_headers();
    let mut client = link.state.introduce(&headers, *bounds).await.map_err(said)?;
    let pages = client.pages("tools/list").await.map_err(said)?;
    client.goodbye().await;
    Ok(pages)
}
