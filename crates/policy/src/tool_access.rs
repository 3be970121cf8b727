//! What happens to calls of a tool, as far as that does not depend on their arguments.
//!
//! The tool's standing, and how the decisions of a policy and its bases are combined, are the same
//! functions as for a call.

use std::ptr;

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::{
    amount::Amount,
    approval::{Approval, Terms},
    decision::{Allow, ChargeDemand, Decision, Demand, Denial, JudgingStep, Objection, Outcome},
    explain::window_json,
    facts::Facts,
    judge::denial,
    layers::combine_layers,
    limit::{Concurrency, Limit},
    path::ArgPath,
    policy::{Entry, Mode, Policy, ValidateBy},
    schema,
    standing::standing,
    time::Timestamp,
};

/// What happens to calls of a tool, whatever their arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// They are allowed, within limits.
    Allow,
    Deny,
    Hide,
    /// They are held for approval; conditions may deny them as well.
    Hold,
    /// Conditions on their arguments decide.
    Depends,
}

impl Treatment {
    pub const ALL: [Treatment; 5] =
        [Treatment::Allow, Treatment::Deny, Treatment::Hide, Treatment::Hold, Treatment::Depends];

    /// The treatment with this name.
    pub fn from_name(name: &str) -> Option<Treatment> {
        Treatment::ALL.into_iter().find(|treatment| treatment.name() == name)
    }

    /// Its name in reports: that of the outcome, or `depends`.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Allow => Outcome::Allow.name(),
            Treatment::Deny => Outcome::Deny.name(),
            Treatment::Hide => Outcome::Hide.name(),
            Treatment::Hold => Outcome::Hold.name(),
            Treatment::Depends => "depends",
        }
    }

    /// Whether some call may be forwarded, perhaps with an approval.
    pub fn may_pass(self) -> bool {
        matches!(self, Treatment::Allow | Treatment::Hold | Treatment::Depends)
    }
}

impl Serialize for Treatment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The treatment of a tool by a policy, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolAccess {
    pub outcome: Treatment,
    /// The rule that decides: of an allowed tool, the entry that lists it, `(default allow)`, or
    /// `(shadow mode)`.
    pub rule: String,
    /// The policy of that rule, if it is one that the policy extends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The rules that depend on the arguments of a call.
    pub conditions: Vec<String>,
    /// The limits that its calls are charged to.
    pub limits: Vec<LimitTerms>,
    /// The bounds of its calls in progress.
    pub concurrent: Vec<ConcurrencyTerms>,
    /// How many people must approve a call that is held in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<u8>,
    /// What policies in shadow mode would do with calls that pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowTreatment>,
}

/// What would happen if policies in shadow mode were enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShadowTreatment {
    pub outcome: Treatment,
    pub rule: String,
}

/// A limit, as reports give it. Numbers are JSON numbers with all their digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitTerms {
    pub rule: String,
    pub counter: String,
    pub scope: &'static str,
    /// `minute`, `hour`, `day`, `month`, or seconds.
    pub window: Json,
    pub max: Json,
    /// The argument that is added; without it, each call adds 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increment_from: Option<String>,
}

/// A bound of calls in progress, as reports give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConcurrencyTerms {
    pub rule: String,
    pub scope: &'static str,
    pub max: u64,
}

/// What happens to calls of a tool under a policy. Without a policy they are denied.
pub fn find_access(policy: Option<&Policy>, tool: &str, facts: Facts<'_>) -> ToolAccess {
    let Some(policy) = policy else {
        return ToolAccess::new(Treatment::Deny, "(no policy)".into());
    };
    let mut found = Found::default();
    // No demand depends on the time.
    let at = Timestamp::from_millis(0);
    let decision = combine_layers(policy, at, |layer| found.judge(layer, tool, facts, at));
    let mut access = match decision {
        Decision::Deny(denial) => ToolAccess::of_denial(&denial),
        Decision::Hold(terms) => ToolAccess {
            approvers: Some(terms.approvers),
            ..found.report(ToolAccess::new(Treatment::Hold, terms.rule.into()))
        },
        Decision::Allow(allow) => found.conclude(&allow),
    };
    access.base = policy.base_of_rule(&access.rule).map(String::from);
    access
}

