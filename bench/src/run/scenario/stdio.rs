//! Calls to a stdio server: through the gateway, compared with the same server over HTTP, and with
//! third-party bridges from stdio to HTTP, which enforce no policy and record nothing.

use std::{path::Path, process::Command, thread, time::Duration};

use anyhow::{Context as _, bail};

use super::{
    super::{
        Arguments,
        config::ORDINARY,
        gateway::{Installation, free_address},
        parts::{self, Part},
        rounds::{self, Sample, Side},
        row::{Promise, Row, Series},
    },
    calls::SMALL,
};
use crate::{clock, listen, load::Pattern, process::Process, streams, target::Target};

const CONNECTIONS: [usize; 2] = [1, 16];
/// How long a bridge may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The bridges, and their arguments before the command.
const BRIDGES: [(&str, &[&str]); 2] = [
    ("supergateway", &["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"]),
    ("mcp-proxy", &["--server", "stream", "--host", "127.0.0.1"]),
];

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let program = std::env::current_exe()?;
    let tools = ORDINARY.tools.to_string();
    let command = [
        program.to_str().context("a path that is not text")?,
        "upstream",
        "--stdio",
        "--tools",
        &tools,
    ];
    let place = format!("command = {}", serde_json::to_string(&command)?);
    let gateway = Installation::before(arguments, "stdio", ORDINARY, &place)?.start()?;
    let over_stdio = in_session(gateway.part)?;
    let upstream = parts::upstream(arguments, arguments.era, SMALL, ORDINARY.tools)?;
    let gateway = Installation::new(arguments, "stdio-http", ORDINARY, &upstream)?.start()?;
    let over_http = in_session(gateway.part)?;
    let mut rows = compare(arguments, "HTTP", [&over_http, &over_stdio], None)?;
    for (name, before) in BRIDGES {
        let path = arguments.bridges.join("node_modules/.bin").join(name);
        if !path.exists() {
            let folder = arguments.bridges.display();
            eprintln!("{name} is skipped, not installed: npm install --prefix {folder} {name}");
            continue;
        }
        let bridge = start_bridge(arguments, &path, name, before, &command)?;
        let promise = Some(Promise::AtLeast(5.0));
        rows.extend(compare(arguments, name, [&bridge, &over_stdio], promise)?);
    }
    Ok(rows)
}

/// Rows of the gateway with a stdio server, compared with another target.
fn compare(
    arguments: &Arguments,
    beside: &str,
    parts: [&Part; 2],
    promise: Option<Promise>,
) -> anyhow::Result<Vec<Row>> {
    let tool = ORDINARY.tool();
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let pattern = Pattern::Closed { connections };
        let samples =
            rounds::measure(arguments, pattern, parts.map(|part| Side { part, tool: &tool }))?;
        let of = |what: &str, unit, number: fn(&Sample) -> f64| {
            let series = samples.each_ref().map(|side| side.iter().map(number).collect::<Series>());
            Row::beside("stdio", format!("{what}, {connections}, beside {beside}"), unit, series)
        };
        let calls = of("calls", "1/s", |sample| sample.calls_per_second);
        rows.push(match promise {
            Some(promise) => calls.promising(promise),
            None => calls,
        });
        rows.push(of("CPU a call", "µs", |sample| sample.cpu_micros));
        rows.push(of("p50", "µs", |sample| sample.p50));
    }
    Ok(rows)
}

/// The same part, called in a session: bridges support nothing else.
fn in_session(part: Part) -> anyhow::Result<Part> {
    let target = listen::runtime(1)?.block_on(streams::in_session(&part.target))?;
    Ok(Part { target, ..part })
}

/// Starts a bridge for the command, and a session with it.
fn start_bridge(
    arguments: &Arguments,
    path: &Path,
    name: &str,
    before: &[&str],
    server: &[&str],
) -> anyhow::Result<Part> {
    let address = free_address()?;
    let mut command = Command::new(path);
    command.args(before).args(["--port", &address.port().to_string()]);
    match name {
        "supergateway" => command.args(["--stdio", &server.join(" ")]),
        _ => command.arg("--").args(server),
    };
    let mut process =
        Process::start_logged(&mut command, &arguments.work.join(format!("{name}.log")))?;
    let target: Target = format!("http://{address}/mcp").parse()?;
    let runtime = listen::runtime(1)?;
    let began = clock::now();
    loop {
        process.check_running().with_context(|| format!("{name} does not start"))?;
        match runtime.block_on(streams::in_session(&target)) {
            Ok(target) => return Ok(Part { process, target }),
            Err(error) if began.elapsed() > START_TIMEOUT => {
                bail!("{name} is not ready: {error:#}")
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
