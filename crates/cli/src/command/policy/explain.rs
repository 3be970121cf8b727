//! `sluice policy explain`: explains the decision on a call in sentences.

use std::{collections::HashMap, path::PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use sluice_config::Source;
use sluice_policy::{
    Amount, Call, Concurrency, Decimal, Explanation, Facts, Outcome, Step, StepResult, Timestamp,
    explain,
};
use sluice_store::Name;
use sluice_wire::json::{Bounds, Document};

use super::{
    bases::{ServerPolicies, with_policies},
    load_policy,
};
use crate::{
    clock,
    input::{self, read_source},
    output::{BAD, Done, FAINT, GOOD, HELD, STRONG, count_noun, print, print_json, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The policy: JSON, or YAML by its ending
    file: String,
    /// The tool that is called
    #[arg(long)]
    tool: String,
    /// The call's arguments, a JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// A saved `tools/list` result, for categories and schemas
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// The server whose policies it may extend
    #[arg(long, value_name = "NAME", value_parser = Name::new)]
    server: Option<Name>,
    /// The time of the call (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,
    /// The current value of a counter, or the calls in progress of a rule such as
    /// /tools/eval/concurrent; may be repeated
    #[arg(long, value_name = "COUNTER=N", value_parser = reading)]
    used: Vec<(String, Amount)>,
    /// Print {"outcome", "rule", "message", "charges", "trace"} as JSON
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::from_rfc3339(text).ok_or_else(|| "write it as 2026-01-31T12:00:00Z".into())
}

fn reading(text: &str) -> Result<(String, Amount), String> {
    // A counter's name may contain `=`, but a number cannot.
    let (counter, number) = text.rsplit_once('=').ok_or("write it as COUNTER=N")?;
    let document = Document::parse(number, &Bounds::default()).ok();
    let number = document.as_ref().and_then(|document| document.root().as_number());
    let number = number.ok_or("N must be a number, as in eval_rate=10")?;
    let amount = Amount::exactly(Decimal::read(number)).map_err(|error| format!("N {error}"))?;
    Ok((counter.to_owned(), amount))
}

impl Explain {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        with_policies(data, self.server.as_ref(), &[&source], |among| self.explain(&source, among))
    }

    fn explain(&self, source: &Source, among: Option<&ServerPolicies>) -> anyhow::Result<Done> {
        let args = self.args.as_deref().map(|text| input::json("--args", text)).transpose()?;
        let call = Call::new(&self.tool, args.as_ref().map(Document::root)).context("--args")?;
        let tools = self.tools.as_deref().map(input::tools).transpose()?;
        let Some(policy) = load_policy(source, among, self.json)? else {
            return Ok(Done::WithProblems);
        };
        let used: HashMap<_, _> = self.used.iter().cloned().collect();
        let mut counters = policy.counters();
        counters.extend(policy.concurrencies().map(Concurrency::rule));
        if let Some((counter, _)) = self.used.iter().find(|(name, _)| !counters.contains(&**name)) {
            let known: Vec<_> = counters.into_iter().collect();
            let known = if known.is_empty() {
                "it has none".into()
            } else {
                format!("there are: {}", known.join(", "))
            };
            return Err(anyhow!("--used: the policy has no counter `{counter}`\nhint: {known}"));
        }
        let at = self.at.unwrap_or_else(clock::now);
        let facts = Facts::find(tools.as_deref(), &self.tool);
        let reading = |name: &str| used.get(name).copied().unwrap_or_default();
        let explanation = explain(
            Some(&policy),
            &call,
            facts,
            at,
            |limit| reading(limit.counter()),
            |concurrency| reading(concurrency.rule()),
        );
        if self.json {
            print_json(&explanation)?;
        } else {
            let mut text = draw_explanation(&self.tool, &explanation);
            if explanation.rule.as_deref().is_some_and(|rule| rule.ends_with("(unknown tool)"))
                && tools.is_none()
            {
                text.push_str("\nGive the server's answer to `tools/list` with --tools to judge by definition.\n");
            }
            print(&text)?;
        }
        Ok(Done::Well)
    }
}

fn draw_explanation(tool: &str, explanation: &Explanation) -> String {
    let mut text = vec![verdict(&visible(tool), explanation)];
    if let Some(message) = &explanation.message {
        text.push(format!("The caller is told: {}\n", visible(message)));
    }
    text.extend(explanation.charges.iter().map(|charge| {
        format!(
            "It adds {} to `{}`, which has used {} of {}.\n",
            charge.amount,
            visible(&charge.counter),
            charge.used,
            charge.max
        )
    }));
    if let Some(base) = &explanation.base {
        let base = visible(base);
        text.push(format!("That rule is of {STRONG}{base}{STRONG:#}, which the policy extends.\n"));
    }
    if explanation.shadow {
        let which = explanation.base.as_ref().map_or("The policy", |_| "That base");
        text.push(format!("{which} is in shadow mode: only hidden tools are really refused.\n"));
    }
    text.push("\nHow that was decided:\n".into());
    text.extend(explanation.trace.iter().map(line));
    text.concat()
}

/// The outcome of the call in one sentence.
fn verdict(tool: &str, explanation: &Explanation) -> String {
    let rule = visible(explanation.rule.as_deref().unwrap_or_default());
    let call = format!("This call of {STRONG}{tool}{STRONG:#} is");
    match explanation.outcome {
        Outcome::Allow => format!("{call} {GOOD}allowed{GOOD:#}.\n"),
        Outcome::Hold => {
            let approval = match explanation.approvers {
                Some(1) | None => "a human's approval".into(),
                Some(number) => format!("the approval of {number} different people"),
            };
            let wait = duration(explanation.expires_seconds.unwrap_or_default());
            format!(
                "{call} {HELD}held{HELD:#} by {STRONG}{rule}{STRONG:#}: it is refused, and waits for {approval} for at most {wait}.\n"
            )
        }
        Outcome::Hide => format!(
            "{STRONG}{tool}{STRONG:#} is {BAD}hidden{BAD:#}: it is not listed, and calling it is refused as if it did not exist.\n"
        ),
        Outcome::Deny => format!("{call} {BAD}denied{BAD:#} by {STRONG}{rule}{STRONG:#}.\n"),
    }
}

fn line(step: &Step) -> String {
    let mark = match step.result {
        StepResult::Pass | StepResult::Outcome(Outcome::Allow) => format!("{GOOD}✓{GOOD:#}"),
        StepResult::Match => format!("{HELD}•{HELD:#}"),
        StepResult::Outcome(Outcome::Hold) => format!("{HELD}…{HELD:#}"),
        StepResult::Outcome(Outcome::Deny | Outcome::Hide) => format!("{BAD}✗{BAD:#}"),
    };
    let detail = visible(&step.detail);
    match &step.rule {
        Some(rule) => {
            format!("  {mark} {:<13} {detail}  {FAINT}{}{FAINT:#}\n", step.step, visible(rule))
        }
        None => format!("  {mark} {:<13} {detail}\n", step.step),
    }
}

/// A duration in its largest whole unit.
fn duration(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let unit =
        units.into_iter().find(|(size, _)| seconds >= *size && seconds.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "second"));
    count_noun(seconds / size, name)
}
