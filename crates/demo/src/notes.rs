//! The notes: a bounded list, oldest first.

use std::fmt::Write as _;

use sluice_builtin::ToolResult;
use sluice_wire::json::Quoted;

/// The longest title, in characters.
pub(crate) const LONGEST_TITLE: usize = 100;
/// The longest text, in characters; at four bytes each, all notes together stay below 5 MB.
pub(crate) const LONGEST_TEXT: usize = 1000;
const MOST_NOTES: usize = 1000;

#[derive(Debug)]
pub(crate) struct Notes {
    notes: Vec<Note>,
    /// The number of the newest note; numbers are not reused.
    last: u64,
}

#[derive(Debug)]
struct Note {
    id: String,
    title: String,
    text: String,
}

/// The initial notes. They mention nothing that a policy is likely to hide.
const SEEDS: [(&str, &str); 3] = [
    ("Welcome", "These notes and the ledger live in memory: restart the demo to start over."),
    (
        "Invoices to pay",
        "INV-1001 to Beanery, 42.50; INV-1002 to Harbour Hosting, 180.00; \
         INV-1003 to Plank & Sons, 1250.00. The balance is 1000.00, and part payments are fine.",
    ),
    ("A report to run", "count(notes) * 2, or balance - sum(invoices.open)"),
];

impl Notes {
    pub(crate) fn with_sample_data() -> Self {
        let mut notes = Notes { notes: Vec::new(), last: 0 };
        for (title, text) in SEEDS {
            notes.push(title, text);
        }
        notes
    }

    /// The number of characters in each note's text.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.notes.iter().map(|note| note.text.chars().count())
    }

    /// The first `limit` notes that contain `query`, ignoring case.
    pub(crate) fn list(&self, query: &str, limit: usize) -> ToolResult {
        let query = query.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&query);
        let found: Vec<&Note> =
            self.notes.iter().filter(|note| holds(&note.title) || holds(&note.text)).collect();
        let total = found.len();
        let (mut text, mut json) = (format!("{total} found"), String::from("{\"notes\":["));
        for (position, Note { id, title, text: body }) in found.into_iter().take(limit).enumerate()
        {
            let comma = if position > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{id}: {title}\n  {body}");
            let (id, title, body) = (Quoted(id), Quoted(title), Quoted(body));
            let _ = write!(json, "{comma}{{\"id\":{id},\"title\":{title},\"text\":{body}}}");
        }
        let _ = write!(json, "],\"total\":{total}}}");
        ToolResult::text(text).with_structured(json)
    }

    pub(crate) fn add(&mut self, title: &str, text: &str) -> Result<ToolResult, String> {
        if self.notes.len() >= MOST_NOTES {
            return Err(format!("the notebook is full: it holds {MOST_NOTES} notes"));
        }
        let id = self.push(title, text);
        Ok(ToolResult::text(format!("added {id}"))
            .with_structured(format!("{{\"id\":{}}}", Quoted(id))))
    }

    pub(crate) fn delete(&mut self, id: &str) -> Result<ToolResult, String> {
        let place = self.notes.iter().position(|note| note.id == id);
        let place = place.ok_or_else(|| {
            format!("there is no note `{id}`: expected an id as `list_notes` shows it")
        })?;
        let note = self.notes.remove(place);
        Ok(ToolResult::text(format!("deleted {}", note.id))
            .with_structured(format!("{{\"id\":{}}}", Quoted(&note.id))))
    }

    fn push(&mut self, title: &str, text: &str) -> &str {
        self.last += 1;
        let id = format!("note-{}", self.last);
        self.notes.push(Note { id, title: title.to_owned(), text: text.to_owned() });
        self.notes.last().map(|note| note.id.as_str()).unwrap_or_default()
    }
}