/// What the policies say about the tool, besides denying it.
#[derive(Default)]
struct Found<'p> {
    /// Rules on arguments of policies that are enforced, and of those in shadow mode.
    conditions: Vec<&'p str>,
    shadow_conditions: Vec<&'p str>,
    limits: Vec<&'p Limit>,
    concurrent: Vec<&'p Concurrency>,
    /// The rule by which the last policy, which is no base, allows the tool; empty if it only
    /// does in shadow mode.
    opening: String,
}

impl<'p> Found<'p> {
    /// Judges a call of which nothing but the tool is known.
    fn judge(
        &mut self,
        layer: &'p Policy,
        tool: &str,
        facts: Facts<'_>,
        at: Timestamp,
    ) -> Result<Decision<'p>, Denial<'p>> {
        self.opening.clear();
        let entries =
            standing(layer, tool, facts).map_err(|reason| reason.denial(tool, &layer.prefix))?;
        if let Some(rule) = find_own_validation(layer, &entries)
            && facts.schema().is_err()
        {
            let words = || "the tool has no schema that can be used".into();
            return Err(denial(rule, None, words).in_step(JudgingStep::ValidateArgs));
        }
        let mut denials = entries.iter().flat_map(|entry| &entry.deny_if);
        if let Some(always) = denials.find(|predicate| predicate.conditions.is_empty()) {
            let words = || "every call is denied".into();
            return Err(denial(&always.rule, None, words).in_step(JudgingStep::DenyIf));
        }
        self.note(layer, &entries);
        let asking = entries.iter().filter_map(|entry| entry.approval.as_ref());
        let asking = asking.filter(|approval| approval.holds_every_call());
        let terms = asking.fold(None, |terms: Option<Terms<'p>>, approval| {
            Some(terms.map_or_else(|| Terms::of(approval), |terms| terms.and(approval)))
        });
        if let Some(terms) = terms {
            return Ok(Decision::Hold(terms));
        }
        let charges = entries.iter().flat_map(|entry| &entry.limits);
        let charges = charges.filter(|limit| limit.increment_from.is_none());
        let charges =
            charges.map(|limit| Demand::Charge(ChargeDemand { limit, amount: Amount::ONE }));
        let leases =
            entries.iter().filter_map(|entry| entry.concurrent.as_ref().map(Demand::Lease));
        Ok(Decision::Allow(Allow { at, demands: charges.chain(leases).collect(), objection: None }))
    }

    fn note(&mut self, layer: &'p Policy, entries: &[&'p Entry]) {
        let is_for_all =
            |entry: &Entry| layer.all_tools.as_ref().is_some_and(|all| ptr::eq(all, entry));
        let listing = entries.first().filter(|entry| !is_for_all(entry));
        self.opening = match listing {
            Some(entry) => entry.validate.rule.trim_end_matches("/validate_args").to_owned(),
            None => format!("{}(default allow)", layer.prefix),
        };
        let conditions = list_conditions(layer, entries);
        if layer.mode == Mode::Shadow {
            self.shadow_conditions.extend(conditions);
            return;
        }
        self.conditions.extend(conditions);
        self.limits.extend(entries.iter().flat_map(|entry| &entry.limits));
        self.concurrent.extend(entries.iter().filter_map(|entry| entry.concurrent.as_ref()));
    }

    fn conclude(self, allow: &Allow<'p>) -> ToolAccess {
        let is_full = |allow: &Allow<'p>| allow.admit(|_| Amount::ZERO, |_| Amount::ZERO).err();
        if let Some(denial) = is_full(&allow.without_shadow()) {
            return ToolAccess::of_denial(&denial);
        }
        let shadow = match allow.objection() {
            Some(Objection::Deny(denial)) => Some(ToolAccess::of_denial(denial)),
            Some(Objection::Hold(terms)) => {
                Some(ToolAccess::new(Treatment::Hold, terms.rule.into()))
            }
            None => is_full(allow).map(|denial| ToolAccess::of_denial(&denial)).or_else(|| {
                let rule = self.shadow_conditions.first()?;
                Some(ToolAccess::new(Treatment::Depends, (*rule).into()))
            }),
        };
        let (outcome, rule) = match self.conditions.first() {
            Some(rule) => (Treatment::Depends, (*rule).to_owned()),
            None if self.opening.is_empty() => (Treatment::Allow, "(shadow mode)".into()),
            None => (Treatment::Allow, self.opening.clone()),
        };
        ToolAccess {
            shadow: shadow
                .map(|access| ShadowTreatment { outcome: access.outcome, rule: access.rule }),
            ..self.report(ToolAccess::new(outcome, rule))
        }
    }

    /// Adds the conditions and limits to a report.
    fn report(&self, access: ToolAccess) -> ToolAccess {
        ToolAccess {
            conditions: self.conditions.iter().map(|rule| (*rule).to_owned()).collect(),
            limits: self.limits.iter().copied().map(LimitTerms::of).collect(),
            concurrent: self.concurrent.iter().copied().map(ConcurrencyTerms::of).collect(),
            ..access
        }
    }
}

