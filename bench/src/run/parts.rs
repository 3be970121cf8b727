//! The other processes of a measurement: upstreams, and the pass-through.

use std::time::Duration;

use crate::{era::Era, process::Process, target::Target};

use super::Arguments;

/// A process and the address at which it accepts calls.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) process: Process,
    pub(super) target: Target,
}

impl Part {
    fn start(arguments: &[&str]) -> anyhow::Result<Part> {
        let (process, address) = Process::part(arguments)?;
        let target = format!("http://{address}/mcp").parse()?;
        Ok(Part { process, target })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.target.address, self.target.path)
    }
}

/// An upstream with answers of this size and this many tools.
pub(super) fn upstream(
    arguments: &Arguments,
    era: Era,
    size: usize,
    tools: usize,
) -> anyhow::Result<Part> {
    let (size, tools) = (size.to_string(), tools.to_string());
    let mut words =
        vec!["upstream", "--era", era.word(), "--size", size.as_str(), "--tools", tools.as_str()];
    if arguments.sse {
        words.push("--sse");
    }
    Part::start(&words)
}

/// An upstream that answers calls only after some time.
pub(super) fn slow_upstream(era: Era, tools: usize, delay: Duration) -> anyhow::Result<Part> {
    let (tools, delay) = (tools.to_string(), delay.as_millis().to_string());
    Part::start(&["upstream", "--era", era.word(), "--tools", &tools, "--delay", &delay])
}

/// A test double of the HTTP port of a Pharo image.
pub(super) fn image() -> anyhow::Result<Part> {
    Part::start(&["image"])
}

pub(super) fn passthrough(upstream: &Part) -> anyhow::Result<Part> {
    Part::start(&["passthrough", "--upstream", &upstream.url()])
}
