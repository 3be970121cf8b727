//! The real provider: installed once into the target directory, and a process for each test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use sluice_oidc::{Groups, Hints, Identity, Pending, Provider, ProviderConfig, SignInError};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::browser::Browser;

pub(crate) const REDIRECT_URI: &str = "https://sluice.example/sign-in/callback";
const SECRET: &str = "a secret of 40 characters with + and % !";

/// A provider's process. It ends with this value.
pub(crate) struct RealProvider {
    pub(crate) issuer: String,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

/// A sign-in at the point where the browser comes back.
pub(crate) struct Returned {
    pub(crate) pending: Pending,
    pub(crate) query: String,
    pub(crate) now: SystemTime,
}

impl RealProvider {
    /// Starts the provider with a client for each algorithm and way to authenticate.
    pub(crate) async fn start(accounts: Value) -> RealProvider {
        RealProvider::start_with(json!({ "accounts": accounts })).await
    }

    pub(crate) async fn start_with(mut settings: Value) -> RealProvider {
        let client = |id: &str, alg: &str, method: &str| {
            let mut client = json!({
                "client_id": id,
                "redirect_uris": [REDIRECT_URI],
                "id_token_signed_response_alg": alg,
                "token_endpoint_auth_method": method,
                "scope": "openid email profile groups",
            });
            if method != "none" {
                client["client_secret"] = SECRET.into();
            }
            client
        };
        settings["clients"] = json!([
            client("rs256", "RS256", "client_secret_basic"),
            client("ps256", "PS256", "client_secret_basic"),
            client("es256", "ES256", "client_secret_basic"),
            client("eddsa", "EdDSA", "client_secret_basic"),
            client("public", "RS256", "none"),
        ]);
        let (node, folder) = install();
        let mut process = tokio::process::Command::new(node)
            .arg("provider.mjs")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the tests need Node: install `npm`");
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap()).lines();
        let issuer = String::new();
        let mut provider = RealProvider { issuer, stdin, stdout, _process: process };
        let ready = provider.command(&settings.to_string()).await;
        ready["issuer"].as_str().unwrap().clone_into(&mut provider.issuer);
        provider
    }

    /// Gives a command, and waits until it is carried out.
    pub(crate) async fn command(&mut self, line: &str) -> Value {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        loop {
            let line = self.stdout.next_line().await.unwrap();
            let line = line.expect("the provider's process has ended");
            // The package writes warnings, too.
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    /// How many requests came for a path.
    pub(crate) async fn count(&mut self, path: &str) -> u64 {
        self.command("count").await[path].as_u64().unwrap_or_default()
    }

    /// The configuration of a client that wants groups.
    pub(crate) fn config(&self, client_id: &str) -> ProviderConfig {
        let mut config = ProviderConfig::new(&self.issuer, client_id, REDIRECT_URI);
        config.client_secret = (client_id != "public").then(|| SECRET.to_owned().into());
        config.scopes = ["email", "profile", "groups"].map(str::to_owned).into();
        config.groups_claim = Some("groups".into());
        // The machine may be heavily loaded.
        config.timeout = Duration::from_mins(2);
        config
    }

    pub(crate) fn client(&self, client_id: &str) -> Provider {
        Provider::new(self.config(client_id)).unwrap()
    }
}

/// The time of the machine, which the provider goes by.
#[expect(clippy::disallowed_methods, reason = "the provider's process has a real clock")]
pub(crate) fn machine_time() -> SystemTime {
    SystemTime::now()
}

/// Signs a person in at the provider, up to the redirect.
pub(crate) async fn go(client: &Provider, account: &str) -> Returned {
    go_at(client, account, machine_time()).await
}

pub(crate) async fn go_at(client: &Provider, account: &str, now: SystemTime) -> Returned {
    let hints = Hints { login_hint: Some(account.into()), prompt: None };
    let begun = client.begin(&hints, now).await.unwrap();
    let query = Browser::default().follow(&begun.url).await;
    Returned { pending: begun.pending, query, now }
}

impl Returned {
    pub(crate) async fn finish(self, client: &Provider) -> Result<Identity, SignInError> {
        client.finish(self.pending, &self.query, self.now).await
    }

    /// The same redirect with another member of what is pending.
    pub(crate) fn with(self, member: &str, value: &str) -> Returned {
        let mut pending = serde_json::to_value(&self.pending).unwrap();
        assert!(pending[member].is_string(), "{member}");
        pending[member] = value.into();
        Returned { pending: serde_json::from_value(pending).unwrap(), ..self }
    }
}

/// A whole sign-in.
pub(crate) async fn sign_in(client: &Provider, account: &str) -> Result<Identity, SignInError> {
    go(client, account).await.finish(client).await
}

pub(crate) fn known(groups: &[&str]) -> Groups {
    Groups::Known(groups.iter().map(|&name| name.to_owned()).collect())
}

pub(crate) fn later(time: SystemTime, seconds: u64) -> SystemTime {
    time + Duration::from_secs(seconds)
}

/// Node, and the folder with the provider and its packages. The first test installs them; tests
/// that run at the same time wait for it.
fn install() -> (PathBuf, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/provider");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oidc-provider");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let files = ["package.json", "package-lock.json", ".npmrc", "provider.mjs"];
    let texts = files.map(|name| fs::read_to_string(source.join(name)).unwrap());
    let own_node = has_recent_node();
    let node = if own_node { PathBuf::from("node") } else { installed_node(&folder) };
    let wanted = format!("{}{}", texts.concat(), node.display());
    let installed = folder.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return (node, folder);
    }
    for (name, text) in files.iter().zip(&texts) {
        fs::write(folder.join(name), text).unwrap();
    }
    let output = Command::new("npm")
        .args(["ci", "--no-progress", "--loglevel=error"])
        .args(own_node.then_some("--omit=optional"))
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .expect("the tests need npm: install `npm`");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`npm ci` failed: {errors}");
    fs::write(&installed, wanted).unwrap();
    (node, folder)
}

/// Whether the machine's Node has what the provider needs. That of Debian 12 does not.
fn has_recent_node() -> bool {
    let check = "process.exit(require('node:crypto').hash && URL.parse ? 0 : 1)";
    Command::new("node").args(["-e", check]).status().is_ok_and(|status| status.success())
}

/// The Node that is an optional package.
fn installed_node(folder: &Path) -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    folder.join(format!("node_modules/node-linux-{machine}/bin/node"))
}
