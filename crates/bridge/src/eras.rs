//! Probes a server for the eras that it speaks.

use std::time::Duration;

use http::HeaderMap;
use sluice_http::{
    Outdated, Speaks,
    headers::{METHOD, REVISION, SESSION},
};
use sluice_wire::{
    json::Bounds,
    mcp::{Era, is_unknown_era},
    rpc::Id,
};
use tokio::time::Instant;

use super::{
    Link,
    exchange::{self, Exchanged, exchange, post, set},
    message::{Declared, LEGACY, MODERN, is_modern_error, modern_request},
};

/// How long to wait before probing a server again.
const PAUSE: Duration = Duration::from_secs(2);

impl Link {
    /// Forgets the known eras, because the server behaves differently: it may be probed
    /// again at once.
    pub(super) fn forget_eras(&self) {
        self.protocol.forget(Outdated::Eras);
        if let Ok(mut probed) = self.probed.try_lock() {
            *probed = None;
        }
    }

    /// Whether a server that refused a request in this era speaks only the other era.
    pub(super) async fn crosses(&self, era: Era, headers: HeaderMap, bounds: Bounds) -> bool {
        let mut probed = self.probed.lock().await;
        let is_recent = probed.is_some_and(|probed| probed.elapsed() < PAUSE);
        if !is_recent {
            let modern = self.discovers(headers.clone(), bounds).await;
            self.protocol.note_era(Era::Modern, modern);
            // It may support the era that it has refused.
            if (modern == Speaks::Yes) == (era == Era::Legacy) {
                let legacy = if era == Era::Modern && self.has_one_client() {
                    // It can be initialized only once, and its client must do that.
                    // Whether it speaks the legacy era shows then.
                    if modern == Speaks::No { Speaks::Yes } else { Speaks::Unknown }
                } else {
                    self.initializes(headers, bounds).await
                };
                self.protocol.note_era(Era::Legacy, legacy);
            }
            *probed = Some(Instant::now());
        }
        let other = if era == Era::Modern { Era::Legacy } else { Era::Modern };
        self.protocol.speaks(era) == Speaks::No && self.protocol.speaks(other) == Speaks::Yes
    }

    async fn discovers(&self, headers: HeaderMap, bounds: Bounds) -> Speaks {
        let mut headers = exchange::plain_headers(&headers);
        set(&mut headers, REVISION, MODERN.name());
        set(&mut headers, METHOD, "server/discover");
        let bare = r#"{"jsonrpc":"2.0","method":"server/discover"}"#;
        let Ok(bare) = sluice_wire::json::Document::parse(bare, &bounds) else {
            return Speaks::Unknown;
        };
        let body = modern_request(bare.root(), "0", &Declared::gateway(), None, &[]);
        interpret_probe(
            Era::Modern,
            exchange(&self.upstream, post(headers, body), &zero(), bounds).await,
        )
    }

    async fn initializes(&self, headers: HeaderMap, bounds: Bounds) -> Speaks {
        let headers = exchange::plain_headers(&headers);
        let body = hello(&Declared::gateway(), "0");
        let answer = exchange(&self.upstream, post(headers.clone(), body), &zero(), bounds).await;
        if let Some(session) = answer.as_ref().ok().and_then(|answer| answer.headers.get(SESSION)) {
            let mut headers = headers;
            headers.insert(SESSION, session.clone());
            let end = exchange::bare(http::Method::DELETE, headers);
            let _ = self.upstream.send(end).await;
        }
        interpret_probe(Era::Legacy, answer)
    }
}

/// The `initialize` request that begins a legacy session.
pub(super) fn hello(declared: &Declared, id: &str) -> String {
    let Declared { capabilities, client } = declared;
    let gateway = Declared::gateway().client;
    let client = if client.is_empty() { &gateway } else { client };
    let revision = LEGACY.name();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{client}}}}}"#
    )
}

fn zero() -> Id {
    Id::Integer("0".into())
}

/// What the answer to a probe says about the probed era.
fn interpret_probe(era: Era, answer: Result<Exchanged, sluice_http::SendError>) -> Speaks {
    let Ok(answer) = answer else { return Speaks::Unknown };
    let status = answer.status;
    let Some(document) = &answer.answer else {
        return if is_unknown_era(status.as_u16()) { Speaks::No } else { Speaks::Unknown };
    };
    let error = document.root().get("error");
    match error {
        None if status.is_success() => Speaks::Yes,
        Some(error) if era == Era::Modern && is_modern_error(error) => Speaks::Unknown,
        Some(_) if status.is_success() || is_unknown_era(status.as_u16()) => Speaks::No,
        _ => Speaks::Unknown,
    }
}
