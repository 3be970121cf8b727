//! Requests of a server that the policy forbids: they are turned away in order, one after the
//! other, by one task of the stream on which they came.

use std::{sync::Arc, time::Duration};

use sluice_policy::AccessDenial;
use sluice_wire::rpc::Id;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    exchange::Exchange,
    reserve::{Asked, Permitted, deny_server_request},
    send::forward,
};

/// The most forbidden requests that one stream may contain within `PERIOD`.
const MOST: u32 = 64;
const PERIOD: Duration = Duration::from_mins(1);

/// A request that is to be turned away.
struct Refused {
    exchange: Arc<Exchange>,
    id: Id,
    asked: Asked,
    denial: AccessDenial,
}

/// The forbidden requests of one stream.
#[derive(Debug, Default)]
pub(super) struct RefusedRequests {
    /// To the task that turns them away; started with the first one.
    sender: Option<mpsc::Sender<Refused>>,
    /// When the current period began, and how many requests it has had.
    period: Option<(Instant, u32)>,
}

impl RefusedRequests {
    /// Has a request turned away. An error says that there are too many: the stream is cut.
    pub(super) fn add(
        &mut self,
        exchange: &Arc<Exchange>,
        id: &Id,
        asked: Asked,
        denial: AccessDenial,
    ) -> Result<(), String> {
        self.count()?;
        let sender = self.sender.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(MOST as usize);
            tokio::spawn(turn_away_all(receiver));
            sender
        });
        let exchange = Arc::clone(exchange);
        let refused = Refused { exchange, id: id.clone(), asked, denial };
        sender.try_send(refused).map_err(|_| too_many())
    }

    fn count(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let (begun, count) = match self.period {
            Some((begun, count)) if now.duration_since(begun) < PERIOD => (begun, count),
            _ => (now, 0),
        };
        if count >= MOST {
            return Err(too_many());
        }
        self.period = Some((begun, count + 1));
        Ok(())
    }
}

fn too_many() -> String {
    format!(
        "the server sent more than {MOST} requests in {} s that the policy forbids",
        PERIOD.as_secs()
    )
}

async fn turn_away_all(mut receiver: mpsc::Receiver<Refused>) {
    while let Some(refused) = receiver.recv().await {
        turn_away(refused).await;
    }
}

/// Records that a request of the server is refused, and answers it with an error.
async fn turn_away(refused: Refused) {
    let Refused { exchange, id, asked, denial } = refused;
    if deny_server_request(&exchange, &asked, denial).await.is_ok() {
        // In shadow mode the request is passed on, and the client answers it.
        return;
    }
    let permitted = Permitted::refuse_server_request(&id, asked.method);
    if let Err(refusal) = forward(&exchange, permitted).await {
        let refusal = format!("{refusal:?}");
        let why = exchange.server.link.without_secrets(&refusal);
        tracing::warn!(
            server = exchange.server_name(),
            %why,
            "a server could not be told that its request was refused"
        );
    }
}