impl ToolAccess {
    fn new(outcome: Treatment, rule: String) -> ToolAccess {
        ToolAccess {
            outcome,
            rule,
            base: None,
            conditions: Vec::new(),
            limits: Vec::new(),
            concurrent: Vec::new(),
            approvers: None,
            shadow: None,
        }
    }

    fn of_denial(denial: &Denial<'_>) -> ToolAccess {
        let outcome = match denial.outcome() {
            Outcome::Hide => Treatment::Hide,
            _ => Treatment::Deny,
        };
        ToolAccess::new(outcome, denial.rule.clone().into_owned())
    }
}

impl LimitTerms {
    fn of(limit: &Limit) -> LimitTerms {
        LimitTerms {
            rule: limit.rule.to_string(),
            counter: limit.counter.to_string(),
            scope: limit.scope.name(),
            window: window_json(limit.window),
            max: schema::number(&limit.max_text),
            increment_from: limit.increment_from.as_ref().map(ArgPath::text).map(String::from),
        }
    }
}

impl ConcurrencyTerms {
    fn of(concurrency: &Concurrency) -> ConcurrencyTerms {
        let Concurrency { rule, scope, max, .. } = concurrency;
        ConcurrencyTerms { rule: rule.to_string(), scope: scope.name(), max: *max }
    }
}

/// The rule by which arguments must fit the tool's own schema, if there is one.
fn find_own_validation<'p>(layer: &'p Policy, entries: &[&'p Entry]) -> Option<&'p str> {
    let own = entries.iter().find(|entry| matches!(entry.validate.by, ValidateBy::Own));
    let by_default = || layer.validates_by_default(entries).then_some(&*layer.validate_args_rule);
    own.map(|entry| &*entry.validate.rule).or_else(by_default)
}

/// The rules that depend on arguments, in the order in which they are judged.
fn list_conditions<'p>(layer: &'p Policy, entries: &[&'p Entry]) -> Vec<&'p str> {
    let schemas = entries
        .iter()
        .filter(|entry| matches!(entry.validate.by, ValidateBy::Own | ValidateBy::Schema { .. }));
    let mut rules: Vec<_> = schemas.map(|entry| &*entry.validate.rule).collect();
    rules.extend(layer.validates_by_default(entries).then_some(&*layer.validate_args_rule));
    let required = entries.iter().flat_map(|entry| &entry.require);
    let required = required.flat_map(|predicate| &predicate.conditions);
    rules.extend(required.map(|condition| &*condition.rule));
    let denied = entries.iter().flat_map(|entry| &entry.deny_if);
    rules.extend(denied.map(|predicate| &*predicate.rule));
    let asking = entries.iter().filter_map(|entry| entry.approval.as_ref());
    let asking = asking.filter(|approval| !holds_whatever_the_arguments(approval));
    rules.extend(asking.map(|approval| &*approval.rule));
    rules
}

/// Whether the arguments make no difference to whether an approval is asked for.
fn holds_whatever_the_arguments(approval: &Approval) -> bool {
    approval.when.iter().all(|predicate| predicate.conditions.is_empty())
}
