//! The policies of a server as each other's bases: what `extends` in one of them names.

use sluice_policy::{
    BaseText, Bases, Format, MOST_IN_CHAIN, MissingBase, Policy, Problem, find_base, load_extending,
};

use crate::{
    name::Name,
    server::{AttachedPolicy, Source},
};

/// A file beside a policy's own, which it extends directly or through others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseFile {
    /// As `extends` names it: `./company.json`.
    pub name: String,
    pub text: String,
    pub format: Format,
}

/// A policy with the others that it may extend.
struct AmongOthers<'p> {
    own: &'p AttachedPolicy,
    others: &'p [AttachedPolicy],
}

impl AmongOthers<'_> {
    fn policy(&self, name: &str) -> Option<&AttachedPolicy> {
        if self.own.name.as_str() == name {
            return Some(self.own);
        }
        let is_it = |policy: &&AttachedPolicy| {
            policy.server == self.own.server && policy.name.as_str() == name
        };
        self.others.iter().find(is_it)
    }

    fn find_file(&self, name: &str, holder: &str) -> Result<BaseText, MissingBase> {
        let holder = self.policy(holder).unwrap_or(self.own);
        if let Some(file) = holder.base_files.iter().find(|file| file.name == name) {
            let (text, place) = (file.text.clone().into_bytes(), holder.name.to_string());
            return Ok(BaseText { text, format: file.format, place });
        }
        let server = &holder.server;
        let (message, hint) = match holder.source {
            Source::Stored => (
                format!("`{name}` is a file, and a policy in the store can extend policies only"),
                Some(format!(
                    "put the file as a policy of its own, `sluice policy put {server} NAME FILE`, \
                     and extend it by that name"
                )),
            ),
            Source::File => (format!("there is no file `{name}` to extend"), None),
        };
        Err(MissingBase { message, hint })
    }
}

impl Bases for AmongOthers<'_> {
    fn own_name(&self) -> Option<&str> {
        Some(self.own.name.as_str())
    }

    fn find(&self, name: &str, from: Option<&BaseText>) -> Result<BaseText, MissingBase> {
        if name.starts_with("./") {
            return self.find_file(name, from.map_or(self.own.name.as_str(), |base| &base.place));
        }
        let Some(policy) = self.policy(name) else {
            let server = &self.own.server;
            return Err(MissingBase {
                message: format!("server `{server}` has no policy `{name}` to extend"),
                hint: Some(format!("those it has: sluice policy list {server}")),
            });
        };
        let text = policy.text.clone().into_bytes();
        Ok(BaseText { text, format: policy.format, place: name.to_owned() })
    }
}

impl AttachedPolicy {
    /// Compiles it with the policies that it extends, which are looked up among the others of its
    /// server.
    pub fn compile(&self, others: &[AttachedPolicy]) -> Result<Policy, Vec<Problem>> {
        load_extending(self.text.as_bytes(), self.format, &AmongOthers { own: self, others })
    }

    /// Whether it extends another policy.
    pub fn extends_another(&self) -> bool {
        self.base().is_some()
    }

    /// What `extends` names.
    fn base(&self) -> Option<String> {
        // A key can be spelt with escapes; without them, most texts need not be parsed.
        let may_extend = self.text.contains("extends") || self.text.contains('\\');
        may_extend.then(|| find_base(self.text.as_bytes(), self.format)).flatten()
    }

    /// Its version and those of the policies that it extends, the nearest first, joined by `+`:
    /// another one as soon as one of them changes.
    pub fn version_in_force(&self, others: &[AttachedPolicy]) -> String {
        self.bases(others).into_iter().fold(self.version.clone(), |versions, (_, base)| {
            versions + "+" + base.as_deref().unwrap_or("missing")
        })
    }

    /// The names of the policies that it extends and their versions, the nearest first; the last
    /// one may be missing.
    pub fn bases(&self, others: &[AttachedPolicy]) -> Vec<(String, Option<String>)> {
        let version = |base: BaseText| AttachedPolicy::version_of_bytes(&base.text);
        self.chain(others).into_iter().map(|(name, base)| (name, base.map(version))).collect()
    }

    /// Whether it extends the policy of that name, directly or through others.
    pub fn depends_on(&self, name: &str, others: &[AttachedPolicy]) -> bool {
        self.chain(others).iter().any(|(base, _)| base == name)
    }

    /// The policy, not a file, that its chain ends with because there is none of that name.
    pub fn missing_base(&self, others: &[AttachedPolicy]) -> Option<Name> {
        let (name, base) = self.chain(others).pop()?;
        if base.is_none() { Name::new(&name).ok() } else { None }
    }

    /// The policies that it extends, the nearest first; the last one may be missing.
    fn chain(&self, others: &[AttachedPolicy]) -> Vec<(String, Option<BaseText>)> {
        let bases = AmongOthers { own: self, others };
        let mut chain: Vec<(String, Option<BaseText>)> = Vec::new();
        let mut next = self.base();
        while let Some(name) = next.filter(|_| chain.len() < MOST_IN_CHAIN) {
            let from = chain.last().and_then(|(_, base)| base.as_ref());
            let base = bases.find(&name, from).ok();
            next = base.as_ref().and_then(|base| find_base(&base.text, base.format));
            chain.push((name, base));
        }
        chain
    }
}
