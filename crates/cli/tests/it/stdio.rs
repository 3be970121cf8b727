//! Servers that are commands: declared or added, called, and ended with the gateway.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
};

use http_body_util::BodyExt as _;
use sluice_http::{AnswerBody, HttpUpstream, address::Reach};
use sluice_upstream::Upstream;

use crate::sluice::{BINARY, Folder};

/// A small MCP server, which the tests of `upstream` use too.
pub(crate) const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../stdio/tests/it/server.sh");
pub(crate) const TOKEN: &str = "sg_0123456789abcdef";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"t","version":"1"}}}"#;
const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

/// A folder with a server, a policy that allows everything, and a grant.
fn folder(server: &str) -> Folder {
    let folder = Folder::with("policy.json", POLICY);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.s]\n{server}\n[policies.p]\nserver = \"s\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"s\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    folder
}

fn command() -> String {
    format!("command = [\"{SERVER}\"]")
}

/// Whether a process runs; one that ended and waits to be reaped does not.
pub(crate) fn runs(pid: &str) -> bool {
    let state = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// Waits until something is so, for at most twenty seconds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not within twenty seconds: {what}");
}

#[test]
fn a_command_is_called_like_any_server() {
    let folder = folder(&format!("{}\nenv = {{ KEY = \"hushed\" }}", command()));
    let variables = [
        ("SECRET_OF_GATEWAY", "x"),
        ("NODE_EXTRA_CA_CERTS", "/ca.pem"),
        ("https_proxy", "http://proxy.example.com"),
        ("ALL_PROXY", "http://me:hidden@proxy.example.com"),
    ];
    let up = folder.up_with(&variables, &[]);
    up.run(&["call", "s", "echo", "--token", TOKEN]).exits(0);
    let env = up.run(&["call", "s", "env", "--token", TOKEN]).exits(0).out;
    assert!(env.contains("KEY=hushed") && env.contains("PATH="), "{env}");
    assert!(env.contains("NODE_EXTRA_CA_CERTS=/ca.pem"), "{env}");
    assert!(env.contains("https_proxy=http://proxy.example.com"), "{env}");
    assert!(!env.contains("SECRET_OF_GATEWAY") && !env.contains("hidden"), "{env}");
    let tools = up.run(&["server", "tools", "s"]).exits(0).out;
    assert!(tools.contains("echo"), "{tools}");
    up.run(&["server", "refresh", "s"]).exits(0);
    let shown = up.run(&["server", "show", "s"]).exits(0).out;
    assert!(shown.contains("server.sh") && shown.contains("KEY"), "{shown}");
    let shown = up.run(&["server", "show", "s", "--json"]).exits(0).out
        + &folder.run(&["--data", "data", "config"]).exits(0).out;
    assert!(shown.contains("stdio") && !shown.contains("hushed"), "{shown}");
    // Over HTTP a command is shown and never changed.
    let admin = fs::read_to_string(folder.path().join("data/admin-token")).unwrap();
    let mut remote = folder.command(BINARY);
    remote
        .args(["--data", "none", "server", "remove", "s"])
        .env("SLUICE_URL", format!("http://{}", up.admin))
        .env("SLUICE_TOKEN", admin.trim());
    let refused = remote.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("over HTTP"));
}

#[test]
fn a_command_that_cannot_be_started_is_reported_to_the_caller() {
    let folder = folder("command = [\"no-such-program\"]");
    let up = folder.up(&[]);
    let failed = up.run(&["call", "s", "echo", "--token", TOKEN]);
    assert!(failed.err.contains("`no-such-program` is not found"), "{failed:?}");
    assert!(failed.err.contains("hint"), "{failed:?}");
}

