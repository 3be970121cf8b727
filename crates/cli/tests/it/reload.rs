//! Edits of the configuration and its policies while the gateway runs.

use std::{fs, path::PathBuf, sync::mpsc, time::Duration};

use crate::sluice::Folder;

const RELOADED: &str = "sg_a_token_for_reload_tests";

/// Writes a file again and again for as long as it is held.
struct Noise(Option<(mpsc::Sender<()>, std::thread::JoinHandle<()>)>);

impl Noise {
    fn start(file: PathBuf, every: Duration) -> Noise {
        let (stop, stopped) = mpsc::channel::<()>();
        let writing = std::thread::spawn(move || {
            for number in 0_u64.. {
                fs::write(&file, number.to_string()).unwrap();
                if stopped.recv_timeout(every) != Err(mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        Noise(Some((stop, writing)))
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        if let Some((stop, writing)) = self.0.take() {
            drop(stop);
            let _ = writing.join();
        }
    }
}

#[test]
fn an_edit_is_taken_whatever_else_happens_in_its_folder() {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"deny"}"#);
    folder.write("same.json", r#"{"version":"1","default":"deny"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[servers.other]\nbuiltin = \"demo\"\n\
             [policies.p]\nfiles = {{ notes = \"policy.json\", other = \"same.json\" }}\n\
             [grants.g]\nservers = [\"notes\", \"other\"]\npolicy = \"p\"\ntoken = \"{RELOADED}\"\n"
        ),
    );
    let up = folder.up(&[]);
    let call = |server: &str| up.run(&["call", server, "list_notes", "--token", RELOADED]).code;
    assert_eq!((call("notes"), call("other")), (1, 1));
    let before = up.run(&["status", "--json"]).exits(0).json();
    assert_eq!(before["config"]["last_reload"], serde_json::Value::Null, "{before}");
    assert_eq!((&before["servers"], &before["grants"]), (&2.into(), &1.into()), "{before}");
    let noise = Noise::start(folder.path().join("beside.log"), Duration::from_millis(10));
    folder.write("policy.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("the edit is in force beside a file that changes", || call("notes") == 0);
    // The other server has a file of its own under the same name.
    assert_eq!(call("other"), 1);
    // What is in force is told wherever somebody may look for it.
    let status = up.run(&["status", "--json"]).exits(0).json();
    let version = status["config"]["version"].as_str().unwrap().to_owned();
    assert_ne!(version, before["config"]["version"]);
    assert_eq!(status["config"]["last_reload"]["ok"], true);
    assert_eq!(version.len(), 16, "{status}");
    let metrics = up.metrics();
    let info = format!("sluice_config_info{{version=\"{version}\"}} 1\n");
    assert!(metrics.contains(&info), "{metrics}");
    assert_eq!(metrics.matches("sluice_config_info{").count(), 1, "{metrics}");
    assert!(metrics.contains("sluice_config_last_reload_successful 1\n"), "{metrics}");
    assert!(metrics.contains("sluice_config_last_reload_success_timestamp_seconds 1"), "{metrics}");
    drop(noise);
    // An editor that never stops saving does not keep the edit from being taken.
    let toml = folder.path().join("same.json");
    let busy = Noise::start(toml, Duration::from_millis(10));
    folder.write("policy.json", r#"{"version":"1","default":"deny"}"#);
    up.wait_until("a bad edit is told of", || up.log().contains("same.json"));
    drop(busy);
    let page = up.run(&["status"]).exits(1);
    assert!(page.out.contains(&version) && page.out.contains("the reload at "), "{page:?}");
    assert!(page.err.contains("same.json:"), "{page:?}");
    assert!(up.metrics().contains("sluice_config_last_reload_successful 0\n"));
    folder.write("same.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("the last edit is in force", || (call("notes"), call("other")) == (1, 0));
    assert_eq!(up.end(), 0);
}

#[test]
fn a_file_that_a_bad_edit_names_is_watched_too() {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"deny"}"#);
    let toml = |file: &str| {
        format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"{file}\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{RELOADED}\"\n"
        )
    };
    folder.write("sluice.toml", &toml("policy.json"));
    folder.shell("mkdir new").exits(0);
    let up = folder.up(&[]);
    let call = || up.run(&["call", "notes", "list_notes", "--token", RELOADED]).code;
    folder.write("sluice.toml", &toml("new/policy.json"));
    up.wait_until("the missing file is told of", || up.log().contains("new/policy.json"));
    assert_eq!(call(), 1);
    folder.write("new/policy.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("the file is taken once it is there", || call() == 0);
    assert_eq!(up.end(), 0);
}

/// Its servers stay, until it is there again.
#[test]
fn a_file_that_is_gone_is_not_an_empty_one() {
    let folder = Folder::new();
    folder.run(&["init"]).exits(0);
    let up = folder.up(&[]);
    up.run(&["server", "add", "files", "--", "true"]).exits(0);
    let names = || {
        let listed = up.run(&["server", "list", "--json"]).exits(0).json();
        let servers = listed["servers"].as_array().unwrap().clone();
        servers.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["files", "notes"]);
    let file = folder.path().join("sluice.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    up.wait_until("it is told of", || up.run(&["status"]).err.contains("cannot be read"));
    assert_eq!(names(), ["files", "notes"]);
    folder.write(
        "sluice.toml",
        &text
            .replace("[servers.notes]", "[servers.other]")
            .replace("servers = [\"notes\"]", "servers = [\"other\"]"),
    );
    up.wait_until("the file is read again", || names() == ["files", "other"]);
}

#[test]
fn a_level_of_the_log_that_does_not_exist_is_named() {
    let folder = Folder::new();
    let up = folder.up_with(&[("SLUICE_LOG", "loud")], &[]);
    assert!(up.banner.contains("`SLUICE_LOG` is not a level"), "{}", up.banner);
    assert!(up.banner.contains("places for connections"), "{}", up.banner);
}
