//! Client hooks: commands that a client runs before it calls a tool of an MCP server,
//! so that a call to a server that was not accepted is noticed.
//!
//! Claude Code, Cursor and Gemini CLI have such hooks. Each expects an answer in its
//! own format, and each continues with the call if the hook fails with any exit code
//! but 2; so the check must end every failure with exit code 2.

mod check;

use std::path::{Path, PathBuf};

pub use check::{Answer, HookCall, HookQuestion};
use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::{Value, json};

use crate::{
    backup::{Backup, BackupError, Kind, Rewrite},
    client::Client,
    digest::{of_value, sha256},
    disk::{self, ReadProblem},
    file::{body, with_body},
    json,
    locations::Folders,
};

/// The text by which our commands are recognised in a hook file.
pub(crate) const MARK: &str = " stack hook --check ";

/// A client's hook file.
pub struct HookFile {
    pub client: Client,
    pub path: PathBuf,
    text: Option<String>,
}

impl std::fmt::Debug for HookFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A client's settings may hold secrets.
        write!(f, "HookFile({}, {})", self.client, self.path.display())
    }
}

/// Whether anything was changed.
#[derive(Debug)]
pub enum Hooked {
    Done(Backup),
    Already,
}

/// Why hooks cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("`{}` is not as {} writes it\nhint: correct it, and run the command again", .0.display(), .1)]
    Shape(PathBuf, Client),
    #[error("`{}`: {}", .0.display(), .1)]
    Read(PathBuf, ReadProblem),
    #[error(transparent)]
    Write(#[from] BackupError),
}

impl HookFile {
    /// The clients that support hooks.
    pub const CLIENTS: [Client; 3] = [Client::ClaudeCode, Client::Cursor, Client::Gemini];

    /// Reads a client's hook file, if the client is used on this machine.
    pub fn read(client: Client, places: &Folders) -> Result<Option<HookFile>, HookError> {
        let Some(path) = path(client, places) else { return Ok(None) };
        let text = match disk::read(&path) {
            Ok(read) => read.map(|read| read.content),
            Err(problem) => return Err(HookError::Read(path, problem)),
        };
        let is_used = path.parent().is_some_and(Path::exists)
            || (client == Client::ClaudeCode && places.home.join(".claude.json").exists());
        if text.is_none() && !is_used {
            return Ok(None);
        }
        Ok(Some(HookFile { client, path, text }))
    }

    /// Whether our hook is installed for all of its events.
    pub fn is_installed(&self) -> bool {
        self.text.as_deref().is_some_and(|text| {
            let ours = events_of_ours(text);
            definitions(self.client, "").iter().all(|(event, _)| ours.contains(&(*event).into()))
        })
    }

    /// Whether our hook is installed for any event.
    pub fn has_ours(&self) -> bool {
        self.text.as_deref().is_some_and(has_ours)
    }

    /// Installs the hook that runs `command`, beside existing hooks.
    pub fn install(&self, command: &str, backups: &Path, time: &str) -> Result<Hooked, HookError> {
        let command = format!("{command}{MARK}{}", self.client.id());
        let before = self.text.as_deref().unwrap_or_default();
        if has_exactly(before, &definitions(self.client, &command)) {
            return Ok(Hooked::Already);
        }
        // An older hook of ours may name another program.
        let clean = without(before).unwrap_or_else(|| before.to_owned());
        let after = with_hook(&clean, self.client, &command).ok_or_else(|| self.shape())?;
        self.write(&after, backups, time).map(Hooked::Done)
    }

    /// Removes our hook, and leaves the others.
    pub fn uninstall(&self, backups: &Path, time: &str) -> Result<Hooked, HookError> {
        let Some(text) = self.text.as_deref() else { return Ok(Hooked::Already) };
        let Some(without) = without(text) else { return Ok(Hooked::Already) };
        let real = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let is_of_this =
            |one: &Backup| one.manifest.kind == Kind::Hook && one.manifest.file == real;
        // A backup that cannot be read is reported when files are restored.
        let (all, _) = Backup::all(backups)?;
        let kept: Vec<Backup> = all.into_iter().filter(is_of_this).collect();
        // An unchanged file is restored byte for byte, unless the original contained
        // an older version of our hook.
        let is_untouched =
            |one: &&Backup| one.manifest.after == sha256(text.as_bytes()) && one.manifest.existed;
        let original = kept.first().filter(is_untouched).map(Backup::original).transpose()?;
        let after = original.filter(|original| !has_ours(original)).unwrap_or(without);
        let backup = self.write(&after, backups, time)?;
        // These backups have nothing left to restore.
        for one in kept.iter().chain([&backup]) {
            one.settle(Vec::new(), time)?;
        }
        Ok(Hooked::Done(backup))
    }

    fn write(&self, after: &str, backups: &Path, time: &str) -> Result<Backup, HookError> {
        let real = match &self.text {
            Some(_) => std::fs::canonicalize(&self.path).map_err(|error| {
                HookError::Read(self.path.clone(), ReadProblem::Unreadable(error.to_string()))
            })?,
            None => self.path.clone(),
        };
        let rewrite = Rewrite {
            client: self.client.id(),
            file: &real,
            before: self.text.as_deref(),
            after,
            kind: Kind::Hook,
            entries: vec![Vec::new()],
        };
        Ok(rewrite.finish(backups, time)?)
    }