/// The stderr of a failed command is part of the error of `server tools` and `call`.
#[test]
fn a_command_that_fails_is_told_with_its_last_words() {
    let ends = "echo 'npm error E404 hushed-key' >&2; exit 1";
    let hangs = "echo 'waiting for the registry' >&2; exec sleep 1000";
    let command = |line: &str| format!("command = [\"sh\", \"-c\", \"{line}\"]");
    let folder = folder(&format!(
        "{}\nenv = {{ KEY = \"hushed-key\" }}\n[servers.t]\n{}\ntimeout = \"1s\"\n\
         [policies.q]\nserver = \"t\"\nfile = \"policy.json\"\n\
         [grants.h]\nservers = [\"t\"]\npolicy = \"q\"\ntoken = \"{TOKEN}t\"",
        command(ends),
        command(hangs)
    ));
    let up = folder.up(&[]);
    let listed = up.run(&["server", "tools", "s"]).exits(1);
    assert!(listed.err.contains("cannot list the tools of `s`: "), "{listed:?}");
    let called = up.run(&["call", "s", "echo", "--token", TOKEN]);
    let suggested = up.run(&["policy", "suggest", "s"]);
    for failed in [&listed, &called, &suggested] {
        assert!(failed.err.contains("npm error E404 [secret]"), "{failed:?}");
    }
    let waited = up.run(&["server", "tools", "t"]).exits(1);
    assert!(waited.err.contains("in time: \"waiting for the registry\""), "{waited:?}");
    let called = up.run(&["call", "t", "echo", "--token", &format!("{TOKEN}t")]);
    assert!(called.err.contains("waiting for the registry"), "{called:?}");
    let log = up.log();
    assert!(log.contains("tools could not be learnt") && log.contains("E404 [secret]"), "{log}");
}

