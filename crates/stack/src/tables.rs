//! Client files in TOML: locates entries and computes the text edits that route a
//! server through `sluice wrap`.

mod put_back;

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Array, Document, InlineTable, Item, Key, TableLike};

use crate::{
    adopt::{AdoptError, Change},
    file::{Located, Pieces, SyntaxError},
    splice::Edit,
    wrapped::URL_VARIABLE,
};

pub(crate) use self::put_back::{is_same_change, put_back};

/// Keys that our change edits or moves.
const TOUCHED: [&str; 7] =
    ["command", "args", "url", "env", "http_headers", "bearer_token_env_var", "env_vars"];

fn parse(text: &str) -> Result<Document<&str>, SyntaxError> {
    Document::parse(text).map_err(|error| SyntaxError {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().lines().next().unwrap_or_default().to_owned(),
    })
}

/// The servers below these key paths.
pub(crate) fn entries(text: &str, roots: &[&[&str]]) -> Result<Vec<Located>, SyntaxError> {
    let document = parse(text)?;
    let mut found = Vec::new();
    for keys in roots {
        let way: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let Some(servers) = table(document.as_item(), &way) else { continue };
        for (name, item) in servers.iter() {
            let keys = way.iter().cloned().chain([name.to_owned()]).collect();
            found.push(Located { keys, value: value_of(item), is_repeated: false });
        }
    }
    Ok(found)
}

fn table<'i>(item: &'i Item, keys: &[String]) -> Option<&'i dyn TableLike> {
    let table = item.as_table_like()?;
    match keys.split_first() {
        None => Some(table),
        Some((key, rest)) => self::table(table.get(key)?, rest),
    }
}

fn value_of(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table.iter().map(|(key, item)| (key.to_owned(), value_of(item))).collect();
    }
    if let Some(items) = item.as_array() {
        return items.iter().map(|item| value_of(&Item::Value(item.clone()))).collect();
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| value_of(&Item::Table(table.clone()))).collect();
    }
    if let Some(text) = item.as_str() {
        return text.into();
    }
    let plain = item.as_bool().map(Value::from).or_else(|| item.as_integer().map(Value::from));
    // Floats and times are only compared, so their text is enough.
    let text = || item.as_float().map(|float| float.to_string());
    let time = || item.as_datetime().map(ToString::to_string);
    plain.unwrap_or_else(|| text().or_else(time).into())
}

/// The range of bytes that a change touches.
pub(crate) fn region(text: &str, keys: &[String]) -> Option<Range<usize>> {
    let document = parse(text).ok()?;
    let entry = table(document.as_item(), keys)?;
    let spans: Vec<_> = TOUCHED
        .iter()
        .filter_map(|key| entry.get_key_value(key))
        .flat_map(|(key, item)| [key.span(), end(item)])
        .flatten()
        .collect();
    let start = spans.iter().map(|span| span.start).min()?;
    Some(start..spans.iter().map(|span| span.end).max()?)
}

/// The end of a value, or of the last value in a table.
fn end(item: &Item) -> Option<Range<usize>> {
    match item {
        Item::Table(table) => {
            let values = table.iter().filter_map(|(_, item)| end(item));
            values.max_by_key(|span| span.end).or_else(|| table.span())
        }
        other => other.span(),
    }
}

/// An entry's value.
pub(crate) fn value(text: &str, keys: &[String]) -> Option<Value> {
    let document = parse(text).ok()?;
    let (name, way) = keys.split_last()?;
    table(document.as_item(), way)?.get(name).map(value_of)
}

/// The byte ranges of its program and arguments.
pub(crate) fn pieces(text: &str, keys: &[String]) -> Option<Pieces> {
    let document = parse(text).ok()?;
    let entry = table(document.as_item(), keys)?;
    Some(Pieces {
        program: entry.get("command")?.span()?,
        args: entry.get("args").and_then(Item::span),
    })
}

/// The edits that apply a change to an entry.
pub(crate) fn edits(text: &str, keys: &[String], change: &Change) -> Result<Vec<Edit>, AdoptError> {
    let document = parse(text).map_err(|_| AdoptError::Gone)?;
    let entry = table(document.as_item(), keys).ok_or(AdoptError::Gone)?;
    let (name, way) = keys.split_last().ok_or(AdoptError::Gone)?;
    let item = table(document.as_item(), way).and_then(|table| table.get(name));
    let page = Page { text, is_inline: item.is_some_and(Item::is_inline_table) };
    match change {
        Change::Command { program, prefix } => command_edits(&page, entry, program, prefix),
        Change::Url { .. } => url_edits(&page, entry, change),
    }
}

/// The text, and the layout of pairs in the entry.
struct Page<'t> {
    text: &'t str,
    is_inline: bool,
}

impl Page<'_> {
    /// The separator after a pair that is inserted before this key.
    fn separator(&self, key: &Range<usize>) -> String {
        if self.is_inline {
            return ", ".into();
        }
        let before = self.text.get(..key.start).unwrap_or_default();
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let end =
            if before.ends_with("\r\n") || self.text.contains("\r\n") { "\r\n" } else { "\n" };
        format!("{end}{}", before.get(line..).unwrap_or_default())
    }
}

