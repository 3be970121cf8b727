//! Classifies tools by their definitions: category, risk, signals and findings.
//!
//! The result is evidence for policies and people; nothing is decided here.

mod assess;
mod attack;
mod category;
mod definition;
mod fact;
mod finding;
mod lexicon;
mod observe;
mod reason;
mod risk;
mod rules;
mod siblings;
mod signal;
mod visible;
mod words;

pub use assess::{Assessment, Confidence, classify};
pub use attack::{Attack, attacks};
pub use category::Category;
pub use definition::Definition;
pub use finding::{
    Finding, FindingKind, findings_in_instructions, has_hidden, is_unseen, skeleton, strip_hidden,
};
pub use reason::{Part, Reason, Spot};
pub use risk::Risk;
pub use siblings::Siblings;
pub use signal::{Signal, SignalKind};
pub use visible::{steers, visible};
