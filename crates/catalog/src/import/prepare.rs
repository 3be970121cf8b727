//! Parses a piece of a file and classifies the tools of its servers.

use std::{collections::HashSet, fmt::Write as _};

use sluice_classify::{Definition, Siblings, classify};
use sluice_wire::json::{Bounds, Document, LoneSurrogates, Value, write_string};

use super::{
    LONGEST_TEXT,
    form::{ServerDocument, forms},
};
use crate::{
    bits::{Findings, Signals},
    digest,
    entry::Traits,
    evidence::{self, Keep},
    words,
    write::{NewServer, NewTool},
};

/// Bounds of a document. It is the user's own, so it may be large; the classifier has its own
/// bounds.
pub(super) const BOUNDS: Bounds = Bounds {
    bytes: LONGEST_TEXT,
    depth: 128,
    string: LONGEST_TEXT,
    number: 1024,
    members: 1 << 20,
    nodes: 8 << 20,
    lone_surrogates: LoneSurrogates::Refuse,
};
/// The longest name, in bytes. MCP advises 128 for tools.
const LONGEST_NAME: usize = 256;
/// The longest stored description, in bytes.
const LONGEST_DESCRIPTION: usize = 4 << 10;
/// Packages and addresses stored per registry entry.
const MOST_PLACES: usize = 8;

/// The content of a piece.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) servers: Vec<NewServer>,
    /// Skipped entries, with the reasons.
    pub(crate) problems: Vec<String>,
    /// The words that evidence refers to.
    pub(crate) phrases: HashSet<&'static str>,
    /// Entries of older versions.
    pub(crate) older: u64,
}

/// Parses a piece; `Err` if all of it is invalid.
pub(crate) fn read(text: &[u8], name: &str, keep: Keep) -> Result<Prepared, String> {
    let document = Document::parse(text, &BOUNDS)
        .map_err(|refusal| format!("it is not valid JSON: {refusal}"))?;
    let forms = forms(document.root())?;
    let several = forms.len() > 1;
    let mut prepared = Prepared::default();
    for (number, form) in (1..).zip(forms) {
        if let Err(problem) = one(form, name, keep, &mut prepared) {
            let at = if several { format!("entry {number}: ") } else { String::new() };
            prepared.problems.push(at + &problem);
        }
    }
    Ok(prepared)
}

