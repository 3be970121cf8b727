//! Adds, edits and removes stdio servers. They are written to the data directory on this machine, where a
//! running gateway picks them up: the API never accepts a command.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use serde_json::{Value, json};
use sluice_config::{declare, span};
use sluice_store::Name;

use super::{OneServer, leftovers, report_removed};
use crate::{
    api::{Gateway, Question, with_gateway},
    data::{DataDirectory, Running},
    output::{Done, GOOD, complain, print_json, remark, visible},
};
use sluice_config::{Environment, Overrides, server_file};

/// How long to wait for a running gateway to pick up a change: the poll interval and the number of
/// polls.
const STEP: Duration = Duration::from_millis(50);
const STEPS: u32 = 200;

/// The server to add.
pub(super) struct Wanted {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) is_per_session: bool,
    pub(super) timeout: Option<String>,
}

/// The contents of a server's file.
#[derive(Serialize)]
struct Written {
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    env: toml::Table,
}

fn directory(data: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let overrides = Overrides { data, ..Overrides::default() };
    Ok(sluice_config::data_directory(&overrides, &Environment::of_process())?)
}

/// The file of a server that was added with this command, if there is one.
pub(super) fn added_file(data: Option<PathBuf>, name: &Name) -> Option<PathBuf> {
    // Without a data directory, the gateway's API is used instead.
    let file = directory(data).ok().map(|directory| server_file(&directory, name));
    file.filter(|file| file.exists())
}

/// Adds a server, and waits until a running gateway has loaded it.
pub(super) fn add(
    name: &Name,
    wanted: Wanted,
    data: Option<PathBuf>,
    json: bool,
) -> anyhow::Result<Done> {
    let program = wanted.command.first().cloned().unwrap_or_default();
    let text = toml::to_string(&write_server(wanted)?)?;
    let path = directory(data.clone())?;
    let directory = DataDirectory::open(&path)?;
    let file = server_file(&path, name);
    if file.exists() {
        return Ok(report_refusal(&format!(
            "server `{name}` is there already\nhint: remove it first, or choose another name"
        )));
    }
    if is_running(&path) {
        let mut is_taken = false;
        with_gateway(data.clone(), |gateway| {
            is_taken = is_known(gateway, name)?;
            Ok(Done::Well)
        })?;
        if is_taken {
            return Ok(report_refusal(&format!(
                "server `{name}` is there already\nhint: choose another name"
            )));
        }
    }
    directory.put_server(name, &text)?;
    let shown = json!({ "name": name.as_str(), "file": file.display().to_string() });
    let said = format!(
        "{GOOD}ok{GOOD:#}: server `{name}` is added\nhint: say what may be called there with `sluice policy put {name} NAME FILE`\n"
    );
    let done = wait_for_gateway(&path, data, name, true)?;
    if done == Done::Well {
        if json {
            print_json(&shown)?;
        } else {
            remark(&said)?;
        }
        if !is_found(&program, &Environment::of_process()) {
            let program = visible(&program);
            remark(&format!(
                "note: command `{program}` is not found here, and the server cannot start without it\nhint: install it; or remove the server, and add it with the full path of its command\n"
            ))?;
        }
    }
    Ok(done)
}

/// Whether a program is a file, or in a folder of the search path.
fn is_found(program: &str, environment: &Environment) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let Some(path) = environment.get("PATH") else { return false };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Changes keys of a server's file, and waits until a running gateway has loaded them.
/// `none` removes a key.
pub(super) fn edit(
    name: &Name,
    file: &Path,
    changes: &[(&str, Option<&str>)],
    data: Option<PathBuf>,
) -> anyhow::Result<Done> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let mut table: toml::Table = text.parse()?;
    let changes: Vec<_> =
        changes.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
    for (key, value) in &changes {
        match *value {
            "none" => table.remove(*key),
            value => table.insert((*key).to_owned(), value.into()),
        };
    }
    if let Some(Err(problem)) =
        table.get("timeout").and_then(toml::Value::as_str).map(check_timeout)
    {
        return Err(problem);
    }
    let path = directory(data.clone())?;
    DataDirectory::open(&path)?.put_server(name, &toml::to_string(&table)?)?;
    wait_until(&path, data, |gateway| {
        let server = gateway.ask(Question::get(&["servers", name.as_str()]))?;
        let is = |key: &str, value: &str| {
            server.get(key).and_then(Value::as_str) == (value != "none").then_some(value)
        };
        Ok(changes.iter().all(|(key, value)| *key == "timeout" || is(key, value)))
    })
}

/// Removes a server that was added with this command, and what is stored for it: otherwise that
/// would apply to a later server of the same name.
pub(super) fn remove(file: &Path, data: Option<PathBuf>, one: &OneServer) -> anyhow::Result<Done> {
    let directory = directory(data.clone())?;
    let remove_file =
        || fs::remove_file(file).with_context(|| format!("cannot remove `{}`", file.display()));
    if !is_running(&directory) {
        leftovers::forget(&DataDirectory::open(&directory)?, &one.name)?;
        remove_file()?;
        return report_removed(one);
    }
    // Policies go first, because without a policy every call is denied.
    match with_gateway(data.clone(), |gateway| remove_policies(gateway, &one.name))? {
        Done::Well => {}
        done => return Ok(done),
    }
    remove_file()?;
    match wait_for_gateway(&directory, data.clone(), &one.name, false)? {
        Done::Well => {}
        done => return Ok(done),
    }
    // The rest goes once the file no longer declares it.
    with_gateway(data, |gateway| super::remove(gateway, one))
}

