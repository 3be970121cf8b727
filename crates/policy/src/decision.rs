//! The decision on one call: deny, hold, or allow with its charges.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use smallvec::SmallVec;

use crate::{
    amount::Amount,
    approval::Terms,
    decimal::Decimal,
    default_messages,
    limit::{Concurrency, Limit},
    policy::Mode,
    standing::Unavailable,
    time::{Timestamp, Window},
};

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Allow,
    Deny,
    Hide,
    /// The call waits for a human.
    Hold,
}

impl Outcome {
    /// The word used in records, tests and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Allow => "allow",
            Outcome::Deny => "deny",
            Outcome::Hide => "hide",
            Outcome::Hold => "hold",
        }
    }

    /// The outcome with this name. Tests in policies may also write `approve` for `hold`.
    pub fn from_name(name: &str) -> Option<Outcome> {
        let name = if name == "approve" { "hold" } else { name };
        [Outcome::Allow, Outcome::Deny, Outcome::Hide, Outcome::Hold]
            .into_iter()
            .find(|outcome| outcome.name() == name)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The decision on one call, before its counters are read.
#[derive(Debug)]
pub enum Decision<'p> {
    Deny(Denial<'p>),
    /// A human must approve the call first.
    Hold(Terms<'p>),
    /// The call is forwarded, if its charges fit.
    Allow(Allow<'p>),
}

/// What a policy in shadow mode would do with a call that is forwarded all the same.
#[derive(Debug, Clone)]
pub enum Objection<'p> {
    Deny(Denial<'p>),
    Hold(Terms<'p>),
}

impl<'p> Decision<'p> {
    /// The decision as it would be if policies in shadow mode were enforced, too.
    #[must_use]
    pub fn under_enforcement(self) -> Decision<'p> {
        match self {
            Decision::Allow(Allow { objection: Some(objection), .. }) => match *objection {
                Objection::Deny(denial) => Decision::Deny(denial),
                Objection::Hold(terms) => Decision::Hold(terms),
            },
            decision => decision,
        }
    }
}

/// The steps of the judgement that can deny, in their order. Of the denials of several policies,
/// the one of the earliest step is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JudgingStep {
    Hide,
    /// Something is not known of the tool.
    Unknown,
    Default,
    ValidateArgs,
    Require,
    DenyIf,
    Approval,
    Limits,
}

/// A call that is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial<'p> {
    /// The rule that decided. The caller may see a less specific one.
    pub rule: Cow<'p, str>,
    /// The message to the caller.
    pub message: Cow<'p, str>,
    /// When a retry may succeed, in milliseconds.
    pub retry_after: Option<u64>,
    /// Set if the tool is unavailable, whatever the arguments.
    pub(crate) unavailable: Option<Unavailable>,
    /// Whether the call is denied because the tool's definition is not known.
    pub(crate) lacks_definition: bool,
    pub(crate) step: JudgingStep,
    /// Whether only policies in shadow mode deny the call.
    pub(crate) in_shadow: bool,
}

impl Denial<'_> {
    /// `hide` for a hidden tool, else `deny`.
    pub fn outcome(&self) -> Outcome {
        match self.unavailable {
            Some(Unavailable::Hidden) => Outcome::Hide,
            _ => Outcome::Deny,
        }
    }

    /// Whether the tool is unavailable. Callers see the same answer for all of these, `(not
    /// available)`, and never the true rule.
    pub fn is_unavailable(&self) -> bool {
        self.unavailable.is_some()
    }

    /// Whether the call passes all the same, because only policies in shadow mode deny it.
    pub fn is_in_shadow(&self) -> bool {
        self.in_shadow
    }

    /// Whether the call is refused in shadow mode too: the tool is hidden, may be hidden, or must
    /// look as if it were.
    pub(crate) fn refuses_in_shadow(&self) -> bool {
        matches!(
            self.unavailable,
            Some(
                Unavailable::Hidden
                    | Unavailable::MaybeHidden
                    | Unavailable::LongName
                    | Unavailable::NotInList
                    | Unavailable::Withheld
            )
        )
    }
}

