//! Step 8: what a call charges to which counter, the places it takes among the calls in flight,
//! and whether that fits.

use serde_json::Value;

use super::decimal::Decimal;
use super::entry::Entry;
use super::walk::walk;
use super::{Charge, Lease};

/// A denial by a limit: its rule and the policy's words.
pub(crate) type Refusal = (String, Option<String>);

/// One limit of an applying entry, with the amount this call adds.
struct Reserved {
    rule: String,
    message: Option<String>,
    charge: Charge,
}

/// The charges a call makes: each counter once, with the smallest `max` of the limits
/// that name it, in naming order.
pub(crate) fn charges(entries: &[Entry], args: &Value) -> Result<Vec<Charge>, Refusal> {
    let mut charges: Vec<Charge> = Vec::new();
    for reserved in reserved(entries, args)? {
        match charges.iter_mut().find(|charge| charge.counter == reserved.charge.counter) {
            // Rules that share a counter agree on all but `max`.
            Some(charge) => charge.max = charge.max.clone().min(reserved.charge.max),
            None => charges.push(reserved.charge),
        }
    }
    Ok(charges)
}

/// The first limit that does not admit the call, if any. Each limit is held against its
/// own `max`: all fit exactly if the smallest does, and the one named is the first that
/// does not. What is sugar comes after what is written out, and `concurrent` after both.
pub(crate) fn refused(
    entries: &[Entry],
    args: &Value,
    reading: &dyn Fn(&str) -> Decimal,
    in_flight: &dyn Fn(&str) -> Decimal,
) -> Option<Refusal> {
    // An amount that cannot be read denies before any counter is looked at.
    if let Err(refusal) = reserved(entries, args) {
        return Some(refusal);
    }
    entries.iter().find_map(|entry| {
        let limits = reserved(std::slice::from_ref(entry), args).unwrap_or_default();
        // A sum that no counter can hold fits under no `max`: what cannot be answered denies.
        let full = limits.into_iter().find(|limit| {
            let sum = reading(&limit.charge.counter).plus(&limit.charge.amount);
            sum > limit.charge.max || is_too_large(&sum)
        });
        let full = full.map(|limit| (limit.rule, limit.message));
        full.or_else(|| {
            let (lease, message) = lease(entry)?;
            let with_this = in_flight(&lease.rule).plus(&Decimal::from(1));
            (with_this > lease.max).then_some((lease.rule, message))
        })
    })
}

/// The place that a call takes by an entry's `concurrent`, and the words where none is left.
pub(crate) fn lease(entry: &Entry) -> Option<(Lease, Option<String>)> {
    let written = entry.get("concurrent")?;
    let max = Decimal::of(written).or_else(|| Decimal::of(&written["max"]))?;
    let scope = written.get("scope").and_then(Value::as_str).unwrap_or("grant").to_owned();
    let lease = Lease { rule: format!("{}/concurrent", entry.base), scope, max };
    Some((lease, entry.message(Some(written))))
}

/// All limits of all entries in naming order; the first whose amount cannot be
/// read refuses the call.
fn reserved(entries: &[Entry], args: &Value) -> Result<Vec<Reserved>, Refusal> {
    let mut all = Vec::new();
    for entry in entries {
        for limit in entry.list("limits") {
            let counter = limit["counter"].as_str().unwrap_or_default().to_owned();
            let rule = format!("{}/limits/{counter}", entry.base);
            let message = entry.message(Some(&limit));
            let amount = amount(&limit, args)
                .map_err(|suffix| (format!("{rule}{suffix}"), message.clone()))?;
            let charge = Charge {
                counter,
                scope: limit.get("scope").and_then(Value::as_str).unwrap_or("grant").to_owned(),
                window: window(&limit["window"]),
                amount,
                max: Decimal::of(&limit["max"]).unwrap_or_else(|| Decimal::from(0)),
            };
            all.push(Reserved { rule, message, charge });
        }
    }
    Ok(all)
}

/// What the call adds to the counter: 1, or the argument that `increment_from` names.
/// The error is what it adds to the rule id: a look-alike is named as such, and
/// everything else denies with the limit's own rule.
fn amount(limit: &Value, args: &Value) -> Result<Decimal, &'static str> {
    let Some(path) = limit.get("increment_from").and_then(Value::as_str) else {
        return Ok(Decimal::from(1));
    };
    let found =
        walk(args, path, &|argument| Ok(argument.cloned())).map_err(|problem| match problem {
            super::walk::Problem::LookAlike => problem.suffix(),
            super::walk::Problem::Type => "",
        })?;
    // The page gives no meaning to several arguments at once, and what cannot be
    // answered denies.
    let [Some(argument)] = &found[..] else { return Err("") };
    let amount = Decimal::of(argument).ok_or("")?;
    if amount.is_negative() || is_too_large(&amount) { Err("") } else { Ok(amount) }
}

/// Counters are exact to 18 decimal places and hold less than 2^128 whole units.
fn is_too_large(amount: &Decimal) -> bool {
    let bound = Decimal::parse("340282366920938463463374607431768211456");
    amount.decimals() > 18.into() || bound.is_none_or(|bound| *amount >= bound)
}

/// A window in seconds; a month has no length of its own.
fn window(written: &Value) -> String {
    match written.as_str() {
        Some("minute") => "60".to_owned(),
        Some("hour") => "3600".to_owned(),
        Some("day") => "86400".to_owned(),
        Some("month") => "month".to_owned(),
        _ => Decimal::of(written).map(|seconds| seconds.to_string()).unwrap_or_default(),
    }
}

/// When the window began that contains this time; both in milliseconds since the epoch.
pub(crate) fn window_start(window: &str, millis: i64) -> i64 {
    match window.parse::<i64>() {
        Ok(seconds) => millis.div_euclid(seconds * 1000) * seconds * 1000,
        Err(_) => first_of_month(millis.div_euclid(DAY)) * DAY,
    }
}

const DAY: i64 = 86_400_000;

/// The first day of the month of a day, both counted from the epoch. Months are counted
/// off one by one from 1 January 1601, when a cycle of leap years began.
fn first_of_month(day: i64) -> i64 {
    let (mut first, mut year, mut month) = (-134_774, 1601, 0);
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        if day < first + lengths[month] {
            return first;
        }
        first += lengths[month];
        month += 1;
        if month == 12 {
            (year, month) = (year + 1, 0);
        }
    }
}
