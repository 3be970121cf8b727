//! The running gateway: opens its resources, listens, and shuts down gracefully.

mod banner;
mod demo;
mod history;
mod listeners;
mod live;
mod pharo;
mod reload;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::anyhow;
use sluice_admin::Live as _;
use sluice_config::{Audit, Config, Environment, Limits, Overrides};
use sluice_gateway::{Builtins, Gateway, Settings, Tls};
use sluice_http::address::Reach;
use sluice_listener::AllowedCallers;
use sluice_policy::ArgPath;
use sluice_stdio::{Launch, Supervisor};
use sluice_store::{Changes, Clock, Key, OpenError, Server, Store, StoreConfig, Transport};
use sluice_wire::json::Bounds;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{clock, data::DataDirectory};
use live::{LiveGateway, Process};

/// How often expired held calls are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);
/// The delay before another attempt, if the registry could not be read.
const RETRY: Duration = Duration::from_secs(5);
/// How often old records are looked for.
const PRUNE_EVERY: Duration = Duration::from_mins(10);

/// What a gateway is started with.
pub(crate) struct GatewayStart {
    pub(crate) config: Config,
    pub(crate) overrides: Overrides,
    pub(crate) environment: Environment,
    pub(crate) demo: bool,
}

/// Runs a gateway until it receives a signal to stop.
pub(crate) async fn run(start: GatewayStart) -> anyhow::Result<()> {
    let GatewayStart { config, overrides, environment, demo } = start;
    let data = DataDirectory::open(&config.data)?;
    let _lock = data.lock()?;
    let key = Key::from_bytes(data.master_key()?);
    let versions = key.derive("configuration versions");
    let admin_token = data.admin_token(&environment)?;
    let store = open_store(&data, &config.audit, key.clone())?;
    let demo = if demo { Some(demo::Demo::new(&data)?) } else { None };
    let tls = config.tls.as_ref().map(|tls| Tls::load(&tls.cert, &tls.key)).transpose()?;
    let agents = bind(config.listen, "--listen").await?;
    let people = bind(config.admin, "--admin").await?;
    let (listen, admin) = (agents.local_addr()?, people.local_addr()?);
    data.servers()?;
    warn_of_withheld(&config, &environment);
    let settings =
        Settings { launch: launch(&environment)?, ..settings(&config, listen, admin, key)? };
    let gateway = Gateway::new(settings, store.clone(), builtins())
        .ok_or_else(|| anyhow!("the key in the data directory cannot be used"))?;
    let process = Process { started_at: clock::now(), listen, admin, versions };
    let live = Arc::new(LiveGateway::new(gateway.clone(), store.clone(), demo, process));
    let epoch = store.epoch().await?;
    let version = live.take(config.clone()).await.map_err(|error| anyhow!("{error}"))?;
    history::record_start(&store, &version).await?;
    let run_file = data.announce(listen, admin, tls.is_some(), clock::now())?;
    banner::show(&banner::Facts {
        listen,
        admin,
        is_tls: tls.is_some(),
        data: data.path(),
        live: &live,
    })?;
    let (ending, ended) = watch::channel(false);
    let watching = reload::watch(Arc::clone(&live), config.clone(), overrides, environment);
    let upkeep = keep_up(&live, &store, &config.audit, epoch);
    let api = sluice_admin::Api::new(
        Arc::clone(&live),
        store.clone(),
        admin_token,
        api_settings(&config, admin)?,
    );
    let administering = listeners::serve_people(people, api, until(ended.clone()))?;
    let listening = listeners::serve_agents(agents, gateway, tls, until(ended))?;
    tokio::spawn(async move {
        told_to_end().await;
        tracing::info!("shutting down: calls in flight may finish");
        ending.send_replace(true);
    });
    listening.finish().await;
    administering.finish().await;
    drop(upkeep);
    drop(watching);
    drop(run_file);
    history::record_stop(&store).await;
    store.close().await?;
    Ok(())
}

fn open_store(data: &DataDirectory, audit: &Audit, key: Key) -> Result<Store, OpenError> {
    Store::open(StoreConfig {
        directory: data.path().to_owned(),
        durability: audit.durability,
        key,
        clock: Clock::System,
    })
}

/// Starts the periodic tasks: pruning, expiry, and following changes of the registry.
/// They stop when the set is dropped.
fn keep_up(live: &Arc<LiveGateway>, store: &Store, audit: &Audit, epoch: u64) -> JoinSet<()> {
    let mut upkeep = JoinSet::new();
    upkeep.spawn(prune(store.clone(), audit.keep, audit.max_size));
    upkeep.spawn(expire(store.clone()));
    upkeep.spawn(follow_registry(Arc::clone(live), store.changes(epoch)));
    upkeep
}

/// Waits until the gateway is to stop.
async fn until(mut ended: watch::Receiver<bool>) {
    // An error means that the sender is gone, which also ends the wait.
    let _ = ended.wait_for(|ended| *ended).await;
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
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
    hosts.extend_from_slice(&config.allowed_hosts);
    Ok(AllowedCallers::new(hosts, &config.allowed_origins)?)
}

pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn settings(
    config: &Config,
    listen: SocketAddr,
    admin: SocketAddr,
    key: Key,
) -> anyhow::Result<Settings> {
    let limits = &config.limits;
    Ok(Settings {
        callers: allowed_callers(listen, config)?,
        is_loopback: listen.ip().is_loopback(),
        bounds: bounds(limits),
        answer: size(limits.answer),
        reach: Reach { allowed: config.allow_private.clone(), loopback: false },
        launch: Launch::default(),
        descriptors: descriptors(),
        people: format!("http://{admin}"),
        recorded: config.audit.values.iter().filter_map(|path| ArgPath::parse(path)).collect(),
        key,
        clock: Clock::System,
    })
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
        is_loopback: admin.ip().is_loopback(),
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
async fn prune(store: Store, keep: Duration, most: u64) {
    loop {
        if let Err(error) = store.prune(keep, most).await {
            tracing::error!(%error, "old records could not be removed");
        }
        tokio::time::sleep(PRUNE_EVERY).await;
    }
}

/// Expires held calls whose time is over.
async fn expire(store: Store) {
    loop {
        if let Err(error) = store.expire().await {
            tracing::error!(%error, "held calls could not be expired");
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

/// Raises the limit of open files to the maximum that the system allows.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

pub(crate) fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, size)
}
