//! The handshake: detects the era that the server supports.

use std::time::Duration;

use http::HeaderMap;
use sluice_http::headers::SESSION;
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::Revision,
};

use super::{Client, ClientError, Declares, Manner, NAME, VERSION};
use crate::Upstream;

impl<'u> Client<'u> {
    /// Detects the era of the server, and does the handshake.
    pub async fn introduce(
        upstream: &'u Upstream,
        headers: &'u HeaderMap,
        bounds: Bounds,
        declares: Declares,
    ) -> Result<Client<'u>, ClientError> {
        let begin = || Client::new(upstream, headers, bounds, declares);
        match begin().discover().await {
            Ok(Some(client)) => return Ok(client),
            Err(ClientError::Send(error)) => return Err(error.into()),
            // A legacy server may answer this with any error. If it requires a credential, it
            // repeats that below.
            Ok(None) | Err(_) => {}
        }
        begin().initialize().await
    }

    /// Does the handshake with a server that may ignore requests it does not know, such as a
    /// command: after `probe`, both handshakes run at once. If both are refused, that is an error.
    pub async fn introduce_unsure(
        upstream: &'u Upstream,
        headers: &'u HeaderMap,
        bounds: Bounds,
        declares: Declares,
        probe: Duration,
    ) -> Result<Client<'u>, ClientError> {
        let begin = || Client::new(upstream, headers, bounds, declares);
        let discovery = begin().discover();
        tokio::pin!(discovery);
        match tokio::time::timeout(probe, &mut discovery).await {
            Ok(Ok(Some(client))) => return Ok(client),
            Ok(Err(error @ ClientError::Send(_))) => return Err(error),
            Ok(_) => return begin().initialize_strictly().await,
            Err(_) => {}
        }
        // It may start slowly, or ignore the request.
        let late = async {
            match discovery.await {
                Ok(Some(client)) => client,
                _ => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        let refused = tokio::select! {
            biased;
            client = &mut late => return Ok(client),
            answered = begin().initialize_strictly() => match answered {
                Ok(client) => return Ok(client),
                Err(error) => error,
            },
        };
        // The first handshake may be answered after the second one.
        tokio::time::timeout(probe, late).await.map_err(|_| refused)
    }

    /// Does the legacy handshake without detection, for servers that exit on a request they do not
    /// know.
    pub async fn introduce_legacy(
        upstream: &'u Upstream,
        headers: &'u HeaderMap,
        bounds: Bounds,
        declares: Declares,
    ) -> Result<Client<'u>, ClientError> {
        Client::new(upstream, headers, bounds, declares).initialize_strictly().await
    }

    fn new(
        upstream: &'u Upstream,
        headers: &'u HeaderMap,
        bounds: Bounds,
        declares: Declares,
    ) -> Client<'u> {
        let manner = Manner::Modern;
        Client { upstream, headers, bounds, declares, manner, introduction: None, next: 0 }
    }

    /// `None` if the server does not support the modern era.
    async fn discover(mut self) -> Result<Option<Client<'u>>, ClientError> {
        let answer = self.request("server/discover", "", None).await?;
        let is_modern = answer.root().get("result").is_some();
        self.introduction = Some(answer);
        Ok(is_modern.then_some(self))
    }

    async fn initialize_strictly(self) -> Result<Client<'u>, ClientError> {
        let client = self.initialize().await?;
        match client.introduction.as_ref().and_then(|answer| refusal("initialize", answer)) {
            Some(refusal) => Err(refusal),
            None => Ok(client),
        }
    }

    async fn initialize(mut self) -> Result<Client<'u>, ClientError> {
        let newest = Revision::V2025_11_25.name();
        self.manner = Manner::Legacy { session: None, revision: newest.into() };
        let capabilities = self.declares.capabilities();
        let hello = format!(
            r#""protocolVersion":"{newest}","capabilities":{capabilities},"clientInfo":{{"name":"{NAME}","version":"{VERSION}"}}"#
        );
        let id = self.take_id();
        let answer = self.send("initialize", &self.message(id, "initialize", &hello), None).await?;
        let session = answer.headers().get(SESSION).cloned();
        let introduction = self.response("initialize", answer, id).await?;
        let agreed =
            introduction.root().get("result").and_then(|result| result.get("protocolVersion"));
        let revision = agreed.and_then(Value::as_str).unwrap_or(Revision::UNSAID.name()).to_owned();
        self.manner = Manner::Legacy { session, revision };
        self.introduction = Some(introduction);
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        self.send("notifications/initialized", ready, None).await?;
        Ok(self)
    }
}

/// The error in a message, if it is one.
pub(super) fn refusal(method: &str, answer: &Document) -> Option<ClientError> {
    let error = answer.root().get("error")?;
    let message = error.get("message").and_then(Value::as_str).unwrap_or("it gives no reason");
    Some(ClientError::Refused { method: method.to_owned(), message: message.to_owned() })
}
