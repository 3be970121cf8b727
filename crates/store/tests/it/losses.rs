//! Files that are missing, cut or damaged when a store is opened, as after `kill -9` and a bad
//! disk: what was written must be there, or somebody must say that it need not.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use sluice_policy::Amount;
use sluice_store::{Outcome, Store, StoreConfig};

use crate::folder::{Folder, charge, config, entries, open, reading, record, reserve, wait_until};

/// Calls that are recorded and charged.
const CALLS: i64 = 300;

/// A folder as a killed process leaves it: most of the log is in the write-ahead log only.
async fn killed() -> Folder {
    let original = Folder::new();
    let store = original.store();
    for _ in 0..CALLS {
        reserve(&store, charge("eval", 1, 1 << 40)).await.unwrap();
    }
    // In a quiet moment the head vouches for the last transaction too.
    let head = || fs::read(original.path().join("keys/head")).unwrap();
    let is_confirmed = |head: Vec<u8>| head[24..128] == head[128..232];
    wait_until(|| is_confirmed(head())).await;
    let copy = Folder::new();
    fs::create_dir(copy.path().join("keys")).unwrap();
    for file in ["sluice.db", "sluice.db-wal", "keys/head"] {
        fs::copy(original.path().join(file), copy.path().join(file)).unwrap();
    }
    copy
}

fn wal(folder: &Path) -> PathBuf {
    folder.join("sluice.db-wal")
}

/// Names of damages, and how they are done to a folder.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("the write-ahead log is missing", |folder| fs::remove_file(wal(folder)).unwrap()),
    ("the write-ahead log is empty", |folder| fs::write(wal(folder), "").unwrap()),
    ("the write-ahead log is cut", |folder| {
        let file = OpenOptions::new().write(true).open(wal(folder)).unwrap();
        file.set_len(file.metadata().unwrap().len() * 2 / 3).unwrap();
    }),
    ("a bit of the write-ahead log is flipped", |folder| {
        let file = OpenOptions::new().read(true).write(true).open(wal(folder)).unwrap();
        let (place, mut byte) = (file.metadata().unwrap().len() / 3, [0]);
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 1], place).unwrap();
    }),
    ("the database is missing", |folder| {
        fs::remove_file(folder.join("sluice.db")).unwrap();
        fs::remove_file(wal(folder)).unwrap();
    }),
    ("the database is empty", |folder| {
        fs::write(folder.join("sluice.db"), "").unwrap();
        fs::remove_file(wal(folder)).unwrap();
    }),
    ("the database is another one", |folder| {
        let other = Folder::new();
        drop(other.store());
        fs::remove_file(wal(folder)).unwrap();
        fs::copy(other.database(), folder.join("sluice.db")).unwrap();
    }),
    ("the head is missing", |folder| fs::remove_file(folder.join("keys/head")).unwrap()),
    ("the head is damaged", |folder| {
        let path = folder.join("keys/head");
        let mut bytes = fs::read(&path).unwrap();
        bytes[40] ^= 1;
        fs::write(path, bytes).unwrap();
    }),
    ("the head is empty", |folder| fs::write(folder.join("keys/head"), "").unwrap()),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_by_being_killed() {
    let folder = killed().await;
    let store = open(folder.path());
    assert_eq!(store.verify().await.unwrap().faults, []);
    assert_eq!(reading(&store, "eval").await, Amount::whole(CALLS.unsigned_abs()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_noticed_at_the_start() {
    for (what, damage) in DAMAGES {
        let folder = killed().await;
        damage(folder.path());
        let refused = Store::open(config(folder.path())).unwrap_err().to_string();
        for part in ["sluice up --accept-loss", "sluice restore", "sluice.db"] {
            assert!(refused.contains(part), "{what}: {refused}");
        }
        // How much is missing is said where the head can tell.
        if !what.contains("head") {
            assert!(refused.contains(&CALLS.to_string()), "{what}: {refused}");
        }
        // A refusal changes nothing.
        let again = Store::open(config(folder.path())).unwrap_err().to_string();
        assert_eq!(again, refused, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_is_accepted_is_recorded() {
    for (what, damage) in DAMAGES {
        let folder = killed().await;
        damage(folder.path());
        let accepting = StoreConfig { accept_loss: true, ..config(folder.path()) };
        let store = Store::open(accepting).unwrap();
        let records = entries(&store).await.unwrap();
        let last = records.last().unwrap().record.message.as_deref().unwrap_or_default();
        assert!(last.contains("--accept-loss"), "{what}: {last}");
        store.append(record(Outcome::Allow)).await.unwrap();
        assert_eq!(store.verify().await.unwrap().faults, [], "{what}");
        store.close().await.unwrap();
        // From then on it is whole.
        let store = open(folder.path());
        assert_eq!(store.verify().await.unwrap().faults, [], "{what}");
    }
}

#[test]
fn nothing_is_recorded_where_nothing_is_lost() {
    let folder = Folder::new();
    let accepting = || StoreConfig { accept_loss: true, ..config(folder.path()) };
    drop(Store::open(accepting()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Store::open(accepting()).unwrap();
    assert!(runtime.block_on(entries(&store)).unwrap().is_empty());
}

#[test]
fn the_head_is_its_owners_alone() {
    let folder = Folder::new();
    drop(folder.store());
    let head = folder.path().join("keys/head");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&head), mode(&folder.path().join("keys"))), (0o600, 0o700));
    fs::set_permissions(&head, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = Store::open(config(folder.path())).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}
