//! Patterns: names, names with `*`, and categories, with the `except` that stands
//! beside them.

use serde_json::Value;

use super::Facts;

/// Whether a pattern selects by category; no tool can be named by a pattern that begins
/// so.
pub(crate) fn is_category(pattern: &str) -> bool {
    pattern.starts_with('@')
}

/// Whether a text matches a name in which every `*` stands for any run of characters,
/// the empty one included.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // `reached[n]` says that the part of the pattern read so far can match the first
    // `n` characters.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for wanted in pattern.chars() {
        let before = reached.clone();
        for n in 0..=text.len() {
            reached[n] = if wanted == '*' {
                before[..=n].contains(&true)
            } else {
                n > 0 && before[n - 1] && text[n - 1] == wanted
            };
        }
    }
    reached[text.len()]
}

/// Whether a list of tool names, such as `except`, holds this tool. Tool names are exact.
pub(crate) fn names(list: Option<&Value>, tool: &str) -> bool {
    texts(list).iter().any(|name| name == tool)
}

/// The strings of a list; nothing where there is no list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).cloned().unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether a pattern matches a tool. A category matches nothing while the definition is
/// not known; that this must not be read as "does not apply" is for the caller to see
/// to.
pub(crate) fn matches(pattern: &str, tool: &str, facts: &Facts) -> bool {
    match facts {
        Facts::Known { category, .. } if is_category(pattern) => {
            pattern.strip_prefix('@') == Some(category)
        }
        _ if is_category(pattern) => false,
        _ => glob(pattern, tool),
    }
}
