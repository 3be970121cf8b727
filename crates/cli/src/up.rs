//! The running gateway: opens its resources, listens, and shuts down gracefully.

mod addresses;
mod banner;
mod declared;
mod demo;
mod extends;
mod heads;
pub(crate) mod history;
mod listeners;
mod live;
mod pharo;
mod reload;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::anyhow;
use sluice_admin::Live as _;
use sluice_config::{Audit, Config, Environment, Limits, Overrides};
use sluice_gateway::{Builtins, ClientTimes, Gateway, Hops, Settings, ShareLimits, Tls};
use sluice_http::address::Reach;
use sluice_listener::AllowedCallers;
use sluice_policy::ArgPath;
use sluice_stdio::{Launch, Supervisor};
use sluice_store::{
    Changes, Clock, Key, OpenError, Retention, ScrubStep, Server, Store, StoreConfig, Transport,
};
use sluice_wire::json::Bounds;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use crate::{clock, data::DataDirectory};
pub(crate) use addresses::Addresses;
use heads::HeadExporter;
use live::{LiveGateway, Process};

/// How often expired held calls are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);
/// The delay before another attempt, if the registry could not be read.
const RETRY: Duration = Duration::from_secs(5);
/// How often old records are looked for.
const PRUNE_EVERY: Duration = Duration::from_mins(10);

/// The pause between two parts of the store that are checked in the background, so that the check
/// takes little of the disk.
const SCRUB_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two checks of the whole store, and after one that failed.
const SCRUB_EVERY: Duration = Duration::from_hours(24);
const SCRUB_RETRY: Duration = Duration::from_mins(10);

/// With fewer places for clients than this, the limit of open files is probably a mistake.
const FEW_PLACES: usize = 1000;

/// What a gateway is started with.
pub(crate) struct GatewayStart {
    pub(crate) config: Config,
    pub(crate) overrides: Overrides,
    pub(crate) environment: Environment,
    pub(crate) demo: bool,
    /// Go on if records that were written are missing.
    pub(crate) accept_loss: bool,
}

/// Runs a gateway until it receives a signal to stop.
pub(crate) async fn run(start: GatewayStart) -> anyhow::Result<()> {
    let GatewayStart { config, overrides, environment, demo, accept_loss } = start;
    survive_file_limit()?;
    let data = DataDirectory::open(&config.data)?;
    data.check_claim().await?;
    let _lock = data.lock()?;
    let key = data.master_key()?;
    let versions = key.derive("configuration versions");
    let admin_token = data.admin_token(&environment)?;
    let store = open_store(&data, &config.audit, key.clone(), accept_loss)?;
    let _claim = data.claim();
    let demo = if demo { Some(demo::Demo::new(&data)?) } else { None };
    let tls = config.tls.as_ref().map(|tls| Tls::load(&tls.cert, &tls.key)).transpose()?;
    let agents = bind(config.listen, "--listen").await?;
    let admin_listener = bind(config.admin, "--admin").await?;
    let (listen, admin) = (agents.local_addr()?, admin_listener.local_addr()?);
    let addresses = Addresses::new(listen, admin, tls.is_some(), &config.allowed_hosts);
    data.servers()?;
    warn_of_withheld(&config, &environment);
    let settings = Settings {
        launch: launch(&environment)?,
        hops: hops(&environment),
        ..settings(&config, &addresses, key)?
    };
    let gateway = Gateway::new(settings, store.clone(), builtins())
        .ok_or_else(|| anyhow!("the key in the data directory cannot be used"))?;
    let reach = reach(&config);
    let process = Process { started_at: clock::now(), listen, admin, reach, versions };
    let heads = Arc::new(HeadExporter::new(&config, store.clone(), gateway.clone())?);
    let live = Arc::new(LiveGateway::new(gateway.clone(), store.clone(), demo, heads, process));
    let epoch = store.epoch().await?;
    let version = live.take(config.clone()).await.map_err(|error| anyhow!("{error}"))?;
    history::record_start(&store, &version).await?;
    // Before anybody learns that it runs, and sends one.
    let signals = Signals::listen()?;
    let run_file = data.announce(&addresses, clock::now())?;
    say_capacity(&gateway);
    addresses.warn_of_plain_text();
    let api = sluice_admin::Api::new(
        Arc::clone(&live),
        store.clone(),
        admin_token,
        api_settings(&config, admin)?,
    );
    let sign_in = api.issue_sign_in_link().unwrap_or_else(|| "/".into());
    // Last, because it ends with what to type next.
    let facts =
        banner::Facts { addresses: &addresses, data: data.path(), live: &live, sign_in: &sign_in };
    banner::show(&facts)?;
    let (ending, ended) = watch::channel(false);
    let watching = reload::watch(Arc::clone(&live), config.clone(), overrides, environment);
    let upkeep = keep_up(&live, &gateway, &store, &config.audit, epoch);
    let administering = listeners::serve_admin(admin_listener, api, until(ended.clone()))?;
    let listening = listeners::serve_agents(agents, gateway, tls, until(ended))?;
    tokio::spawn(end_on_signal(signals, ending));
    listening.finish().await;
    administering.finish().await;
    drop(upkeep);
    drop(watching);
    drop(run_file);
    close(store, &live).await
}

