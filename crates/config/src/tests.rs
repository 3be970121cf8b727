//! Configurations as users write them, and what becomes of them.

mod extends;

use std::{
    fs,
    path::{Path, PathBuf},
};

use sluice_store::{Bridge, Durability, HiddenText, Instances, Start, Transport};

use super::{Config, LoadError, Overrides, Shown, data_directory};
use crate::Environment;

const POLICY: &str = r#"{ "version": "1", "default": "deny" }"#;
const TOKEN: &str = "sg_0123456789abcdef";

/// A folder with a configuration, a policy and a secret.
struct Folder(sluice_testkit::Folder);

impl Folder {
    fn with(config: &str) -> Folder {
        let folder = Folder(sluice_testkit::Folder::new().unwrap());
        fs::write(folder.join("sluice.toml"), config).unwrap();
        fs::write(folder.join("policy.json"), POLICY).unwrap();
        fs::write(folder.join("secret"), format!("{TOKEN}\n")).unwrap();
        folder
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn overrides(&self) -> Overrides {
        Overrides { config: Some(self.join("sluice.toml")), ..Overrides::default() }
    }
}

fn environment() -> Environment {
    Environment::from([
        ("HOME", "/home/me"),
        ("TOKEN", TOKEN),
        ("EMPTY", ""),
        ("CRLF", "a\r\nb: c"),
    ])
}

#[track_caller]
fn loaded(config: &str) -> Config {
    Config::load(&Folder::with(config).overrides(), &environment()).unwrap()
}

/// Checks the problems of a configuration, as `line:column message`.
#[track_caller]
fn check(config: &str, expected: &[&str]) {
    let folder = Folder::with(config);
    let error = Config::load(&folder.overrides(), &environment()).unwrap_err();
    let LoadError::Problems(files) = error else { panic!("{error:?}") };
    let found: Vec<_> = files
        .iter()
        .flat_map(|file| &file.problems)
        .map(|one| format!("{}:{} {}", one.line, one.column, one.message))
        .map(|line| line.replace(&format!("{}/", folder.0.path().display()), ""))
        .collect();
    assert_eq!(found, expected, "{config}");
}

#[test]
fn an_empty_file_is_the_defaults() {
    let config = loaded("");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.admin.to_string(), "127.0.0.1:8788");
    assert_eq!(config.data, Path::new("/home/me/.local/share/sluice"));
    assert_eq!(config.limits.body, 4 << 20);
    assert_eq!(config.audit.durability, Durability::Process);
    assert_eq!(config.audit.keep.as_secs(), 90 * 86_400);
    assert!(config.servers.is_empty() && config.tls.is_none());
    // Tables may stand there with nothing in them.
    loaded("[tls]\n[store]\n[limits]\n[audit]\n[upstreams]\n[telemetry]\n[servers]\n");
}

#[test]
fn every_kind_of_setting_is_read() {
    let config = loaded(&format!(
        r#"
        [servers.remote]
        url = "https://mcp.example.com/mcp"
        headers = {{ Authorization = "env:TOKEN", X-Key = "file:secret" }}
        anonymous_policy = "open"
        timeout = "5m"
        bridge = "modern"
        hidden_text = "withhold"
        [servers.demo]
        builtin = "demo"
        options = {{ notes = 3 }}
        [policies.open]
        servers = ["remote", "demo"]
        file = "policy.json"
        [grants.alice]
        servers = ["demo"]
        policy = "elsewhere"
        token = "file:secret"
        principal = "Alice"
        expires = 2030-01-01T00:00:00Z
        [grants.bob]
        servers = ["demo", "remote"]
        policy = "open"
        token_sha256 = "{}"
        "#,
        "0a".repeat(32)
    ));
    let [demo, remote] = &config.servers[..] else { panic!("{config:?}") };
    assert_eq!(
        demo.transport,
        Transport::Builtin { name: "demo".into(), options: r#"{"notes":3}"#.into() }
    );
    let Transport::Http { url, headers } = &remote.transport else { panic!("{remote:?}") };
    assert_eq!(url.expose(), "https://mcp.example.com/mcp");
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("authorization", TOKEN), ("x-key", TOKEN)]);
    assert_eq!(remote.timeout.as_secs(), 300);
    assert_eq!((demo.bridge, remote.bridge), (Bridge::OwnEra, Bridge::Modern));
    assert_eq!((demo.hidden_text, remote.hidden_text), (HiddenText::Strip, HiddenText::Withhold));
    assert_eq!(config.policies.len(), 2);
    assert_eq!(config.policies[0].text, POLICY);
    let [(alices, alice), (_, bob)] = &config.grants[..] else { panic!("{config:?}") };
    assert_eq!(*alices, sluice_store::TokenHash::of(TOKEN));
    assert_eq!((alice.id.as_str(), bob.id.as_str()), ("file:alice", "file:bob"));
    assert_eq!(alice.expires_at.unwrap().as_millis(), 1_893_456_000_000);
    let names: Vec<_> = config.files.iter().map(|file| file.path.file_name().unwrap()).collect();
    assert_eq!(names, ["sluice.toml", "secret", "servers.d", "policy.json"]);
}

