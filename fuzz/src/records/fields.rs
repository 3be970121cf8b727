//! The fields of records, taken from an input one after the other.

use std::sync::Arc;

use serde_json::json;
use sluice_policy::Timestamp;
use sluice_store::{Actor, GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef, new_id};

/// The first millisecond of the year 10000, whose times have another form.
const END_OF_TIME: u64 = 253_402_300_800_000;

/// What is left of an input. When it is over, everything is zero or absent.
pub(super) struct Fields<'d>(&'d [u8]);

impl<'d> Fields<'d> {
    pub(super) fn new(data: &'d [u8]) -> Fields<'d> {
        Fields(data)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn record(&mut self) -> Record {
        let at = i64::try_from(self.number() % END_OF_TIME).unwrap_or_default();
        let at = Timestamp::from_millis(at);
        let kind = self.one_of(&Kind::ALL);
        let mut record = Record::new(new_id(at), at, kind);
        record.request = self.is_set().then(|| new_id(at));
        record.server = self.take_shared();
        record.grant = self.maybe(|fields| GrantRef { id: fields.text(), label: fields.text() });
        record.principal = self.take_shared();
        record.session = self.take_shared();
        record.method = self.maybe(|fields| fields.text().to_string().into());
        record.tool = self.take_shared();
        record.outcome = self.maybe(|fields| fields.one_of(&Outcome::ALL));
        record.target = self.take_owned();
        record.actor = self.maybe(|fields| {
            let (id, label) = (fields.text(), fields.text());
            Actor { id, label, address: fields.take_shared() }
        });
        record.approval = self.take_shared();
        record.rule = self.take_shared();
        record.message = self.take_owned();
        record.policy =
            self.maybe(|fields| PolicyRef { name: fields.text(), version: fields.text() });
        let keys = self.byte() % 4;
        record.arg_keys = (0..keys).map(|_| self.text().to_string()).collect();
        record.arg_keys.sort_unstable();
        record.arg_digest = self.maybe(|fields| std::array::from_fn(|_| fields.byte()));
        record.arg_values = self.maybe(|fields| {
            json!({ fields.text().to_string(): [&*fields.text(), fields.number()] }).to_string()
        });
        record.upstream = self.maybe(|fields| UpstreamRef {
            status: fields.maybe(|fields| u16::from(fields.byte()) * 4),
            is_error: fields.maybe(Fields::is_set),
            micros: fields.number(),
        });
        record.micros = self.maybe(Fields::number);
        record
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn is_set(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.is_set().then(|| make(self))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A text of at most 255 bytes, and more where it is not UTF-8.
    fn text(&mut self) -> Arc<str> {
        let length = usize::from(self.byte()).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into()
    }

    fn take_shared(&mut self) -> Option<Arc<str>> {
        self.maybe(Fields::text)
    }

    fn take_owned(&mut self) -> Option<String> {
        self.take_shared().map(|text| text.to_string())
    }
}
