//! The settings of the server in an image.

use std::{collections::BTreeMap, path::Path};

use sluice_wire::json::{Bounds, Document, Quoted};

use super::envelope::{self, Raised};

/// The settings as JSON, by names in camelCase.
#[derive(Debug, Default)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Takes any key and any value; nothing is checked.
    pub(super) fn apply(&mut self, body: &str) -> Result<String, Raised> {
        let document = Document::parse(body, &Bounds::default()).ok();
        let settings = document.as_ref().and_then(|document| document.root().get("settings"));
        let members = settings.and_then(sluice_wire::json::Value::members);
        let members = members.ok_or_else(|| Raised::missing("settings"))?;
        for (key, value) in members {
            self.0.insert(camel_case(key.as_str().unwrap_or_default()), value.to_string());
        }
        Ok(envelope::success("\"Settings applied successfully\""))
    }

    pub(super) fn json(&self, screenshots: &Path) -> String {
        let folder = Quoted(&screenshots.to_string_lossy()).to_string();
        let mut all = BTreeMap::from([
            ("stackSize".to_owned(), "100".to_owned()),
            ("screenshotDir".to_owned(), folder),
        ]);
        all.extend(self.0.clone());
        let members: Vec<_> =
            all.iter().map(|(key, value)| format!("{}:{value}", Quoted(key))).collect();
        format!("{{{}}}", members.join(","))
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(letters.as_str());
    }
    camel
}
