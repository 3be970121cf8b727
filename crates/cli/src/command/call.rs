//! `sluice call`: a simple MCP client that calls one tool.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use http::{HeaderMap, HeaderValue, header};
use sluice_config::{Environment, Overrides};
use sluice_http::{HttpUpstream, address::Reach};
use sluice_policy::file::check::nearest;
use sluice_upstream::{
    Upstream,
    client::{Client, ClientError, Declares},
};
use sluice_wire::{
    edit::quote,
    json::{Bounds, Document, LoneSurrogates, Value},
};

use crate::{
    api::server_names,
    data::{DataDirectory, agents_url},
    input,
    output::{BAD, Done, print, remark, visible},
};

/// The longest answer that is read; a gateway allows no longer ones.
const LONGEST_ANSWER: usize = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The server, by its name
    server: String,
    /// The tool to call
    tool: String,
    /// The tool's arguments
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// A grant's token [default: `SLUICE_GRANT_TOKEN`, else `SLUICE_TOKEN` if that begins with `sg_`, else the demo's own]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

impl Call {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let environment = Environment::of_process();
        let arguments = input::json("`--args`", &self.args)?;
        if arguments.root().members().is_none() {
            bail!("`--args` must be a JSON object, such as '{{\"id\": 1}}'");
        }
        let overrides = Overrides { data: data.clone(), ..Overrides::default() };
        let directory = sluice_config::data_directory(&overrides, &environment)?;
        let url = format!("{}/mcp/{}", agents_url(&directory)?, self.server);
        let answer = self.token(&directory, &environment).and_then(|token| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(call(&url, &token, &self.tool, &arguments))
        });
        // A misspelt server is the likelier reason, whatever else is wrong with the call.
        let answer = answer.map_err(|error| self.unknown_server(data).unwrap_or(error))?;
        self.show(&answer)
    }

    /// The error for a server that the gateway does not have.
    fn unknown_server(&self, data: Option<PathBuf>) -> Option<anyhow::Error> {
        let names = server_names(data)?;
        if names.contains(&self.server) {
            return None;
        }
        let hint = match nearest(&self.server, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`sluice server list` shows what is behind this gateway".into(),
        };
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        let server = visible(&self.server);
        Some(anyhow!("there is no server `{server}`; servers: {names}\nhint: {hint}"))
    }

    fn token(
        &self,
        directory: &std::path::Path,
        environment: &Environment,
    ) -> anyhow::Result<String> {
        let read = |name: &str| environment.setting(name)?.to_str().map(str::to_owned);
        // The settings for clients call it `SLUICE_TOKEN`, which otherwise is the admin token.
        let of_clients = || read("SLUICE_TOKEN").filter(|token| token.starts_with("sg_"));
        let given = self.token.clone().or_else(|| read("SLUICE_GRANT_TOKEN")).or_else(of_clients);
        match given {
            Some(token) => Ok(token),
            None if self.server == "demo" => {
                Ok(DataDirectory::open(directory)?.demo_token()?.expose().to_owned())
            }
            None => Err(anyhow!(
                "a grant's token is needed\nhint: give it by `--token` or `SLUICE_GRANT_TOKEN`; `sluice grant create` makes one"
            )),
        }
    }

    fn show(&self, answer: &Document) -> anyhow::Result<Done> {
        let root = answer.root();
        if let Some(error) = root.get("error") {
            if self.json {
                print(&format!("{root}\n"))?;
            }
            let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
            let code = error.get("code").map(Value::raw).unwrap_or_default();
            remark(&format!("{BAD}error{BAD:#}: {} ({})\n", visible(message), visible(code)))?;
            return Ok(Done::WithProblems);
        }
        let result = root.get("result").context("the answer has no result")?;
        let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
        if self.json {
            print(&format!("{result}\n"))?;
        } else {
            let text = content(result);
            if is_error { remark(&text)? } else { print(&text)? }
        }
        Ok(Done::well_if(!is_error))
    }
}

/// The parts of a result that a terminal can show.
fn content(result: Value<'_>) -> String {
    let parts = result.get("content").and_then(Value::items).into_iter().flatten();
    let mut lines = Vec::new();
    for part in parts {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            lines.extend(text.lines().map(|line| format!("{}\n", visible(line))));
        } else {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or("something");
            lines.push(format!("({}; `--json` shows it)\n", visible(kind)));
        }
    }
    lines.concat()
}

/// Adds a hint to the errors for a token that is rejected, or is for other servers.
fn explain_refused(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Status { status: 403, message: Some(message), .. } => anyhow!(
            "{message}\nhint: `sluice grant list` shows which servers each grant is for, `sluice grant edit LABEL --server …` changes it"
        ),
        ClientError::Status { status: 401, .. } => anyhow!(
            "token rejected (401): unknown, rotated or revoked\nhint: create one with `sluice grant create`"
        ),
        other => other.into(),
    }
}

async fn call(
    url: &str,
    token: &str,
    tool: &str,
    arguments: &Document,
) -> anyhow::Result<Document> {
    // Every address is allowed: the user chose this one.
    let reach = Reach { allowed: vec!["0.0.0.0/0".parse()?, "::/0".parse()?], loopback: true };
    let upstream = Upstream::Http(HttpUpstream::new(url, reach)?);
    let mut headers = HeaderMap::new();
    let mut value =
        HeaderValue::try_from(format!("Bearer {token}")).context("the token cannot be sent")?;
    value.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, value);
    let bounds = Bounds {
        bytes: LONGEST_ANSWER,
        string: LONGEST_ANSWER,
        number: LONGEST_ANSWER,
        nodes: 1 << 22,
        members: 1 << 22,
        lone_surrogates: LoneSurrogates::Replace,
        ..Bounds::default()
    };
    let client = Client::introduce(&upstream, &headers, bounds, Declares::Nothing).await;
    let mut client = client.map_err(explain_refused)?;
    let params = format!(r#""name":{},"arguments":{}"#, quote(tool), arguments.root().raw());
    let answer = client.request("tools/call", &params, Some(tool)).await?;
    client.goodbye().await;
    Ok(answer)
}
