//! One request of a modern client to a legacy server: follows its stream to the answer,
//! or to the first server request that needs the client.

use std::sync::Arc;

use http::{Response, StatusCode};
use sluice_http::AnswerBody;
use sluice_wire::{
    json::{Document, Value},
    rpc::{Id, Message},
};

use super::{
    ModernRequest, ToLegacy,
    dispatch::Dispatcher,
    in_flight::{Heard, InFlight, Sending, Source, UnderWay},
    refuse_open,
    server_request::ServerRequest,
    suspended::{Place, Suspended},
};
use crate::{
    exchange::{Reader, post},
    message::{
        BAD_PARAMS, INTERNAL, LEGACY, MODERN, error, failure, legacy_request, lets_ask,
        may_want_input, modern_answer, response, severity, unbridgeable,
    },
    response::{Answer, ResponseWriter},
};

/// The next step after a message on the stream of a request.
enum Next {
    GoOn,
    Wanted(ServerRequest),
    /// The answer, with its status.
    Answered(StatusCode, String),
}

impl ToLegacy {
    pub(super) async fn call(self: &Arc<Self>, asked: ModernRequest) -> Answer {
        let (mut output, begun) = ResponseWriter::new();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let params = asked.document.root().get("params");
            let given = params.and_then(|params| params.get("inputResponses"));
            if given.is_some_and(|given| !are_answers(given)) {
                let what = "`inputResponses` must be an object of objects";
                let said = error(&asked.id.to_json(), BAD_PARAMS, what);
                return output.finish(StatusCode::BAD_REQUEST, said).await;
            }
            let is_resumed = params.is_some_and(|params| params.get("requestState").is_some());
            let calling = if is_resumed {
                this.resume(&asked, &mut output).await
            } else {
                this.begin(&asked, &mut output).await
            };
            if let Some(calling) = calling {
                this.follow(calling, &asked, &mut output).await;
            }
        });
        begun.answer().await
    }

    /// Sends the request; `None` if the client was already answered or is gone.
    async fn begin(&self, asked: &ModernRequest, output: &mut ResponseWriter) -> Option<InFlight> {
        // A session that the server has lost is opened again, once.
        for is_last in [false, true] {
            let session = tokio::select! {
                session = self.session(asked) => session,
                () = output.wait_for_disconnect() => return None,
            };
            let session = match session {
                Ok(session) => session,
                Err(error) => {
                    match refuse_open(&asked.id.to_json(), error) {
                        Ok(answer) => output.answer(answer),
                        Err(error) if is_last => output.fail(error.after_sending()),
                        Err(error) => output.fail(error),
                    }
                    return None;
                }
            };
            if let Some(level) = asked.level {
                session.set_level(level, asked.caller.bounds).await;
            }
            let id = session.next_id();
            let body = legacy_request(asked.document.root(), &id.to_json());
            let request = post(session.headers(), body);
            output.note_repeat(is_last);
            let mut receiver =
                Dispatcher::listen(&session, may_want_input(&asked.method), asked.progress_token());
            let mut under_way = UnderWay { session: Arc::clone(&session), id, is_answered: false };
            let link = Arc::clone(&self.link);
            let mut sending: Sending = Box::pin(async move { link.upstream.send(request).await });
            let sent = tokio::select! {
                sent = &mut sending => sent,
                said = receiver.next() => {
                    let (source, early) = (Source::Awaited(sending), Some(said));
                    return Some(InFlight { under_way, source, receiver, early });
                }
                () = output.wait_for_disconnect() => return None,
            };
            let answer = match sent {
                Ok(answer) => answer,
                Err(error) => {
                    under_way.is_answered = true;
                    output.fail(if is_last { error.after_sending() } else { error });
                    return None;
                }
            };
            if answer.status().is_success() {
                let source = Source::Read(Reader::new(answer, asked.caller.bounds));
                return Some(InFlight { under_way, source, receiver, early: None });
            }
            under_way.is_answered = true;
            if answer.status() == StatusCode::NOT_FOUND && !is_last {
                self.sessions.forget(&self.session_key(asked), &session).await;
                continue;
            }
            self.relay_error(asked, answer, output).await;
            return None;
        }
        None
    }

    /// Passes on an answer with an error status.
    async fn relay_error(
        &self,
        asked: &ModernRequest,
        answer: Response<AnswerBody>,
        output: &mut ResponseWriter,
    ) {
        let status = answer.status();
        let said = Reader::new(answer, asked.caller.bounds).next().await.ok().flatten();
        let error = said.as_ref().and_then(|said| said.root().get("error"));
        let is_refusal = status.is_client_error() && status != StatusCode::UNAUTHORIZED;
        if let Some(error) = error.filter(|_| is_refusal) {
            let (status, text) = convert_error(asked, error);
            output.finish(status, text).await;
        } else {
            // The server may have been replaced by another.
            self.link.forget_eras();
            output.finish_empty(status);
        }
    }

    /// Resumes a call that waited for input; `None` if the client was already answered.
    async fn resume(&self, asked: &ModernRequest, output: &mut ResponseWriter) -> Option<InFlight> {
        let id = asked.id.to_json();
        let params = asked.document.root().get("params");
        let state = params.and_then(|params| params.get("requestState")).and_then(Value::as_str);
        let found = state.and_then(|state| self.suspensions.take(state, &asked.caller.key));
        let Some(suspended) = found else {
            let what = "no call waits with this `requestState`: make the request again";
            output.finish(StatusCode::BAD_REQUEST, error(&id, BAD_PARAMS, what)).await;
            return None;
        };
        let given = params.and_then(|params| params.get("inputResponses"));
        let answer = |wanted: &ServerRequest| given.and_then(|given| given.get(&wanted.key()));
        if suspended.wanted.iter().any(|wanted| answer(wanted).is_none()) {
            self.ask_client(suspended, &id, output).await;
            return None;
        }
        for wanted in suspended.wanted {
            let result = answer(&wanted);
            if let Err(why) = wanted.answer(result).await {
                output.report_bad_answer(&id, &why).await;
                return None;
            }
        }
        Some(suspended.calling)
    }

    /// Suspends a call, and asks its client for input.
    async fn ask_client(&self, suspended: Suspended, id: &str, output: &mut ResponseWriter) {
        let result = self.suspensions.add(suspended);
        output.finish(StatusCode::OK, response(id, &result)).await;
    }

    /// Follows a request to its answer.
    async fn follow(
        &self,
        mut calling: InFlight,
        asked: &ModernRequest,
        output: &mut ResponseWriter,
    ) {
        let id = asked.id.to_json();
        let (mut wanted, mut place) = (Vec::new(), None);
        loop {
            let next = match calling.next(wanted.is_empty(), asked.caller.bounds, output).await {
                Ok(Some(heard)) => {
                    self.handle_message(&calling.under_way, asked, &heard, &mut place, output).await
                }
                // Everything that has arrived so far was read. Without a place there is
                // no question: the client is gone.
                Ok(None) => {
                    let Some(place) = place else { return };
                    let suspended = Suspended { calling, wanted, place };
                    return self.ask_client(suspended, &id, output).await;
                }
                Err(why) => Err(why),
            };
            match next {
                Ok(Next::GoOn) => {}
                Ok(Next::Wanted(one)) => wanted.push(one),
                Ok(Next::Answered(status, text)) => {
                    calling.under_way.is_answered = true;
                    return output.finish(status, text).await;
                }
                Err(why) => return output.report_bad_answer(&id, &why).await,
            }
        }
    }

    async fn handle_message(
        &self,
        under_way: &UnderWay,
        asked: &ModernRequest,
        heard: &Heard,
        place: &mut Option<Place>,
        output: &mut ResponseWriter,
    ) -> Result<Next, String> {
        let (own, document) = (&under_way.id, &heard.document);
        match Message::read(document)
            .map_err(|_| "its answer is not a JSON-RPC message".to_owned())?
        {
            Message::Notification { method, params } => {
                if passes(asked, method, params) {
                    output.say(document.text()).await;
                }
                Ok(Next::GoOn)
            }
            Message::Request { id, method, .. } => {
                self.handle_server_request(under_way, asked, heard, place, &id, method).await
            }
            Message::Response { id, result } if id == *own => {
                let text = modern_answer(document, result, &asked.id.to_json(), &asked.method);
                Ok(Next::Answered(StatusCode::OK, text))
            }
            Message::Failure { id: Some(id), error } if id == *own => {
                let (status, text) = convert_error(asked, error);
                Ok(Next::Answered(status, text))
            }
            _ => Err("it answered another request".into()),
        }
    }

    /// Handles a server request: it becomes a question to the client if the client can be
    /// asked, else it is refused.
    async fn handle_server_request(
        &self,
        under_way: &UnderWay,
        asked: &ModernRequest,
        heard: &Heard,
        place: &mut Option<Place>,
        id: &Id,
        method: &str,
    ) -> Result<Next, String> {
        let session = &under_way.session;
        if method == "ping" {
            session.tell(response(&id.to_json(), "{}")).await;
            return Ok(Next::GoOn);
        }
        let capabilities = Document::parse(&*asked.declared.capabilities, &asked.caller.bounds);
        let may_ask = may_want_input(&asked.method)
            && capabilities.is_ok_and(|capabilities| lets_ask(capabilities.root(), method));
        if may_ask && place.is_none() {
            *place = self.suspensions.reserve(&asked.caller.key);
        }
        if !may_ask || place.is_none() {
            session.turn_away(id, method).await?;
            return Ok(Next::GoOn);
        }
        let (document, id) = (&heard.document, id.to_json());
        Ok(Next::Wanted(ServerRequest::new(session, document, id, method, heard.is_beside)))
    }
}

