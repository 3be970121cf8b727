//! Determines the name and the policy of each server to be adopted. Unknown servers are scanned
//! first.

use std::collections::BTreeMap;

use sluice_stack::Entry;

use super::{Adopt, AllTerms, Refused, is_yes};
use crate::{
    command::stack::{
        drafts::{self, Draft},
        listing::ListError,
        machine::Machine,
        scan::{self, Failed},
    },
    output::{fit, remark, visible},
    wrap,
};

/// The width of a command, in columns.
const WIDTH: usize = 78;
const UNASKED: &str = "it is in a file of a project, and is not started unasked\nhint: look at its command, and name it; `--yes` starts all";

/// The name and the policy of an adopted server.
pub(super) struct Terms<'c> {
    pub(super) entry: &'c Entry,
    pub(super) name: String,
    pub(super) draft: Draft,
}

impl Adopt {
    /// Returns the name and policy of each server, by its identity. Unknown servers are scanned
    /// first; those that do not answer are left out.
    pub(super) fn terms<'c>(
        &self,
        machine: &Machine,
        open: &[&'c Entry],
        refused: &mut Vec<Refused<'c>>,
    ) -> anyhow::Result<AllTerms<'c>> {
        let mut servers = open.to_vec();
        // If several files have the same server, start the one from the user's own file.
        servers.sort_by_key(|entry| entry.is_of_project);
        let servers = scan::distinct(servers.into_iter());
        let failed =
            if self.consent.dry_run { Asked::default() } else { self.ask(machine, &servers)? };
        let mut memory = machine.memory()?;
        let mut terms = BTreeMap::new();
        for entry in servers {
            if let Some(why) = self.objection(&failed, entry) {
                // Its entries in other files are not adopted either.
                let identity = entry.identity();
                let same = open.iter().copied().filter(|other| other.identity() == identity);
                refused.extend(same.map(|entry| Refused { entry, why: why.clone() }));
                continue;
            }
            let wanted = wrap::name::name_from(&entry.name)?;
            let name = memory.name(entry, wanted.as_str());
            let ability = memory.ability(entry);
            let mut draft = drafts::draft(machine, &name, ability.as_ref());
            if ability.is_none() && self.consent.dry_run {
                draft.effect =
                    vec!["its tools are not known yet, and a dry run does not start it".to_owned()];
            }
            terms.insert(entry.identity(), Terms { entry, name, draft });
        }
        Ok(terms)
    }

    /// Scans the servers that are not known yet, if they may be started.
    fn ask(&self, machine: &Machine, servers: &[&Entry]) -> anyhow::Result<Asked> {
        let memory = machine.memory()?;
        let unknown = servers.iter().copied().filter(|entry| memory.ability(entry).is_none());
        let may_start = |entry: &&Entry| {
            !entry.is_of_project || self.consent.yes || self.which.servers.contains(&entry.name)
        };
        let (mut started, held): (Vec<&Entry>, Vec<&Entry>) = unknown.partition(may_start);
        let mut asked = Asked::default();
        if !held.is_empty() && self.consent.is_asked() && may_be_started(&held)? {
            started.extend(held);
        } else {
            asked.held = held.into_iter().map(Entry::identity).collect();
        }
        if !started.is_empty() {
            remark("Asking servers what tools they have, to write their policies:\n")?;
            asked.failed = scan::all(machine, &started)?;
        }
        Ok(asked)
    }

    /// Why a server whose tools could not be listed is not adopted.
    fn objection(&self, asked: &Asked, entry: &Entry) -> Option<String> {
        let identity = entry.identity();
        if asked.held.contains(&identity) {
            return (!self.unseen).then(|| UNASKED.to_owned());
        }
        let error = &asked.failed.iter().find(|failed| failed.identity == identity)?.error;
        let first = error.to_string().lines().next().map(str::to_owned).unwrap_or_default();
        match error {
            ListError::SignIn => Some(first),
            _ if self.unseen => None,
            _ => Some(format!("{first}\nhint: `--unseen` adopts it with a policy by categories")),
        }
    }
}

/// Servers whose tools are not known.
#[derive(Default)]
struct Asked {
    failed: Vec<Failed>,
    /// Identities of servers that were not started.
    held: Vec<String>,
}

/// Asks the user whether servers of project files may be started.
fn may_be_started(servers: &[&Entry]) -> anyhow::Result<bool> {
    remark("These are in files of projects, and asking them what tools they have starts them:\n")?;
    for entry in servers {
        let line = format!("{}: {}", visible(&entry.name), visible(&entry.transport.to_masked()));
        remark(&format!("  {}\n", fit(&line, WIDTH)))?;
    }
    is_yes("Start them?")
}
