//! Builds the shipped index from a folder of definitions. The build is reproducible:
//! the same files give the same bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use sluice_classify::Category;
use sluice_wire::json::write_string;

use super::{HEAD, pack};
use crate::{
    bits::code,
    evidence::Keep,
    import::prepare,
    slug::Slugs,
    write::{NewServer, NewTool},
};

/// Why an index cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("`{}` has no `.jsonl` files\nhint: name the folder of definitions", .0.display())]
    Nothing(PathBuf),
    #[error("{0}")]
    Definition(String),
}

/// Builds the index from the definitions in a folder's `.jsonl` files.
pub fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let mut servers: BTreeMap<String, NewServer> = BTreeMap::new();
    let mut phrases = BTreeSet::new();
    for file in files(folder)? {
        let text = fs::read(&file).map_err(|error| BuildError::Read(file.clone(), error))?;
        let lines = text.split(|byte| *byte == b'\n').zip(1..);
        for (line, number) in lines.filter(|(line, _)| !line.trim_ascii().is_empty()) {
            let wrong = |what: &str| {
                BuildError::Definition(format!("line {number} of `{}`: {what}", file.display()))
            };
            let read = prepare::read(line, "", Keep::Names).map_err(|what| wrong(&what))?;
            if let Some(problem) = read.problems.first() {
                return Err(wrong(problem));
            }
            phrases.extend(read.phrases);
            for server in read.servers {
                add(&mut servers, server);
            }
        }
    }
    Ok(pack(&lines(servers.into_values().collect(), &phrases)))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let failed = |error| BuildError::Read(folder.to_owned(), error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths: io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    if paths.is_empty() { Err(BuildError::Nothing(folder.to_owned())) } else { Ok(paths) }
}

/// If two servers share a name, the one with the better source is kept.
fn add(servers: &mut BTreeMap<String, NewServer>, server: NewServer) {
    let known = |server: &NewServer| {
        let tools = server.tools.as_ref().map(Vec::len);
        (is_answer(server), tools, std::cmp::Reverse(server.source.clone()))
    };
    match servers.get(&server.name) {
        Some(there) if known(there) >= known(&server) => {}
        _ => {
            servers.insert(server.name.clone(), server);
        }
    }
}

/// Whether the definitions come from the published package itself.
fn is_answer(server: &NewServer) -> bool {
    ["npm:", "pypi:"].iter().any(|prefix| server.source.starts_with(prefix))
}

fn lines(mut servers: Vec<NewServer>, phrases: &BTreeSet<&'static str>) -> String {
    // Servers with the best sources come first, where a search looks first.
    servers.sort_by_key(|server| (!is_answer(server), server.name.clone()));
    let sources: BTreeSet<&str> = servers.iter().map(|server| server.source.as_str()).collect();
    let sources: Vec<&str> = sources.into_iter().collect();
    let mut text = format!("{HEAD}\n");
    write_list(&mut text, phrases.iter().copied());
    write_list(&mut text, sources.iter().copied());
    let mut slugs = Slugs::default();
    for server in &servers {
        let place = sources.iter().position(|source| *source == server.source);
        text.push_str("[[");
        // Writing to a string cannot fail.
        let _ = write_string(&mut text, &slugs.take(&server.name));
        text.push(',');
        let _ = write_string(&mut text, &server.name);
        let _ = writeln!(text, ",{}]]", place.unwrap_or_default());
        server.tools.iter().flatten().for_each(|tool| write_tool(&mut text, tool));
    }
    text
}

fn write_list<'t>(text: &mut String, items: impl Iterator<Item = &'t str>) {
    text.push('[');
    for (place, item) in items.enumerate() {
        if place > 0 {
            text.push(',');
        }
        let _ = write_string(text, item);
    }
    text.push_str("]\n");
}

fn write_tool(text: &mut String, tool: &NewTool) {
    text.push('[');
    let _ = write_string(text, &tool.name);
    let traits = tool.traits;
    let _ = writeln!(
        text,
        ",{},{},{},{},{}]",
        code(&Category::ALL, &traits.category),
        traits.confidence,
        traits.signals.bits(),
        traits.findings.bits(),
        tool.evidence
    );
}
