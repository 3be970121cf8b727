//! Step 8: what a call charges to which counter, and whether that fits.

use serde_json::Value;

use super::Charge;
use super::decimal::Decimal;
use super::entry::Entry;
use super::walk::walk;

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
/// does not.
pub(crate) fn refused(
    entries: &[Entry],
    args: &Value,
    reading: &dyn Fn(&str) -> Decimal,
) -> Option<Refusal> {
    let all = match reserved(entries, args) {
        Ok(all) => all,
        Err(refusal) => return Some(refusal),
    };
    // A sum that no counter can hold fits under no `max`: what cannot be answered denies.
    let full = all.into_iter().find(|limit| {
        let sum = reading(&limit.charge.counter).plus(&limit.charge.amount);
        sum > limit.charge.max || is_too_large(&sum)
    });
    full.map(|limit| (limit.rule, limit.message))
}

/// All limits of all entries in naming order; the first whose amount cannot be had
/// refuses the call.
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
                window_seconds: window(&limit["window"]),
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

/// A window in seconds.
fn window(written: &Value) -> u64 {
    match written.as_str() {
        Some("minute") => 60,
        Some("hour") => 3600,
        Some("day") => 86400,
        _ => Decimal::of(written).and_then(|seconds| seconds.to_u64()).unwrap_or(0),
    }
}
