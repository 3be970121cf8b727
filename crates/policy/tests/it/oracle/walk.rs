//! Walking a governed path through the arguments, with the look-alike check at every
//! object on the way.

use serde_json::{Map, Value};

/// Why a condition cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Something is there, but not of a type that can be judged.
    Type,
    /// An object on the way holds another key that some server would take for the
    /// governed one.
    LookAlike,
}

impl Problem {
    /// What the problem adds to the rule id.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Problem::Type => "(type)",
            Problem::LookAlike => "(look-alike)",
        }
    }
}

/// What is asked of each place where a path ends; `None` stands for an absent argument.
pub(crate) type Leaf<'a, T> = &'a dyn Fn(Option<&Value>) -> Result<T, Problem>;

/// Asks `leaf` at every place the path leads to, depth first and left to right; the
/// first problem met ends the walk.
pub(crate) fn walk<T>(args: &Value, path: &str, leaf: Leaf<'_, T>) -> Result<Vec<T>, Problem> {
    let mut steps = path.split('.');
    // The first step is the word `args`, which loading has seen to.
    steps.next();
    let steps: Vec<&str> = steps.collect();
    descend(args, &steps, leaf)
}

/// Walks the remaining steps from a value that is there.
fn descend<T>(at: &Value, steps: &[&str], leaf: Leaf<'_, T>) -> Result<Vec<T>, Problem> {
    let Some((step, rest)) = steps.split_first() else { return Ok(vec![leaf(Some(at))?]) };
    let next: Option<&Value> = match at {
        Value::Object(_) if *step == "*" => return Err(Problem::Type),
        Value::Object(object) if has_look_alike(object, step) => return Err(Problem::LookAlike),
        Value::Object(object) => object.get(*step),
        // An empty list is absent, and falls through to that below.
        Value::Array(items) if *step == "*" && items.is_empty() => None,
        Value::Array(items) if *step == "*" => {
            let mut found = Vec::new();
            for item in items {
                found.extend(descend(item, rest, leaf)?);
            }
            return Ok(found);
        }
        // A number too large for the machine is out of range of any list, and so absent.
        Value::Array(items) if is_index(step) => {
            step.parse::<usize>().ok().and_then(|index| items.get(index))
        }
        _ => return Err(Problem::Type),
    };
    match next {
        Some(next) => descend(next, rest, leaf),
        None => Ok(vec![leaf(None)?]),
    }
}

/// A list index is `0`, or digits without a leading zero.
fn is_index(step: &str) -> bool {
    step == "0"
        || (!step.is_empty()
            && !step.starts_with('0')
            && step.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an object holds a key other than the governed one that equals it once both are
/// folded. A server may also stop at a NUL; that such a key counts, and what is folded
/// beyond the page's case, blanks and NULs, are decisions taken since.
fn has_look_alike(object: &Map<String, Value>, governed: &str) -> bool {
    object.keys().filter(|key| *key != governed).any(|key| {
        let cut = key.split('\0').next().unwrap_or_default();
        fold(key) == fold(governed) || fold(cut) == fold(governed)
    })
}

/// A key without NULs, without blanks around it, and without case.
fn fold(key: &str) -> String {
    let bare = key.replace('\0', "");
    // Some programs trim control characters and the byte order mark as well.
    let blank = |char: char| char.is_whitespace() || char.is_control() || char == '\u{feff}';
    bare.trim_matches(blank).chars().map(fold_char).collect()
}

/// One character without case. Lower-casing alone misses the few characters that are
/// lower case already and still fold, and the Turkish letters that Java takes for `i`.
fn fold_char(char: char) -> String {
    match char {
        '\u{17F}' => "s".to_owned(),
        '\u{212A}' => "k".to_owned(),
        '\u{130}' | '\u{131}' => "i".to_owned(),
        'ß' | 'ẞ' => "ss".to_owned(),
        'ς' => "σ".to_owned(),
        other => other.to_lowercase().collect(),
    }
}
