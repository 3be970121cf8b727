//! Policies that extend others.

use std::{cell::Cell, collections::HashMap};

use proptest::{collection::vec, prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};
use sluice_policy::{
    AccessRequest, Allow, Call, Concurrency, Decision, Format, Limit, Objection, Policy, Terms,
    judge, load_extending, shows,
};
use sluice_wire::json::Document;

use super::{
    Said, World, agreement, amount, charged, hold, hold_from, loaded, own_words, said, verdict,
};
use crate::{
    generate::{
        call::{Attempt, attempts},
        policy::policy,
        pool,
    },
    known_bases::KnownBases,
    oracle::{
        Approval, Asked, ChainVerdict, Decimal, Layer, Verdict, admit_chain, judge_chain,
        listed_in_chain, resource_denied,
    },
};

const CHAINS: u32 = 1_000;
const CALLS: usize = 30;

/// A chain of policies, the last base first.
pub(super) fn chains() -> impl Strategy<Value = Vec<Value>> {
    vec(policy(), 2..=4)
}

/// The chain as the engine and as the oracle read it, if it loads.
pub(super) fn load_chain(texts: &[Value]) -> Option<(Policy, Vec<Layer>)> {
    let mut layers: Vec<Layer> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut policy = text.clone();
        if let Some(previous) = layers.last().and_then(|layer| layer.base.clone()) {
            policy["extends"] = json!(previous);
        }
        let base = (number + 1 < texts.len()).then(|| format!("base-{number}"));
        layers.push(Layer { base, policy });
    }
    let (own, bases) = layers.split_last()?;
    let named = |layer: &Layer| Some((layer.base.clone()?, layer.policy.clone()));
    let bases = KnownBases(bases.iter().filter_map(named).collect::<HashMap<_, _>>());
    let policy = load_extending(own.policy.to_string().as_bytes(), Format::Json, &bases).ok()?;
    Some((policy, layers))
}

/// What the engine says of a call, in the oracle's words.
fn chain_said(
    policy: &Policy,
    attempt: &Attempt,
    world: &World,
) -> (ChainVerdict, Option<(String, bool)>) {
    let document = attempt.document();
    let call = Call::new(attempt.tool, document.as_ref().map(Document::root)).unwrap();
    let stopped = |verdict, in_shadow| (ChainVerdict { verdict, in_shadow }, None);
    let allow = match judge(Some(policy), &call, world.facts(attempt), attempt.at()) {
        Decision::Deny(denial) => {
            assert!(!denial.is_in_shadow());
            let (rule, words) = (Some(denial.rule.to_string()), own_words(&denial));
            return stopped(verdict(denial.outcome().name(), rule, words), false);
        }
        Decision::Hold(terms) => return stopped(held(&terms), false),
        Decision::Allow(allow) => allow,
    };
    let verdict = match allow.objection() {
        None => verdict("allow", None, None),
        Some(Objection::Hold(terms)) => held(terms),
        Some(Objection::Deny(denial)) => {
            let (rule, words) = (Some(denial.rule.to_string()), own_words(denial));
            verdict(denial.outcome().name(), rule, words)
        }
    };
    let in_shadow = allow.objection().is_some();
    let Said { verdict, .. } = charged(verdict, &allow, attempt);
    let refused = if in_shadow { None } else { refused(&allow, attempt) };
    (ChainVerdict { verdict, in_shadow }, refused)
}

fn refused(allow: &Allow<'_>, attempt: &Attempt) -> Option<(String, bool)> {
    let reading = |limit: &Limit| amount(attempt.reads(limit.counter()));
    let in_progress = |concurrency: &Concurrency| amount(attempt.in_progress(concurrency.rule()));
    let denial = allow.admit(reading, in_progress).err()?;
    Some((denial.rule.to_string(), denial.is_in_shadow()))
}

fn held(terms: &Terms<'_>) -> Verdict {
    let approval = Some(Approval {
        approvers: terms.approvers.into(),
        expires_seconds: terms.expires_seconds,
    });
    Verdict {
        approval,
        ..verdict("hold", Some(terms.rule.into()), terms.message.map(String::from))
    }
}

