//! A claim says, outside the data directory, that its database is in use. If the directory was
//! removed or renamed, nothing in it can say so, and the next process would silently make a second
//! database with limits of its own.
//!
//! On Linux it is an abstract Unix socket, named after user and directory, which ends with its
//! process. It is made when the database exists. A process that finds a claim but no database
//! knows that there was one. One process can hold it; others that share the directory go without.

use super::{DataDirectory, DataError};

/// Held as long as the process uses the database.
#[derive(Debug)]
pub(crate) struct Claim {
    #[cfg(target_os = "linux")]
    _answering: tokio::task::JoinSet<()>,
}

impl DataDirectory {
    /// Fails if a process of this user uses a database of this directory that is not there.
    pub(crate) async fn check_claim(&self) -> Result<(), DataError> {
        if self.is_claimed().await && !sluice_store::Store::exists(&self.path) {
            return Err(DataError::Claimed(self.path.clone()));
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    use data_encoding::HEXLOWER;
    use rustix::process::getuid;
    use sluice_store::Key;
    use tokio::{
        net::{UnixListener, UnixStream},
        task::JoinSet,
    };

    use super::{Claim, DataDirectory};

    /// The process that holds a claim answers at once, unless it is stopped.
    const PATIENCE: Duration = Duration::from_secs(1);

    impl DataDirectory {
        /// Claims the directory; `None` if another process has done so.
        pub(crate) fn claim(&self) -> Option<Claim> {
            let listener = UnixListener::bind(self.claim_name()?).ok()?;
            let mut answering = JoinSet::new();
            answering.spawn(async move {
                // Taking connections keeps room for the next one.
                while listener.accept().await.is_ok() {}
            });
            Some(Claim { _answering: answering })
        }

        /// Whether a process of this user holds the claim.
        pub(super) async fn is_claimed(&self) -> bool {
            let Some(name) = self.claim_name() else { return false };
            let connected = tokio::time::timeout(PATIENCE, UnixStream::connect(name)).await;
            let Ok(Ok(stream)) = connected else { return false };
            // Anybody can take a name.
            stream.peer_cred().is_ok_and(|holder| holder.uid() == getuid().as_raw())
        }

        /// Begins with a zero byte, which makes it abstract. A digest, because it must be short.
        fn claim_name(&self) -> Option<String> {
            let path = self.path.canonicalize().ok()?;
            let digest = Key::from_bytes([0; 32]).derive(path.to_str()?);
            let (start, _) = digest.as_bytes().split_at(16);
            let user = getuid().as_raw();
            Some(format!("\0sluicegate-{user}-{}", HEXLOWER.encode(start)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl DataDirectory {
    pub(crate) fn claim(&self) -> Option<Claim> {
        None
    }

    async fn is_claimed(&self) -> bool {
        false
    }
}
