//! Collects facts from a definition: which classes of words occur in which position.

mod name;
mod sentence;

use crate::{
    definition::{Definition, Parameter},
    fact::{Classes, Fact, Facts, Location, Position},
    lexicon::LEXICON,
    reason::Part,
    siblings::Siblings,
    words::{self, place},
};

pub(crate) use name::Lead;

/// Bytes of a description in which phrases count as evidence for a category; later text rarely
/// describes what the tool does.
const TELLING: usize = 4096;
/// Bytes at the start of a description in which the verb is looked for, if the text has no spaces.
const OPENING: usize = 240;

/// Collects the facts of a definition and its context.
pub(crate) fn observe<'d>(
    definition: &Definition<'d>,
    parameters: &[Parameter<'d>],
    siblings: &Siblings<'d>,
) -> Facts<'d> {
    let mut facts = Facts::default();
    name::observe(definition.name, &mut facts);
    match (definition.description, definition.title) {
        (Some(text), _) if !text.trim().is_empty() => {
            sentence::observe(text, Part::Description, &mut facts);
            phrases(text, &mut facts);
        }
        (_, Some(title)) => sentence::observe(title, Part::Title, &mut facts),
        _ => {}
    }
    for parameter in parameters {
        observe_parameter(*parameter, &mut facts);
    }
    hints(definition, &mut facts);
    siblings.observe(&mut facts);
    facts
}

fn phrases<'d>(text: &'d str, facts: &mut Facts<'d>) {
    let telling = text.get(..text.floor_char_boundary(TELLING)).unwrap_or_default();
    for (Fact { position, class }, start, end) in LEXICON.phrases(telling) {
        if position == Position::Says && start > OPENING {
            continue;
        }
        let mut classes = Classes::default();
        classes.insert(class);
        let at = Location {
            part: Part::Description,
            parameter: "",
            text,
            start: place(start),
            end: place(end),
        };
        facts.add(position, classes, at);
    }
}

/// Parameters whose values select the tool's action.
const CHOOSERS: [&str; 9] =
    ["action", "operation", "op", "method", "verb", "subcommand", "command", "mutation", "actions"];

fn observe_parameter<'d>(parameter: Parameter<'d>, facts: &mut Facts<'d>) {
    let mut is_chooser = false;
    for word in words::of_name(parameter.name) {
        is_chooser |= CHOOSERS.contains(&word.as_str());
        let classes = words::stems(word.as_str(), |word| LEXICON.parameter(word));
        if let Some(classes) = classes {
            let (start, end) = (word.start, word.end);
            let (part, text) = (Part::Parameter, parameter.name);
            facts.add(
                Position::Param,
                classes,
                Location { part, parameter: parameter.name, text, start, end },
            );
        }
    }
    if !is_chooser {
        return;
    }
    if let Some(value) = http_method(parameter) {
        let (part, text, end) = (Part::EnumValue, value, place(value.len()));
        let at = Location { part, parameter: parameter.name, text, start: 0, end };
        facts.add_class(Position::Action, "http", at);
        return;
    }
    for value in parameter.values() {
        let Some(lead) = Lead::of(value) else { continue };
        let (part, text) = (Part::EnumValue, value);
        let (start, end) = (lead.word.start, lead.word.end);
        facts.add(
            Position::Action,
            lead.classes,
            Location { part, parameter: parameter.name, text, start, end },
        );
    }
}

/// The most dangerous method, if all values are HTTP methods and one of them changes something:
/// what such a tool does depends on the server that it calls.
fn http_method(parameter: Parameter<'_>) -> Option<&str> {
    let methods = ["get", "head", "options", "post", "put", "patch", "delete"];
    let number = |value: &str| methods.iter().position(|name| name.eq_ignore_ascii_case(value));
    let is_http = parameter.values().all(|value| number(value).is_some());
    let worst = parameter.values().max_by_key(|value| number(value))?;
    (is_http && number(worst) > Some(2)).then_some(worst)
}

fn hints<'d>(definition: &Definition<'d>, facts: &mut Facts<'d>) {
    for (hint, value, class) in
        [("destructiveHint", true, "destroy"), ("readOnlyHint", false, "write")]
    {
        if definition.hint(hint) != Some(value) {
            continue;
        }
        let end = place(hint.len());
        let at = Location { part: Part::Hint, parameter: "", text: hint, start: 0, end };
        facts.add_class(Position::Hint, class, at);
    }
}
