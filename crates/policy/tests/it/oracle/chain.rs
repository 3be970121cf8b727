//! Extends: each policy of a chain judges the call by all of the page.

use serde_json::Value;

use super::{Approval, Charge, Decimal, Facts, Lease, SchemaCheck, Verdict, access, answer, judge};

/// One policy of a chain. A base has a name; the one that is loaded has none.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) base: Option<String>,
    pub(crate) policy: Value,
}

/// What a chain says of a call, before counters are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainVerdict {
    /// `charges` are those that are made when the call is passed.
    pub(crate) verdict: Verdict,
    /// Whether the call passes in spite of the verdict.
    pub(crate) in_shadow: bool,
}

impl Layer {
    fn is_shadow(&self) -> bool {
        self.policy["mode"] == "shadow"
    }

    /// "Rules of the base are named `<base>:<rule>`."
    fn name(&self, rule: &str) -> String {
        self.base.as_ref().map_or(rule.to_owned(), |base| format!("{base}:{rule}"))
    }
}

/// A call as all layers judge it.
pub(crate) struct Asked<'a> {
    pub(crate) tool: &'a str,
    pub(crate) args: &'a Value,
    pub(crate) facts: &'a Facts,
    pub(crate) schema: SchemaCheck<'a>,
}

/// Judges a call by a chain whose last base stands first.
pub(crate) fn judge_chain(chain: &[Layer], asked: &Asked<'_>) -> ChainVerdict {
    let found: Vec<(&Layer, Verdict)> = chain
        .iter()
        .map(|layer| {
            let found = judge(&layer.policy, asked.tool, asked.args, asked.facts, asked.schema);
            (layer, found)
        })
        .collect();
    let takes_effect = |(layer, found): &&(&Layer, Verdict)| {
        !layer.is_shadow() || looks_hidden(layer, found, asked)
    };
    let enforced: Vec<_> = found.iter().filter(takes_effect).collect();
    let shadow: Vec<_> = found.iter().filter(|one| !takes_effect(one)).collect();
    if let Some(stop) = stop(&enforced) {
        return ChainVerdict { verdict: stop, in_shadow: false };
    }
    if let Some(stop) = stop(&shadow) {
        let (charges, leases) = (charges(&enforced), leases(&enforced));
        let verdict = Verdict { charges, leases, ..stop };
        return ChainVerdict { verdict, in_shadow: true };
    }
    let all: Vec<_> = found.iter().collect();
    let (outcome, rule, message, approval) = ("allow", None, None, None);
    let (charges, leases) = (charges(&all), leases(&all));
    let verdict = Verdict { outcome, rule, message, charges, leases, approval };
    ChainVerdict { verdict, in_shadow: false }
}

/// Shadow mode "blocks nothing but `hide`", and what may be hidden.
fn looks_hidden(layer: &Layer, found: &Verdict, asked: &Asked<'_>) -> bool {
    let hides = found.outcome == "hide";
    let unknown = found.rule.as_deref() == Some("(unknown tool)");
    let not_listed = *asked.facts == Facts::NotInList && answer::hides_anything(&layer.policy);
    hides
        || unknown
            && (not_listed || !answer::listed_in_view(&layer.policy, asked.tool, asked.facts))
}

/// The denial of the earliest step, or else a hold on the strictest terms.
fn stop(found: &[&(&Layer, Verdict)]) -> Option<Verdict> {
    let stopped = found.iter().filter(|(_, found)| found.outcome != "allow");
    // `min_by_key` takes the first of several: the base.
    let (layer, first) = stopped.clone().min_by_key(|(_, found)| step(found))?;
    let rule = first.rule.as_deref().map(|rule| layer.name(rule));
    let held = |(_, found): &&&(&Layer, Verdict)| found.outcome == "hold";
    let terms = stopped.filter(held).filter_map(|(_, found)| found.approval.clone());
    let approval = (first.outcome == "hold").then(|| {
        terms.reduce(|one, other| Approval {
            approvers: one.approvers.max(other.approvers),
            expires_seconds: one.expires_seconds.min(other.expires_seconds),
        })
    });
    let (charges, leases) = (Vec::new(), Vec::new());
    Some(Verdict { rule, charges, leases, approval: approval.flatten(), ..first.clone() })
}

