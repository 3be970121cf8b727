//! Resident memory of a gateway: idle, under load, and with large answers.

use crate::{load::Pattern, process};

use super::{
    super::{
        Arguments,
        config::ORDINARY,
        gateway::Installation,
        parts::{self, Part},
        rounds::{self, Side},
        row::{Promise, Row, Series},
    },
    calls::SMALL,
};

const SCENARIO: &str = "memory";
const CONNECTIONS: [usize; 2] = [16, 64];

/// Each gateway is restarted, because used memory is not always returned.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![idle(arguments)?.promising(Promise::AtMost(20.0))];
    for connections in CONNECTIONS {
        rows.push(
            measure_peak(arguments, "calls", SMALL, connections)?.promising(Promise::AtMost(30.0)),
        );
    }
    for connections in CONNECTIONS {
        let row = measure_peak(arguments, "large answers", arguments.large, connections)?;
        rows.push(row.promising(Promise::AtMost(40.0)));
    }
    Ok(rows)
}

fn idle(arguments: &Arguments) -> anyhow::Result<Row> {
    let upstream = parts::upstream(arguments, arguments.era, SMALL, ORDINARY.tools)?;
    let gateway = Installation::new(arguments, "memory", ORDINARY, &upstream)?.start()?;
    let pid = gateway.part.process.id();
    process::wait_until_idle(pid)?;
    let resident = process::memory(pid)?.resident;
    Ok(Row::alone(SCENARIO, "idle", "MiB", [resident].into_iter().collect()))
}

/// The peak of resident memory, compared with that of the pass-through.
fn measure_peak(
    arguments: &Arguments,
    what: &str,
    bytes: usize,
    connections: usize,
) -> anyhow::Result<Row> {
    let upstream = parts::upstream(arguments, arguments.era, bytes, ORDINARY.tools)?;
    let passthrough = parts::passthrough(&upstream)?;
    let gateway = Installation::new(arguments, "memory", ORDINARY, &upstream)?.start()?;
    let peak = |part: &Part| -> anyhow::Result<Series> {
        let side = Side { part, tool: &ORDINARY.tool() };
        rounds::load(arguments, Pattern::Closed { connections }, side, arguments.span() * 2)?;
        Ok([process::memory(part.process.id())?.peak].into_iter().collect())
    };
    let beside = Some(peak(&passthrough)?);
    let what = format!("peak, {what}, {connections} conn.");
    Ok(Row { beside, ..Row::alone(SCENARIO, what, "MiB", peak(&gateway.part)?) })
}
