//! A gateway for one client, which has started this process and uses it over stdio.

pub(crate) mod name;

use std::{path::PathBuf, process::ExitStatus, sync::Arc};

use anyhow::{Context as _, anyhow};
use sluice_config::{Audit, Environment, Limits, Source, TIMEOUT};
use sluice_gateway::{Builtins, ClientTimes, Ended, Gateway, Hops, Settings, ShareLimits, Wrapped};
use sluice_http::{HttpUpstream, address::Reach};
use sluice_listener::AllowedCallers;
use sluice_stdio::{Errors, Launch, OnlyChild, Program};
use sluice_store::{
    AttachedPolicy, Bridge, Clock, HiddenText, Instances, Key, Name, Secret, Server,
    Source as Origin, Start as When, Store, StoreConfig, Transport,
};
use sluice_upstream::Upstream;
use sluice_wire::secrets::{KnownSecrets, Secrets};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

use crate::{
    data::{self, DataDirectory},
    output::Done,
    up::{self, history},
};

/// Private networks.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// What a wrap is started with.
pub(crate) struct WrapStart {
    pub(crate) name: Option<Name>,
    pub(crate) place: Place,
    pub(crate) bridge: Bridge,
    pub(crate) source: Source,
    pub(crate) data: PathBuf,
    pub(crate) environment: Environment,
}

/// The location of the server.
pub(crate) enum Place {
    Command(Vec<String>),
    Url { url: String, headers: Vec<(String, Secret)> },
}

/// Why the wrap stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The command has ended.
    Exited(Option<ExitStatus>),
    /// This signal was received.
    Told(u8),
}

/// Runs until the client closes its input, the command exits, or a signal arrives.
pub(crate) async fn run(start: WrapStart) -> anyhow::Result<Done> {
    let WrapStart { name, place, bridge, source, data, environment } = start;
    up::survive_file_limit()?;
    let data = DataDirectory::open(&data)?;
    data.check_claim().await?;
    let key = data.master_key()?;
    let name = name.map_or_else(|| name::of(&place), Ok)?;
    let policy = policy(&name, source)?;
    let hops = up::hops(&environment);
    // The command starts up while the store is opened. Nothing is sent to it until then.
    let (upstream, child) = open_upstream(&place, &name, &environment, &hops)?;
    let store = Store::open(StoreConfig {
        // As the gateway has set both.
        retention: None,
        durability: Audit::default().durability,
        directory: data.path().to_owned(),
        key: key.clone(),
        clock: Clock::System,
        accept_loss: false,
    })?;
    let _claim = data.claim();
    // This thread runs nothing but this client's calls.
    sluice_store::commit_on_this_thread();
    let admin_url = data::admin_url(data.path());
    let gateway = Gateway::new(settings(admin_url, key, hops), store.clone(), Builtins::new())
        .ok_or_else(|| anyhow!("the key in the data directory cannot be used"))?;
    let server = server(&name, place, bridge);
    let in_force = policy.clone();
    let wrapped = gateway.wrap(sluice_gateway::Wrap { server, upstream, policy })?;
    // Stops when the set is dropped.
    let mut upkeep = JoinSet::new();
    upkeep.spawn(up::expire(store.clone(), gateway.clone()));
    // The client and the command do not wait for the record of the start.
    let (done, ()) = tokio::join!(
        converse(&wrapped, child.as_deref()),
        history::record_wrap_start(&store, &in_force)
    );
    drop(upkeep);
    history::record_wrap_stop(&store, &in_force).await;
    store.close().await?;
    done
}

/// Connects the client and the server, and returns how the session ended.
async fn converse(wrapped: &Wrapped, child: Option<&OnlyChild>) -> anyhow::Result<Done> {
    let mut reason = None;
    let stop = async {
        let why = wait_for_stop(child).await;
        if let (Reason::Told(_), Some(child)) = (why, child) {
            child.close();
        }
        reason = Some(why);
    };
    let ended = wrapped.run(tokio::io::stdin(), tokio::io::stdout(), stop).await;
    if let Some(child) = child {
        child.close();
        child.wait_exit().await;
    }
    Ok(match (ended, reason) {
        (Ended::Stopped, Some(Reason::Exited(status))) => Done::As(code(status)),
        (Ended::Stopped, Some(Reason::Told(number))) => Done::As(128 + number),
        (Ended::BySession, _) => {
            anyhow::bail!("the server has forgotten the session\nhint: start the client again")
        }
        (Ended::ByClient | Ended::Stopped, _) => Done::Well,
    })
}

