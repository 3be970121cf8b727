//! The data of an explanation, and the witness that records it.

use std::ptr;

use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use sluice_wire::json::Value;

use super::{Amount, Concurrency, Limit};
use crate::{
    approval::{Approval, Terms},
    condition::{Condition, Predicate},
    decision::{Allow, Demand, Denial, Outcome},
    default_messages,
    facts::Facts,
    judge::Consent,
    path::{ArgPath, Unjudgeable},
    policy::{Mode, Policy},
    schema,
    standing::{Applying, Unavailable},
    time::Window,
    witness::Witness,
};

/// Why a call has its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub outcome: Outcome,
    /// The rule that decides, unless the call is allowed.
    pub rule: Option<String>,
    /// The message to the caller.
    pub message: Option<String>,
    /// The charges of an allowed call.
    pub charges: Vec<ChargeReport>,
    /// All checks, in order.
    pub trace: Vec<Step>,
    /// Whether what stops the call does not take effect, because its policy is in shadow mode; for
    /// an allowed call, whether all its policies are.
    pub shadow: bool,
    /// The policy whose rule decides, if it is one that the policy extends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// When a retry may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How many people must approve a held call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<u8>,
    /// How long a held call waits for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
}

/// One charge. Numbers are JSON numbers with all their digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChargeReport {
    pub counter: String,
    pub scope: &'static str,
    /// `minute`, `hour`, `day`, `month`, or seconds.
    pub window: Json,
    pub amount: Json,
    pub max: Json,
    pub used: Json,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The kind of check: `policy` (whose checks follow, where it extends others), `tool`,
    /// `validate_args`, `require`, `deny_if`, `approval`, `limits`, `concurrent` or `decision`.
    pub step: &'static str,
    /// Its rule id, if it has one.
    pub rule: Option<String>,
    pub result: StepResult,
    /// The result in words.
    pub detail: String,
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    Pass,
    /// A condition holds and counts against the call.
    Match,
    /// The outcome that the check demands; in the last step, the outcome of the call.
    Outcome(Outcome),
}

impl StepResult {
    /// The word used in explanations.
    pub fn name(self) -> &'static str {
        match self {
            StepResult::Pass => "pass",
            StepResult::Match => "match",
            StepResult::Outcome(outcome) => outcome.name(),
        }
    }
}

impl Serialize for StepResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Explanation {
    /// An explanation that says nothing but the outcome.
    pub(super) fn new(outcome: Outcome) -> Explanation {
        Explanation {
            outcome,
            rule: None,
            message: None,
            charges: Vec::new(),
            trace: Vec::new(),
            shadow: false,
            base: None,
            retry_after_ms: None,
            approvers: None,
            expires_seconds: None,
        }
    }

    pub(super) fn of_hold(terms: &Terms<'_>) -> Explanation {
        Explanation {
            rule: Some(terms.rule.into()),
            message: Some(terms.message.unwrap_or("This call needs a human's approval.").into()),
            approvers: Some(terms.approvers),
            expires_seconds: Some(terms.expires_seconds),
            ..Explanation::new(Outcome::Hold)
        }
    }

    pub(super) fn of_allow(allow: &Allow<'_>, reading: &impl Fn(&Limit) -> Amount) -> Explanation {
        let charges = allow.charges().map(|charge| ChargeReport {
            counter: charge.limit.counter.to_string(),
            scope: charge.limit.scope.name(),
            window: window_json(charge.limit.window),
            amount: number(charge.amount),
            max: schema::number(&charge.limit.max_text),
            used: number(reading(charge.limit)),
        });
        Explanation { charges: charges.collect(), ..Explanation::new(Outcome::Allow) }
    }
}

fn number(amount: Amount) -> Json {
    schema::number(&amount.to_string())
}

/// A window as reports give it: its name, or seconds.
pub(crate) fn window_json(window: Window) -> Json {
    match window {
        Window::Seconds(seconds) => Json::from(seconds),
        named => Json::from(named.to_string()),
    }
}

/// Records every check.
#[derive(Default)]
pub(super) struct Recorder {
    steps: Vec<Step>,
}

impl Recorder {
    fn note(&mut self, step: &'static str, rule: Option<&str>, passes: bool, detail: String) {
        let result = if passes { StepResult::Pass } else { StepResult::Outcome(Outcome::Deny) };
        self.steps.push(Step { step, rule: rule.map(String::from), result, detail });
    }

    /// Records the state of each limit of an otherwise allowed call.
    pub(super) fn limits(&mut self, allow: &Allow<'_>, reading: &impl Fn(&Limit) -> Amount) {
        for demand in &allow.demands {
            let Demand::Charge(demand) = demand else { continue };
            let (limit, used) = (demand.limit, reading(demand.limit));
            let detail = format!(
                "counter `{}` of this {}: {used} used in this {}, {} more, at most {}",
                limit.counter,
                limit.scope,
                window_noun(limit.window),
                demand.amount,
                limit.max_text
            );
            self.note("limits", Some(&limit.rule), limit.admits(used, demand.amount), detail);
        }
    }

    /// Records the calls in progress beside an otherwise allowed call.
    pub(super) fn leases(
        &mut self,
        allow: &Allow<'_>,
        in_progress: &impl Fn(&Concurrency) -> Amount,
    ) {
        for concurrency in allow.leases() {
            let (count, scope) = (in_progress(concurrency), concurrency.scope);
            let detail =
                format!("calls of this {scope} in progress: {count}, at most {}", concurrency.max);
            self.note("concurrent", Some(&concurrency.rule), concurrency.admits(count), detail);
        }
    }