#[test]
fn places_for_exported_heads_are_read_and_shown_without_secrets() {
    let heads = loaded("[audit]\nkeep = \"1d\"\n[audit.heads]\n").audit.heads;
    assert_eq!((heads.file, heads.url, heads.every.as_secs()), (None, None, 300));
    let config = loaded(
        r#"
        [audit.heads]
        file = "heads.jsonl"
        url = "https://audit.example.com/hook/s3same"
        headers = { Authorization = "env:TOKEN" }
        every = "1m"
        "#,
    );
    let heads = &config.audit.heads;
    assert!(heads.file.as_ref().unwrap().ends_with("heads.jsonl"));
    assert_eq!(heads.url.as_ref().unwrap().expose(), "https://audit.example.com/hook/s3same");
    assert_eq!((heads.headers[0].1.expose(), heads.every.as_secs()), (TOKEN, 60));
    let shown = toml::to_string(&Shown::of(&config)).unwrap();
    assert!(shown.contains("[audit.heads]") && shown.contains("heads.jsonl"), "{shown}");
    assert!(!shown.contains("s3same") && !shown.contains(TOKEN), "{shown}");
    check("[audit.heads]\nevery = \"1m\"\n", &["1:8 nothing says where heads are exported to"]);
    check(
        "[audit.heads]\nurl = \"ftp://a/\"\nto = 1\n",
        &[
            "2:7 `audit.heads.url` must begin with `https://` or `http://`",
            "3:1 unknown key `audit.heads.to`",
        ],
    );
}

#[test]
fn unknown_keys_are_found_everywhere() {
    check(
        "lisen = 1\n[audit]\nkepe = 2\n[servers.a]\nbuiltin = \"demo\"\nurls = 3\n[grant.b]\n",
        &[
            "1:1 unknown key `lisen`",
            "3:1 unknown key `audit.kepe`",
            "6:1 unknown key `servers.a.urls`",
            "7:2 unknown key `grant`",
        ],
    );
}

#[test]
fn settings_of_later_versions_are_named_as_such() {
    check(
        "[store]\nurl = \"postgres://x\"\n[telemetry]\notlp = \"http://x\"\n[servers.a]\nurl = \"https://a/\"\npin = \"watch\"\n",
        &[
            "2:1 `store.url` is not in this version",
            "4:1 `telemetry.otlp` is not in this version",
            "7:1 `servers.a.pin` is not in this version",
        ],
    );
}

#[test]
fn servers_are_of_one_kind() {
    check("[servers.a]\n", &["1:10 nothing says where this server is"]);
    check(
        "[servers.a]\nurl = \"https://a/\"\nbuiltin = \"demo\"\n",
        &["1:10 a server has one of `url`, `command` and `builtin`, not several"],
    );
    check(
        "[servers.a]\nbuiltin = \"demo\"\nheaders = {}\n[servers.b]\nurl = \"https://b/\"\noptions = {}\n",
        &[
            "3:1 `headers` is only for servers with `url`",
            "6:1 `options` is only for servers with `builtin`",
        ],
    );
    check("servers = 3", &["1:11 `servers` must be a table, found a number"]);
}

