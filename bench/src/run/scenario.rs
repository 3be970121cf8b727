//! The scenarios that can be measured.

mod calls;
mod catalog;
mod fairness;
mod memory;
mod pharo;
mod scaling;
mod start;
mod stdio;
mod streams;

use clap::ValueEnum;

use super::{Arguments, row::Row};
use scaling::Growth;

/// One scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// Calls a second, CPU and latency in closed loop
    Throughput,
    /// Latency in open loop, well below saturation
    Latency,
    /// Calls with answers of 1 MiB
    Large,
    /// Resident memory, idle and under load
    Memory,
    /// From start to ready
    Start,
    /// Calls to a command, compared with HTTP and with third-party bridges
    Stdio,
    /// Memory with thousands of idle streams
    Streams,
    /// Cost per call with many grants
    Grants,
    /// Cost per call with many policies
    Policies,
    /// Cost per call with many tools, each named by the policy
    Tools,
    /// Cost per call with a long audit log
    Audit,
    /// One grant's calls while another grant is at its bounds
    Fairness,
    /// The Pharo server over stdio, compared with a bare HTTP call
    Pharo,
    /// The catalogue of the whole field: importing, searching, memory
    Catalog,
}

impl Scenario {
    pub(super) const ALL: [Scenario; 14] = [
        Scenario::Throughput,
        Scenario::Latency,
        Scenario::Large,
        Scenario::Memory,
        Scenario::Start,
        Scenario::Stdio,
        Scenario::Streams,
        Scenario::Grants,
        Scenario::Policies,
        Scenario::Tools,
        Scenario::Audit,
        Scenario::Fairness,
        Scenario::Pharo,
        Scenario::Catalog,
    ];

    /// Its name on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Scenario::Throughput => "throughput",
            Scenario::Latency => "latency",
            Scenario::Large => "large",
            Scenario::Memory => "memory",
            Scenario::Start => "start",
            Scenario::Stdio => "stdio",
            Scenario::Streams => "streams",
            Scenario::Grants => "grants",
            Scenario::Policies => "policies",
            Scenario::Tools => "tools",
            Scenario::Audit => "audit",
            Scenario::Fairness => "fairness",
            Scenario::Pharo => "pharo",
            Scenario::Catalog => "catalog",
        }
    }

    pub(super) fn run(self, arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
        match self {
            Scenario::Throughput => calls::throughput(arguments),
            Scenario::Latency => calls::latency(arguments),
            Scenario::Large => calls::large(arguments),
            Scenario::Memory => memory::run(arguments),
            Scenario::Start => start::run(arguments),
            Scenario::Stdio => stdio::run(arguments),
            Scenario::Streams => streams::run(arguments),
            Scenario::Grants => scaling::run(arguments, self.word(), Growth::Grants),
            Scenario::Policies => scaling::run(arguments, self.word(), Growth::Policies),
            Scenario::Tools => scaling::run(arguments, self.word(), Growth::Tools),
            Scenario::Audit => scaling::run(arguments, self.word(), Growth::Rows),
            Scenario::Fairness => fairness::run(arguments),
            Scenario::Pharo => pharo::run(arguments),
            Scenario::Catalog => catalog::run(arguments),
        }
    }
}
