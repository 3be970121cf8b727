//! Writes missing policies of servers that are adopted already.

use std::collections::BTreeMap;

use sluice_stack::{Entry, Wrapped};

use super::{Adopt, is_yes};
use crate::{
    command::stack::{
        drafts::{self, Draft, Unusable},
        machine::Machine,
    },
    output::{BAD, GOOD, remark, visible},
};

impl Adopt {
    /// Recreates missing policies; returns whether every entry has a usable policy now.
    pub(super) fn restore_policies(
        &self,
        machine: &Machine,
        entries: &[&Entry],
    ) -> anyhow::Result<bool> {
        let memory = machine.memory()?;
        let mut is_well = true;
        let mut gone: BTreeMap<&str, Draft> = BTreeMap::new();
        for entry in entries {
            let Some(Wrapped { name, policy }) = &entry.wrapped else { continue };
            match drafts::unusable(policy) {
                None => {}
                Some(Unusable::Gone) => {
                    let draft = drafts::draft(machine, name, memory.ability(entry).as_ref());
                    gone.insert(policy, Draft { path: policy.into(), ..draft });
                }
                Some(Unusable::Broken(why)) => {
                    is_well = false;
                    let (name, policy) = (visible(&entry.name), visible(policy));
                    remark(&format!(
                        "{BAD}problem{BAD:#}: the policy of `{name}` cannot be used: {}\nhint: put `{policy}` right, or remove it and run this again\n",
                        visible(&why)
                    ))?;
                }
            }
        }
        Ok(self.write_drafts(machine, &gone)? && is_well)
    }

    fn write_drafts(
        &self,
        machine: &Machine,
        gone: &BTreeMap<&str, Draft>,
    ) -> anyhow::Result<bool> {
        for (path, draft) in gone {
            let path = visible(path);
            let is_wanted = self.consent.yes
                || (self.consent.is_asked()
                    && is_yes(&format!("The policy {path} is gone. Write it again?"))?);
            if !is_wanted {
                remark(&format!(
                    "{BAD}problem{BAD:#}: the policy {path} is gone\nhint: `--yes` writes it again\n"
                ))?;
                return Ok(false);
            }
            draft.write(machine)?;
            remark(&format!(
                "{GOOD}ok{GOOD:#}: the policy {path} was gone and has been written again\n"
            ))?;
        }
        Ok(true)
    }
}
