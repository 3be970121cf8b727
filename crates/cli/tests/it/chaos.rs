//! Chaos: a gateway under load is killed, restarted, locked out of its database, kept from
//! writing and robbed of its files, and a process whose clock is far ahead joins it, while its
//! server misbehaves and other clients are slow, silent or gone. At the end the calls that reached the server are compared with the audit log.
//!
//! `make test` runs the short form, `make soak` an hour of it. A seed determines the faults
//! and their order, and is printed: `SLUICE_CHAOS_SEED` repeats a run, and
//! `SLUICE_CHAOS_SECONDS` sets how long it takes.

#![expect(clippy::print_stdout, reason = "a run that takes an hour says how to repeat it")]

mod clients;
mod fault;
mod judge;
mod random;
mod server;

use std::time::Duration;

use tokio::time::Instant;

use self::{
    clients::Callers,
    fault::{FAULTS, Scene},
    judge::Judge,
    random::Random,
    server::{Behaviour, ChaosServer},
};
use crate::sluice::Folder;

/// How long the short form runs at least, in seconds. It tries each fault once.
const SHORT: u64 = 20;
/// Calls of limited tools that the policy allows.
const LIMIT: usize = 300;
const TOKEN: &str = "sg_a_token_for_the_chaos_tests";

fn folder(url: &str) -> Folder {
    let policy = format!(
        r#"{{"version":"1","default":"deny","tools":{{
            "limited_*":{{"limits":[{{"counter":"limited","window":2678400,"max":{LIMIT}}}]}},
            "free_*":{{"limits":[{{"counter":"free","window":2678400,"max":1000000000}}]}},
            "held_*":{{"action":"approve"}}
        }}}}"#
    );
    let folder = Folder::with("policy.json", &policy);
    let config = format!(
        "[servers.s]\nurl = \"{url}\"\ntimeout = \"2s\"\n\
         [policies.p]\nserver = \"s\"\nfile = \"policy.json\"\n\
         [grants.g]\nservers = [\"s\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
    );
    folder.write("sluice.toml", &config);
    folder
}

/// A number from the environment.
#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_loses_no_record_and_exceeds_no_limit() {
    let seed = setting("SLUICE_CHAOS_SEED").unwrap_or_else(Random::seed);
    let time = Duration::from_secs(setting("SLUICE_CHAOS_SECONDS").unwrap_or(SHORT));
    println!("to repeat: SLUICE_CHAOS_SEED={seed} SLUICE_CHAOS_SECONDS={}", time.as_secs());
    let mut random = Random::new(seed);
    let server = ChaosServer::start().await;
    let mut scene = Scene::set(folder(&server.url()), server);
    let mut judge = Judge::default();
    let mut faults = random.shuffle(&FAULTS);
    let begun = Instant::now();
    for round in 0.. {
        // Each fault once, and then any.
        let Some(fault) = faults
            .pop()
            .or_else(|| (begun.elapsed() < time).then(|| FAULTS[random.below(FAULTS.len())]))
        else {
            println!("{round} faults");
            break;
        };
        let callers = Callers::start(&scene.address, round);
        scene.strike(fault, round, &mut random).await;
        scene.server.behave(Behaviour::Well);
        judge.hear(callers.finish().await);
        scene.check_recovery(fault, round).await;
        judge.receive(&scene.server);
    }
    let allowed = scene.read_log();
    judge.receive(&scene.server);
    judge.decide(&allowed, LIMIT);
}