/// A call that is allowed once its charges are made.
#[derive(Debug)]
pub struct Allow<'p> {
    pub(crate) at: Timestamp,
    /// Every limit and `concurrent` that applies, in the order of denials.
    pub(crate) demands: Demands<'p>,
    /// What a policy in shadow mode has against the call. Only policies that are enforced charge
    /// it then.
    pub(crate) objection: Option<Box<Objection<'p>>>,
}

pub(crate) type Demands<'p> = SmallVec<[Demand<'p>; 4]>;

/// What a call needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Demand<'p> {
    /// Room in a counter.
    Charge(ChargeDemand<'p>),
    /// A place among the calls in progress.
    Lease(&'p Concurrency),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ChargeDemand<'p> {
    pub(crate) limit: &'p Limit,
    pub(crate) amount: Amount,
}

/// The amount that one call adds to one counter.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'p> {
    /// Of the limits that share the counter, the one with the smallest maximum.
    pub limit: &'p Limit,
    pub amount: Amount,
    /// The window of the counter that is charged.
    pub window_start: Timestamp,
}

impl<'p> Allow<'p> {
    /// The charges of the call, one for each counter.
    pub fn charges(&self) -> impl Iterator<Item = Charge<'p>> + '_ {
        self.binding().into_iter().filter_map(|place| {
            let demand = self.find_charge(place)?;
            let window_start = demand.limit.window.start(self.at);
            Some(Charge { limit: demand.limit, amount: demand.amount, window_start })
        })
    }

    /// The maxima of calls in progress among which the call needs a place, one for each entry.
    pub fn leases(&self) -> impl Iterator<Item = &'p Concurrency> + '_ {
        self.demands.iter().filter_map(|demand| match demand {
            Demand::Lease(concurrency) => Some(*concurrency),
            Demand::Charge(_) => None,
        })
    }

    fn find_charge(&self, place: usize) -> Option<&ChargeDemand<'p>> {
        match self.demands.get(place)? {
            Demand::Charge(demand) => Some(demand),
            Demand::Lease(_) => None,
        }
    }

    /// For each counter, the index of the demand with the smallest maximum.
    fn binding(&self) -> SmallVec<[usize; 8]> {
        let all = 0..self.demands.len();
        let mut places: SmallVec<[usize; 8]> =
            all.filter(|place| self.find_charge(*place).is_some()).collect();
        let counter = |place: &usize| self.find_charge(*place).map(|d| d.limit.counter_number);
        let rank = |place: &usize| self.find_charge(*place).map(|demand| demand.rank(*place));
        places.sort_unstable_by(|a, b| {
            counter(a).cmp(&counter(b)).then_with(|| rank(a).cmp(&rank(b)))
        });
        places.dedup_by_key(|place| counter(place));
        places.sort_unstable();
        places
    }

    /// What a policy in shadow mode would do with the call.
    pub fn objection(&self) -> Option<&Objection<'p>> {
        self.objection.as_deref()
    }

    /// The same without the charges of policies in shadow mode.
    #[must_use]
    pub fn without_shadow(&self) -> Allow<'p> {
        let enforced = self.demands.iter().filter(|demand| demand.mode() == Mode::Enforce);
        let demands = enforced.copied().collect();
        Allow { at: self.at, demands, objection: None }
    }

    /// Whether the call fits, given the current value of each counter, and the calls in progress
    /// for each `concurrent`.
    ///
    /// If it does not, the first limit that is exceeded is the denial: first of those that are
    /// enforced, then of those in shadow mode.
    pub fn admit(
        &self,
        reading: impl Fn(&Limit) -> Amount,
        in_progress: impl Fn(&Concurrency) -> Amount,
    ) -> Result<(), Denial<'p>> {
        let mut in_shadow = None;
        for demand in &self.demands {
            let refusal = match demand {
                Demand::Charge(charge) => charge.refuse(reading(charge.limit), self.at),
                Demand::Lease(concurrency) => refuse_lease(concurrency, in_progress(concurrency)),
            };
            match refusal {
                Some(denial) if demand.mode() == Mode::Enforce => return Err(denial),
                refusal => in_shadow = in_shadow.or(refusal),
            }
        }
        in_shadow.map_or(Ok(()), Err)
    }
}

