//! A client of the running gateway's API, for commands.

mod offline;
mod refusal;
mod status;

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Builder};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sluice_config::{Environment, LoadError, Overrides};
use sluice_http::{AnswerBody, CollectError, HttpUpstream, address::Reach, collect};
use sluice_upstream::Upstream;
use url::Url;

use self::{offline::Offline, refusal::Refusal};
use crate::{
    command::draw_problems,
    data::{Running, client_url, running::FindError},
    output::{Done, complain},
};

/// The longest answer that is read whole, in bytes. Long lists are paged, but all versions of a
/// policy come at once, each of at most a MiB.
const LONGEST_ANSWER: usize = 256 << 20;

/// A gateway that a command talks to.
pub(crate) struct Gateway {
    responder: Responder,
    directory: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// The process that answers requests.
enum Responder {
    Running(Running),
    /// No gateway is running, but the data directory holds a log.
    Offline(Offline),
}

/// One API request.
#[derive(Debug)]
pub(crate) struct Question<'q> {
    pub(crate) method: Method,
    /// The path after `/api/v1`, one element per segment.
    pub(crate) path: &'q [&'q str],
    pub(crate) query: &'q [(&'q str, String)],
    /// The media type and the bytes of the body.
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl<'q> Question<'q> {
    pub(crate) fn get(path: &'q [&'q str]) -> Question<'q> {
        Question { method: Method::GET, path, query: &[], body: None }
    }

    pub(crate) fn post(path: &'q [&'q str]) -> Question<'q> {
        Question { method: Method::POST, ..Question::get(path) }
    }

    pub(crate) fn patch(path: &'q [&'q str]) -> Question<'q> {
        Question { method: Method::PATCH, ..Question::get(path) }
    }

    pub(crate) fn delete(path: &'q [&'q str]) -> Question<'q> {
        Question { method: Method::DELETE, ..Question::get(path) }
    }

    pub(crate) fn json(self, body: &Value) -> Question<'q> {
        Question { body: Some(("application/json", body.to_string().into())), ..self }
    }
}

/// Finds the gateway and runs `work` with it. A refusal by the API is printed, and does not always
/// count as misuse of the command.
pub(crate) fn with_gateway(
    data: Option<PathBuf>,
    work: impl FnOnce(&Gateway) -> anyhow::Result<Done>,
) -> anyhow::Result<Done> {
    with(Gateway::find(data, false), work)
}

/// Like [`with_gateway`], but reads the log directly if no gateway is running.
pub(crate) fn with_log(
    data: Option<PathBuf>,
    work: impl FnOnce(&Gateway) -> anyhow::Result<Done>,
) -> anyhow::Result<Done> {
    with(Gateway::find(data, true), work)
}

/// What the running gateway answers, if it can be had; nothing is printed.
pub(crate) fn ask_quietly(data: Option<PathBuf>, path: &[&str]) -> Option<Value> {
    Gateway::find(data, false).ok()?.ask(Question::get(path)).ok()
}

/// The names of the servers of the running gateway, if they can be had.
pub(crate) fn server_names(data: Option<PathBuf>) -> Option<Vec<String>> {
    let answer = ask_quietly(data, &["servers"])?;
    let servers = answer.get("servers")?.as_array()?.iter();
    Some(servers.filter_map(|one| one.get("name")?.as_str().map(str::to_owned)).collect())
}

fn with(
    found: anyhow::Result<Gateway>,
    work: impl FnOnce(&Gateway) -> anyhow::Result<Done>,
) -> anyhow::Result<Done> {
    let gateway = match found {
        Ok(gateway) => gateway,
        Err(error) => match error.downcast::<LoadError>()? {
            LoadError::Problems(files) => return draw_problems(&files),
            other => return Err(other.into()),
        },
    };
    let done = work(&gateway);
    let end = done.as_ref().err().and_then(|error| error.downcast_ref()).map(Refusal::end);
    match (done, end) {
        (Err(error), Some(end)) => {
            complain(&error);
            Ok(end)
        }
        (done, _) => done,
    }
}

