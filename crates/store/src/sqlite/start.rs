//! The checks of a database before it is written on: is it what its head says, and is
//! nothing of it missing?

use std::{path::Path, sync::Arc};

use rusqlite::Connection;

use super::{
    Keys, compare,
    open::{self, display, open_error},
    read, schema,
    sums::{self, RunningSums},
    time,
    writer::{Files, Writer},
};
use crate::{
    OpenError, StoreConfig, StoreError,
    actor::Actor,
    chain::ChainEnd,
    head::{Disagreement, Extent, Head, HeadFile, Sums},
    id,
    record::{Kind, Outcome, Record},
};

/// Records checked against their chain when the store opens; the rest are checked on
/// demand.
const CHECKED_AT_START: i64 = 1_000;

/// What was found of an existing database.
enum Finding {
    Whole(HeadFile, Extent),
    /// The head is older than the log, as after a power loss.
    Older(HeadFile, String),
    /// Something is missing or was changed; the head, if there is one.
    Lost(Option<HeadFile>, String),
}

/// Opens a database for writing. If something of it is missing, that must be accepted, and
/// is recorded.
pub(super) fn start(
    path: &Path,
    config: &StoreConfig,
    keys: &Arc<Keys>,
) -> Result<Writer, OpenError> {
    let connection = open::open(path, config, keys)?;
    let failed = |error| open_error(path, &error);
    let altered = schema::find_alteration(&connection).map_err(failed)?;
    if let Some(change) = altered {
        let what = format!("its schema was changed: {change}");
        return Err(OpenError::Damaged { path: display(path), what });
    }
    let sums = RunningSums::install(&connection, &keys.sums).map_err(failed)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let (head, extent, note) = match inspect(&connection, path, config, keys)? {
        Finding::Whole(head, extent) => (head, extent, None),
        Finding::Older(head, what) => {
            (head, survey(&connection, keys).map_err(failed)?, Some(what))
        }
        Finding::Lost(_, what) if !config.accept_loss => {
            return Err(OpenError::Lost { path: display(path), what });
        }
        Finding::Lost(head, what) => {
            let extent = survey(&connection, keys).map_err(failed)?;
            let head = match head {
                Some(head) => head,
                None => replace_head(&connection, config, keys, extent)?,
            };
            let note = format!("a loss was accepted with `--accept-loss`: {what}");
            (head, extent, Some(note))
        }
    };
    let incarnation = compare::read_incarnation(&connection).map_err(failed)?;
    let time = time::resume(&connection, &config.clock).map_err(failed)?;
    let files = Files { connection, head, incarnation, sums, extent, time };
    let mut writer = Writer::new(files, &config.directory, Arc::clone(keys), config.clock.clone());
    let noted = match note {
        Some(note) => record_note(&mut writer, extent.sums, note),
        None => writer.connection().execute_batch("ROLLBACK").map_err(StoreError::from),
    };
    match noted.and_then(|()| writer.agree_on(config.retention, config.durability)) {
        Ok(()) => Ok(writer),
        Err(error) => Err(OpenError::Damaged { path: display(path), what: error.to_string() }),
    }
}

/// Compares the database with its head, and checks its newest records.
fn inspect(
    connection: &Connection,
    path: &Path,
    config: &StoreConfig,
    keys: &Keys,
) -> Result<Finding, OpenError> {
    let (failed, directory) = (|error| open_error(path, &error), &*config.directory);
    let head_failed = |source| open::head_error(directory, source);
    let verified = read::verify_last(connection, &keys.chain, CHECKED_AT_START).map_err(failed)?;
    let file = HeadFile::open(directory, &keys.master, true).map_err(head_failed)?;
    let Some(file) = file else {
        return Ok(Finding::Lost(None, Disagreement::NoHead.to_string()));
    };
    let mode = file.mode().map_err(head_failed)?;
    if mode & 0o077 != 0 {
        return Err(OpenError::Mode { path: display(&HeadFile::path(directory)), mode });
    }
    let Some(head) = file.read().map_err(head_failed)? else {
        return Ok(Finding::Lost(Some(file), Disagreement::BadHead.to_string()));
    };
    let fault = verified.faults.first();
    match compare::compare(connection, &head, &keys.sums, &sums::SMALL).map_err(failed)? {
        Ok(sums) if fault.is_none() => {
            let end = compare::read_end(connection).map_err(failed)?;
            Ok(Finding::Whole(file, Extent { end, sums }))
        }
        Err(older @ Disagreement::OldHead(_)) if fault.is_none() => {
            let what = format!(
                "{older}, as after a power loss: counters, grants and the index of the log could not be compared"
            );
            Ok(Finding::Older(file, what))
        }
        Err(disagreement) => Ok(Finding::Lost(Some(file), disagreement.to_string())),
        Ok(_) if !config.accept_loss => {
            let what = fault.map(ToString::to_string).unwrap_or_default();
            Err(OpenError::Damaged { path: display(path), what })
        }
        Ok(_) => Ok(Finding::Lost(Some(file), fault.map(ToString::to_string).unwrap_or_default())),
    }
}

/// The state that the database is in.
fn survey(connection: &Connection, keys: &Keys) -> rusqlite::Result<Extent> {
    let sums = sums::compute(connection, &keys.sums, &sums::ALL)?;
    Ok(Extent { end: compare::read_end(connection)?, sums })
}

/// Creates a head that vouches for nothing yet: the record of the loss is written with it.
fn replace_head(
    connection: &Connection,
    config: &StoreConfig,
    keys: &Keys,
    extent: Extent,
) -> Result<HeadFile, OpenError> {
    let incarnation = compare::read_incarnation(connection)
        .map_err(|error| open_error(&config.directory, &error))?;
    let head = Head::of_new(incarnation, Extent { end: ChainEnd::NONE, ..extent });
    HeadFile::create(&config.directory, &keys.master, &head)
        .map_err(|source| open::head_error(&config.directory, source))
}

/// Goes on from the database as it is, within the transaction that has begun, and records
/// why.
fn record_note(writer: &mut Writer, sums: Sums, note: String) -> Result<(), StoreError> {
    writer.adopt(sums)?;
    tracing::warn!("{note}");
    let now = writer.clock().now();
    writer.append_record(Record {
        message: Some(note),
        actor: Some(Actor::gateway()),
        outcome: Some(Outcome::Allow),
        ..Record::new(id::new_id(now), now, Kind::Admin)
    })?;
    writer.commit()
}
