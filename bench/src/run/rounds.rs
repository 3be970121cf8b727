//! Rounds: each round measures every target once, so that other activity on the machine affects all
//! of them, and ratios are taken within a round.

use std::time::Duration;

use super::{Arguments, parts::Part};
use crate::load::{Calls, Load, Measured, Pattern};

/// Load before the first round, to open connections and fill caches.
const WARM_UP: Duration = Duration::from_millis(500);

/// The result of one target in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) calls_per_second: f64,
    pub(super) cpu_micros: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Sample {
    fn of(measured: &Measured) -> Sample {
        Sample {
            calls_per_second: measured.calls_per_second(),
            cpu_micros: measured.cpu_micros_per_call().unwrap_or_default(),
            p50: measured.tally.micros(0.5),
            p99: measured.tally.micros(0.99),
            p999: measured.tally.micros(0.999),
        }
    }
}

/// One target, and the calls that are made on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) part: &'a Part,
    pub(super) tool: &'a str,
}

/// Measures every side in every round; returns samples by side, then by round.
pub(super) fn measure<const N: usize>(
    arguments: &Arguments,
    pattern: Pattern,
    sides: [Side<'_>; N],
) -> anyhow::Result<[Vec<Sample>; N]> {
    for side in sides {
        load(arguments, pattern, side, WARM_UP.min(arguments.span()))?;
    }
    let mut samples = [const { Vec::new() }; N];
    for round in 0..arguments.rounds {
        // Each round starts with another side, so that no side always has the same predecessor.
        let mut order: Vec<_> = sides.into_iter().zip(&mut samples).collect();
        order.rotate_left(usize::try_from(round)? % N);
        for (side, samples) in order {
            samples.push(Sample::of(&load(arguments, pattern, side, arguments.span())?));
        }
    }
    Ok(samples)
}

/// Puts load on one side.
pub(super) fn load(
    arguments: &Arguments,
    pattern: Pattern,
    side: Side<'_>,
    span: Duration,
) -> anyhow::Result<Measured> {
    let calls = Calls { era: arguments.era, tool: side.tool.to_owned() };
    let load = Load { pattern, span, calls, pid: Some(side.part.process.id()) };
    load.run(&side.part.target)
}
