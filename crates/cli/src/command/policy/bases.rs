//! What the policy in a file extends: files beside it and, where a server is named, that server's
//! policies.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use sluice_config::Source;
use sluice_policy::{Format, Policy, Problem};
use sluice_store::{AttachedPolicy, BaseFile, Name, Source as Origin};

use crate::{
    api::{Gateway, Question, with_gateway},
    output::Done,
};

/// The active policies of a server.
pub(super) struct ServerPolicies {
    server: Name,
    policies: Vec<AttachedPolicy>,
}

/// A policy as the API shows it.
#[derive(Deserialize)]
struct Shown {
    version: String,
    format: String,
    text: String,
    #[serde(default)]
    base_files: Vec<ShownFile>,
}

#[derive(Deserialize)]
struct ShownFile {
    name: String,
    format: String,
    text: String,
}

/// The name of a policy that is only looked at.
const NO_NAME: &str = "policy-that-is-only-checked";

impl ServerPolicies {
    pub(super) fn read(gateway: &Gateway, server: &Name) -> anyhow::Result<ServerPolicies> {
        let path = ["servers", server.as_str(), "policies"];
        let list = gateway.ask_all(&path, "policies")?;
        let listed = list.get("policies").and_then(Value::as_array).into_iter().flatten();
        let mut policies = Vec::new();
        for name in listed.filter_map(|policy| policy.get("name")?.as_str()) {
            let path = ["servers", server.as_str(), "policies", name];
            let shown = Shown::deserialize(gateway.ask(Question::get(&path))?)?;
            policies.push(shown.attach(server, Name::new(name)?));
        }
        Ok(ServerPolicies { server: server.clone(), policies })
    }

    /// Compiles a file's policy with those of the server that it extends.
    pub(super) fn compile(&self, source: &Source) -> Result<Policy, Vec<Problem>> {
        let name = Name::new(NO_NAME).ok();
        self.compile_as(source, name.as_ref(), Origin::File, source.base_files())
    }

    /// The same under the name that it is to have, so that a circle which it closes is found: `name`,
    /// else that of the file.
    pub(super) fn compile_named(
        &self,
        source: &Source,
        name: Option<&Name>,
    ) -> Result<Policy, Vec<Problem>> {
        let of_file = Path::new(&source.name).file_stem().and_then(OsStr::to_str);
        let of_file = of_file.and_then(|stem| Name::new(stem).ok());
        let Some(used) = name.or(of_file.as_ref()) else { return self.compile(source) };
        let compiled = self.compile_as(source, Some(used), Origin::File, source.base_files());
        compiled.map_err(|mut problems| {
            let is_circle = |one: &&mut Problem| one.message.contains("leads in a circle");
            for problem in problems.iter_mut().filter(is_circle).filter(|_| name.is_none()) {
                problem.hint = Some(format!(
                    "as policy `{used}` it would extend itself; if it is to have another name, give `--name`"
                ));
            }
            problems
        })
    }

    /// The same for a policy that goes into the store, where it can extend no files.
    pub(super) fn compile_stored(
        &self,
        source: &Source,
        name: &Name,
    ) -> Result<Policy, Vec<Problem>> {
        self.compile_as(source, Some(name), Origin::Stored, Vec::new())
    }

    fn compile_as(
        &self,
        source: &Source,
        name: Option<&Name>,
        origin: Origin,
        base_files: Vec<BaseFile>,
    ) -> Result<Policy, Vec<Problem>> {
        let (Ok(text), Some(name)) = (String::from_utf8(source.text.clone()), name) else {
            return source.policy();
        };
        let policy = AttachedPolicy {
            server: self.server.clone(),
            name: name.clone(),
            version: AttachedPolicy::version_of(&text),
            text,
            format: source.format(),
            source: origin,
            base_files,
        };
        policy.compile(&self.policies)
    }
}

/// Runs a command on files with the policies of a server, if one is named and a file extends one of
/// them.
pub(super) fn with_policies(
    data: Option<PathBuf>,
    server: Option<&Name>,
    sources: &[&Source],
    command: impl FnOnce(Option<&ServerPolicies>) -> anyhow::Result<Done>,
) -> anyhow::Result<Done> {
    match server.filter(|_| sources.iter().any(|source| source.extends_by_name())) {
        Some(server) => {
            with_gateway(data, |gateway| command(Some(&ServerPolicies::read(gateway, server)?)))
        }
        None => command(None),
    }
}

/// Compiles a file's policy, among those of a server if there is one.
pub(super) fn compile(
    source: &Source,
    among: Option<&ServerPolicies>,
) -> Result<Policy, Vec<Problem>> {
    match among {
        Some(policies) => policies.compile(source),
        None => source.policy(),
    }
}

impl Shown {
    fn attach(self, server: &Name, name: Name) -> AttachedPolicy {
        let file = |ShownFile { name, format, text }| {
            let format = read_format(&format);
            BaseFile { name, text, format }
        };
        AttachedPolicy {
            server: server.clone(),
            name,
            format: read_format(&self.format),
            version: self.version,
            text: self.text,
            source: Origin::File,
            base_files: self.base_files.into_iter().map(file).collect(),
        }
    }
}

fn read_format(name: &str) -> Format {
    if name == "yaml" { Format::Yaml } else { Format::Json }
}
