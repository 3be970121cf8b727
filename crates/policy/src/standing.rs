//! Whether a tool is available under a policy, before any argument is checked.
//!
//! Judging calls and filtering lists both use this function, so that the visible
//! tools and the callable tools cannot differ.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::{
    decision::{Denial, JudgingStep},
    facts::Facts,
    policy::{Entry, Mode, Policy, Posture},
};

/// The entries that apply to a tool, in the order in which denials are reported.
pub(crate) type Applying<'p> = SmallVec<[&'p Entry; 8]>;

/// The longest tool name in bytes. The protocol recommends at most 128 characters.
const LONGEST_NAME: usize = 1024;

/// Why a tool is unavailable, whatever the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unavailable {
    Hidden,
    /// Its name is longer than any real one, and would only be slow to compare.
    LongName,
    /// A category may hide it, and its category is unknown.
    MaybeHidden,
    /// It is not in the server's list, and the policy hides some tools: both must look the same.
    NotInList,
    /// An entry for a category may apply, and its category is unknown.
    UnknownCategory,
    Unlisted,
    /// Its definition cannot be shown to a client.
    Withheld,
}

impl Unavailable {
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Unavailable::Hidden => "(hidden)",
            Unavailable::Unlisted => "(default deny)",
            Unavailable::Withheld => "(withheld)",
            Unavailable::LongName
            | Unavailable::MaybeHidden
            | Unavailable::NotInList
            | Unavailable::UnknownCategory => "(unknown tool)",
        }
    }

    pub(crate) fn why(self) -> &'static str {
        match self {
            Unavailable::Hidden => "the policy hides this tool",
            Unavailable::LongName => "no tool has a name of more than 1,024 bytes",
            Unavailable::MaybeHidden => {
                "a category is hidden, and this tool's definition is not known"
            }
            Unavailable::NotInList => {
                "the server does not list this tool, and a policy that hides tools forwards only listed ones"
            }
            Unavailable::UnknownCategory => {
                "an entry selects by category, and this tool's definition is not known"
            }
            Unavailable::Unlisted => "no entry names this tool, and `default` is `deny`",
            Unavailable::Withheld => "the definition of this tool cannot be shown",
        }
    }

    /// The rule id in a policy whose ids have this prefix.
    pub(crate) fn rule_in(self, prefix: &str) -> Cow<'static, str> {
        match prefix {
            "" => Cow::Borrowed(self.rule()),
            prefix => Cow::Owned(format!("{prefix}{}", self.rule())),
        }
    }

    /// The denial, which is the same for all reasons.
    pub(crate) fn denial<'p>(self, tool: &str, prefix: &str) -> Denial<'p> {
        let shown: String = tool.chars().take(LONGEST_NAME).collect();
        Denial {
            rule: self.rule_in(prefix),
            message: Cow::Owned(format!("tool `{shown}` is not available")),
            retry_after: None,
            unavailable: Some(self),
            lacks_definition: self.lacks_definition(),
            step: self.step(),
            in_shadow: false,
        }
    }

    fn step(self) -> JudgingStep {
        match self {
            Unavailable::Hidden => JudgingStep::Hide,
            Unavailable::LongName
            | Unavailable::MaybeHidden
            | Unavailable::NotInList
            | Unavailable::UnknownCategory
            | Unavailable::Withheld => JudgingStep::Unknown,
            Unavailable::Unlisted => JudgingStep::Default,
        }
    }

    /// Whether a definition that is not known is the reason.
    fn lacks_definition(self) -> bool {
        match self {
            Unavailable::MaybeHidden | Unavailable::NotInList | Unavailable::UnknownCategory => {
                true
            }
            Unavailable::Hidden
            | Unavailable::LongName
            | Unavailable::Unlisted
            | Unavailable::Withheld => false,
        }
    }
}

/// The entries of one policy, without its bases, that apply to a tool, or why it is unavailable.
pub(crate) fn standing<'p>(
    policy: &'p Policy,
    tool: &str,
    facts: Facts<'_>,
) -> Result<Applying<'p>, Unavailable> {
    if tool.len() > LONGEST_NAME {
        return Err(Unavailable::LongName);
    }
    let category = facts.category();
    if policy.hide.hides(tool, category) {
        return Err(Unavailable::Hidden);
    }
    if matches!(facts, Facts::Withheld) {
        return Err(Unavailable::Withheld);
    }
    if category.is_none() && policy.hide.depends_on_category(tool) {
        return Err(Unavailable::MaybeHidden);
    }
    if matches!(facts, Facts::NotInList) && policy.hides_something() {
        return Err(Unavailable::NotInList);
    }
    if category.is_none() && policy.tools.depends_on_category(tool) {
        return Err(Unavailable::UnknownCategory);
    }
    let mut entries: Applying<'_> = policy.tools.applying(tool, category).collect();
    if entries.is_empty() && policy.posture == Posture::Deny {
        return Err(Unavailable::Unlisted);
    }
    entries.extend(policy.all_tools.iter().filter(|entry| !entry.except.names(tool)));
    Ok(entries)
}

/// Whether a `tools/list` result shows this tool to a grant.
pub fn shows(policy: Option<&Policy>, tool: &str, facts: Facts<'_>) -> bool {
    policy.is_some_and(|policy| policy.layers().all(|layer| layer_shows(layer, tool, facts)))
}

fn layer_shows(policy: &Policy, tool: &str, facts: Facts<'_>) -> bool {
    match standing(policy, tool, facts) {
        Ok(_) => true,
        Err(
            Unavailable::Hidden
            | Unavailable::MaybeHidden
            | Unavailable::LongName
            | Unavailable::Withheld,
        ) => false,
        Err(_) => policy.mode == Mode::Shadow,
    }
}
