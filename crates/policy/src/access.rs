//! Access to everything that is not a tool call: resources, prompts, server requests
//! and unknown methods.

use std::borrow::Cow;

use crate::{
    pattern::Glob,
    policy::{Mode, Policy, ServerRequest},
};

/// The resources or prompts that are allowed.
#[derive(Debug)]
pub(crate) enum Access {
    Allow,
    Deny,
    /// Those that match a pattern.
    Only(Box<[Glob]>),
}

/// Something that is not a tool call, and that a policy may deny.
#[derive(Debug, Clone, Copy)]
pub enum AccessRequest<'r> {
    /// Reading the resource with this URI.
    Resource(&'r str),
    Prompt(&'r str),
    ServerRequest(ServerRequest),
    /// A request of the server that no policy can permit.
    OtherServerRequest,
    /// A method that the gateway does not know.
    UnknownMethod(&'r str),
}

/// The denial of something that is not a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenial {
    pub rule: Cow<'static, str>,
    /// Whether it passes all the same, because only policies in shadow mode deny it.
    pub in_shadow: bool,
}

impl AccessRequest<'_> {
    /// The rule that denies it.
    pub fn rule(self) -> &'static str {
        match self {
            AccessRequest::Resource(_) => "/resources",
            AccessRequest::Prompt(_) => "/prompts",
            AccessRequest::ServerRequest(_) | AccessRequest::OtherServerRequest => {
                "/server_requests"
            }
            AccessRequest::UnknownMethod(_) => "/methods",
        }
    }

    /// Whether one policy permits it, without those that it extends.
    fn is_permitted(self, policy: &Policy) -> bool {
        match self {
            AccessRequest::Resource(uri) => match &policy.resources {
                // A pattern restricts the location of a resource, and `..` could leave that
                // location.
                Access::Only(_) if climbs(uri) => false,
                access => access.permits(uri),
            },
            AccessRequest::Prompt(name) => policy.prompts.permits(name),
            AccessRequest::ServerRequest(request) => policy.server_requests.contains(&request),
            AccessRequest::OtherServerRequest => false,
            AccessRequest::UnknownMethod(method) => {
                policy.methods.iter().any(|pattern| pattern.matches(method))
            }
        }
    }
}

impl Policy {
    /// Whether all policies of the chain permit it. Of several denials, one that takes effect is
    /// named, and of these the one of the base.
    pub fn check_access(&self, request: AccessRequest<'_>) -> Result<(), AccessDenial> {
        let denying = || self.layers().filter(|layer| !request.is_permitted(layer));
        let Some(first) = denying().next() else { return Ok(()) };
        let layer = denying().find(|layer| layer.mode == Mode::Enforce).unwrap_or(first);
        let rule = match &*layer.prefix {
            "" => Cow::Borrowed(request.rule()),
            prefix => Cow::Owned(format!("{prefix}{}", request.rule())),
        };
        Err(AccessDenial { rule, in_shadow: layer.mode == Mode::Shadow })
    }

    fn permits(&self, request: AccessRequest<'_>) -> bool {
        self.layers().all(|layer| request.is_permitted(layer))
    }

    /// Whether this resource may be read, if policies in shadow mode were enforced.
    pub fn permits_resource(&self, uri: &str) -> bool {
        self.permits(AccessRequest::Resource(uri))
    }

    /// The same for a prompt.
    pub fn permits_prompt(&self, name: &str) -> bool {
        self.permits(AccessRequest::Prompt(name))
    }

    /// The same for a request of the server to the client.
    pub fn permits_server_request(&self, request: ServerRequest) -> bool {
        self.permits(AccessRequest::ServerRequest(request))
    }

    /// The same for a method that is unknown to this gateway.
    pub fn permits_unknown_method(&self, method: &str) -> bool {
        self.permits(AccessRequest::UnknownMethod(method))
    }

    /// Whether a policy that is enforced denies all resources.
    pub fn denies_resources(&self) -> bool {
        self.filter_enforced().any(|layer| matches!(layer.resources, Access::Deny))
    }

    /// Whether a policy that is enforced denies all prompts.
    pub fn denies_prompts(&self) -> bool {
        self.filter_enforced().any(|layer| matches!(layer.prompts, Access::Deny))
    }

    fn filter_enforced(&self) -> impl Iterator<Item = &Policy> {
        self.layers().filter(|layer| layer.mode == Mode::Enforce)
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