/// Records the stop, exports the last head, and closes the store.
async fn close(store: Store, live: &LiveGateway) -> anyhow::Result<()> {
    history::record_stop(&store).await;
    live.heads.export().await;
    Ok(store.close().await?)
}

/// The signals that ask for a shutdown.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }
}

/// Begins the shutdown when a signal asks for it.
async fn end_on_signal(mut signals: Signals, ending: watch::Sender<bool>) {
    tokio::select! {
        _ = signals.interrupt.recv() => {}
        _ = signals.terminate.recv() => {}
    }
    tracing::info!("shutting down: calls in flight may finish");
    ending.send_replace(true);
}

fn open_store(
    data: &DataDirectory,
    audit: &Audit,
    key: Key,
    accept_loss: bool,
) -> Result<Store, OpenError> {
    Store::open(StoreConfig {
        directory: data.path().to_owned(),
        durability: audit.durability,
        retention: Some(retention(audit)),
        key,
        clock: Clock::System,
        accept_loss,
    })
}

fn retention(audit: &Audit) -> Retention {
    let Audit { keep, keep_at_least, max_size, .. } = *audit;
    Retention { keep, keep_at_least, max_size }
}

/// Starts the periodic tasks: pruning, expiry, checking the store, export of heads, and following changes of the registry.
/// They stop when the set is dropped.
fn keep_up(
    live: &Arc<LiveGateway>,
    gateway: &Gateway,
    store: &Store,
    audit: &Audit,
    epoch: u64,
) -> JoinSet<()> {
    let mut upkeep = JoinSet::new();
    upkeep.spawn(prune(store.clone(), retention(audit)));
    upkeep.spawn(expire(store.clone(), gateway.clone()));
    upkeep.spawn(scrub(store.clone()));
    let heads = Arc::clone(&live.heads);
    upkeep.spawn(async move { heads.run().await });
    upkeep.spawn(follow_registry(Arc::clone(live), store.changes(epoch)));
    upkeep
}

/// Waits until the gateway is to stop.
async fn until(mut ended: watch::Receiver<bool>) {
    // An error means that the sender is gone, which also ends the wait.
    let _ = ended.wait_for(|ended| *ended).await;
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow!(
                "something else listens on {address}\nhint: choose another address with `{flag}`"
            )
        }
        _ => anyhow!(
            "cannot listen on {address}: {error}\nhint: choose another address with `{flag}`"
        ),
    })
}

/// The host names under which this listener may be called, and the origins that may call it.
fn allowed_callers(address: SocketAddr, config: &Config) -> anyhow::Result<AllowedCallers> {
    let mut hosts: Vec<_> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    hosts.push(address.ip().to_string());
    hosts.extend(addresses::own_address(address).map(|own| own.to_string()));
    hosts.extend_from_slice(&config.allowed_hosts);
    Ok(AllowedCallers::new(hosts, &config.allowed_origins)?)
}

pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn settings(config: &Config, addresses: &Addresses, key: Key) -> anyhow::Result<Settings> {
    let limits = &config.limits;
    Ok(Settings {
        callers: allowed_callers(addresses.listen, config)?,
        is_loopback: addresses.listen.ip().is_loopback(),
        bounds: bounds(limits),
        in_flight: size(limits.in_flight),
        answer: size(limits.answer),
        reach: reach(config),
        launch: Launch::default(),
        shares: shares(limits),
        hops: Hops::new(clock::now(), None),
        descriptors: descriptors(),
        times: ClientTimes::default(),
        admin_url: addresses.admin_url.clone(),
        recorded: config.audit.values.iter().filter_map(|path| ArgPath::parse(path)).collect(),
        key,
        clock: Clock::System,
    })
}

/// This gateway, and those that it was started through.
pub(crate) fn hops(environment: &Environment) -> Hops {
    let inherited = environment.get(Hops::variable_name()).and_then(|text| text.to_str());
    Hops::new(clock::now(), inherited)
}

/// The addresses that servers may have; those of the configuration file may be on this machine too.
fn reach(config: &Config) -> Reach {
    Reach { allowed: config.allow_private.clone(), loopback: false }
}

