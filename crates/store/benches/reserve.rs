//! What a call costs the store: a reservation that is waited for, and its
//! outcome that is not.
//!
//! Prints, for so many callers at once, the processor time a call takes in the
//! store's own threads and in those of its callers, and how often threads had to
//! be woken for it: times of day say little on a busy machine. Numbers on the
//! command line are callers and calls, instead of the usual ones. Between calls
//! a caller is busy for some tens of microseconds, as the gateway is.

use std::{
    fs,
    hint::black_box,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use sluice_policy::{Amount, Scope, Timestamp, Window};
use sluice_store::{
    Charge, Clock, CounterKey, Durability, GrantRef, Key, Kind, Outcome, PolicyRef, Record,
    Reservation, Store, StoreConfig, UpstreamRef, new_id,
};

/// Long enough for the log to be checkpointed several times.
const CALLS: u32 = 100_000;
/// Turns of a loop, of a fraction of a nanosecond each.
const BUSY: u32 = 100_000;
const NOW: Timestamp = Timestamp::from_millis(1_794_724_740_000);

/// What all calls together have waited for, in microseconds.
static WAITED: AtomicU64 = AtomicU64::new(0);

fn main() -> io::Result<()> {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let (callers, calls) = (numbers.next(), numbers.next().unwrap_or(CALLS));
    writeln!(
        io::stdout(),
        "{:>8} {:>16} {:>16} {:>16} {:>16} {:>16} {:>16} {:>16}",
        "callers",
        "store µs/call",
        "behind µs/call",
        "callers µs/call",
        "store wakes",
        "callers' wakes",
        "µs until answered",
        "bytes a call"
    )?;
    for callers in callers.map_or(vec![1, 16, 64], |callers| vec![callers]) {
        measure(callers, calls)?;
    }
    Ok(())
}

fn measure(callers: u32, calls: u32) -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("sluice-reserve-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(sluice_store::commit_on_this_thread)
        .build()?;
    let store = Store::open(StoreConfig {
        retention: None,
        directory: folder.clone(),
        durability: Durability::Process,
        key: Key::from_bytes([7; 32]),
        clock: Clock::System,
        accept_loss: false,
    })
    .expect("the store opens");
    runtime.block_on(drive(&store, callers, calls / 10));
    let before = Usage::now()?;
    runtime.block_on(drive(&store, callers, calls));
    let after = Usage::now()?;
    runtime.block_on(store.close()).expect("the store closes");
    let bytes = fs::metadata(folder.join("sluice.db"))?.len();
    let recorded = u64::from(calls + calls / 10);
    let each = |thread: fn(&Usage) -> u64| {
        let used = thread(&after) - thread(&before);
        f64::from(u32::try_from(used).unwrap_or(u32::MAX)) / f64::from(calls)
    };
    writeln!(
        io::stdout(),
        "{callers:>8} {:>16.2} {:>16.2} {:>16.2} {:>16.3} {:>16.3} {:>16.1} {:>16}",
        each(|usage| usage.store.micros),
        each(|usage| usage.behind.micros),
        each(|usage| usage.callers.micros),
        each(|usage| usage.store.wakes),
        each(|usage| usage.callers.wakes),
        each(|usage| usage.waited),
        bytes / recorded,
    )?;
    fs::remove_dir_all(&folder)
}

/// Lets so many callers make so many calls between them.
async fn drive(store: &Store, callers: u32, calls: u32) {
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (store, texts) = (store.clone(), Texts::new());
            tokio::spawn(async move {
                for _ in 0..calls / callers {
                    let decision = texts.decision();
                    let outcome = texts.outcome(&decision);
                    let started = now();
                    let id = decision.request.unwrap_or(decision.id);
                    let reservation = Reservation {
                        id,
                        charges: vec![texts.charge()],
                        leases: Vec::new(),
                        record: decision.into(),
                    };
                    let made = store.reserve(reservation).await;
                    made.expect("the store takes the call");
                    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(0);
                    WAITED.fetch_add(micros, Ordering::Relaxed);
                    be_busy();
                    store.append_deferred(outcome);
                    be_busy();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no caller fails");
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures")]
fn now() -> Instant {
    Instant::now()
}

fn be_busy() {
    (0..BUSY).for_each(|number| {
        black_box(number);
    });
}

/// What the records of a caller have in common.
struct Texts {
    key: CounterKey,
    server: Arc<str>,
    tool: Arc<str>,
    session: Arc<str>,
    grant: GrantRef,
    policy: PolicyRef,
}

impl Texts {
    fn new() -> Texts {
        Texts {
            key: CounterKey::new("ledger", Scope::Grant, "01KA2E8DXT5T4K0MHKBVX2TDSR", "calls"),
            server: "ledger".into(),
            tool: "transfer_money".into(),
            session: "01KA2E8DXT5T4K0MHKBVX2TDSS".into(),
            grant: GrantRef { id: "01KA2E8DXT5T4K0MHKBVX2TDSR".into(), label: "laptop".into() },
            policy: PolicyRef { name: "standard".into(), version: "ba7816bf8f01cfea".into() },
        }
    }

    fn charge(&self) -> Charge {
        Charge {
            key: self.key.clone(),
            window: Window::Minute,
            amount: Amount::ONE,
            max: Amount::whole(1 << 40),
        }
    }

    fn decision(&self) -> Record {
        let mut record = Record::new(new_id(NOW), NOW, Kind::Decision);
        record.request = Some(record.id);
        record.server = Some(Arc::clone(&self.server));
        record.grant = Some(self.grant.clone());
        record.session = Some(Arc::clone(&self.session));
        record.method = Some("tools/call".into());
        record.tool = Some(Arc::clone(&self.tool));
        record.outcome = Some(Outcome::Allow);
        record.policy = Some(self.policy.clone());
        record.arg_keys = ["amount", "currency", "to"].map(String::from).to_vec();
        record.arg_digest = Some([0xb6; 32]);
        record.micros = Some(41);
        record
    }

    fn outcome(&self, decision: &Record) -> Record {
        let mut record = Record::new(new_id(NOW), NOW, Kind::Outcome);
        record.request = decision.request;
        record.server = Some(Arc::clone(&self.server));
        record.grant = Some(self.grant.clone());
        record.method = Some("tools/call".into());
        record.tool = Some(Arc::clone(&self.tool));
        record.outcome = Some(Outcome::Allow);
        record.upstream =
            Some(UpstreamRef { status: Some(200), is_error: Some(false), micros: 812 });
        record.micros = Some(901);
        record
    }
}

/// What threads have used so far.
#[derive(Default)]
struct Used {
    micros: u64,
    /// How often they slept.
    wakes: u64,
}

/// What all threads of this process have used so far, by what they are for.
#[derive(Default)]
struct Usage {
    store: Used,
    behind: Used,
    callers: Used,
    waited: u64,
}

impl Usage {
    fn now() -> io::Result<Usage> {
        let waited = WAITED.load(Ordering::Relaxed);
        let mut usage = Usage { waited, ..Usage::default() };
        for thread in fs::read_dir("/proc/self/task")? {
            let path = thread?.path();
            let text = |name: &str| fs::read_to_string(path.join(name));
            let used = match text("comm")?.trim() {
                "store" => &mut usage.store,
                "checkpoints" => &mut usage.behind,
                _ => &mut usage.callers,
            };
            let number = |text: &str| text.trim().parse::<u64>().unwrap_or_default();
            let nanos = text("schedstat")?.split(' ').next().map_or(0, number);
            used.micros += nanos / 1000;
            let status = text("status")?;
            let wakes =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            used.wakes += wakes.map_or(0, number);
        }
        Ok(usage)
    }
}
