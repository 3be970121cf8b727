//! Lists a server's tools as its client would: started or connected to as it is configured,
//! with its variables and headers. `scan` connects; variables that clients expand are
//! expanded here.

use std::{path::Path, time::Duration};

use sluice_scan::{Scan, Trouble};
use sluice_stack::{Entry, Guarded, Tool, Transport, sha256};
use sluice_store::Secret;
use sluice_upstream::client::ClientError;

use crate::{
    scan::{AskError, Target, ask},
    wrap::Place,
};
use sluice_config::Environment;

/// The time limit for a server to start and answer; some are downloaded first.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// Why there is no list of tools.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("only its client can fill in `{0}`")]
    Reference(String),
    #[error("it wants a sign-in that only its client can do")]
    SignIn,
    #[error("it did not answer within {} seconds", LIST_TIMEOUT.as_secs())]
    Late,
    #[error("{0}")]
    Failed(String),
}

/// The tools of a server, with their classification.
pub(super) async fn tools(
    entry: &Entry,
    environment: &Environment,
    home: &Path,
) -> Result<Vec<Tool>, ListError> {
    let target = Filler { entry, environment, home }.target()?;
    let asked = ask(&target, environment).await;
    let (listing, leaving) = asked.map_err(|error| list_error(entry, error))?;
    let scan = Scan::of(&listing);
    leaving.end().await;
    let scan = scan.map_err(|error| ListError::Failed(entry.scrub(&error.to_string())))?;
    let known = scan.tools.iter().map(|tool| Tool {
        name: tool.name.clone(),
        category: tool.assessment.category.name().to_owned(),
        risk: tool.assessment.risk.name().to_owned(),
        findings: tool.assessment.findings.len(),
        digest: sha256(tool.definition.as_bytes()),
    });
    Ok(known.collect())
}

fn list_error(entry: &Entry, error: AskError) -> ListError {
    let told = match error.trouble {
        Some(Trouble::Late) => return ListError::Late,
        Some(Trouble::Client(ClientError::Status { status: 401 | 403, .. })) => {
            return ListError::SignIn;
        }
        Some(trouble) => trouble.to_string(),
        None => error.to_string(),
    };
    ListError::Failed(entry.scrub(&told))
}

/// Expands the variables and folders that clients expand.
struct Filler<'a> {
    entry: &'a Entry,
    environment: &'a Environment,
    home: &'a Path,
}

impl Filler<'_> {
    fn target(&self) -> Result<Target, ListError> {
        let (place, env) = match &self.entry.transport {
            Transport::Command { program, args, env } => {
                let words = std::iter::once(program).chain(args);
                let command =
                    words.map(|word| self.expand_variables(word)).collect::<Result<_, _>>()?;
                let env = env
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.expand_variables(value)?)));
                (Place::Command(command), env.collect::<Result<_, ListError>>()?)
            }
            Transport::Url { url, headers } => {
                let headers = headers
                    .iter()
                    .map(|(name, value)| {
                        Ok((name.clone(), Secret::new(self.expand_variables(value)?)))
                    })
                    .collect::<Result<_, ListError>>()?;
                (Place::Url { url: self.expand_variables(url)?, headers }, Vec::new())
            }
            Transport::Unclear => {
                let told = "its entry has neither a command nor a URL";
                return Err(ListError::Failed(told.into()));
            }
        };
        // No progress line: the caller reports which server is being scanned.
        Ok(Target { place, env, timeout: LIST_TIMEOUT, waiting: None })
    }

    fn expand_variables(&self, text: &Guarded) -> Result<String, ListError> {
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
