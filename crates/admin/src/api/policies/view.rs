//! The shapes of policies in requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_policy::Format;
use sluice_store::{AttachedPolicy, PolicyVersion};
use utoipa::ToSchema;

use super::super::{problem::PolicyProblem, servers::DeclarationSource};
use crate::schema::{ObjectName, PolicyDocument};

/// The policies of a server, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyList {
    pub(crate) policies: Vec<PolicySummary>,
}

/// A policy without its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicySummary {
    #[schema(value_type = ObjectName)]
    server: String,
    #[schema(value_type = ObjectName)]
    name: String,
    /// A digest of the text.
    version: String,
    format: PolicyFormat,
    source: DeclarationSource,
}

/// A policy with its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyView {
    #[schema(value_type = ObjectName)]
    server: String,
    #[schema(value_type = ObjectName)]
    name: String,
    /// A digest of the text.
    version: String,
    format: PolicyFormat,
    source: DeclarationSource,
    /// The policy as it was written.
    text: String,
}

/// The language of a policy's text.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PolicyFormat {
    Json,
    Yaml,
}

/// Every stored version of a policy, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionList {
    pub(crate) versions: Vec<VersionView>,
}

/// A version of a policy.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionView {
    /// A digest of the text.
    version: String,
    format: PolicyFormat,
    /// When it was put in force.
    #[schema(format = DateTime)]
    at: String,
    /// The policy as it was written.
    text: String,
}

/// The server to suggest a policy for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuggestRequest {
    #[schema(value_type = ObjectName)]
    pub(crate) server: String,
}

/// A policy to start from.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicySuggestion {
    #[schema(value_type = ObjectName)]
    pub(crate) server: String,
    #[schema(value_type = PolicyDocument)]
    pub(crate) policy: Value,
    /// What the policy does, in words.
    pub(crate) effect: Vec<String>,
}

/// The result of checking a policy.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckResult {
    /// Whether there are no problems.
    pub(crate) ok: bool,
    pub(crate) problems: Vec<PolicyProblem>,
}

impl PolicySummary {
    pub(crate) fn of(policy: &AttachedPolicy) -> PolicySummary {
        PolicySummary {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version.clone(),
            format: policy.format.into(),
            source: policy.source.into(),
        }
    }
}

impl PolicyView {
    pub(crate) fn of(policy: AttachedPolicy) -> PolicyView {
        PolicyView {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version,
            format: policy.format.into(),
            source: policy.source.into(),
            text: policy.text,
        }
    }
}

impl VersionView {
    pub(crate) fn of(PolicyVersion { policy, at }: PolicyVersion) -> VersionView {
        VersionView {
            version: policy.version,
            format: policy.format.into(),
            at: at.to_string(),
            text: policy.text,
        }
    }
}

impl From<Format> for PolicyFormat {
    fn from(format: Format) -> PolicyFormat {
        match format {
            Format::Json => PolicyFormat::Json,
            Format::Yaml => PolicyFormat::Yaml,
        }
    }
}
