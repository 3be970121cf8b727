//! One table of the file: its permitted keys, and reading them.
//!
//! Errors are collected with their positions and reading continues, so that one run reports
//! all of them.

use std::ops::Range;

use sluice_store::Name;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{problem::Findings, value::Parsed};

/// A table, and its path in the file.
pub(super) struct Section<'t> {
    /// Such as `servers.pharo`; empty for the file as a whole.
    path: String,
    /// The position of its name.
    pub(super) span: Range<usize>,
    table: &'t DeTable<'t>,
}

/// A key's position in the file, and its value.
pub(super) type Entry<'t> = (Range<usize>, &'t Spanned<DeValue<'t>>);

impl<'t> Section<'t> {
    /// The whole file.
    pub(super) fn root(table: &'t DeTable<'t>) -> Section<'t> {
        Section { path: String::new(), span: 0..0, table }
    }

    /// Reports every key that is not in `known`. The value of an unknown key is masked: the key may
    /// be a misspelt secret.
    pub(super) fn check_keys(&self, known: &[&str], findings: &mut Findings) {
        for (key, value) in self.table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            findings.hide(value.span());
            let message = format!("unknown key `{}`", self.path_to(name));
            let hint = match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            findings.add_with_hint(key.span(), message, hint);
        }
    }

    /// The full path of a key, from the top of the file.
    pub(super) fn path_to(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The value of a key, with the key's position.
    pub(super) fn entry(&self, key: &str) -> Option<Entry<'t>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some((key.span(), value))
    }

    /// All keys with their values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'t str, Entry<'t>)> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value)))
    }

    /// Reports a required key that is missing.
    pub(super) fn require(&self, key: &str, findings: &mut Findings) {
        if !self.has(key) {
            findings.add(self.span.clone(), format!("`{}` is missing", self.path_to(key)));
        }
    }

    /// Reports keys that are recognised but not supported by this version.
    pub(super) fn refuse(&self, keys: &[&str], why: &str, findings: &mut Findings) {
        for key in keys {
            if let Some((span, value)) = self.entry(key) {
                // The value is not parsed and may hold a secret, such as a database password.
                findings.hide(value.span());
                let message = format!("`{}` is not in this version", self.path_to(key));
                findings.add_with_hint(span, message, why);
            }
        }
    }

    /// Reads the value of a key.
    pub(super) fn read<T>(
        &self,
        key: &str,
        parse: impl Fn(&DeValue<'_>) -> Parsed<T>,
        findings: &mut Findings,
    ) -> Option<Spanned<T>> {
        let (_, value) = self.entry(key)?;
        parse_value(&self.path_to(key), value, &parse, findings)
    }

    /// Reads every value of a list; a missing list is empty.
    pub(super) fn list<T>(
        &self,
        key: &str,
        parse: impl Fn(&DeValue<'_>) -> Parsed<T>,
        findings: &mut Findings,
    ) -> Vec<Spanned<T>> {
        let Some((_, value)) = self.entry(key) else { return Vec::new() };
        let path = self.path_to(key);
        let Some(list) = value.get_ref().as_array() else {
            let message =
                format!("`{path}` must be a list, found {}", display_value(value.get_ref()));
            findings.add_with_hint(value.span(), message, "write it in brackets: [\"…\"]");
            return Vec::new();
        };
        list.iter()
            .filter_map(|one| parse_value(&format!("each of `{path}`"), one, &parse, findings))
            .collect()
    }

    /// The table at a key.
    pub(super) fn table(&self, key: &str, findings: &mut Findings) -> Option<Section<'t>> {
        let (span, value) = self.entry(key)?;
        let path = self.path_to(key);
        if let Some(table) = value.get_ref().as_table() {
            return Some(Section { path, span, table });
        }
        findings.hide(value.span());
        let message = format!("`{path}` must be a table, found {}", kind(value.get_ref()));
        findings.add(value.span(), message);
        None
    }

    /// The tables `[key.NAME]`, each with its name.
    pub(super) fn named_sections(
        &self,
        key: &str,
        findings: &mut Findings,
    ) -> Vec<(Spanned<Name>, Section<'t>)> {
        let Some(outer) = self.table(key, findings) else { return Vec::new() };
        let mut sections = Vec::new();
        for (name, (span, _)) in outer.entries() {
            let section = outer.table(name, findings);
            match Name::new(name) {
                Ok(name) => {
                    sections.extend(section.map(|section| (Spanned::new(span, name), section)));
                }
                Err(error) => findings.add(span, error.to_string()),
            }
        }
        sections
    }
}

fn parse_value<T>(
    path: &str,
    value: &Spanned<DeValue<'_>>,
    parse: impl Fn(&DeValue<'_>) -> Parsed<T>,
    findings: &mut Findings,
) -> Option<Spanned<T>> {
    match parse(value.get_ref()) {
        Ok(read) => return Some(Spanned::new(value.span(), read)),
        Err(wrong) => {
            let path = if path.contains('`') { path.to_owned() } else { format!("`{path}`") };
            let found = display_value(value.get_ref());
            let message = format!("{path} must be {}, found {found}", wrong.expected);
            match wrong.hint {
                Some(hint) => findings.add_with_hint(value.span(), message, hint),
                None => findings.add(value.span(), message),
            }
        }
    }
    None
}

/// Formats a value for a message.
fn display_value(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("`{}`", text.chars().take(100).collect::<String>()),
        DeValue::Integer(number) => format!("`{number}`"),
        other => kind(other).to_owned(),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The word in `known` that is most similar to `word`, if any is close.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = word.to_lowercase().replace('-', "_");
    let distance = |name: &&str| strsim::damerau_levenshtein(&plain, name);
    let near = known.iter().copied().min_by_key(distance)?;
    (word.len() <= 64 && distance(&near) <= (near.len() / 3).max(1)).then_some(near)
}
