//! Cost per call with a large number of grants, policies, tools or records, compared with an
//! ordinary gateway.

use std::{process::Command, time::Duration};

use anyhow::ensure;
use sluice_store::Id;

use crate::{clock, load::Pattern, process};

use super::{
    super::{
        Arguments,
        config::{ORDINARY, Shape},
        gateway::Installation,
        parts, prefill,
        rounds::{self, Sample, Side},
        row::{Promise, Row, Series},
    },
    calls::SMALL,
};

const CONNECTIONS: usize = 16;
/// On a noisy machine, even two equal gateways differ by a tenth.
const NO_GROWTH: Promise = Promise::AtMost(1.1);

/// The quantity that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    Grants,
    Policies,
    Tools,
    Rows,
}

impl Growth {
    fn shape(self, arguments: &Arguments) -> Shape {
        match self {
            Growth::Grants => Shape { grants: arguments.grants, ..ORDINARY },
            Growth::Policies => Shape { policies: arguments.policies, ..ORDINARY },
            Growth::Tools => Shape { tools: arguments.tools, ..ORDINARY },
            Growth::Rows => ORDINARY,
        }
    }

    fn count(self, arguments: &Arguments) -> String {
        match self {
            Growth::Grants => format!("{} grants", arguments.grants),
            Growth::Policies => format!("{} policies", arguments.policies),
            Growth::Tools => format!("{} tools", arguments.tools),
            Growth::Rows => format!("{} rows", arguments.rows),
        }
    }
}

pub(super) fn run(
    arguments: &Arguments,
    scenario: &'static str,
    growth: Growth,
) -> anyhow::Result<Vec<Row>> {
    let shape = growth.shape(arguments);
    let upstream = parts::upstream(arguments, arguments.era, SMALL, ORDINARY.tools)?;
    let grown_upstream = parts::upstream(arguments, arguments.era, SMALL, shape.tools)?;
    let base = Installation::new(arguments, "ordinary", ORDINARY, &upstream)?.start()?;
    let installation = Installation::new(arguments, scenario, shape, &grown_upstream)?;
    let mut rows = Vec::new();
    if growth == Growth::Rows {
        // The gateway creates its database; the rows are added while it is stopped.
        installation.start()?.part.process.stop()?;
        let request = prefill::fill(&installation.data(), arguments.rows)?;
        rows = search_rows(arguments, &installation, request)?;
    }
    let grown = installation.start()?;
    let tools = [ORDINARY.tool(), shape.tool()];
    let [base_tool, tool] = &tools;
    let sides = [Side { part: &base.part, tool: base_tool }, Side { part: &grown.part, tool }];
    for side in sides {
        process::wait_until_idle(side.part.process.id())?;
    }
    let samples = rounds::measure(arguments, Pattern::Closed { connections: CONNECTIONS }, sides)?;
    rows.extend(call_rows(scenario, &growth.count(arguments), &samples));
    rows.push(memory_row(scenario, &growth.count(arguments), sides)?);
    drop(grown);
    installation.remove()?;
    Ok(rows)
}

/// Finding one request in a long log: in the open store, and by the command in a new process.
fn search_rows(
    arguments: &Arguments,
    installation: &Installation,
    request: Id,
) -> anyhow::Result<Vec<Row>> {
    let count = Growth::Rows.count(arguments);
    let row = |what: &str, took: Vec<Duration>| {
        let millis = took.into_iter().map(|took| took.as_secs_f64() * 1000.0).collect();
        Row::alone("audit", format!("{what}, {count}"), "ms", millis)
    };
    let in_store = prefill::time_search(&installation.data(), request)?;
    let by_command = (0..arguments.rounds).map(|_| {
        let mut command = Command::new(&arguments.sluice);
        command.arg("--data").arg(installation.data());
        command.args(["log", "--records", "--json", "--request", &request.to_string()]);
        let start = clock::now();
        let output = command.output()?;
        let took = start.elapsed();
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains(&request.to_string()), "`log --request` did not find it: {said}");
        Ok(took)
    });
    let by_command = by_command.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(vec![
        row("find a request", vec![in_store]).promising(Promise::AtMost(10.0)),
        row("log --request, process", by_command),
    ])
}

fn call_rows(scenario: &'static str, count: &str, samples: &[Vec<Sample>; 2]) -> Vec<Row> {
    let of = |what: &str, unit, number: fn(&Sample) -> f64| {
        let series = samples.each_ref().map(|side| side.iter().map(number).collect::<Series>());
        Row::beside(scenario, format!("{what}, {count}"), unit, series)
    };
    vec![
        of("CPU a call", "µs", |sample| sample.cpu_micros).promising(NO_GROWTH),
        of("calls", "1/s", |sample| sample.calls_per_second),
        of("p99", "µs", |sample| sample.p99),
    ]
}

fn memory_row(scenario: &'static str, count: &str, sides: [Side<'_>; 2]) -> anyhow::Result<Row> {
    let [base, grown] = sides.map(|side| process::memory(side.part.process.id()));
    let series = [base?, grown?].map(|memory| [memory.resident].into_iter().collect());
    Ok(Row::beside(scenario, format!("memory, {count}"), "MiB", series))
}
