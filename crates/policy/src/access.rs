//! Access to everything that is not a tool call: resources, prompts, server requests
//! and unknown methods.

use std::fmt;

use crate::{
    pattern::Glob,
    policy::{Policy, ServerRequest},
};

/// The resources or prompts that are allowed.
#[derive(Debug)]
pub(crate) enum Access {
    Allow,
    Deny,
    /// Those that match a pattern.
    Only(Box<[Glob]>),
}

impl Policy {
    /// Whether this resource may be read. If not, the rule is `/resources`.
    pub fn permits_resource(&self, uri: &str) -> bool {
        match &self.resources {
            // A pattern restricts the location of a resource, and `..` could leave that location.
            Access::Only(_) if climbs(uri) => false,
            access => access.permits(uri),
        }
    }

    /// Whether this prompt may be used. If not, the rule is `/prompts`.
    pub fn permits_prompt(&self, name: &str) -> bool {
        self.prompts.permits(name)
    }

    /// Whether all resources are denied.
    pub fn denies_resources(&self) -> bool {
        matches!(self.resources, Access::Deny)
    }

    /// Whether all prompts are denied.
    pub fn denies_prompts(&self) -> bool {
        matches!(self.prompts, Access::Deny)
    }

    /// Whether the server may send this request to the client. If not, the rule is
    /// `/server_requests`.
    pub fn permits_server_request(&self, request: ServerRequest) -> bool {
        self.server_requests.contains(&request)
    }

    /// Whether a method that is unknown to this gateway is allowed. If not, the rule is `/methods`.
    pub fn permits_unknown_method(&self, method: &str) -> bool {
        self.methods.iter().any(|pattern| pattern.matches(method))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Allow => f.write_str("all"),
            Access::Deny => f.write_str("none"),
            Access::Only(patterns) => {
                let texts: Vec<_> =
                    patterns.iter().map(|glob| format!("`{}`", glob.text())).collect();
                write!(f, "only {}", texts.join(", "))
            }
        }
    }
}

impl Access {
    fn permits(&self, name: &str) -> bool {
        match self {
            Access::Allow => true,
            Access::Deny => false,
            Access::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }
}

/// Whether any segment of the URI is `..`, in plain or percent-encoded spelling.
fn climbs(uri: &str) -> bool {
    // URL parsers drop these three anywhere, and blanks and control characters at both ends.
    let mut plain = uri.trim_matches(|c| c <= ' ').replace(['\t', '\n', '\r'], "");
    for (encoded, character) in
        [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")]
    {
        plain = plain.replace(encoded, character);
    }
    // Some servers truncate a segment at `;`.
    plain
        .split(['/', '\\', '?', '#', ';'])
        .any(|segment| segment.trim_matches(|c| c <= ' ') == "..")
}