fn shares(limits: &Limits) -> ShareLimits {
    ShareLimits {
        calls: size(limits.calls),
        streams: size(limits.streams),
        sessions: size(limits.sessions),
        children: size(limits.children),
        subscriptions: size(limits.subscriptions),
        server_calls: size(limits.server_calls),
    }
}

/// Bounds on a request.
pub(crate) fn bounds(limits: &Limits) -> Bounds {
    let nodes = size(limits.nodes);
    Bounds {
        bytes: size(limits.body),
        depth: size(limits.depth),
        string: size(limits.string),
        members: nodes,
        nodes,
        ..Bounds::default()
    }
}

fn api_settings(config: &Config, admin: SocketAddr) -> anyhow::Result<sluice_admin::Settings> {
    Ok(sluice_admin::Settings {
        callers: allowed_callers(admin, config)?,
        are_metrics_open: config.are_metrics_open,
        catalog: crate::data::catalog_file(&config.data),
    })
}

/// This program itself starts the commands of servers, and stops them even if the gateway is
/// killed.
pub(crate) fn launch(environment: &Environment) -> io::Result<Launch> {
    let program = std::env::current_exe()?;
    let supervisor = Supervisor { program, arguments: vec!["supervise".into()] };
    let environment = environment.for_children();
    Ok(Launch { supervisor: Some(supervisor), environment, ..Launch::default() })
}

/// Warns about variables that commands do not inherit.
fn warn_of_withheld(config: &Config, environment: &Environment) {
    let is_command = |server: &Server| matches!(server.transport, Transport::Command { .. });
    if !config.servers.iter().any(is_command) {
        return;
    }
    for variable in environment.list_withheld() {
        tracing::warn!(
            variable,
            "commands do not inherit this variable, because it holds a credential; name it in the `env` of a server that needs it: `env = {{ {variable} = \"env:{variable}\" }}`"
        );
    }
}

/// The built-in servers.
fn builtins() -> Builtins {
    Builtins::from([
        ("demo", demo::server as sluice_gateway::MakeBuiltin),
        ("pharo", pharo::server),
    ])
}

/// Removes old records periodically.
async fn prune(store: Store, retention: Retention) {
    loop {
        if let Err(error) = store.prune(retention).await {
            tracing::error!(%error, "old records could not be removed");
        }
        tokio::time::sleep(PRUNE_EVERY).await;
    }
}

/// Checks the whole store slowly, part by part, again and again. What it finds is in the store's
/// health.
async fn scrub(store: Store) {
    loop {
        let pause = match store.scrub().await {
            Ok(ScrubStep::GoOn) => SCRUB_PAUSE,
            Ok(ScrubStep::Finished) => SCRUB_EVERY,
            Err(error) => {
                tracing::warn!(%error, "the check of the store was cut short");
                SCRUB_RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Expires held calls whose time is over, now and periodically.
pub(crate) async fn expire(store: Store, gateway: Gateway) {
    loop {
        let expired = store.expire().await;
        let pending = store.pending_approvals().await;
        match (expired, pending) {
            (Ok(expired), Ok(pending)) => gateway.note_approvals(expired, pending.len()),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "held calls could not be expired");
            }
        }
        tokio::time::sleep(EXPIRE_EVERY).await;
    }
}

/// Applies changes that other processes make to the registry.
async fn follow_registry(live: Arc<LiveGateway>, mut changes: Changes) {
    loop {
        match changes.next().await {
            // This process applies its own changes itself.
            Ok(change) if !change.is_foreign => {}
            Ok(_) => {
                if let Err(error) = live.take_stored().await {
                    tracing::error!(%error, "changes by another process cannot be applied");
                }
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the registry cannot be read: the active configuration may be out of date"
                );
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Lets a limit of the size of files (`ulimit -f`) fail writes, as a full disk does; the signal for it
/// would end the process.
pub(crate) fn survive_file_limit() -> io::Result<()> {
    // Once it is handled, it stays so.
    let handled = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    signal(handled).map(drop)
}

/// Raises the limit of open files to the maximum that the system allows.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Says how many clients can be served, as an operator must know before they come.
fn say_capacity(gateway: &Gateway) {
    let (open_files, places) = (descriptors(), gateway.capacity());
    if places < FEW_PLACES {
        tracing::warn!(
            open_files,
            places,
            "few clients can connect at a time: raise the hard limit of open files (`ulimit -Hn`, `LimitNOFILE=`)"
        );
    } else {
        tracing::info!(open_files, places, "places for connections and streams of clients");
    }
}

pub(crate) fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, size)
}
