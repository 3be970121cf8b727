//! Checks what a server says about itself, its tools, prompts and resources before a client
//! reads it: each part has a bound, and text that a person does not see is removed or the
//! item is withheld, as configured (`hidden_text`).

use sluice_classify::{has_hidden, strip_hidden};
use sluice_store::HiddenText;
use sluice_wire::{
    edit::quote,
    json::{Kind, Value},
};

use crate::refusal::Refusal;

/// The most items in one page of a list.
pub(crate) const MOST_ITEMS: usize = 10_000;
/// The longest name of a tool or prompt, and the longest URI, in bytes.
const LONGEST_NAME: usize = 1024;
/// The longest schema of a tool, in bytes.
const LONGEST_SCHEMA: usize = 256 << 10;
/// The longest title or description, and the longest instructions, in bytes.
const LONGEST_TEXT: usize = 32 << 10;
/// The most values in the capabilities of a server.
const MOST_CAPABILITIES: usize = 1000;
/// The longest answer to `initialize` or `server/discover`, in bytes.
const LONGEST_INTRODUCTION: usize = 1 << 20;

/// Members that a model reads as text. All other strings have a meaning for the server, so
/// they are never changed.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];
/// Members that hold a schema.
const SCHEMAS: [&str; 2] = ["inputSchema", "outputSchema"];

/// What is wrong with a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("its name is longer than {LONGEST_NAME} bytes")]
    LongName,
    #[error("a schema is longer than {LONGEST_SCHEMA} bytes")]
    LongSchema,
    #[error("a text is longer than {LONGEST_TEXT} bytes")]
    LongText,
    #[error("a text has characters that cannot be seen")]
    HiddenText,
    #[error("its name, or a value that cannot be changed, has characters that cannot be seen")]
    HiddenName,
}

/// A definition after the check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Fine,
    /// It is passed on in this form.
    Changed(String, Fault),
    Withheld(Fault),
}

/// Checks one item of a list, which is identified by the member `identity`.
pub(crate) fn check(item: Value<'_>, identity: &str, mode: HiddenText) -> Checked {
    if let Some(fault) = too_long(item, identity) {
        return Checked::Withheld(fault);
    }
    if mode == HiddenText::Pass || is_plain(item.raw()) {
        return Checked::Fine;
    }
    let mut texts = Texts::new(item, identity);
    if let Err(fault) = texts.object(item, true) {
        return Checked::Withheld(fault);
    }
    match texts.fault {
        None => Checked::Fine,
        Some(fault) if mode == HiddenText::Withhold => Checked::Withheld(fault),
        Some(fault) => Checked::Changed(texts.splice(item.raw()), fault),
    }
}

fn too_long(item: Value<'_>, identity: &str) -> Option<Fault> {
    let name = item.get(identity).and_then(Value::as_str).unwrap_or_default();
    if name.len() > LONGEST_NAME {
        return Some(Fault::LongName);
    }
    let schemas = SCHEMAS.iter().filter_map(|name| item.get(name));
    schemas
        .map(|schema| schema.raw().len())
        .any(|length| length > LONGEST_SCHEMA)
        .then_some(Fault::LongSchema)
}

/// Whether JSON certainly has no hidden characters and no long text. Nearly all definitions
/// are so.
fn is_plain(raw: &str) -> bool {
    let has_escape = || ["\\u", "\\b", "\\f"].iter().any(|escape| raw.contains(escape));
    raw.len() <= LONGEST_TEXT && raw.is_ascii() && !raw.contains('\u{7f}') && !has_escape()
}

/// The changes to the texts of one item.
struct Texts<'i> {
    /// Where the item begins in its document.
    start: usize,
    identity: &'i str,
    /// Whether every string is shown, whatever its name is.
    are_all_shown: bool,
    /// Offsets in the item, lengths and replacements, in order.
    changes: Vec<(usize, usize, String)>,
    fault: Option<Fault>,
}