    /// Returns the trace, ending with the decision itself.
    pub(super) fn finish(mut self, explanation: &Explanation) -> Vec<Step> {
        let detail = match &explanation.message {
            Some(message) => message.clone(),
            None if explanation.charges.is_empty() => "nothing speaks against it".into(),
            None => "nothing speaks against it, and its charges fit".into(),
        };
        let rule = explanation.rule.clone();
        let result = StepResult::Outcome(explanation.outcome);
        self.steps.push(Step { step: "decision", rule, result, detail });
        self.steps
    }
}

impl Witness for Recorder {
    fn note_layer(&mut self, policy: &Policy) {
        let which = match policy.prefix.strip_suffix(':') {
            Some(base) => format!("the base `{base}`"),
            None => "the policy itself".into(),
        };
        let mode = match policy.mode {
            Mode::Enforce => "",
            Mode::Shadow => ", which is in shadow mode",
        };
        self.note("policy", None, true, format!("{which}{mode}:"));
    }

    fn note_standing(
        &mut self,
        policy: &Policy,
        facts: Facts<'_>,
        found: &Result<Applying<'_>, Unavailable>,
    ) {
        if let Some(category) = facts.category() {
            self.note("tool", None, true, format!("its category is `@{category}`"));
        }
        match found {
            Err(reason) => {
                let rule = reason.rule_in(&policy.prefix);
                self.note("tool", Some(&rule), false, reason.why().into());
            }
            Ok(entries) => {
                let named: Vec<_> =
                    entries.iter().map(|entry| format!("`{}`", entry.key)).collect();
                // Compared by identity, because a tool may be named `all_tools`.
                let for_all =
                    |entry| policy.all_tools.as_ref().is_some_and(|all| ptr::eq(all, entry));
                let listed = entries.iter().any(|entry| !for_all(*entry));
                let detail = match (named.is_empty(), listed) {
                    (true, _) => "no entry names this tool, and `default` is `allow`".into(),
                    (_, true) => format!("entries that apply: {}", named.join(", ")),
                    (_, false) => "`default` is `allow`; `all_tools` applies".into(),
                };
                debug_assert!(listed || policy.posture() == crate::Posture::Allow);
                self.note("tool", None, true, detail);
            }
        }
    }

    fn note_validation(&mut self, rule: &str, refusal: Option<&str>) {
        let detail = refusal.map_or_else(|| "the arguments fit the schema".into(), String::from);
        self.note("validate_args", Some(rule), refusal.is_none(), detail);
    }

    fn note_condition(
        &mut self,
        list: &'static str,
        condition: &Condition,
        args: Option<Value<'_>>,
        holds: Result<bool, Unjudgeable>,
    ) {
        let wanted = default_messages::condition(condition);
        let found = describe_value(&condition.path, args);
        let detail = match holds {
            Ok(true) => format!("{wanted}: holds ({found})"),
            Ok(false) => format!("{wanted}: does not hold ({found})"),
            Err(Unjudgeable::Type) => format!("{wanted}: cannot be judged, wrong type ({found})"),
            Err(Unjudgeable::LookAlike) => {
                format!("{wanted}: cannot be judged, another key looks like one on the path")
            }
        };
        // Only `require` fails by a single condition; for the other lists, the next step says
        // whether the whole predicate holds.
        let result = match (holds, list) {
            (Err(_), _) | (Ok(false), "require") => StepResult::Outcome(Outcome::Deny),
            (Ok(true), "deny_if" | "approval") => StepResult::Match,
            _ => StepResult::Pass,
        };
        let suffix = holds.err().map(Unjudgeable::suffix).unwrap_or_default();
        let rule = Some(format!("{}{suffix}", condition.rule));
        self.steps.push(Step { step: list, rule, result, detail });
    }

    fn note_predicate(&mut self, list: &'static str, predicate: &Predicate) {
        // Predicates of `approval` are reported together in one step.
        if list == "deny_if" {
            let detail = match predicate.conditions.len() {
                0 => "holds for every call",
                1 => "that denies the call",
                _ => "all of these hold, and that denies the call",
            };
            self.note(list, Some(&predicate.rule), false, detail.into());
        }
    }

    fn note_approval(&mut self, approval: &Approval, asks: bool, consent: Consent) {
        let (result, detail) = match (asks, consent) {
            (false, _) => (StepResult::Pass, "no approval is needed for these arguments"),
            (true, Consent::Given) => (StepResult::Pass, "approval is needed, and has been given"),
            (true, Consent::NotGiven) => (StepResult::Outcome(Outcome::Hold), "approval is needed"),
        };
        let rule = Some(approval.rule.to_string());
        self.steps.push(Step { step: "approval", rule, result, detail: detail.into() });
    }

    fn note_amount(&mut self, limit: &Limit, amount: &Result<Amount, Denial<'_>>) {
        if let Err(denial) = amount {
            self.note("limits", Some(&limit.rule), false, denial.message.clone().into_owned());
        }
    }
}

/// The values at a path, shortened.
fn describe_value(path: &ArgPath, args: Option<Value<'_>>) -> String {
    let mut values = Vec::new();
    let walked = path.walk(args, &mut |value| {
        values.push(value.map_or_else(|| "absent".into(), shorten));
        Ok(())
    });
    match (walked, values.as_slice()) {
        (Err(_), []) => "the path leads through something that is neither object nor list".into(),
        (_, [one]) if one == "absent" => "absent".into(),
        (_, [one]) => format!("found {one}"),
        (_, many) => {
            let more = if many.len() > 3 { ", …" } else { "" };
            format!("found {}{more}", many.get(..3).unwrap_or(many).join(", "))
        }
    }
}

fn shorten(value: Value<'_>) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(['…']).collect()
}

fn window_noun(window: Window) -> String {
    match window {
        Window::Seconds(seconds) => format!("window of {seconds} s"),
        named => named.to_string(),
    }
}
