//! The entry of one server in a client's file.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{
    adopt::Front,
    client::Client,
    digest::{sha256, sort_keys},
    guarded::{Guarded, MASK},
    memory::SeenEntry,
    wrapped,
};

/// A server that a client may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub client: Client,
    pub file: PathBuf,
    pub scope: Scope,
    /// Whether it is in a project's file, which others may have written.
    pub is_of_project: bool,
    /// How the server itself is reached, behind `sluice wrap` or not.
    pub transport: Transport,
    /// The working directory of a command, if known.
    pub folder: Option<PathBuf>,
    pub is_disabled: bool,
    /// Whether the file has the same name twice; clients use the last one.
    pub is_repeated: bool,
    /// The settings of its `sluice wrap`, if it goes through Sluicegate.
    pub wrapped: Option<Wrapped>,
    /// Its key path in the file.
    pub(crate) keys: Vec<String>,
    /// The command or URL that the client itself uses.
    pub(crate) own: Transport,
    /// Identifies its variables or headers: their names, and a fingerprint of all values.
    pub(crate) variables: String,
    /// The whole content of the entry, and the folder that it applies to.
    pub(crate) exact: Guarded,
}

/// Where an entry applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    User,
    /// All users of this folder.
    Project(PathBuf),
}

impl Scope {
    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Scope::User => None,
            Scope::Project(folder) => Some(folder),
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Command {
        program: Guarded,
        args: Vec<Guarded>,
        env: Vec<(String, Guarded)>,
    },
    Url {
        url: Guarded,
        headers: Vec<(String, Guarded)>,
    },
    /// The entry has neither a command nor a URL.
    Unclear,
}

/// The settings of a server that goes through `sluice wrap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// Its name in counters and the log.
    pub name: String,
    pub policy: String,
}

impl Transport {
    /// The command line or URL, with its secrets masked.
    pub fn to_masked(&self) -> String {
        match self {
            Transport::Command { program, args, .. } => {
                let words = std::iter::once(program).chain(args).map(Guarded::as_masked);
                words.collect::<Vec<_>>().join(" ")
            }
            Transport::Url { url, .. } => url.as_masked().to_owned(),
            Transport::Unclear => "neither a command nor a URL".to_owned(),
        }
    }

    /// Its name in JSON output.
    pub fn kind(&self) -> &'static str {
        match self {
            Transport::Command { .. } => "stdio",
            Transport::Url { .. } => "http",
            Transport::Unclear => "unclear",
        }
    }

    /// Names of the variables or headers that are set.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Transport::Command { env: pairs, .. } | Transport::Url { headers: pairs, .. } => {
                pairs.iter().map(|(name, _)| name.as_str()).collect()
            }
            Transport::Unclear => Vec::new(),
        }
    }
}

impl Entry {
    /// Identifies a server across clients and names. It is derived from the masked form, so it
    /// contains no secret. It only groups servers for display, and must not be used for decisions.
    /// A command with other variables, or a URL with other headers, may have other tools and counts
    /// as another server.
    pub fn identity(&self) -> String {
        let (kind, shown) = (self.transport.kind(), self.transport.to_masked());
        let text = format!("{kind}\n{shown}\n{}", self.variables);
        sha256(text.as_bytes()).chars().take(16).collect()
    }

    /// Removes this entry's secrets from a text: servers may repeat them in errors.
    pub fn scrub(&self, text: &str) -> String {
        let (words, pairs) = match &self.transport {
            Transport::Command { program, args, env } => {
                (std::iter::once(program).chain(args).collect(), env.as_slice())
            }
            Transport::Url { url, headers } => (vec![url], headers.as_slice()),
            Transport::Unclear => (Vec::new(), [].as_slice()),
        };
        let secrets = words.into_iter().chain(pairs.iter().map(|(_, value)| value));
        let mut scrubbed = text.to_owned();
        for secret in secrets.filter(|word| word.has_secret()) {
            let whole = secret.expose();
            // Shorter values would also match ordinary text.
            for part in [whole].into_iter().chain(whole.split([' ', '=', '&', ':', '@'])) {
                if part.len() >= 4 && !secret.as_masked().contains(part) {
                    scrubbed = scrubbed.replace(part, MASK);
                }
            }
        }
        scrubbed
    }

    /// Whether its command is any `sluice wrap`, written by `adopt` or not.
    pub fn is_wrap(&self) -> bool {
        wrapped::is_wrap(&self.own)
    }

    /// The data directory in its command, if the command looks like one that `adopt` has written,
    /// for this data directory or another.
    pub fn data(&self) -> Option<&str> {
        wrapped::data(&self.own)
    }

    /// Its location, to be stored.
    pub(crate) fn to_seen(&self) -> SeenEntry {
        SeenEntry {
            file: self.file.display().to_string(),
            keys: self.keys.clone(),
            identity: self.identity(),
        }
    }
}

