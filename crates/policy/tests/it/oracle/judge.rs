//! The order of judgement: steps 2 to 7, and step 8 given the readings.

use serde_json::Value;

use super::answer::{Availability, check_availability};
use super::entry::{Entry, applying};
use super::limit;
use super::predicate::{Combine, condition, conditions, fires, id};
use super::{Approval, Decimal, Facts, SchemaCheck, Verdict};

/// A denial: its rule and the policy's words.
type Denial = (String, Option<String>);

/// Judges everything up to and including step 7, and says what the call would charge.
pub(crate) fn judge(
    policy: &Value,
    tool: &str,
    args: &Value,
    facts: &Facts,
    schema: SchemaCheck<'_>,
) -> Verdict {
    // Arguments that are not an object are refused before any policy is asked, so there is
    // no rule to name.
    if !args.is_object() {
        return verdict("deny", None, None);
    }
    match check_availability(policy, tool, facts) {
        Availability::Hidden => return verdict("hide", Some("(hidden)".to_owned()), None),
        Availability::Unknown => return verdict("deny", Some("(unknown tool)".to_owned()), None),
        Availability::DefaultDeny => {
            return verdict("deny", Some("(default deny)".to_owned()), None);
        }
        Availability::Available => {}
    }
    let entries = applying(policy, tool, facts);
    let denial = validate(policy, &entries, args, facts, schema)
        .or_else(|| require(&entries, args))
        .or_else(|| deny_if(&entries, args))
        .or_else(|| when_problem(&entries, args));
    if let Some((rule, message)) = denial {
        return verdict("deny", Some(rule), message);
    }
    let charges = limit::charges(&entries, args);
    let leases: Vec<_> = entries.iter().filter_map(limit::lease).map(|(lease, _)| lease).collect();
    if let Some(held) = held(&entries, args) {
        // Holding is step 7 and amounts are step 8, so a call is held even where its
        // amount will deny it later.
        let leases = if charges.is_ok() { leases } else { Vec::new() };
        return Verdict { charges: charges.unwrap_or_default(), leases, ..held };
    }
    match charges {
        Ok(charges) => Verdict { charges, leases, ..verdict("allow", None, None) },
        Err((rule, message)) => verdict("deny", Some(rule), message),
    }
}

/// Judges step 8 alone: `None` if all charges fit the readings, else the denial. It is
/// to be asked only for a call that passed the first half, or was held there and has
/// been approved since. The answer of the first half is not looked at, so the schema
/// check is not needed; it stands in the signature to keep both halves alike.
pub(crate) fn admit(
    policy: &Value,
    tool: &str,
    args: &Value,
    facts: &Facts,
    _schema: SchemaCheck<'_>,
    reading: &dyn Fn(&str) -> Decimal,
    in_flight: &dyn Fn(&str) -> Decimal,
) -> Option<(String, Option<String>)> {
    limit::refused(&applying(policy, tool, facts), args, reading, in_flight)
}

/// A verdict without charges and without approval.
fn verdict(outcome: &'static str, rule: Option<String>, message: Option<String>) -> Verdict {
    Verdict { outcome, rule, message, charges: Vec::new(), leases: Vec::new(), approval: None }
}

/// Step 4. The policy-level switch is the most general of all and is named last.
fn validate(
    policy: &Value,
    entries: &[Entry],
    args: &Value,
    facts: &Facts,
    schema: SchemaCheck<'_>,
) -> Option<Denial> {
    let own = match facts {
        Facts::Known { input_schema, .. } => input_schema.clone(),
        _ => None,
    };
    // A definition that is not known, has no schema, or has one that cannot be
    // compiled, denies.
    let satisfied =
        |wanted: Option<&Value>| wanted.and_then(|wanted| schema(wanted, args)).unwrap_or(false);
    for entry in entries {
        let fine = match entry.get("validate_args") {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Bool(true)) => satisfied(own.as_ref()),
            Some(given) => satisfied(Some(given)),
        };
        if !fine {
            return Some((format!("{}/validate_args", entry.base), entry.message(None)));
        }
    }
    let taken_away =
        entries.iter().any(|entry| entry.get("validate_args") == Some(&Value::Bool(false)));
    let switched_on = policy["validate_args"] == Value::Bool(true) && !taken_away;
    (switched_on && !satisfied(own.as_ref())).then(|| ("/validate_args".to_owned(), None))
}

