//! A row of the log: records of one chain that were written together. What they
//! have in common, which is most of it, is in it once.
//!
//! A row begins with its version, the writer's name, and the hash of the record
//! before. Then come the records, each with the first bytes of its hash, to tell
//! which was changed if one was; the number of its form, and the form itself if
//! that is new; and what the form leaves open. A form is JSON text with a control
//! character for each thing left open, and ends with one; JSON text has none of
//! its own. In place of a form there may be the number by which the database keeps
//! it (`forms.rs`). Last comes the hash of the last record. The first version of the store
//! wrote a row for each record, as text; that can still be read.

pub(crate) mod bytes;
mod forms;
mod row;

use bytes::{Last, push_number, push_text};
use forms::Forms;

use crate::{
    chain::{Chain, Hash},
    record::{Line, Own},
};

pub(crate) use forms::KEPT_FOR;
pub(crate) use row::Row;

const VERSION: u8 = 1;
/// Records a row may have.
pub(crate) const MOST_RECORDS: i64 = 256;
/// Bytes of text after which it takes no more, so that what is read for one record
/// is bounded.
const MOST_TEXT: usize = 1 << 20;
/// Forms a record's own is looked for among, the newest first.
const MOST_COMPARED: usize = 16;

/// What ends a form, and what stands in it for what is left open.
const END: u8 = 0;
const ID: u8 = 1;
const MOMENT: u8 = 2;
const DIGEST: u8 = 3;
const NUMBER: u8 = 4;
const TEXT: u8 = 5;
/// What stands before the number of a form that is kept.
const KEPT: u8 = 6;

/// The first bytes of a hash.
type Check = [u8; 2];

fn check(hash: &Hash) -> Check {
    hash.first_chunk().copied().unwrap_or_default()
}

/// How much is in a row.
#[derive(Debug, Default)]
struct Size {
    records: i64,
    /// Bytes of their texts, without what chains them.
    text: usize,
}

impl Size {
    fn add(&mut self, text: usize) {
        self.records += 1;
        self.text = self.text.saturating_add(text);
    }

    fn is_full(&self) -> bool {
        self.records >= MOST_RECORDS || self.text >= MOST_TEXT
    }
}

/// A row that is being written.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    bytes: Vec<u8>,
    /// The forms in it, one after the other.
    texts: String,
    /// Where in those each begins and ends.
    forms: Vec<(usize, usize)>,
    kept: Forms,
}

impl Sheet {
    /// Writes records that go on a chain, which moves on, until there are no more or
    /// the row is full: how many, and the row's body. They follow the record `newest`.
    pub(crate) fn write<'l>(
        &mut self,
        chain: &mut Chain,
        newest: i64,
        lines: impl Iterator<Item = &'l mut Line>,
    ) -> (i64, &[u8]) {
        self.bytes.clear();
        self.texts.clear();
        self.forms.clear();
        self.bytes.push(VERSION);
        push_text(&mut self.bytes, chain.writer());
        self.bytes.extend_from_slice(chain.last());
        let (mut size, mut last) = (Size::default(), Last::default());
        let mut lines = lines;
        while !size.is_full()
            && let Some(line) = lines.next()
        {
            size.add(line.lend(|text| {
                let length = text.len();
                chain.link(text);
                length
            }));
            self.bytes.extend_from_slice(&check(chain.last()));
            self.write_form(line, newest);
            self.write_own(line, &mut last);
        }
        self.bytes.extend_from_slice(chain.last());
        (size.records, &self.bytes)
    }

    /// Has the database keep forms that are worth it, now that the record `newest`
    /// is the last.
    pub(crate) fn keep_forms<E>(
        &mut self,
        newest: i64,
        keep: impl FnMut(&str) -> Result<i64, E>,
    ) -> Result<(), E> {
        self.kept.keep(newest, keep)
    }

    /// Forgets what the database keeps.
    pub(crate) fn forget_forms(&mut self) {
        self.kept = Forms::default();
    }

    /// Writes a record's form, or the number of the same one before.
    fn write_form(&mut self, line: &Line, newest: i64) {
        let start = self.texts.len();
        for (part, own) in line.parts() {
            self.texts.push_str(part);
            self.texts.extend(own.map(|own| char::from(sign(own))));
        }
        let form = self.texts.get(start..).unwrap_or_default();
        let mut last = self.forms.iter().enumerate().rev().take(MOST_COMPARED);
        let known = last.find(|(_, (start, end))| self.texts.get(*start..*end) == Some(form));
        if let Some((known, _)) = known {
            push_number(&mut self.bytes, known as u128);
            return self.texts.truncate(start);
        }
        push_number(&mut self.bytes, self.forms.len() as u128);
        if let Some(number) = self.kept.number(form, newest) {
            self.bytes.push(KEPT);
            push_number(&mut self.bytes, i128::from(number).cast_unsigned());
        } else {
            self.bytes.extend_from_slice(form.as_bytes());
            self.bytes.push(END);
        }
        self.forms.push((start, self.texts.len()));
    }

    /// Writes what a record's form leaves open.
    fn write_own(&mut self, line: &Line, last: &mut Last) {
        for (own, text) in line.own() {
            match own {
                Own::Id(id) => last.push_id(&mut self.bytes, id),
                Own::Moment(at) => last.push_moment(&mut self.bytes, at),
                Own::Digest(digest) => self.bytes.extend_from_slice(&digest),
                Own::Number(number) => push_number(&mut self.bytes, u128::from(number)),
                Own::Text => push_text(&mut self.bytes, text),
            }
        }
    }
}

