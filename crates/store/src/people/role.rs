//! Roles, and the servers that they are limited to.

use crate::name::Name;

/// The role of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything.
    Admin,
    /// Policies, and which grants have which; no credentials and no tokens.
    PolicyManager,
    /// Decides held calls.
    Approver,
    /// Reads everything, changes nothing.
    Auditor,
    /// Reads servers, policies and grants; not the log.
    Viewer,
}

impl Role {
    pub const ALL: [Role; 5] =
        [Role::Admin, Role::PolicyManager, Role::Approver, Role::Auditor, Role::Viewer];

    pub fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::PolicyManager => "policy-manager",
            Role::Approver => "approver",
            Role::Auditor => "auditor",
            Role::Viewer => "viewer",
        }
    }

    /// Parses the name of a role.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A role on all servers, or on some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub role: Role,
    /// `None`: all servers, also those that are added later.
    pub servers: Option<Vec<Name>>,
}

impl Access {
    /// A role on all servers.
    pub fn to_all(role: Role) -> Access {
        Access { role, servers: None }
    }

    /// Whether it includes a server.
    pub fn covers(&self, server: &Name) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }
}
