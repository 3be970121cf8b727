//! Which role may make which request.
//!
//! [`RULES`] has a row for each operation of the API. A request without a row is refused, and
//! tests compare the rows with the OpenAPI document, so no route is open by omission.

use sluice_store::Role;

/// What a request needs its caller to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Use one's own account, sessions and tokens.
    OwnAccount,
    /// Read servers, policies, grants, held calls, the catalogue and the status.
    ReadConfiguration,
    /// Read the audit log.
    ReadLog,
    /// Read what is about all servers at once: metrics, and the proof that the log is whole.
    ReadOperations,
    /// Read people, and everybody's API tokens.
    ReadPeople,
    /// Change policies, and ask servers for their tools again.
    WritePolicies,
    /// Change grants. Without [`Permission::WriteGrants`]: only which policy they have.
    AttachPolicies,
    /// Create, edit, rotate and revoke grants: their tokens are credentials.
    WriteGrants,
    /// Add, edit and remove servers and their credentials.
    WriteServers,
    /// Add, edit and remove people.
    WritePeople,
}

use Permission::{
    AttachPolicies, OwnAccount, ReadConfiguration, ReadLog, ReadOperations, ReadPeople,
    WriteGrants, WritePeople, WritePolicies, WriteServers,
};

/// The permission that each operation under `/api/v1` needs, by method and path.
pub(crate) const RULES: &[(&str, &str, Permission)] = &[
    ("GET", "/servers", ReadConfiguration),
    ("POST", "/servers", WriteServers),
    ("GET", "/servers/{name}", ReadConfiguration),
    ("PATCH", "/servers/{name}", WriteServers),
    ("DELETE", "/servers/{name}", WriteServers),
    ("GET", "/servers/{name}/tools", ReadConfiguration),
    ("POST", "/servers/{name}/refresh", WritePolicies),
    ("GET", "/servers/{name}/policies", ReadConfiguration),
    ("GET", "/servers/{name}/policies/{policy}", ReadConfiguration),
    ("PUT", "/servers/{name}/policies/{policy}", WritePolicies),
    ("DELETE", "/servers/{name}/policies/{policy}", WritePolicies),
    ("GET", "/servers/{name}/policies/{policy}/versions", ReadConfiguration),
    ("POST", "/policies/check", ReadConfiguration),
    ("POST", "/policies/explain", ReadConfiguration),
    ("POST", "/policies/suggest", ReadConfiguration),
    ("GET", "/grants", ReadConfiguration),
    ("POST", "/grants", WriteGrants),
    ("GET", "/grants/{id}", ReadConfiguration),
    ("PATCH", "/grants/{id}", AttachPolicies),
    ("DELETE", "/grants/{id}", WriteGrants),
    ("POST", "/grants/{id}/rotate", WriteGrants),
    ("GET", "/grants/{id}/access", ReadConfiguration),
    ("GET", "/access", ReadConfiguration),
    ("GET", "/approvals", ReadConfiguration),
    ("GET", "/audit", ReadLog),
    ("GET", "/audit/export", ReadLog),
    ("POST", "/audit/verify", ReadOperations),
    ("POST", "/audit/heads/compare", ReadOperations),
    ("GET", "/events", ReadLog),
    ("GET", "/catalog/servers", ReadConfiguration),
    ("GET", "/catalog/servers/{slug}", ReadConfiguration),
    ("GET", "/catalog/servers/{slug}/tools/{tool}", ReadConfiguration),
    ("GET", "/status", ReadConfiguration),
    ("GET", "/openapi.json", OwnAccount),
    ("GET", "/session", OwnAccount),
    ("DELETE", "/session", OwnAccount),
    ("PUT", "/session/password", OwnAccount),
    ("POST", "/session/links", WritePeople),
    ("GET", "/people", ReadPeople),
    ("POST", "/people", WritePeople),
    ("GET", "/people/{id}", ReadPeople),
    ("PATCH", "/people/{id}", WritePeople),
    ("DELETE", "/people/{id}", WritePeople),
    ("POST", "/people/{id}/invitation", WritePeople),
    ("GET", "/tokens", OwnAccount),
    ("POST", "/tokens", OwnAccount),
    ("DELETE", "/tokens/{id}", OwnAccount),
];

/// The permission that a request needs; `None` if no row of [`RULES`] names it.
pub(crate) fn find_rule(method: &str, path: &str) -> Option<Permission> {
    // HEAD is GET without a body.
    let method = if method == "HEAD" { "GET" } else { method };
    RULES.iter().find(|rule| rule.0 == method && rule.1 == path).map(|rule| rule.2)
}

impl Permission {
    /// Whether a role includes it.
    pub(crate) fn is_of(self, role: Role) -> bool {
        match self {
            OwnAccount | ReadConfiguration => true,
            ReadLog => matches!(role, Role::Admin | Role::Auditor | Role::PolicyManager),
            ReadOperations | ReadPeople => matches!(role, Role::Admin | Role::Auditor),
            WritePolicies | AttachPolicies => matches!(role, Role::Admin | Role::PolicyManager),
            WriteGrants | WriteServers | WritePeople => role == Role::Admin,
        }
    }

    /// Whether it covers all servers at once, so that a role on some servers does not include it.
    pub(crate) fn is_global(self) -> bool {
        matches!(self, ReadOperations | ReadPeople | WritePeople)
    }

    /// The roles that include it.
    pub(crate) fn roles(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.is_of(*role))
    }
}

#[cfg(test)]
mod tests {
    use super::{Permission, RULES, Role, find_rule};

    #[test]
    fn a_request_without_a_rule_has_none() {
        assert_eq!(find_rule("HEAD", "/servers"), Some(Permission::ReadConfiguration));
        for (method, path) in [("POST", "/status"), ("GET", "/servers/"), ("get", "/servers")] {
            assert_eq!(find_rule(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn only_admins_touch_credentials_and_auditors_and_viewers_change_nothing() {
        for (method, path, permission) in RULES {
            let has_role = |role| permission.is_of(role);
            assert!(has_role(Role::Admin), "{method} {path}");
            // These read in a body what does not fit a query.
            let reads = ["/policies/", "/audit/"].iter().any(|start| path.starts_with(start));
            let is_own = *permission == Permission::OwnAccount;
            if *method != "GET" && !reads && !is_own {
                assert!(!has_role(Role::Auditor) && !has_role(Role::Viewer), "{method} {path}");
                assert!(!has_role(Role::Approver), "{method} {path}");
            }
        }
    }
}
