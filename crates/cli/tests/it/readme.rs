//! The commands of the README, run as they are written, one after another.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    sluice::{BINARY, Folder, Ran},
    stdio::SERVER,
};

/// A fenced block: its kind and its text.
struct Block {
    kind: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The fenced blocks of a document, in order.
fn blocks(document: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in document.lines() {
        match (line.trim_start().strip_prefix("```"), is_open) {
            (Some(kind), false) => {
                found.push(Block { kind: kind.to_owned(), text: String::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => {
                let text = &mut found.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
            (None, false) => {}
        }
    }
    found
}

/// The commands of a console block, each with the output shown for it.
fn commands(block: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command, String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => panic!("a console block begins with a command: {line}"),
        }
    }
    found
}

/// Whether a command goes on until somebody ends it.
fn blocks_the_terminal(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("$ ");
    let starts = ["sluice up", "sluice wrap", "sluice pharo", "make run"];
    starts.iter().any(|start| line.starts_with(start))
        || (line.starts_with("sluice log") && line.contains("--follow"))
}

/// A process that goes away with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's reader, in a folder that looks like the checkout after `make run`.
struct Reader {
    folder: Folder,
    /// What the second terminal has exported, unset and changed into so far.
    state: String,
    running: Vec<Ends>,
}

impl Reader {
    fn new(policy: &str) -> Reader {
        let folder = Folder::with("policy.json", policy);
        let program = folder.path().join("target/quick");
        fs::create_dir_all(&program).unwrap();
        symlink(BINARY, program.join("sluice")).unwrap();
        // Stands for a server of npm.
        fs::create_dir(folder.path().join("bin")).unwrap();
        symlink(SERVER, folder.path().join("bin/npx")).unwrap();
        Reader { folder, state: String::new(), running: Vec::new() }
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.folder.command("sh");
        let bin = self.folder.path().join("bin");
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        command.args(["-c", script]);
        command
    }

    /// Runs a line in the second terminal.
    fn run(&mut self, line: &str) -> Ran {
        let ran = Ran::from(self.shell(&format!("{}{line}", self.state)).output().unwrap());
        if ["export ", "unset ", "cd "].iter().any(|start| line.starts_with(start)) {
            self.state.push_str(line);
            self.state.push('\n');
        }
        ran
    }

    /// Runs lines in a terminal of their own, the last of which goes on, until a gateway runs on
    /// the data directory.
    fn start(&mut self, script: &str, data: &str) {
        let script = script
            .replace("127.0.0.1:9787", "127.0.0.1:0")
            .replace("127.0.0.1:9788", "127.0.0.1:0");
        // The gateway replaces the shell, so that it can be ended.
        let script = script.replace("\nsluice up", "\nexec sluice up");
        let said = fs::File::create(self.folder.path().join("said")).unwrap();
        let mut command = self.shell(&script);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        self.running.push(Ends(command.spawn().unwrap()));
        let file = self.folder.path().join(data).join("run.json");
        for _ in 0..1_000 {
            if file.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no gateway: {}", fs::read_to_string(self.folder.path().join("said")).unwrap());
    }
}

#[test]
fn the_readme_works_as_written() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = blocks(&readme);
    let policies: Vec<_> = blocks.iter().filter(|block| block.kind == "json").collect();
    let [policy] = &*policies else { panic!("the README has one policy") };
    let mut reader = Reader::new(&policy.text);
    let mut ran = 0;
    for block in &blocks {
        match block.kind.as_str() {
            "sh" if block.text == "make run\n" => {
                let demo = "export PATH=\"$PWD/target/quick:$PATH\"\n\
                    sluice --data target/demo-data up --demo --listen 127.0.0.1:9787 --admin 127.0.0.1:9788\n";
                reader.start(&demo.replace("\nsluice", "\nexec sluice"), "target/demo-data");
            }
            "sh" if block.text.lines().any(blocks_the_terminal) => {
                reader.start(&block.text, "gateway/sluice-data");
            }
            "sh" => {
                // What the clients of this machine use is not of the README.
                for line in block.text.lines().filter(|line| *line != "sluice stack") {
                    let done = reader.run(line);
                    // A scan exits with 1 if it has findings.
                    let is_well = done.code == 0 || (line.contains(" scan ") && done.code == 1);
                    assert!(is_well, "{line}: {done:?}");
                    ran += 1;
                }
            }
            "console" => {
                for (command, expected) in commands(&block.text) {
                    let found = reader.run(command);
                    let is_secret = command.contains("grant create");
                    let said = found.out + if is_secret { "" } else { &found.err };
                    assert_eq!(said, expected, "{command}");
                    ran += 1;
                }
            }
            _ => {}
        }
    }
    assert!(ran >= 20, "only {ran} commands were found");
    assert_eq!(reader.running.len(), 2);
}

#[test]
fn no_guide_has_a_command_after_one_that_goes_on() {
    let mut documents = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                documents.push(path);
            }
        }
    }
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for block in blocks(&text).iter().filter(|block| ["sh", "console"].contains(&&*block.kind))
        {
            let mut lines = block.text.lines().filter(|line| !line.trim().is_empty());
            let blocking = lines.by_ref().find(|line| blocks_the_terminal(line));
            let next = lines.next();
            assert!(next.is_none(), "{}: after {blocking:?} comes {next:?}", document.display());
        }
    }
}

#[test]
fn the_demo_says_what_matters_on_one_screen() {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    up.wait_until("all is printed", || up.log().contains("list_notes"));
    let said = up.log();
    assert!(said.lines().count() <= 24, "{said}");
    for part in ["/mcp/<server>", "claude mcp add", "mcpServers", "Bearer sg_", "delete_note"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What to type next, which works as it is.
    let next = said.lines().last().unwrap();
    let done = folder.shell(next).exits(0);
    assert!(done.out.contains("note-1"), "{done:?}");
}
