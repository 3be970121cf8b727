//! Arguments that a policy names, compared with the schemas of the tools.
//!
//! A schema says much that this does not follow, such as references and alternatives. Where it may
//! permit an argument or a type, there is no warning.

use sluice_wire::json::Value;

use super::{KnownDefinition, Lint};
use crate::file::{
    check::nearest,
    node::{Content, Node},
};

/// The most arguments that a hint lists.
const MOST_LISTED: usize = 8;

/// What a policy does with an argument.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use<'n> {
    Compared {
        operator: &'n str,
        value: Option<&'n Node>,
    },
    /// Adds it to a counter.
    Amount,
}

/// What a schema says of an argument.
enum Place<'s> {
    /// Its own schema.
    Known(Value<'s>),
    /// It is not among these.
    Absent(Vec<&'s str>),
    /// The schema leaves it open.
    Open,
}

impl Lint<'_> {
    /// Warns of an argument that none of the tools has, or has of a type that does not fit.
    pub(super) fn argument(&mut self, path: &Node, used: Use<'_>, tools: &[&KnownDefinition<'_>]) {
        let Some(text) = path.as_str() else { return };
        let places: Vec<_> = tools.iter().map(|tool| place_of(tool, text)).collect();
        if places.is_empty() || places.iter().any(|place| matches!(place, Place::Open)) {
            return;
        }
        let known: Vec<_> = places.iter().filter_map(Place::schema).collect();
        if known.is_empty() {
            let others: Vec<_> = places.iter().flat_map(Place::others).copied().collect();
            self.warn_absent(path, text, &others);
            return;
        }
        let types: Option<Vec<_>> = known.into_iter().map(types).collect();
        let Some(types) = types.map(|types| types.concat()) else { return };
        if let Some(needs) = used.unfit(&types) {
            let found = types.first().copied().unwrap_or("nothing");
            let who = used.name();
            let message = format!(
                "{who} needs {needs}, and `{text}` is of type `{found}` in the server's tools: calls that send it are denied"
            );
            self.warnings.add(path.span, message);
        }
    }

    fn warn_absent(&mut self, path: &Node, text: &str, others: &[&str]) {
        let message = format!("no tool that this rule is for has an argument `{text}`");
        let (parent, name) = text.rsplit_once('.').unwrap_or(("args", text));
        let mut listed: Vec<_> = others.to_vec();
        listed.sort_unstable();
        listed.dedup();
        let hint = match nearest(name, listed.iter().copied()) {
            Some(near) => format!("did you mean `{parent}.{near}`?"),
            None if listed.is_empty() => "the tools take no arguments here".into(),
            None => {
                let more = if listed.len() > MOST_LISTED { ", …" } else { "" };
                let names: Vec<_> = listed.iter().take(MOST_LISTED).copied().collect();
                format!("arguments there are: {}{more}", names.join(", "))
            }
        };
        self.warnings.add_with_hint(path.span, message, hint);
    }
}

impl<'s> Place<'s> {
    fn schema(&self) -> Option<Value<'s>> {
        match self {
            Place::Known(schema) => Some(*schema),
            Place::Absent(_) | Place::Open => None,
        }
    }

    fn others(&self) -> &[&'s str] {
        match self {
            Place::Absent(others) => others,
            Place::Known(_) | Place::Open => &[],
        }
    }
}

fn place_of<'t>(tool: &'t KnownDefinition<'_>, path: &str) -> Place<'t> {
    let Some(schema) = &tool.schema else { return Place::Open };
    let mut place = Place::Known(schema.root());
    for step in path.split('.').skip(1) {
        let Place::Known(schema) = place else { return place };
        place = follow(schema, step);
    }
    place
}

/// What a schema says of one of its members or items.
fn follow<'s>(schema: Value<'s>, step: &str) -> Place<'s> {
    let properties = schema.get("properties");
    if let Some(found) = properties.and_then(|properties| properties.get(step)) {
        return Place::Known(found);
    }
    let is_item = step == "*" || step.bytes().all(|byte| byte.is_ascii_digit());
    if is_item {
        let items = schema.get("items").filter(|items| items.members().is_some());
        return items.map_or(Place::Open, Place::Known);
    }
    let alternatives =
        ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"];
    let more = schema.get("additionalProperties");
    let allows_more = more.is_some_and(|more| more.as_bool() != Some(false));
    if allows_more || alternatives.iter().any(|key| schema.get(key).is_some()) {
        return Place::Open;
    }
    match properties.and_then(Value::members) {
        Some(members) => Place::Absent(members.filter_map(|(key, _)| key.as_str()).collect()),
        None if more.is_some() => Place::Absent(Vec::new()),
        None => Place::Open,
    }
}

/// The types that a schema permits besides null, if it says so.
fn types(schema: Value<'_>) -> Option<Vec<&str>> {
    let of = schema.get("type")?;
    let types: Vec<_> = match of.as_str() {
        Some(one) => vec![one],
        None => of.items()?.filter_map(Value::as_str).collect(),
    };
    let types: Vec<_> = types.into_iter().filter(|one| *one != "null").collect();
    (!types.is_empty()).then_some(types)
}

impl Use<'_> {
    fn name(self) -> String {
        match self {
            Use::Compared { operator, .. } => format!("`{operator}`"),
            Use::Amount => "`increment_from`".into(),
        }
    }

    /// What it needs instead, if it can take none of these types.
    fn unfit(self, types: &[&str]) -> Option<String> {
        let has = |wanted: &[&str]| types.iter().any(|one| wanted.contains(one));
        let unless = |fits: bool, needs: &str| (!fits).then(|| needs.to_owned());
        let (operator, value) = match self {
            Use::Amount => return unless(has(&["number", "integer"]), "a number"),
            Use::Compared { operator, value } => (operator, value),
        };
        match operator {
            "lt" | "lte" | "gt" | "gte" => unless(has(&["number", "integer"]), "a number"),
            "regex" | "starts_with" | "ends_with" | "path_within" | "url_host_in" => {
                unless(has(&["string"]), "a string")
            }
            "contains" => {
                let in_text = value.is_some_and(|value| value.as_str().is_some());
                let fits = has(&["array"]) || (in_text && has(&["string"]));
                unless(fits, if in_text { "a string or a list" } else { "a list" })
            }
            "eq" | "neq" => {
                let wanted = type_names(value?);
                unless(has(wanted), &format!("a {}", wanted.first()?))
            }
            "in" | "not_in" => {
                let items = value?.items();
                let fits = items.is_empty() || items.iter().any(|item| has(type_names(item)));
                unless(fits, "the type of a value in its list")
            }
            _ => None,
        }
    }
}

/// The types of arguments with which a value can be compared.
fn type_names(value: &Node) -> &'static [&'static str] {
    match value.content {
        Content::String(_) => &["string"],
        Content::Number(_) => &["number", "integer"],
        Content::Bool(_) => &["boolean"],
        _ => &[],
    }
}
