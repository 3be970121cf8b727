//! The policy language, and the decision on one call.
//!
//! [`load`] turns a policy's text into a [`Policy`] or a list of all its problems. [`judge()`]
//! decides one call by it: deny, hold for a human, or allow with its [charges](Allow::charges). The
//! store compares charges with its counters; [`Allow::admit`] then says which limit was exceeded.
//! All of it is pure: no I/O, no clock, no panic, and a call that cannot be judged is denied.
//!
//! This crate is large because it also contains the parser, which reports all problems of a text
//! (`file`), explanations of decisions (`explain`) and the comparison of policies (`diff`).
//! Converting policies of another dialect is left to `policy-import`.
//!
//! `docs/policy.md` describes the language; `ARCHITECTURE.md` the path of a call.

mod access;
mod amount;
mod approval;
mod condition;
mod decimal;
mod decision;
mod default_messages;
mod diff;
mod explain;
mod facts;
pub mod file;
mod judge;
mod layers;
mod limit;
mod lint;
mod operator;
mod path;
mod pattern;
mod policy;
mod restriction;
mod schema;
mod selftest;
mod standing;
mod suggest;
mod time;
mod tool_access;
mod witness;

pub use access::{AccessDenial, AccessRequest};
pub use amount::{Amount, AmountError};
pub use approval::Terms;
pub use decimal::Decimal;
pub use decision::{Allow, Charge, Decision, Denial, Objection, Outcome};
pub use diff::{Change, Direction, PolicyDiff, ToolDiff, diff};
pub use explain::{
    ChargeReport, Explanation, Readings, Step, StepResult, UnknownCounter, explain,
    explain_with_readings,
};
pub use facts::{Facts, ToolFacts};
pub use file::{
    BaseText, Bases, Format, MOST_IN_CHAIN, MissingBase, Problem, find_base, load, load_extending,
};
pub use judge::{ArgumentsError, Call, Consent, judge};
pub use limit::{Concurrency, Limit, Scope};
pub use lint::find_warnings;
pub use operator::{PatternBudget, TextPattern, TextPatternError};
pub use path::ArgPath;
pub use policy::{Mode, Policy, Posture, ServerRequest};
pub use restriction::Restriction;
pub use selftest::TestResult;
pub use standing::shows;
pub use suggest::{
    SuggestedPolicy, Suggestion, ToolSeen, suggest_entry, suggest_policy,
    suggest_policy_by_category,
};
pub use time::{LONGEST_WINDOW, Timestamp, Window};
pub use tool_access::{
    ConcurrencyTerms, LimitTerms, ShadowTreatment, ToolAccess, Treatment, find_access,
};
