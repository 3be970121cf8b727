//! Applies the checks of `definitions` to what clients are shown, and records each finding once
//! for each version of a definition.

use sluice_classify::visible;
use sluice_store::{HiddenText, Kind, Record, new_id};
use sluice_wire::{
    edit::{Edits, Fate, quote},
    json::Value,
};

use super::definitions::{self, Checked, Fault};
use crate::{exchange::Exchange, reserve::shorten};

/// The form in which a client sees an item of a list that the policy shows.
pub(super) fn check(exchange: &Exchange, item: Value<'_>, identity: &'static str) -> Fate {
    let mode = exchange.server.link.server.hidden_text;
    let name = item.get(identity).and_then(Value::as_str).unwrap_or_default();
    let note = |fault, done| note(exchange, identity, name, item, fault, done);
    match definitions::check(item, identity, mode) {
        Checked::Fine => Fate::Keep,
        Checked::Changed(json, fault) => {
            note(fault, "shown without it");
            Fate::Become(json)
        }
        Checked::Withheld(fault) => {
            note(fault, "withheld");
            Fate::Drop
        }
    }
}

/// Removes from a server's instructions what cannot be seen, or all of them.
pub(super) fn check_instructions<'d>(
    exchange: &Exchange,
    edits: &mut Edits<'d>,
    instructions: Value<'d>,
) {
    let mode = exchange.server.link.server.hidden_text;
    let Some(text) = instructions.as_str().filter(|_| mode != HiddenText::Pass) else { return };
    let Some((clean, fault)) = definitions::clean(text) else { return };
    let (shown, done) = match mode {
        HiddenText::Withhold => (String::new(), "withheld"),
        HiddenText::Strip | HiddenText::Pass => (clean, "shown without it"),
    };
    note(exchange, "instructions", "instructions", instructions, fault, done);
    edits.replace(instructions, quote(&shown));
}

/// Removes from what a server says it is what cannot be seen, or all but the name that it has
/// here.
pub(super) fn check_info<'d>(exchange: &Exchange, edits: &mut Edits<'d>, info: Value<'d>) {
    let mode = exchange.server.link.server.hidden_text;
    if mode == HiddenText::Pass {
        return;
    }
    let Some((clean, fault)) = definitions::clean_info(info) else { return };
    let name = || format!(r#"{{"name":{},"version":""}}"#, quote(exchange.server_name()));
    let (shown, done) = match mode {
        HiddenText::Withhold => (name(), "withheld"),
        // A text was in a place that cannot be changed.
        HiddenText::Strip | HiddenText::Pass if clean == "{}" => (name(), "withheld"),
        HiddenText::Strip | HiddenText::Pass => (clean, "shown without it"),
    };
    note(exchange, "serverInfo", "serverInfo", info, fault, done);
    edits.replace(info, shown);
}

/// Records a finding, unless this definition has been recorded already.
fn note(
    exchange: &Exchange,
    identity: &'static str,
    name: &str,
    definition: Value<'_>,
    fault: Fault,
    done: &str,
) {
    let server = exchange.server_name();
    if !exchange.server.link.state.tools.note_finding(definition.raw(), done) {
        return;
    }
    let name = visible(&shorten(name, 256));
    tracing::warn!(server, item = name, %fault, done, "a definition of a server");
    let mut record = Record::new(new_id(exchange.at), exchange.at, Kind::Drift);
    record.server = Some(exchange.server.link.name.clone());
    match identity {
        "name" => record.tool = Some(name.as_str().into()),
        _ => record.target = Some(name),
    }
    record.message = Some(format!("{fault}: {done}"));
    exchange.gateway.store.append_deferred(record);
}
