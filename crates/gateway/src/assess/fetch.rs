//! Asking a server for its tools, as a client of our own.

use sluice_upstream::client::{Client, ClientError, Declares};
use sluice_wire::{
    edit::quoted,
    json::{Bounds, Document, Value},
    mcp::Revision,
};

use crate::snapshot::Link;

/// More pages than any honest list has.
const MOST_PAGES: u32 = 200;

/// All pages of a server's list of tools.
pub(super) async fn pages(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let fetched = tokio::time::timeout(link.timeout, asked(link, bounds)).await;
    fetched.map_err(|_| "it did not answer in time".to_owned())?
}

async fn asked(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let said = |error: ClientError| error.to_string();
    let introduced =
        Client::introduce(&link.upstream, &link.headers, *bounds, Declares::Everything);
    let mut client = introduced.await.map_err(said)?;
    if let Some((bridge, revision)) =
        link.bridge.as_ref().zip(Revision::from_name(client.revision()))
    {
        bridge.learn(revision.era());
    }
    let mut pages = Vec::new();
    let mut cursor = String::new();
    for _ in 0..MOST_PAGES {
        let page = client.request("tools/list", &cursor, None).await.map_err(said)?;
        let next = page.root().get("result").and_then(|result| result.get("nextCursor"));
        let next = next.and_then(Value::as_str).map(|next| format!(r#""cursor":{}"#, quoted(next)));
        pages.push(page);
        let Some(next) = next else {
            client.goodbye().await;
            return Ok(pages);
        };
        cursor = next;
    }
    Err(format!("its list has more than {MOST_PAGES} pages"))
}
