//! The tools as HTTP calls: the path of each, and the names of its arguments.

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Uri,
    header::{ACCEPT, CONTENT_TYPE},
};
use sluice_wire::json::Value;
use url::form_urlencoded::Serializer;

use crate::arguments::{Arguments, Problem};

/// One tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    path: &'static str,
    way: Way,
    parameters: &'static [Parameter],
    /// Whether the Pharo image may write a screenshot for it.
    pub(crate) takes_pictures: bool,
}

/// How arguments are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In the query.
    Get,
    /// As a JSON object.
    Post,
}

/// One argument.
#[derive(Debug)]
struct Parameter {
    name: &'static str,
    sent_as: &'static str,
    kind: Kind,
}

/// The type of an argument, and its default.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    TextOr(&'static str),
    /// Sent only if it is not empty.
    OptionalText,
    Flag(bool),
    Object,
}

const fn text(name: &'static str) -> Parameter {
    of(name, Kind::Text)
}

const fn of(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, sent_as: name, kind }
}

const fn get(name: &'static str, path: &'static str, parameters: &'static [Parameter]) -> Tool {
    Tool { name, path, way: Way::Get, parameters, takes_pictures: false }
}

const fn post(name: &'static str, path: &'static str, parameters: &'static [Parameter]) -> Tool {
    Tool { name, path, way: Way::Post, parameters, takes_pictures: false }
}

const PATH: Parameter = of("path", Kind::TextOr("/tmp"));

/// The tools, in the order of the list.
static TOOLS: [Tool; 22] = [
    post("eval", "/eval", &[text("code")]),
    get("get_class_source", "/get-class-source", &[text("class_name")]),
    get(
        "get_method_source",
        "/get-method-source",
        &[text("class_name"), text("method_name"), of("is_class_method", Kind::Flag(false))],
    ),
    get("get_class_comment", "/get-class-comment", &[text("class_name")]),
    get("search_classes_like", "/search-classes-like", &[text("class_name_query")]),
    get("search_methods_like", "/search-methods-like", &[text("method_name_query")]),
    get("search_implementors", "/search-implementors", &[text("method_name")]),
    get(
        "search_references",
        "/search-references",
        &[Parameter { name: "method_name_or_symbol", sent_as: "program_symbol", kind: Kind::Text }],
    ),
    get("list_packages", "/list-packages", &[]),
    get("list_classes", "/list-classes", &[text("package_name")]),
    get("export_package", "/export-package", &[text("package_name"), PATH]),
    get("import_package", "/import-package", &[text("package_name"), PATH]),
    get("run_package_test", "/run-package-test", &[text("package_name")]),
    get("run_class_test", "/run-class-test", &[text("class_name")]),
    get("list_extended_classes", "/list-extended-classes", &[text("package_name")]),
    get("list_methods", "/list-methods", &[text("package_name")]),
    get("search_traits_like", "/search-traits-like", &[text("trait_name_query")]),
    get("search_references_to_class", "/search-references-to-class", &[text("class_name")]),
    get(
        "install_project",
        "/install-project",
        &[text("project_name"), text("repository_url"), of("load_groups", Kind::OptionalText)],
    ),
    Tool {
        takes_pictures: true,
        ..get(
            "read_screen",
            "/read-screen",
            &[of("target_type", Kind::TextOr("world")), of("capture_screenshot", Kind::Flag(true))],
        )
    },
    get("get_settings", "/get-settings", &[]),
    post("apply_settings", "/apply-settings", &[of("settings", Kind::Object)]),
];

impl Tool {
    /// The tool with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Tool> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// The HTTP request for a call with these arguments.
    pub(crate) fn request(&self, arguments: Option<Value<'_>>) -> Result<Request<Bytes>, Problem> {
        let arguments =
            Arguments::read(arguments, self.parameters.iter().map(|parameter| parameter.name))?;
        let mut request = match self.way {
            Way::Get => {
                let mut request = Request::new(Bytes::new());
                *request.uri_mut() = self.query(&arguments)?;
                request
            }
            Way::Post => {
                let mut request = Request::new(self.body(&arguments)?.into());
                *request.method_mut() = Method::POST;
                *request.uri_mut() = Uri::from_static(self.path);
                let json = HeaderValue::from_static("application/json");
                request.headers_mut().insert(CONTENT_TYPE, json);
                request
            }
        };
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
        Ok(request)
    }

    fn query(&self, arguments: &Arguments<'_>) -> Result<Uri, Problem> {
        if self.parameters.is_empty() {
            return Ok(Uri::from_static(self.path));
        }
        let begin = format!("{}?", self.path);
        let end = begin.len();
        let mut query = Serializer::for_suffix(begin, end);
        for Parameter { name, sent_as, kind } in self.parameters {
            let value = match *kind {
                Kind::Text => Some(arguments.text(name)?),
                Kind::TextOr(default) => Some(arguments.text_or(name, default)?),
                Kind::OptionalText => arguments.text_or_null(name)?.filter(|text| !text.is_empty()),
                Kind::Flag(default) => {
                    Some(if arguments.flag_or(name, default)? { "true" } else { "false" })
                }
                Kind::Object => None,
            };
            if let Some(value) = value {
                query.append_pair(sent_as, value);
            }
        }
        // The text is ASCII; it fails only for a URI beyond 64 KiB.
        query.finish().parse().map_err(|_| Problem::TooLong)
    }

    /// The JSON body. Numbers keep the digits with which they were written.
    fn body(&self, arguments: &Arguments<'_>) -> Result<String, Problem> {
        let mut members = Vec::new();
        for Parameter { name, sent_as, kind } in self.parameters {
            let value = match kind {
                Kind::Object => arguments.object(name)?,
                _ => arguments.text_value(name)?,
            };
            members.push(format!("\"{sent_as}\":{value}"));
        }
        Ok(format!("{{{}}}", members.join(",")))
    }
}

#[cfg(test)]
mod tests;
