//! How much slower one grant's calls become while another grant takes all that its bounds allow, or
//! other clients read very long answers, through the same gateway.

use std::time::Duration;

use anyhow::ensure;

use super::{
    super::{
        Arguments,
        config::{ORDINARY, other_token, with_another},
        gateway::{Gateway, Installation},
        parts::{self, Part},
        rounds::{self, Side},
        row::{Promise, Row, Series},
    },
    calls::SMALL,
};
use crate::{era::Era, load::Pattern, misuse::Misuse, process, target::Target, upstream::tool};

const SCENARIO: &str = "fairness";
/// The calls that are timed: few enough that the machine is never busy with them.
const PATTERN: Pattern = Pattern::Open { rate: 500, connections: 16 };
/// How long the other grant's server takes to answer a call.
const DELAY: Duration = Duration::from_secs(5);
/// Connections with a flood of small requests.
const FLOOD: usize = 64;
/// Connections with large bodies: together more than a grant may have in memory.
const LARGE_BODIES: usize = 32;
/// Connections with calls: more than a grant may have in progress.
const CALLS: usize = 1_100;
const STREAMS: usize = 2_000;
/// Clients that read very long answers.
const READERS: usize = 16;

/// A gateway with a server whose calls are timed, and another server for another grant.
struct Neighbours {
    upstream: Part,
    _other: Part,
    gateway: Gateway,
}

/// The p99 of calls in each round, in µs.
#[derive(Debug, Default)]
struct Measured {
    quiet: Vec<f64>,
    beside: Vec<f64>,
    direct: Vec<f64>,
}

impl Neighbours {
    fn start(arguments: &Arguments, other: Part, limits: &str) -> anyhow::Result<Neighbours> {
        let upstream = parts::upstream(arguments, arguments.era, SMALL, ORDINARY.tools)?;
        let place = with_another(&upstream.url(), &other.url(), limits);
        let gateway = Installation::before(arguments, SCENARIO, ORDINARY, &place)?.start()?;
        Ok(Neighbours { upstream, _other: other, gateway })
    }

    /// The other grant's way to its server.
    fn other_target(&self) -> Target {
        let token = Some(other_token());
        Target { path: "/mcp/other".into(), token, ..self.gateway.part.target.clone() }
    }

    /// A row with the p99 of calls while there is misuse, compared with before. `direct` is that of
    /// calls without the gateway meanwhile: what the load on the machine does by itself.
    fn row(&self, arguments: &Arguments, what: &str, misuse: &Misuse) -> anyhow::Result<Row> {
        let mut measured = Measured::default();
        for _ in 0..arguments.rounds {
            measured.quiet.push(p99(arguments, &self.gateway.part)?);
            let running = misuse.clone().start(&self.other_target())?;
            measured.beside.push(p99(arguments, &self.gateway.part)?);
            measured.direct.push(p99(arguments, &self.upstream)?);
            let read = running.stop()?;
            let is_real = read > 0 || matches!(misuse, Misuse::Streams { .. });
            ensure!(is_real, "there was no misuse: nothing was answered");
            process::wait_until_idle(self.gateway.part.process.id())?;
        }
        let Measured { quiet, beside, direct } = measured;
        let series = [quiet, beside].map(|side| side.into_iter().collect::<Series>());
        let what = format!("p99 beside {what}");
        let row = Row::beside(SCENARIO, what, "µs", series).promising(Promise::AtMost(3.0));
        Ok(Row { direct: Some(direct.into_iter().collect()), ..row })
    }
}

fn p99(arguments: &Arguments, part: &Part) -> anyhow::Result<f64> {
    let side = Side { part, tool: &ORDINARY.tool() };
    Ok(rounds::load(arguments, PATTERN, side, arguments.span())?.tally.micros(0.99))
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let mut rows = beside_another_grant(arguments)?;
    rows.push(beside_long_answers(arguments)?);
    Ok(rows)
}

fn beside_another_grant(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let slow = parts::slow_upstream(Era::Legacy, ORDINARY.tools, DELAY)?;
    let neighbours = Neighbours::start(arguments, slow, "")?;
    let flood = |connections, body: String| Misuse::Requests { body, connections };
    let cases = [
        ("1,000 calls in progress", flood(CALLS, call("\"one\""))),
        ("2,000 GET streams", Misuse::Streams { count: STREAMS }),
        ("a flood of initialize", flood(FLOOD, initialize())),
        ("a flood of lists", flood(FLOOD, request("tools/list", "{}"))),
        ("bodies of 4 MB", flood(LARGE_BODIES, call(&large_argument()))),
    ];
    cases.iter().map(|(what, misuse)| neighbours.row(arguments, what, misuse)).collect()
}

fn beside_long_answers(arguments: &Arguments) -> anyhow::Result<Row> {
    let long = parts::upstream(arguments, Era::Legacy, arguments.huge, ORDINARY.tools)?;
    let neighbours = Neighbours::start(arguments, long, "answer = \"1GiB\"")?;
    let reading = Misuse::Requests { body: call("\"one\""), connections: READERS };
    let what = format!("{READERS} answers of {} MiB", arguments.huge >> 20);
    neighbours.row(arguments, &what, &reading)
}

fn call(argument: &str) -> String {
    let name = tool(0);
    request("tools/call", &format!(r#"{{"name":"{name}","arguments":{{"text":{argument}}}}}"#))
}

fn initialize() -> String {
    let version = Era::Legacy.version();
    let params = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}}}"#
    );
    request("initialize", &params)
}

/// A JSON value of almost 4 MB, within the bounds of strings and bodies.
fn large_argument() -> String {
    let text = format!("\"{}\"", "x".repeat(500_000));
    format!("[{}]", vec![text; 8].join(","))
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}