async fn wait_for_stop(child: Option<&OnlyChild>) -> Reason {
    let exited = async {
        match child {
            Some(child) => child.wait_exit().await,
            None => std::future::pending().await,
        }
    };
    let told = async |kind: SignalKind| match signal(kind) {
        Ok(mut signals) => signals.recv().await.map(|()| kind),
        Err(_) => std::future::pending().await,
    };
    let kind = tokio::select! {
        status = exited => return Reason::Exited(status),
        kind = told(SignalKind::interrupt()) => kind,
        kind = told(SignalKind::terminate()) => kind,
    };
    let number = kind.and_then(|kind| u8::try_from(kind.as_raw_value()).ok());
    Reason::Told(number.unwrap_or_default())
}

/// The exit code that the supervisor reported.
fn code(status: Option<ExitStatus>) -> u8 {
    let code = status.and_then(|status| status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Starts the command, or prepares the connection to the URL.
fn open_upstream(
    place: &Place,
    name: &Name,
    environment: &Environment,
    hops: &Hops,
) -> anyhow::Result<(Upstream, Option<Arc<OnlyChild>>)> {
    match place {
        Place::Command(command) => {
            let mut variables = environment.for_wrapped();
            variables.push(hops.variable());
            let launch = Launch {
                environment: variables,
                errors: Errors::Repeat,
                ..up::launch(environment)?
            };
            let secrets = find_secrets(command, environment);
            let program =
                Program { command: command.clone(), env: Vec::new(), secrets: secrets.clone() };
            let most = up::size(Limits::default().answer);
            let child = Arc::new(OnlyChild::start(name.as_str(), &launch, &program, most)?);
            Ok((Upstream::Only(Arc::clone(&child)).mask(secrets, true), Some(child)))
        }
        Place::Url { url, .. } => {
            // The user has named the address.
            let allowed = PRIVATE.iter().filter_map(|range| range.parse().ok()).collect();
            let reach = Reach { allowed, loopback: true };
            Ok((Upstream::Http(HttpUpstream::new(url, reach)?), None))
        }
    }
}

/// The secrets of a command, which inherits all variables of the client.
fn find_secrets(command: &[String], environment: &Environment) -> Secrets {
    let mut known = KnownSecrets::default();
    known.add_command(command);
    for (name, value) in environment.possible_secrets() {
        known.add_variable(&name, &value, false);
        known.add_possible(&value);
    }
    known.build()
}

fn server(name: &Name, place: Place, bridge: Bridge) -> Server {
    let transport = match place {
        Place::Command(command) => Transport::Command {
            command,
            env: Vec::new(),
            instances: Instances::Session,
            start: When::Up,
        },
        Place::Url { url, headers } => Transport::Http { url: Secret::new(url), headers },
    };
    let (name, timeout) = (name.clone(), TIMEOUT);
    Server {
        name,
        transport,
        timeout,
        anonymous_policy: None,
        bridge,
        hidden_text: HiddenText::default(),
        mask_secrets: true,
        source: Origin::File,
    }
}

/// The policy, under the name of its file.
fn policy(server: &Name, source: Source) -> anyhow::Result<AttachedPolicy> {
    let base_files = source.base_files();
    let (name, format) = (name::of_file(&source.name)?, source.format());
    let text = String::from_utf8(source.text).context("the policy is not valid UTF-8")?;
    let version = AttachedPolicy::version_of(&text);
    Ok(AttachedPolicy {
        server: server.clone(),
        name,
        text,
        format,
        version,
        source: Origin::File,
        base_files,
    })
}

fn settings(admin_url: String, key: Key, hops: Hops) -> Settings {
    let limits = Limits::default();
    Settings {
        // The only client uses stdio.
        callers: AllowedCallers::default(),
        is_loopback: false,
        bounds: up::bounds(&limits),
        in_flight: up::size(limits.in_flight),
        answer: up::size(limits.answer),
        reach: Reach::default(),
        launch: Launch::default(),
        shares: ShareLimits::NONE,
        hops,
        descriptors: up::descriptors(),
        times: ClientTimes::default(),
        admin_url,
        recorded: Vec::new(),
        key,
        clock: Clock::System,
    }
}