fn one(
    form: ServerDocument<'_>,
    name: &str,
    keep: Keep,
    prepared: &mut Prepared,
) -> Result<(), String> {
    match form {
        ServerDocument::Older => prepared.older += 1,
        ServerDocument::Listing(server) => prepared.servers.push(read_registry_entry(server)?),
        ServerDocument::Tools { server, source, tools, goes_on } => {
            let name = server.unwrap_or(name);
            check_name("server", name)?;
            if goes_on {
                let problem = "it has a `nextCursor`: it is one page of a longer list";
                prepared.problems.push(problem.into());
            }
            if !tools.is_empty() && tools.iter().all(|tool| Definition::from_tool(*tool).is_none())
            {
                return Err("none of its tools has a name".into());
            }
            let tools = definitions(&tools, &mut prepared.problems);
            let tools = classify_tools(name, &tools, keep, &mut prepared.phrases);
            prepared.servers.push(NewServer {
                name: name.to_owned(),
                source: beginning(source.unwrap_or("imported"), LONGEST_NAME).to_owned(),
                version: None,
                description: None,
                about: None,
                tools: Some(tools),
            });
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err(format!("the {what} has no name"));
    }
    if name.len() > LONGEST_NAME {
        let length = name.len();
        return Err(format!(
            "the {what}'s name has {length} bytes, at most {LONGEST_NAME} are taken"
        ));
    }
    Ok(())
}

/// The tools with a name, without duplicates.
fn definitions<'d>(
    tools: &[Value<'d>],
    problems: &mut Vec<String>,
) -> Vec<(Value<'d>, Definition<'d>)> {
    let mut names = HashSet::new();
    let mut found = Vec::new();
    for (number, tool) in (1..).zip(tools) {
        let definition = Definition::from_tool(*tool);
        let checked = definition.ok_or_else(|| "the tool has no name".to_owned());
        let checked = checked.and_then(|one| check_name("tool", one.name).map(|()| one));
        match checked {
            Ok(definition) if names.insert(definition.name) => found.push((*tool, definition)),
            Ok(definition) => {
                problems.push(format!("tool {number}: `{}` is there already", definition.name));
            }
            Err(problem) => problems.push(format!("tool {number}: {problem}")),
        }
    }
    found
}

fn classify_tools(
    server: &str,
    tools: &[(Value<'_>, Definition<'_>)],
    keep: Keep,
    phrases: &mut HashSet<&'static str>,
) -> Vec<NewTool> {
    let definitions: Vec<Definition<'_>> =
        tools.iter().map(|(_, definition)| *definition).collect();
    let siblings = Siblings::new(server, &definitions);
    let classified = tools.iter().map(|(tool, definition)| {
        let assessment = classify(definition, &siblings);
        let kept = evidence::keep_evidence(&assessment, keep);
        phrases.extend(kept.phrases);
        let signals = Signals::from(assessment.signals.as_slice());
        let is_own = keep == Keep::Quotes;
        let description = definition.description.filter(|_| is_own);
        let description = description.map(|text| beginning(text, LONGEST_DESCRIPTION));
        let category = assessment.category;
        NewTool {
            name: definition.name.to_owned(),
            description: description.map(str::to_owned),
            traits: Traits {
                category,
                confidence: assessment.confidence.percent(),
                signals,
                findings: Findings::from(assessment.findings.as_slice()),
            },
            digest: is_own.then(|| digest::of_definition(*tool)),
            evidence: kept.text,
            words: words::of_tool(server, definition.name, description, category, signals),
        }
    });
    classified.collect()
}

/// Reads a registry entry: the server is known, its tools are not.
fn read_registry_entry(server: Value<'_>) -> Result<NewServer, String> {
    let text = |key| server.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    check_name("server", name)?;
    let short = |text: &str| beginning(text, LONGEST_NAME).to_owned();
    Ok(NewServer {
        name: name.to_owned(),
        source: "registry".into(),
        version: text("version").map(short),
        description: text("description")
            .map(|text| beginning(text, LONGEST_DESCRIPTION).to_owned()),
        about: Some(about(server)),
        tools: None,
    })
}

/// The addresses and packages of a server, in our own format.
fn about(server: Value<'_>) -> String {
    let text = |value: Value<'_>, keys: &[&str]| {
        let found = keys.iter().find_map(|key| value.get(key).and_then(Value::as_str));
        found.map(|text| beginning(text, LONGEST_NAME).to_owned())
    };
    let list = |key| server.get(key).and_then(Value::items).into_iter().flatten().take(MOST_PLACES);
    let packages = list("packages").filter_map(|package| {
        let kind = text(package, &["registryType", "registry_type", "registry_name"]);
        let name = text(package, &["identifier", "name"])?;
        Some(kind.map_or_else(|| name.clone(), |kind| format!("{kind}:{name}")))
    });
    let remotes = list("remotes").filter_map(|remote| text(remote, &["url"]));
    let repository = server.get("repository").and_then(|repository| text(repository, &["url"]));
    let mut out = String::from("{");
    let mut field = |key: &str, values: Vec<String>| {
        let _ = write!(out, "{}\"{key}\":[", if out.len() > 1 { "," } else { "" });
        for (place, value) in values.iter().enumerate() {
            out.push_str(if place > 0 { "," } else { "" });
            // Writing to a string cannot fail.
            let _ = write_string(&mut out, value);
        }
        out.push(']');
    };
    field("packages", packages.collect());
    field("remotes", remotes.collect());
    field("repository", repository.into_iter().collect());
    out.push('}');
    out
}

fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
