//! Client files in JSON, with comments and trailing commas: locates entries and
//! computes the text edits that route a server through `sluice wrap`.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Array, Object, ObjectProp, Value as Ast},
    common::Ranged as _,
    parse_to_ast,
};
use serde_json::Value;

use crate::{
    adopt::{AdoptError, Change},
    entry::{HEADER_KEYS, URL_KEYS},
    file::{Located, Pieces, SyntaxError},
    splice::Edit,
    wrapped::URL_VARIABLE,
};

/// The extensions of JSON that clients accept; no client accepts more.
const ACCEPTED: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text; `None` if it is empty.
pub(crate) fn parse(text: &str) -> Result<Option<Ast<'_>>, SyntaxError> {
    match parse_to_ast(text, &CollectOptions::default(), &ACCEPTED) {
        Ok(result) => Ok(result.value),
        Err(error) => {
            let message = error.kind().to_string();
            let mut letters = message.chars();
            // Our messages start in lower case.
            let first = letters.next().map(|first| first.to_ascii_lowercase());
            let message = first.into_iter().chain(letters).collect();
            Err(SyntaxError { at: error.range().start, message })
        }
    }
}

/// The servers below these key paths.
pub(crate) fn entries(text: &str, roots: &[&[&str]]) -> Result<Vec<Located>, SyntaxError> {
    let Some(Ast::Object(root)) = parse(text)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for keys in roots {
        walk(&root, keys, &mut Vec::new(), &mut found);
    }
    Ok(found)
}

fn walk(object: &Object<'_>, keys: &[&str], way: &mut Vec<String>, found: &mut Vec<Located>) {
    let Some((key, rest)) = keys.split_first() else {
        // How many times each name still occurs.
        let mut left: HashMap<&str, usize> = HashMap::new();
        for property in &object.properties {
            *left.entry(property.name.as_str()).or_default() += 1;
        }
        let mut repeated = HashSet::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let more = left.get_mut(name).map_or(0, |left| {
                *left -= 1;
                *left
            });
            // If a name occurs several times, clients use the last one.
            if more > 0 {
                repeated.insert(name);
                continue;
            }
            let mut keys = way.clone();
            keys.push(name.to_owned());
            let value = Value::from(property.value.clone());
            found.push(Located { keys, value, is_repeated: repeated.contains(name) });
        }
        return;
    };
    for property in &object.properties {
        let name = property.name.as_str();
        if let (true, Ast::Object(inner)) = (*key == "*" || name == *key, &property.value) {
            way.push(name.to_owned());
            walk(inner, rest, way, found);
            way.pop();
        }
    }
}

/// The keys of the object at this key.
pub(crate) fn keys(text: &str, key: &str) -> Vec<String> {
    let root = root(text);
    let object = root.as_ref().and_then(|root| member(root, key)?.value.as_object());
    let properties = object.map(|object| object.properties.as_slice()).unwrap_or_default();
    properties.iter().map(|property| property.name.as_str().to_owned()).collect()
}

/// The member at a key path.
fn find<'o, 't>(object: &'o Object<'t>, keys: &[String]) -> Option<&'o ObjectProp<'t>> {
    let (key, rest) = keys.split_first()?;
    let property = member(object, key)?;
    match (&property.value, rest) {
        (_, []) => Some(property),
        (Ast::Object(inner), rest) => find(inner, rest),
        _ => None,
    }
}

fn member<'o, 't>(object: &'o Object<'t>, key: &str) -> Option<&'o ObjectProp<'t>> {
    object.properties.iter().rev().find(|property| property.name.as_str() == key)
}

fn root(text: &str) -> Option<Object<'_>> {
    match parse(text).ok()?? {
        Ast::Object(root) => Some(root),
        _ => None,
    }
}

/// The byte range of an entry's value.
pub(crate) fn region(text: &str, keys: &[String]) -> Option<Range<usize>> {
    find(&root(text)?, keys).map(|property| span(&property.value))
}

/// An entry's value.
pub(crate) fn value(text: &str, keys: &[String]) -> Option<Value> {
    find(&root(text)?, keys).map(|property| Value::from(property.value.clone()))
}

/// The byte ranges of its program and arguments.
pub(crate) fn pieces(text: &str, keys: &[String]) -> Option<Pieces> {
    let root = root(text)?;
    let Ast::Object(entry) = &find(&root, keys)?.value else { return None };
    let (holder, key) = holder(entry);
    let program = member(holder, key)?;
    Some(Pieces {
        program: span(&program.value),
        args: member(holder, "args").map(|args| span(&args.value)),
    })
}

/// The object that contains program and arguments, and the key of the program.
fn holder<'o, 't>(entry: &'o Object<'t>) -> (&'o Object<'t>, &'static str) {
    match member(entry, "command").map(|command| &command.value) {
        Some(Ast::Object(nested)) => (nested, "path"),
        _ => (entry, "command"),
    }
}