/// The position of an entry.
pub(crate) struct Spot<'a> {
    pub(crate) client: Client,
    pub(crate) file: &'a Path,
    pub(crate) scope: &'a Scope,
    pub(crate) keys: &'a [String],
    pub(crate) is_repeated: bool,
    pub(crate) front: &'a Front,
}

/// Reads the entry of one server.
pub(crate) fn read(spot: &Spot<'_>, value: &Value) -> Entry {
    let name = spot.keys.last().cloned().unwrap_or_default();
    let own = transport(value);
    let (transport, wrapped) = wrapped::unwrap_command(&own, spot.front);
    Entry {
        name,
        client: spot.client,
        file: spot.file.to_owned(),
        scope: scope(spot),
        is_of_project: *spot.scope != Scope::User,
        folder: text(value, "cwd")
            .map(PathBuf::from)
            .or_else(|| scope(spot).folder().map(Path::to_owned)),
        variables: variables(&transport, spot.front),
        transport,
        is_disabled: is_disabled(value),
        is_repeated: spot.is_repeated,
        wrapped,
        keys: spot.keys.to_vec(),
        own,
        exact: Guarded::secret(exact(value, scope(spot).folder())),
    }
}

/// Identifies a command's variables or a URL's headers, independent of their order.
fn variables(transport: &Transport, front: &Front) -> String {
    // Header names are case-insensitive.
    let (given, is_header) = match transport {
        Transport::Command { env, .. } => (env.as_slice(), false),
        Transport::Url { headers, .. } => (headers.as_slice(), true),
        Transport::Unclear => ([].as_slice(), false),
    };
    let plain = |name: &String| if is_header { name.to_lowercase() } else { name.clone() };
    let mut pairs: Vec<_> =
        given.iter().map(|(name, value)| (plain(name), value.expose())).collect();
    if pairs.is_empty() {
        return String::new();
    }
    pairs.sort_unstable();
    let names: Vec<_> = pairs.iter().map(|(name, _)| name).collect();
    // A quoted part cannot contain a separator.
    let values = front.fingerprints.as_ref().map(|all| all.of_text(&format!("{pairs:?}")));
    format!("{names:?} {}", values.unwrap_or_default())
}

/// The whole content of an entry: unknown keys may name a program too. Only the keys that disable
/// it are left out, because they do not change the server.
fn exact(value: &Value, folder: Option<&Path>) -> String {
    let mut value = sort_keys(value);
    if let Some(members) = value.as_object_mut() {
        members.retain(|key, _| !SWITCHES.contains(&key.as_str()));
    }
    // In another folder, the same words may start another program. A path may not be UTF-8, but its
    // `Debug` form always is.
    format!("{folder:?}\n{value}")
}

/// The scope of an entry: Claude Code stores entries for one folder in the user's file.
fn scope(spot: &Spot<'_>) -> Scope {
    match spot.keys {
        [projects, folder, _, _] if projects == "projects" => Scope::Project(folder.into()),
        _ => spot.scope.clone(),
    }
}

/// Keys that enable or disable a server.
const SWITCHES: [&str; 2] = ["disabled", "enabled"];

fn is_disabled(value: &Value) -> bool {
    let [disabled, enabled] = SWITCHES.map(|key| value.get(key).and_then(Value::as_bool));
    disabled == Some(true) || enabled == Some(false)
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn transport(value: &Value) -> Transport {
    // Older versions of Zed nest program, arguments and variables one level deeper.
    let nested = value.get("command").filter(|command| command.is_object());
    let (holder, key) = nested.map_or((value, "command"), |nested| (nested, "path"));
    if let Some(program) = text(holder, key) {
        let args: Vec<String> = holder
            .get("args")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect();
        return Transport::Command {
            program: Guarded::program(program),
            args: Guarded::arguments(&args),
            env: pairs(holder.get("env")),
        };
    }
    match URL_KEYS.iter().find_map(|key| text(value, key)) {
        Some(url) => Transport::Url { url: Guarded::url(url), headers: headers(value) },
        None => Transport::Unclear,
    }
}

/// Keys under which clients store a server's URL.
pub(crate) const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
/// Keys under which clients store headers.
pub(crate) const HEADER_KEYS: [&str; 2] = ["headers", "http_headers"];

fn headers(value: &Value) -> Vec<(String, Guarded)> {
    let mut headers: Vec<_> = HEADER_KEYS.iter().flat_map(|key| pairs(value.get(key))).collect();
    if let Some(variable) = text(value, "bearer_token_env_var") {
        let reference = format!("Bearer ${{{variable}}}");
        headers.push(("Authorization".to_owned(), Guarded::secret(reference)));
    }
    let named = value.get("env_http_headers").and_then(Value::as_object);
    headers.extend(named.into_iter().flatten().filter_map(|(header, variable)| {
        let reference = format!("${{{}}}", variable.as_str()?);
        Some((header.clone(), Guarded::secret(reference)))
    }));
    headers
}

fn pairs(value: Option<&Value>) -> Vec<(String, Guarded)> {
    let members: Option<&Map<String, Value>> = value.and_then(Value::as_object);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    members
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), Guarded::secret(text(value))))
        .collect()
}
