//! The threads of the two listeners. Neither ever commits: even if the disk stalls, the agent
//! listener accepts connections and answers health probes, and the admin listener answers. Calls
//! run on other threads.

use std::{io, thread};

use sluice_admin::Api;
use sluice_gateway::{Commits, Gateway, Threads, Tls};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::oneshot,
};

/// A listener on a thread of its own.
pub(super) struct Listening {
    /// Resolves when the listener has stopped.
    ended: oneshot::Receiver<()>,
    /// Dropped to let the thread exit, with all tasks that were spawned on it.
    _release: oneshot::Sender<()>,
}

impl Listening {
    /// Waits until the listener has stopped, then lets its thread exit.
    pub(super) async fn finish(self) {
        // An error means that the thread has failed, so the listener has stopped too.
        let _ = self.ended.await;
    }
}

/// Serves agents until `end` resolves.
pub(super) fn serve_agents(
    listener: TcpListener,
    gateway: Gateway,
    tls: Option<Tls>,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Listening> {
    let runtime = start_runtime()?;
    let listener = move_to(&runtime, listener)?;
    // With TLS, probes are answered on the threads of calls, which must then not commit.
    let commits = if tls.is_some() { Commits::Apart } else { Commits::WithCalls };
    let threads = Threads::start(commits)?;
    run("agents", runtime, async move { gateway.serve(listener, tls, &threads, end).await })
}

/// Serves the admin API until `end` resolves.
pub(super) fn serve_admin(
    listener: TcpListener,
    api: Api,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Listening> {
    let runtime = start_runtime()?;
    let listener = move_to(&runtime, listener)?;
    run("admin", runtime, api.serve(listener, end))
}

fn start_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Registers a listener with another runtime.
fn move_to(runtime: &Runtime, listener: TcpListener) -> io::Result<TcpListener> {
    let listener = listener.into_std()?;
    let _runtime = runtime.enter();
    TcpListener::from_std(listener)
}

fn run(
    name: &str,
    runtime: Runtime,
    serve: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Listening> {
    let (tell, ended) = oneshot::channel();
    let (release, released) = oneshot::channel::<()>();
    let run = move || {
        runtime.block_on(async move {
            serve.await;
            let _ = tell.send(());
            // Calls may still use tasks of this runtime, such as the process of a server.
            let _ = released.await;
        });
        runtime.shutdown_background();
    };
    thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(Listening { ended, _release: release })
}
