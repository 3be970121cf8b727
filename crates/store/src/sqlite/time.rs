//! The trusted time in the database: where a process continues, and that a person has confirmed
//! the system clock.

use rusqlite::{Connection, OptionalExtension as _};

use crate::{
    clock::Clock,
    trusted_time::{ClockEvent, TrustedTime},
};

/// The time as a process resumes it.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) time: TrustedTime,
    pub(super) event: Option<ClockEvent>,
    /// How much of the time since it was stored is only believed, in milliseconds.
    pub(super) believed: i64,
    /// This start of the machine.
    pub(super) boot: String,
    /// How often people have confirmed the system clock.
    pub(super) confirmed: i64,
}

/// Continues from the stored time, or begins with the system clock.
pub(super) fn resume(connection: &Connection, clock: &Clock) -> rusqlite::Result<Resumed> {
    let (moment, boot) = (clock.look(), clock.boot().unwrap_or_default());
    let confirmed = count_confirmed(connection)?;
    let resumed =
        |time, event, believed| Resumed { time, event, believed, boot: boot.clone(), confirmed };
    let Some((stored, stored_boot)) = read(connection)? else {
        return Ok(resumed(TrustedTime::begin(moment), None, 0));
    };
    let is_same_boot = !boot.is_empty() && boot == stored_boot;
    let (time, event) = TrustedTime::resume(stored, moment, is_same_boot);
    let believed = if is_same_boot { 0 } else { time.now().saturating_sub(stored.now()) };
    Ok(resumed(time, event, believed))
}

fn read(connection: &Connection) -> rusqlite::Result<Option<(TrustedTime, String)>> {
    let sql = "SELECT value FROM meta WHERE name = 'time'";
    let text: Option<String> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let read = |text: String| {
        let mut words = text.split(' ');
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        Some((TrustedTime::from_numbers(numbers), words.next().unwrap_or_default().to_owned()))
    };
    Ok(text.and_then(read))
}

pub(super) fn write(
    connection: &Connection,
    time: &TrustedTime,
    boot: &str,
) -> rusqlite::Result<()> {
    let numbers = time.numbers().map(|number| number.to_string()).join(" ");
    let sql = "REPLACE INTO meta (name, value) VALUES ('time', ?1)";
    connection.prepare_cached(sql)?.execute([format!("{numbers} {boot}")]).map(|_| ())
}

/// How often people have confirmed the system clock.
pub(super) fn count_confirmed(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT value FROM meta WHERE name = 'clock_confirmed'";
    let count = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(count.unwrap_or_default())
}

pub(super) fn note_confirmed(connection: &Connection, count: i64) -> rusqlite::Result<()> {
    let sql = "REPLACE INTO meta (name, value) VALUES ('clock_confirmed', ?1)";
    connection.prepare_cached(sql)?.execute([count]).map(|_| ())
}
