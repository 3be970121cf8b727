//! Calls through the gateway, compared with the pass-through and the upstream itself.

use crate::load::Pattern;

use super::super::{
    Arguments,
    config::ORDINARY,
    gateway::{Gateway, Installation},
    parts::{self, Part},
    rounds::{self, Sample, Side},
    row::{Promise, Row, Series},
};

/// The size of an ordinary answer, in bytes.
pub(super) const SMALL: usize = 200;
/// The number of connections in open loop, enough that one is always free.
const OPEN_CONNECTIONS: usize = 16;
const LARGE_CONNECTIONS: usize = 16;

/// The three targets that are compared, with one upstream.
struct Trio {
    upstream: Part,
    passthrough: Part,
    gateway: Gateway,
}

impl Trio {
    fn start(arguments: &Arguments, name: &str, size: usize) -> anyhow::Result<Trio> {
        let upstream = parts::upstream(arguments, arguments.era, size, ORDINARY.tools)?;
        let passthrough = parts::passthrough(&upstream)?;
        let gateway = Installation::new(arguments, name, ORDINARY, &upstream)?.start()?;
        Ok(Trio { upstream, passthrough, gateway })
    }

    /// Samples of the upstream, the pass-through and the gateway.
    fn measure(&self, arguments: &Arguments, pattern: Pattern) -> anyhow::Result<[Vec<Sample>; 3]> {
        let tool = ORDINARY.tool();
        let parts = [&self.upstream, &self.passthrough, &self.gateway.part];
        rounds::measure(arguments, pattern, parts.map(|part| Side { part, tool: &tool }))
    }
}

/// A row with one number of each target.
fn row(
    scenario: &'static str,
    what: String,
    unit: &'static str,
    samples: &[Vec<Sample>; 3],
    number: impl Fn(&Sample) -> f64,
) -> Row {
    let [direct, beside, gateway] =
        samples.each_ref().map(|side| side.iter().map(&number).collect::<Series>());
    Row { direct: Some(direct), ..Row::beside(scenario, what, unit, [beside, gateway]) }
}

pub(super) fn throughput(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let trio = Trio::start(arguments, "throughput", SMALL)?;
    let mut rows = Vec::new();
    for connections in [1, 16, 64] {
        let samples = trio.measure(arguments, Pattern::Closed { connections })?;
        let of = |what: &str, unit, number: fn(&Sample) -> f64| {
            row("throughput", format!("{what}, {connections} connections"), unit, &samples, number)
        };
        let calls = of("calls", "1/s", |sample| sample.calls_per_second);
        let cpu = of("CPU a call", "µs", |sample| sample.cpu_micros);
        let p99 = of("p99", "µs", |sample| sample.p99);
        rows.push(if connections > 1 { calls.promising(Promise::AtLeast(0.62)) } else { calls });
        let most = if connections > 1 { 1.8 } else { 2.6 };
        rows.push(cpu.promising(Promise::AtMost(most)));
        rows.push(of("p50", "µs", |sample| sample.p50));
        rows.push(if connections == 64 { p99.promising(Promise::AtMost(2.0)) } else { p99 });
        rows.push(of("p99.9", "µs", |sample| sample.p999));
    }
    Ok(rows)
}

pub(super) fn latency(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let trio = Trio::start(arguments, "latency", SMALL)?;
    let rate = arguments.rate;
    let pattern = Pattern::Open { rate, connections: OPEN_CONNECTIONS };
    let samples = trio.measure(arguments, pattern)?;
    let of = |what: &str, number: fn(&Sample) -> f64| {
        row("latency", format!("{what} at {rate}/s"), "µs", &samples, number)
    };
    Ok(vec![
        of("p50", |sample| sample.p50),
        compare_latency(&samples, rate).promising(Promise::AtMost(2.2)),
        of("p99", |sample| sample.p99),
        of("p99.9", |sample| sample.p999),
    ])
}

/// The latency that each proxy adds to the median of the upstream alone.
fn compare_latency(samples: &[Vec<Sample>; 3], rate: u32) -> Row {
    let [direct, passthrough, gateway] =
        samples.each_ref().map(|side| side.iter().map(|sample| sample.p50).collect::<Series>());
    let less_direct = |series: Series| series.with(&direct, |with, without| with - without);
    let added = [passthrough, gateway].map(less_direct);
    Row::beside("latency", format!("added p50 at {rate}/s"), "µs", added)
}

pub(super) fn large(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let trio = Trio::start(arguments, "large", arguments.large)?;
    let samples = trio.measure(arguments, Pattern::Closed { connections: LARGE_CONNECTIONS })?;
    let of = |what: &str, unit, number: fn(&Sample) -> f64| {
        row("large", format!("{what}, {LARGE_CONNECTIONS} connections"), unit, &samples, number)
    };
    Ok(vec![
        of("calls", "1/s", |sample| sample.calls_per_second).promising(Promise::AtLeast(0.7)),
        of("CPU a call", "µs", |sample| sample.cpu_micros),
        of("p99", "µs", |sample| sample.p99),
    ])
}
