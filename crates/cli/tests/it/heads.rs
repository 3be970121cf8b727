//! Signed heads of the audit log, kept elsewhere: exported by a real gateway to a file and a real
//! receiver, and compared later with a log that was cut.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use serde_json::Value;
use sluice_testkit::{Recorded, Reply, Upstream};

use crate::{
    sluice::{Folder, Ran},
    up::Up,
};

const TOKEN: &str = "Bearer s3cret-of-the-receiver";

fn folder(heads: &str) -> Folder {
    let folder = Folder::new();
    folder.write("sluice.toml", &format!("[audit.heads]\nevery = \"1s\"\n{heads}"));
    folder
}

/// Makes calls, each with two records.
fn call(up: &Up, count: usize) {
    for _ in 0..count {
        up.run(&["call", "demo", "list_notes"]).exits(0);
    }
}

fn exported(folder: &Folder) -> Vec<Value> {
    let text = fs::read_to_string(folder.path().join("heads.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn status(up: &Up) -> Value {
    up.run(&["status", "--json"]).json()
}

/// Copies the database with its head, for a rollback attack.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("keys")).unwrap();
    for file in ["sluice.db", "keys/head"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

fn verify(folder: &Folder, more: &[&str]) -> Ran {
    folder.run(&[&["--data", "data", "log", "verify"], more].concat())
}

#[test]
fn a_tail_that_is_cut_together_with_the_head_is_found_by_exported_heads() {
    let folder = folder("file = \"heads.jsonl\"\n");
    let (data, saved) = (folder.path().join("data"), folder.path().join("saved"));
    let up = folder.up(&["--demo"]);
    call(&up, 1);
    assert_eq!(up.end(), 0);
    copy(&data, &saved);

    let up = folder.up(&["--demo"]);
    call(&up, 3);
    let before = exported(&folder).len();
    up.wait_until("the head is exported", || exported(&folder).len() > before + 1);
    let printed = up.run(&["log", "verify", "--json", "--head", "heads.jsonl"]).exits(0).json();
    assert_eq!((&printed["ok"], &printed["heads"]["ok"]), (&true.into(), &true.into()));
    let now = exported(&folder);
    assert_eq!(printed["head"]["incarnation"], now[0]["incarnation"]);
    assert_eq!(printed["head"]["signer"], now[0]["signer"]);
    assert_eq!(up.end(), 0);
    // A stopped gateway leaves the head of its last record.
    let last = verify(&folder, &["--json"]).exits(0).json()["head"].clone();
    let exported_last = exported(&folder).pop().unwrap();
    assert_eq!((&exported_last["seq"], &exported_last["hash"]), (&last["seq"], &last["hash"]));
    let text = verify(&folder, &[]).exits(0).out;
    assert!(text.contains(&format!("record {}", last["seq"])), "{text}");
    assert!(text.contains(last["hash"].as_str().unwrap()), "{text}");

    copy(&saved, &data);
    assert!(verify(&folder, &[]).exits(0).out.starts_with("ok: "), "it is whole by itself");
    let found = verify(&folder, &["--head", "heads.jsonl"]).exits(1).out;
    assert!(found.contains("records are missing at the end: the log ends with"), "{found}");
    let found = verify(&folder, &["--json", "--head", "heads.jsonl"]).exits(1).json();
    assert_eq!((&found["ok"], &found["heads"]["ok"]), (&false.into(), &false.into()));
    // Nor is it hidden by records that follow.
    let up = folder.up(&["--demo"]);
    call(&up, 9);
    let one_line = fs::read_to_string(folder.path().join("heads.jsonl")).unwrap();
    let one_line = one_line.lines().find(|line| line.contains(last["hash"].as_str().unwrap()));
    folder.write("one.jsonl", one_line.unwrap());
    let found = folder.shell("sluice --data data log verify --head - < one.jsonl").exits(1).out;
    assert!(found.contains("is not the one that was written"), "{found}");
    assert!(found.starts_with("ok: "), "{found}");
}

#[test]
fn what_is_no_exported_head_is_refused() {
    let folder = folder("file = \"heads.jsonl\"\n");
    let up = folder.up(&["--demo"]);
    up.wait_until("a head is exported", || !exported(&folder).is_empty());
    assert_eq!(up.end(), 0);
    let line = fs::read_to_string(folder.path().join("heads.jsonl")).unwrap();
    let line = line.lines().next().unwrap();
    for (text, code, said) in [
        ("", 2, "there is no head"),
        ("{\"head\":1", 2, "line 1 of `given` is not an exported head"),
        (&line.replace("\"seq\":", "\"seq\":1"), 1, "it was changed, or signed with the key"),
    ] {
        folder.write("given", text);
        let ran = verify(&folder, &["--head", "given"]).exits(code);
        assert!(ran.out.contains(said) || ran.err.contains(said), "{said}: {ran:?}");
    }
    // The end of a line may be missing, because the disk was full.
    folder.write("heads.jsonl", line.split_once(",\"seq").unwrap().0);
    let up = folder.up(&["--demo"]);
    let text = || fs::read_to_string(folder.path().join("heads.jsonl")).unwrap();
    up.wait_until("a head is exported", || text().lines().count() > 1);
    let text = text();
    assert!(text.lines().nth(1).unwrap().starts_with("{\"head\":1,"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_are_posted_and_failures_stop_no_call() {
    let answer = Arc::new(AtomicU16::new(500));
    let answering = Arc::clone(&answer);
    let receiver =
        Upstream::start(move |_: &Recorded| Reply::empty(answering.load(Ordering::Relaxed)))
            .await
            .unwrap();
    let url = format!("{}?key=s3same", receiver.url());
    let folder = folder(&format!(
        "file = \"missing/heads.jsonl\"\nurl = \"{url}\"\nheaders = {{ Authorization = \"{TOKEN}\" }}\n"
    ));
    tokio::task::block_in_place(|| {
        let up = folder.up(&["--demo"]);
        up.wait_until("several were refused", || receiver.requests().len() > 2);
        call(&up, 2);
        let failed = status(&up);
        let [file, posted] = &failed["head_exports"].as_array().unwrap()[..] else { panic!() };
        assert_eq!((&file["target"], &posted["target"]), (&"file".into(), &"url".into()));
        assert!(file["last_error"].as_str().unwrap().contains("No such file"), "{file}");
        let error = &posted["last_error"];
        assert_eq!(error, "the receiver answered with status 500");
        assert!(posted["failures"].as_u64() > Some(1) && posted["exported_at"].is_null());
        let shown = up.run(&["status"]).exits(1).out;
        assert!(shown.contains("not exported to `url`: the receiver answered"), "{shown}");
        assert!(
            up.metrics().contains(r#"sluice_head_exports_total{target="url",result="failed"}"#)
        );
        // One line for all failures in a row.
        let log = up.log();
        assert_eq!(log.matches("was not exported").count(), 2, "{log}");
        assert!(!log.contains("s3same"), "{log}");

        answer.store(204, Ordering::Relaxed);
        fs::create_dir(folder.path().join("missing")).unwrap();
        up.wait_until("both are exported", || {
            let all = status(&up);
            let mut all = all["head_exports"].as_array().unwrap().iter();
            all.all(|one| one["last_error"].is_null() && one["exported_at"].is_string())
        });
        let shown = up.run(&["status"]).exits(0).out;
        assert!(shown.contains("exported to `url` at 20"), "{shown}");
        assert!(up.log().contains("exported again"), "{}", up.log());
        let metrics = up.metrics();
        assert!(metrics.contains(r#"sluice_head_exports_total{target="file",result="ok"}"#));
        assert!(metrics.contains("sluice_head_export_last_success_timestamp_seconds"));
        let config = up.run(&["config"]).exits(0).out;
        assert!(!config.contains("s3same") && !config.contains("s3cret"), "{config}");
        let requests = receiver.requests();
        let last = requests.last().unwrap();
        assert_eq!((last.method.as_str(), last.header("authorization")), ("POST", Some(TOKEN)));
        assert_eq!(last.header("content-type"), Some("application/json"));
        folder.write("posted", &last.text());
        up.run(&["log", "verify", "--head", "posted"]).exits(0);
        assert_eq!(up.end(), 0);
    });
}
