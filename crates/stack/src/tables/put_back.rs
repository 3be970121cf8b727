//! Reverts a change in a TOML entry whose layout has been edited: keys in another
//! order, a table instead of an inline table, removed comments.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Item, TableLike};

use super::{TOUCHED, parse, quote, table, value_of};
use crate::{
    digest::of_value,
    splice::{Edit, splice},
};

/// Whether two values of an entry have the same meaning in everything that a change
/// touches.
pub(crate) fn is_same_change(one: &Value, other: &Value) -> bool {
    TOUCHED.iter().all(|key| one.get(key) == other.get(key))
}

/// The text with the changed keys of an entry restored from `original`; `None` if the entry's
/// layout does not allow that.
pub(crate) fn put_back(text: &str, original: &str, keys: &[String]) -> Option<String> {
    let (now, before) = (parse(text).ok()?, parse(original).ok()?);
    let pairs = pairs(original, table(before.as_item(), keys)?, &TOUCHED)?;
    let entry = table(now.as_item(), keys)?;
    let (name, way) = keys.split_last()?;
    let item = table(now.as_item(), way)?.get(name)?;
    let edits = if item.is_inline_table() {
        inline_edits(text, entry, item, pairs)?
    } else {
        line_edits(text, entry, &pairs)?
    };
    let new = splice(text, edits)?;
    // INVARIANT: the entry has its original meaning, and no other entry has changed.
    let wanted = put_keys_back(value_of(now.as_item()), &value_of(before.as_item()), keys)?;
    let read = value_of(parse(&new).ok()?.as_item());
    (of_value(&read) == of_value(&wanted)).then_some(new)
}

/// The document's value with the touched keys of an entry restored.
fn put_keys_back(mut now: Value, before: &Value, keys: &[String]) -> Option<Value> {
    let before = keys.iter().try_fold(before, |value, key| value.get(key))?;
    let entry = keys.iter().try_fold(&mut now, |value, key| value.get_mut(key))?;
    let entry = entry.as_object_mut()?;
    for key in TOUCHED {
        entry.remove(key);
        if let Some(value) = before.get(key) {
            entry.insert(key.to_owned(), value.clone());
        }
    }
    Some(now)
}

/// The pairs of an entry in text order, one string each.
fn pairs(text: &str, entry: &dyn TableLike, wanted: &[&str]) -> Option<Vec<String>> {
    let mut pairs = Vec::new();
    for (name, item) in entry.iter().filter(|(name, _)| wanted.contains(name)) {
        let (key, _) = entry.get_key_value(name)?;
        let key = key.span()?;
        pairs.push(match item {
            Item::Value(value) => text.get(key.start..value.span()?.end)?.to_owned(),
            item => format!("{} = {}", text.get(key)?, inline(&value_of(item))?),
        });
    }
    Some(pairs)
}

/// An inline table of strings; tables with other values are not supported.
fn inline(value: &Value) -> Option<String> {
    let pair = |(key, value): (&String, &Value)| {
        Some(format!("{} = {}", quote(key), quote(value.as_str()?)))
    };
    let pairs: Option<Vec<_>> = value.as_object()?.iter().map(pair).collect();
    Some(format!("{{ {} }}", pairs?.join(", ")))
}

/// The edit for an entry that is an inline table.
fn inline_edits(
    text: &str,
    entry: &dyn TableLike,
    item: &Item,
    mut all: Vec<String>,
) -> Option<Vec<Edit>> {
    let others: Vec<&str> =
        entry.iter().map(|(name, _)| name).filter(|name| !TOUCHED.contains(name)).collect();
    all.extend(pairs(text, entry, &others)?);
    Some(vec![Edit::new(item.span()?, format!("{{ {} }}", all.join(", ")))])
}

/// The edits for an entry with one line per pair.
fn line_edits(text: &str, entry: &dyn TableLike, pairs: &[String]) -> Option<Vec<Edit>> {
    let touched = TOUCHED.iter().filter_map(|key| entry.get_key_value(key));
    let mut lines = Vec::new();
    let mut first: Option<Range<usize>> = None;
    for (key, item) in touched {
        lines.extend(lines_of(text, key.span()?, item)?);
        if item.is_value() {
            let key = key.span()?;
            first = first.filter(|first| first.start < key.start).or(Some(key));
        }
    }
    let first = first?;
    let place = line(text, &first);
    // The indentation, and the dotted key prefix if there is one.
    let prefix = text.get(place.start..first.start)?;
    let end = if text.get(place.clone())?.ends_with("\r\n") { "\r\n" } else { "\n" };
    let mut put = String::new();
    for part in pairs.iter().flat_map(|pair| [prefix, pair, end]) {
        put.push_str(part);
    }
    let edit = |range: Range<usize>| {
        let is_first = range.start == place.start;
        Edit::new(range, if is_first { put.as_str() } else { "" })
    };
    Some(lines.into_iter().map(edit).collect())
}

/// The lines of a pair or a table.
fn lines_of(text: &str, key: Range<usize>, item: &Item) -> Option<Vec<Range<usize>>> {
    match item {
        Item::Value(value) => Some(vec![line(text, &(key.start..value.span()?.end))]),
        Item::Table(table) => {
            let mut lines = Vec::new();
            if !table.is_dotted() {
                lines.push(with_blank_line(text, line(text, &table.span()?)));
            }
            for (name, item) in table {
                lines.extend(lines_of(text, table.get_key_value(name)?.0.span()?, item)?);
            }
            Some(lines)
        }
        Item::ArrayOfTables(_) | Item::None => None,
    }
}

/// All lines that overlap these bytes, including their line ends.
fn line(text: &str, span: &Range<usize>) -> Range<usize> {
    let (before, after) = text.split_at(span.start);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let rest = after.get(span.len()..).unwrap_or_default();
    let end = rest.find('\n').map_or(text.len(), |at| span.end + at + 1);
    start..end
}

/// A heading's line, with the empty line before it.
fn with_blank_line(text: &str, heading: Range<usize>) -> Range<usize> {
    let before = text.get(..heading.start).unwrap_or_default();
    let blank = ["\r\n", "\n"].iter().find_map(|end| {
        let rest = before.strip_suffix(end)?;
        (rest.is_empty() || rest.ends_with('\n')).then_some(rest.len())
    });
    blank.unwrap_or(heading.start)..heading.end
}