impl Demand<'_> {
    fn mode(&self) -> Mode {
        match self {
            Demand::Charge(demand) => demand.limit.mode,
            Demand::Lease(concurrency) => concurrency.mode,
        }
    }
}

impl<'p> ChargeDemand<'p> {
    /// The sort key of a demand: the smallest one applies. Maxima that are equal in the counters'
    /// precision may still differ as text.
    fn rank(&self, place: usize) -> (Amount, Decimal<'p>, usize) {
        (self.limit.max, Decimal::read(&self.limit.max_text), place)
    }

    /// Denies the call if it does not fit.
    fn refuse(&self, used: Amount, at: Timestamp) -> Option<Denial<'p>> {
        let limit = self.limit;
        if limit.admits(used, self.amount) {
            return None;
        }
        let fits_later = limit.admits(Amount::ZERO, self.amount);
        let left = limit.window.remaining_millis(at);
        let message = match &limit.message {
            Some(message) => Cow::Borrowed(&**message),
            None if fits_later => Cow::Owned(self.full(used, left)),
            None => Cow::Owned(format!(
                "Over the limit: this call counts {}, and at most {} {} is allowed.",
                self.amount,
                limit.max_text,
                per(limit.window)
            )),
        };
        let retry_after = fits_later.then_some(left);
        Some(denial(&limit.rule, limit.mode, message, retry_after))
    }

    fn full(&self, used: Amount, left: u64) -> String {
        let (max, per) = (&self.limit.max_text, per(self.limit.window));
        let wait = wait(left);
        if self.limit.increment_from.is_none() {
            return format!("Rate limit reached: {max} {per}. Try again in {wait}.");
        }
        let amount = self.amount;
        format!(
            "Limit reached: {max} {per}, {used} used, {amount} more asked for. Try again in {wait}."
        )
    }
}

/// Denies a call if as many calls are in progress as may be.
fn refuse_lease(concurrency: &Concurrency, in_progress: Amount) -> Option<Denial<'_>> {
    if concurrency.admits(in_progress) {
        return None;
    }
    let Concurrency { max, scope, rule, message, mode } = concurrency;
    let own_words = || Cow::Owned(default_messages::explain_concurrency(*max, *scope));
    let message = message.as_deref().map_or_else(own_words, Cow::Borrowed);
    Some(denial(rule, *mode, message, None))
}

/// A denial in the step of limits.
fn denial<'p>(
    rule: &'p str,
    mode: Mode,
    message: Cow<'p, str>,
    retry_after: Option<u64>,
) -> Denial<'p> {
    Denial {
        rule: Cow::Borrowed(rule),
        message,
        retry_after,
        unavailable: None,
        lacks_definition: false,
        step: JudgingStep::Limits,
        in_shadow: mode == Mode::Shadow,
    }
}

/// Formats a wait in a unit that people use, rounded up.
fn wait(millis: u64) -> String {
    let seconds = millis.div_ceil(1000);
    match seconds {
        0..=120 => format!("{seconds} s"),
        121..=7_200 => format!("{} min", seconds.div_ceil(60)),
        7_201..=172_800 => format!("{} h", seconds.div_ceil(3_600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

fn per(window: Window) -> String {
    match window {
        Window::Minute | Window::Hour | Window::Day | Window::Month => format!("per {window}"),
        Window::Seconds(1) => "per second".into(),
        Window::Seconds(seconds) => format!("per {seconds} s"),
    }
}