#[test]
fn commands_are_lowered() {
    let config = loaded(
        r#"
        [servers.a]
        command = ["bin/server", "-y", ""]
        env = { KEY = "env:TOKEN", PLAIN = "x" }
        instances = "session"
        start = "up"
        [servers.b]
        command = ["npx"]
        "#,
    );
    let [one, other] = &config.servers[..] else { panic!("{config:?}") };
    let Transport::Command { command, env, instances, start } = &one.transport else {
        panic!("{one:?}")
    };
    assert!(command[0].ends_with("/bin/server") && command[1..] == ["-y", ""], "{command:?}");
    let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("KEY", TOKEN), ("PLAIN", "x")]);
    assert_eq!((*instances, *start), (Instances::Session, Start::Up));
    let expected = Transport::Command {
        command: vec!["npx".into()],
        env: Vec::new(),
        instances: Instances::Shared,
        start: Start::Use,
    };
    assert_eq!(other.transport, expected);
}

#[test]
fn commands_can_be_started() {
    check(
        "[servers.a]\ncommand = \"npx -y x\"\n[servers.b]\ncommand = []\n[servers.c]\ncommand = [\"x\"]\n\
         instances = \"several\"\nstart = 1\n[servers.d]\ncommand = [\"x\"]\nheaders = {}\nenv = { 1A = \"x\", B = 2 }\n\
         [servers.e]\nurl = \"https://e/\"\nstart = \"up\"\n",
        &[
            "2:11 `servers.a.command` must be a list, found `npx -y x`",
            "4:1 `servers.b.command` must name a program",
            "7:13 `servers.c.instances` must be one of `shared`, `session`, found `several`",
            "8:9 `servers.c.start` must be one of `use`, `up`, found `1`",
            "11:1 `headers` is only for servers with `url`",
            "12:9 `1A` is not a valid variable name",
            "12:23 `servers.d.env.B` must be a text: `env:NAME`, `file:PATH`, or the secret itself",
            "15:1 `start` is only for servers with `command`",
        ],
    );
}

