//! Reads lists page by page.

use sluice_wire::{
    edit::quote,
    json::{Document, Value},
};

use super::{Client, ClientError, begin::refusal};

/// More pages than any real list has.
const MOST_PAGES: u32 = 200;

impl Client<'_> {
    /// Reads all pages of `tools/list` and similar lists. Their total size is limited to that of
    /// one answer.
    pub async fn pages(&mut self, method: &str) -> Result<Vec<Document>, ClientError> {
        let too_much = |reason: String| ClientError::Answer { method: method.to_owned(), reason };
        let mut pages = Vec::new();
        let mut cursor = String::new();
        let mut bytes = 0;
        for _ in 0..MOST_PAGES {
            let page = self.request(method, &cursor, None).await?;
            if let Some(refusal) = refusal(method, &page) {
                return Err(refusal);
            }
            bytes += page.text().len();
            if bytes > self.bounds.bytes {
                return Err(too_much(format!("it is longer than {} bytes", self.bounds.bytes)));
            }
            let next = page.root().get("result").and_then(|result| result.get("nextCursor"));
            let next =
                next.and_then(Value::as_str).map(|next| format!(r#""cursor":{}"#, quote(next)));
            pages.push(page);
            let Some(next) = next else { return Ok(pages) };
            cursor = next;
        }
        Err(too_much(format!("it has more than {MOST_PAGES} pages")))
    }
}
