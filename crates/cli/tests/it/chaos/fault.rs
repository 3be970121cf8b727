//! What goes wrong, and what must hold afterwards.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{Arc, Mutex, atomic::AtomicI64},
    time::Duration,
};

use sluice_store::{Clock, Durability, Key, Retention, Store, StoreConfig};
use sluice_testkit::RawClient;
use tokio::time::Instant;

use super::{
    clients::{self, Address},
    random::Random,
    server::{Behaviour, ChaosServer, MISBEHAVIOURS},
};
use crate::{sluice::Folder, up::Up};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9`, and a new start.
    Kill,
    /// A graceful shutdown, and a new start.
    Restart,
    /// Another process holds the write lock of the database.
    LockedStore,
    /// Nothing can be written.
    FullDisk,
    /// The server misbehaves.
    Server(Behaviour),
    SilentClients,
    GoneClients,
    /// Clients that do not read long answers.
    SlowClients,
    /// A file of the store, or the whole data directory, is not where it was.
    MovedFiles,
    /// Another process, whose system clock is 100 days ahead, writes to the store and prunes.
    FastClock,
}

pub(super) const FAULTS: [Fault; 17] = {
    let mut faults = [Fault::Kill; 17];
    faults[1] = Fault::Restart;
    faults[2] = Fault::LockedStore;
    faults[3] = Fault::FullDisk;
    faults[4] = Fault::SilentClients;
    faults[5] = Fault::GoneClients;
    faults[6] = Fault::SlowClients;
    faults[7] = Fault::MovedFiles;
    faults[8] = Fault::FastClock;
    let mut next = 0;
    while next < MISBEHAVIOURS.len() {
        faults[9 + next] = Fault::Server(MISBEHAVIOURS[next]);
        next += 1;
    }
    faults
};

/// How long calls may fail after a fault is over.
const RECOVERY: Duration = Duration::from_secs(30);

/// A gateway, its folder and the server behind it.
pub(super) struct Scene {
    folder: Folder,
    /// `None` only while it is restarted.
    up: Option<Up>,
    pub(super) address: Address,
    pub(super) server: ChaosServer,
}

impl Scene {
    pub(super) fn set(folder: Folder, server: ChaosServer) -> Scene {
        let up = start(&folder);
        let address = Arc::new(Mutex::new(up.listen));
        Scene { folder, up: Some(up), address, server }
    }

    fn up(&self) -> &Up {
        self.up.as_ref().unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.up().listen
    }

    fn restart(&mut self, end: impl FnOnce(Up)) {
        tokio::task::block_in_place(|| end(self.up.take().unwrap()));
        let up = start(&self.folder);
        *self.address.lock().unwrap() = up.listen;
        self.up = Some(up);
    }

    /// Lets something go wrong for a while.
    pub(super) async fn strike(&mut self, fault: Fault, round: usize, random: &mut Random) {
        // Some calls go well first.
        tokio::time::sleep(Duration::from_millis(200 + random.below(200) as u64)).await;
        let while_it_lasts = Duration::from_millis(500 + random.below(1000) as u64);
        match fault {
            Fault::Kill => self.restart(Up::kill),
            Fault::Restart => self.restart(|up| assert_eq!(up.end(), 0)),
            Fault::LockedStore => self.lock_store(while_it_lasts).await,
            Fault::FullDisk => {
                self.limit_files("4096:unlimited");
                tokio::time::sleep(while_it_lasts).await;
                let mut client = RawClient::connect(self.address()).await.unwrap();
                let tool = format!("free_full{round}");
                let answered = clients::call(&mut client, self.address(), &tool).await;
                assert_ne!(answered, Some(true), "a call without a record");
                assert!(clients::is_healthy(self.address()).await, "full disk, no health");
                self.limit_files("unlimited");
            }
            Fault::Server(behaviour) => {
                self.server.behave(behaviour);
                tokio::time::sleep(while_it_lasts).await;
            }
            Fault::SilentClients => {
                let clients = clients::connect_and_wait(self.address()).await;
                tokio::time::sleep(while_it_lasts).await;
                assert!(clients::is_healthy(self.address()).await, "silent clients, no health");
                drop(clients);
            }
            Fault::MovedFiles => {
                let all = ["sluice.db", "keys/head", ""];
                self.move_away(all[random.below(all.len())], round).await;
            }
            Fault::FastClock => self.join_with_fast_clock().await,
            Fault::GoneClients => clients::call_and_leave(self.address(), round).await,
            Fault::SlowClients => {
                self.server.behave(Behaviour::AtLength);
                let clients = clients::call_and_not_read(self.address(), round).await;
                tokio::time::sleep(while_it_lasts).await;
                drop(clients);
            }
        }
    }

    async fn lock_store(&self, while_it_lasts: Duration) {
        let lock = rusqlite::Connection::open(self.folder.path().join("data/sluice.db")).unwrap();
        lock.busy_timeout(Duration::from_secs(20)).unwrap();
        tokio::task::block_in_place(|| lock.execute_batch("BEGIN IMMEDIATE")).unwrap();
        tokio::time::sleep(while_it_lasts).await;
        assert!(clients::is_healthy(self.address()).await, "locked store, no health");
        lock.execute_batch("ROLLBACK").unwrap();
    }

    /// Moves a file of the data directory away, or the directory itself, until calls are refused.
    async fn move_away(&self, file: &str, round: usize) {
        let data = self.folder.path().join("data");
        let here = if file.is_empty() { data } else { data.join(file) };
        let there = self.folder.path().join("away");
        fs::rename(&here, &there).unwrap();
        let refused = tokio::time::timeout(RECOVERY, async {
            for number in 0.. {
                let Ok(mut client) = RawClient::connect(self.address()).await else { continue };
                let tool = format!("free_moved{round}x{number}");
                if clients::call(&mut client, self.address(), &tool).await == Some(false) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(refused.await.is_ok(), "calls go on without {here:?}; log:\n{}", self.up().log());
        assert!(clients::is_healthy(self.address()).await, "moved files, no health");
        fs::rename(&there, &here).unwrap();
    }

    /// Writes to the store as a process does whose clock is far ahead. Nothing may be pruned.
    async fn join_with_fast_clock(&self) {
        let data = self.folder.path().join("data");
        let key = fs::read_to_string(data.join("keys/master")).unwrap();
        let key = data_encoding::HEXLOWER.decode(key.trim_end().as_bytes()).unwrap();
        let ahead = Clock::System.now().as_millis() + 100 * 24 * 3_600_000;
        let config = StoreConfig {
            directory: data,
            durability: Durability::Process,
            key: Key::from_bytes(key.try_into().unwrap()),
            clock: Clock::Fixed(Arc::new(AtomicI64::new(ahead))),
            retention: None,
            accept_loss: false,
        };
        // The gateway writes at the same time, so the lock may be taken.
        let begun = Instant::now();
        let join = async || -> Result<u64, String> {
            let open = || Store::open(config.clone());
            let store = tokio::task::block_in_place(open).map_err(|error| error.to_string())?;
            let pruned = store.prune(Retention::default()).await;
            store.close().await.map_err(|error| error.to_string())?;
            pruned.map_err(|error| error.to_string())
        };
        loop {
            match join().await {
                Ok(pruned) => return assert_eq!(pruned, 0, "a clock that jumped removed records"),
                Err(error) => assert!(begun.elapsed() < RECOVERY, "{error}"),
            }
        }
    }

    /// Sets the size, soft and hard, beyond which the gateway cannot write to a file.
    fn limit_files(&self, size: &str) {
        let pid = self.up().pid().to_string();
        let limit = ["--pid", &pid, &format!("--fsize={size}")];
        assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    }

    /// After a fault, calls succeed again without help.
    pub(super) async fn check_recovery(&self, fault: Fault, round: usize) {
        assert!(clients::is_healthy(self.address()).await, "no health after {fault:?}");
        let recovered = tokio::time::timeout(RECOVERY, async {
            for number in 0.. {
                let Ok(mut client) = RawClient::connect(self.address()).await else { continue };
                let tool = format!("free_after{round}x{number}");
                if clients::call(&mut client, self.address(), &tool).await == Some(true) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let log = || self.up().log();
        assert!(recovered.await.is_ok(), "calls still fail after {fault:?}; log:\n{}", log());
    }

    /// Verifies the log; the tools that it says were allowed.
    pub(super) fn read_log(&self) -> BTreeSet<String> {
        tokio::task::block_in_place(|| {
            self.up().run(&["log", "verify"]).exits(0);
            let mut export = self.up().command(&["log", "export"]);
            let mut export = export.stdout(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(export.stdout.take().unwrap()).lines();
            let allowed = lines.filter_map(|line| allowed_tool(&line.unwrap())).collect();
            assert!(export.wait().unwrap().success());
            allowed
        })
    }
}

fn start(folder: &Folder) -> Up {
    tokio::task::block_in_place(|| folder.up(&[]))
}

/// The tool of an exported record, if it is the decision that a call was allowed.
fn allowed_tool(line: &str) -> Option<String> {
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    let is_allowed = record["kind"] == "decision" && record["outcome"] == "allow";
    is_allowed.then(|| record["tool"].as_str()).flatten().map(str::to_owned)
}
