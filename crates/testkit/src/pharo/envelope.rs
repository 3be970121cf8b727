//! The JSON objects that an image answers with.

use sluice_wire::json::{Bounds, Document, Quoted, Value};

/// An error that a handler has raised.
#[derive(Debug, Clone)]
pub(super) struct Raised {
    description: String,
    class: &'static str,
    itself: String,
    /// Of the receiver, as JSON members.
    variables: &'static str,
}

impl Raised {
    pub(super) fn new(description: impl Into<String>, class: &'static str, itself: &str) -> Raised {
        let (description, itself) = (description.into(), itself.to_owned());
        Raised { description, class, itself, variables: "" }
    }

    pub(super) fn with_variables(self, variables: &'static str) -> Raised {
        Raised { variables, ..self }
    }

    /// A parameter that the query lacks.
    pub(super) fn missing(name: &str) -> Raised {
        let description = format!("TeaNoSuchParam: Param #{name} not found");
        Raised::new(description, "TeaRequest", "a TeaRequest")
    }

    /// A class or package that is not there.
    pub(super) fn not_found(name: &str) -> Raised {
        let description = format!("KeyNotFound: key #{name} not found in SystemDictionary");
        Raised::new(description, "SystemDictionary", "Smalltalk globals")
    }

    pub(super) fn json(&self) -> String {
        let Raised { description, class, itself, variables } = self;
        let (description, itself) = (Quoted(description), Quoted(itself));
        format!(
            "{{\"success\":false,\"error\":{{\"description\":{description},\
             \"stack_trace\":\"SisServer>>evaluate:\\nSisServer>>handle:\",\"receiver\":\
             {{\"class\":\"{class}\",\"self\":{itself},\"variables\":{{{variables}}}}}}}}}"
        )
    }
}

/// A result, which is JSON.
pub(super) fn success(result: &str) -> String {
    format!("{{\"success\":true,\"result\":{result}}}")
}

/// A value that JSON has no form for.
pub(super) fn unserialisable(class: &str, path: &str) -> String {
    if path == "/eval" {
        return format!(
            "{{\"success\":true,\"error\":{{\"description\":\"Result is a {class} instance which cannot be \
             serialized as JSON\",\"suggestion\":\"Modify the expression to return a string, \
             for example with printString\"}}}}"
        );
    }
    format!(
        "{{\"success\":false,\"error\":{{\"description\":\"JSON mapping not found for: {class}\"}}}}"
    )
}

/// A text in a posted object.
pub(super) fn member(body: &str, name: &str) -> Option<String> {
    let document = Document::parse(body, &Bounds::default()).ok()?;
    document.root().get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Texts as a list in JSON.
pub(super) fn list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<_> = texts.into_iter().map(|text| Quoted(text.as_ref()).to_string()).collect();
    format!("[{}]", quoted.join(","))
}
