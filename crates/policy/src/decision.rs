//! The decision on one call: deny, hold, or allow with its charges.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::{
    amount::Amount,
    approval::Terms,
    decimal::Decimal,
    limit::Limit,
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

/// The decision on one call, before its counters are read.
#[derive(Debug)]
pub enum Decision<'p> {
    Deny(Denial<'p>),
    /// A human must approve the call first.
    Hold(Terms<'p>),
    /// The call is allowed, if its charges fit.
    Allow(Allow<'p>),
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

    /// Whether the call is refused in shadow mode too: the tool is hidden, may be hidden, or must
    /// look as if it were.
    pub fn refuses_in_shadow(&self) -> bool {
        matches!(
            self.unavailable,
            Some(
                Unavailable::Hidden
                    | Unavailable::MaybeHidden
                    | Unavailable::LongName
                    | Unavailable::NotInList
            )
        )
    }
}

/// A call that is allowed once its charges are made.
#[derive(Debug)]
pub struct Allow<'p> {
    pub(crate) at: Timestamp,
    /// Every limit that applies, in the order of denials.
    pub(crate) demands: SmallVec<[Demand<'p>; 4]>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'p> {
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
            let demand = self.demands.get(place)?;
            let window_start = demand.limit.window.start(self.at);
            Some(Charge { limit: demand.limit, amount: demand.amount, window_start })
        })
    }

    /// For each counter, the index of the demand with the smallest maximum.
    fn binding(&self) -> SmallVec<[usize; 8]> {
        let mut places: SmallVec<[usize; 8]> = (0..self.demands.len()).collect();
        let counter = |place: &usize| self.demands.get(*place).map(|d| d.limit.counter_number);
        let rank = |place: &usize| self.demands.get(*place).map(|demand| demand.rank(*place));
        places.sort_unstable_by(|a, b| {
            counter(a).cmp(&counter(b)).then_with(|| rank(a).cmp(&rank(b)))
        });
        places.dedup_by_key(|place| counter(place));
        places.sort_unstable();
        places
    }

    /// Whether the charges fit, given the current value of each counter.
    ///
    /// If they do not, the first limit that is exceeded is the denial.
    pub fn admit(&self, reading: impl Fn(&Limit) -> Amount) -> Result<(), Denial<'p>> {
        for demand in &self.demands {
            let used = reading(demand.limit);
            if !demand.limit.admits(used, demand.amount) {
                return Err(demand.refusal(used, self.at));
            }
        }
        Ok(())
    }
}

impl<'p> Demand<'p> {
    /// The sort key of a demand: the smallest one applies. Maxima that are equal in the counters'
    /// precision may still differ as text.
    fn rank(&self, place: usize) -> (Amount, Decimal<'p>, usize) {
        (self.limit.max, Decimal::read(&self.limit.max_text), place)
    }

    fn refusal(&self, used: Amount, at: Timestamp) -> Denial<'p> {
        let limit = self.limit;
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
        Denial { rule: Cow::Borrowed(&limit.rule), message, retry_after, unavailable: None }
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

/// Formats a wait in a unit that people use, rounded up.
fn wait(millis: u64) -> String {
    let seconds = millis.div_ceil(1000);
    match seconds {
        0..=120 => format!("{seconds} s"),
        121..=7_200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}

fn per(window: Window) -> String {
    match window {
        Window::Minute | Window::Hour | Window::Day => format!("per {window}"),
        Window::Seconds(1) => "per second".into(),
        Window::Seconds(seconds) => format!("per {seconds} s"),
    }
}
