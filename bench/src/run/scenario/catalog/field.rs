//! A generated set of servers and tools, as large as the real one. The same parameters give the
//! same set.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

/// Verbs with their frequency at the start of a name, in thousandths, as in real servers.
const VERBS: [(&str, u64); 24] = [
    ("get", 230),
    ("list", 150),
    ("search", 80),
    ("create", 90),
    ("update", 60),
    ("delete", 55),
    ("add", 35),
    ("set", 30),
    ("send", 25),
    ("run", 25),
    ("execute", 20),
    ("find", 25),
    ("read", 25),
    ("write", 15),
    ("remove", 20),
    ("check", 20),
    ("analyze", 20),
    ("generate", 25),
    ("fetch", 15),
    ("query", 10),
    ("start", 8),
    ("pay", 5),
    ("transfer", 5),
    ("deploy", 7),
];
const NOUNS: [&str; 96] = [
    "user",
    "issue",
    "file",
    "page",
    "project",
    "task",
    "message",
    "record",
    "order",
    "account",
    "document",
    "event",
    "image",
    "comment",
    "repository",
    "database",
    "table",
    "query",
    "report",
    "contact",
    "email",
    "channel",
    "ticket",
    "invoice",
    "payment",
    "customer",
    "product",
    "card",
    "board",
    "list",
    "branch",
    "commit",
    "pipeline",
    "job",
    "cluster",
    "node",
    "service",
    "secret",
    "token",
    "key",
    "policy",
    "role",
    "group",
    "team",
    "member",
    "folder",
    "bucket",
    "object",
    "queue",
    "topic",
    "metric",
    "alert",
    "dashboard",
    "log",
    "trace",
    "span",
    "session",
    "device",
    "sensor",
    "scene",
    "light",
    "route",
    "place",
    "weather",
    "forecast",
    "price",
    "trade",
    "position",
    "wallet",
    "block",
    "contract",
    "video",
    "track",
    "playlist",
    "course",
    "lesson",
    "note",
    "tag",
    "label",
    "form",
    "survey",
    "webhook",
    "domain",
    "certificate",
    "release",
    "package",
    "image tag",
    "workflow",
    "template",
    "schema",
    "index",
    "shard",
    "snapshot",
    "volume",
    "zebra",
    "lease",
];
const PARAMETERS: [(&str, &str); 16] = [
    ("id", "Its id"),
    ("name", "Its name"),
    ("limit", "Results at most"),
    ("cursor", "Where to go on"),
    ("query", "What to look for"),
    ("url", "Where it is"),
    ("path", "Where the file is"),
    ("content", "What to put there"),
    ("amount", "How much"),
    ("currency", "Which money"),
    ("force", "Do it anyway"),
    ("sql", "The statement"),
    ("owner", "Whose it is"),
    ("format", "How to write it"),
    ("since", "From when"),
    ("token", "The key to use"),
];
const QUALIFIERS: [&str; 12] = [
    "", "all", "by_id", "details", "status", "history", "batch", "recent", "shared", "archived",
    "summary", "metadata",
];

/// A deterministic pseudo-random generator.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound.max(1)
    }

    fn of<'l, T>(&mut self, list: &'l [T], fallback: &'l T) -> &'l T {
        list.get(self.below(list.len())).unwrap_or(fallback)
    }

    fn verb(&mut self) -> &'static str {
        let mut left = self.below(1_000) as u64;
        for (verb, share) in VERBS {
            if left < share {
                return verb;
            }
            left -= share;
        }
        "get"
    }

    /// A noun; later ones are rarer, and the last ones very rare.
    fn noun(&mut self) -> &'static str {
        let first = self.below(NOUNS.len());
        let second = self.below(NOUNS.len());
        NOUNS.get(first * second / NOUNS.len()).copied().unwrap_or("user")
    }
}

/// Writes this many servers, with this many tools in total, one server per line.
pub(super) fn write(path: &Path, servers: usize, tools: usize) -> anyhow::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut dice = Dice(42);
    let mut left = tools;
    for number in 0..servers {
        let share = (left / (servers - number)).max(1);
        // From a few tools to many, as in reality; the last server gets the rest.
        let own =
            if number + 1 == servers { left } else { 1 + dice.below(share * 2 - 1) }.min(left);
        left -= own;
        write_server(&mut out, &mut dice, number, own)?;
    }
    out.flush()?;
    Ok(std::fs::metadata(path)?.len())
}

fn write_server(
    out: &mut impl std::io::Write,
    dice: &mut Dice,
    number: usize,
    tools: usize,
) -> anyhow::Result<()> {
    let (maker, about) = (dice.noun(), dice.noun());
    write!(
        out,
        r#"{{"server":"@acme{}/{}-{}-s{number:05}","source":"npm:generated@1.0.{number}","tools":["#,
        number % 997,
        maker.replace(' ', "-"),
        about.replace(' ', "-")
    )?;
    for place in 0..tools {
        if place > 0 {
            out.write_all(b",")?;
        }
        write_tool(out, dice, place)?;
    }
    Ok(out.write_all(b"]}\n")?)
}

fn write_tool(out: &mut impl std::io::Write, dice: &mut Dice, place: usize) -> anyhow::Result<()> {
    let (verb, noun, other) = (dice.verb(), dice.noun(), dice.noun());
    let qualifier = dice.of(&QUALIFIERS, &"");
    let named = noun.replace(' ', "_");
    write!(
        out,
        r#"{{"name":"{verb}_{named}_{qualifier}{place}","description":"{verb} the {noun} of a {other}, {qualifier} if asked for. Returns what the {other} has, "#
    )?;
    write!(
        out,
        r#"or an error if there is no such {noun}; see {} for more.","inputSchema":{{"type":"object","properties":{{"#,
        dice.noun()
    )?;
    let first = dice.below(PARAMETERS.len());
    for (count, (name, description)) in
        PARAMETERS.iter().cycle().skip(first).take(1 + dice.below(4)).enumerate()
    {
        let comma = if count > 0 { "," } else { "" };
        write!(out, r#"{comma}"{name}":{{"type":"string","description":"{description}"}}"#)?;
    }
    Ok(out.write_all(b"}}}")?)
}
