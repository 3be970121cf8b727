//! One request of a legacy client to a modern server, repeated as long as the server asks for
//! input.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Response, StatusCode};
use sluice_http::{
    AnswerBody,
    headers::{METHOD, NAME, REVISION},
};
use sluice_wire::{
    json::{Document, Value},
    mcp::header_text,
    rpc::{Id, Message},
};

use super::{LegacyRequest, ToModern};
use crate::{
    RefusedRound, RoundEnd,
    exchange::{Reader, post, set},
    message::{
        INTERNAL, LEGACY, MODERN, error, failure, is_header_mismatch, known_request, legacy_answer,
        may_want_input, modern_request, unbridgeable,
    },
    response::{Answer, ResponseWriter},
};

/// How often the server may ask for input for one request.
const MOST_ROUNDS: u32 = 16;
/// How long a request continues after its client has disconnected.
const GRACE: Duration = Duration::from_mins(1);

/// Members that are added to a repeated request.
type Added = Vec<(&'static str, String)>;

/// What follows a round.
enum Round {
    /// The client has its answer.
    Done,
    /// The request must be repeated, with these parameters.
    Again(Added),
    /// The server refused the headers, so it did nothing.
    Mismatch(String),
}

/// Waits until a client has been gone for some time. A legacy client that disconnects has
/// not cancelled its request, but the request must not run for ever.
async fn wait_for_abandonment(gone: impl Future<Output = ()>) {
    gone.await;
    tokio::time::sleep(GRACE).await;
}

/// Asks whether a request may be sent again.
async fn permit_round(asked: &LegacyRequest) -> Result<(), RefusedRound> {
    match &asked.caller.rounds {
        Some(rounds) => rounds.begin(&asked.document).await,
        None => Err(RefusedRound(error(&asked.id.to_json(), INTERNAL, "it may not be repeated"))),
    }
}

fn end_round(asked: &LegacyRequest, how: RoundEnd) {
    if let Some(rounds) = &asked.caller.rounds {
        rounds.end(how);
    }
}

/// The error for a modern server that sends requests on a stream, as legacy servers do.
/// Unknown methods are not quoted, because they are the server's own text.
fn describe_stream_request(method: &str) -> String {
    let what = match known_request(method) {
        Some(known) => format!("the request `{known}`"),
        None => "a request".to_owned(),
    };
    let revision = MODERN.name();
    format!("the server sent {what} on a stream, which {revision} forbids: it asks in a result")
}

impl ToModern {
    /// Sends a request in a task of its own: a legacy client that disconnects has not
    /// cancelled its request.
    pub(super) async fn call(self: &Arc<Self>, asked: LegacyRequest) -> Answer {
        let (mut output, begun) = ResponseWriter::new();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let id = asked.id.to_json();
            let mut running = this.memory.run(&asked.caller.key, &id);
            let gone = output.wait_for_disconnect();
            tokio::select! {
                () = this.rounds(&asked, &id, &mut output) => return,
                () = running.wait_for_cancellation() => {}
                () = wait_for_abandonment(gone) => return,
            }
            // The client expects no answer, so the stream ends without one.
            output.cancel().await;
        });
        begun.answer().await
    }

    async fn rounds(&self, asked: &LegacyRequest, id: &str, output: &mut ResponseWriter) {
        let (mut added, mut was_mismatched) = (Added::new(), false);
        for number in 0..MOST_ROUNDS {
            // Each repetition has an id of its own, and is a call of its own.
            let own = if number == 0 {
                asked.id.clone()
            } else {
                if let Err(RefusedRound(text)) = permit_round(asked).await {
                    return output.finish(StatusCode::OK, text).await;
                }
                Id::String(format!("again-{number}"))
            };
            match self.round(asked, &own, &added, output).await {
                Ok(Round::Done) => return,
                Ok(Round::Again(next)) => added = next,
                Ok(Round::Mismatch(_)) if !was_mismatched => {
                    was_mismatched = true;
                    end_round(asked, RoundEnd::Refused);
                    self.mirrors.forget().await;
                }
                Ok(Round::Mismatch(text)) => return output.finish(StatusCode::OK, text).await,
                Err(why) => return output.report_bad_answer(id, &why).await,
            }
        }
        let what = format!("the server wants input for the {MOST_ROUNDS}th time");
        output.report_bad_answer(id, &what).await;
    }

    async fn round(
        &self,
        asked: &LegacyRequest,
        own: &Id,
        added: &[(&'static str, String)],
        output: &mut ResponseWriter,
    ) -> Result<Round, String> {
        let headers = self.headers(asked).await;
        let level = self.memory.level(&asked.caller.key);
        let request = asked.document.root();
        let body =
            modern_request(request, &own.to_json(), &asked.declared, level.as_deref(), added);
        let answer = match self.link.upstream.send(post(headers, body)).await {
            Ok(answer) => answer,
            // Before the first round, nothing has reached the server.
            Err(error) if *own == asked.id => {
                output.fail(error);
                return Ok(Round::Done);
            }
            Err(error) => return Err(error.to_string()),
        };
        if !answer.status().is_success() {
            return self.relay_refusal(asked, answer, output).await;
        }
        let mut reader = Reader::new(answer, asked.caller.bounds);
        while let Some(document) = reader.next().await? {
            match Message::read(&document)
                .map_err(|_| "its answer is not a JSON-RPC message".to_owned())?
            {
                Message::Notification { .. } => output.say(document.text()).await,
                Message::Response { id, result } if id == *own => {
                    return self.result(asked, &document, result, output).await;
                }
                Message::Failure { id: Some(id), error } if id == *own => {
                    self.relay_error(asked, error, output).await;
                    return Ok(Round::Done);
                }
                Message::Request { method, .. } => return Err(describe_stream_request(method)),
                _ => return Err("it answered another request".into()),
            }
        }
        Err("its stream ended without an answer".into())
    }

    async fn headers(&self, asked: &LegacyRequest) -> HeaderMap {
        let params = asked.document.root().get("params");
        let mut headers = asked.headers.clone();
        set(&mut headers, REVISION, MODERN.name());
        set(&mut headers, METHOD, &header_text(&asked.method));
        let named = match asked.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return headers,
        };
        let target = params.and_then(|params| params.get(named)).and_then(Value::as_str);
        if let Some(target) = target {
            set(&mut headers, NAME, &header_text(target));
        }
        if asked.method == "tools/call" {
            let (upstream, bounds) = (&self.link.upstream, asked.caller.bounds);
            self.mirrors.set(upstream, &asked.headers, params, &mut headers, bounds).await;
        }
        headers
    }

    /// Passes on an answer with an error status.
    async fn relay_refusal(
        &self,
        asked: &LegacyRequest,
        answer: Response<AnswerBody>,
        output: &mut ResponseWriter,
    ) -> Result<Round, String> {
        let status = answer.status();
        let said = if status.is_client_error() && status != StatusCode::UNAUTHORIZED {
            Reader::new(answer, asked.caller.bounds).next().await.ok().flatten()
        } else {
            None
        };
        let error = said.as_ref().and_then(|said| said.root().get("error"));
        let Some(error) = error else {
            // The server may have been replaced by another.
            self.link.forget_eras();
            output.finish_empty(status);
            return Ok(Round::Done);
        };
        if is_header_mismatch(error) {
            let id = asked.id.to_json();
            return Ok(Round::Mismatch(failure(error, &id, &asked.method, LEGACY).0));
        }
        self.relay_error(asked, error, output).await;
        Ok(Round::Done)
    }

    async fn relay_error(
        &self,
        asked: &LegacyRequest,
        error: Value<'_>,
        output: &mut ResponseWriter,
    ) {
        let (text, code) = failure(error, &asked.id.to_json(), &asked.method, LEGACY);
        if code == "-32022" {
            self.link.forget_eras();
        }
        output.finish(StatusCode::OK, text).await;
    }

    async fn result(
        &self,
        asked: &LegacyRequest,
        answer: &Document,
        result: Value<'_>,
        output: &mut ResponseWriter,
    ) -> Result<Round, String> {
        let id = asked.id.to_json();
        match result.get("resultType").map_or(Some("complete"), Value::as_str) {
            Some("complete") => {
                output.finish(StatusCode::OK, legacy_answer(answer, result, &id)).await;
                Ok(Round::Done)
            }
            Some("input_required") if may_want_input(&asked.method) => {
                // Nothing is at the server while people are asked.
                end_round(asked, RoundEnd::WantsInput);
                match self.gather_input(asked, result, output).await {
                    Ok(added) => Ok(Round::Again(added)),
                    Err(what) => {
                        output.finish(StatusCode::OK, error(&id, INTERNAL, &what)).await;
                        Ok(Round::Done)
                    }
                }
            }
            kind => {
                let kind = if kind == Some("task") { "a task" } else { "a result of its kind" };
                let what = unbridgeable(kind, &asked.revision, MODERN.name());
                output.finish(StatusCode::OK, error(&id, INTERNAL, &what)).await;
                Ok(Round::Done)
            }
        }
    }
}
