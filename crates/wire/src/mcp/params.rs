//! The target of a request: the tool, resource or prompt that its parameters name.
//!
//! A parameter that another program could confuse with the checked one is refused, so that the
//! server uses the one that was checked.

use std::sync::LazyLock;

use super::method::MethodClass;
use crate::{
    json::{Kind, Value},
    look_alike::Governed,
};

/// The target in the parameters of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Target<'d> {
    /// A tool, and its arguments if there are any, which are always an object.
    Tool { name: &'d str, arguments: Option<Value<'d>> },
    /// A resource by its URI.
    Resource(&'d str),
    /// A prompt by its name.
    Prompt(&'d str),
    /// A task by its id.
    Task(&'d str),
    /// No target that policies distinguish.
    Nothing,
}

/// Why the target cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    #[error("`params` must be an object")]
    NotAnObject,
    #[error("`params.{0}` must be a string")]
    NoText(&'static str),
    #[error("`params.arguments` must be an object, found {0}")]
    Arguments(&'static str),
    #[error("`params.ref` must name a prompt or a resource")]
    Reference,
    #[error("a parameter looks like `{0}`: send `{0}` only")]
    LookAlike(&'static str),
}

/// The governed parameters, which no other may resemble.
static GOVERNED: LazyLock<[(&'static str, Governed); 6]> = LazyLock::new(|| {
    ["name", "arguments", "uri", "taskId", "ref", "type"].map(|name| (name, Governed::new(name)))
});

impl<'d> Target<'d> {
    /// The target of a request of this class.
    pub fn read(class: MethodClass, params: Option<Value<'d>>) -> Result<Target<'d>, ParamsError> {
        Ok(match class {
            MethodClass::ToolCall => tool(params)?,
            MethodClass::Resource => Target::Resource(text(object(params, &["uri"])?, "uri")?),
            MethodClass::Prompt => Target::Prompt(text(object(params, &["name"])?, "name")?),
            MethodClass::Task => Target::Task(text(object(params, &["taskId"])?, "taskId")?),
            MethodClass::Completion => reference(params)?,
            MethodClass::Always
            | MethodClass::ToolList
            | MethodClass::ResourceList
            | MethodClass::PromptList
            | MethodClass::TaskList
            | MethodClass::Listen => Target::Nothing,
        })
    }
}

fn tool(params: Option<Value<'_>>) -> Result<Target<'_>, ParamsError> {
    let params = object(params, &["name", "arguments"])?;
    let arguments = params.get("arguments");
    match arguments.map(Value::kind) {
        None | Some(Kind::Object) => Ok(Target::Tool { name: text(params, "name")?, arguments }),
        Some(kind) => Err(ParamsError::Arguments(kind.name())),
    }
}

/// The `ref` of a completion: `{"type": "ref/prompt", "name"}` or `{"type": "ref/resource",
/// "uri"}`.
fn reference(params: Option<Value<'_>>) -> Result<Target<'_>, ParamsError> {
    let reference = object(params, &["ref"])?.get("ref");
    let reference = object(reference, &["type", "name", "uri"]).map_err(|error| match error {
        ParamsError::NotAnObject => ParamsError::Reference,
        other => other,
    })?;
    match text(reference, "type")? {
        "ref/prompt" => Ok(Target::Prompt(text(reference, "name")?)),
        "ref/resource" => Ok(Target::Resource(text(reference, "uri")?)),
        _ => Err(ParamsError::Reference),
    }
}

/// The value as an object in which no key resembles those that are read.
fn object<'d>(value: Option<Value<'d>>, read: &[&'static str]) -> Result<Value<'d>, ParamsError> {
    let value = value.ok_or(ParamsError::NotAnObject)?;
    for (key, _) in value.members().ok_or(ParamsError::NotAnObject)? {
        let key = key.as_str().unwrap_or_default();
        let resembled =
            GOVERNED.iter().find(|(name, governed)| read.contains(name) && governed.resembles(key));
        if let Some((name, _)) = resembled {
            return Err(ParamsError::LookAlike(name));
        }
    }
    Ok(value)
}

fn text<'d>(object: Value<'d>, key: &'static str) -> Result<&'d str, ParamsError> {
    object.get(key).and_then(Value::as_str).ok_or(ParamsError::NoText(key))
}

#[cfg(test)]
mod tests {
    use super::{MethodClass, ParamsError, Target};
    use crate::json::{Bounds, Document};

    fn check(class: MethodClass, params: &str, expected: Result<&str, &ParamsError>) {
        let document = Document::parse(params, &Bounds::default()).unwrap();
        let found = Target::read(class, Some(document.root()));
        let shown = found.as_ref().map(|target| match target {
            Target::Tool { name, arguments } => match arguments {
                Some(arguments) => format!("{name}{arguments}"),
                None => (*name).to_owned(),
            },
            Target::Resource(text) | Target::Prompt(text) | Target::Task(text) => {
                (*text).to_owned()
            }
            Target::Nothing => String::new(),
        });
        assert_eq!(shown.as_deref().map_err(|error| *error), expected, "{params}");
    }

    #[test]
    fn targets_of_requests_are_found() {
        check(MethodClass::ToolCall, r#"{"name": "eval", "_meta": {}}"#, Ok("eval"));
        check(
            MethodClass::ToolCall,
            r#"{"arguments": {"a": 1}, "name": "eval"}"#,
            Ok(r#"eval{"a":1}"#),
        );
        check(MethodClass::Resource, r#"{"uri": "file:///x"}"#, Ok("file:///x"));
        check(MethodClass::Prompt, r#"{"name": "p", "arguments": {}}"#, Ok("p"));
        check(MethodClass::Task, r#"{"taskId": "t"}"#, Ok("t"));
        check(MethodClass::Completion, r#"{"ref": {"type": "ref/prompt", "name": "p"}}"#, Ok("p"));
        check(MethodClass::Completion, r#"{"ref": {"type": "ref/resource", "uri": "u"}}"#, Ok("u"));
        check(MethodClass::ToolList, r#"{"cursor": "c"}"#, Ok(""));
        assert_eq!(Target::read(MethodClass::ToolList, None), Ok(Target::Nothing));
    }

    #[test]
    fn look_alike_parameters_are_refused() {
        for key in ["Name", "name ", "NAME", "name\\u0000", "\\u0000name", "n\\u0061me\\t"] {
            let params = format!(r#"{{"name": "safe", "{key}": "eval"}}"#);
            check(MethodClass::ToolCall, &params, Err(&ParamsError::LookAlike("name")));
        }
        let params = r#"{"name": "x", "Arguments": {"a": 1}}"#;
        check(MethodClass::ToolCall, params, Err(&ParamsError::LookAlike("arguments")));
        let params = r#"{"ref": {"type": "ref/prompt", "Type": "ref/resource", "name": "p"}}"#;
        check(MethodClass::Completion, params, Err(&ParamsError::LookAlike("type")));
    }

    #[test]
    fn missing_and_mistyped_parameters_are_refused() {
        assert_eq!(Target::read(MethodClass::ToolCall, None), Err(ParamsError::NotAnObject));
        check(MethodClass::ToolCall, "[1]", Err(&ParamsError::NotAnObject));
        check(MethodClass::ToolCall, "{}", Err(&ParamsError::NoText("name")));
        check(MethodClass::ToolCall, r#"{"name": 1}"#, Err(&ParamsError::NoText("name")));
        let params = r#"{"name": "x", "arguments": [1]}"#;
        check(MethodClass::ToolCall, params, Err(&ParamsError::Arguments("list")));
        let params = r#"{"name": "x", "arguments": null}"#;
        check(MethodClass::ToolCall, params, Err(&ParamsError::Arguments("null")));
        check(MethodClass::Completion, r#"{"ref": "p"}"#, Err(&ParamsError::Reference));
        check(
            MethodClass::Completion,
            r#"{"ref": {"type": "ref/x"}}"#,
            Err(&ParamsError::Reference),
        );
    }
}