/// Step 5. The first condition in list order that is false or cannot be judged is named.
fn require(entries: &[Entry], args: &Value) -> Option<Denial> {
    for entry in entries {
        for predicate in entry.list("require") {
            for cond in conditions(&predicate) {
                let suffix = match condition(&cond, args, Combine::All) {
                    Ok(true) => continue,
                    Ok(false) => "",
                    Err(problem) => problem.suffix(),
                };
                let rule = format!("{}/require/{}{suffix}", entry.base, id(&cond));
                return Some((rule, entry.message(Some(&predicate))));
            }
        }
    }
    None
}

/// Step 6. A predicate that holds is named by its first condition, one that cannot be
/// judged by the condition at fault.
fn deny_if(entries: &[Entry], args: &Value) -> Option<Denial> {
    for entry in entries {
        for predicate in entry.list("deny_if") {
            let rest = match fires(&predicate, args) {
                Ok(false) => continue,
                Ok(true) => conditions(&predicate)
                    .first()
                    .map(|first| format!("/{}", id(first)))
                    .unwrap_or_default(),
                Err((cond, problem)) => format!("/{}{}", id(&cond), problem.suffix()),
            };
            return Some((
                format!("{}/deny_if{rest}", entry.base),
                entry.message(Some(&predicate)),
            ));
        }
    }
    None
}

/// The approval an entry asks for; `None` where it asks for none.
fn approval(entry: &Entry) -> Option<&Value> {
    entry.get("approval").filter(|approval| **approval == Value::Bool(true) || approval.is_object())
}

/// The predicates of an approval's `when`; `None` where it has no `when`.
fn when(approval: &Value) -> Option<Vec<Value>> {
    approval.get("when").map(|when| super::entry::list(Some(when)))
}

/// The part of step 7 that denies: a predicate of any `when` that cannot be judged. A
/// denial anywhere wins, so all of them are judged before any call is held.
fn when_problem(entries: &[Entry], args: &Value) -> Option<Denial> {
    for entry in entries {
        for predicate in approval(entry).and_then(when).unwrap_or_default() {
            if let Err((_, problem)) = fires(&predicate, args) {
                return Some((
                    format!("{}/approval{}", entry.base, problem.suffix()),
                    entry.message(Some(&predicate)),
                ));
            }
        }
    }
    None
}

/// The part of step 7 that holds: the first entry that asks gives rule and message; the
/// most approvers and the shortest `expires` of all that ask count.
fn held(entries: &[Entry], args: &Value) -> Option<Verdict> {
    let mut asking: Vec<(&Entry, &Value)> =
        entries.iter().filter_map(|entry| approval(entry).map(|asked| (entry, asked))).collect();
    asking.retain(|(_, asked)| {
        when(asked).is_none_or(|any| any.iter().any(|predicate| fires(predicate, args) == Ok(true)))
    });
    let (entry, asked) = asking.first()?;
    let own = asked.get("message").and_then(Value::as_str).map(str::to_owned);
    let held = verdict(
        "hold",
        Some(format!("{}/approval", entry.base)),
        own.or_else(|| entry.message(None)),
    );
    let approvers = asking.iter().map(|(_, asked)| approvers(asked)).max()?;
    let expires_seconds = asking.iter().map(|(_, asked)| expires(asked)).min()?;
    Some(Verdict { approval: Some(Approval { approvers, expires_seconds }), ..held })
}

/// How many different people must approve; one unless the policy says more.
fn approvers(approval: &Value) -> u64 {
    approval.get("approvers").and_then(Decimal::of).and_then(|number| number.to_u64()).unwrap_or(1)
}

/// After how many seconds a pending approval ends; 15 minutes unless the policy says
/// otherwise.
fn expires(approval: &Value) -> u64 {
    approval.get("expires").and_then(Value::as_str).and_then(duration).unwrap_or(15 * 60)
}

/// A whole number and `s`, `m`, `h` or `d`, in seconds.
fn duration(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return None,
    };
    text.trim_end_matches(char::is_alphabetic).parse::<u64>().ok()?.checked_mul(unit)
}
