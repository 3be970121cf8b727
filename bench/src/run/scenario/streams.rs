//! Memory with thousands of idle event streams.

use std::time::Duration;

use anyhow::Context as _;

use crate::{
    listen,
    load::{Calls, Load, Pattern},
    process,
    streams::{self, Kind},
};

use super::{
    super::{
        Arguments,
        config::ORDINARY,
        gateway::{Gateway, Installation},
        parts,
        row::{Promise, Row},
    },
    calls::SMALL,
};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let listen = ("listen", Kind::Listen, arguments.listen_streams);
    let get = ("GET", Kind::Get, arguments.get_streams);
    [listen, get]
        .into_iter()
        .map(|(word, kind, count)| idle(arguments, word, kind, count))
        .collect()
}

fn idle(arguments: &Arguments, word: &str, kind: Kind, count: usize) -> anyhow::Result<Row> {
    let upstream = parts::upstream(arguments, kind.era(), SMALL, ORDINARY.tools)?;
    let gateway = Installation::new(arguments, "streams", ORDINARY, &upstream)?.start()?;
    let pid = gateway.part.process.id();
    let runtime = listen::runtime(1)?;
    let open = runtime.block_on(streams::open(&gateway.part.target, kind, count))?;
    process::wait_until_idle(pid)?;
    let resident = process::memory(pid)?.resident;
    call(&gateway, kind).context("a call while the streams are open")?;
    runtime.block_on(streams::check_open(&open))?;
    let what = format!("{count} idle {word} streams");
    let row = Row::alone("streams", what, "MiB", [resident].into_iter().collect());
    Ok(row.promising(Promise::AtMost(250.0)))
}

/// Another client makes calls while the streams are open.
fn call(gateway: &Gateway, kind: Kind) -> anyhow::Result<()> {
    let calls = Calls { era: kind.era(), tool: ORDINARY.tool() };
    let pattern = Pattern::Closed { connections: 1 };
    let load = Load { pattern, span: Duration::from_millis(50), calls, pid: None };
    load.run(&gateway.part.target).map(|_| ())
}