#[test]
fn servers_of_the_data_directory_are_declared_too() {
    let folder = Folder::with(
        "data = \"data\"\n[servers.a]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"b\"\nfile = \"policy.json\"\n",
    );
    let servers = folder.join("data/servers.d");
    let put = |name: &str, text: &str| {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&servers).unwrap();
        fs::write(servers.join(name), text).unwrap();
        fs::set_permissions(servers.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    put("b.toml", "command = [\"npx\"]\n");
    put("notes.txt", "not a server");
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let is_watched = |path: &Path| config.files.iter().any(|file| file.path == path);
    assert!(is_watched(&servers) && is_watched(&servers.join("b.toml")));
    put("a.toml", "command = [\"npx\"]\n");
    put("B_.toml", "command = [\"npx\"]\n");
    put("c.toml", "commands = [\"npx\"]\n");
    let error = Config::load(&folder.overrides(), &environment()).unwrap_err();
    let LoadError::Problems(files) = error else { panic!("{error:?}") };
    let messages: Vec<_> =
        files.iter().flat_map(|file| &file.problems).map(|one| one.message.as_str()).collect();
    assert!(messages.contains(&"server `a` is in the configuration file too"), "{messages:?}");
    assert!(messages.contains(&"unknown key `commands`"), "{messages:?}");
    assert_eq!(files.len(), 3, "{files:?}");
}

#[test]
fn headers_can_be_sent() {
    check(
        "[servers.a]\nurl = \"https://a/\"\n[servers.a.headers]\nHost = \"x\"\nmcp-name = \"x\"\n\"a b\" = \"x\"\nA = \"x\"\na = \"y\"\nB = \"env:CRLF\"\nC = \"env:EMPTY\"\nD = 3\n",
        &[
            "4:1 header `host` is the gateway's own to set",
            "5:1 header `mcp-name` is the gateway's own to set",
            "6:1 `a b` is not a valid header name",
            "8:1 header `a` is there twice",
            "9:5 the value for header `b` has characters no header can have",
            "10:5 the secret for `servers.a.headers.C` is empty",
            "11:5 `servers.a.headers.D` must be a text: `env:NAME`, `file:PATH`, or the secret itself",
        ],
    );
}

#[test]
fn secrets_that_are_not_there_are_named() {
    check(
        "[servers.a]\nurl = \"https://a/\"\nheaders = { A = \"env:NOPE\", B = \"file:nope\" }\n",
        &[
            "3:17 environment variable `NOPE` is not set: `export NOPE=…` before starting `sluice`",
            "3:33 cannot read secret file `nope`: No such file or directory (os error 2)",
        ],
    );
}

#[test]
fn tokens_are_long_and_each_grants_own() {
    let grant = "servers = [\"a\"]\npolicy = \"p\"\n";
    let server = "[servers.a]\nbuiltin = \"demo\"\n";
    check(
        &format!("[grants.x]\n{grant}token = \"sg_short\"\n{server}"),
        &["4:9 a token has at least 16 characters, all visible ASCII, no spaces"],
    );
    check(
        &format!(
            "[grants.x]\n{grant}token = \"env:TOKEN\"\n[grants.y]\n{grant}token = \"{TOKEN}\"\n{server}"
        ),
        &["8:9 grant `y` has the same token as grant `x`"],
    );
    check(&format!("[grants.x]\n{grant}{server}"), &["1:9 `grants.x.token` is missing"]);
    check(
        &format!("[grants.x]\n{grant}token_sha256 = \"{}\"\n{server}", "0A".repeat(32)),
        &[
            "4:16 `grants.x.token_sha256` must be the SHA-256 of the whole token, as 64 lower-case hexadecimal digits",
        ],
    );
}

#[test]
fn names_must_refer_to_something_that_exists() {
    check(
        "[servers.a]\nbuiltin = \"demo\"\nanonymous_policy = \"q\"\n[policies.p]\nservers = [\"a\", \"b\", \"a\"]\nfile = \"policy.json\"\n[grants.g]\nservers = []\npolicy = \"p\"\ntoken = \"env:TOKEN\"\n",
        &[
            "3:20 server `a` has no policy named `q`",
            "5:17 no server is named `b`",
            "5:22 server `a` is there twice",
            "8:11 `grants.g.servers` must name a server",
        ],
    );
    check(
        "[policies.p]\n[policies.q]\nserver = \"a\"\nservers = [\"a\"]\nfile = \"nope.json\"\n",
        &[
            "1:11 `policies.p.file` is missing",
            "1:11 `policies.p.servers` is missing",
            "2:11 a policy has either `servers` or `server`, not both",
            "5:8 cannot read policy file `nope.json`: No such file or directory (os error 2)",
        ],
    );
}

#[test]
fn a_server_with_a_problem_is_still_declared() {
    check(
        "[servers.a]\nurl = \"ftp://a/\"\n[policies.p]\nserver = \"a\"\nfile = \"policy.json\"\n",
        &["2:7 `servers.a.url` must begin with `https://` or `http://`"],
    );
}

#[test]
fn certificates_come_with_their_key() {
    check("[tls]\ncert = \"secret\"\n", &["1:2 `tls.key` is missing"]);
    check(
        "[tls]\ncert = \"secret\"\nkey = \"nope\"\n",
        &["3:7 cannot read `nope`: No such file or directory (os error 2)"],
    );
    assert!(loaded("[tls]\ncert = \"secret\"\nkey = \"secret\"\n").tls.is_some());
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let folder =
        Folder::with("listen = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\ndata = \"here\"\n");
    let load = |overrides: &Overrides, environment: &Environment| {
        let config = Config::load(overrides, environment).unwrap();
        assert_eq!(config.data, data_directory(overrides, environment).unwrap());
        config
    };
    let config = load(&folder.overrides(), &environment());
    assert_eq!((config.listen.port(), config.data), (1, folder.join("here")));
    let from_variable = Environment::from([("SLUICE_DATA", "there")]);
    assert_eq!(load(&folder.overrides(), &from_variable).data, Path::new("there"));
    let overrides = Overrides {
        listen: Some(([127, 0, 0, 1], 9).into()),
        data: Some("given".into()),
        ..folder.overrides()
    };
    let config = load(&overrides, &from_variable);
    assert_eq!((config.listen.port(), config.admin.port()), (9, 2));
    assert_eq!(config.data, Path::new("given"));
}

#[test]
fn without_a_setting_data_is_where_the_user_keeps_it() {
    let data = |variables: &Environment| {
        Config::load(&Folder::with("").overrides(), variables).map(|config| config.data)
    };
    let home = Path::new("/home/me/.local/share/sluice");
    assert_eq!(data(&environment()).unwrap(), home);
    let both = Environment::from([("HOME", "/home/me"), ("XDG_DATA_HOME", "/xdg")]);
    assert_eq!(data(&both).unwrap(), Path::new("/xdg/sluice"));
    let relative = Environment::from([("HOME", "/home/me"), ("XDG_DATA_HOME", "xdg")]);
    assert_eq!(data(&relative).unwrap(), home);
    assert!(matches!(data(&Environment::from([])), Err(LoadError::NoData)));
}

#[test]
fn both_listeners_cannot_share_one_address() {
    let folder = Folder::with("listen = \"127.0.0.1:8788\"");
    let error = Config::load(&folder.overrides(), &environment()).unwrap_err();
    assert!(matches!(error, LoadError::SameAddress(_)));
    loaded("listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"");
}

#[test]
fn finding_the_data_directory_needs_no_secrets() {
    let folder = Folder::with("data = \"d\"\n[grants.x]\ntoken = \"env:NOPE\"\n");
    assert_eq!(data_directory(&folder.overrides(), &environment()).unwrap(), folder.join("d"));
}

const TWO_SERVERS: &str = "[servers.a]\nbuiltin = \"demo\"\n[servers.b]\nbuiltin = \"demo\"\n";

#[test]
fn a_policy_may_have_a_file_for_each_server() {
    let folder = Folder::with(&format!(
        "{TWO_SERVERS}[policies.p]\nfiles = {{ a = \"policy.json\", b = \"other.yaml\" }}\n"
    ));
    fs::write(folder.join("other.yaml"), "version: \"1\"\ndefault: allow\n").unwrap();
    let config = Config::load(&folder.overrides(), &environment()).unwrap();
    let texts: Vec<_> = config
        .policies
        .iter()
        .map(|policy| (policy.server.as_str(), policy.name.as_str(), policy.text.as_str()))
        .collect();
    let other = "version: \"1\"\ndefault: allow\n";
    assert_eq!(texts, [("a", "p", POLICY), ("b", "p", other)]);
    // Both are watched.
    let files: Vec<_> = config.files.iter().map(|file| file.path.clone()).collect();
    assert!(files.ends_with(&[folder.join("policy.json"), folder.join("other.yaml")]));
    let shown = serde_json::to_value(Shown::of(&config)).unwrap();
    let versions: Vec<_> = config.policies.iter().map(|policy| policy.version.clone()).collect();
    let expected = serde_json::json!({ "versions": { "a": versions[0], "b": versions[1] } });
    assert_eq!(shown["policies"]["p"], expected);
}

#[test]
fn files_of_a_policy_name_known_servers_once() {
    let policy = |keys: &str| format!("{TWO_SERVERS}[policies.p]\n{keys}\n");
    check(
        &policy("files = { a = \"policy.json\", c = \"policy.json\", B = \"policy.json\", b = 1 }"),
        &[
            "6:30 no server is named `c`",
            "6:49 `B` must be a server's name",
            "6:72 `policies.p.files.b` must be a text, found `1`",
        ],
    );
    let both = "a policy has either `files`, or `servers` and `file`, not both";
    check(
        &policy("files = { a = \"policy.json\" }\nservers = [\"b\"]\nfile = \"policy.json\""),
        &[&format!("7:1 {both}"), &format!("8:1 {both}")],
    );
    check(&policy("files = {}"), &["6:1 `policies.p.files` must name a server"]);
    check(
        &policy("files = \"policy.json\""),
        &["6:9 `policies.p.files` must be a table, found a text"],
    );
    check(
        &policy("files = { a = \"nope.json\" }"),
        &["6:15 cannot read policy file `nope.json`: No such file or directory (os error 2)"],
    );
}
