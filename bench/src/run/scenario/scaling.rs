//! Cost per call with a large number of grants, policies, tools or records, compared with an
//! ordinary gateway.

use crate::{load::Pattern, process};

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
    if growth == Growth::Rows {
        // The gateway creates its database; the rows are added while it is stopped.
        installation.start()?.part.process.stop()?;
        prefill::fill(&installation.data(), arguments.rows)?;
    }
    let grown = installation.start()?;
    let tools = [ORDINARY.tool(), shape.tool()];
    let [base_tool, tool] = &tools;
    let sides = [Side { part: &base.part, tool: base_tool }, Side { part: &grown.part, tool }];
    for side in sides {
        process::wait_until_idle(side.part.process.id())?;
    }
    let samples = rounds::measure(arguments, Pattern::Closed { connections: CONNECTIONS }, sides)?;
    let mut rows = call_rows(scenario, &growth.count(arguments), &samples);
    rows.push(memory_row(scenario, &growth.count(arguments), sides)?);
    drop(grown);
    installation.remove()?;
    Ok(rows)
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