fn find_key<'e>(entry: &'e dyn TableLike, key: &str) -> Option<(Range<usize>, &'e Item)> {
    let (key, item): (&Key, &Item) = entry.get_key_value(key)?;
    Some((key.span()?, item))
}

fn command_edits(
    page: &Page<'_>,
    entry: &dyn TableLike,
    program: &str,
    prefix: &[String],
) -> Result<Vec<Edit>, AdoptError> {
    if entry.contains_key("url") {
        return Err(AdoptError::Shape);
    }
    let (key, command) = find_key(entry, "command").ok_or(AdoptError::Shape)?;
    let value = command.span().ok_or(AdoptError::Shape)?;
    let mut edits = vec![Edit::new(value, quote(program))];
    edits.push(if let Some(args) = entry.get("args") {
        insert_arguments(page, args.as_array().ok_or(AdoptError::Shape)?, prefix)?
    } else {
        let put = format!("args = [{}]{}", list(prefix), page.separator(&key));
        Edit::insert(key.start, put)
    });
    Ok(edits)
}

/// Prepends arguments to the existing ones, in their layout.
fn insert_arguments(page: &Page<'_>, args: &Array, prefix: &[String]) -> Result<Edit, AdoptError> {
    if let Some(first) = args.iter().next() {
        let at = first.span().ok_or(AdoptError::Shape)?.start;
        let gap = crate::json::gap(page.text, at);
        return Ok(Edit::insert(at, format!("{},{gap}", list(prefix))));
    }
    let at = args.span().ok_or(AdoptError::Shape)?.start + 1;
    Ok(Edit::insert(at, list(prefix)))
}

fn url_edits(
    page: &Page<'_>,
    entry: &dyn TableLike,
    change: &Change,
) -> Result<Vec<Edit>, AdoptError> {
    let Change::Url { program, args, variables, bearer } = change else {
        return Err(AdoptError::Shape);
    };
    if ["env", "env_vars", "args", "env_http_headers", "headers"]
        .iter()
        .any(|key| entry.contains_key(key))
    {
        return Err(AdoptError::Shape);
    }
    let (key, url) = find_key(entry, "url").ok_or(AdoptError::Shape)?;
    let value = url.span().ok_or(AdoptError::Shape)?;
    let between = page.separator(&key);
    let mut put = format!("command = {}{between}args = [{}]", quote(program), list(args));
    let kept = page.text.get(value.clone()).unwrap_or_default();
    let mut edits = Vec::new();
    match find_key(entry, "http_headers") {
        Some((key, headers)) => {
            edits.extend(header_edits(page, key, headers, variables, kept)?);
        }
        None => put = format!("{put}{between}env = {{ {URL_VARIABLE} = {kept} }}"),
    }
    edits.push(Edit::new(key.start..value.end, put));
    if let Some(variable) = bearer {
        let (key, item) = find_key(entry, "bearer_token_env_var").ok_or(AdoptError::Shape)?;
        let end = item.span().ok_or(AdoptError::Shape)?.end;
        edits.push(Edit::new(key.start..end, format!("env_vars = [{}]", quote(variable))));
    }
    Ok(edits)
}

/// Turns headers into variables: names change, values stay in place.
fn header_edits(
    page: &Page<'_>,
    key: Range<usize>,
    headers: &Item,
    variables: &[(String, String)],
    url: &str,
) -> Result<Vec<Edit>, AdoptError> {
    let members = headers.as_table_like().ok_or(AdoptError::Shape)?;
    if members.is_dotted() {
        return Err(AdoptError::Shape);
    }
    let mut edits = vec![Edit::new(key, "env")];
    for (name, item) in members.iter() {
        let (key, _) = find_key(members, name).ok_or(AdoptError::Shape)?;
        let (_, variable) = variables.iter().find(|(of, _)| of == name).ok_or(AdoptError::Shape)?;
        if item.as_str().is_none() {
            return Err(AdoptError::Shape);
        }
        if edits.len() == 1 {
            let inner = Page { text: page.text, is_inline: headers.is_inline_table() };
            let put = format!("{URL_VARIABLE} = {url}{}", inner.separator(&key));
            edits.push(Edit::insert(key.start, put));
        }
        edits.push(Edit::new(key, variable.clone()));
    }
    if edits.len() == 1 {
        // For an empty table with its own heading, there is no known position.
        let inline = headers.as_inline_table().and_then(InlineTable::span);
        let at = inline.ok_or(AdoptError::Shape)?.start + 1;
        edits.push(Edit::insert(at, format!(" {URL_VARIABLE} = {url} ")));
    }
    Ok(edits)
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(", ")
}

/// A TOML basic string, which has the escapes of JSON and one more.
fn quote(text: &str) -> String {
    crate::json::quote(text).replace('\u{7f}', "\\u007F")
}