impl Gateway {
    fn find(data: Option<PathBuf>, may_rest: bool) -> anyhow::Result<Gateway> {
        let environment = Environment::of_process();
        let overrides = Overrides { data, ..Overrides::default() };
        let directory = match sluice_config::data_directory(&overrides, &environment) {
            // `SLUICE_URL` names a gateway on another machine, so no local directory is needed.
            Err(_) if environment.setting("SLUICE_URL").is_some() => PathBuf::new(),
            found => found?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let responder = match Running::find(&directory, &environment) {
            Ok(running) => Responder::Running(running),
            Err(error @ FindError::NotRunning(_)) if may_rest => {
                Responder::Offline(Offline::open(&directory)?.ok_or(error)?)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Gateway { responder, directory, runtime })
    }

    /// The agents' URL of this gateway for clients, if it runs on this machine's data directory.
    pub(crate) fn client_url(&self) -> Option<String> {
        let is_elsewhere = Environment::of_process().setting("SLUICE_URL").is_some();
        if is_elsewhere { None } else { client_url(&self.directory) }
    }

    /// The URL of a page of the admin listener, as this command reaches it.
    pub(crate) fn page_url(&self, path: &str) -> String {
        match &self.responder {
            Responder::Running(running) => format!("{}{path}", running.url),
            Responder::Offline(_) => path.to_owned(),
        }
    }

    /// All items of a list, page after page, as one answer.
    pub(crate) fn ask_all(&self, path: &[&str], key: &str) -> anyhow::Result<Value> {
        let (mut items, mut query) = (Vec::new(), Vec::new());
        loop {
            let mut answer = self.ask(Question { query: &query, ..Question::get(path) })?;
            if let Some(Value::Array(page)) = answer.get_mut(key).map(Value::take) {
                items.extend(page);
            }
            let Some(next) = answer.get("next").and_then(Value::as_str) else { break };
            query = vec![("cursor", next.to_owned())];
        }
        Ok(json!({ key: items }))
    }

    /// Sends a request and reads the answer as JSON; an empty answer is `null`.
    pub(crate) fn ask(&self, question: Question<'_>) -> anyhow::Result<Value> {
        self.runtime.block_on(async {
            let text = match collect(self.send(question).await?.into_body(), LONGEST_ANSWER).await {
                Ok(text) => text,
                Err(CollectError::TooLong(most)) => {
                    return Err(anyhow!("the gateway's answer is longer than {} MiB", most >> 20));
                }
                Err(CollectError::Lost(error)) => {
                    return Err(anyhow!(error).context("the gateway's answer was cut short"));
                }
            };
            if text.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(&text).context("the gateway's answer is not valid JSON")
        })
    }

    /// What the gateway says if there is nothing at this path; `None` if there is, or it cannot be
    /// asked.
    pub(crate) fn find_missing(&self, path: &[&str]) -> Option<String> {
        let error = self.ask(Question::get(path)).err()?;
        error.downcast_ref::<Refusal>().filter(|refusal| refusal.is_missing())?;
        Some(error.to_string())
    }

    /// Sends a request and passes the answer to `take` as it arrives, until `take` has enough.
    pub(crate) fn stream(
        &self,
        question: Question<'_>,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut body = self.send(question).await?.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.context("the gateway's answer was cut short")?;
                if let Some(data) = frame.data_ref()
                    && !take(data)?
                {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Sleeps.
    pub(crate) fn pause(&self, span: std::time::Duration) {
        self.runtime.block_on(async { tokio::time::sleep(span).await });
    }

    async fn send(&self, question: Question<'_>) -> anyhow::Result<Response<AnswerBody>> {
        let answer = match &self.responder {
            Responder::Running(running) => ask_running(running, question).await?,
            Responder::Offline(offline) => {
                let url = address(offline::URL, &question)?;
                offline.answer(build_request(question, Request::get(url.as_str()))?).await
            }
        };
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = collect(answer.into_body(), LONGEST_ANSWER).await;
        Err(api_error(status, &text.unwrap_or_default()))
    }
}

/// Sends a request to a running gateway.
async fn ask_running(
    running: &Running,
    question: Question<'_>,
) -> anyhow::Result<Response<AnswerBody>> {
    let url = address(&running.url, &question)?;
    let mut token = HeaderValue::from_str(&format!("Bearer {}", running.token.expose()))?;
    token.set_sensitive(true);
    let request = build_request(question, Request::builder().header(header::AUTHORIZATION, token))?;
    let server = Upstream::Http(HttpUpstream::new(url.as_str(), anywhere())?);
    let answer = server.send(request).await;
    answer.with_context(|| {
        format!(
            "cannot reach the gateway at `{}`\nhint: start it with `sluice up`, or correct `SLUICE_URL`",
            running.url
        )
    })
}

/// Builds the HTTP request.
fn build_request(question: Question<'_>, begun: Builder) -> anyhow::Result<Request<Bytes>> {
    let request = begun.method(question.method);
    let (request, body) = match question.body {
        Some((media_type, body)) => (request.header(header::CONTENT_TYPE, media_type), body),
        None => (request, Bytes::new()),
    };
    Ok(request.body(body)?)
}

fn api_error(status: StatusCode, text: &[u8]) -> anyhow::Error {
    match Refusal::read(text) {
        Some(refusal) => refusal.into(),
        None => anyhow!(
            "the server at this address is not a gateway: it answered with status {status}\nhint: `SLUICE_URL` is the address of the admin listener, without a path"
        ),
    }
}

/// Every address is allowed: the user decides which gateway to call.
fn anywhere() -> Reach {
    let allowed = ["0.0.0.0/0", "::/0"].into_iter().filter_map(|range| range.parse().ok());
    Reach { allowed: allowed.collect(), loopback: true }
}

fn address(base: &str, question: &Question<'_>) -> anyhow::Result<Url> {
    let wrong = || {
        anyhow!(
            "`{base}` is not the address of a gateway\nhint: `SLUICE_URL` is such as `http://127.0.0.1:8788`"
        )
    };
    let mut url = Url::parse(base).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong());
    }
    url.path_segments_mut()
        .map_err(|()| wrong())?
        .pop_if_empty()
        .extend(["api", "v1"])
        .extend(question.path);
    if !question.query.is_empty() {
        url.query_pairs_mut().extend_pairs(question.query);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::{Question, address};

    #[test]
    fn path_segments_are_escaped() {
        let query = [("grant", "a&b".to_owned())];
        let question = Question { query: &query, ..Question::get(&["grants", "../x?y"]) };
        let url = address("http://127.0.0.1:8788", &question).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:8788/api/v1/grants/..%2Fx%3Fy?grant=a%26b");
        let behind = address("https://example.com/gate", &Question::get(&["status"])).unwrap();
        assert_eq!(behind.as_str(), "https://example.com/gate/api/v1/status");
        for wrong in ["127.0.0.1:8788", "unix:/x", ""] {
            assert!(address(wrong, &Question::get(&["status"])).is_err(), "{wrong}");
        }
    }
}
