//! The load generator: sends calls, times them, and checks every answer. A
//! denied or failed call ends the run; it never counts as a success.

mod check;
mod closed;
mod open;
mod request;
mod response;
mod tally;

use std::time::Duration;

use clap::Args;

use crate::{
    era::Era,
    process::{self, Memory},
    target::Target,
};

pub(crate) use request::{Calls, head, meta};
pub(crate) use response::Decoder;
pub(crate) use tally::Tally;

/// Text that only the upstream's answer contains.
pub(crate) const MARK: &str = "done-by-the-upstream";

/// The arguments of the load generator.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// `http://<ip>:<port>/<path>` of an MCP endpoint
    #[arg(long)]
    url: Target,
    /// A grant's token
    #[arg(long)]
    token: Option<String>,
    /// Connections; in closed loop each has one call in flight at all times
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Calls per second, sent whether or not answers arrive (open loop)
    #[arg(long)]
    rate: Option<u32>,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    era: Era,
    /// The tool to call
    #[arg(long, default_value_t = crate::upstream::tool(0))]
    tool: String,
    /// The target's process, whose CPU and memory are shown
    #[arg(long)]
    pid: Option<u32>,
}

/// One period of load on one target.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) pattern: Pattern,
    pub(crate) span: Duration,
    pub(crate) calls: Calls,
    /// The process whose CPU time is measured.
    pub(crate) pid: Option<u32>,
}

/// When calls are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pattern {
    /// Each connection sends its next call when the last is answered.
    Closed { connections: usize },
    /// Calls are sent at even intervals, whatever the target does.
    Open { rate: u32, connections: usize },
}

/// The result of one period of load.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) took: Duration,
    /// The CPU time of the measured process.
    pub(crate) cpu: Option<Duration>,
}

impl Load {
    pub(crate) fn run(&self, target: &Target) -> anyhow::Result<Measured> {
        match self.pattern {
            Pattern::Closed { connections } => closed::run(self, target, connections),
            Pattern::Open { rate, connections } => open::run(self, target, rate, connections),
        }
    }

    fn cpu(&self) -> anyhow::Result<Option<Duration>> {
        self.pid.map(process::cpu).transpose()
    }
}

impl Measured {
    pub(crate) fn calls_per_second(&self) -> f64 {
        count(self.tally.calls()) / self.took.as_secs_f64()
    }

    pub(crate) fn cpu_micros_per_call(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count(self.tally.calls()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "no run makes 2^53 calls")]
fn count(calls: u64) -> f64 {
    calls as f64
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = Target { token: arguments.token.clone(), ..arguments.url.clone() };
    let connections = arguments.connections;
    let load = Load {
        pattern: match arguments.rate {
            Some(rate) => Pattern::Open { rate, connections },
            None => Pattern::Closed { connections },
        },
        span: Duration::from_secs_f64(arguments.seconds),
        calls: Calls { era: arguments.era, tool: arguments.tool.clone() },
        pid: arguments.pid,
    };
    print(&load.run(&target)?);
    if let Some(pid) = arguments.pid {
        let Memory { resident, peak } = process::memory(pid)?;
        println!("memory   {resident:.1} MiB, at most {peak:.1} MiB");
    }
    Ok(())
}

fn print(measured: &Measured) {
    let tally = &measured.tally;
    println!("calls    {}, every answer correct", tally.calls());
    println!("rate     {:.0}/s", measured.calls_per_second());
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        println!("{name:<8} {:.0} µs", tally.micros(quantile));
    }
    if let Some(micros) = measured.cpu_micros_per_call() {
        println!("cpu      {micros:.1} µs per call");
    }
}
