//! The compiled, immutable policy by which calls are judged.
//!
//! [`file`](crate::file) builds it from text. It is not serialisable on purpose:
//! the text is the policy's external representation.

use std::collections::BTreeSet;

use crate::{
    access::Access, approval::Approval, condition::Predicate, limit::Concurrency, limit::Limit,
    pattern::Glob, pattern::Pattern, pattern::PatternIndex, schema::ArgsSchema, selftest::SelfTest,
};

/// The treatment of tools that no entry selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posture {
    Allow,
    Deny,
}

/// Whether denials take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    /// Everything is judged and recorded, but only calls of hidden tools are refused.
    Shadow,
}

/// One compiled policy. The policies that it extends judge each call as well: fields hold its own
/// part, and public methods answer for all layers.
#[derive(Debug)]
pub struct Policy {
    /// What its rule ids begin with: nothing, or the name of a base and `:`.
    pub(crate) prefix: Box<str>,
    /// The policies that it extends, directly or not, the last of the chain first; their own
    /// `bases` are empty.
    pub(crate) bases: Box<[Policy]>,
    pub(crate) description: Option<Box<str>>,
    pub(crate) posture: Posture,
    pub(crate) mode: Mode,
    /// The policy-level `validate_args`.
    pub(crate) validate_args: bool,
    /// Its rule id.
    pub(crate) validate_args_rule: Box<str>,
    pub(crate) hide: Hide,
    pub(crate) tools: Tools,
    pub(crate) all_tools: Option<Entry>,
    pub(crate) resources: Access,
    pub(crate) prompts: Access,
    pub(crate) server_requests: Box<[ServerRequest]>,
    pub(crate) methods: Box<[Glob]>,
    pub(crate) tests: Box<[SelfTest]>,
    /// The most steps that the regexes of one call take for each byte of its arguments.
    pub(crate) steps_per_byte: u64,
}

/// A request that a server may send to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRequest {
    Sampling,
    Elicitation,
    Roots,
}

impl ServerRequest {
    /// All of them.
    pub const ALL: [ServerRequest; 3] =
        [ServerRequest::Sampling, ServerRequest::Elicitation, ServerRequest::Roots];

    /// Its name in policies.
    pub fn name(self) -> &'static str {
        match self {
            ServerRequest::Sampling => "sampling",
            ServerRequest::Elicitation => "elicitation",
            ServerRequest::Roots => "roots",
        }
    }

    /// The request with this name.
    pub fn from_name(name: &str) -> Option<ServerRequest> {
        ServerRequest::ALL.into_iter().find(|request| request.name() == name)
    }
}

/// Names that are excluded from a pattern.
#[derive(Debug, Default, Clone)]
pub(crate) struct Except(Box<[Box<str>]>);

impl Except {
    pub(crate) fn new(mut names: Vec<Box<str>>) -> Except {
        names.sort_unstable();
        Except(names.into())
    }

    pub(crate) fn names(&self, tool: &str) -> bool {
        self.0.binary_search_by(|name| (**name).cmp(tool)).is_ok()
    }
}

/// The hidden tools.
#[derive(Debug, Default)]
pub(crate) struct Hide {
    patterns: Box<[(Pattern, Except)]>,
    index: PatternIndex,
}

impl Hide {
    pub(crate) fn new(patterns: Vec<(Pattern, Except)>) -> Hide {
        let index = PatternIndex::new(patterns.iter().map(|(pattern, _)| pattern));
        Hide { patterns: patterns.into(), index }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether exactly this pattern is in the list.
    pub(crate) fn has(&self, pattern: &str) -> bool {
        self.patterns.iter().any(|(hidden, _)| hidden.text() == pattern)
    }

    /// Whether a pattern hides the tool.
    pub(crate) fn hides(&self, tool: &str, category: Option<sluice_classify::Category>) -> bool {
        self.index.matches(tool, category).iter().any(|number| self.selects(*number, tool))
    }

    /// Whether the tool would be hidden if it had a certain category.
    pub(crate) fn depends_on_category(&self, tool: &str) -> bool {
        self.index.categories().any(|number| self.selects(number, tool))
    }

    fn selects(&self, number: u32, tool: &str) -> bool {
        self.patterns.get(number as usize).is_some_and(|(_, except)| !except.names(tool))
    }
}

/// The entries of `tools`, in the order in which denials are reported.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    entries: Box<[Entry]>,
    index: PatternIndex,
}

impl Tools {
    /// Sorts and indexes the entries.
    pub(crate) fn new(mut entries: Vec<(Pattern, Entry)>) -> Tools {
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let index = PatternIndex::new(entries.iter().map(|(pattern, _)| pattern));
        Tools { entries: entries.into_iter().map(|(_, entry)| entry).collect(), index }
    }

    /// The entry with exactly this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// The entries that apply to a tool.
    pub(crate) fn applying(
        &self,
        tool: &str,
        category: Option<sluice_classify::Category>,
    ) -> impl Iterator<Item = &Entry> {
        let numbers = self.index.matches(tool, category);
        numbers.into_iter().filter_map(move |number| {
            self.entries.get(number as usize).filter(|entry| !entry.except.names(tool))
        })
    }

