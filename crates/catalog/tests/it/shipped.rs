//! What is shipped: that it is built from the definitions, and what is in it.

use std::{fs, path::Path};

use sluice_catalog::{Catalog, Evident};

const INDEX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/index.bin");

#[test]
#[expect(
    clippy::print_stderr,
    reason = "a skipped test must be visible in the output of a test run"
)]
fn the_committed_index_is_what_is_built() {
    // The definitions are beside the project, or there are none.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut seeds = above.map(|folder| folder.join("shared/catalog-seed"));
    let seed = seeds.find(|folder| folder.is_dir());
    let Some(seed) = seed else {
        eprintln!("skipped: there are no definitions beside the project");
        return;
    };
    let built = sluice_catalog::build(&seed).unwrap();
    let committed = fs::read(INDEX).unwrap();
    assert!(built == committed, "the index is not what is built: run `make catalog`");
}

#[test]
fn the_shipped_index_holds_the_field_without_texts_of_others() {
    let catalog = Catalog::in_memory().unwrap();
    let stats = catalog.stats().unwrap();
    assert!(stats.servers > 2_300 && stats.tools > 22_000, "{stats:?}");
    assert_eq!(stats.imported, 0);
    let mut after = String::new();
    let mut tools = 0;
    while let Some(last) = catalog.servers(&after, 100).unwrap().last().cloned() {
        for server in catalog.servers(&after, 100).unwrap() {
            assert!(server.description.is_none() && server.about.is_none());
            for tool in catalog.tools(&server).unwrap() {
                tools += 1;
                assert_eq!(tool.description, None);
                for one in tool.evidence {
                    assert_eq!(one.parameter, None);
                    let named = tool.name.contains(&one.quote) || one.quote.ends_with("Hint");
                    assert!(named, "{}: {}", tool.name, one.quote);
                    assert!(!matches!(&one.what, Evident::Reason(_, text) if text.is_empty()));
                }
            }
        }
        after = last.slug;
    }
    assert_eq!(tools, stats.tools);
}

#[test]
fn building_twice_gives_the_same_bytes_and_the_better_known_server() {
    let folder = sluice_testkit::Folder::new().unwrap();
    let line = |source: &str, tools: &str| {
        format!("{{\"server\": \"a\", \"source\": \"{source}\", \"tools\": [{tools}]}}\n")
    };
    let crawled = line("crawl@1", r#"{"name": "x"}, {"name": "y"}"#);
    let answered = line("npm:a@1", r#"{"name": "z", "description": "Secret words of others"}"#);
    fs::write(folder.join("a.jsonl"), &crawled).unwrap();
    fs::write(folder.join("b.jsonl"), answered + &crawled).unwrap();
    let first = sluice_catalog::build(folder.path()).unwrap();
    assert_eq!(first, sluice_catalog::build(folder.path()).unwrap());
    fs::write(folder.join("c.jsonl"), "{\"server\": 3}\n").unwrap();
    let error = sluice_catalog::build(folder.path()).unwrap_err().to_string();
    assert!(error.contains("line 1 of") && error.contains("c.jsonl"), "{error}");
}
