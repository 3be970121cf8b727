//! Asking a server for its tools, as a client of our own.

use sluice_http::SendError;
use sluice_upstream::client::{Client, ClientError, Declares};
use sluice_wire::{
    json::{Bounds, Document},
    mcp::Revision,
};

use crate::link::Link;

/// All pages of a server's list of tools.
pub(super) async fn pages(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let fetched = tokio::time::timeout(link.timeout, asked(link, bounds)).await;
    fetched.unwrap_or_else(|_| Err(explain(link, "it did not answer in time".into())))
}

/// Why there is no list, with the last that the server wrote, if it is a command.
fn explain(link: &Link, why: String) -> String {
    match link.state.upstream.last_words() {
        Some(words) => format!("{why}: \"{words}\""),
        None => why,
    }
}

async fn asked(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let said = |error: ClientError| match error {
        // That is said already.
        ClientError::Send(SendError::NotStarted(why)) => why,
        error => explain(link, error.to_string()),
    };
    let headers = link.credential.to_headers();
    let introduced =
        Client::introduce(&link.state.upstream, &headers, *bounds, Declares::Everything);
    let mut client = introduced.await.map_err(said)?;
    if let Some((bridge, revision)) =
        link.state.bridge.as_ref().zip(Revision::from_name(client.revision()))
    {
        bridge.learn(revision.era());
    }
    let pages = client.pages("tools/list").await.map_err(said)?;
    client.goodbye().await;
    Ok(pages)
}