/// Whether the client's answers have the form that the protocol requires. The legacy
/// server could not check that.
fn are_answers(given: Value<'_>) -> bool {
    given.members().is_some_and(|mut answers| answers.all(|(_, answer)| answer.members().is_some()))
}

/// Whether a notification is sent to the client before its answer. Log messages must have
/// the requested level; change notifications go to the client's subscription.
fn passes(asked: &ModernRequest, method: &str, params: Option<Value<'_>>) -> bool {
    match method {
        "notifications/message" => {
            let level = params.and_then(|params| params.get("level")).and_then(Value::as_str);
            let severity = level.and_then(severity);
            asked.level.is_some_and(|least| severity.is_none_or(|severity| severity >= least))
        }
        "notifications/cancelled" | "notifications/elicitation/complete" => false,
        _ => true,
    }
}

/// Converts an error to the modern era.
fn convert_error(asked: &ModernRequest, said: Value<'_>) -> (StatusCode, String) {
    let id = asked.id.to_json();
    let (text, code) = failure(said, &id, &asked.method, MODERN);
    match code.as_str() {
        "-32601" => (StatusCode::NOT_FOUND, text),
        "-32700" | "-32600" | "-32602" => (StatusCode::BAD_REQUEST, text),
        "-32042" => (StatusCode::OK, ask_for_elicitation(asked, said, &id)),
        _ => (StatusCode::OK, text),
    }
}

/// Converts a legacy error that asks for a step in the browser into a modern request for
/// input; the client repeats its request afterwards.
fn ask_for_elicitation(asked: &ModernRequest, said: Value<'_>, id: &str) -> String {
    let wanted = said.get("data").and_then(|data| data.get("elicitations"));
    let wanted: Vec<_> = wanted.and_then(Value::items).into_iter().flatten().collect();
    let capabilities = Document::parse(&*asked.declared.capabilities, &asked.caller.bounds);
    let may_ask = capabilities
        .is_ok_and(|capabilities| lets_ask(capabilities.root(), "elicitation/create"))
        && may_want_input(&asked.method);
    if wanted.is_empty() || !may_ask {
        let what = unbridgeable("error -32042", MODERN.name(), LEGACY.name());
        return error(id, INTERNAL, &what);
    }
    let requests: Vec<_> = wanted
        .iter()
        .enumerate()
        .map(|(place, params)| {
            let params = params.raw();
            format!(r#""url-{place}":{{"method":"elicitation/create","params":{params}}}"#)
        })
        .collect();
    let requests = requests.join(",");
    response(id, &format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}}}}"#))
}
