//! `command` of `[servers.NAME]`: stdio servers.

use sluice_store::{Instances, Secret, Start, Transport};
use toml::{Spanned, de::DeValue};

use super::{
    loader::Loader,
    secret,
    section::{Section, nearest},
    value::{Parsed, Wrong},
};
use crate::declare;

/// Reads the command, its environment, and when and how often it is started.
pub(super) fn read(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Transport> {
    let env = env(section, loader);
    let instances = section.read("instances", instances, &mut loader.findings);
    let start = section.read("start", start, &mut loader.findings);
    let before = loader.findings.count();
    let command = section.list("command", argument, &mut loader.findings);
    let mut command: Vec<_> = command.into_iter().map(Spanned::into_inner).collect();
    let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
        if loader.findings.count() == before {
            let span = section.entry("command").map_or(0..0, |(span, _)| span);
            let message = format!("`{}` must name a program", section.path_to("command"));
            let hint = "such as `command = [\"npx\", \"-y\", \"some-server\"]`";
            loader.findings.add_with_hint(span, message, hint);
        }
        return None;
    };
    if program.contains('/') {
        *program = loader.path(program).display().to_string();
    }
    let instances = instances.map(Spanned::into_inner).unwrap_or_default();
    let start = start.map(Spanned::into_inner).unwrap_or_default();
    Some(Transport::Command { command, env, instances, start })
}

fn argument(value: &DeValue<'_>) -> Parsed<String> {
    let text = value.as_str().filter(|text| !text.contains('\0'));
    text.map(str::to_owned).ok_or_else(|| "a text".into())
}

fn env(section: &Section<'_>, loader: &mut Loader<'_>) -> Vec<(String, Secret)> {
    let Some(section) = section.table("env", &mut loader.findings) else { return Vec::new() };
    let mut env = Vec::new();
    for (name, (span, value)) in section.entries() {
        let secret = secret::resolve(&section.path_to(name), value, loader);
        if let Err(message) = declare::variable_name(name) {
            loader.findings.add(span, message);
            continue;
        }
        let Some(secret) = secret else { continue };
        if secret.get_ref().expose().contains('\0') {
            loader.findings.add(value.span(), format!("the value of `{name}` has a zero byte"));
            continue;
        }
        env.push((name.to_owned(), secret.into_inner()));
    }
    env
}

fn instances(value: &DeValue<'_>) -> Parsed<Instances> {
    word(value, &[Instances::Shared, Instances::Session], Instances::name)
}

fn start(value: &DeValue<'_>) -> Parsed<Start> {
    word(value, &[Start::Use, Start::Up], Start::name)
}

/// Reads one of a fixed set of words.
fn word<T: Copy>(value: &DeValue<'_>, all: &[T], name: fn(T) -> &'static str) -> Parsed<T> {
    let names: Vec<_> = all.iter().map(|one| name(*one)).collect();
    let expected = format!("one of `{}`", names.join("`, `"));
    let word = value.as_str();
    let found = all.iter().copied().find(|one| word == Some(name(*one)));
    found.ok_or_else(|| match word.and_then(|word| nearest(word, &names)) {
        Some(near) => Wrong::with_hint(&expected, format!("did you mean `{near}`?")),
        None => (&*expected).into(),
    })
}