#[test]
fn the_engine_agrees_with_the_oracle_on_chains() {
    let world = World::new();
    let (loads, passed_in_shadow) = (Cell::new(0), Cell::new(0));
    hold_from(RngSeed::Fixed(2), CHAINS, (chains(), attempts(CALLS)), |(texts, attempts)| {
        let Some((policy, layers)) = load_chain(&texts) else { return Ok(()) };
        loads.set(loads.get() + 1);
        for attempt in &attempts {
            let facts = world.oracle_facts(attempt);
            let args = attempt.args.clone().unwrap_or_else(|| json!({}));
            let asked =
                Asked { tool: attempt.tool, args: &args, facts: &facts, schema: &agreement::fits };
            let mut wanted = judge_chain(&layers, &asked);
            wanted.verdict.charges.sort_by(|a, b| a.counter.cmp(&b.counter));
            wanted.verdict.leases.sort_by(|a, b| a.rule.cmp(&b.rule));
            let reading = |counter: &str| Decimal::parse(attempt.reads(counter)).unwrap();
            let in_flight = |rule: &str| Decimal::parse(attempt.in_progress(rule)).unwrap();
            let passes = wanted.verdict.outcome == "allow";
            let admit = || admit_chain(&layers, &asked, &reading, &in_flight);
            let wanted_refusal = passes.then(admit).flatten();
            let (found, refusal) = chain_said(&policy, attempt, &world);
            passed_in_shadow.set(passed_in_shadow.get() + u32::from(found.in_shadow));
            prop_assert_eq!(
                &found,
                &wanted,
                "engine, then oracle, on {} under {:?}",
                args,
                &layers
            );
            prop_assert_eq!(refusal, wanted_refusal, "limits under {:?}", &layers);
            let shown = shows(Some(&policy), attempt.tool, world.facts(attempt));
            prop_assert_eq!(shown, listed_in_chain(&layers, attempt.tool, &facts));
        }
        for uri in pool::URIS {
            let found = policy.check_access(AccessRequest::Resource(uri)).err();
            let found = found.map(|denial| (denial.rule.into_owned(), denial.in_shadow));
            prop_assert_eq!(found, resource_denied(&layers, uri));
        }
        Ok(())
    });
    assert!(loads.get() * 5 >= CHAINS * 3, "only {loads:?} of {CHAINS} load");
    assert!(passed_in_shadow.get() > CHAINS, "only {passed_in_shadow:?} pass in shadow");
}

/// Whether the call passes at once, and whether it does so once people have approved it.
fn passes(said: &Said) -> [bool; 2] {
    let fits = said.refused.is_none();
    [
        fits && said.verdict.outcome == "allow",
        fits && matches!(said.verdict.outcome, "allow" | "hold"),
    ]
}

#[test]
fn an_extended_policy_never_allows_what_one_of_its_layers_denies() {
    let world = World::new();
    hold(400, (chains(), attempts(20)), |(mut texts, attempts)| {
        for text in &mut texts {
            text["mode"] = json!("enforce");
        }
        let Some((policy, _)) = load_chain(&texts) else { return Ok(()) };
        let alone: Vec<_> = texts.iter().filter_map(loaded).collect();
        for attempt in &attempts {
            let facts = world.facts(attempt);
            let together = said(&policy, attempt, facts);
            for layer in &alone {
                let by_itself = said(layer, attempt, facts);
                for (passes, passes_alone) in passes(&together).into_iter().zip(passes(&by_itself))
                {
                    prop_assert!(passes_alone || !passes, "{:?}, but {:?}", together, by_itself);
                }
                let hides = by_itself.verdict.outcome == "hide";
                prop_assert!(!hides || together.verdict.outcome == "hide");
                let shown = shows(Some(&policy), attempt.tool, facts);
                prop_assert!(!shown || shows(Some(layer), attempt.tool, facts));
            }
        }
        Ok(())
    });
}

#[test]
fn a_base_that_is_enforced_stays_so_under_a_policy_in_shadow_mode() {
    let world = World::new();
    hold(400, (policy(), policy(), attempts(20)), |(mut base, mut own, attempts)| {
        base["mode"] = json!("enforce");
        own["mode"] = json!("shadow");
        let Some((policy, _)) = load_chain(&[base.clone(), own]) else { return Ok(()) };
        let Some(alone) = loaded(&base) else { return Ok(()) };
        for attempt in &attempts {
            let document = attempt.document();
            let call = Call::new(attempt.tool, document.as_ref().map(Document::root)).unwrap();
            let ask = |policy| judge(Some(policy), &call, world.facts(attempt), attempt.at());
            let passes = |decision| match decision {
                Decision::Allow(allow) => {
                    refused(&allow, attempt).is_none_or(|(_, in_shadow)| in_shadow)
                }
                Decision::Deny(_) | Decision::Hold(_) => false,
            };
            prop_assert!(passes(ask(&alone)) || !passes(ask(&policy)));
        }
        Ok(())
    });
}
