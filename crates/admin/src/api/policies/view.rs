//! The shapes of policies in requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_policy::Format;
use sluice_store::{AttachedPolicy, PolicyVersion};
use utoipa::{IntoParams, ToSchema};

use super::super::{problem::PolicyProblem, servers::DeclarationSource};
use crate::schema::{ObjectName, PolicyDocument};

/// The policies of a server, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyList {
    pub(crate) policies: Vec<PolicySummary>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
}

/// A policy without its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicySummary {
    #[schema(value_type = ObjectName)]
    server: String,
    #[schema(value_type = ObjectName)]
    pub(crate) name: String,
    /// A digest of the text.
    version: String,
    format: PolicyFormat,
    pub(crate) source: DeclarationSource,
    /// The policies that it extends, the nearest first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    extends: Vec<BaseSummary>,
}

/// A policy that another one extends.
#[derive(Serialize, ToSchema)]
pub(crate) struct BaseSummary {
    /// The name of a policy of the server, or `./` and that of a file.
    name: String,
    /// A digest of its text; `null` if it is missing, so that the policy is not in force.
    #[schema(required)]
    version: Option<String>,
}

/// A file beside a policy's own that it extends.
#[derive(Serialize, ToSchema)]
pub(crate) struct BaseFileView {
    /// As the policy names it: `./` and the name of the file.
    name: String,
    format: PolicyFormat,
    text: String,
}

/// A policy with its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyView {
    #[schema(value_type = ObjectName)]
    server: String,
    #[schema(value_type = ObjectName)]
    name: String,
    /// A digest of the text.
    pub(crate) version: String,
    format: PolicyFormat,
    source: DeclarationSource,
    /// The policy as it was written.
    text: String,
    /// The policies that it extends, the nearest first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    extends: Vec<BaseSummary>,
    /// The files among them; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    base_files: Vec<BaseFileView>,
    /// What loads and has no effect, or another one than it seems to have: only when it is put in
    /// force, and absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(crate) warnings: Vec<PolicyProblem>,
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
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
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
    /// What loads and has no effect, or another one than it seems to have; absent if there is
    /// nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<PolicyProblem>,
}

/// Filters, and the page.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyQuery {
    /// Policies that are declared so.
    #[param(value_type = DeclarationSource, required = false)]
    pub(crate) source: Option<DeclarationSource>,
    /// How many to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    pub(crate) cursor: Option<String>,
}

/// The page of versions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionQuery {
    /// How many to answer with, 100 by default and at most 1000.
    #[param(value_type = u64, required = false)]
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    #[param(value_type = u64, required = false)]
    pub(crate) cursor: Option<usize>,
}

/// What a policy is compared with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckQuery {
    /// The server whose tools the policy is compared with.
    #[param(value_type = ObjectName, required = false)]
    pub(crate) server: Option<String>,
}

impl BaseSummary {
    fn list(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> Vec<BaseSummary> {
        let bases = policy.bases(others).into_iter();
        bases.map(|(name, version)| BaseSummary { name, version }).collect()
    }
}

impl PolicySummary {
    pub(crate) fn of(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> PolicySummary {
        PolicySummary {
            extends: BaseSummary::list(policy, others),
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version.clone(),
            format: policy.format.into(),
            source: policy.source.into(),
        }
    }
}

impl PolicyView {
    pub(crate) fn of(policy: AttachedPolicy, others: &[AttachedPolicy]) -> PolicyView {
        let base_files = policy.base_files.iter().map(|file| BaseFileView {
            name: file.name.clone(),
            format: file.format.into(),
            text: file.text.clone(),
        });
        PolicyView {
            extends: BaseSummary::list(&policy, others),
            base_files: base_files.collect(),
            warnings: Vec::new(),
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
