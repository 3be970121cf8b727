//! The operations of an administrator, one file per noun, without any HTTP types.
//!
//! A write and its audit record are one transaction, and the running gateway
//! applies the write before it is answered. If the gateway cannot apply it, the
//! write is undone.

mod access;
mod approvals;
mod audit;
mod catalog;
pub(crate) mod events;
mod explain;
mod grants;
mod people;
mod policies;
mod servers;
mod sign_in;
mod tokens;

use std::{path::PathBuf, sync::Arc};

use sluice_policy::{Problem, file::check::nearest};
use sluice_store::{Actor, Edit, Name, Store, StoreError};
use tokio::sync::Mutex;

pub(crate) use self::{
    access::{AccessFilter, AccessPage, AccessRow},
    explain::SupposedCall,
    grants::{GrantChanges, GrantFilter, GrantPage, IssuedToken, SeenGrant, WantedGrant},
    people::{Invited, PersonChanges, WantedPerson, person_version},
    policies::PutPolicy,
    servers::{ServerChanges, WantedServer},
    tokens::WantedToken,
};
use self::{catalog::CatalogFile, events::EventHub};
use crate::live::Live;

/// The operations of an administrator on one gateway.
pub(crate) struct Ops {
    live: Arc<dyn Live>,
    store: Store,
    catalog: CatalogFile,
    events: EventHub,
    /// Serialises writes: the state that was checked before a write cannot change until the write
    /// is done, and undoing one write cannot undo another.
    writing: Mutex<()>,
}

/// Why an operation was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("there is no {0}")]
    Missing(String),
    #[error("{0} is declared in the configuration file\nhint: change it there")]
    Declared(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Invalid(String),
    #[error("the policy has problems")]
    Problems(Vec<Problem>),
    #[error("{0} has changed since it was read\nhint: read it again, then repeat the change")]
    Stale(String),
    #[error(
        "servers that are started as a command cannot be added or changed over HTTP\nhint: use the configuration file, or `sluice server` on the gateway's machine"
    )]
    Command,
    #[error("cannot list the tools of `{server}`: {why}")]
    Silent { server: Name, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Catalog(String),
    #[error(transparent)]
    Readers(events::TooManyReaders),
    #[error("the operation was aborted before it finished")]
    Lost,
}

impl Ops {
    pub(crate) fn new(live: Arc<dyn Live>, store: Store, catalog: PathBuf) -> Ops {
        let events = EventHub::new(Arc::clone(&live), store.clone());
        Ops { live, store, catalog: CatalogFile::new(catalog), events, writing: Mutex::new(()) }
    }

    pub(crate) fn live(&self) -> &dyn Live {
        &*self.live
    }

    pub(crate) fn events(&self) -> &EventHub {
        &self.events
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}

/// The most names that a hint lists.
const MOST_LISTED: usize = 10;

/// Refuses a name that nothing has, and says which names there are.
fn refuse_missing<'n>(
    what: &str,
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Refused {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let hint = match nearest(wanted, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "there are none yet".to_owned(),
        None => {
            let more = if names.len() > MOST_LISTED { ", …" } else { "" };
            names.truncate(MOST_LISTED);
            format!("there are: {}{more}", names.join(", "))
        }
    };
    Refused::Missing(format!("{what}\nhint: {hint}"))
}

/// Which version of an object the caller of a write expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Any, or none.
    Anything,
    /// Any version.
    Something,
    /// One of these versions.
    Versions(Vec<String>),
    /// No such object.
    Nothing,
}

impl Expected {
    fn admits(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (Expected::Anything, _)
            | (Expected::Something, Some(_))
            | (Expected::Nothing, None) => true,
            (Expected::Versions(versions), Some(current)) => {
                versions.iter().any(|version| version == current)
            }
            _ => false,
        }
    }
}

/// A change by this actor, with the message of its audit record.
fn build_edit(actor: &Actor, message: String) -> Edit {
    Edit { actor: actor.clone(), message }
}

/// Parses a name; the error says what is wrong with it.
pub(crate) fn parse_name(text: &str) -> Result<Name, Refused> {
    Name::new(text).map_err(|error| Refused::Invalid(error.to_string()))
}