/// What a command writes goes to the log and to agents without its secrets, also in parts.
#[test]
fn a_command_that_writes_its_secrets_shows_none() {
    let server = Path::new(SERVER).display();
    let line = format!("echo key $WITH_KEY >&2; echo stray $WITH_KEY; exec {server}");
    let folder = folder(&format!(
        "command = [\"sh\", \"-c\", \"{line}\"]\nenv = {{ WITH_KEY = \"env:OUTER\", LEVEL = \"plainword\" }}"
    ));
    let up = folder.up_with(&[("OUTER", "0uter-s3cret")], &[]);
    let env = up.run(&["call", "s", "env", "--token", TOKEN]).exits(0).out;
    assert!(env.contains("WITH_KEY=[secret]") && env.contains("LEVEL=plainword"), "{env}");
    until("its lines are logged", || up.log().contains("stray"));
    let log = up.log();
    assert!(log.contains("key [secret]") && log.contains("stray [secret]"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn nothing_is_left_of_a_gateway_that_is_killed() {
    // The second neither minds that its input closes nor that it is told to end.
    let stubborn = format!(
        "[servers.t]\nstart = \"up\"\ncommand = [\"sh\", \"-c\", \"echo $$ > stubborn; exec {SERVER} mute\"]"
    );
    let folder = folder(&format!("{}\n{stubborn}", command()));
    let up = folder.up(&[]);
    let pids = up.run(&["call", "s", "child", "--token", TOKEN]).exits(0).out;
    let mut pids: Vec<_> =
        pids.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    let file = folder.path().join("stubborn");
    until("the other server starts", || {
        fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
    });
    let stubborn = fs::read_to_string(&file).unwrap();
    pids.push(stubborn.trim());
    assert!(pids.len() == 3 && pids.iter().all(|pid| runs(pid)), "{pids:?}");
    up.kill();
    until("all have ended", || !pids.iter().any(|pid| runs(pid)));
}

#[test]
fn a_gateway_that_ends_takes_its_children_along() {
    let folder = folder(&command());
    let up = folder.up(&[]);
    let pids = up.run(&["call", "s", "child", "--token", TOKEN]).exits(0).out;
    let pids: Vec<_> =
        pids.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    assert_eq!(up.end(), 0);
    until("both have ended", || !pids.iter().any(|pid| runs(pid)));
}

#[test]
fn commands_are_added_and_removed_while_the_gateway_runs() {
    let folder = folder(&command());
    let up = folder.up(&[]);
    let add = ["server", "add", "more", "--env", "KEY=hushed", "--session", "--", SERVER];
    up.run(&add).exits(0);
    let again = up.run(&add).exits(1);
    assert!(again.err.contains("there already"), "{}", again.err);
    let taken = up.run(&["server", "add", "s", "--", "true"]).exits(1);
    assert!(taken.err.contains("there already"), "{}", taken.err);
    let shown = up.run(&["server", "show", "more"]).exits(0).out;
    assert!(shown.contains("session") && !shown.contains("hushed"), "{shown}");
    let edit = ["server", "edit", "more", "--instances", "shared", "--timeout", "5s"];
    up.run(&edit).exits(0);
    let edited = up.run(&["server", "show", "more", "--json"]).exits(0).json();
    assert_eq!((&edited["instances"], &edited["timeout"]), (&"shared".into(), &"5s".into()));
    assert_eq!(edited["env"], serde_json::json!(["KEY"]));
    up.run(&["server", "edit", "more", "--timeout", "soon"]).exits(2);
    up.run(&["server", "edit", "more", "--url", "https://mcp.example.com/"]).exits(2);
    let tools = up.run(&["server", "tools", "more"]).exits(0).out;
    assert!(tools.contains("echo"), "{tools}");
    up.run(&["policy", "put", "more", "p", "policy.json"]).exits(0);
    let file = folder.path().join("data/servers.d/more.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    up.run(&["server", "remove", "more"]).exits(0);
    up.run(&["server", "show", "more"]).exits(1);
    assert!(!file.exists());
    // Another one of that name begins without rules.
    up.run(&add).exits(0);
    up.run(&["policy", "show", "more", "p"]).exits(1);
}

#[test]
fn commands_can_be_added_before_the_gateway_runs() {
    let folder = Folder::new();
    folder.run(&["--data", "data", "server", "add", "s", "--timeout", "5s", "--", SERVER]).exits(0);
    folder.run(&["--data", "data", "server", "add", "s", "--timeout", "5", "--", SERVER]).exits(2);
    let up = folder.up(&[]);
    assert!(up.run(&["server", "tools", "s"]).exits(0).out.contains("echo"));
    // A command that others could have written is not run.
    let file = folder.path().join("data/servers.d/s.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = folder.run(&["--data", "data", "config"]).exits(2);
    assert!(refused.err.contains("chmod 600"), "{}", refused.err);
}

#[test]
fn a_supervisor_ends_as_its_command_does() {
    let folder = Folder::new();
    let supervise = |line: &str| {
        let mut command = folder.command(BINARY);
        command.args(["supervise", "--", "sh", "-c", line]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let code = |mut child: Child| child.wait().unwrap().code();
    assert_eq!(code(supervise("exit 7")), Some(7));
    assert_eq!(code(supervise("kill -9 $$")), Some(137));
    assert_eq!(code(supervise("cat > /dev/null; exit 3")), Some(3), "its input closed");
    folder.run(&["supervise", "--", "no-such-program"]).exits(127);
    // What the command has started ends with it.
    let mut left = supervise("sleep 1000 & echo $!");
    let mut pid = String::new();
    BufReader::new(left.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    assert_eq!(code(left), Some(0));
    until("it has ended", || !runs(pid.trim()));
}

/// A process in a session of its own, whose parent has ended, as a daemon is.
#[cfg(target_os = "linux")]
#[test]
fn a_supervisor_ends_processes_that_left_the_group_of_its_command() {
    let folder = Folder::new();
    // What has ended meanwhile is no longer there, not even as a number.
    let script = "
        (setsid sleep 1000 > /dev/null 2>&1 & echo $!)
        (setsid sh -c 'exit 0' > /dev/null 2>&1 & echo $!)
        read line";
    let mut command = folder.command(BINARY);
    command.args(["supervise", "--", "sh", "-c", script]);
    let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
    let mut pid = || lines.next().unwrap().unwrap();
    let (daemon, short) = (pid(), pid());
    until("the short one is waited for", || !Path::new("/proc").join(&short).exists());
    assert!(runs(&daemon));
    drop(supervisor.stdin.take());
    supervisor.wait().unwrap();
    until("the daemon has ended", || !runs(&daemon));
}

/// Posts a message to the gateway as an agent, in a session unless that is empty.
async fn post(url: &str, session: &str, body: String) -> http::Response<AnswerBody> {
    let reach = Reach { allowed: Vec::new(), loopback: true };
    let gateway = Upstream::Http(HttpUpstream::new(url, reach).unwrap());
    let mut request = http::Request::post("/")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    gateway.send(request.body(body.into()).unwrap()).await.unwrap()
}

async fn event(body: &mut AnswerBody) -> String {
    let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_of_a_sessions_own_can_ask_its_client() {
    let folder = folder(&format!("{}\ninstances = \"session\"", command()));
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let url = format!("http://{}/mcp/s", up.listen);
    let begun = post(&url, "", HELLO.into()).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ask"}}"#;
    let mut answer = post(&url, &session, call.into()).await.into_body();
    let asked = event(&mut answer).await;
    assert!(asked.contains("sampling/createMessage"), "{asked}");
    let id = asked.split(r#""id":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_ne!(id, "ask-1", "the id is the gateway's own");
    let reply = format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#);
    assert_eq!(post(&url, &session, reply).await.status(), 202);
    let last = event(&mut answer).await;
    assert!(last.contains("answered") && last.contains(r#""id":"a""#), "{last}");
}

/// A call that is cancelled ends quietly: its client expects no answer.
async fn cancelled(server: &str) {
    let folder = folder(server);
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let url = format!("http://{}/mcp/s", up.listen);
    let begun = post(&url, "", HELLO.into()).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = |id: u8, tool: &str| {
        let params = format!(r#"{{"name":"{tool}","_meta":{{"progressToken":1}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    };
    let cancel = async |id: u8| {
        let params = format!(r#"{{"requestId":{id}}}"#);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#;
        assert_eq!(post(&url, &session, format!("{cancel}{params}}}")).await.status(), 202);
    };
    let (answer, ()) = tokio::join!(post(&url, &session, call(7, "hang")), async {
        let record = folder.path().join("record");
        while !fs::read_to_string(&record).is_ok_and(|text| text.contains("hang")) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        cancel(7).await;
    });
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "");
    // The second has said something before it is cancelled.
    let mut answer = post(&url, &session, call(8, "progress-hang")).await.into_body();
    let progress = event(&mut answer).await;
    assert!(progress.contains("notifications/progress"), "{progress}");
    cancel(8).await;
    assert_eq!(answer.collect().await.unwrap().to_bytes(), "");
    tokio::task::block_in_place(|| {
        let said = "the client cancelled the call";
        up.wait_until("it is recorded", || {
            let log = up.run(&["log", "export"]).exits(0).out;
            log.matches(said).count() == 2
        });
        let log = up.log();
        assert!(!log.contains("WARN") && !log.contains("no answer"), "{log}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_ends_without_an_answer_or_a_warning() {
    let record = "env = { RECORD = \"record\" }";
    let strict = format!("command = [\"{SERVER}\", \"strict\"]");
    cancelled(&format!("{}\n{record}", command())).await;
    cancelled(&format!("{}\n{record}\ninstances = \"session\"", command())).await;
    // Bridged to the modern era, where the server is told all the same.
    cancelled(&format!("{strict}\n{record}")).await;
}

/// The same for a client of the oldest transport.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_client_hears_nothing_of_a_call_that_it_cancelled() {
    let folder = folder(&command());
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let base = format!("http://{}", up.listen);
    let reach = Reach { allowed: Vec::new(), loopback: true };
    let sse = HttpUpstream::new(&format!("{base}/mcp/s/sse"), reach).unwrap();
    let get = http::Request::get("/")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("accept", "text/event-stream")
        .body(bytes::Bytes::new())
        .unwrap();
    let place = format!("{base}/mcp/s/sse").parse().unwrap();
    let mut stream = sse.send_to(&place, &get).await.unwrap().into_body();
    let endpoint = event(&mut stream).await;
    let (_, path) = endpoint.trim().split_once("data: ").unwrap();
    let url = format!("{base}{path}");
    assert_eq!(post(&url, "", HELLO.into()).await.status(), 202);
    assert!(event(&mut stream).await.contains("protocolVersion"));
    let say = async |message: &str| {
        assert_eq!(post(&url, "", message.to_owned()).await.status(), 202);
    };
    say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    say(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"progress-hang","_meta":{"progressToken":1}}}"#).await;
    assert!(event(&mut stream).await.contains("notifications/progress"));
    say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#).await;
    say(r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo"}}"#).await;
    let next = event(&mut stream).await;
    assert!(next.contains("\"id\":8"), "{next}");
}

/// A client of the legacy era, and a command that speaks only the modern one.
async fn legacy_client_of_a_modern_command(instances: &str) {
    let command = format!("command = [\"{SERVER}\", \"strict\"]\ninstances = \"{instances}\"");
    let folder = folder(&command);
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let url = format!("http://{}/mcp/s", up.listen);
    let begun = post(&url, "", HELLO.into()).await;
    assert_eq!(begun.status(), 200, "{instances}");
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo"}}"#;
    let answer = post(&url, &session, call.into()).await.into_body().collect().await.unwrap();
    let answer = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
    assert!(answer.contains(r#""type":"text""#) && !answer.contains("resultType"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_client_can_use_a_command_of_the_modern_era() {
    legacy_client_of_a_modern_command("shared").await;
    legacy_client_of_a_modern_command("session").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_client_can_use_a_command_of_the_legacy_era() {
    let folder = folder(&command());
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let url = format!("http://{}/mcp/s", up.listen);
    let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let reach = Reach { allowed: Vec::new(), loopback: true };
    let request = http::Request::post("/")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "echo");
    let gateway = Upstream::Http(HttpUpstream::new(&url, reach).unwrap());
    let answer = gateway.send(request.body(call.into()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer = answer.into_body().collect().await.unwrap().to_bytes();
    let answer = String::from_utf8(answer.to_vec()).unwrap();
    assert!(answer.contains(r#""resultType":"complete""#), "{answer}");
}

/// With a process for each session, the time-out of a call says nothing of a process that
/// starts for somebody else meanwhile.
#[test]
fn a_timeout_repeats_no_line_of_another_sessions_process() {
    let folder = Folder::with("policy.json", POLICY);
    let (stuck, record) = (folder.path().join("stuck"), folder.path().join("record"));
    let script = format!(
        "if [ -e {} ]; then echo waits for its own registry >&2; exec sleep 1000; fi; exec {SERVER}",
        stuck.display()
    );
    let declared = format!(
        "[servers.s]\ncommand = [\"sh\", \"-c\", \"{script}\"]\ninstances = \"session\"\n\
         timeout = \"4s\"\nenv = {{ RECORD = \"{}\" }}\n\
         [policies.p]\nserver = \"s\"\nfile = \"policy.json\"\n\
         [grants.g]\nservers = [\"s\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
        record.display()
    );
    folder.write("sluice.toml", &declared);
    let up = folder.up(&[]);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| up.run(&["call", "s", "hang", "--token", TOKEN]));
        let is_called = || fs::read_to_string(&record).is_ok_and(|text| text.contains("\"hang\""));
        until("the call has reached its process", is_called);
        fs::write(&stuck, "").unwrap();
        let starting = up.run(&["call", "s", "echo", "--token", TOKEN]);
        let running = running.join().unwrap();
        assert!(running.err.contains("the server did not answer in time"), "{running:?}");
        assert!(!running.err.contains("registry"), "{running:?}");
        let own = "has not started in time: \"waits for its own registry\"";
        assert!(starting.err.contains(own), "{starting:?}");
    });
}
