//! `extends`: finds the policies that a policy extends, from the nearest to the last of the chain.
//!
//! A base that is missing or does not load, a cycle, and a chain that is too long are problems at
//! `extends` in the text that is loaded.

use super::{
    Format, check,
    node::{Node, Span},
    problem::{Problem, Problems},
    read,
};

/// How many policies a chain of `extends` may have, from the one that is loaded to the last base.
pub const MOST_IN_CHAIN: usize = 4;

/// The text of a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseText {
    pub text: Vec<u8>,
    pub format: Format,
    /// Where it was found, for [`Bases::find`]: a base beside it is looked for there.
    pub place: String,
}

/// Why a base cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingBase {
    pub message: String,
    pub hint: Option<String>,
}

/// The policies that another one can extend.
pub trait Bases {
    /// What others write to extend the policy that is loaded, if that is known: a base that
    /// extends it in turn makes a cycle.
    fn own_name(&self) -> Option<&str>;

    /// The base that `extends` names in the policy that is loaded or, if given, in another base.
    fn find(&self, name: &str, from: Option<&BaseText>) -> Result<BaseText, MissingBase>;
}

/// For texts that stand alone.
#[derive(Debug)]
pub(super) struct NoBases;

impl Bases for NoBases {
    fn own_name(&self) -> Option<&str> {
        None
    }

    fn find(&self, name: &str, _from: Option<&BaseText>) -> Result<BaseText, MissingBase> {
        Err(MissingBase {
            message: format!("there is no policy `{name}` to extend here"),
            hint: None,
        })
    }
}

/// The base that a text names, if it can be read.
pub fn find_base(text: &[u8], format: Format) -> Option<String> {
    let root = read(text, format, &mut Problems::default())?;
    root.get("extends")?.as_str().map(String::from)
}

/// A base that was found and checked, but not compiled.
pub(super) struct BaseTree {
    pub(super) name: String,
    pub(super) text: BaseText,
    pub(super) root: Node,
}

/// Finds the chain of a policy, the nearest base first. A problem is added where the policy says
/// `extends`; the chain ends there.
pub(super) fn read_chain(root: &Node, bases: &dyn Bases, problems: &mut Problems) -> Vec<BaseTree> {
    let Some(node) = root.get("extends") else { return Vec::new() };
    let mut chain = Vec::new();
    let mut next = node.as_str().map(String::from);
    while let Some(name) = next {
        match read_next(&name, &chain, bases) {
            Ok(base) => {
                next = base.root.get("extends").and_then(Node::as_str).map(String::from);
                chain.push(base);
            }
            Err(MissingBase { message, hint }) => {
                add(problems, node.span, message, hint);
                break;
            }
        }
    }
    chain
}

fn read_next(name: &str, chain: &[BaseTree], bases: &dyn Bases) -> Result<BaseTree, MissingBase> {
    let names = || chain.iter().map(|base| base.name.as_str());
    let path =
        || names().chain([name]).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" → ");
    if !is_base_name(name) {
        return Err(MissingBase {
            message: format!("`extends` cannot be `{name}`"),
            hint: Some(HOW_TO_NAME.into()),
        });
    }
    if bases.own_name() == Some(name) || names().any(|known| known == name) {
        let message = format!("`extends` leads in a circle: {}", path());
        let hint = Some("a policy cannot extend itself, directly or through others".into());
        return Err(MissingBase { message, hint });
    }
    if chain.len() + 1 >= MOST_IN_CHAIN {
        let message = format!(
            "the chain of `extends` is too long: at most {MOST_IN_CHAIN} policies, with this one, \
             and here it goes on: {}",
            path()
        );
        let hint = Some("write the rules of two of them into one".into());
        return Err(MissingBase { message, hint });
    }
    let text = bases.find(name, chain.last().map(|base| &base.text))?;
    let mut problems = Problems::default();
    let root = read(&text.text, text.format, &mut problems);
    if let Some(root) = &root {
        check::check(root, &mut problems);
    }
    match root {
        Some(root) if problems.is_empty() => Ok(BaseTree { name: name.into(), text, root }),
        _ => Err(describe_broken(name, problems.into_problems(&text.text).first())),
    }
}

const HOW_TO_NAME: &str = "the name of a policy of the same server: `company`; or `./` and the name \
                           of a file beside this one: `./company.json`";

/// Whether a text can name a base: a policy's name, or a file in the same folder.
fn is_base_name(name: &str) -> bool {
    if let Some(file) = name.strip_prefix("./") {
        let is_folder = matches!(file, "" | "." | "..");
        return !is_folder && !file.contains(['/', '\\', ':']) && !file.contains(char::is_control);
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(fits)
}

/// The problem of a policy whose base has one.
pub(super) fn describe_broken(name: &str, first: Option<&Problem>) -> MissingBase {
    let Some(Problem { line, column, message, hint, .. }) = first else {
        return MissingBase { message: format!("the base `{name}` cannot be loaded"), hint: None };
    };
    let message = format!("the base `{name}` has a problem at {line}:{column}: {message}");
    MissingBase { message, hint: hint.clone() }
}

pub(super) fn add(problems: &mut Problems, span: Span, message: String, hint: Option<String>) {
    match hint {
        Some(hint) => problems.add_with_hint(span, message, hint),
        None => problems.add(span, message),
    }
}