fn remove_policies(gateway: &Gateway, server: &Name) -> anyhow::Result<Done> {
    if !is_known(gateway, server)? {
        return Ok(Done::Well);
    }
    let answer = gateway.ask_all(&["servers", server.as_str(), "policies"], "policies")?;
    for policy in answer.get("policies").and_then(Value::as_array).into_iter().flatten() {
        let of = |name: &str| policy.get(name).and_then(Value::as_str);
        // Policies declared in `sluice.toml` are removed there.
        if let (Some(name), true) = (of("name"), of("source") != Some("file")) {
            let path = ["servers", server.as_str(), "policies", name];
            gateway.ask(Question::delete(&path))?;
        }
    }
    Ok(Done::Well)
}

fn report_refusal(message: &str) -> Done {
    complain(&anyhow!("{message}"));
    Done::WithProblems
}

fn is_running(directory: &Path) -> bool {
    Running::find(directory, &Environment::of_process()).is_ok()
}

/// Waits until a running gateway has added or removed the server.
fn wait_for_gateway(
    directory: &Path,
    data: Option<PathBuf>,
    name: &Name,
    is_wanted: bool,
) -> anyhow::Result<Done> {
    wait_until(directory, data, |gateway| Ok(is_known(gateway, name)? == is_wanted))
}

/// Waits until a running gateway has taken a change, which is when `is_taken` holds.
fn wait_until(
    directory: &Path,
    data: Option<PathBuf>,
    is_taken: impl Fn(&Gateway) -> anyhow::Result<bool>,
) -> anyhow::Result<Done> {
    if !is_running(directory) {
        return Ok(Done::Well);
    }
    with_gateway(data, |gateway| {
        for _ in 0..STEPS {
            if is_taken(gateway)? {
                return Ok(Done::Well);
            }
            if gateway.file_problems()?.as_array().is_some_and(|problems| !problems.is_empty()) {
                gateway.warn_of_files()?;
                return Ok(Done::WithProblems);
            }
            gateway.pause(STEP);
        }
        Ok(report_refusal(
            "the gateway has not noticed the change\nhint: see what its log says, or start it again",
        ))
    })
}

fn is_known(gateway: &Gateway, name: &Name) -> anyhow::Result<bool> {
    let answer = gateway.ask_all(&["servers"], "servers")?;
    let servers = answer.get("servers").and_then(Value::as_array);
    let mut names = servers.into_iter().flatten().filter_map(|server| server.get("name"));
    Ok(names.any(|known| known == name.as_str()))
}

fn check_timeout(text: &str) -> anyhow::Result<()> {
    if span::read(text).is_none() {
        bail!("`--timeout` must be {}", span::EXPECTED);
    }
    Ok(())
}

fn write_server(wanted: Wanted) -> anyhow::Result<Written> {
    let Wanted { mut command, env, is_per_session, timeout } = wanted;
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        // The gateway may run in another directory.
        let path = std::path::absolute(&*program)?;
        *program = path
            .into_os_string()
            .into_string()
            .map_err(|_| anyhow!("the path of `{program}` is not valid UTF-8"))?;
    }
    timeout.as_deref().map(check_timeout).transpose()?;
    let mut table = toml::Table::new();
    for pair in env {
        // The value may be a secret, so messages do not contain it.
        let (name, value) =
            pair.split_once('=').ok_or_else(|| anyhow!("`--env` must be `NAME=VALUE`"))?;
        declare::variable_name(name).map_err(|message| anyhow!("`--env`: {message}"))?;
        if table.insert(name.to_owned(), absolute(value)?.into()).is_some() {
            bail!("variable `{name}` is given twice");
        }
    }
    Ok(Written { command, instances: is_per_session.then_some("session"), timeout, env: table })
}

/// Makes the path of a secret absolute, because the gateway may run in another directory.
fn absolute(value: &str) -> anyhow::Result<String> {
    match value.strip_prefix("file:") {
        Some(path) => Ok(format!("file:{}", std::path::absolute(path)?.display())),
        None => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, write_server};

    fn wanted(env: &[&str]) -> Wanted {
        Wanted {
            command: ["npx", "-y", "a \"b\""].map(String::from).to_vec(),
            env: env.iter().map(ToString::to_string).collect(),
            is_per_session: true,
            timeout: Some("5s".into()),
        }
    }

    #[test]
    fn an_added_server_is_written_as_toml() {
        let text = toml::to_string(&write_server(wanted(&["KEY=env:KEY"])).unwrap()).unwrap();
        let expected = "command = [\"npx\", \"-y\", 'a \"b\"']\ninstances = \"session\"\n\
                        timeout = \"5s\"\n\n[env]\nKEY = \"env:KEY\"\n";
        assert_eq!(text, expected);
        for wrong in [&["KEY"][..], &["1=a"], &["A=1", "A=2"]] {
            assert!(write_server(wanted(wrong)).is_err(), "{wrong:?}");
        }
        assert!(write_server(Wanted { timeout: Some("5".into()), ..wanted(&[]) }).is_err());
    }
}
