//! A demo MCP server with notes and a ledger.
//!
//! It has six tools, one of each category, over a few notes and invoices, which are
//! kept in memory and reset at each start. It reaches nothing outside the process, and
//! no money is real.

mod arguments;
mod decimal;
mod ledger;
mod notes;
mod report;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use sluice_builtin::{Builtin, Call, Calling, Identity, ToolResult, UnknownTool};
use sluice_wire::json::Value;

use arguments::Arguments;
use decimal::Decimal;
use ledger::Ledger;
use notes::Notes;

/// The recommended policy for this server, with a rule of each kind to try.
pub const POLICY: &str = include_str!("../../../policies/demo.json");

/// This text is shown to everybody who connects, so it names no tool that a policy is likely to
/// hide.
const INSTRUCTIONS: &str = "A small notebook and ledger for trying out policies. Start with list_notes, \
     which explains the rest. Everything is kept in memory, and no money is real.";

/// The server, with its notes and its ledger.
#[derive(Debug)]
pub struct Demo {
    tools: String,
    state: Mutex<State>,
}

/// The state that the tools read and change.
#[derive(Debug)]
struct State {
    notes: Notes,
    ledger: Ledger,
    /// The value of the last report.
    last: Decimal,
    pings: u64,
}

impl Demo {
    /// A server with a few notes and invoices.
    pub fn new() -> Self {
        // One line, because messages are separated by line breaks. JSON strings contain no raw line
        // breaks, so no string is changed.
        let tools = include_str!("tools.json").lines().map(str::trim).collect();
        let state = State {
            notes: Notes::with_sample_data(),
            ledger: Ledger::with_sample_data(),
            last: Decimal::ZERO,
            pings: 0,
        };
        Demo { tools, state: Mutex::new(state) }
    }

    fn run(&self, tool: &str, arguments: Option<Value<'_>>) -> Result<ToolResult, UnknownTool> {
        let tool = match tool {
            "list_notes" => State::list_notes,
            "add_note" => State::add_note,
            "run_report" => State::run_report,
            "delete_note" => State::delete_note,
            "pay_invoice" => State::pay_invoice,
            "ping_demo" => State::ping,
            _ => return Err(UnknownTool),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tool(&mut state, arguments).unwrap_or_else(ToolResult::error))
    }
}

impl Default for Demo {
    fn default() -> Self {
        Demo::new()
    }
}

impl Builtin for Demo {
    fn identity(&self) -> Identity<'_> {
        Identity {
            name: "demo",
            title: "Notes and ledger",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }

    fn tools(&self) -> &str {
        &self.tools
    }

    fn call<'a>(&'a self, call: Call<'a>) -> Calling<'a> {
        Box::pin(async move { self.run(call.tool, call.arguments) })
    }
}

/// A tool's result, or an error that says what to do instead.
type Answer = Result<ToolResult, String>;

/// The tools: each reads its arguments and calls the part of the state that it needs.
impl State {
    fn list_notes(&mut self, arguments: Option<Value<'_>>) -> Answer {
        let arguments = Arguments::read(arguments, &["query", "limit"])?;
        let query = arguments.optional_text("query", notes::LONGEST_TITLE)?.unwrap_or_default();
        let limit = arguments.optional_whole("limit", 1..=100)?.unwrap_or(20);
        Ok(self.notes.list(query, limit))
    }

    fn add_note(&mut self, arguments: Option<Value<'_>>) -> Answer {
        let arguments = Arguments::read(arguments, &["title", "text"])?;
        let title = arguments.text("title", notes::LONGEST_TITLE)?;
        let text = arguments.text("text", notes::LONGEST_TEXT)?;
        self.notes.add(title, text)
    }

    fn delete_note(&mut self, arguments: Option<Value<'_>>) -> Answer {
        let arguments = Arguments::read(arguments, &["id"])?;
        self.notes.delete(arguments.text("id", 64)?)
    }

    fn run_report(&mut self, arguments: Option<Value<'_>>) -> Answer {
        let arguments = Arguments::read(arguments, &["expression"])?;
        let expression = arguments.text("expression", report::LONGEST_EXPRESSION)?;
        self.last = report::evaluate(expression, self)?;
        let value = self.last;
        Ok(ToolResult::text(format!("{expression} = {value}"))
            .with_structured(format!("{{\"value\":{value}}}")))
    }

    fn pay_invoice(&mut self, arguments: Option<Value<'_>>) -> Answer {
        let arguments = Arguments::read(arguments, &["invoice", "amount", "to"])?;
        let invoice = arguments.text("invoice", 64)?;
        let amount = arguments.money("amount")?;
        let to = arguments.optional_text("to", 100)?;
        self.ledger.pay(invoice, amount, to)
    }

    fn ping(&mut self, arguments: Option<Value<'_>>) -> Answer {
        Arguments::read(arguments, &[])?;
        self.pings += 1;
        let pings = self.pings;
        Ok(ToolResult::text(format!("pong {pings}"))
            .with_structured(format!("{{\"count\":{pings}}}")))
    }
}
