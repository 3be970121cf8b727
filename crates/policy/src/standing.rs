//! Whether a tool is available under a policy, before any argument is checked.
//!
//! Judging calls and filtering lists both use this function, so that the visible
//! tools and the callable tools cannot differ.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::{
    decision::Denial,
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
}

impl Unavailable {
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Unavailable::Hidden => "(hidden)",
            Unavailable::Unlisted => "(default deny)",
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
        }
    }

    /// The denial, which is the same for all reasons.
    pub(crate) fn denial<'p>(self, tool: &str) -> Denial<'p> {
        let shown: String = tool.chars().take(LONGEST_NAME).collect();
        Denial {
            rule: Cow::Borrowed(self.rule()),
            message: Cow::Owned(format!("tool `{shown}` is not available")),
            retry_after: None,
            unavailable: Some(self),
        }
    }
}

/// The entries that apply to a tool, or why it is unavailable.
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
    if category.is_none() && policy.hide.depends_on_category(tool) {
        return Err(Unavailable::MaybeHidden);
    }
    if matches!(facts, Facts::NotInList) && policy.hides_anything() {
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
    let Some(policy) = policy else { return false };
    match standing(policy, tool, facts) {
        Ok(_) => true,
        Err(Unavailable::Hidden | Unavailable::MaybeHidden | Unavailable::LongName) => false,
        Err(_) => policy.mode == Mode::Shadow,
    }
}