impl<'i> Texts<'i> {
    fn new(item: Value<'_>, identity: &'i str) -> Texts<'i> {
        Texts {
            start: item.offset(),
            identity,
            are_all_shown: false,
            changes: Vec::new(),
            fault: None,
        }
    }

    /// Checks an object. An error says why the whole item cannot be shown.
    fn object(&mut self, object: Value<'_>, is_item: bool) -> Result<(), Fault> {
        for (key, value) in object.members().into_iter().flatten() {
            let name = key.as_str().unwrap_or_default();
            if has_hidden(name) {
                return Err(Fault::HiddenName);
            }
            // Metadata is for programs.
            if name == "_meta" {
                continue;
            }
            // Tools and prompts are called by their name; a resource is only described by it.
            let describes = is_item && name == "name" && name != self.identity;
            self.value(value, describes || TEXTS.contains(&name))?;
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'_>, is_text: bool) -> Result<(), Fault> {
        match value.kind() {
            Kind::Object => self.object(value, false),
            Kind::List => {
                value.items().into_iter().flatten().try_for_each(|item| self.value(item, is_text))
            }
            Kind::String => self.text(value, is_text),
            Kind::Null | Kind::Bool | Kind::Number => Ok(()),
        }
    }

    fn text(&mut self, value: Value<'_>, is_text: bool) -> Result<(), Fault> {
        let text = value.as_str().unwrap_or_default();
        if !is_text && !self.are_all_shown {
            return if has_hidden(text) { Err(Fault::HiddenName) } else { Ok(()) };
        }
        let Some((clean, fault)) = clean(text) else { return Ok(()) };
        self.fault = self.fault.or(Some(fault));
        let place = value.offset().saturating_sub(self.start);
        self.changes.push((place, value.raw().len(), quote(&clean)));
        Ok(())
    }

    fn splice(&self, raw: &str) -> String {
        let (mut text, mut done) = (String::with_capacity(raw.len()), 0);
        for (start, length, json) in &self.changes {
            text.push_str(raw.get(done..*start).unwrap_or_default());
            text.push_str(json);
            done = start + length;
        }
        text.push_str(raw.get(done..).unwrap_or_default());
        text
    }
}

/// What a server says it is, without what cannot be shown, and what that was; `None` if it can be
/// shown whole. All strings in it are shown to people or models.
pub(crate) fn clean_info(info: Value<'_>) -> Option<(String, Fault)> {
    if is_plain(info.raw()) {
        return None;
    }
    let mut texts = Texts::new(info, "");
    texts.are_all_shown = true;
    match texts.object(info, false) {
        Ok(()) => texts.fault.map(|fault| (texts.splice(info.raw()), fault)),
        Err(fault) => Some(("{}".into(), fault)),
    }
}

/// A text without what cannot be shown, and what that was; `None` if it can be shown whole.
pub(crate) fn clean(text: &str) -> Option<(String, Fault)> {
    let is_long = text.len() > LONGEST_TEXT;
    let text_of = |length| text.get(..text.floor_char_boundary(length)).unwrap_or_default();
    if is_long {
        let cut = strip_hidden(text_of(LONGEST_TEXT));
        return Some((format!("{cut}… [cut by the gateway]"), Fault::LongText));
    }
    has_hidden(text).then(|| (strip_hidden(text), Fault::HiddenText))
}

/// Refuses an introduction that is larger than any real one.
pub(crate) fn check_introduction(result: Value<'_>) -> Result<(), Refusal> {
    if result.raw().len() > LONGEST_INTRODUCTION {
        return Err(Refusal::bad_gateway(format!(
            "the server's introduction is longer than {LONGEST_INTRODUCTION} bytes"
        )));
    }
    let mut left = MOST_CAPABILITIES;
    let counted = result.get("capabilities").and_then(|said| count(said, &mut left));
    if counted.is_none() && result.get("capabilities").is_some() {
        return Err(Refusal::bad_gateway(format!(
            "the server has more than {MOST_CAPABILITIES} capabilities"
        )));
    }
    Ok(())
}

/// Counts the values in a value; `None` if there are more than are left.
fn count(value: Value<'_>, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    let members = value.members().into_iter().flatten().map(|(_, value)| value);
    members.chain(value.items().into_iter().flatten()).try_for_each(|value| count(value, left))
}

/// Refuses a list with more items than any real one.
pub(crate) fn check_length(items: usize) -> Result<(), Refusal> {
    if items > MOST_ITEMS {
        return Err(Refusal::bad_gateway(format!("the list has more than {MOST_ITEMS} items")));
    }
    Ok(())
}
