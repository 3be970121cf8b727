//! `[policies.NAME]`: policies in files, each attached to servers.

use std::rc::Rc;

use sluice_policy::Format;
use sluice_store::{AttachedPolicy, BaseFile, Name, Source as Origin};
use toml::{Spanned, de::DeValue};

use super::{
    loader::Loader,
    problem::FileProblems,
    section::Section,
    value::{self, Parsed},
};
use crate::{MOST_POLICY, Source, source::read_base_files};

/// The policies that the file declares.
#[derive(Default)]
pub(super) struct DeclaredPolicies {
    /// The policies that compile, once for each of their servers.
    pub(super) attached: Vec<AttachedPolicy>,
    /// Those for every server, with servers that the file does not declare.
    pub(super) everywhere: Vec<PolicyForAll>,
    /// The names of all policies, as pairs of server and policy.
    pub(super) names: Vec<(Name, Name)>,
    /// The file of each attached policy, to show problems in.
    sources: Vec<Rc<PolicyFile>>,
}

/// A policy for every server, wherever that is declared.
#[derive(Debug, Clone)]
pub struct PolicyForAll {
    pub name: Name,
    content: PolicyContent,
}

/// A policy's text, and the files beside it that it extends.
#[derive(Debug, Clone)]
struct PolicyContent {
    text: String,
    format: Format,
    base_files: Vec<BaseFile>,
}

/// A policy's file, to show problems in, and its content.
struct PolicyFile {
    source: Source,
    content: PolicyContent,
}

/// The servers of a policy.
struct PolicyServers {
    names: Vec<Name>,
    /// Whether servers that are declared elsewhere have it, too.
    is_for_all: bool,
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
    declared.check(loader);
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
    let PolicyServers { names, is_for_all } = servers_of(section, servers, loader);
    let file = policy_file(section, "file", loader).map(Rc::new);
    declared.add_to(names, name, file.as_ref(), loader);
    if let Some(file) = file.filter(|_| is_for_all) {
        let content = file.content.clone();
        declared.everywhere.push(PolicyForAll { name: name.clone(), content });
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
        let file = policy_file(&files, key, loader).map(Rc::new);
        let Ok(server) = Name::new(key) else {
            let message = format!("`{key}` must be a server's name");
            loader.findings.add(span, message);
            declared.add_to(Vec::new(), name, file.as_ref(), loader);
            continue;
        };
        let known = known_servers(vec![Spanned::new(span, server)], servers, loader);
        declared.add_to(known, name, file.as_ref(), loader);
    }
}

impl DeclaredPolicies {
    fn add(&mut self, server: &Name, name: &Name, file: Option<&Rc<PolicyFile>>) {
        self.names.push((server.clone(), name.clone()));
        if let Some(file) = file {
            self.attached.push(file.content.attach(server, name));
            self.sources.push(Rc::clone(file));
        }
    }

    /// Attaches a policy to its servers. Without any, it is checked alone: its problems would show
    /// nowhere else. Its name stands for that of a server then.
    fn add_to(
        &mut self,
        servers: Vec<Name>,
        name: &Name,
        file: Option<&Rc<PolicyFile>>,
        loader: &mut Loader<'_>,
    ) {
        if let Some(file) = file.filter(|_| servers.is_empty()) {
            let attached = file.content.attach(name, name);
            file.check(&attached, std::slice::from_ref(&attached), loader);
        }
        for server in servers {
            self.add(&server, name, file);
        }
    }

    /// Checks each policy together with those that it extends, once all are read.
    fn check(&self, loader: &mut Loader<'_>) {
        for (policy, file) in self.attached.iter().zip(&self.sources) {
            file.check(policy, &self.attached, loader);
        }
    }
}

impl PolicyForAll {
    /// The policy on one server.
    pub fn attach(&self, server: &Name) -> AttachedPolicy {
        self.content.attach(server, &self.name)
    }
}

impl PolicyContent {
    fn attach(&self, server: &Name, name: &Name) -> AttachedPolicy {
        AttachedPolicy {
            server: server.clone(),
            name: name.clone(),
            version: AttachedPolicy::version_of(&self.text),
            text: self.text.clone(),
            format: self.format,
            source: Origin::File,
            base_files: self.base_files.clone(),
        }
    }
}

impl PolicyFile {
    /// Adds the problems of a policy, and its tests that fail.
    fn check(&self, policy: &AttachedPolicy, all: &[AttachedPolicy], loader: &mut Loader<'_>) {
        let problems = match policy.missing_base(all) {
            // Only what is in force together with the store's policies shows whether it is there.
            Some(name) => {
                let stand_in = AttachedPolicy {
                    name,
                    text: ALLOWS_ALL.into(),
                    base_files: Vec::new(),
                    ..policy.clone()
                };
                let all = [all, &[stand_in]].concat();
                policy.compile(&all).err().unwrap_or_default()
            }
            None => match policy.compile(all) {
                Ok(compiled) => self.source.failing_tests(&compiled).0,
                Err(problems) => problems,
            },
        };
        if !problems.is_empty() {
            let source = Source { name: self.source.name.clone(), text: self.source.text.clone() };
            loader.findings.add_file(FileProblems { source, problems });
        }
    }
}

/// A policy without any effect, in the place of one that may be in the store.
const ALLOWS_ALL: &str = r#"{"version":"1","default":"allow"}"#;

/// Reads the servers of a policy, in either spelling.
fn servers_of(section: &Section<'_>, names: &[Name], loader: &mut Loader<'_>) -> PolicyServers {
    if !section.has("server") && is_for_all(section) {
        return PolicyServers { names: names.to_vec(), is_for_all: true };
    }
    PolicyServers { names: named_servers(section, names, loader), is_for_all: false }
}

/// The pattern that stands for every server.
const EVERY_SERVER: &str = "*";

/// Whether `servers` is `["*"]`.
fn is_for_all(section: &Section<'_>) -> bool {
    let Some((_, value)) = section.entry("servers") else { return false };
    let mut items = value.get_ref().as_array().into_iter().flatten();
    let first = items.next().and_then(|item| item.get_ref().as_str());
    first == Some(EVERY_SERVER) && items.next().is_none()
}

fn named_servers(section: &Section<'_>, names: &[Name], loader: &mut Loader<'_>) -> Vec<Name> {
    if let Some((_, value)) = section.entry("servers")
        && let Some(items) = value.get_ref().as_array()
        && let Some(every) = items.iter().find(|item| item.get_ref().as_str() == Some(EVERY_SERVER))
    {
        let message = "`*` stands for every server: name no others beside it";
        loader.findings.add(every.span(), message);
        return Vec::new();
    }
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

/// Reads the policy file that a key names, and the files beside it that it extends.
fn policy_file(section: &Section<'_>, key: &str, loader: &mut Loader<'_>) -> Option<PolicyFile> {
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
    let base_files = read_base_files(&path, &text, format, |path| loader.read(path, MOST_POLICY));
    let source = Source { name, text };
    if let Ok(text) = String::from_utf8(source.text.clone()) {
        let content = PolicyContent { text, format, base_files };
        return Some(PolicyFile { source, content });
    }
    let problems = sluice_policy::load(&source.text, format).err().unwrap_or_default();
    loader.findings.add_file(FileProblems { source, problems });
    None
}
