//! `[policies.NAME]`: policies in files, each attached to servers.

use sluice_policy::Format;
use sluice_store::{AttachedPolicy, Name, Source as Origin};
use toml::{Spanned, de::DeValue};

use super::{
    loader::Loader,
    problem::FileProblems,
    section::Section,
    value::{self, Parsed},
};
use crate::{MOST_POLICY, Source};

/// The policies that the file declares.
#[derive(Default)]
pub(super) struct DeclaredPolicies {
    /// The policies that compile, once for each of their servers.
    pub(super) attached: Vec<AttachedPolicy>,
    /// The names of all policies, as pairs of server and policy.
    pub(super) names: Vec<(Name, Name)>,
}

/// Reads the policies that the file declares.
pub(super) fn read(
    root: &Section<'_>,
    servers: &[Name],
    loader: &mut Loader<'_>,
) -> DeclaredPolicies {
    let mut declared = DeclaredPolicies::default();
    for (name, section) in root.named_sections("policies", &mut loader.findings) {
        let name = name.get_ref();
        section.check_keys(&["servers", "server", "file", "files"], &mut loader.findings);
        if section.has("files") {
            read_files(name, &section, servers, loader, &mut declared);
        } else {
            read_file(name, &section, servers, loader, &mut declared);
        }
    }
    declared
}

/// Reads a policy with one file for all its servers.
fn read_file(
    name: &Name,
    section: &Section<'_>,
    servers: &[Name],
    loader: &mut Loader<'_>,
    declared: &mut DeclaredPolicies,
) {
    section.require("file", &mut loader.findings);
    let servers = servers_of(section, servers, loader);
    let policy = policy(section, "file", loader);
    for server in servers {
        declared.add(server, name, policy.as_ref());
    }
}

/// Reads a policy with a file for each of its servers.
fn read_files(
    name: &Name,
    section: &Section<'_>,
    servers: &[Name],
    loader: &mut Loader<'_>,
    declared: &mut DeclaredPolicies,
) {
    let others = ["server", "servers", "file"].into_iter().filter_map(|key| section.entry(key));
    for (span, _) in others.collect::<Vec<_>>() {
        let message = "a policy has either `files`, or `servers` and `file`, not both";
        let hint = "`files` names each server with its file: files = { NAME = \"…\" }";
        loader.findings.add_with_hint(span, message, hint);
    }
    let Some(files) = section.table("files", &mut loader.findings) else { return };
    if files.entries().next().is_none() {
        let message = format!("`{}` must name a server", section.path_to("files"));
        loader.findings.add(files.span.clone(), message);
    }
    for (key, (span, _)) in files.entries() {
        let policy = policy(&files, key, loader);
        let Ok(server) = Name::new(key) else {
            let message = format!("`{key}` must be a server's name");
            loader.findings.add(span, message);
            continue;
        };
        for server in known_servers(vec![Spanned::new(span, server)], servers, loader) {
            declared.add(server, name, policy.as_ref());
        }
    }
}

impl DeclaredPolicies {
    fn add(&mut self, server: Name, name: &Name, policy: Option<&(String, Format)>) {
        self.names.push((server.clone(), name.clone()));
        self.attached.extend(policy.map(|(text, format)| AttachedPolicy {
            server,
            name: name.clone(),
            version: AttachedPolicy::version_of(text),
            text: text.clone(),
            format: *format,
            source: Origin::File,
        }));
    }
}

/// Reads the servers of a policy, in either spelling.
fn servers_of(section: &Section<'_>, names: &[Name], loader: &mut Loader<'_>) -> Vec<Name> {
    let findings = &mut loader.findings;
    match (section.has("server"), section.has("servers")) {
        (true, true) => {
            let message = "a policy has either `servers` or `server`, not both";
            findings.add(section.span.clone(), message);
            Vec::new()
        }
        (true, false) => {
            let server = section.read("server", server_name, findings);
            known_servers(server.into_iter().collect(), names, loader)
        }
        (false, _) => server_list(section, names, loader),
    }
}

/// Reads the list `servers` of a policy or a grant.
pub(super) fn server_list(
    section: &Section<'_>,
    names: &[Name],
    loader: &mut Loader<'_>,
) -> Vec<Name> {
    section.require("servers", &mut loader.findings);
    if let Some((_, value)) = section.entry("servers")
        && value.get_ref().as_array().is_some_and(|list| list.is_empty())
    {
        let message = format!("`{}` must name a server", section.path_to("servers"));
        loader.findings.add(value.span(), message);
    }
    let list = section.list("servers", server_name, &mut loader.findings);
    known_servers(list, names, loader)
}

fn server_name(value: &DeValue<'_>) -> Parsed<Name> {
    value.as_str().and_then(|text| Name::new(text).ok()).ok_or_else(|| "a server's name".into())
}

/// The names that are declared, without duplicates.
fn known_servers(list: Vec<Spanned<Name>>, names: &[Name], loader: &mut Loader<'_>) -> Vec<Name> {
    let mut found = Vec::new();
    for server in list {
        let (span, server) = (server.span(), server.into_inner());
        if found.contains(&server) {
            loader.findings.add(span, format!("server `{server}` is there twice"));
        } else if names.contains(&server) {
            found.push(server);
        } else {
            let texts: Vec<_> = names.iter().map(Name::as_str).collect();
            let hint = match super::section::nearest(server.as_str(), &texts) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it as `[servers.{server}]`"),
            };
            loader.findings.add_with_hint(span, format!("no server is named `{server}`"), hint);
        }
    }
    found
}

/// Reads the policy file that a key names, if it compiles and passes its own tests.
fn policy(section: &Section<'_>, key: &str, loader: &mut Loader<'_>) -> Option<(String, Format)> {
    let file = section.read(key, value::text, &mut loader.findings)?;
    let path = loader.path(file.get_ref());
    let name = path.display().to_string();
    let text = match loader.read(&path, MOST_POLICY) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read policy file `{name}`: {error}");
            loader.findings.add(file.span(), message);
            return None;
        }
    };
    let format = Format::of_file_name(&name);
    let source = Source { name, text };
    let problems = match sluice_policy::load(&source.text, format) {
        Ok(policy) => source.failing_tests(&policy).0,
        Err(problems) => problems,
    };
    if problems.is_empty() {
        return Some((String::from_utf8(source.text).ok()?, format));
    }
    loader.findings.add_file(FileProblems { source, problems });
    None
}