/// The step of the judgement at which a call was stopped.
fn step(found: &Verdict) -> u8 {
    let rule = found.rule.as_deref().unwrap_or_default();
    let part = match rule.strip_prefix("/tools/") {
        Some(rest) => rest.split('/').nth(1),
        None => rule
            .strip_prefix("/all_tools/")
            .or(rule.strip_prefix('/'))
            .and_then(|rest| rest.split('/').next()),
    };
    let part = part.unwrap_or(rule);
    match part {
        "(hidden)" => 20,
        "(unknown tool)" => 25,
        "(default deny)" => 30,
        "validate_args" => 40,
        "require" => 50,
        "limits" => 80,
        _ if part.starts_with("deny_if") => 60,
        // In one step, a denial comes before a hold.
        _ if part.starts_with("approval") && found.outcome != "hold" => 70,
        _ if part.starts_with("approval") => 75,
        _ => panic!("a rule of no step: {rule}"),
    }
}

/// The charges of several policies: each counter once, with the smallest maximum.
fn charges(found: &[&(&Layer, Verdict)]) -> Vec<Charge> {
    let mut all: Vec<Charge> = Vec::new();
    for charge in found.iter().flat_map(|(_, found)| &found.charges) {
        match all.iter_mut().find(|known| known.counter == charge.counter) {
            Some(known) => known.max = known.max.clone().min(charge.max.clone()),
            None => all.push(charge.clone()),
        }
    }
    all
}

/// The places of several policies, by the rules' names in the chain.
fn leases(found: &[&(&Layer, Verdict)]) -> Vec<Lease> {
    let of_layer = |(layer, found): &&(&Layer, Verdict)| {
        let named = |lease: &Lease| Lease { rule: layer.name(&lease.rule), ..lease.clone() };
        found.leases.iter().map(named).collect::<Vec<_>>()
    };
    found.iter().flat_map(of_layer).collect()
}

/// Step 8 of a call that was not stopped before: the rule that refuses it, and whether it passes
/// in spite of that.
pub(crate) fn admit_chain(
    chain: &[Layer],
    asked: &Asked<'_>,
    reading: &dyn Fn(&str) -> Decimal,
    in_flight: &dyn Fn(&str) -> Decimal,
) -> Option<(String, bool)> {
    let refused = |layer: &&Layer| {
        let Asked { tool, args, facts, schema } = asked;
        let (rule, _) =
            super::admit(&layer.policy, tool, args, facts, *schema, reading, in_flight)?;
        Some((layer.name(&rule), layer.is_shadow()))
    };
    let enforced =
        chain.iter().filter(|layer| !layer.is_shadow()).find_map(|layer| refused(&layer));
    enforced.or_else(|| chain.iter().find_map(|layer| refused(&layer)))
}

/// Whether a list shows the tool.
pub(crate) fn listed_in_chain(chain: &[Layer], tool: &str, facts: &Facts) -> bool {
    chain.iter().all(|layer| answer::listed_in_view(&layer.policy, tool, facts))
}

/// Whether a chain lets a resource be read; the others are alike.
pub(crate) fn resource_denied(chain: &[Layer], uri: &str) -> Option<(String, bool)> {
    let denies = |layer: &&Layer| !access::resource_allowed(&layer.policy, uri);
    let denying: Vec<_> = chain.iter().filter(denies).collect();
    let named = denying.iter().find(|layer| !layer.is_shadow()).or(denying.first())?;
    Some((named.name("/resources"), named.is_shadow()))
}
