//! Steps 2 and 3: whether the tool is available, and so whether `tools/list` shows it.

use serde_json::Value;

use super::Facts;
use super::entry::{matching, written};
use super::pattern::{is_category, matches, names, texts};

/// Whether a tool is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is hidden: `(hidden)`.
    Hidden,
    /// The answer depends on a definition that is not known: `(unknown tool)`.
    Unknown,
    /// It is not listed, and the default is to deny: `(default deny)`.
    DefaultDeny,
    /// It is available, as far as these steps go.
    Available,
}

/// Judges steps 2 and 3.
pub(crate) fn check_availability(policy: &Value, tool: &str, facts: &Facts) -> Availability {
    let hides = hides(policy);
    // What hides by name hides without any knowledge of the definition; categories
    // match only where it is known.
    if hides.iter().any(|hide| hide.covers(tool) && matches(&hide.pattern, tool, facts)) {
        return Availability::Hidden;
    }
    let known = matches!(facts, Facts::Known { .. });
    if !known && (hides.iter().any(|hide| hide.open_category(tool)) || category_entry(policy, tool))
    {
        return Availability::Unknown;
    }
    if *facts == Facts::NotInList && !hides.is_empty() {
        return Availability::Unknown;
    }
    if matching(policy, tool, facts).is_empty() && policy["default"] != "allow" {
        return Availability::DefaultDeny;
    }
    Availability::Available
}

/// Whether the tool is shown in `tools/list`.
///
/// Under enforcement a list leaves out unavailable tools: hidden ones, unlisted ones under
/// `default: "deny"`, and those for which the answer is unknown. In shadow mode it leaves
/// out only tools that are hidden or might be.
pub(crate) fn listed_in_view(policy: &Value, tool: &str, facts: &Facts) -> bool {
    let availability = check_availability(policy, tool, facts);
    if policy["mode"] == "shadow" {
        let known = matches!(facts, Facts::Known { .. });
        let maybe_hidden = !known && hides(policy).iter().any(|hide| hide.open_category(tool));
        return availability != Availability::Hidden && !maybe_hidden;
    }
    availability == Availability::Available
}

/// One thing the policy hides.
struct Hide {
    pattern: String,
    except: Option<Value>,
}

impl Hide {
    /// Whether `except` leaves the tool in.
    fn covers(&self, tool: &str) -> bool {
        !names(self.except.as_ref(), tool)
    }

    /// Whether this hides by category and might hide the tool.
    fn open_category(&self, tool: &str) -> bool {
        is_category(&self.pattern) && self.covers(tool)
    }
}

/// All that the policy hides: the list `hide`, and every rule whose action is `hide`.
fn hides(policy: &Value) -> Vec<Hide> {
    let mut all: Vec<Hide> = texts(policy.get("hide"))
        .into_iter()
        .map(|pattern| Hide { pattern, except: None })
        .collect();
    let mut rules = written(policy);
    // The pattern of `all_tools` is every tool.
    rules.extend(policy.get("all_tools").map(|rule| ("*", rule)));
    rules.retain(|(_, rule)| rule["action"] == "hide");
    all.extend(rules.into_iter().map(|(pattern, rule)| Hide {
        pattern: pattern.to_owned(),
        except: rule.get("except").cloned(),
    }));
    all
}

/// Whether the policy hides any tool.
pub(crate) fn hides_anything(policy: &Value) -> bool {
    !hides(policy).is_empty()
}

/// Whether an entry of `tools` selects by category and might apply to the tool.
fn category_entry(policy: &Value, tool: &str) -> bool {
    written(policy).iter().any(|(key, rule)| is_category(key) && !names(rule.get("except"), tool))
}
