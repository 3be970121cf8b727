//! Data directories as a start finds them.

use std::{
    fs::{self, Permissions},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use sluice_policy::Timestamp;

use super::{DataDirectory, DataError, Running, running::FindError};
use crate::{scratch::Scratch, up::Addresses};
use sluice_config::Environment;

/// A folder with room for a data directory in it.
struct Folder(Scratch);

impl Folder {
    fn new() -> Folder {
        Folder(Scratch::new())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("above/data")
    }

    fn open(&self) -> DataDirectory {
        DataDirectory::open(&self.path()).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn loosen(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn check<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
}

fn nothing() -> Environment {
    Environment::from([])
}

#[test]
fn created_files_are_private_and_kept() {
    let folder = Folder::new();
    let data = folder.open();
    let token = data.admin_token(&nothing()).unwrap();
    let (key, demo) = (*data.master_key().unwrap().as_bytes(), data.demo_token().unwrap());
    assert!(token.expose().starts_with("sga_") && token.expose().len() == 68);
    assert!(demo.expose().starts_with("sg_"));
    for (name, wanted) in [
        ("", 0o700),
        ("admin-token", 0o600),
        ("keys", 0o700),
        ("keys/master", 0o600),
        ("demo-token", 0o600),
    ] {
        assert_eq!(mode(&data.path().join(name)), wanted, "{name}");
    }
    let again = folder.open();
    assert_eq!(again.admin_token(&nothing()).unwrap(), token);
    assert_eq!(*again.master_key().unwrap().as_bytes(), key);
    assert_eq!(again.demo_token().unwrap(), demo);
    assert_ne!(*Folder::new().open().master_key().unwrap().as_bytes(), key);
}

#[test]
fn the_environment_replaces_the_admin_token() {
    let folder = Folder::new();
    let data = folder.open();
    let mine = "a-token-of-mine-of-32-characters";
    let environment = Environment::from([("SLUICE_ADMIN_TOKEN", mine)]);
    assert_eq!(data.admin_token(&environment).unwrap().expose(), mine);
    assert!(!data.path().join("admin-token").exists());
    let short = Environment::from([("SLUICE_ADMIN_TOKEN", "a-token-of-mine-of-31-character")]);
    check(data.admin_token(&short), &["`SLUICE_ADMIN_TOKEN` is shorter than 32", "openssl rand"]);
    std::fs::write(data.path().join("admin-token"), "short\n").unwrap();
    loosen(&data.path().join("admin-token"), 0o600);
    check(data.admin_token(&nothing()), &["admin-token` is shorter than 32", "openssl rand"]);
    let spaced = Environment::from([("SLUICE_ADMIN_TOKEN", "a b")]);
    assert!(matches!(data.admin_token(&spaced), Err(DataError::AdminToken)));
}

#[test]
fn looser_modes_are_refused_with_the_fix() {
    let folder = Folder::new();
    let data = folder.open();
    data.admin_token(&nothing()).unwrap();
    data.master_key().unwrap();
    loosen(&data.path().join("admin-token"), 0o640);
    check(data.admin_token(&nothing()), &["mode 0640", "hint: chmod 600 '", "admin-token'"]);
    loosen(&data.path().join("keys/master"), 0o604);
    check(data.master_key(), &["hint: chmod 600 '", "keys/master'"]);
    loosen(&data.path().join("keys"), 0o750);
    check(data.master_key(), &["hint: chmod 700 '", "keys'"]);
    loosen(data.path(), 0o755);
    check(DataDirectory::open(data.path()), &["mode 0755", "hint: chmod 700 '"]);
}

#[test]
fn another_owner_is_refused_with_the_fix() {
    let folder = Folder::new();
    let data = folder.open();
    // Only root can give a directory away; for all others `/` is another's.
    let path = match std::os::unix::fs::chown(data.path(), Some(65_534), None) {
        Ok(()) => data.path(),
        Err(_) => Path::new("/"),
    };
    check(DataDirectory::open(path), &["belongs to another user", "hint: sudo chown -R"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_place_that_cannot_be_written_is_named() {
    let parts = ["cannot make data directory `/proc/sluice`", "--data"];
    check(DataDirectory::open(Path::new("/proc/sluice")), &parts);
}

#[test]
fn an_invalid_directory_key_or_token_file_is_refused() {
    let folder = Folder::new();
    let file = folder.0.path().join("file");
    fs::write(&file, "").unwrap();
    check(DataDirectory::open(&file), &["is not a directory", "--data"]);
    check(DataDirectory::open(&file.join("below")), &["cannot read `"]);
    let data = folder.open();
    data.master_key().unwrap();
    for wrong in ["", "0a0b\n", &"0A".repeat(32), "\u{fffd}"] {
        fs::write(data.path().join("keys/master"), wrong).unwrap();
        check(data.master_key(), &["keys/master` is damaged", "hint: remove it, and a new one"]);
    }
    fs::create_dir(data.path().join("demo-token")).unwrap();
    check(data.demo_token(), &["is not a regular file"]);
}

#[test]
fn a_start_that_crashed_half_way_does_no_harm() {
    let folder = Folder::new();
    let data = folder.open();
    fs::write(data.path().join("demo-token.new"), "half").unwrap();
    let token = data.demo_token().unwrap();
    assert_ne!(token.expose(), "half");
    assert_eq!(mode(&data.path().join("demo-token")), 0o600);
}

fn addresses(listen: SocketAddr, admin: SocketAddr) -> Addresses {
    Addresses::new(listen, admin, false, &[])
}

#[test]
fn one_gateway_at_a_time() {
    let folder = Folder::new();
    let data = folder.open();
    let lock = data.lock().unwrap();
    check(data.lock(), &["another gateway uses data directory", "--data"]);
    let here: SocketAddr = ([127, 0, 0, 1], 1).into();
    let run = data.announce(&addresses(here, here), Timestamp::from_millis(0)).unwrap();
    check(data.lock(), &[&format!("another gateway (process {}) uses", std::process::id())]);
    drop((lock, run));
    data.lock().unwrap();
    loosen(&data.path().join("lock"), 0o644);
    check(data.lock(), &["mode 0644", "hint: chmod 600 '"]);
}

#[test]
fn a_running_gateway_is_found_and_a_stopped_one_is_not() {
    let folder = Folder::new();
    check(Running::find(&folder.path(), &nothing()), &["no gateway is running on", "`sluice up`"]);
    let data = folder.open();
    let token = data.admin_token(&nothing()).unwrap();
    check(Running::find(data.path(), &nothing()), &["no gateway is running on"]);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap();
    let start = Timestamp::from_millis(1_000);
    let run = data.announce(&addresses(([127, 0, 0, 1], 1).into(), admin), start).unwrap();
    let text = fs::read_to_string(data.path().join("run.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["started_at"], "1970-01-01T00:00:01Z");
    assert_eq!(written["admin"], admin.to_string());

    let found = Running::find(data.path(), &nothing()).unwrap();
    assert_eq!((found.url, found.token), (format!("http://{admin}"), token));
    let given = Environment::from([("SLUICE_TOKEN", "other")]);
    assert_eq!(Running::find(data.path(), &given).unwrap().token.expose(), "other");
    let of_a_grant = Environment::from([("SLUICE_TOKEN", "sg_0123")]);
    assert_ne!(Running::find(data.path(), &of_a_grant).unwrap().token.expose(), "sg_0123");

    drop(listener);
    check(Running::find(data.path(), &nothing()), &["no gateway is running on"]);
    drop(run);
    assert!(!data.path().join("run.json").exists());
}

#[test]
fn a_process_that_is_gone_is_not_running() {
    let folder = Folder::new();
    let data = folder.open();
    data.admin_token(&nothing()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap();
    let _run = data.announce(&addresses(admin, admin), Timestamp::from_millis(0)).unwrap();
    let path = data.path().join("run.json");
    let own = format!("\"pid\":{}", std::process::id());
    // No system numbers its processes this high.
    let gone = "\"pid\":2000000000";
    fs::write(&path, fs::read_to_string(&path).unwrap().replace(&own, gone)).unwrap();
    check(Running::find(data.path(), &nothing()), &["no gateway is running on"]);
}

#[test]
fn a_gateway_elsewhere_is_named_with_its_token() {
    let nowhere = Path::new("nowhere");
    let both =
        Environment::from([("SLUICE_URL", "https://gw.example.com/"), ("SLUICE_TOKEN", "t")]);
    let found = Running::find(nowhere, &both).unwrap();
    assert_eq!((found.url.as_str(), found.token.expose()), ("https://gw.example.com", "t"));
    let one = Environment::from([("SLUICE_URL", "https://gw.example.com")]);
    assert!(matches!(Running::find(nowhere, &one), Err(FindError::NoToken)));
}