    /// Whether another entry would apply if the tool had a certain category.
    pub(crate) fn depends_on_category(&self, tool: &str) -> bool {
        self.index
            .categories()
            .filter_map(|number| self.entries.get(number as usize))
            .any(|entry| !entry.except.names(tool))
    }
}

/// One rule, after expanding short forms.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The key as written; `all_tools` for the entry of that name.
    pub(crate) key: Box<str>,
    pub(crate) except: Except,
    pub(crate) validate: Validate,
    pub(crate) require: Box<[Predicate]>,
    pub(crate) deny_if: Box<[Predicate]>,
    pub(crate) approval: Option<Approval>,
    pub(crate) limits: Box<[Limit]>,
    pub(crate) concurrent: Option<Concurrency>,
}

/// An entry's setting for validating arguments.
#[derive(Debug)]
pub(crate) struct Validate {
    pub(crate) by: ValidateBy,
    pub(crate) rule: Box<str>,
    pub(crate) message: Option<Box<str>>,
}

#[derive(Debug)]
pub(crate) enum ValidateBy {
    /// The policy's default applies.
    Default,
    /// The policy's default does not apply.
    NotByDefault,
    /// The tool's own schema.
    Own,
    /// This schema, with its text for people.
    Schema { schema: Box<ArgsSchema>, text: Box<str> },
}

impl Policy {
    /// The policy's description.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether denials take effect.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The treatment of tools that no entry selects.
    pub fn posture(&self) -> Posture {
        self.posture
    }

    /// The policies that judge a call: those that it extends, the last of the chain first, and
    /// this one.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &Policy> {
        self.bases.iter().chain(std::iter::once(self))
    }

    /// The names of the policies that it extends, as rule ids begin with them, the nearest first.
    pub fn base_names(&self) -> impl Iterator<Item = &str> {
        self.bases.iter().rev().map(Policy::base_name)
    }

    /// The name of a base, as `extends` gives it.
    fn base_name(&self) -> &str {
        self.prefix.strip_suffix(':').unwrap_or_default()
    }

    /// The base that a rule belongs to, unless it is a rule of the policy itself.
    pub(crate) fn base_of_rule(&self, rule: &str) -> Option<&str> {
        let base = self.bases.iter().find(|base| rule.starts_with(&*base.prefix))?;
        Some(base.base_name())
    }

    /// Whether any tool may be hidden.
    pub fn hides_anything(&self) -> bool {
        self.layers().any(Policy::hides_something)
    }

    /// Whether it hides tools itself.
    pub(crate) fn hides_something(&self) -> bool {
        !self.hide.is_empty()
    }

    /// Whether a decision may depend on the tools' definitions: then the server's list is needed
    /// before a call can be judged.
    pub fn depends_on_definitions(&self) -> bool {
        self.layers().any(Policy::needs_definitions)
    }

    fn needs_definitions(&self) -> bool {
        let own_schema = |entry: &Entry| matches!(entry.validate.by, ValidateBy::Own);
        let selects_by_category = |index: &PatternIndex| index.categories().next().is_some();
        self.hides_something()
            || self.validate_args
            || selects_by_category(&self.tools.index)
            || self.tools.entries.iter().chain(&self.all_tools).any(own_schema)
    }

    /// The most steps that searching a call's arguments may take, if they are so long in bytes.
    pub fn search_steps(&self, bytes: usize) -> u64 {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let steps = self.layers().map(|layer| layer.steps_per_byte.saturating_mul(bytes));
        steps.fold(0, u64::saturating_add)
    }

    /// Whether the policy-level `validate_args` applies to a call with these entries.
    pub(crate) fn validates_by_default(&self, entries: &[&Entry]) -> bool {
        let waived = |entry: &&Entry| matches!(entry.validate.by, ValidateBy::NotByDefault);
        self.validate_args && !entries.iter().any(waived)
    }

    /// The names of all counters, in order.
    pub fn counters(&self) -> BTreeSet<&str> {
        let entries = self.layers().flat_map(Policy::entries);
        entries.flat_map(|entry| &entry.limits).map(Limit::counter).collect()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.tools.entries.iter().chain(&self.all_tools)
    }

    /// The rules that bound calls in progress.
    pub fn concurrencies(&self) -> impl Iterator<Item = &Concurrency> {
        let entries = self.layers().flat_map(Policy::entries);
        entries.filter_map(|entry| entry.concurrent.as_ref())
    }

    /// The tools that the policy names exactly.
    pub(crate) fn exact_names(&self) -> impl Iterator<Item = &str> {
        self.layers().flat_map(|layer| {
            let excepted = layer.entries().flat_map(|entry| entry.except.0.iter());
            layer
                .tools
                .index
                .exact_names()
                .chain(layer.hide.index.exact_names())
                .chain(excepted.map(|name| &**name))
        })
    }

    /// The patterns and categories by which entries and `hide` select tools.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        let texts = self.layers().flat_map(|layer| {
            let hidden = layer.hide.patterns.iter().map(|(pattern, _)| pattern.text());
            hidden.chain(layer.tools.entries.iter().map(|entry| &*entry.key))
        });
        texts.filter(|text| text.contains('*') || text.starts_with('@'))
    }
}
