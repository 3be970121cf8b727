//! The Pharo server, started as a client would: how soon it answers, what a call costs, and what it
//! adds to the HTTP call that it makes.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{ChildStdin, ChildStdout, Command},
    time::Duration,
};

use anyhow::{Context as _, ensure};

use super::super::{
    Arguments, parts,
    row::{Promise, Row, Series},
};
use crate::{
    clock,
    load::Tally,
    process::{self, Process},
};

const SCENARIO: &str = "pharo";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const CODE: &str = r#"{"code":"42 factorial"}"#;
/// Text that only the right answer contains.
const DIGITS: &str = "1405006117752879898543142606244511569936384000000000";
/// The number of calls before measuring.
const WARM_UP: u32 = 200;

/// The results of one round.
#[derive(Debug, Default)]
struct Rounds {
    started: Vec<f64>,
    cpu: Vec<f64>,
    memory: Vec<f64>,
    bare: Vec<f64>,
    called: Vec<f64>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let image = parts::image()?;
    let address = image.target.address;
    let mut rounds = Rounds::default();
    for _ in 0..arguments.rounds {
        rounds.bare.push(bare(address, arguments.span())?);
        let mut server = Server::start(arguments, address)?;
        rounds.started.push(server.started.as_secs_f64() * 1000.0);
        server.measure(arguments.span(), &mut rounds)?;
    }
    let alone = |what: &str, unit, numbers: Vec<f64>| {
        Row::alone(SCENARIO, what, unit, numbers.into_iter().collect())
    };
    let series = [rounds.bare, rounds.called].map(|side| side.into_iter().collect::<Series>());
    Ok(vec![
        alone("CPU a call", "µs", rounds.cpu).promising(Promise::AtMost(100.0)),
        alone("peak memory", "MiB", rounds.memory).promising(Promise::AtMost(15.0)),
        alone("to the initialize answer", "ms", rounds.started).promising(Promise::AtMost(20.0)),
        Row::beside(SCENARIO, "p50, beside bare HTTP", "µs", series),
    ])
}

/// A running `sluice pharo`.
struct Server {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The time from its start to its first answer.
    started: Duration,
    line: String,
}

impl Server {
    fn start(arguments: &Arguments, image: SocketAddr) -> anyhow::Result<Server> {
        let mut command = Command::new(&arguments.sluice);
        command.arg("pharo").args(["--host", &image.ip().to_string()]);
        command.args(["--port", &image.port().to_string()]);
        let start = clock::now();
        let (process, stdin, stdout) = Process::start_piped(&mut command)?;
        let stdout = BufReader::new(stdout);
        let line = String::new();
        let mut server = Server { process, stdin, stdout, started: Duration::ZERO, line };
        server.ask(HELLO)?;
        server.started = start.elapsed();
        ensure!(server.line.contains("serverInfo"), "no introduction: {}", server.line);
        Ok(server)
    }

    /// Sends a line and waits for the answer.
    fn ask(&mut self, message: &str) -> anyhow::Result<()> {
        self.line.clear();
        self.stdin.write_all(format!("{message}\n").as_bytes())?;
        self.stdout.read_line(&mut self.line)?;
        Ok(())
    }

    fn call(&mut self, id: u32) -> anyhow::Result<()> {
        self.ask(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"eval","arguments":{CODE}}}}}"#
        ))?;
        let is_right = self.line.contains(&format!("\"id\":{id},")) && self.line.contains(DIGITS);
        ensure!(is_right, "a wrong answer: {}", self.line);
        Ok(())
    }

    /// Makes calls one after the other for some time.
    fn measure(&mut self, span: Duration, rounds: &mut Rounds) -> anyhow::Result<()> {
        for id in 1..=WARM_UP {
            self.call(id)?;
        }
        let pid = self.process.id();
        let before = process::cpu(pid)?;
        let mut tally = Tally::new()?;
        let (start, mut id) = (clock::now(), WARM_UP);
        while start.elapsed() < span {
            id += 1;
            let sent = clock::now();
            self.call(id)?;
            tally.add(sent.elapsed())?;
        }
        let cpu = process::cpu(pid)?.saturating_sub(before);
        rounds.cpu.push(cpu.as_secs_f64() * 1e6 / f64::from(id - WARM_UP));
        rounds.called.push(tally.micros(0.5));
        rounds.memory.push(process::memory(pid)?.peak);
        Ok(())
    }
}

/// The median of the same call over bare HTTP, on one connection.
fn bare(image: SocketAddr, span: Duration) -> anyhow::Result<f64> {
    let mut stream = TcpStream::connect(image)?;
    stream.set_nodelay(true)?;
    let request = format!(
        "POST /eval HTTP/1.1\r\nhost: {image}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{CODE}",
        CODE.len()
    );
    let mut tally = Tally::new()?;
    let mut buffer = [0; 4096];
    let start = clock::now();
    while start.elapsed() < span {
        let sent = clock::now();
        stream.write_all(request.as_bytes())?;
        // The answer is small and arrives in one read.
        let length = stream.read(&mut buffer)?;
        let answer = buffer.get(..length).context("more than was read")?;
        let answer = std::str::from_utf8(answer)?;
        ensure!(answer.contains(DIGITS), "a wrong answer: {answer}");
        tally.add(sent.elapsed())?;
    }
    Ok(tally.micros(0.5))
}
