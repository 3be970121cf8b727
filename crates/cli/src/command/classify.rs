//! `sluice classify`: classifies tool definitions.

mod definitions;
mod line;

use std::collections::HashMap;

use clap::Args;
use sluice_classify::{Definition, Siblings, classify};

use self::{definitions::Row, line::Line};
use crate::{
    input,
    output::{Done, print_json_text},
};

/// The largest file of definitions, in bytes.
const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(crate) struct Classify {
    /// Definitions: `{"server", "tool", …}` line by line, or answers to `tools/list` [default: standard input]
    #[arg(value_name = "FILE")]
    files: Vec<String>,
}

impl Classify {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let files = if self.files.is_empty() { vec!["-".to_owned()] } else { self.files };
        let mut documents = Vec::new();
        for name in files {
            let text = input::read(&name, MOST_BYTES)?;
            documents.extend(definitions::documents(&name, text)?);
        }
        let mut rows = Vec::new();
        for document in &documents {
            rows.extend(document.rows()?);
        }
        write(&rows)?;
        Ok(Done::Well)
    }
}

/// Tools of the same server are siblings, even if they come from different files.
fn write(rows: &[Row<'_>]) -> anyhow::Result<()> {
    let mut servers: HashMap<&str, Vec<Definition<'_>>> = HashMap::new();
    for row in rows {
        servers.entry(row.server).or_default().push(row.definition);
    }
    let siblings: HashMap<&str, Siblings<'_>> =
        servers.iter().map(|(server, tools)| (*server, Siblings::new(server, tools))).collect();
    let alone = Siblings::default();
    for part in rows.chunks(1024) {
        let mut text = String::new();
        for row in part {
            let siblings = siblings.get(row.server).unwrap_or(&alone);
            let assessment = classify(&row.definition, siblings);
            text.push_str(&serde_json::to_string(&Line::new(row, &assessment))?);
            text.push('\n');
        }
        if !print_json_text(&text)? {
            break;
        }
    }
    Ok(())
}