fn span(value: &Ast<'_>) -> Range<usize> {
    let range = value.range();
    range.start..range.end
}

/// The edits that apply a change to an entry.
pub(crate) fn edits(text: &str, keys: &[String], change: &Change) -> Result<Vec<Edit>, AdoptError> {
    let root = root(text).ok_or(AdoptError::Gone)?;
    let property = find(&root, keys).ok_or(AdoptError::Gone)?;
    let Ast::Object(entry) = &property.value else { return Err(AdoptError::Shape) };
    match change {
        Change::Command { program, prefix } => command_edits(text, entry, program, prefix),
        Change::Url { .. } => url_edits(text, entry, change),
    }
}

fn command_edits(
    text: &str,
    entry: &Object<'_>,
    program: &str,
    prefix: &[String],
) -> Result<Vec<Edit>, AdoptError> {
    if URL_KEYS.iter().any(|key| member(entry, key).is_some()) {
        return Err(AdoptError::Shape);
    }
    let (holder, key) = holder(entry);
    let command = member(holder, key).ok_or(AdoptError::Shape)?;
    let mut edits = vec![Edit::new(span(&command.value), quote(program))];
    edits.push(match member(holder, "args").map(|args| &args.value) {
        Some(Ast::Array(args)) => insert_arguments(text, args, prefix),
        Some(_) => return Err(AdoptError::Shape),
        None => {
            let put = format!(",{}\"args\": [{}]", gap(text, command.range.start), list(prefix));
            Edit::insert(span(&command.value).end, put)
        }
    });
    Ok(edits)
}

/// Prepends arguments to the existing ones, in their layout.
fn insert_arguments(text: &str, args: &Array<'_>, prefix: &[String]) -> Edit {
    match args.elements.first() {
        Some(first) => {
            let at = span(first).start;
            Edit::insert(at, format!("{},{}", list(prefix), gap(text, at)))
        }
        None => Edit::insert(args.range.start + 1, list(prefix)),
    }
}

fn url_edits(text: &str, entry: &Object<'_>, change: &Change) -> Result<Vec<Edit>, AdoptError> {
    let Change::Url { program, args, variables, .. } = change else {
        return Err(AdoptError::Shape);
    };
    let urls: Vec<_> = URL_KEYS.iter().filter_map(|key| member(entry, key)).collect();
    let [url] = urls.as_slice() else { return Err(AdoptError::Shape) };
    let headers: Vec<_> = HEADER_KEYS.iter().filter_map(|key| member(entry, key)).collect();
    if member(entry, "env").is_some() || member(entry, "args").is_some() || headers.len() > 1 {
        return Err(AdoptError::Shape);
    }
    let gap = gap(text, url.range.start);
    let mut put = format!("\"command\": {},{gap}\"args\": [{}]", quote(program), list(args));
    let kept = text.get(span(&url.value)).unwrap_or_default();
    let mut edits = Vec::new();
    match headers.first() {
        Some(headers) => edits.extend(header_edits(headers, variables, kept)?),
        None => put = format!("{put},{gap}\"env\": {{\"{URL_VARIABLE}\": {kept}}}"),
    }
    edits.push(Edit::new(url.range.start..url.range.end, put));
    if let Some(kind) = member(entry, "type").filter(|kind| matches!(kind.value, Ast::StringLit(_)))
    {
        edits.push(Edit::new(span(&kind.value), "\"stdio\""));
    }
    Ok(edits)
}

/// Turns headers into variables: names change, values stay in place.
fn header_edits(
    headers: &ObjectProp<'_>,
    variables: &[(String, String)],
    url: &str,
) -> Result<Vec<Edit>, AdoptError> {
    let Ast::Object(members) = &headers.value else { return Err(AdoptError::Shape) };
    let key = headers.name.range();
    let mut edits = vec![Edit::new(key.start..key.end, "\"env\"")];
    for header in &members.properties {
        let name = header.name.as_str();
        let variable = variables.iter().find(|(of, _)| of == name);
        let (_, variable) = variable.ok_or(AdoptError::Shape)?;
        if !matches!(header.value, Ast::StringLit(_)) {
            return Err(AdoptError::Shape);
        }
        let key = header.name.range();
        edits.push(Edit::new(key.start..key.end, quote(variable)));
    }
    let comma = if members.properties.is_empty() { "" } else { ", " };
    let put = format!("\"{URL_VARIABLE}\": {url}{comma}");
    edits.push(Edit::insert(members.range.start + 1, put));
    Ok(edits)
}

/// The white space before a position, from its last line break on; one blank if there is none.
pub(crate) fn gap(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let blank = before.trim_end_matches([' ', '\t', '\r', '\n']).len();
    let space = before.get(blank..).unwrap_or_default();
    match space.rfind('\n') {
        Some(line) => {
            let start =
                if space.get(..line).is_some_and(|s| s.ends_with('\r')) { line - 1 } else { line };
            space.get(start..).unwrap_or(" ")
        }
        None => " ",
    }
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
