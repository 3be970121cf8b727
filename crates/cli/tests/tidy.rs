//! House rules that no compiler checks: layers, lengths, head comments, names, links.

#![cfg(test)]

#[path = "tidy/names.rs"]
mod names;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Which of our crates each crate may use. A new arrow is a change of its own.
const LAYERS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("classify", &["wire"]),
    ("policy", &["classify", "wire"]),
    ("policy-import", &["policy"]),
    ("catalog", &["classify", "wire"]),
    ("store", &["policy", "classify", "wire"]),
    ("config", &["policy", "store"]),
    ("expiring", &[]),
    ("http", &["wire", "expiring"]),
    ("stdio", &["wire", "http", "expiring"]),
    ("builtin", &["wire", "http", "stdio"]),
    ("upstream", &["wire", "http", "stdio", "builtin"]),
    ("bridge", &["wire", "http", "upstream", "expiring"]),
    ("scan", &["wire", "classify", "policy", "http", "stdio", "upstream"]),
    ("pharo", &["wire", "http", "builtin"]),
    ("demo", &["wire", "builtin"]),
    ("stack", &["wire", "classify"]),
    ("listener", &[]),
    ("oidc", &[]),
    (
        "gateway",
        &[
            "wire", "classify", "policy", "store", "http", "stdio", "builtin", "upstream",
            "bridge", "listener", "expiring",
        ],
    ),
    (
        "admin",
        &[
            "wire", "classify", "catalog", "policy", "store", "config", "listener", "expiring",
            "oidc",
        ],
    ),
    ("testkit", &["wire", "policy", "store", "upstream"]),
    (
        "cli",
        &[
            "wire",
            "classify",
            "policy",
            "policy-import",
            "catalog",
            "store",
            "config",
            "http",
            "stdio",
            "builtin",
            "upstream",
            "pharo",
            "demo",
            "stack",
            "scan",
            "listener",
            "gateway",
            "admin",
        ],
    ),
];

/// Lines of a source file, tests not counted.
const LONGEST_FILE: usize = 500;

#[test]
fn crates_use_only_the_layers_below_them() {
    let mut wrong = Vec::new();
    for folder in children(&root().join("crates")) {
        let name = file_name(&folder);
        let manifest = read(&folder.join("Cargo.toml"));
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            wrong.push(format!("{name}: not in the table of layers"));
            continue;
        };
        for (section, used) in uses(&manifest) {
            let for_tests = section == "dev-dependencies" && used == "testkit";
            if !allowed.contains(&used.as_str()) && !for_tests && section != "dev-dependencies" {
                wrong.push(format!("{name}: may not use {used}"));
            }
            if used == "testkit" && section != "dev-dependencies" {
                wrong.push(format!("{name}: testkit is for tests only"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Our crates that a manifest names, each with its section.
fn uses(manifest: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some(rest) = line.strip_prefix("sluice-") {
            let name = rest.split(['.', ' ', '=']).next().unwrap_or_default();
            found.push((section.clone(), name.to_owned()));
        }
    }
    found
}

/// The store hides its database, and the catalogue's index is a file of its own. Tests may read
/// both with SQL.
#[test]
fn only_the_store_and_the_catalogue_use_sqlite() {
    let folders = children(&root().join("crates"));
    let users: Vec<_> = folders
        .iter()
        .filter(|folder| shipped_dependencies(&read(&folder.join("Cargo.toml"))).any(is_sqlite))
        .map(|folder| file_name(folder))
        .collect();
    assert_eq!(users, ["catalog", "store"]);
}

fn is_sqlite(dependency: &str) -> bool {
    ["rusqlite", "libsqlite3", "sqlx", "sqlite"].iter().any(|name| dependency.starts_with(name))
}

/// The lines of all dependencies but those of tests.
fn shipped_dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut is_shipped = false;
    manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            is_shipped = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        is_shipped
    })
}

#[test]
fn source_files_stay_short_and_say_what_they_are_for() {
    let mut wrong = Vec::new();
    for file in files_below(&root(), "rs") {
        let text = read(&file);
        let name = relative(&file);
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if lines > LONGEST_FILE {
            wrong.push(format!("{name}: {lines} lines, at most {LONGEST_FILE}"));
        }
        if !text.starts_with("//! ") {
            wrong.push(format!("{name}: begins without a head comment"));
        }
        if name.ends_with("/mod.rs") {
            wrong.push(format!("{name}: write the module as a file beside its folder"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lines of a crate, tests not counted.
const LARGE_CRATE: usize = 3_000;

#[test]
fn large_crates_say_why_they_are_large() {
    let mut wrong = Vec::new();
    for folder in children(&root().join("crates")) {
        let source = folder.join("src");
        let lines: usize = files_below(&source, "rs").iter().map(|file| shipped_lines(file)).sum();
        let main = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let main = main.iter().find(|file| file.exists()).expect("a crate has a root");
        let text = read(main);
        let head: Vec<_> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        if lines > LARGE_CRATE && !head.concat().contains("crate is large because") {
            let name = relative(main);
            wrong.push(format!(
                "{name}: {lines} lines; its head comment must say `This crate is large because …`"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lines of a source file that are not tests.
fn shipped_lines(file: &Path) -> usize {
    let is_test = file.iter().any(|part| part == "tests" || part == "tests.rs");
    if is_test {
        return 0;
    }
    read(file).lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[test]
fn documents_stay_within_their_length() {
    for (document, most) in [("README.md", 150), ("ARCHITECTURE.md", 300)] {
        let lines = read(&root().join(document)).lines().count();
        assert!(lines <= most, "{document} has {lines} lines, at most {most}");
    }
    let words = read(&root().join("ARCHITECTURE.md")).split_whitespace().count();
    assert!(words <= 1800, "ARCHITECTURE.md has {words} words, at most 1800");
}

#[test]
fn the_lexicon_holds_only_terms_of_our_own() {
    const MOST_TERMS: usize = 40;
    let lexicon = read(&root().join("docs/lexicon.md"));
    let rows = lexicon.lines().filter(|line| line.starts_with("| ")).skip(2);
    let terms: Vec<_> = rows.filter_map(|row| row.split(" | ").next()).collect();
    let (count, is_sorted) = (terms.len(), terms.is_sorted());
    assert!(count <= MOST_TERMS, "{count} terms, at most {MOST_TERMS}");
    assert!(is_sorted && count > 0, "the terms are not in alphabetical order");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in files_below(&root(), "md") {
        let text = read(&file);
        for link in links(&text) {
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.clone() } else { folder(&file).join(path) };
            let found = target.exists()
                && (fragment.is_empty() || anchors(&read(&target)).contains(fragment));
            if !found {
                wrong.push(format!("{}: {link}", relative(&file)));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// The targets of relative links, outside of code.
fn links(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        found.extend(line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    }
    found.retain(|link| !link.contains("://") && !link.starts_with("mailto:"));
    found
}

/// Headings as the fragments that lead to them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files of the project with this ending; what tools make is passed over.
fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in children(folder) {
        let name = file_name(&path);
        let passed_over =
            name.starts_with('.') || ["target", "node_modules", "corpus"].contains(&&*name);
        if path.is_dir() && !passed_over {
            found.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}
