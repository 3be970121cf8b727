//! Asking a server for its tools, as its client would: started or connected to as
//! it is configured, with its variables and headers.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_classify::{Definition, Siblings, classify};
use sluice_stack::{Entry, Guarded, Tool, Transport, sha256};
use sluice_upstream::{
    HttpUpstream, Upstream,
    address::Reach,
    client::{Client, ClientError, Declares},
    stdio::{Instances, Launch, Program, StdioServer},
};
use sluice_wire::json::{Bounds, Document};

use crate::{environment::Environment, up};

/// How long a server may take to start and answer; some are downloaded first.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes of one answer.
const LONGEST: usize = 64 << 20;

/// Why there is no list of tools.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("only its client can fill in `{0}`")]
    Reference(String),
    #[error("it wants a sign-in that only its client can do")]
    SignIn,
    #[error("it did not answer within {} seconds", PATIENCE.as_secs())]
    Late,
    #[error("{0}")]
    Failed(String),
}

/// The tools of a server, and what each can do.
pub(super) async fn tools(
    entry: &Entry,
    environment: &Environment,
    home: &Path,
) -> Result<Vec<Tool>, ListError> {
    let filler = Filler { entry, environment, home };
    let (upstream, headers) = reached(&filler)?;
    let asked = tokio::time::timeout(PATIENCE, pages(&upstream, &headers)).await;
    let documents = asked.map_err(|_| ListError::Late)?.map_err(|error| match error {
        ClientError::Status { status: 401 | 403, .. } => ListError::SignIn,
        other => ListError::Failed(entry.scrubbed(&other.to_string())),
    })?;
    let none = || ListError::Failed("its answer is no list of tools".into());
    assessed(&entry.name, &documents).ok_or_else(none)
}

fn reached(filler: &Filler<'_>) -> Result<(Upstream, HeaderMap), ListError> {
    let failed =
        |error: anyhow::Error| ListError::Failed(filler.entry.scrubbed(&error.to_string()));
    match &filler.entry.transport {
        Transport::Command { program, args, env } => {
            let words = std::iter::once(program).chain(args);
            let command = words.map(|word| filler.filled(word)).collect::<Result<Vec<_>, _>>()?;
            let env = env.iter().map(|(name, value)| Ok((name.clone(), filler.filled(value)?)));
            let program = Program { command, env: env.collect::<Result<Vec<_>, ListError>>()? };
            let launch = up::launch(filler.environment).map_err(|error| failed(error.into()))?;
            let environment = filler.environment.for_wrapped();
            let launch = Launch { environment, ..launch };
            let name = &filler.entry.name;
            let server = StdioServer::new(name, launch, program, Instances::Shared, LONGEST);
            Ok((Upstream::Stdio(Arc::new(server)), HeaderMap::new()))
        }
        Transport::Url { url, headers } => {
            let url = filler.filled(url)?;
            let server = connected(&url).map_err(failed)?;
            let mut sent = HeaderMap::new();
            for (name, value) in headers {
                let pair = header(name, &filler.filled(value)?).map_err(failed)?;
                sent.insert(pair.0, pair.1);
            }
            Ok((Upstream::Http(server), sent))
        }
        Transport::Unclear => {
            Err(ListError::Failed("its entry has neither a command nor a URL".into()))
        }
    }
}

/// A user's own file says where this goes.
fn connected(url: &str) -> anyhow::Result<HttpUpstream> {
    let reach = Reach { allowed: vec!["0.0.0.0/0".parse()?, "::/0".parse()?], loopback: true };
    // The URL may hold a secret, which the error would repeat.
    HttpUpstream::new(url, reach).ok().context("its URL is none that can be connected to")
}

fn header(name: &str, value: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let key = HeaderName::try_from(name).with_context(|| format!("`{name}` is no header"))?;
    let mut value = HeaderValue::try_from(value)
        .ok()
        .with_context(|| format!("the value of header `{name}` cannot be sent"))?;
    value.set_sensitive(true);
    Ok((key, value))
}

async fn pages(upstream: &Upstream, headers: &HeaderMap) -> Result<Vec<Document>, ClientError> {
    let bounds = Bounds {
        bytes: LONGEST,
        string: LONGEST,
        nodes: 1 << 22,
        members: 1 << 20,
        ..Bounds::default()
    };
    let mut client = Client::introduce(upstream, headers, bounds, Declares::Everything).await?;
    let pages = client.pages("tools/list").await?;
    client.goodbye().await;
    Ok(pages)
}

fn assessed(server: &str, documents: &[Document]) -> Option<Vec<Tool>> {
    let mut tools = Vec::new();
    for document in documents {
        tools.extend(document.root().get("result")?.get("tools")?.items()?);
    }
    let definitions: Vec<Definition<'_>> =
        tools.iter().map(|tool| Definition::from_tool(*tool)).collect::<Option<_>>()?;
    let siblings = Siblings::new(server, &definitions);
    let assessed = definitions.iter().zip(&tools).map(|(definition, raw)| {
        let assessment = classify(definition, &siblings);
        Tool {
            name: definition.name.to_owned(),
            category: assessment.category.name().to_owned(),
            risk: assessment.risk.name().to_owned(),
            findings: assessment.findings.len(),
            digest: sha256(raw.raw().as_bytes()),
        }
    });
    Some(assessed.collect())
}

/// Fills in what clients fill in themselves: variables and folders.
struct Filler<'a> {
    entry: &'a Entry,
    environment: &'a Environment,
    home: &'a Path,
}

impl Filler<'_> {
    fn filled(&self, text: &Guarded) -> Result<String, ListError> {
        let mut filled = String::new();
        let mut rest = text.expose();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { break };
            filled.push_str(before);
            let value = self.value(name);
            filled.push_str(&value.ok_or_else(|| ListError::Reference(format!("${{{name}}}")))?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, name: &str) -> Option<String> {
        let folder = || self.entry.folder.as_deref().map(|folder| folder.display().to_string());
        match name {
            "userHome" => return Some(self.home.display().to_string()),
            "workspaceFolder" => return folder(),
            "/" | "pathSeparator" => return Some("/".into()),
            _ => {}
        }
        let (name, default) = name.split_once(":-").map_or((name, None), |(n, d)| (n, Some(d)));
        let name = name.strip_prefix("env:").unwrap_or(name);
        let set = self.environment.get(name).and_then(|value| value.to_str()).map(str::to_owned);
        set.or_else(|| default.map(str::to_owned))
    }
}