    fn shape(&self) -> HookError {
        HookError::Shape(self.path.clone(), self.client)
    }
}

fn path(client: Client, places: &Folders) -> Option<PathBuf> {
    let claude = || places.claude.clone().unwrap_or_else(|| places.home.join(".claude"));
    match client {
        Client::ClaudeCode => Some(claude().join("settings.json")),
        Client::Cursor => Some(places.home.join(".cursor/hooks.json")),
        Client::Gemini => Some(places.home.join(".gemini/settings.json")),
        _ => None,
    }
}

/// The events for which a client runs the hook, and the configuration for each.
fn definitions(client: Client, command: &str) -> Vec<(&'static str, Value)> {
    let run = json!({ "type": "command", "command": command, "timeout": 10 });
    match client {
        Client::ClaudeCode => vec![
            ("PreToolUse", json!({ "matcher": "mcp__.*", "hooks": [run] })),
            ("SessionStart", json!({ "hooks": [run] })),
        ],
        // In Cursor, a failing hook lets the call pass, unless this is set.
        Client::Cursor => vec![(
            "beforeMCPExecution",
            json!({ "command": command, "timeout": 10, "failClosed": true }),
        )],
        Client::Gemini => vec![(
            "BeforeTool",
            json!({ "matcher": "mcp_.*", "hooks": [
                { "name": "sluicegate", "type": "command", "command": command, "timeout": 10000 }
            ] }),
        )],
        _ => Vec::new(),
    }
}

/// Adds the hook to a text; `None` if the text has no place for it.
fn with_hook(text: &str, client: Client, command: &str) -> Option<String> {
    let root = parse(body(text))?;
    let object = root.object_value_or_create()?;
    if client == Client::Cursor && object.get("version").is_none() {
        object.append("version", CstInputValue::Number("1".into()));
    }
    let hooks = object.object_value_or_create("hooks")?;
    for (event, definition) in definitions(client, command) {
        hooks.array_value_or_create(event)?.append(input(&definition));
    }
    let mut new = root.to_string();
    if text.trim().is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    Some(with_body(text, new))
}

/// Whether each event has exactly its definition, and there is no other hook of ours.
fn has_exactly(text: &str, wanted: &[(&str, Value)]) -> bool {
    let has = |(event, definition): &(&str, Value)| {
        let keys = ["hooks".to_owned(), (*event).to_owned()];
        let list = json::value(body(text), &keys);
        let mut items = list.iter().filter_map(Value::as_array).flatten();
        items.any(|item| of_value(item) == of_value(definition))
    };
    events_of_ours(text).len() == wanted.len() && wanted.iter().all(has)
}

/// The event of each of our hooks.
fn events_of_ours(text: &str) -> Vec<String> {
    let root = parse(body(text));
    let hooks = root.and_then(|root| root.object_value()?.object_value("hooks"));
    let mut events = Vec::new();
    for event in hooks.iter().flat_map(CstObject::properties) {
        let Some(name) = event.name().and_then(|name| name.decoded_value().ok()) else { continue };
        let list = event.array_value().map(|list| list.elements()).unwrap_or_default();
        events.extend(list.iter().filter(|node| is_ours(node)).map(|_| name.clone()));
    }
    events
}

fn has_ours(text: &str) -> bool {
    !events_of_ours(text).is_empty()
}

/// The text without our hooks; `None` if it has none.
pub(crate) fn without(text: &str) -> Option<String> {
    let root = parse(body(text))?;
    let object = root.object_value()?;
    let hooks = object.object_value("hooks")?;
    let mut is_changed = false;
    for event in hooks.properties() {
        let Some(list) = event.array_value() else { continue };
        let ours: Vec<CstNode> = list.elements().into_iter().filter(is_ours).collect();
        let had_ours = !ours.is_empty();
        is_changed |= had_ours;
        for node in ours {
            node.remove();
        }
        if had_ours && list.elements().is_empty() {
            event.remove();
        }
    }
    remove_empty_hooks(&object, &hooks, is_changed);
    is_changed.then(|| with_body(text, root.to_string()))
}

/// Removes objects that only our hooks needed.
fn remove_empty_hooks(object: &CstObject, hooks: &CstObject, is_changed: bool) {
    let property = object.get("hooks").filter(|_| is_changed && hooks.properties().is_empty());
    if let Some(property) = property {
        property.remove();
    }
}

/// Whether every command of an element is ours.
fn is_ours(node: &CstNode) -> bool {
    let is_marked = |object: &CstObject| {
        let command = object.get("command").and_then(|property| property.value());
        let text = command.and_then(|value| value.as_string_lit()?.decoded_value().ok());
        text.is_some_and(|text| text.contains(MARK))
    };
    let Some(object) = node.as_object() else { return false };
    let inner = object.array_value("hooks").map(|list: CstArray| list.elements());
    match inner {
        Some(list) => {
            let mut objects = list.iter().map(CstNode::as_object);
            !list.is_empty() && objects.all(|one| one.is_some_and(|one| is_marked(&one)))
        }
        None => is_marked(&object),
    }
}

fn parse(text: &str) -> Option<CstRootNode> {
    CstRootNode::parse(text, &ParseOptions::default()).ok()
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}
