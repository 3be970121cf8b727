//! A row that is read.

use std::borrow::Cow;

use rusqlite::types::ValueRef;

use super::{
    Check, DIGEST, END, ID, KEPT, MOMENT, NUMBER, Size, TEXT, VERSION,
    bytes::{Last, Rest},
    check,
};
use crate::{
    chain::{Chain, Hash, close},
    digest::push_hex,
    moment,
    record::push_number,
};

/// A row that was read.
#[derive(Debug)]
pub(crate) struct Row {
    /// The number of its last record, which is its own.
    last: i64,
    /// As it was before its first record.
    chain: Chain,
    /// Of its last record.
    pub(crate) hash: Hash,
    /// Never none.
    records: Vec<(String, Check)>,
}

/// Finds a form by the number under which the database keeps it.
type Find<'f> = dyn FnMut(i64) -> Option<String> + 'f;

impl Row {
    /// `None` if it is not as any was ever written, or has a form that is not kept.
    pub(crate) fn read(last: i64, body: ValueRef<'_>, find: &mut Find<'_>) -> Option<Row> {
        match body {
            ValueRef::Text(text) => Row::of_text(last, str::from_utf8(text).ok()?),
            ValueRef::Blob(bytes) => Row::of_bytes(last, bytes, find),
            _ => None,
        }
    }

    fn of_text(last: i64, text: &str) -> Option<Row> {
        let (text, chain, hash) = Chain::split(text)?;
        Some(Row { last, chain, hash, records: vec![(text.to_owned(), check(&hash))] })
    }

    fn of_bytes(last: i64, bytes: &[u8], find: &mut Find<'_>) -> Option<Row> {
        let mut rest = Rest(bytes);
        let [VERSION] = rest.array()? else { return None };
        let chain = Chain::found(rest.text()?, rest.array()?)?;
        let (mut forms, mut records, mut known) = (Vec::new(), Vec::new(), Last::default());
        let mut size = Size::default();
        while rest.0.len() > size_of::<Hash>() {
            if size.is_full() {
                return None;
            }
            let check = rest.array()?;
            let number = rest.size()?;
            if number == forms.len() {
                forms.push(form(&mut rest, find)?);
            }
            let text = record(&mut rest, forms.get(number)?, &mut known)?;
            size.add(text.len());
            records.push((text, check));
        }
        let hash = rest.array()?;
        let is_whole = rest.0.is_empty() && !records.is_empty();
        is_whole.then_some(Row { last, chain, hash, records })
    }

    /// The number of its first record.
    pub(crate) fn first(&self) -> i64 {
        let count = i64::try_from(self.records.len()).unwrap_or(i64::MAX);
        self.last.saturating_sub(count - 1)
    }

    pub(crate) fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Its writer's chain, as it was before.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Its records, as JSON text without what chains them and without its end.
    pub(crate) fn open_texts(&self) -> impl Iterator<Item = &str> {
        self.records.iter().map(|(text, _)| text.as_str())
    }

    /// Its records with their numbers, complete. The last has the hash that was
    /// stored with it, so that whoever checks them sees if one was changed.
    pub(crate) fn into_records(self) -> impl Iterator<Item = (i64, String)> {
        let numbers = self.first()..=self.last;
        let Row { mut chain, hash, last, .. } = self;
        numbers.zip(self.records).map(move |(number, (mut text, _))| {
            chain.link(&mut text);
            close(&mut text, if number == last { &hash } else { chain.last() });
            (number, text)
        })
    }

    /// The first record that is not as it was written.
    pub(crate) fn changed(&self) -> Option<i64> {
        let mut chain = self.chain.clone();
        let mut text = String::new();
        for (number, (open, written)) in (self.first()..=self.last).zip(&self.records) {
            text.clone_from(open);
            chain.link(&mut text);
            if check(chain.last()) != *written {
                return Some(number);
            }
        }
        (*chain.last() != self.hash).then_some(self.last)
    }
}

fn form<'b>(rest: &mut Rest<'b>, find: &mut Find<'_>) -> Option<Cow<'b, str>> {
    if rest.0.first() == Some(&KEPT) {
        rest.take(1)?;
        let number = i64::try_from(rest.number()?.cast_signed()).ok()?;
        return find(number).map(Cow::Owned);
    }
    let length = rest.0.iter().position(|byte| *byte == END)?;
    let form = str::from_utf8(rest.take(length)?).ok()?;
    rest.take(1)?;
    Some(Cow::Borrowed(form))
}

/// A record's text: its form, with what that leaves open.
fn record(rest: &mut Rest<'_>, form: &str, last: &mut Last) -> Option<String> {
    let mut text = String::new();
    let mut form = form;
    while let Some(place) = form.bytes().position(|byte| byte < b' ') {
        let (before, after) = form.split_at_checked(place)?;
        text.push_str(before);
        push_own(rest, *after.as_bytes().first()?, last, &mut text)?;
        form = after.get(1..)?;
    }
    text.push_str(form);
    Some(text)
}

fn push_own(rest: &mut Rest<'_>, sign: u8, last: &mut Last, text: &mut String) -> Option<()> {
    match sign {
        ID => last.id(rest)?.push(text),
        MOMENT => moment::push(text, last.moment(rest)?),
        DIGEST => push_hex(text, &rest.array::<32>()?),
        NUMBER => push_number(text, u64::try_from(rest.number()?).ok()?),
        TEXT => text.push_str(rest.text()?),
        _ => return None,
    }
    Some(())
}
