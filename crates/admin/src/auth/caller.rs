//! Who makes a request, and what they may do.

use std::net::IpAddr;

use sluice_store::{Access, Actor, ApiToken, Name, Person, Role, Session};

use super::permission::Permission;

/// Who makes a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) proof: Proof,
    pub(crate) address: IpAddr,
}

/// What proved the identity of a caller.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    /// The admin token of the data directory.
    AdminToken,
    /// A session that a one-time link of the gateway began, for the owner of the data directory.
    OwnerSession(Session),
    /// A session of a person.
    Session(Session, Person),
    /// An API token of a person.
    ApiToken(ApiToken, Person),
}

impl Caller {
    /// The person, if the caller has an account.
    pub(crate) fn person(&self) -> Option<&Person> {
        match &self.proof {
            Proof::AdminToken | Proof::OwnerSession(_) => None,
            Proof::Session(_, person) | Proof::ApiToken(_, person) => Some(person),
        }
    }

    /// The session, if the request is part of one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.proof {
            Proof::OwnerSession(session) | Proof::Session(session, _) => Some(session),
            Proof::AdminToken | Proof::ApiToken(..) => None,
        }
    }

    /// The accesses of which each must allow a request.
    fn accesses(&self) -> impl Iterator<Item = &Access> {
        let token = match &self.proof {
            Proof::ApiToken(token, _) => Some(&token.access),
            _ => None,
        };
        self.person().map(|person| &person.access).into_iter().chain(token)
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.accesses().all(|access| {
            permission.is_of(access.role) && !(permission.is_global() && access.servers.is_some())
        })
    }

    /// Whether the caller's role includes a server.
    pub(crate) fn covers(&self, server: &Name) -> bool {
        self.accesses().all(|access| access.covers(server))
    }

    /// The same for a name that may not be valid.
    pub(crate) fn covers_text(&self, server: &str) -> bool {
        self.is_unlimited() || Name::new(server).is_ok_and(|server| self.covers(&server))
    }

    /// Whether the caller's role includes all servers.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.accesses().all(|access| access.servers.is_none())
    }

    /// The servers that the role is limited to, in words; `None` for all.
    pub(crate) fn list_servers(&self) -> Option<String> {
        let limited: Vec<_> =
            self.accesses().filter_map(|access| access.servers.as_ref()).collect();
        let (first, others) = limited.split_first()?;
        let in_all = first.iter().filter(|name| others.iter().all(|other| other.contains(name)));
        Some(in_all.map(Name::as_str).collect::<Vec<_>>().join(", "))
    }

    /// The role, in words for an error.
    pub(crate) fn role(&self) -> Role {
        self.accesses().last().map_or(Role::Admin, |access| access.role)
    }

    /// The caller as audit records name them.
    pub(crate) fn actor(&self) -> Actor {
        let address = self.address.to_string();
        match &self.proof {
            Proof::AdminToken => Actor {
                address: Some(address.into()),
                ..Actor::local("admin-token", "admin token")
            },
            Proof::OwnerSession(_) => {
                Actor { address: Some(address.into()), ..Actor::local("owner", "owner") }
            }
            Proof::Session(_, person) => person.actor(Some(&address)),
            Proof::ApiToken(token, person) => Actor {
                label: format!("{} (token {})", person.login, token.label).into(),
                ..person.actor(Some(&address))
            },
        }
    }
}