/// What stands in a form for something left open.
fn sign(own: Own) -> u8 {
    match own {
        Own::Id(_) => ID,
        Own::Moment(_) => MOMENT,
        Own::Digest(_) => DIGEST,
        Own::Number(_) => NUMBER,
        Own::Text => TEXT,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::types::ValueRef;
    use sluice_policy::Timestamp;

    use super::{MOST_RECORDS, Row, Sheet};
    use crate::{
        chain::{Chain, close},
        id::new_id,
        record::{Kind, Line, Record, UpstreamRef},
    };

    fn records(count: i64) -> Vec<Record> {
        let one = |number: i64| {
            // Clocks may go back, and be quite wrong.
            let at = Timestamp::from_millis(1_794_724_708_123 + number % 5 * 7 - number / 7 * 3);
            let at = if number == 11 { Timestamp::from_millis(i64::MIN) } else { at };
            let mut record = Record::new(new_id(at), at, Kind::Decision);
            record.request = (number % 3 > 0).then(|| new_id(Timestamp::from_millis(number << 30)));
            record.tool = Some(format!("tool {}", number % 23).into());
            record.session = (number % 2 > 0).then(|| format!("é{number}\n\"").into());
            record.arg_digest = (number % 4 > 0).then_some([number.to_le_bytes()[0]; 32]);
            record.upstream = (number % 5 > 0).then_some(UpstreamRef {
                status: None,
                is_error: Some(number % 7 > 2),
                micros: 3_u64.wrapping_pow(u32::try_from(number).unwrap()),
            });
            record
        };
        (0..count).map(one).collect()
    }

    /// A row of a database that keeps no forms.
    fn read(last: i64, body: ValueRef<'_>) -> Option<Row> {
        Row::read(last, body, &mut |_| None)
    }

    /// What a reader of the log is to see.
    fn texts(chain: &mut Chain, records: &[Record]) -> Vec<String> {
        let complete = |record: &Record| {
            record.line().lend(|text| {
                chain.link(text);
                close(text, chain.last());
                text.clone()
            })
        };
        records.iter().map(complete).collect()
    }

    #[test]
    fn what_is_written_is_read_again_to_the_letter() {
        let records = records(100);
        let mut chains = [Chain::new("one"), Chain::new("one")];
        let mut lines: Vec<Line> = records.iter().map(Record::line).collect();
        for part in [1, 2, 7, 90] {
            let mut part: Vec<_> = lines.drain(..part).collect();
            let mut sheet = Sheet::default();
            let (count, body) = sheet.write(&mut chains[0], 0, part.iter_mut());
            let row = read(1_000, ValueRef::Blob(body)).unwrap();
            assert_eq!((row.first(), row.changed()), (1_001 - count, None));
            let count = part.len();
            assert_eq!(row.hash, *chains[0].last());
            let from = 100 - lines.len() - count;
            let expected = texts(&mut chains[1], &records[from..from + count]);
            let found: Vec<_> = row.into_records().collect();
            assert_eq!(found.last().unwrap().0, 1_000);
            assert_eq!(found.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_row_has_an_end() {
        let mut lines: Vec<Line> = records(300).iter().map(Record::line).collect();
        let mut lines = lines.iter_mut();
        let (mut sheet, mut chain) = (Sheet::default(), Chain::new("one"));
        assert_eq!(sheet.write(&mut chain, 0, &mut lines).0, MOST_RECORDS);
        let (count, body) = sheet.write(&mut chain, 0, &mut lines);
        assert_eq!(count, 300 - MOST_RECORDS);
        assert!(read(300, ValueRef::Blob(body)).is_some());
    }

    #[test]
    fn a_row_of_long_texts_ends_sooner_and_one_with_more_is_none() {
        let mut records = records(5);
        records[1].message = Some("x".repeat(1 << 20));
        let mut lines: Vec<Line> = records.iter().map(Record::line).collect();
        let mut lines = lines.iter_mut();
        let (mut sheet, mut chain) = (Sheet::default(), Chain::new("one"));
        assert_eq!(sheet.write(&mut chain, 0, &mut lines).0, 2);
        let (count, body) = sheet.write(&mut chain, 0, &mut lines);
        assert_eq!(count, 3);
        // Many records of one form, each of a few bytes: far more than were written.
        let number = body.len() - 32;
        let more = [&body[..number], &[0, 0, 9].repeat(1_000), &body[number..]].concat();
        assert!(read(1_003, ValueRef::Blob(&more)).is_none());
    }

    #[test]
    fn what_records_have_in_common_is_written_once() {
        let mut records = records(40);
        for record in &mut records {
            let Record { tool, session, request, arg_digest, upstream, .. } = record;
            *tool = Some("x".repeat(500).into());
            (*session, *request, *arg_digest, *upstream) = (None, None, None, None);
        }
        let mut lines: Vec<Line> = records.iter().map(Record::line).collect();
        let (mut sheet, mut chain) = (Sheet::default(), Chain::new("one"));
        let body = sheet.write(&mut chain, 0, lines.iter_mut()).1.len();
        assert!(body < 1_200, "{body}");
    }

    #[test]
    fn what_comes_again_is_kept_apart() {
        let records = records(4);
        let mut chains = [Chain::new("one"), Chain::new("one")];
        let (mut sheet, mut kept) = (Sheet::default(), Vec::new());
        let mut sizes = Vec::new();
        for last in 1..=3 {
            let mut line = records[3].line();
            let (_, body) = sheet.write(&mut chains[0], last - 1, [&mut line].into_iter());
            let expected = texts(&mut chains[1], &records[3..]);
            let row = Row::read(last, ValueRef::Blob(body), &mut |number| {
                kept.get(usize::try_from(number).ok()?).cloned()
            });
            let found: Vec<_> = row.unwrap().into_records().map(|(_, text)| text).collect();
            assert_eq!(found, expected);
            sizes.push(body.len());
            if last == 3 {
                // Without the form nothing is made up.
                assert!(read(last, ValueRef::Blob(body)).is_none());
            }
            sheet
                .keep_forms(last, |form| {
                    kept.push(form.to_owned());
                    Ok::<_, ()>(i64::try_from(kept.len()).unwrap() - 1)
                })
                .unwrap();
        }
        assert_eq!((sizes[0], kept.len()), (sizes[1], 1));
        assert!(sizes[2] + 100 < sizes[1], "{sizes:?}");
    }

    #[test]
    fn a_row_as_the_first_version_wrote_it_can_be_read() {
        let text = texts(&mut Chain::new("one"), &records(1)).remove(0);
        let row = read(7, ValueRef::Text(text.as_bytes())).unwrap();
        assert_eq!((row.first(), row.changed()), (7, None));
        assert_eq!(row.into_records().collect::<Vec<_>>(), [(7, text)]);
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let mut lines: Vec<Line> = records(20).iter().map(Record::line).collect();
        let (mut sheet, mut chain) = (Sheet::default(), Chain::new("one"));
        let body = sheet.write(&mut chain, 0, lines.iter_mut()).1;
        for length in 0..body.len() {
            // Where it is cut by chance between records, the last hash gives it away.
            let row = read(20, ValueRef::Blob(&body[..length]));
            assert!(row.is_none_or(|row| row.changed().is_some()), "{length}");
        }
        for bad in [ValueRef::Null, ValueRef::Text(b"{}"), ValueRef::Integer(1)] {
            assert!(read(20, bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn no_byte_of_a_row_can_be_changed_unseen() {
        let mut lines: Vec<Line> = records(5).iter().map(Record::line).collect();
        let (mut sheet, mut chain) = (Sheet::default(), Chain::new("one"));
        let body = sheet.write(&mut chain, 0, lines.iter_mut()).1.to_owned();
        let texts = |row: Row| row.into_records().collect::<Vec<_>>();
        let written = texts(read(5, ValueRef::Blob(&body)).unwrap());
        for place in 0..body.len() {
            for change in [1, 0x80, 0xff, body[place] ^ b'{', body[place] ^ super::KEPT] {
                let mut changed = body.clone();
                changed[place] ^= change;
                let row = read(5, ValueRef::Blob(&changed));
                let is_seen = |row: Row| row.changed().is_some() || texts(row) == written;
                assert!(row.is_none_or(is_seen), "{place} {change}");
            }
        }
    }
}
