//! Mistakes of new users: each ends in a sentence that says what is wrong and what to type instead.

use crate::{
    sluice::{Folder, Ran},
    up::Up,
};

/// Files with mistakes in them.
const FILES: [(&str, &str); 31] = [
    ("ok.json", r#"{"version":"1","default":"deny","tools":{"list_notes":{}}}"#),
    ("tool.json", r#"{"version":"1","default":"deny","tools":{"list_notez":{}}}"#),
    ("comma.json", r#"{"version":"1","default":"deny","tools":{"list_notes":{}},}"#),
    ("tabs.yaml", "version: \"1\"\ndefault: deny\ntools:\n\tlist_notes: {}\n"),
    ("version.json", r#"{"version":1,"default":"deny"}"#),
    ("key.json", r#"{"version":"1","default":"deny","tolls":{}}"#),
    ("rate.json", r#"{"version":"1","default":"deny","tools":{"a":{"rate_limit":"5/minutes"}}}"#),
    ("list.json", r#"{"version":"1","default":"deny","tools":["a"]}"#),
    ("empty.json", ""),
    ("yaml.json", "version: \"1\"\ndefault: deny\n"),
    ("builtn.toml", "[servers.a]\nbuiltn = \"demo\"\n"),
    ("timeout.toml", "[servers.a]\nbuiltin = \"demo\"\ntimeout = 5\n"),
    ("demoo.toml", "[servers.a]\nbuiltin = \"demoo\"\n"),
    ("quotes.toml", "[servers.a]\nbuiltin = demo\n"),
    ("url.toml", "[servers.a]\nurl = https://mcp.example.com/s/hush?key=hush\n"),
    ("address.toml", "listen = 127.0.0.1:8787\n"),
    ("words.toml", "[servers.a]\ncommand = [npx, -y, foo]\n"),
    ("curly.toml", "[servers.a]\nbuiltin = “demo”\n"),
    ("yes.toml", "[servers.a]\nbuiltin = \"demo\"\nmask_secrets = yes\n"),
    ("nothing.toml", "listen =\n"),
    ("named.json", r#"{"version":"1","default":"allow","extends":"company"}"#),
    ("one.json", r#"{"version":"1","default":"allow","extends":"./two.json"}"#),
    ("two.json", r#"{"version":"1","default":"allow","extends":"./one.json"}"#),
    (
        "file.toml",
        "[servers.a]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"a\"\nfile = \"nosuch.json\"\n",
    ),
    (
        "server.toml",
        "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"note\"\nfile = \"ok.json\"\n",
    ),
    (
        "variable.toml",
        "[servers.a]\nbuiltin = \"demo\"\n[grants.g]\nservers = [\"a\"]\npolicy = \"p\"\ntoken = \"env:NOT_SET\"\n",
    ),
    ("lisen.toml", "lisen = \"127.0.0.1:0\"\n"),
    ("port.toml", "listen = \"8787\"\n"),
    ("twice.toml", "[servers.a]\nbuiltin = \"demo\"\n[servers.a]\nbuiltin = \"demo\"\n"),
    ("junk.json", "PNG"),
    ("limit.json", r#"{"version":"1","default":"deny","tools":{"a":{"rate_limit":"5/minute"}}}"#),
];

/// A command, its exit code, and what its answer must say.
type Mistake = (&'static str, i32, &'static [&'static str]);

/// Mistakes in commands on a running gateway with the demo and a grant `laptop`.
const ON_A_GATEWAY: [Mistake; 55] = [
    ("server show nosuch", 1, &["there is no server `nosuch`", "there are: demo"]),
    ("server tools demoo", 1, &["there is no server `demoo`", "did you mean `demo`?"]),
    ("server remove nosuch", 1, &["there is no server `nosuch`", "there are: demo"]),
    ("server remove demo", 1, &["declared in the configuration file", "change it there"]),
    ("server add x --url localhost:3000", 1, &["must begin with `https://`"]),
    ("server add x --url https://a.example.com --header Foo", 2, &["`NAME: VALUE`, such as"]),
    ("server add x npx foo", 2, &["unexpected argument 'npx'", "put `--` before the command"]),
    ("server add x -- no-such-command", 0, &["`no-such-command` is not found here", "install it"]),
    ("server tools x", 1, &["`no-such-command` is not found", "install it"]),
    ("server ad x", 2, &["similar subcommand exists: 'add'", "example: sluice server"]),
    ("policy show demo nosuch", 1, &["there is no policy `nosuch`", "there are: demo"]),
    ("policy show nosuch demo", 1, &["there is no server `nosuch`", "there are: demo"]),
    ("policy put demo readers okk.json", 2, &["cannot read `okk.json`", "did you mean `ok.json`?"]),
    ("policy put demo readers .", 2, &["cannot read `.`", "name a file in it"]),
    ("policy put nosuch readers ok.json", 1, &["there is no server `nosuch`", "there are: demo"]),
    ("policy put demo My_Readers ok.json", 2, &["not a valid name", "such as `my-readers`"]),
    ("policy put demo readers comma.json", 1, &["trailing comma", "take the comma away"]),
    ("policy put demo readers tabs.yaml", 1, &["tabs", "indent with spaces"]),
    (
        "policy put demo readers tool.json",
        0,
        &["no tool `list_notez`", "did you mean `list_notes`?"],
    ),
    ("policy put demo demo ok.json", 1, &["declared in the configuration file", "change it there"]),
    ("policy put readers ok.json", 2, &["not a valid name", "example: sluice policy put notes"]),
    ("policy rollback demo readers zzz", 2, &["no version `zzz`", "sluice policy history demo"]),
    ("grant create demo phone", 2, &["--policy <NAME>", "example: sluice grant create notes"]),
    ("grant create nosuch phone --policy demo", 1, &["no server `nosuch`", "there are: demo"]),
    (
        "grant create demo phone --policy nosuch",
        1,
        &["no policy `nosuch`", "sluice policy put demo"],
    ),
    (
        "grant create demo phone --policy demo --expires tomorrow",
        1,
        &["`expires` must be", "`90d`"],
    ),
    ("grant create demo My_Phone --policy demo", 2, &["not a valid name", "such as `my-phone`"]),
    ("grant create demo laptop --policy demo", 1, &["already a grant `laptop`"]),
    ("grant revoke lapto", 1, &["there is no grant `lapto`", "did you mean `laptop`?"]),
    ("grant edit demo --policy readers", 1, &["declared in the configuration file"]),
    ("call nosuch x", 2, &["there is no server `nosuch`", "servers: demo"]),
    ("call demo list_notes --token sg_stale", 2, &["token rejected (401)", "sluice grant create"]),
    ("call demo list_notes --args {bad", 2, &["`--args` is not valid JSON"]),
    ("call demo list_notes --args []", 2, &["must be a JSON object, such as"]),
    ("log --outcome denied", 2, &["similar value exists: 'deny'"]),
    ("log --server nosuch", 0, &["no such records", "no server `nosuch`", "there are: demo"]),
    ("log --grant lapto", 0, &["no such records", "no grant `lapto`", "did you mean `laptop`?"]),
    ("log --since yesterday", 2, &["`since` must be", "`12h`"]),
    ("log --since 1h --until 2h", 2, &["`since` must be before `until`"]),
    ("log --follow --until 1h", 2, &["cannot be used with '--until"]),
    ("log verify --head nosuch", 2, &["cannot read `nosuch`"]),
    ("grant edit laptop --policy nosuch", 1, &["has no policy `nosuch`", "its policies: demo"]),
    ("grant edit laptop --server demo,x", 1, &["server `x` has no policy `demo`"]),
    ("grant edit laptop --expires -5d", 1, &["`expires` must be"]),
    ("grant create demo,x phone --policy demo", 1, &["server `x` has no policy `demo`"]),
    ("grant delete laptop", 2, &["did you mean `sluice grant revoke ID`?"]),
    ("server delete demo", 2, &["did you mean `sluice server remove NAME`?"]),
    ("policy create demo x ok.json", 2, &["did you mean `sluice policy put SERVER NAME FILE`?"]),
    ("server add demo --url https://a.example.com", 1, &["is there already", "another name"]),
    ("server add y", 2, &["--url <URL>|COMMAND"]),
    ("server edit x --url https://a.example.com", 2, &["is a command", "servers.d/x.toml"]),
    ("call demo add_note {}", 2, &["put `--args` before"]),
    ("log --request abc", 2, &["must be the id of a request"]),
    ("status --jsno", 2, &["similar argument exists: '--json'", "example: sluice status"]),
    ("up --listen 127.0.0.1:0", 2, &["another gateway", "stop it, or choose another directory"]),
];

/// Mistakes without a gateway.
const ALONE: [Mistake; 45] = [
    ("serve", 2, &["unrecognized subcommand 'serve'", "'server'", "example: sluice up"]),
    ("servers list", 2, &["similar subcommand exists: 'server'"]),
    ("--data nosuch status", 2, &["`nosuch` does not exist", "sluice up"]),
    ("--data ok.json status", 2, &["`ok.json` is not a directory", "--data"]),
    (
        "--data d2 up --config sluice.tml",
        2,
        &["cannot read configuration file `sluice.tml`", "sluice init"],
    ),
    ("--data d2 up --config builtn.toml", 2, &["builtn.toml:2", "did you mean `builtin`?"]),
    ("--data d2 up --config timeout.toml", 2, &["`servers.a.timeout` must be", "write \"5s\""]),
    (
        "--data d2 up --config demoo.toml",
        2,
        &["no built-in server is `demoo`", "did you mean `demo`?"],
    ),
    (
        "--data d2 up --config quotes.toml",
        2,
        &["quotes.toml:2:11", "must be quoted", "write `builtin = \"demo\"`"],
    ),
    (
        "--data d2 up --config url.toml",
        2,
        &["url.toml:2:7", "must be quoted", "write `url = \"https://…\"`"],
    ),
    ("--data d2 up --config address.toml", 2, &["write `listen = \"127.0.0.1:8787\"`"]),
    ("--data d2 up --config words.toml", 2, &["write `command = [\"npx\", \"-y\", \"foo\"]`"]),
    ("--data d2 up --config curly.toml", 2, &["must be straight", "write `builtin = \"demo\"`"]),
    ("--data d2 up --config yes.toml", 2, &["yes.toml:3", "write `mask_secrets = true`"]),
    ("--data d2 up --config nothing.toml", 2, &["`listen` has no value"]),
    ("policy check one.json", 1, &["leads in a circle: `./two.json` → `./one.json`"]),
    (
        "wrap --policy named.json -- true",
        2,
        &["only files can be extended here", "`./company.json`"],
    ),
    (
        "--data d2 up --config file.toml",
        2,
        &["file.toml:5", "cannot read policy file `nosuch.json`"],
    ),
    (
        "--data d2 up --config server.toml",
        2,
        &["no server is named `note`", "did you mean `notes`?"],
    ),
    ("--data d2 up --config variable.toml", 2, &["environment variable `NOT_SET` is not set"]),
    ("--data d2 up --config lisen.toml", 2, &["unknown key `lisen`", "did you mean `listen`?"]),
    ("--data d2 up --config port.toml", 2, &["port.toml:1", "127.0.0.1:8787"]),
    ("--data d2 up --config twice.toml", 2, &["twice.toml:3", "duplicate key"]),
    ("--data d2 up --listen 8787", 2, &["write `127.0.0.1:8787`", "example: sluice up"]),
    ("--data /proc/x up", 2, &["cannot make data directory `/proc/x`", "hint: make it yourself"]),
    ("policy check version.json", 1, &["the string \"1\"", "put it in quotes"]),
    ("policy check key.json", 1, &["unknown key `tolls`", "did you mean `tools`?"]),
    ("policy check rate.json", 1, &["`rate_limit`", "did you mean `5/minute`?"]),
    ("policy check list.json", 1, &["`tools` must be an object, found list"]),
    ("policy check empty.json", 1, &["the policy is empty", "begin with {"]),
    ("policy check yaml.json", 1, &["not valid JSON", "`.yaml`"]),
    ("policy check junk.json", 1, &["not valid JSON"]),
    ("policy explain ok.json", 2, &["--tool <TOOL>", "example: sluice policy explain"]),
    ("policy diff ok.json", 2, &["<B>", "example: sluice policy diff"]),
    ("policy test nothing-like-it", 2, &["cannot read `nothing-like-it`", "sluice init"]),
    ("scan --url http://127.0.0.1:1/mcp", 2, &["no connection", "is it running"]),
    ("scan -- no-such-command", 2, &["`no-such-command` is not found", "install it"]),
    ("wrap -- cat", 2, &["--policy <FILE>", "example: sluice wrap --policy"]),
    (
        "catalog search --category finance",
        2,
        &["read, other, write, execute, destructive, financial"],
    ),
    ("start", 2, &["did you mean `sluice up`?"]),
    ("scan https://a.example.com/mcp", 2, &["put `--url` before the address"]),
    ("policy import ok.json", 1, &["is a policy of ours already", "sluice policy check ok.json"]),
    (
        "policy explain limit.json --tool a --used nosuch=5",
        2,
        &["has no counter `nosuch`", "there are: a_rate"],
    ),
    ("--data /tmp log", 2, &["others have access to `/tmp`", "name another with `--data`"]),
    ("completions basj", 2, &["similar value exists: 'bash'"]),
];

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in FILES {
        folder.write(name, text);
    }
    folder
}

/// The mistakes whose answers are not as they must be.
fn judge(mistakes: &[Mistake], run: impl Fn(&[&str]) -> Ran) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, code, parts) in mistakes {
        let ran = run(&line.split(' ').collect::<Vec<_>>());
        let said = format!("{}{}", ran.out, ran.err);
        let missing: Vec<_> = parts.iter().filter(|part| !said.contains(**part)).collect();
        if ran.code != *code || !missing.is_empty() {
            wrong.push(format!("{line}\n  exits with {}, without {missing:?}:\n{said}", ran.code));
        }
    }
    wrong
}

#[test]
fn mistakes_on_a_gateway_are_named_with_what_to_type_instead() {
    let folder = folder();
    let up: Up = folder.up(&["--demo"]);
    up.run(&["grant", "create", "demo", "laptop", "--policy", "demo"]).exits(0);
    let wrong = judge(&ON_A_GATEWAY, |words| up.run(words));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // The token under the name that the settings for clients give it, and on another server.
    let secret = up.run(&["grant", "rotate", "laptop"]).exits(0).out;
    let call = |server: &str| {
        let mut call = up.command(&["call", server, "list_notes"]);
        Ran::from(call.env("SLUICE_TOKEN", secret.trim()).output().unwrap())
    };
    up.run(&["server", "add", "other", "--", "true"]).exits(0);
    let refused = call("other").exits(2);
    assert!(refused.err.contains("does not include server `other`"), "{refused:?}");
    assert!(refused.err.contains("sluice grant edit"), "{refused:?}");

    // A port that is taken, and addresses and tokens of the wrong listener.
    let listen = up.listen.to_string();
    let taken = ["--data", "d2", "up", "--admin", "127.0.0.1:0", "--listen", &listen];
    let ran = folder.run(&taken).exits(2);
    assert!(ran.err.contains("choose another address with `--listen`"), "{ran:?}");
    for (url, token, parts) in [
        (format!("http://{listen}"), "abc", ["is not a gateway", "address of the admin listener"]),
        (format!("http://{}", up.admin), "abc", ["not the admin token", "the file `admin-token`"]),
        (format!("http://{}", up.admin), "sg_a", ["no admin token", "tokens of grants"]),
        (up.admin.to_string(), "abc", ["is not the address of a gateway", "http://127.0.0.1:8788"]),
        ("http://127.0.0.1:1".into(), "abc", ["cannot reach the gateway", "`SLUICE_URL`"]),
    ] {
        let mut command = folder.command(crate::sluice::BINARY);
        command.env("SLUICE_URL", &url).env("SLUICE_TOKEN", token).args(["server", "list"]);
        let ran = Ran::from(command.output().unwrap());
        assert!(ran.code != 0 && parts.iter().all(|part| ran.err.contains(part)), "{url}: {ran:?}");
    }
}

#[test]
fn mistakes_without_a_gateway_are_named_with_what_to_type_instead() {
    let folder = folder();
    let wrong = judge(&ALONE, |words| folder.run(words));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing that the program does for itself is suggested.
    assert!(!folder.run(&["serve"]).err.contains("supervise"));
}
