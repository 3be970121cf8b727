//! Policies that others can extend, by name, as JSON.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use sluice_policy::{BaseText, Bases, Format, MissingBase};

/// A text instead of an object is taken as it is.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct KnownBases(pub(crate) HashMap<String, Value>);

impl Bases for KnownBases {
    fn own_name(&self) -> Option<&str> {
        Some("own")
    }

    fn find(&self, name: &str, _from: Option<&BaseText>) -> Result<BaseText, MissingBase> {
        let text = self.0.get(name).map(|base| match base {
            Value::String(text) => text.clone(),
            base => base.to_string(),
        });
        let missing = || MissingBase { message: format!("there is no `{name}`"), hint: None };
        let text = text.ok_or_else(missing)?.into_bytes();
        Ok(BaseText { text, format: Format::Json, place: String::new() })
    }
}
